"""Several tenants in one store: each sees only the ids that begin with its prefix, without the prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import MAX_ID_BYTES, CheckPointStore, check_id
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..conflicts import conflict

__all__ = ["PrefixedStore"]


class PrefixedStore(StoreWrapper):
    """Put a prefix before every id, so that what has other prefixes can't be seen or reached.

    Tenants are kept apart only if no prefix begins with another: ``tenant-1`` and ``tenant-17`` share ``tenant-17``, so end
    each with a sign that names don't have: ``tenant-1/``. A prefix takes its bytes from the ids' limit of 512. Errors
    about an id name the one that was given here; a ``StoreError`` of the store inside names the one that it has there.

    Args:
        store: where the blobs are kept.
        prefix: what stands before each id there; not empty, since that would keep nothing apart.

    Raises:
        StoreError: the prefix can't begin an id, or the methods of the store have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> shared = MapStore()
    >>> store = PrefixedStore(shared, "acme/")
    >>> store.set("order-17", b"blob")
    >>> [*store.list()], [*shared.list()], PrefixedStore(shared, "other/").get("order-17")
    (['order-17'], ['acme/order-17'], None)
    """

    def __init__(self, store: CheckPointStore, prefix: str) -> None:
        try:
            size = len(check_id(prefix).encode())
        except InvalidCheckpointIdError as error:
            raise StoreError(
                f"{prefix!r} can't be the prefix of a PrefixedStore, since it begins no id: {error}"
            ) from error
        super().__init__(store)
        self.prefix = prefix
        room = store.room if isinstance(store, PrefixedStore) else MAX_ID_BYTES
        self.room: int = room - size
        """The bytes that are left for an id."""
        if self.room <= 0:
            raise StoreError(
                f"the prefix {prefix!r} takes {size} UTF-8 bytes; of {room} it has to leave some for the ids"
            )

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id, or too long behind the prefix.
            StoreError: the store inside failed.
        """
        with self._as(checkpoint_id) as inner:
            return super().get(inner)

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id, or too long behind the prefix.
            StoreError: the checkpoint is not bytes, or the store inside failed.
        """
        with self._as(checkpoint_id) as inner:
            super().set(inner, to_bytes(checkpoint_id, checkpoint))

    def _delete(self, checkpoint_id: str) -> None:
        with self._as(checkpoint_id) as inner:
            super()._delete(inner)

    def _list(self, prefix: str = "") -> Iterator[str]:
        for inner in super()._list(self.prefix + prefix):
            if inner != self.prefix:  # somebody else's: no id is empty
                yield inner.removeprefix(self.prefix)

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        with self._as(checkpoint_id) as inner:
            return super()._get_versioned(inner)

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        with self._as(checkpoint_id) as inner:
            return super()._set_if(inner, to_bytes(checkpoint_id, checkpoint), version)

    def _set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        with self._as(checkpoint_id) as inner:
            super()._set_expiring(inner, to_bytes(checkpoint_id, checkpoint), ttl)

    @contextmanager
    def _as(self, checkpoint_id: str) -> Iterator[str]:
        """Give the id inside; errors about it become errors about the id that the caller knows."""
        size = len(check_id(checkpoint_id).encode())
        if size > self.room:
            raise InvalidCheckpointIdError(
                f"checkpoint id {checkpoint_id[:80]!r} takes {size} UTF-8 bytes; "
                f"behind the prefix {self.prefix!r} at most {self.room} are allowed",
                checkpoint_id=checkpoint_id,
            )
        try:
            yield self.prefix + checkpoint_id
        except CheckpointConflictError as error:
            raise conflict(checkpoint_id) from error
        except InvalidCheckpointIdError as error:
            raise InvalidCheckpointIdError(
                f"checkpoint id {checkpoint_id[:80]!r} can't stand behind the prefix {self.prefix!r}: {error}",
                checkpoint_id=checkpoint_id,
            ) from error
