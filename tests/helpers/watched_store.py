"""Stores whose powers and calls a test can see and disturb: which are there, in which order they come, which fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import combinations
from typing import TypeVar

from blobcp.store import CheckPointStore
from blobcp.stores import MapStore
from blobcp.wrapping import POWERS, StoreWrapper

__all__ = ["ALL_POWERS", "POWER_SETS", "Hook", "WatchedStore", "powers_of", "with_powers"]

T = TypeVar("T")

Hook = Callable[[str, str], None]
"""Gets the name of a method and the id that it is called with."""

ALL_POWERS = frozenset(POWERS)
POWER_SETS = [frozenset(powers) for count in range(len(POWERS) + 1) for powers in combinations(POWERS, count)]
"""Every set of powers that a store can have."""


def powers_of(store: object) -> frozenset[type]:
    """Return the powers that can be found by looking at a store."""
    return frozenset(power for power in POWERS if isinstance(store, power))


def with_powers(powers: frozenset[type], store: CheckPointStore | None = None) -> StoreWrapper:
    """Return a store that has these powers alone."""
    return StoreWrapper(MapStore() if store is None else store, hides=tuple(ALL_POWERS - powers))


class WatchedStore(StoreWrapper):
    """Passes every call on, between two hooks.

    Attributes:
        quiet: the same store, unwatched.
        calls: method and id of each call, in order.
        before: called first; what it raises keeps the call from being made.
        after: called when the call has been made; what it raises takes the place of the answer.
    """

    def __init__(self, store: CheckPointStore | None = None, powers: frozenset[type] = ALL_POWERS) -> None:
        super().__init__(MapStore() if store is None else store, hides=tuple(ALL_POWERS - powers))
        self.quiet = StoreWrapper(self.store)
        self.calls: list[tuple[str, str]] = []
        self.before: Hook = _nothing
        self.after: Hook = _nothing

    def get(self, checkpoint_id: str) -> bytes | None:
        return self._watch("get", checkpoint_id, lambda: self.store.get(checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self._watch("set", checkpoint_id, lambda: self.store.set(checkpoint_id, checkpoint))

    def _delete(self, checkpoint_id: str) -> None:
        self._watch("delete", checkpoint_id, lambda: super(WatchedStore, self)._delete(checkpoint_id))

    def _list(self, prefix: str = "") -> Iterator[str]:
        return self._watch("list", prefix, lambda: super(WatchedStore, self)._list(prefix))

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        return self._watch(
            "get_versioned", checkpoint_id, lambda: super(WatchedStore, self)._get_versioned(checkpoint_id)
        )

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        def call() -> str:
            return super(WatchedStore, self)._set_if(checkpoint_id, checkpoint, version)

        return self._watch("set_if", checkpoint_id, call)

    def _set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        def call() -> None:
            super(WatchedStore, self)._set_expiring(checkpoint_id, checkpoint, ttl)

        self._watch("set_expiring", checkpoint_id, call)

    def _watch(self, method: str, checkpoint_id: str, call: Callable[[], T]) -> T:
        self.calls.append((method, checkpoint_id))
        self.before(method, checkpoint_id)
        answer = call()
        self.after(method, checkpoint_id)
        return answer


def _nothing(method: str, checkpoint_id: str) -> None:
    pass
