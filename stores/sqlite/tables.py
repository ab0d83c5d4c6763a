"""The table of an SQLiteStore, and every statement on it."""

from __future__ import annotations

import sqlite3
import time

from blobcp.store import MAX_ID_BYTES

from .errors import Unusable

__all__ = [
    "IDS_A_PAGE",
    "ROWS_A_PURGE",
    "create_tables",
    "delete_row",
    "empty_log",
    "find_ids",
    "find_row",
    "has_no_tables",
    "purge_rows",
    "put_row",
    "shrink",
]

APPLICATION_ID = 0x42435031  # "BCP1"
SCHEMA_VERSION = 1
SCHEMA = (
    # The blob comes last, so that reading the rest of a row does not walk through it.
    """CREATE TABLE checkpoints (
        id TEXT NOT NULL PRIMARY KEY,  -- compared byte by byte, which for UTF-8 is the order of code points
        version TEXT NOT NULL,         -- another random one at each write, never used twice
        expires REAL,                  -- seconds since 1970; NULL: never
        blob BLOB NOT NULL
    )""",
    "CREATE INDEX checkpoints_by_expiry ON checkpoints (expires) WHERE expires IS NOT NULL",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

FIND = "SELECT blob, version FROM checkpoints WHERE id = ? AND (expires IS NULL OR expires > ?)"
PUT = """INSERT INTO checkpoints (id, version, expires, blob) VALUES (:id, :version, :expires, :blob)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, expires = excluded.expires, blob = excluded.blob"""
CREATE = f"{PUT} WHERE checkpoints.expires <= :now"
REPLACE = """UPDATE checkpoints SET version = :version, expires = :expires, blob = :blob
    WHERE id = :id AND version = :seen AND (expires IS NULL OR expires > :now)"""
DELETE = "DELETE FROM checkpoints WHERE id = ?"
LIST = """SELECT id FROM checkpoints WHERE id >= ? AND id < ? AND (expires IS NULL OR expires > ?)
    ORDER BY id LIMIT ?"""
PURGE = "DELETE FROM checkpoints WHERE rowid IN (SELECT rowid FROM checkpoints WHERE expires <= ? LIMIT ?)"

IDS_A_PAGE = 500
ROWS_A_PURGE = 100
FREE_PAGES_KEPT = 256  # of 4 KB; the next blobs need them
PAGES_A_VACUUM = 1024
GREATEST = "\U0010ffff" * (MAX_ID_BYTES // 4 + 1)  # what follows a prefix in an id is always less


def has_no_tables(connection: sqlite3.Connection) -> bool:
    """Tell an empty database from a store's.

    Raises:
        Unusable: it is neither, or the store's is of a version that this code doesn't know, or can't keep ids in order.
    """
    [application], [version], [tables], [encoding] = (
        connection.execute(query).fetchone()
        for query in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
            "PRAGMA encoding",
        )
    )
    is_empty = (application, version, tables) == (0, 0, 0)
    if not is_empty and application != APPLICATION_ID:
        raise Unusable("it is the database of something else, and was left as it is; give the store a file of its own")
    if not is_empty and version != SCHEMA_VERSION:
        raise Unusable(
            f"it has version {version} of the tables, this code knows version {SCHEMA_VERSION}; update blobcp"
        )
    if encoding != "UTF-8":
        raise Unusable(f"it holds text as {encoding}, in which ids are out of order; give the store a file of its own")
    return is_empty


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty database a store's."""
    for statement in SCHEMA:
        connection.execute(statement)


def find_row(connection: sqlite3.Connection, checkpoint_id: str) -> tuple[bytes, str] | None:
    """Return the blob and the version under an id, unless its time is over."""
    row: tuple[bytes, str] | None = connection.execute(FIND, (checkpoint_id, time.time())).fetchone()
    return row


def put_row(
    connection: sqlite3.Connection,
    checkpoint_id: str,
    blob: bytes,
    version: str,
    *,
    seconds: float | None = None,
    seen: tuple[str | None] | None = None,
) -> bool:
    """Write a row, in one statement, which by itself is a transaction; tell whether it was written.

    Args:
        connection: the connection.
        checkpoint_id: the id.
        blob: the blob.
        version: the new version.
        seconds: how long it is to be kept; ``None`` for ever.
        seen: the version that has to be there, or ``(None,)`` if none may be; by default it does not matter.
    """
    now = time.time()
    values = {
        "id": checkpoint_id,
        "version": version,
        "expires": None if seconds is None else now + seconds,
        "blob": blob,
        "seen": seen and seen[0],
        "now": now,
    }
    statement = PUT if seen is None else CREATE if seen == (None,) else REPLACE
    return connection.execute(statement, values).rowcount == 1


def delete_row(connection: sqlite3.Connection, checkpoint_id: str) -> None:
    """Remove the row under an id, if there is one."""
    connection.execute(DELETE, (checkpoint_id,))


def find_ids(connection: sqlite3.Connection, prefix: str, after: str | None) -> list[str]:
    """Return the next ids with a prefix, in code-point order, at most ``IDS_A_PAGE``."""
    start = prefix if after is None else after + "\0"  # the least greater text; no id holds a NUL
    return [found for [found] in connection.execute(LIST, (start, prefix + GREATEST, time.time(), IDS_A_PAGE))]


def purge_rows(connection: sqlite3.Connection) -> int:
    """Remove some rows whose time is over; return how many, fewer than ``ROWS_A_PURGE`` once none is left."""
    return connection.execute(PURGE, (time.time(), ROWS_A_PURGE)).rowcount


def shrink(connection: sqlite3.Connection) -> bool:
    """Cut some of the free pages off the file, if there are many; tell whether there is more to cut."""
    free = _free_pages(connection)
    if free <= FREE_PAGES_KEPT:
        return False
    pages = min(free - FREE_PAGES_KEPT, PAGES_A_VACUUM)
    for _ in range(pages):
        connection.execute("PRAGMA incremental_vacuum(1)")  # of more pages, Python's module would free only the first
    left = _free_pages(connection)
    return FREE_PAGES_KEPT < left < free  # a file that was not made by the store may be unable to shrink


def empty_log(connection: sqlite3.Connection) -> None:
    """Move what is in the write-ahead log into the file, which shrinks or grows only then; not where others are in the way."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _free_pages(connection: sqlite3.Connection) -> int:
    [pages] = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)
