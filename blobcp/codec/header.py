"""The header of a blob: what can be known of a stored run without its body and without any key.

A header is a MessagePack map. Fields that a later release adds are ignored here. How the body is sealed (``Seal``)
stands in the same map, and only where it is sealed, so that plain blobs have the bytes they always had.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec

from blobcp.codec.frame import ENCRYPTED, SIGNED, ZLIB, ZSTD, Blob, Damage, Frame
from blobcp.codec.limits import check_depth
from blobcp.errors import CheckpointError, SerializationError

__all__ = ["Header", "Parent", "PendingInterrupt", "Seal", "Status", "decode_header", "encode_header", "seal_of"]

_T = TypeVar("_T")

Status = Literal["running", "interrupted", "failed", "done"]


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


class Seal(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How a body is sealed, beside what the flags say.

    Attributes:
        size: the size of a compressed body before it was compressed.
        key: the id of the key that the body is encrypted with.
        signer: the id of the key that the blob is signed with.
    """

    size: int = 0
    key: str = ""
    signer: str = ""


class _Sealed(msgspec.Struct):
    seal: Seal


_NO_SEAL = Seal()
_MAX_DEPTH = 100
"""How deep a field may be nested, also one that a later release adds: the decoder skips those by recursion."""

_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(Header)
_seal_decoder = msgspec.msgpack.Decoder(_Sealed)


def encode_header(header: Header, seal: Seal) -> bytes:
    """Return a header as bytes, its time in UTC; an empty seal leaves no trace.

    Raises:
        CheckpointError: a field can't be written.
    """
    try:
        moment = header.created_at
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        header = msgspec.structs.replace(header, created_at=utc)
        if seal == _NO_SEAL:
            return _encoder.encode(header)
        return _encoder.encode({**msgspec.structs.asdict(header), "seal": seal})
    except (AttributeError, TypeError, ValueError, OverflowError) as problem:
        raise CheckpointError(
            f"the header of the checkpoint {header.checkpoint_id!r} can't be written: {problem}; "
            "give each field a value of its declared type",
            checkpoint_id=header.checkpoint_id,
        ) from problem


def decode_header(head: Blob) -> Header:
    """Return the header that the bytes hold.

    Raises:
        Damage: they are none.
    """
    return _decode(_header_decoder, head)


def seal_of(frame: Frame) -> Seal:
    """Return what the header of a blob says of the seal.

    Raises:
        Damage: it does not fit the flags.
    """
    if not frame.flags:
        return _NO_SEAL
    seal = _decode(_seal_decoder, frame.header).seal
    compressed = frame.flags & (ZLIB | ZSTD)
    told = (compressed == ZLIB | ZSTD, bool(compressed), bool(frame.flags & ENCRYPTED), bool(frame.flags & SIGNED))
    if told != (False, seal.size != 0, seal.key != "", seal.signer != ""):
        raise Damage("what its header says of compression and keys does not fit its flags")
    return seal


def _decode(decoder: msgspec.msgpack.Decoder[_T], head: Blob) -> _T:
    try:
        check_depth(head, _MAX_DEPTH)
    except SerializationError as problem:
        raise Damage("its header can't be read (it is nested too deeply)") from problem
    try:
        return decoder.decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError) as problem:
        raise Damage(f"its header can't be read ({problem})") from problem
