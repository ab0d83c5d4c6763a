"""The connections of an SQLiteStore: lent to one thread at a time, and never carried through a fork.

SQLite forbids both to use and to close a connection in a child of the process that opened it; what it knows of its locks,
process-wide, would be wrong there. So all connections are closed before a fork, and each side opens its own afterwards.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from .errors import Unusable
from .file import Connection, make_file, open_file, wait_while_busy

__all__ = ["Pool"]

Result = TypeVar("Result")

KEPT = 8  # idle connections; the rest of a crowd of threads has to open its own
GRACE = 5.0  # seconds that a fork waits beyond the time-out of the calls that are under way


class Pool:
    """Connections to one file.

    Args:
        path: the file, absolute; made, with its folders, where it is missing.
        durable: whether a commit is flushed to the disk.
        seconds: the longest that a call waits for others.
    """

    def __init__(self, path: Path, *, durable: bool, seconds: float) -> None:
        self.path = path
        self.durable = durable
        self.seconds = seconds
        # Lists and sets because each of their methods is atomic: lending takes no lock, only opening does.
        self._idle: list[Connection] = []
        # Weak, so that a connection that a call lost by a signal's exception is collected, and no fork waits for it.
        self._open: WeakSet[Connection] = WeakSet()
        # An exception that a signal raises can come between the taking of a lock and the next line. So they are taken inside
        # of what lets them go; an RLock, other than a Lock, can't be let go by who has not taken it.
        self._opening = threading.RLock()
        self._writing = threading.RLock()
        self._closed: str | None = None
        self._suspended = False
        with _registering:
            make_file(path, durable=durable)
            self._file = _identity(path)
            _pools.add(self)

    def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return what ``work`` makes of a connection; it is called again where something was locked."""
        return self._run(work, time.monotonic() + self.seconds)

    def write(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do the same, one thread after the other: in a queue they lose less time than at SQLite's lock."""
        end = time.monotonic() + self.seconds
        self.check_file()
        writing = self._writing
        try:
            if not writing.acquire(timeout=self.seconds):
                raise Unusable("other threads kept it locked for as long as the store may wait; give a longer timeout")
            return self._run(work, end)
        finally:
            try:  # noqa: SIM105  # with suppress() a signal could come in between once more
                writing.release()
            except RuntimeError:
                pass  # it was not taken

    def check_file(self) -> None:
        """Make sure that the connections are to what is under the path now, and not to a file without a name.

        Raises:
            Unusable: the file was removed or replaced.
        """
        try:
            found = _identity(self.path)
        except FileNotFoundError:
            found = None
        if found != self._file:
            what = "replaced by another" if found else "removed"
            raise Unusable(f"it was {what} while the store was in use; put it back, or open the store anew")

    def close(self) -> None:
        """Close the connections; those that are lent are closed when they come back."""
        self._closed = self._closed or "the store is closed; open it anew"
        self._close_idle()

    def _run(self, work: Callable[[sqlite3.Connection], Result], end: float) -> Result:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            result = wait_while_busy(work, connection, end)
        except BaseException:
            self._close(connection)  # nobody knows what state it is in
            raise
        if len(self._idle) < KEPT:
            self._idle.append(connection)
            if self._closed:
                self._close_idle()
        else:
            self._close(connection)
        return result

    def _connect(self) -> Connection:
        opening = self._opening
        try:
            if not opening.acquire(timeout=self.seconds + GRACE):
                raise Unusable("it could not be opened, since other threads or a fork took too long; try again")
            if self._closed:
                raise Unusable(self._closed)
            self.check_file()
            connection = open_file(self.path, durable=self.durable, seconds=self.seconds)
            self._open.add(connection)
            return connection
        finally:
            try:  # noqa: SIM105  # as above
                opening.release()
            except RuntimeError:
                pass

    def _close(self, connection: Connection) -> None:
        connection.close()
        self._open.discard(connection)

    def _close_idle(self) -> None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                return
            self._close(connection)

    def _suspend(self) -> None:
        # Whoever has a connection may finish; who has none finds none idle, and waits to open one until the fork is done.
        self._suspended = self._opening.acquire(timeout=self.seconds + GRACE)
        end = time.monotonic() + self.seconds + GRACE
        while self._open and time.monotonic() < end:
            self._close_idle()
            time.sleep(0.001 if self._open else 0)

    def _resume(self) -> None:
        if self._suspended:
            self._suspended = False
            self._opening.release()

    def _start_anew(self) -> None:
        inherited = list(self._open)
        if inherited or not self._suspended:
            self._open, self._idle = WeakSet(), []
            self._closed = "it was in use when this process was forked off, and can't be used here; open the store anew"
        self._suspended = False
        self._opening, self._writing = (
            threading.RLock(),
            threading.RLock(),
        )  # a thread that is not here may hold the others
        for connection in inherited:
            _keep_forever(connection)


def _keep_forever(connection: Connection) -> None:
    # Nothing may close it here, not even the end of the process, so it gets a reference that nobody has.
    import ctypes  # not every Python has it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


_pools: WeakSet[Pool] = WeakSet()
_registering = threading.RLock()


def _before_fork() -> None:
    _registering.acquire()
    for pool in list(_pools):
        pool._suspend()


def _after_fork_in_parent() -> None:
    for pool in list(_pools):
        pool._resume()
    _registering.release()


def _after_fork_in_child() -> None:
    global _registering
    _registering = threading.RLock()
    for pool in list(_pools):
        pool._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
