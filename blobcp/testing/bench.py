"""What a check gets to work with, and how the checks of a capability are gathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper
from blobcp.wrapping import POWERS

from .failing import NotOffered
from .medium import Medium
from .options import Options

__all__ = ["Bench", "Check", "Checks", "Look"]

Look = Callable[[], None]
"""What is left of a check until some time has passed."""


class Bench:
    """The store under check, with ids that nobody else uses.

    Args:
        medium: where the store is.
        options: how much to do.
        number: of the check; each has ids of its own.
    """

    def __init__(self, medium: Medium, options: Options, number: int) -> None:
        self.medium = medium
        self.options = options
        self.prefix = f"{medium.root}/{number}/"

    @property
    def store(self) -> CheckPointStore:
        """The store as it is open now."""
        return self.medium.store

    @property
    def deleter(self) -> CheckPointDeleter:
        """The store as one that can delete."""
        store = self.store
        if isinstance(store, CheckPointDeleter):
            return store
        raise _lacks(store, CheckPointDeleter)

    @property
    def lister(self) -> CheckPointLister:
        """The store as one that can list."""
        store = self.store
        if isinstance(store, CheckPointLister):
            return store
        raise _lacks(store, CheckPointLister)

    @property
    def swapper(self) -> CheckPointSwapper:
        """The store as one that can compare and set."""
        store = self.store
        if isinstance(store, CheckPointSwapper):
            return store
        raise _lacks(store, CheckPointSwapper)

    @property
    def expirer(self) -> CheckPointExpirer:
        """The store as one whose blobs can expire."""
        store = self.store
        if isinstance(store, CheckPointExpirer):
            return store
        raise _lacks(store, CheckPointExpirer)

    def has(self, power: type) -> bool:
        """Say whether the store has an optional power."""
        return isinstance(self.store, power)

    def get(self, checkpoint_id: str) -> object:
        """Return what the store gives for an id; it need not be what the protocol says."""
        return self.store.get(checkpoint_id)

    def id(self, tail: str) -> str:
        """Return an id of this check."""
        return self.claim(self.prefix + tail)

    def claim(self, checkpoint_id: str) -> str:
        """Return an id unchanged; what is stored under it will be removed."""
        self.medium.written.add(checkpoint_id)
        return checkpoint_id


Run = Callable[[Bench], Look | None]


@dataclass(frozen=True, slots=True)
class Check:
    """Something that should hold of a store.

    Attributes:
        capability: what it is about.
        name: what should hold.
        run: raises ``Failed`` where it does not, ``NotOffered`` where the store does not claim it. It may return what is
            to be called once the other checks of the capability were begun, and raises the same.
        needs: optional powers without which there is nothing to check.
    """

    capability: str
    name: str
    run: Run
    needs: tuple[type, ...]

    def reason_against(self, store: CheckPointStore) -> str:
        """Return why a store does not offer this; empty where it does."""
        return next((str(_lacks(store, power)) for power in self.needs if not isinstance(store, power)), "")


class Checks(list[Check]):
    """The checks of one capability, in the order in which they are written down.

    Args:
        capability: its name in the report.
        needs: optional powers that each of them needs.
    """

    def __init__(self, capability: str, *needs: type) -> None:
        super().__init__()
        self.capability = capability
        self.needs = needs

    def check(self, name: str, *needs: type) -> Callable[[Run], Run]:
        """Add the function below as a check; it may need further powers."""

        def add(run: Run) -> Run:
            self.append(Check(self.capability, name, run, (*self.needs, *needs)))
            return run

        return add


def _lacks(store: CheckPointStore, power: type) -> NotOffered:
    methods = POWERS[power]
    there = [method for method in methods if callable(getattr(store, method, None))]
    but = f", though it has {' and '.join(there)}" if there else ""
    lacking = " and ".join(method for method in methods if method not in there)
    return NotOffered(f"the store has no {lacking}{but}")
