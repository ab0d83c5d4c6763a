"""Stores that misbehave on purpose, to see what a program makes of it.

Each is a store round another one with plain methods, and shows the optional powers of that one. What goes wrong depends
on the arguments and on the number of the call, never on chance. Any number of threads may use it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterator
from datetime import timedelta
from typing import TypeVar

from blobcp.errors import OptionError, StoreError
from blobcp.store import CheckPointStore
from blobcp.wrapping import POWERS, StoreWrapper

__all__ = ["FailingStore", "ForgetfulStore", "SlowStore", "TruncatingStore"]

T = TypeVar("T")

WRITES = ("set", "set_if", "set_expiring")
ALL = ("get", "set", *(method for methods in POWERS.values() for method in methods))


class _Counter:
    """Counts calls from 1 and says which of them are meant."""

    def __init__(self, on: int | Container[int] | None, methods: Collection[str]) -> None:
        unknown = [method for method in methods if method not in ALL]
        if unknown:
            raise OptionError(f"a store has no method {unknown[0]!r}; it may have: {', '.join(ALL)}")
        self.on = (on,) if isinstance(on, int) else on
        self.methods = methods
        self.calls = 0
        self.lock = threading.Lock()

    def meant(self, method: str) -> bool:
        """Count a call of a method and say whether something is to go wrong with it."""
        if method not in self.methods:
            return False
        with self.lock:
            self.calls += 1
            return self.on is None or self.calls in self.on


class _AroundEach(StoreWrapper):
    """Passes each call of the store inside to ``_around``."""

    def _around(self, method: str, call: Callable[[], T]) -> T:
        return call()

    def get(self, checkpoint_id: str) -> bytes | None:
        return self._around("get", lambda: super(_AroundEach, self).get(checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self._around("set", lambda: super(_AroundEach, self).set(checkpoint_id, checkpoint))

    def _delete(self, checkpoint_id: str) -> None:
        self._around("delete", lambda: super(_AroundEach, self)._delete(checkpoint_id))

    def _list(self, prefix: str = "") -> Iterator[str]:
        return self._around("list", lambda: super(_AroundEach, self)._list(prefix))

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        return self._around("get_versioned", lambda: super(_AroundEach, self)._get_versioned(checkpoint_id))

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        return self._around("set_if", lambda: super(_AroundEach, self)._set_if(checkpoint_id, checkpoint, version))

    def _set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        self._around("set_expiring", lambda: super(_AroundEach, self)._set_expiring(checkpoint_id, checkpoint, ttl))


class SlowStore(_AroundEach):
    """A store whose calls take a while longer.

    Args:
        store: the store inside.
        seconds: how much longer.
        on: the number of the call that is slow, counted from 1, or several numbers; ``None`` for each call.
        methods: the methods whose calls count; others are as fast as they are.

    Raises:
        OptionError: a store has no such method.
        StoreError: the methods of the store inside have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> store = SlowStore(MapStore(), 0.01)
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17")
    b'blob'
    """

    def __init__(
        self,
        store: CheckPointStore,
        seconds: float,
        *,
        on: int | Container[int] | None = None,
        methods: Collection[str] = ALL,
    ) -> None:
        super().__init__(store)
        self.seconds = seconds
        self.blocking = True  # whatever the store inside says: it sleeps
        self._counter = _Counter(on, methods)

    def _around(self, method: str, call: Callable[[], T]) -> T:
        if self._counter.meant(method):
            time.sleep(self.seconds)
        return call()


class FailingStore(_AroundEach):
    """A store of which some calls fail.

    Args:
        store: the store inside.
        on: the number of the call that fails, counted from 1, or several numbers, such as ``range(3, 6)``; ``None`` for
            each call.
        methods: the methods whose calls count; others never fail.
        error: makes the exception from the name of the method; a ``StoreError`` by default.
        afterwards: ``True`` carries the call out before it fails, as where a reply is lost on its way.

    Raises:
        OptionError: a store has no such method.
        StoreError: the methods of the store inside have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> store = FailingStore(MapStore(), on=2, methods=["set"])
    >>> store.set("order-17", b"first")
    >>> store.set("order-17", b"second")
    Traceback (most recent call last):
    blobcp.errors.StoreError: set failed on purpose, as call 2
    >>> store.get("order-17")
    b'first'
    """

    def __init__(
        self,
        store: CheckPointStore,
        *,
        on: int | Container[int] | None = 1,
        methods: Collection[str] = ALL,
        error: Callable[[str], Exception] | None = None,
        afterwards: bool = False,
    ) -> None:
        super().__init__(store)
        self.error = error
        self.afterwards = afterwards
        self._counter = _Counter(on, methods)

    def _around(self, method: str, call: Callable[[], T]) -> T:
        if not self._counter.meant(method):
            return call()
        if self.afterwards:
            call()
        if self.error is not None:
            raise self.error(method)
        raise StoreError(f"{method} failed on purpose, as call {self._counter.calls}")


class TruncatingStore(StoreWrapper):
    """A store that loses the end of what it is to keep, and says nothing.

    Args:
        store: the store inside.
        length: how many bytes it keeps.
        on: the number of the write that is cut off, counted from 1, or several numbers; ``None`` for each.

    Raises:
        StoreError: the methods of the store inside have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> store = TruncatingStore(MapStore(), 3, on=2)
    >>> store.set("order-17", b"a long one"); store.set("order-18", b"a long one")
    >>> store.get("order-17"), store.get("order-18")
    (b'a long one', b'a l')
    """

    def __init__(self, store: CheckPointStore, length: int, *, on: int | Container[int] | None = None) -> None:
        super().__init__(store)
        self.length = length
        self._counter = _Counter(on, WRITES)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the beginning of the bytes, where this write is one of those."""
        super().set(checkpoint_id, self._cut("set", checkpoint))

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        return super()._set_if(checkpoint_id, self._cut("set_if", checkpoint), version)

    def _set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        super()._set_expiring(checkpoint_id, self._cut("set_expiring", checkpoint), ttl)

    def _cut(self, method: str, checkpoint: bytes) -> bytes:
        return checkpoint[: self.length] if self._counter.meant(method) else checkpoint


class ForgetfulStore(StoreWrapper):
    """A store that says it has kept what it has not.

    A forgotten ``set_if`` compares nothing and returns a version that never was.

    Args:
        store: the store inside.
        on: the number of the write that is forgotten, counted from 1, or several numbers; ``None`` for each.

    Raises:
        StoreError: the methods of the store inside have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> store = ForgetfulStore(MapStore(), on=2)
    >>> store.set("order-17", b"first"); store.set("order-17", b"second")
    >>> store.get("order-17")
    b'first'
    """

    def __init__(self, store: CheckPointStore, *, on: int | Container[int] | None = None) -> None:
        super().__init__(store)
        self._counter = _Counter(on, WRITES)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the bytes, where this write is not one of those that are forgotten."""
        if not self._counter.meant("set"):
            super().set(checkpoint_id, checkpoint)

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        if self._counter.meant("set_if"):
            return "forgotten"
        return super()._set_if(checkpoint_id, checkpoint, version)

    def _set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        if not self._counter.meant("set_expiring"):
            super()._set_expiring(checkpoint_id, checkpoint, ttl)
