"""What every store takes for a blob, so that all of them accept and refuse the same values."""

from __future__ import annotations

from blobcp.errors import StoreError

__all__ = ["Blob", "to_bytes"]

Blob = bytes | bytearray | memoryview
"""What ``set`` accepts."""


def to_bytes(checkpoint_id: str, blob: Blob) -> bytes:
    """Return the blob as bytes that no later change to the caller's buffer can reach.

    Args:
        checkpoint_id: what it is to be stored under, for the message.
        blob: bytes, which are returned as they are, or a bytearray or memoryview, which is copied.

    Raises:
        StoreError: it is anything else.

    >>> to_bytes("order-17", bytearray(b"abc"))
    b'abc'
    """
    if type(blob) is bytes:
        return blob
    if isinstance(blob, Blob):
        return bytes(blob)
    raise StoreError(
        f"can't store a {type(blob).__name__} under checkpoint id {checkpoint_id!r}; a store keeps bytes, encode it first"
    )
