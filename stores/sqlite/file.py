"""The file of an SQLiteStore: making it, recognising it, opening it."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from .errors import Unusable, is_busy
from .tables import create_tables, has_no_tables

__all__ = ["Connection", "make_file", "open_file", "transaction", "wait_while_busy"]

Result = TypeVar("Result")

WAL_BYTES = 32 << 20  # what is left of a write-ahead log that a large blob or a long reader made grow


class Connection(sqlite3.Connection):
    """A connection; other than those of its base class, it can be referred to weakly."""


def make_file(path: Path, *, durable: bool) -> None:
    """Make an empty file that only its owner may read, and missing folders, where there is none.

    SQLite would make the file readable by all; it gives the files that it puts beside it the same rights. One thread may
    call this at a time: to close a file drops all locks that the process has on it, those of SQLite too, so nobody may
    open it between its making and that.
    """
    for folder in [folder for folder in reversed(path.parents) if not folder.exists()]:
        folder.mkdir(mode=0o700, exist_ok=True)
        if durable and sys.platform != "win32":  # where a folder can't be opened
            _flush_folder(folder.parent)
    if not path.exists():
        with suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def open_file(path: Path, *, durable: bool, seconds: float) -> Connection:
    """Return a connection in autocommit mode, which any thread may use; an empty file becomes a store.

    Raises:
        Unusable: the file is not a store's, or a newer one's.
        sqlite3.Error: it can't be opened, or was locked for longer than ``seconds``.
    """
    connection: Connection = sqlite3.connect(
        # Without "rwc" a file that was removed is missed, not made anew.
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=0,  # SQLite's own waiting does not cover all that can be in the way; wait_while_busy does
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    try:
        wait_while_busy(lambda opened: _prepare(opened, durable), connection, time.monotonic() + seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def wait_while_busy(work: Callable[[sqlite3.Connection], Result], connection: sqlite3.Connection, end: float) -> Result:
    """Return what ``work`` makes of a connection; try again, until ``end``, where somebody else is in the way.

    SQLite's busy time-out would leave out the switch to the write-ahead log, which makes a lock out of a lock.
    """
    pause = 0.001
    while True:
        try:
            return work(connection)
        except sqlite3.OperationalError as error:
            left = end - time.monotonic()
            if left <= 0 or not is_busy(error):
                raise
        time.sleep(min(left, random.uniform(0, pause)))
        pause = min(2 * pause, 0.05)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do all that is inside, or nothing; by default as the only writer from the start, so that no read grows stale."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _prepare(connection: sqlite3.Connection, durable: bool) -> None:
    with transaction(connection, "DEFERRED"):  # all of what is looked at has to be of one moment
        is_new = has_no_tables(connection)
    if is_new:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can't be had any more once the log is switched on
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise Unusable(f"it can't be switched from {mode!r} to a write-ahead log; use a file on a local disk")
    if is_new:
        with transaction(connection):
            if has_no_tables(connection):  # nobody else was faster
                create_tables(connection)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute(f"PRAGMA fullfsync = {int(durable)}")  # for macOS, where a plain fsync does not reach the disk
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")


def _flush_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
