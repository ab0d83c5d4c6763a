"""A store in memory, for tests and for runs that need not outlive their process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Self

from blobcp.errors import StoreUrlError
from blobcp.store import check_id

from .blobs import Blob, to_bytes
from .conflicts import conflict
from .expiry import seconds_of
from .forking import watch_forks
from .urls import options_of, shown

__all__ = ["MapStore"]


@dataclass(frozen=True, slots=True)
class _Entry:
    blob: bytes
    version: str
    expires: float | None


class MapStore:
    """Keep blobs in a dict of this process; any number of threads may use it at once.

    It promises: a read sees every write that returned before it, and bytes handed in or out are never changed by either
    side. Of several who write what they have read, one wins and the others are told. Nothing survives the process, and
    it can't be sent to another.

    >>> store = MapStore()
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), store.get("order-18")
    (b'blob', None)
    """

    blocking = False
    """Its calls return at once, so the asyncio driver need not put them into a thread."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._writes = count(1)
        self.after_fork()
        watch_forks(self)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a new store for ``map:``; there is nothing else to say in the URL.

        Raises:
            StoreUrlError: something else is said.
        """
        options_of(url, {})
        if url.partition(":")[2]:
            raise StoreUrlError(f"a store in memory has no place, so {shown(url)!r} names none; say map:")
        return cls()

    def after_fork(self) -> None:
        """Start with a free lock; a thread that held it did not come along into this process."""
        self._lock = threading.RLock()

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        entry = self._find(checkpoint_id)
        return None if entry is None else entry.blob

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep a copy of the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes.
        """
        self._keep(checkpoint_id, checkpoint, None)

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and which write of this store they are of, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        with self._lock:
            blob = self.get(checkpoint_id)
            return None if blob is None else (blob, self._entries[checkpoint_id].version)

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes only if the stored version is still this one; ``None`` means "must not exist".

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes.
            CheckpointConflictError: the version is another by now; nothing was changed.
        """
        with self._lock:
            stored = self.get_versioned(checkpoint_id)
            if (stored[1] if stored else None) != version:
                raise conflict(checkpoint_id)
            self.set(checkpoint_id, checkpoint)
            return self._entries[checkpoint_id].version

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep a copy of the bytes under the id for a time; it is counted on a clock that nobody can set.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or the time is not above zero.
        """
        self._keep(checkpoint_id, checkpoint, time.monotonic() + seconds_of(checkpoint_id, ttl))

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        check_id(checkpoint_id)
        with self._lock:
            self._entries.pop(checkpoint_id, None)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, as they were at the call.

        >>> store = MapStore()
        >>> for order in ("order-9", "order-10", "refund-1"):
        ...     store.set(order, b"")
        >>> [*store.list("order-")]
        ['order-10', 'order-9']
        """
        with self._lock:
            return iter(sorted(found for found in [*self._entries] if found.startswith(prefix) and self._find(found)))

    def _find(self, checkpoint_id: str) -> _Entry | None:
        check_id(checkpoint_id)
        with self._lock:
            entry = self._entries.get(checkpoint_id)
            if entry is not None and entry.expires is not None and entry.expires <= time.monotonic():
                del self._entries[checkpoint_id]
                return None
            return entry

    def _keep(self, checkpoint_id: str, checkpoint: Blob, expires: float | None) -> None:
        check_id(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with self._lock:
            self._entries[checkpoint_id] = _Entry(blob, str(next(self._writes)), expires)
