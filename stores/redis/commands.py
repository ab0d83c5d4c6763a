"""What the Redis stores say to a server and how they take its answers, without a connection.

The plain and the awaited store share all of it: each sends the commands that a :class:`Call` asks for and hands back the
answers. A blob is one string under one key, so that every command and script stays on one node of a cluster.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from blobcp.errors import InvalidCheckpointIdError, StoreError
from blobcp.store import check_id

from ..blobs import Blob, to_bytes
from ..conflicts import conflict
from ..expiry import seconds_of

__all__ = ["SCAN_COUNT", "Call", "Commands"]

T = TypeVar("T")
Command = tuple[str | bytes | int, ...]

MAX_VALUE_BYTES = 512 * 1024 * 1024
"""The longest string that Redis keeps."""

SCAN_COUNT = 1000
"""How many keys a server looks at in one step of a listing; it serves others between the steps."""

# In front of each blob stands a header that no two writes share. It is text, for whoever looks with redis-cli.
_MAGIC = b"blobcp1 "
_TOKEN_BYTES = 16
_HEADER_BYTES = len(_MAGIC) + 2 * _TOKEN_BYTES + 1

_SWAP = """\
local found = redis.call('GETRANGE', KEYS[1], 0, ARGV[1])
if found == ARGV[2] then redis.call('SET', KEYS[1], ARGV[3]) end
return found
"""
"""Replace the value, and its time to live, if it has this header; return the header that was there."""

_MILLISECOND = timedelta(milliseconds=1)
_GLOB_SIGNS = re.compile(rb"[*?\[\]\\]")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of a store.

    Attributes:
        doing: what it does, for a message; the name of the server comes next.
        steps: yields commands, is sent the answers, and returns what the call returns.
    """

    doing: str
    steps: Generator[Command, object, T]


class Commands:
    """The calls of a store.

    Args:
        prefix: what all of its keys start with.

    Raises:
        StoreError: the prefix is not text.
    """

    def __init__(self, prefix: str) -> None:
        try:
            self._prefix = prefix.encode()
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{prefix!r} can't start the keys of a store: it is not text; leave out lone surrogates"
            ) from error

    def get(self, checkpoint_id: str) -> Call[bytes | None]:
        """Return the call that answers the bytes under the id."""
        key = self._key(checkpoint_id)
        return Call(_reading(checkpoint_id), _read(checkpoint_id, key))

    def get_versioned(self, checkpoint_id: str) -> Call[tuple[bytes, str] | None]:
        """Return the call that answers the bytes under the id and the token of their write."""
        key = self._key(checkpoint_id)
        return Call(_reading(checkpoint_id), _read_versioned(checkpoint_id, key))

    def set(self, checkpoint_id: str, checkpoint: Blob) -> Call[None]:
        """Return the call that keeps the bytes."""
        key, value = self._key(checkpoint_id), _value(checkpoint_id, checkpoint)
        return Call(_saving(checkpoint_id, value), _send("SET", key, value))

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> Call[None]:
        """Return the call that keeps the bytes for a time."""
        key, value = self._key(checkpoint_id), _value(checkpoint_id, checkpoint)
        seconds_of(checkpoint_id, ttl)
        whole, rest = divmod(ttl, _MILLISECOND)
        return Call(_saving(checkpoint_id, value), _send("SET", key, value, "PX", whole + bool(rest)))

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> Call[str]:
        """Return the call that keeps the bytes in place of those of one version, or of none, and answers the new version."""
        key, value = self._key(checkpoint_id), _value(checkpoint_id, checkpoint)
        if version is None:
            return Call(_saving(checkpoint_id, value), _create(checkpoint_id, key, value))
        return Call(_saving(checkpoint_id, value), _replace(checkpoint_id, key, value, version))

    def delete(self, checkpoint_id: str) -> Call[None]:
        """Return the call that removes what is under the id."""
        return Call(f"delete checkpoint {checkpoint_id!r} from", _send("UNLINK", self._key(checkpoint_id)))

    def pattern(self, prefix: str) -> bytes:
        """Return what the keys of ids with the prefix match, in the pattern language of ``SCAN``."""
        # No id has a lone surrogate, and so no key has its bytes.
        start = self._prefix + prefix.encode(errors="surrogatepass")
        return _GLOB_SIGNS.sub(rb"\\\g<0>", start) + b"*"

    def ids(self, keys: Iterable[bytes]) -> list[str]:
        """Return the ids behind keys, in code-point order; keys that the store can't have made are passed over."""
        # A SCAN may answer a key twice. UTF-8 sorts as code points do.
        found = (self._id(key) for key in sorted(set(keys)))
        return [checkpoint_id for checkpoint_id in found if checkpoint_id is not None]

    def _key(self, checkpoint_id: str) -> bytes:
        return self._prefix + check_id(checkpoint_id).encode()

    def _id(self, key: bytes) -> str | None:
        try:
            return check_id(key[len(self._prefix) :].decode())
        except (UnicodeDecodeError, InvalidCheckpointIdError):
            return None


def _send(*command: str | bytes | int) -> Generator[Command, object, None]:
    yield command


def _read(checkpoint_id: str, key: bytes) -> Generator[Command, object, bytes | None]:
    found = yield from _read_versioned(checkpoint_id, key)
    return None if found is None else found[0]


def _read_versioned(checkpoint_id: str, key: bytes) -> Generator[Command, object, tuple[bytes, str] | None]:
    value = yield "GET", key
    if value is None:
        return None
    if not isinstance(value, bytes) or not _is_header(value[:_HEADER_BYTES]):
        raise _foreign(checkpoint_id, key)
    return value[_HEADER_BYTES:], _version_of(value)


def _create(checkpoint_id: str, key: bytes, value: bytes) -> Generator[Command, object, str]:
    done = yield "SET", key, value, "NX"
    if done is None:
        found = yield "GETRANGE", key, 0, _HEADER_BYTES - 1
        _check_own(checkpoint_id, key, found, value)
    return _version_of(value)


def _replace(checkpoint_id: str, key: bytes, value: bytes, version: str) -> Generator[Command, object, str]:
    # The script's text goes along each time: it is short, and a server that does not know it by its digest
    # would have to be sent the blob twice.
    seen = _header(version)
    found = yield "EVAL", _SWAP, 1, key, _HEADER_BYTES - 1, seen, value
    if found != seen:
        _check_own(checkpoint_id, key, found, value)
    return _version_of(value)


def _check_own(checkpoint_id: str, key: bytes, found: object, value: bytes) -> None:
    """Return if the value is stored already, by a try of this same call whose answer was lost; raise if another is."""
    if found == value[:_HEADER_BYTES]:
        return
    if found == b"" or _is_header(found):
        raise conflict(checkpoint_id)
    raise _foreign(checkpoint_id, key)


def _value(checkpoint_id: str, checkpoint: Blob) -> bytes:
    blob = to_bytes(checkpoint_id, checkpoint)
    value = b"".join((_header(secrets.token_hex(_TOKEN_BYTES)), blob))
    if len(value) > MAX_VALUE_BYTES:
        raise StoreError(
            f"can't save checkpoint {checkpoint_id!r} to Redis: it has {len(blob)} bytes, and Redis takes at most "
            f"{MAX_VALUE_BYTES - _HEADER_BYTES}; compress it, wrap the store in a ChunkedStore, or use another store"
        )
    return value


def _header(version: str) -> bytes:
    return b"%b%b\n" % (_MAGIC, version.encode(errors="surrogatepass"))


def _version_of(value: bytes) -> str:
    return value[len(_MAGIC) : _HEADER_BYTES - 1].decode()


def _is_header(found: object) -> bool:
    return isinstance(found, bytes) and re.fullmatch(rb"blobcp1 [0-9a-f]{32}\n", found) is not None


def _foreign(checkpoint_id: str, key: bytes) -> StoreError:
    return StoreError(
        f"can't use checkpoint {checkpoint_id!r} in Redis: key {key!r} holds what no store of blobcp has written; move it "
        "away, or open the store with another prefix"
    )


def _reading(checkpoint_id: str) -> str:
    return f"read checkpoint {checkpoint_id!r} from"


def _saving(checkpoint_id: str, value: bytes) -> str:
    return f"save checkpoint {checkpoint_id!r} ({len(value) - _HEADER_BYTES} bytes) to"
