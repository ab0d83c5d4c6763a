"""A time to live for stores that have none, counted from the time that the header of each blob tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from blobcp.codec import Envelope, Header, read_header
from blobcp.errors import CheckpointConflictError, CheckpointError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointStore, CheckPointSwapper, check_id
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..conflicts import conflict

__all__ = ["ExpiringStore"]

CLAIM = "blobcp.purged"
"""The serializer that the header of a claim names: a mark that stands for a blob which is just being removed."""

CLAIM_SECONDS = 60.0
"""How long a claim keeps others from writing; one that is older was left behind by a purge that was killed."""

_PAUSE = 0.01
_NO_TIME = Header(checkpoint_id="").created_at
_TIMELESS = "-"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ExpiringStore(StoreWrapper):
    """Let each blob be gone once ``created_at`` of its header plus a time to live is over.

    For stores without expiry of their own. What is over is not there for ``get``, ``get_versioned`` and ``set_if``;
    ``list`` names it, and its space is used, until ``purge`` removes it. Bytes that are no whole blob of blobcp, and
    blobs whose header tells no time, are never over: that something is broken must not look like "nothing there".

    Args:
        store: where the blobs are kept.
        ttl: how long each is kept.
        clock: tells the time, with its zone; the clocks of all writers and readers should agree.

    Raises:
        StoreError: the time to live is not above zero, or the methods of the store have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> times = iter([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)])
    >>> store = ExpiringStore(MapStore(), timedelta(days=30), clock=lambda: next(times))
    >>> created = Header(checkpoint_id="order-17", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    >>> store.set("order-17", Envelope().seal(created, b"body"))
    >>> store.get("order-17") is None, store.get("order-17") is None
    (False, True)
    """

    def __init__(self, store: CheckPointStore, ttl: timedelta, *, clock: Callable[[], datetime] = _utc_now) -> None:
        if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
            raise StoreError(f"ExpiringStore can't keep blobs for {ttl!r}; give a timedelta above zero")
        super().__init__(store)
        self.ttl = ttl
        self.clock = clock

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none or their time is over.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there are some can't be told.
        """
        blob = self.store.get(check_id(checkpoint_id))
        return None if blob is None or self._is_over(_header_of(blob)) else blob

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: they are not bytes, or could not be kept.
        """
        self.store.set(check_id(checkpoint_id), to_bytes(checkpoint_id, checkpoint))

    def purge(self) -> int:
        """Remove the blobs whose time is over, reading each blob of the store once.

        A store inside with compare-and-set first gets a mark in the blob's place, if the blob is still the one that was
        read. Writers that compare wait until the mark is gone, so nothing of theirs is removed. A plain ``set`` that
        comes between the last two calls for its very id is removed along with the old blob; so is any write between
        them where the store inside can't compare.

        Returns:
            How many blobs were removed.

        Raises:
            StoreError: the store inside can't list and delete, or failed; what was removed until then stays removed.
        """
        if not (isinstance(self.store, CheckPointLister) and isinstance(self.store, CheckPointDeleter)):
            raise StoreError(
                f"can't purge: {type(self.store).__name__} can't both list and delete; "
                "remove old blobs by the medium's own means"
            )
        if isinstance(self.store, CheckPointSwapper):
            return sum(self._purge_claimed(self.store, checkpoint_id) for checkpoint_id in self.store.list())
        return sum(self._purge_unclaimed(checkpoint_id) for checkpoint_id in self.store.list())

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        found = super()._get_versioned(check_id(checkpoint_id))
        if found is None:
            return None
        blob, version = found
        header = _header_of(blob)
        return None if self._is_over(header) else (blob, f"{_stamp_of(header)} {version}")

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        if version is None:
            moved = self._create(checkpoint_id, blob)
        else:
            # The version tells the blob's time, so that it need not be read again to know whether it is over by now.
            stamp, _, inner = version.partition(" ")
            if self._is_stamp_over(stamp):
                raise conflict(checkpoint_id)
            moved = super()._set_if(checkpoint_id, blob, inner)
        return f"{_stamp_of(_header_of(blob))} {moved}"

    def _create(self, checkpoint_id: str, blob: bytes) -> str:
        expected: str | None = None
        end = time.monotonic() + CLAIM_SECONDS
        while True:
            try:
                return super()._set_if(checkpoint_id, blob, expected)
            except CheckpointConflictError:
                if time.monotonic() >= end:
                    raise
            found = super()._get_versioned(checkpoint_id)
            header = _header_of(found[0]) if found else None
            if found and not self._is_over(header):
                raise conflict(checkpoint_id)
            expected = found[1] if found else None
            if self._is_claimed(header):
                expected = None  # what is written in a claim's place now would be removed in a moment
                time.sleep(_PAUSE)

    def _purge_claimed(self, store: CheckPointSwapper, checkpoint_id: str) -> bool:
        assert isinstance(store, CheckPointDeleter)
        found = store.get_versioned(checkpoint_id)
        header = _header_of(found[0]) if found else None
        if found is None or not self._is_over(header) or self._is_claimed(header):
            return False
        start = time.monotonic()
        claim = Header(serializer=CLAIM, checkpoint_id=checkpoint_id, created_at=self.clock(), status="done")
        try:
            store.set_if(checkpoint_id, Envelope().seal(claim, b""), found[1])
        except CheckpointConflictError:
            return False
        if time.monotonic() - start > CLAIM_SECONDS / 2:
            # A removal might come after the claim's time, and meet somebody's new blob. The next purge tries again.
            return False
        store.delete(checkpoint_id)
        return True

    def _purge_unclaimed(self, checkpoint_id: str) -> bool:
        assert isinstance(self.store, CheckPointDeleter)
        blob = self.store.get(checkpoint_id)
        if blob is None or not self._is_over(_header_of(blob)):
            return False
        self.store.delete(checkpoint_id)
        return True

    def _is_over(self, header: Header | None) -> bool:
        if header is None or header.created_at == _NO_TIME:
            return False
        return header.serializer == CLAIM or self._age(header.created_at) >= self.ttl

    def _is_claimed(self, header: Header | None) -> bool:
        return (
            header is not None
            and header.serializer == CLAIM
            and self._age(header.created_at) < timedelta(seconds=CLAIM_SECONDS)
        )

    def _is_stamp_over(self, stamp: str) -> bool:
        try:
            return stamp != _TIMELESS and self._age(datetime.fromisoformat(stamp)) >= self.ttl
        except ValueError:
            return True  # no version of ours, so nothing that is stored here

    def _age(self, created_at: datetime) -> timedelta:
        return self.clock() - (created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC))


def _header_of(blob: bytes) -> Header | None:
    try:
        return read_header(blob)
    except CheckpointError:
        return None  # whoever reads the blob is told what is wrong with it


def _stamp_of(header: Header | None) -> str:
    return _TIMELESS if header is None or header.created_at == _NO_TIME else header.created_at.isoformat()
