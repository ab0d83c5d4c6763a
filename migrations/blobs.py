"""Opening a blob whose id need not be known."""

from __future__ import annotations

from blobcp.checkpointer import Checkpointer
from blobcp.codec import Envelope, Header, MsgpackSerializer, Serializer, read_header

__all__ = ["checkpointer_of", "open_blob"]


def checkpointer_of(serializer: Serializer | None, envelope: Envelope | None) -> Checkpointer:
    """Return what reads and writes blobs, by default as `Graph.compile` does."""
    return Checkpointer(
        serializer if serializer is not None else MsgpackSerializer(),
        envelope if envelope is not None else Envelope(),
    )


def open_blob(checkpointer: Checkpointer, blob: bytes, checkpoint_id: str | None) -> tuple[Header, bytes]:
    """Return header and body of a blob.

    Args:
        checkpointer: has the envelope.
        blob: what the store gave.
        checkpoint_id: what it is stored under; ``None``: the id that it was sealed for.

    Raises:
        CheckpointError: it is no blob that can be opened, or of another id or serializer.
    """
    if checkpoint_id is None:
        checkpoint_id = read_header(blob).checkpoint_id
    return checkpointer.open(checkpoint_id, blob)
