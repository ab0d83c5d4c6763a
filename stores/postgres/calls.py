"""What the Postgres stores ask the server and what they make of the answers, without doing any of it.

Each method is a generator: it yields statements and pauses, is sent answers, and is thrown ``Failed`` where there is
none. ``postgres.py`` drives it with threads, ``postgres_async.py`` with a loop; whatever is decided is decided here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, TypeVar

from blobcp.errors import StoreError
from blobcp.store import check_id

from ..blobs import Blob, to_bytes
from ..conflicts import conflict
from ..expiry import seconds_of
from .errors import BUSY, NEVER_RAN, NO_SUCH_STATEMENT, NO_SUCH_TABLE, Failed, explain
from .sql import LAYOUT, PAGE, Statements, first_after

__all__ = ["MAX_BLOB_BYTES", "Answer", "Call", "Calls", "Pause", "Statement"]

MAX_BLOB_BYTES = 500_000_000
"""The largest blob. Postgres itself ends at 1 GB, and pg_dump, which writes two characters a byte, at half of it."""

FOREVER = timedelta(days=36_500_000)
"""The longest time to live; more would lead beyond the last date of Postgres, in the year 294276."""

RESTART = 10.0
"""How long, in seconds, a server that has been there before may be away before a call fails."""

REPEATS = 10
"""How often a statement is sent that the server rolls back because it met another."""


@dataclass(slots=True)
class Statement:
    """SQL to run, in a transaction of its own."""

    sql: str
    params: tuple[object, ...] = ()
    prepare: bool | None = None  # None: after some runs; False: never
    fresh: bool = False  # whether to run it on a new connection, since one that lay idle may be as dead as the last


@dataclass(slots=True)
class Answer:
    """What a statement brought: rows, where it asks for some, and how many rows it touched."""

    rows: list[tuple[object, ...]]
    count: int


@dataclass(slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


T = TypeVar("T")
Call: TypeAlias = Generator[Statement | Pause, Answer, T]


class Calls:
    """The methods of a store.

    Args:
        sql: the statements for its table.
        place: table and server, for messages.
        create: whether to create the table when it turns out to be missing.
    """

    def __init__(self, sql: Statements, place: str, *, create: bool) -> None:
        self.sql = sql
        self.place = place
        self.create = create
        self.closed = False
        self._seen = False  # the table has answered before
        self._prepare: bool | None = None

    def get(self, checkpoint_id: str) -> Call[bytes | None]:
        """Return the blob."""
        answer = yield from self._ask(self.sql.get, (check_id(checkpoint_id),), "read", checkpoint_id, "from")
        if not answer.rows:
            return None
        [[blob]] = answer.rows
        assert isinstance(blob, bytes)
        return blob

    def get_versioned(self, checkpoint_id: str) -> Call[tuple[bytes, str] | None]:
        """Return the blob and its version."""
        answer = yield from self._ask(self.sql.get_versioned, (check_id(checkpoint_id),), "read", checkpoint_id, "from")
        if not answer.rows:
            return None
        [[blob, version]] = answer.rows
        assert isinstance(blob, bytes)
        assert isinstance(version, uuid.UUID)
        return blob, version.hex

    def set(self, checkpoint_id: str, checkpoint: Blob) -> Call[None]:
        """Keep the blob."""
        yield from self._set(checkpoint_id, checkpoint, None)

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> Call[None]:
        """Keep the blob for a time."""
        seconds_of(check_id(checkpoint_id), ttl)
        yield from self._set(checkpoint_id, checkpoint, min(ttl, FOREVER))

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> Call[str]:
        """Keep the blob if the stored version is this one; return the new one."""
        blob = _checked_blob(checkpoint_id, checkpoint)
        new = uuid.uuid4()
        if version is None:
            answer = yield from self._ask(self.sql.set_new, (checkpoint_id, blob, new), "save", checkpoint_id, "to")
        else:
            old = _read_version(version)
            if old is None:
                raise conflict(checkpoint_id)  # no write ever had it
            params = (blob, new, checkpoint_id, old, new)
            answer = yield from self._ask(self.sql.set_if, params, "save", checkpoint_id, "to")
        if answer.count == 0:
            raise conflict(checkpoint_id)
        return new.hex

    def delete(self, checkpoint_id: str) -> Call[None]:
        """Remove the blob."""
        yield from self._ask(self.sql.delete, (check_id(checkpoint_id),), "delete", checkpoint_id, "from")

    def page(self, prefix: str, after: str) -> Call[tuple[list[str], str | None]]:
        """Return some ids that start with a prefix and come after an id, and the id to go on after, if any is left."""
        if not _storable(prefix):
            return [], None
        end = first_after(prefix)
        if end is None:
            answer = yield from self._ask(self.sql.page, (prefix, after), "list the checkpoints in")
        else:
            answer = yield from self._ask(self.sql.page_below, (prefix, after, end), "list the checkpoints in")
        ids = [str(found) for (found,) in answer.rows]
        return ids, ids[-1] if len(ids) == PAGE else None

    def purge(self) -> Call[int]:
        """Remove what has expired, a batch at a time; return how much that was."""
        purged = 0
        while True:
            answer = yield from self._ask(self.sql.purge, (), "purge")
            purged += answer.count
            if answer.count < PAGE:
                return purged

    def setup(self) -> Call[None]:
        """Create the table where it is missing; check what is there."""
        doing = "set up"
        looked = yield from self._ask(self.sql.look, (self.sql.table, self.sql.table), doing)
        [[there, comment]] = looked.rows
        if not there:
            yield from self._ask(self.sql.setup, (), doing)
        layout = str(comment or "").rpartition("layout ")[2]
        if layout.isdecimal() and int(layout) > LAYOUT:
            raise StoreError(
                f"can't {doing} {self.place}: the table has layout {layout}, and this release of blobcp knows layouts up to "
                f"{LAYOUT}; update blobcp, or name another table"
            )
        yield from self._ask(self.sql.verify, (), doing)

    def _set(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta | None) -> Call[None]:
        blob = _checked_blob(checkpoint_id, checkpoint)
        yield from self._ask(self.sql.set, (checkpoint_id, blob, uuid.uuid4(), ttl), "save", checkpoint_id, "to")

    def _ask(self, sql: str, params: tuple[object, ...], *doing: str) -> Call[Answer]:
        if self.closed:
            raise StoreError(f"can't {_phrase(doing)} {self.place}: the store is closed; open it anew")
        # As it was before: another thread may make the table while the server refuses this call.
        tries = _Tries(may_create=self.create and not self._seen)
        while True:
            statement = Statement(sql, params, self._prepare, tries.lost)
            try:
                answer = yield statement
            except Failed as failed:
                failure = failed
            else:
                self._seen = True
                return answer
            if failure.code == NO_SUCH_TABLE and tries.may_create:
                tries.may_create = False
                yield from self._ask(self.sql.setup, (), *doing)
            elif failure.code in NO_SUCH_STATEMENT and statement.prepare is None:
                self._prepare = False
            elif not failure.sent and failure.code != BUSY and self._seen and tries.may_wait():
                yield Pause(0.1)
            elif not (failure.lost and tries.first_loss()) and not (failure.code in NEVER_RAN and tries.may_repeat()):
                raise explain(_phrase(doing), self.place, failure, unknown=tries.lost) from failure.error


class _Tries:
    """What has been tried so far to get one statement answered."""

    def __init__(self, *, may_create: bool) -> None:
        self.may_create = may_create
        self.lost = False
        self._repeats = 0
        self._deadline: float | None = None

    def first_loss(self) -> bool:
        """Tell whether this is the first connection that broke; every statement may be sent twice."""
        first, self.lost = not self.lost, True
        return first

    def may_repeat(self) -> bool:
        """Tell whether a statement that was rolled back may be sent once more."""
        self._repeats += 1
        return self._repeats < REPEATS

    def may_wait(self) -> bool:
        """Tell whether the server may still be on its way back."""
        if self._deadline is None:
            self._deadline = time.monotonic() + RESTART
        return time.monotonic() < self._deadline


def _checked_blob(checkpoint_id: str, checkpoint: Blob) -> bytes:
    blob = to_bytes(check_id(checkpoint_id), checkpoint)
    if len(blob) > MAX_BLOB_BYTES:
        raise StoreError(
            f"can't save checkpoint {checkpoint_id!r} ({len(blob)} bytes): a row of Postgres takes at most {MAX_BLOB_BYTES}; "
            "compress it, or keep what is large elsewhere"
        )
    return blob


def _read_version(version: str) -> uuid.UUID | None:
    try:
        found = uuid.UUID(hex=version)
    except ValueError:
        return None
    return found if found.hex == version else None


def _storable(text: str) -> bool:
    """Tell whether text can be part of an id."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _phrase(doing: tuple[str, ...]) -> str:
    if len(doing) == 1:
        return doing[0]
    verb, checkpoint_id, preposition = doing
    return f"{verb} checkpoint {checkpoint_id!r} {preposition}"
