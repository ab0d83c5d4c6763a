"""The frame of a blob: where its parts begin and end, and whether its bytes are whole.

Knows no header, no key and no id. All numbers are big-endian::

    magic "BCP1" | flags u8 | header length u32 | body length u64 | header | body | signature | digest

The signature (32 bytes) is there where the flags say so. The digest is the blake2b-256 of all before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

__all__ = [
    "DIGEST_SIZE",
    "ENCRYPTED",
    "MAGIC",
    "SIGNED",
    "ZLIB",
    "ZSTD",
    "Blob",
    "Damage",
    "Frame",
    "LibraryMissing",
    "TooNew",
    "check_start",
    "frame_start",
    "join_frame",
    "split_frame",
    "view_of",
]

MAGIC = b"BCP1"
"""The first bytes of every blob; the last of them is the format version."""

ZLIB, ZSTD, ENCRYPTED, SIGNED = 1, 2, 4, 8
"""The flags. They say what was done to the body, so that a release which can't undo it knows that it can't."""

DIGEST_SIZE = 32

_FRAME = struct.Struct(">4sBIQ")
_KNOWN_FLAGS = ZLIB | ZSTD | ENCRYPTED | SIGNED

Blob = bytes | bytearray | memoryview


class Damage(Exception):
    """What is wrong with the bytes of a blob, in words that go on from "it is corrupt"."""


class TooNew(Exception):
    """What about a blob is newer than this release, in words that go on from its name."""


class LibraryMissing(Exception):
    """What has to be installed, in words that go on from what needs it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole blob, in its parts.

    Attributes:
        flags: what was done to the body.
        start: all before the body; what a key that seals the body vouches for too.
        header: the bytes of the header, a part of ``start``.
        body: the bytes of the body as they are stored.
        signed: the digest of start and body, which is what is signed.
        signature: empty where the blob is not signed.
    """

    flags: int
    start: memoryview
    header: memoryview
    body: memoryview
    signed: bytes
    signature: memoryview


def frame_start(flags: int, header: bytes, body_size: int) -> bytes:
    """Return all of a blob that stands before its body."""
    return _FRAME.pack(MAGIC, flags, len(header), body_size) + header


def join_frame(start: bytes, body: Sequence[Blob], sign: Callable[[bytes], bytes] | None) -> bytes:
    """Return a blob, copying the body once.

    Args:
        start: what `frame_start` gave.
        body: the pieces of the body.
        sign: digest -> signature.
    """
    digest = blake2b(start, digest_size=DIGEST_SIZE)
    for piece in body:
        digest.update(piece)
    signature = sign(digest.digest()) if sign else b""
    digest.update(signature)
    return b"".join((start, *body, signature, digest.digest()))


def split_frame(blob: Blob, *, max_header_bytes: int, max_body_bytes: int) -> Frame:
    """Return the parts of a blob. No byte is trusted before it was looked at.

    Raises:
        Damage: the bytes are foreign, truncated, changed or over a limit.
        TooNew: they are of a newer format.
    """
    view = view_of(blob)
    check_start(view)
    _check_version(view)
    _, flags, header_size, body_size = _FRAME.unpack_from(view)
    _check_size("header", header_size, max_header_bytes)
    _check_size("body", body_size, max_body_bytes)
    middle = _FRAME.size + header_size
    end = middle + body_size
    last = end + (DIGEST_SIZE if flags & SIGNED else 0)
    _check_length(len(view), last + DIGEST_SIZE)
    digest = blake2b(view[:end], digest_size=DIGEST_SIZE)
    signed = digest.digest()
    digest.update(view[end:last])
    if digest.digest() != view[last:]:
        raise Damage("its digest does not fit its content, so bytes were changed")
    return Frame(flags, view[:middle], view[_FRAME.size : middle], view[middle:end], signed, view[end:last])


def view_of(blob: Blob) -> memoryview:
    """Return a view of the bytes of a blob.

    Raises:
        Damage: it is no bytes at all, as where a store keeps texts.
    """
    try:
        return memoryview(blob).cast("B")
    except TypeError:
        raise Damage(f"it is a {type(blob).__name__} and not bytes") from None


def check_start(view: memoryview) -> None:
    """Refuse what does not begin like a blob, or is too short for one.

    Raises:
        Damage: it is no blob.
    """
    if not len(view):
        raise Damage("it is empty")
    if view[:3] != MAGIC[: min(3, len(view))]:
        raise Damage("it does not begin like a blob of blobcp")
    if len(view) < _FRAME.size + DIGEST_SIZE:
        raise Damage(f"it is truncated to {len(view)} bytes")


def _check_version(view: memoryview) -> None:
    found, flags = bytes(view[3:4]), view[4]
    if found != MAGIC[3:]:
        if not found.isdigit():
            raise Damage("it does not begin like a blob of blobcp")
        raise TooNew(
            f"was written in format version {found.decode()}, and this release of blobcp reads version "
            f"{MAGIC[3:].decode()}; upgrade blobcp to read it"
        )
    if flags & ~_KNOWN_FLAGS:
        raise TooNew(
            f"uses features of the format (flags 0x{flags:02x}) that this release of blobcp does not know; "
            "upgrade blobcp to read it, or, if no newer release is in use, take it as corrupt and restore a backup"
        )


def _check_size(part: str, size: int, limit: int) -> None:
    if size > limit:
        raise Damage(
            f"it announces a {part} of {size} bytes and the limit is {limit} (if it is yours, raise max_{part}_bytes "
            "of the envelope)"
        )


def _check_length(found: int, expected: int) -> None:
    if found < expected:
        raise Damage(f"it is truncated to {found} of {expected} bytes")
    if found > expected:
        raise Damage(f"{found - expected} bytes follow its end")
