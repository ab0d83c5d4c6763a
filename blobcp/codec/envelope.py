"""The frame round a body: one blob, with a small readable header in front and a digest behind.

The frame knows nothing of serializers, graphs or stores. All numbers are big-endian::

    magic "BCP1" | flags u8 | header length u32 | body length u64 | header | body | blake2b-256 of all before it

The checks run in this order, so that no byte is trusted before it was looked at: size and magic, format version,
flags, lengths against the real size and the limits, digest, header.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal

import msgspec

from blobcp.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError

__all__ = ["MAGIC", "Envelope", "Header", "Parent", "PendingInterrupt", "Status", "digest_of", "read_header"]

MAGIC = b"BCP1"
"""The first bytes of every blob; the last of them is the format version."""

Status = Literal["running", "interrupted", "failed", "done"]

_DIGEST_SIZE = 32
_FRAME = struct.Struct(">4sBIQ")
_KNOWN_FLAGS = 0
_ADVICE = "restore the blob from a backup, or start a new run under this id"

Blob = bytes | bytearray | memoryview


class Parent(msgspec.Struct, frozen=True):
    """The blob that this one continues: the id it was stored under and its digest in hex."""

    id: str
    digest: str


class PendingInterrupt(msgspec.Struct, frozen=True):
    """An interrupt point that waits for an answer: its id and the text of its address."""

    id: str
    address: str


class Header(msgspec.Struct, kw_only=True, frozen=True):
    """What can be known of a blob without its body. Fields that a later release adds are ignored here.

    Attributes:
        serializer: the name of the serializer that wrote the body.
        state_version: the version of the user's state schema.
        graph: the name of the graph.
        checkpoint_id: the id that the blob was sealed for.
        parent: the blob that this one continues.
        run_id: the run that wrote it.
        step: how many steps that run had done.
        created_at: when it was written; stored in UTC.
        status: what became of the run.
        pending: the interrupt points that wait for an answer.
    """

    serializer: str = "msgpack"
    state_version: int = 0
    graph: str = ""
    checkpoint_id: str
    parent: Parent | None = None
    run_id: str = ""
    step: int = 0
    created_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    status: Status = "running"
    pending: list[PendingInterrupt] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)


class Envelope:
    """Put a header and a body into one blob, and take them out again.

    >>> envelope = Envelope()
    >>> blob = envelope.seal(Header(checkpoint_id="order-7", status="interrupted"), b"the body")
    >>> header, body = envelope.open(blob, checkpoint_id="order-7")
    >>> header.status, bytes(body)
    ('interrupted', b'the body')
    """

    def __init__(self, *, max_header_bytes: int = 1 << 20, max_body_bytes: int = 1 << 32) -> None:
        """Set the limits, which hold for writing and reading.

        Args:
            max_header_bytes: the longest header, in bytes.
            max_body_bytes: the longest body, in bytes.
        """
        self.max_header_bytes = max_header_bytes
        self.max_body_bytes = max_body_bytes

    def seal(self, header: Header, body: Blob) -> bytes:
        """Return header and body as one blob.

        Args:
            header: what the blob says of itself; a ``created_at`` without a zone is taken as UTC.
            body: the serializer's bytes; empty for a mark that only has a header.

        Raises:
            CheckpointError: the header can't be written, or header or body are over the limit.
        """
        head = _encode_header(header)
        for part, size, limit in (
            ("header", len(head), self.max_header_bytes),
            ("body", len(body), self.max_body_bytes),
        ):
            if size > limit:
                raise CheckpointError(
                    f"the checkpoint {header.checkpoint_id!r} can't be stored: its {part} takes {size} bytes and the "
                    f"limit is {limit}; store less, or raise max_{part}_bytes of the envelope",
                    checkpoint_id=header.checkpoint_id,
                )
        frame = _FRAME.pack(MAGIC, 0, len(head), len(body))
        digest = blake2b(frame, digest_size=_DIGEST_SIZE)
        digest.update(head)
        digest.update(body)
        return b"".join((frame, head, body, digest.digest()))

    def open(self, blob: Blob, *, checkpoint_id: str) -> tuple[Header, memoryview]:
        """Check a blob and return its header and a view of its body.

        Args:
            blob: what the store gave.
            checkpoint_id: the id that it was asked for under.

        Raises:
            CheckpointCorruptError: the bytes are foreign, truncated, changed, over a limit, or sealed for another id.
            CheckpointVersionError: the blob was written by a newer format.
        """
        head, body = self._split(blob, checkpoint_id)
        header = _decode_header(head, checkpoint_id)
        if header.checkpoint_id != checkpoint_id:
            raise CheckpointCorruptError(
                f"the checkpoint {checkpoint_id!r} is corrupt: its blob was copied by hand from "
                f"{header.checkpoint_id!r}; copy or fork it with blobcp, which seals it anew",
                checkpoint_id=checkpoint_id,
            )
        return header, body

    def read_header(self, blob: Blob, *, checkpoint_id: str | None = None) -> Header:
        """Check frame and digest and return the header; the body is not decoded.

        Args:
            blob: what the store gave.
            checkpoint_id: for the error message, where it is known.

        Raises:
            CheckpointCorruptError: the bytes are foreign, truncated, changed or over a limit.
            CheckpointVersionError: the blob was written by a newer format.
        """
        head, _ = self._split(blob, checkpoint_id)
        return _decode_header(head, checkpoint_id)

    def _split(self, blob: Blob, checkpoint_id: str | None) -> tuple[memoryview, memoryview]:
        view = memoryview(blob)
        problem = _problem_of_start(view)
        if problem:
            raise _corrupt(checkpoint_id, problem)
        _check_version(view, checkpoint_id)
        _, _, head_size, body_size = _FRAME.unpack_from(view)
        problem = self._problem_of_sizes(len(view), head_size, body_size)
        if problem:
            raise _corrupt(checkpoint_id, problem)
        end = len(view) - _DIGEST_SIZE
        if blake2b(view[:end], digest_size=_DIGEST_SIZE).digest() != view[end:]:
            raise _corrupt(checkpoint_id, "its digest does not fit its content, so bytes were changed")
        middle = _FRAME.size + head_size
        return view[_FRAME.size : middle], view[middle:end]

    def _problem_of_sizes(self, size: int, head_size: int, body_size: int) -> str | None:
        if head_size > self.max_header_bytes:
            return f"it announces a header of {head_size} bytes and the limit is {self.max_header_bytes}"
        if body_size > self.max_body_bytes:
            return f"it announces a body of {body_size} bytes and the limit is {self.max_body_bytes}"
        expected = _FRAME.size + head_size + body_size + _DIGEST_SIZE
        if size < expected:
            return f"it is truncated to {size} of {expected} bytes"
        if size > expected:
            return f"{size - expected} bytes follow its end"
        return None


_default = Envelope()


def read_header(blob: Blob, *, checkpoint_id: str | None = None) -> Header:
    """Return the header of a blob after checking frame and digest; needs none of the user's classes.

    Args:
        blob: what the store gave.
        checkpoint_id: for the error message, where it is known.

    Raises:
        CheckpointCorruptError: the bytes are foreign, truncated, changed or over the default limits.
        CheckpointVersionError: the blob was written by a newer format.
    """
    return _default.read_header(blob, checkpoint_id=checkpoint_id)


def digest_of(blob: Blob) -> str:
    """Return the digest at a blob's end in hex, which identifies its content; it is not checked here.

    Raises:
        CheckpointCorruptError: the bytes are too few to be a blob.
    """
    view = memoryview(blob)
    problem = _problem_of_start(view)
    if problem:
        raise _corrupt(None, problem)
    return bytes(view[-_DIGEST_SIZE:]).hex()


def _problem_of_start(view: memoryview) -> str | None:
    if not len(view):
        return "it is empty"
    if view[:3] != MAGIC[: min(3, len(view))]:
        return "it does not begin like a blob of blobcp"
    if len(view) < _FRAME.size + _DIGEST_SIZE:
        return f"it is truncated to {len(view)} bytes"
    return None


def _check_version(view: memoryview, checkpoint_id: str | None) -> None:
    found, flags = bytes(view[3:4]), view[4]
    name = _name_of(checkpoint_id)
    if found != MAGIC[3:]:
        if not found.isdigit():
            raise _corrupt(checkpoint_id, "it does not begin like a blob of blobcp")
        raise CheckpointVersionError(
            f"{name} was written in format version {found.decode()}, and this release of blobcp reads version "
            f"{MAGIC[3:].decode()}; upgrade blobcp to read it",
            checkpoint_id=checkpoint_id,
        )
    if flags & ~_KNOWN_FLAGS:
        raise CheckpointVersionError(
            f"{name} uses features of the format (flags 0x{flags:02x}) that this release of blobcp does not know; "
            "upgrade blobcp to read it, or, if no newer release is in use, take it as corrupt and restore a backup",
            checkpoint_id=checkpoint_id,
        )


def _encode_header(header: Header) -> bytes:
    created = header.created_at
    utc = created.replace(tzinfo=UTC) if created.tzinfo is None else created.astimezone(UTC)
    try:
        return _encoder.encode(msgspec.structs.replace(header, created_at=utc))
    except (TypeError, ValueError, OverflowError) as problem:
        raise CheckpointError(
            f"the header of the checkpoint {header.checkpoint_id!r} can't be written: {problem}; "
            "give each field a value of its declared type",
            checkpoint_id=header.checkpoint_id,
        ) from problem


def _decode_header(head: memoryview, checkpoint_id: str | None) -> Header:
    try:
        return _decoder.decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError) as problem:
        raise _corrupt(checkpoint_id, f"its header can't be read ({problem})") from problem


def _name_of(checkpoint_id: str | None) -> str:
    return "the blob" if checkpoint_id is None else f"the checkpoint {checkpoint_id!r}"


def _corrupt(checkpoint_id: str | None, problem: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{_name_of(checkpoint_id)} is corrupt: {problem}; {_ADVICE}", checkpoint_id=checkpoint_id
    )
