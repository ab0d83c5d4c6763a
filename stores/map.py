"""A store in memory, for tests and for runs that need not outlive their process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from blobcp.errors import CheckpointConflictError
from blobcp.store import check_id

from .blobs import Blob, to_bytes

__all__ = ["MapStore"]


class MapStore:
    """Keep blobs in a dict of this process; any number of threads may use it at once.

    It promises: a read sees every write that returned before it, and bytes handed in or out are never changed by either
    side. Of several who write what they have read, one wins and the others are told. Nothing survives the process.

    >>> store = MapStore()
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), store.get("order-18")
    (b'blob', None)
    """

    blocking = False
    """Its calls return at once, so the asyncio driver need not put them into a thread."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._writes: dict[str, int] = {}
        self._lock = threading.RLock()

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        check_id(checkpoint_id)
        with self._lock:
            return self._blobs.get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep a copy of the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes.
        """
        check_id(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with self._lock:
            self._blobs[checkpoint_id] = blob
            self._writes[checkpoint_id] = self._writes.get(checkpoint_id, 0) + 1

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and the count of writes there, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        with self._lock:
            blob = self.get(checkpoint_id)
            return None if blob is None else (blob, str(self._writes[checkpoint_id]))

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
                raise CheckpointConflictError(
                    f"conflict: checkpoint {checkpoint_id!r} was written by somebody else since it was read; "
                    "nothing was changed, read it again",
                    checkpoint_id=checkpoint_id,
                )
            self.set(checkpoint_id, checkpoint)
            return str(self._writes[checkpoint_id])

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing.

        Raises:
            InvalidCheckpointIdError: it is no id.
        """
        check_id(checkpoint_id)
        with self._lock:
            self._blobs.pop(checkpoint_id, None)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, as they were at the call.

        >>> store = MapStore()
        >>> for order in ("order-9", "order-10", "refund-1"):
        ...     store.set(order, b"")
        >>> [*store.list("order-")]
        ['order-10', 'order-9']
        """
        with self._lock:
            ids = [*self._blobs]
        return iter(sorted(checkpoint_id for checkpoint_id in ids if checkpoint_id.startswith(prefix)))
