"""A store round another store: it shows the optional powers of the one inside, and no others."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from blobcp.errors import StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper

__all__ = ["POWERS", "StoreWrapper"]

POWERS: dict[type, tuple[str, ...]] = {
    CheckPointDeleter: ("delete",),
    CheckPointLister: ("list",),
    CheckPointSwapper: ("get_versioned", "set_if"),
    CheckPointExpirer: ("set_expiring",),
}
"""The optional powers of a store, and the methods of each."""


class StoreWrapper:
    """A base for stores that keep their blobs in another store.

    A power is found by looking at a store, so a wrapper must not have a method that its inner store lacks. A subclass
    writes what it does under names with an underscore (``_delete``, ``_list``, ``_get_versioned``, ``_set_if``,
    ``_set_expiring``; each passes the call on if it is not overridden), and an instance has ``delete``, ``list`` and so on
    where the inner store has the power.

    Args:
        store: the store inside, with plain methods.
        hides: powers that the wrapper can't keep, whatever the inner store has.

    Raises:
        StoreError: the methods of the inner store have to be awaited.

    >>> class Shouting(StoreWrapper):
    ...     def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
    ...         self.store.set(checkpoint_id, checkpoint.upper())
    >>> from blobcp.stores import MapStore
    >>> store = Shouting(MapStore(), hides=(CheckPointSwapper, CheckPointExpirer))
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), isinstance(store, CheckPointLister), isinstance(store, CheckPointExpirer)
    (b'BLOB', True, False)
    """

    # Present only where the inner store has them; that is what isinstance(wrapper, CheckPointDeleter) looks at.
    delete: Callable[[str], None]
    list: Callable[..., Iterator[str]]
    get_versioned: Callable[[str], tuple[bytes, str] | None]
    set_if: Callable[[str, bytes, str | None], str]
    set_expiring: Callable[[str, bytes, timedelta], None]

    def __init__(self, store: CheckPointStore, *, hides: tuple[type, ...] = ()) -> None:
        if inspect.iscoroutinefunction(store.get):
            raise StoreError(
                f"{type(self).__name__} can't wrap {type(store).__name__}: its methods have to be awaited; give the store's "
                "variant with plain methods, which the asyncio driver calls in a thread"
            )
        self.store = store
        self._hides = hides
        self.blocking: bool = getattr(store, "blocking", True)
        self._show_powers()

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none."""
        return self.store.get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the bytes under the id, in place of what was there."""
        self.store.set(checkpoint_id, checkpoint)

    def _delete(self, checkpoint_id: str) -> None:
        assert isinstance(self.store, CheckPointDeleter)
        self.store.delete(checkpoint_id)

    def _list(self, prefix: str = "") -> Iterator[str]:
        assert isinstance(self.store, CheckPointLister)
        return self.store.list(prefix)

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        assert isinstance(self.store, CheckPointSwapper)
        return self.store.get_versioned(checkpoint_id)

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        assert isinstance(self.store, CheckPointSwapper)
        return self.store.set_if(checkpoint_id, checkpoint, version)

    def _set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        assert isinstance(self.store, CheckPointExpirer)
        self.store.set_expiring(checkpoint_id, checkpoint, ttl)

    def _show_powers(self) -> None:
        for power, methods in POWERS.items():
            if isinstance(self.store, power) and power not in self._hides:
                for method in methods:
                    if not hasattr(type(self), method):  # a subclass may have written it under its public name
                        setattr(self, method, getattr(self, f"_{method}"))

    def __getstate__(self) -> dict[str, Any]:
        # The bound methods belong to this instance; a copy makes its own.
        bound = {method for methods in POWERS.values() for method in methods}
        return {name: value for name, value in vars(self).items() if name not in bound}

    def __setstate__(self, state: builtins.dict[str, Any]) -> None:
        vars(self).update(state)
        self._show_powers()
