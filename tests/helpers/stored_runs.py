"""Looking into stored runs and at the traffic with a store, without asking the app that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from blobcp import BlobcpError, Checkpoint, Envelope, Header, Interrupted, MsgpackSerializer, read_header

__all__ = [
    "TwoMethodStore",
    "blob_of",
    "checkpoint_of",
    "header_of",
    "ids_by_info",
    "paused",
    "refused",
    "rewrite",
    "sha",
]


class TwoMethodStore:
    """A user's own store with the two methods and nothing else; it keeps every version and notes each call.

    Attributes:
        blobs: what is stored, by id; tests look and write here without being counted.
        calls: the methods and ids called, in order.
        versions: all bytes that were given to ``set``, in order.
    """

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.versions: list[bytes] = []

    def get(self, checkpoint_id: str) -> bytes | None:
        self.calls.append(("get", checkpoint_id))
        return self.blobs.get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.calls.append(("set", checkpoint_id))
        self.versions.append(checkpoint)
        self.blobs[checkpoint_id] = checkpoint

    def calls_since(self, before: int = 0) -> list[tuple[str, str]]:
        """Return the calls after the first ``before`` ones."""
        return self.calls[before:]


def blob_of(store: Any, checkpoint_id: str) -> bytes:
    """Return the bytes under an id, uncounted; there must be some."""
    blob = store.blobs.get(checkpoint_id) if isinstance(store, TwoMethodStore) else store.get(checkpoint_id)
    assert blob is not None, f"nothing is stored under {checkpoint_id!r}"
    return bytes(blob)


def sha(store: Any, checkpoint_id: str) -> str:
    """Return the digest of all bytes under an id."""
    return sha256(blob_of(store, checkpoint_id)).hexdigest()


def header_of(store: Any, checkpoint_id: str) -> Header:
    """Return the header of what is stored."""
    return read_header(blob_of(store, checkpoint_id))


def checkpoint_of(store: Any, checkpoint_id: str, blob: bytes | None = None) -> Checkpoint:
    """Return what is stored, decoded by the default serializer."""
    _, body = Envelope().open(blob or blob_of(store, checkpoint_id), checkpoint_id=checkpoint_id)
    checkpoint = MsgpackSerializer().loads(body)
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def rewrite(store: Any, checkpoint_id: str, change: Callable[[Checkpoint], None]) -> None:
    """Change what is stored as an older or foreign program would have written it."""
    checkpoint = checkpoint_of(store, checkpoint_id)
    change(checkpoint)
    blob = Envelope().seal(header_of(store, checkpoint_id), MsgpackSerializer().dumps(checkpoint))
    if isinstance(store, TwoMethodStore):
        store.blobs[checkpoint_id] = blob
    else:
        store.set(checkpoint_id, blob)


def paused(call: Callable[..., Any], *arguments: Any, **options: Any) -> Interrupted:
    """Return the stop that a call must end with."""
    with pytest.raises(Interrupted) as caught:
        call(*arguments, **options)
    return caught.value


def refused(kind: type[BlobcpError], call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the error, of exactly this class, that a call must end with."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert type(caught.value) is kind
    return caught.value


def ids_by_info(stop: Interrupted) -> dict[Any, str]:
    """Return the ids of what is asked, by question."""
    return {point.info: point.id for point in stop.interrupts}
