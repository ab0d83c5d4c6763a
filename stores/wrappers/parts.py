"""What ChunkedStore writes: values that are a blob or a manifest, and the ids and the content of parts."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator

import msgspec

from blobcp.errors import InvalidCheckpointIdError, StoreError
from blobcp.store import MAX_ID_BYTES, check_id

__all__ = [
    "PART_PREFIX",
    "Manifest",
    "blob_in",
    "cut",
    "inner_id_of",
    "inner_prefix_of",
    "joined",
    "manifest_in",
    "manifest_value",
    "one_value",
    "outer_id_of",
    "owner_in",
    "part_id",
    "save_of",
    "seconds_of_save",
]

ESCAPE = "~"
PART_PREFIX = f"{ESCAPE}part/"
_PART = re.compile(rf"{PART_PREFIX}((\d{{10}})-[0-9a-f]{{16}})/\d+")

_MARK = b"\0blobcp-chunked\0"
_MANIFEST, _BLOB = _MARK + b"m", _MARK + b"b"
_OWNER_SIZE = 2


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """What stands under an id whose blob is in parts.

    Attributes:
        save: names the parts; another one with each save.
        parts: how many there are.
        size: the bytes of all parts together.
        digest: their blake2b.
    """

    save: str
    parts: int
    size: int
    digest: bytes


def inner_id_of(checkpoint_id: str) -> str:
    """Return the id of the inner store that a blob's own value is under: the same, unless it could be a part's.

    Raises:
        InvalidCheckpointIdError: it is no id, or has no room for the escape.

    >>> inner_id_of("order-17"), inner_id_of("~order-17")
    ('order-17', '~~order-17')
    """
    inner_id = inner_prefix_of(check_id(checkpoint_id))
    if len(inner_id.encode()) > MAX_ID_BYTES:
        raise InvalidCheckpointIdError(
            f"checkpoint id {checkpoint_id[:80]!r} takes {MAX_ID_BYTES} UTF-8 bytes; an id that begins with {ESCAPE} "
            f"may take at most {MAX_ID_BYTES - 1} in a ChunkedStore",
            checkpoint_id=checkpoint_id,
        )
    return inner_id


def inner_prefix_of(prefix: str) -> str:
    """Return what the ids of the inner store begin with where those of blobs begin with ``prefix``.

    The order of ids stays what it is. Where everything is listed, parts are among it; `outer_id_of` tells them.
    """
    return ESCAPE + prefix if prefix.startswith(ESCAPE) else prefix


def outer_id_of(inner_id: str) -> str | None:
    """Return the id whose value is under an id of the inner store; ``None`` for a part."""
    if not inner_id.startswith(ESCAPE):
        return inner_id
    return inner_id[1:] if inner_id.startswith(ESCAPE * 2) else None


def part_id(save: str, number: int) -> str:
    """Return the id of the inner store that a part is under."""
    return f"{PART_PREFIX}{save}/{number}"


def new_save() -> str:
    """Return a name for the parts of a save that no other save has, and that tells its time."""
    return f"{int(time.time()):010}-{secrets.token_hex(8)}"


def save_of(inner_id: str) -> str | None:
    """Return the save that a part belongs to; ``None`` for what is no part."""
    found = _PART.fullmatch(inner_id)
    return found[1] if found else None


def seconds_of_save(save: str) -> int:
    """Return when a save began, in seconds since 1970."""
    return int(save.partition("-")[0])


def one_value(blob: bytes) -> bytes:
    """Return the value of a blob that is not cut: itself, unless it could be taken for something of ours."""
    return _BLOB + blob if blob.startswith(_MARK) else blob


def blob_in(value: bytes) -> bytes:
    """Return the blob that an uncut value holds."""
    return value.removeprefix(_BLOB)


def cut(checkpoint_id: str, blob: bytes, size: int) -> tuple[Manifest, Iterator[bytes]]:
    """Cut a blob, with its id in front, into parts of at most ``size`` bytes."""
    owner = checkpoint_id.encode()
    whole = memoryview(len(owner).to_bytes(_OWNER_SIZE, "big") + owner + blob)
    manifest = Manifest(new_save(), -(-len(whole) // size), len(whole), hashlib.blake2b(whole, digest_size=32).digest())
    return manifest, (bytes(whole[start : start + size]) for start in range(0, len(whole), size))


def joined(checkpoint_id: str, manifest: Manifest, parts: list[bytes]) -> bytes:
    """Return the blob that the parts make.

    Raises:
        StoreError: they are not those that were written for it.
    """
    whole = b"".join(parts)
    if len(whole) != manifest.size or hashlib.blake2b(whole, digest_size=32).digest() != manifest.digest:
        raise StoreError(
            f"the parts of checkpoint {checkpoint_id!r} in the store underneath are damaged: they do not fit the manifest "
            f"({len(whole)} bytes, {manifest.size} were written); restore the checkpoint from a backup"
        )
    return whole[_OWNER_SIZE + int.from_bytes(whole[:_OWNER_SIZE], "big") :]


def owner_in(first_part: bytes) -> str | None:
    """Return the id whose blob a first part belongs to; ``None`` where it is damaged."""
    try:
        owner = first_part[_OWNER_SIZE : _OWNER_SIZE + int.from_bytes(first_part[:_OWNER_SIZE], "big")].decode()
        inner_id_of(owner)
    except (UnicodeDecodeError, InvalidCheckpointIdError):
        return None
    return owner


def manifest_value(manifest: Manifest) -> bytes:
    """Return what is stored under the id of a blob in parts."""
    return _MANIFEST + msgspec.msgpack.encode(manifest)


def manifest_in(checkpoint_id: str, value: bytes) -> Manifest | None:
    """Return the manifest that a value holds; ``None`` where it is a blob.

    Raises:
        StoreError: it is neither.
    """
    if not value.startswith(_MARK) or value.startswith(_BLOB):
        return None
    try:
        if value.startswith(_MANIFEST):
            return msgspec.msgpack.decode(value[len(_MANIFEST) :], type=Manifest)
    except msgspec.MsgspecError as error:
        raise _damaged(checkpoint_id) from error
    raise _damaged(checkpoint_id)


def _damaged(checkpoint_id: str) -> StoreError:
    return StoreError(
        f"the manifest of checkpoint {checkpoint_id!r} in the store underneath is damaged; restore it from a backup, "
        "or store the checkpoint anew"
    )
