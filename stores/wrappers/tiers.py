"""What TieredStore keeps in its fast tier: blobs, and marks of those who are about to change or to fill something."""

from __future__ import annotations

import secrets
from typing import Literal

import msgspec

__all__ = ["Entry", "entry_in", "filling", "kept", "value_of", "writing"]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A value of the fast tier.

    Attributes:
        kind: ``kept``: the blob; ``writing``: a writer is between the two tiers, ask the durable one;
            ``filling``: a reader is about to fill this, ask the durable one, or fill it yourself.
        version: the durable tier's version of the blob, where it is known.
        blob: the blob; what makes the mark unlike any other, where it is one.
    """

    kind: Literal["kept", "writing", "filling"]
    version: str | None
    blob: bytes


def kept(blob: bytes, version: str | None) -> bytes:
    """Return the value that holds a blob."""
    return value_of(Entry("kept", version, blob))


def writing() -> bytes:
    """Return a new mark of a writer."""
    return value_of(Entry("writing", None, secrets.token_bytes(16)))


def filling() -> bytes:
    """Return a new mark of a reader."""
    return value_of(Entry("filling", None, secrets.token_bytes(16)))


def value_of(entry: Entry) -> bytes:
    """Return an entry as bytes."""
    return msgspec.msgpack.encode(entry)


def entry_in(value: bytes) -> Entry | None:
    """Return the entry that a value holds; ``None`` for bytes that this store has not put there."""
    try:
        return msgspec.msgpack.decode(value, type=Entry)
    except msgspec.MsgspecError:
        return None
