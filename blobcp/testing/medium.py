"""Where the blobs of a run are: opening the store on it, opening it again, and closing what was opened."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from blobcp.errors import StoreError, text_of
from blobcp.store import CheckPointStore

from .awaited import AwaitedStore, is_async
from .failing import STORE_ERRORS, NotOffered, doing
from .waiting import EventLoop

__all__ = ["Again", "Medium"]


class Again(Enum):
    """What ``make_store()`` does when it is called while a store is open."""

    SAME = auto()
    """It returns the same object."""

    EMPTY = auto()
    """It opens a store that knows nothing of what the other one holds, even after that was closed."""

    LATER = auto()
    """It opens a store that sees what the other one holds once that was closed."""

    SHARED = auto()
    """It opens a store that sees what the other one holds."""

    REFUSED = auto()
    """It raises an error; only one can be open."""


class Medium:
    """Opens the store, and knows what was written into it.

    Args:
        make_store: opens the store.
        seconds: the limit of a call that is awaited.

    Raises:
        StoreError: it can't be opened, or what was opened is no store.
    """

    def __init__(self, make_store: Callable[[], object], seconds: float) -> None:
        self._make_store = make_store
        self._loop = EventLoop(seconds)
        self._opened: list[CheckPointStore] = []
        self._raw: Any = None
        self._again: Again | None = None
        self._second: CheckPointStore | None = None
        self.refusal = ""
        self.written: set[str] = set()
        self.root = f"blobcp-kit-{secrets.token_hex(16)}"
        try:
            self.store = self._open()
        except StoreError:
            self._loop.stop()
            raise
        self.name = type(self._raw).__name__

    def again(self) -> Again:
        """Say what a second call of ``make_store`` does; found out once."""
        if self._again is None:
            self._again = self._try_again()
        return self._again

    def reopen(self) -> None:
        """Close the store and open it again, as another process would later.

        Raises:
            Failed: it could not be closed or opened.
        """
        if self.again() is Again.SAME:
            raise NotOffered("make_store() returns the same object each time")
        self.close()
        with doing("opening the store again"):
            self.store = self._open()

    def second(self) -> CheckPointStore:
        """Return another opening of the store, beside the first."""
        if self._second is None:
            with doing("opening the store a second time"):
                self._second = self._open()
        return self._second

    def close(self) -> None:
        """Close all that was opened here; an object that ``make_store`` returns each time is its owner's to close.

        Raises:
            Failed: a store could not be closed.
        """
        opened, self._opened, self._second = self._opened, [], None
        if self._again is not Again.SAME:
            for store in opened:
                close = getattr(store, "close", None)
                if callable(close):
                    with doing("close()"):
                        close()

    def stop(self) -> None:
        """End what ran for the store."""
        self._loop.stop()

    def _open(self) -> CheckPointStore:
        try:
            self._raw = self._loop.call(self._make_store) if is_async(self._make_store) else self._make_store()
        except STORE_ERRORS as error:
            raise StoreError(f"make_store() could not open the store: {text_of(error)}") from error
        raw = self._raw
        missing = [method for method in ("get", "set") if not callable(getattr(raw, method, None))]
        if missing or isinstance(raw, type):
            raise StoreError(
                f"make_store() returned {raw!r}, which is no store: "
                f"it lacks {' and '.join(missing) or 'an instance'}; return an object with the methods get and set"
            )
        store: CheckPointStore = AwaitedStore(raw, self._loop) if is_async(raw.get) else raw
        self._opened.append(store)
        return store

    def _try_again(self) -> Again:
        first = self._raw
        try:
            second = self._open()
        except StoreError as error:
            self.refusal = str(error)
            return Again.REFUSED
        if self._raw is first:
            self._opened.pop()
            return Again.SAME
        # Several ids and blobs, so that a store which loses some of them is not taken for an empty one.
        probes = {f"{self.root}/probe-{number}": b"probe" * (number + 1) for number in range(4)}
        probes |= {f"{self.root}/Probe/É {number}": b"probe" for number in range(4)}
        self.written.update(probes)
        for checkpoint_id, blob in probes.items():
            self.store.set(checkpoint_id, blob)
        if any(second.get(checkpoint_id) is not None for checkpoint_id in probes):
            self._second = second
            return Again.SHARED
        self.close()
        self.store = self._open()
        found = any(self.store.get(checkpoint_id) is not None for checkpoint_id in probes)
        return Again.LATER if found else Again.EMPTY
