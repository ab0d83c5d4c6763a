"""What stands behind a blob in its file: nothing, or when the blob expires.

The moment is in the same file so that both are replaced in one step. A blob that ends as if a trailer stood there gets
one that says "never", so that the last bytes of a file can be read in one way only.
"""

from __future__ import annotations

__all__ = ["TRAILER_BYTES", "expiry_of", "has_expired", "strip", "trailer_of"]

MAGIC = b"\0blobcp-expires\n"
MOMENT_BYTES = 8
TRAILER_BYTES = MOMENT_BYTES + len(MAGIC)
"""The length of a trailer."""

NEVER = (1 << 8 * MOMENT_BYTES) - 1  # in the year 2554


def trailer_of(blob: bytes, expires: int | None) -> bytes:
    r"""Return what has to follow the blob in its file.

    Args:
        blob: the blob.
        expires: when it expires, in nanoseconds since 1970; ``None`` for never.

    >>> trailer_of(b"blob", None), trailer_of(b"blob", 7)
    (b'', b'\x00\x00\x00\x00\x00\x00\x00\x07\x00blobcp-expires\n')
    """
    if expires is None and not blob.endswith(MAGIC):
        return b""
    return (NEVER if expires is None else min(expires, NEVER)).to_bytes(MOMENT_BYTES, "big") + MAGIC


def expiry_of(end: bytes) -> int | None:
    """Return when the blob of a file expires, in nanoseconds since 1970; ``None`` where no trailer is there.

    Args:
        end: the file's last ``TRAILER_BYTES`` bytes or more; the whole file where it is shorter.
    """
    if len(end) < TRAILER_BYTES or not end.endswith(MAGIC):
        return None
    return int.from_bytes(end[-TRAILER_BYTES : -len(MAGIC)], "big")


def has_expired(end: bytes, now: int) -> bool:
    """Return whether the blob of a file with these last bytes has expired by ``now`` (nanoseconds since 1970)."""
    expires = expiry_of(end)
    return expires is not None and expires <= now


def strip(data: bytes, now: int) -> bytes | None:
    """Return the blob in the bytes of a file, or ``None`` where it has expired by ``now``."""
    if expiry_of(data) is None:
        return data
    return None if has_expired(data, now) else data[:-TRAILER_BYTES]
