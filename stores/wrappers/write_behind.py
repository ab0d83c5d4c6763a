"""Saves that leave the request path: queued in memory, written to the store inside by threads."""

from __future__ import annotations

import builtins
import heapq
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Self

from blobcp.errors import StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointStore, CheckPointSwapper, check_id
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..expiry import seconds_of
from .write_queue import Change, WriteQueue

__all__ = ["WriteBehindStore"]

_SHORTEST = timedelta(milliseconds=1)


class WriteBehindStore(StoreWrapper):
    """Take saves at once and write them to the store inside a little later, in threads.

    A CRASH LOSES WHAT IS QUEUED: ``set`` RETURNS BEFORE THE BLOB IS IN THE STORE INSIDE. The ordinary end of the
    interpreter waits until everything is written.

    Changes of one id are carried out in their order; of several that wait only the last one is. Reads and lists of this
    object see what is queued; other processes do not. What could not be written is kept in `pending`. The next call of
    any kind says so, once, by a `StoreError`, and does nothing else; `flush` tries again.

    Args:
        store: where the blobs end up.
        max_pending: how many blobs may wait, those that could not be written among them; then a save waits for room.
        workers: the largest number of threads, which end when there is nothing to write.
        timeout: seconds that a save waits for room, and that a call which compares waits for its id to be written.
        compare_and_set: whether to keep the compare-and-set of the store inside. Its calls wait until their id is
            written and then go straight through, so what is saved by them is not written behind, and runs save by them.
            ``False`` hides it: runs save behind, and of two that answer one checkpoint at the same time both go on.

    Raises:
        StoreError: an argument is out of range, or the methods of the store have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> inside = MapStore()
    >>> with WriteBehindStore(inside) as store:
    ...     store.set("order-17", b"blob")
    ...     store.get("order-17")
    b'blob'
    >>> inside.get("order-17")
    b'blob'
    """

    def __init__(
        self,
        store: CheckPointStore,
        *,
        max_pending: int = 100,
        workers: int = 4,
        timeout: float = 30.0,
        compare_and_set: bool = True,
    ) -> None:
        if max_pending < 1 or workers < 1 or timeout < 0:
            raise StoreError(
                f"WriteBehindStore can't work with max_pending={max_pending!r}, workers={workers!r}, timeout={timeout!r}; "
                "give at least 1, 1 and 0"
            )
        super().__init__(store, hides=() if compare_and_set else (CheckPointSwapper,))
        self.blocking = True  # even where the store inside is not: a save may wait for room
        self.max_pending = max_pending
        self.workers = workers
        self.timeout = timeout
        self._open()

    @property
    def pending(self) -> builtins.dict[str, bytes | None]:
        """What is not in the store inside, because it waits or could not be written; ``None`` for a blob to delete."""
        return {checkpoint_id: change.blob for checkpoint_id, change in self._queue.changes().items()}

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, queued or stored, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: an earlier save could not be written, or the store inside failed.
        """
        self._queue.check(check_id(checkpoint_id))
        change = self._queue.changes().get(checkpoint_id)
        return self.store.get(checkpoint_id) if change is None else change.visible

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Queue the bytes, to be kept under the id in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: they were not queued: they are not bytes, there was no room within the time, the store is closed,
                or an earlier save could not be written.
        """
        self._put(checkpoint_id, Change(to_bytes(check_id(checkpoint_id), checkpoint)))

    def flush(self, timeout: float = 60.0) -> None:
        """Return once everything is written, trying again what could not be written before.

        Args:
            timeout: seconds to wait at most.

        Raises:
            StoreError: something could not be written, or not within the time; it is still in `pending`.
        """
        self._queue.flush(timeout)

    def close(self, timeout: float = 60.0) -> None:
        """Write everything and take no more changes. The store inside stays open, for whoever opened it.

        Args:
            timeout: seconds to wait at most.

        Raises:
            StoreError: as by `flush`; then the store is not closed.
        """
        self.flush(timeout)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _delete(self, checkpoint_id: str) -> None:
        self._put(check_id(checkpoint_id), Change(None))

    def _set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        seconds_of(checkpoint_id, ttl)
        self._put(checkpoint_id, Change(blob, ttl))

    def _list(self, prefix: str = "") -> Iterator[str]:
        self._queue.check()
        # The queue is looked at first: what leaves it meanwhile is in the store inside.
        changes = {found: change for found, change in self._queue.changes().items() if found.startswith(prefix)}
        return _merged(super()._list(prefix), changes)

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        self._queue.write_now(check_id(checkpoint_id), self.timeout)
        return super()._get_versioned(checkpoint_id)

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        self._check_open()
        self._queue.write_now(checkpoint_id, self.timeout)
        return super()._set_if(checkpoint_id, blob, version)

    def _put(self, checkpoint_id: str, change: Change) -> None:
        self._check_open()
        self._queue.put(checkpoint_id, change, self.timeout)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the WriteBehindStore is closed and takes no more changes; make a new one")

    def _open(self) -> None:
        self._closed = False
        # The queue knows the store inside, not this object, so that neither keeps the other alive.
        self._queue = WriteQueue(partial(_carry_out, self.store), limit=self.max_pending, workers=self.workers)

    def __getstate__(self) -> builtins.dict[str, Any]:
        # A copy has a queue of its own, and has to find in the store inside what is in this one.
        self.flush()
        state = super().__getstate__()
        del state["_queue"], state["_closed"]
        return state

    def __setstate__(self, state: builtins.dict[str, Any]) -> None:
        super().__setstate__(state)
        self._open()


def _carry_out(store: CheckPointStore, checkpoint_id: str, change: Change) -> None:
    if change.blob is None:
        assert isinstance(store, CheckPointDeleter)
        store.delete(checkpoint_id)
    elif change.ttl is None:
        store.set(checkpoint_id, change.blob)
    else:
        assert isinstance(store, CheckPointExpirer)
        # What expired in the queue still has to take the place of what was there before.
        store.set_expiring(checkpoint_id, change.blob, max(change.left, _SHORTEST))


def _merged(stored: Iterator[str], changes: builtins.dict[str, Change]) -> Iterator[str]:
    """Yield stored and queued ids in order, each once, without those that are about to be deleted."""
    last = ""
    for found in heapq.merge(stored, sorted(changes)):
        if found != last and (found not in changes or changes[found].visible is not None):
            yield found
        last = found
