"""What went wrong with an SQLite file, in words, and what helps."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from blobcp.errors import StoreError

__all__ = ["FAILURES", "Unusable", "failure", "is_busy"]


class Unusable(Exception):
    """The store can't work with its file as it is; the text says why and what to do."""


FAILURES = (sqlite3.Error, OSError, OverflowError, Unusable)
"""What can come from below; ``OverflowError`` is for blobs that are longer than SQLite can be told."""

_RIGHTS = "give the user that runs this the right to read and write the file and its folder"
_ADVICE = {
    sqlite3.SQLITE_BUSY: "others kept it locked for as long as the store may wait; let them finish, or give a longer timeout",
    sqlite3.SQLITE_FULL: "free some space or use another folder",
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_PERM: _RIGHTS,
    sqlite3.SQLITE_IOERR: "see that the disk is healthy and has room, and that no limit on file sizes (ulimit -f) is in the way",
    sqlite3.SQLITE_CANTOPEN: f"see that the file and its folder are there, and {_RIGHTS}",
    sqlite3.SQLITE_NOTADB: "something else is in the file; give the path of a store, or of a file that is not there yet",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; put back a copy, or save what can be saved with the sqlite3 shell's .recover",
    sqlite3.SQLITE_TOOBIG: "SQLite takes at most 1,000,000,000 bytes; compress the blob, or keep it in a store without that limit",
    sqlite3.SQLITE_ERROR: "somebody has changed the tables of the store; put back a copy, or use another file",
}
_ADVICE[sqlite3.SQLITE_PROTOCOL] = _ADVICE[sqlite3.SQLITE_BUSY]


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether somebody else was in the way, so that nothing was done and the call can be made again."""
    return _code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)


def failure(doing: str, path: Path, error: BaseException) -> StoreError:
    """Return what to raise, from the error itself.

    Args:
        doing: what could not be done, up to the path: ``save checkpoint 'a' to``.
        path: the file.
        error: one of ``FAILURES``.

    >>> failure("open", Path("a.db"), Unusable("it belongs to somebody else; use another"))
    StoreError("can't open SQLite file a.db: it belongs to somebody else; use another")
    """
    match error:
        case Unusable():
            text = str(error)
        case OSError():
            text = f"{error.strerror or error}; see that the folder is there, and {_RIGHTS}"
        case OverflowError():
            text = f"{error}; {_ADVICE[sqlite3.SQLITE_TOOBIG]}"
        case _:
            text = f"{error}; {_ADVICE.get(_code_of(error), 'see the cause')}"
    return StoreError(f"can't {doing} SQLite file {path}: {text}")


def _code_of(error: BaseException) -> int:
    # The extended code tells more than is asked here; what the module raises by itself has none.
    code: int = getattr(error, "sqlite_errorcode", -1)
    return code & 0xFF
