"""Which blobs earlier runs of a job have dealt with: on disk, so that memory does not grow with their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from .journal import Line
from .outcome import Intent, Outcome

__all__ = ["Seen"]

_DONE = b""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Intent)

_PUT = """
INSERT INTO seen VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET intent = excluded.intent WHERE intent != x''
"""


class Seen:
    """The ids of a journal, each done or about to be written; a temporary database, gone with the object."""

    def __init__(self, lines: Iterable[Line]) -> None:
        """Read the lines to their end."""
        self._db = sqlite3.connect(
            "", isolation_level=None
        )  # a file of its own that SQLite makes when it grows, and removes
        self._db.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, intent BLOB NOT NULL) WITHOUT ROWID")
        self._db.execute("BEGIN")
        self._db.executemany(_PUT, _rows(lines))
        self._db.execute("COMMIT")
        self._empty = self._db.execute("SELECT 1 FROM seen LIMIT 1").fetchone() is None

    def is_done(self, id: str) -> bool | Intent:
        """Tell whether a blob was dealt with; give the intent where it may have been written and nobody knows."""
        if self._empty:
            return False
        try:
            row: tuple[bytes] | None = self._db.execute("SELECT intent FROM seen WHERE id = ?", (id,)).fetchone()
        except UnicodeEncodeError:  # no id, so nobody was done with it; the store will say so
            return False
        if row is None:
            return False
        return True if row[0] == _DONE else _decoder.decode(row[0])

    def close(self) -> None:
        """Remove it."""
        self._db.close()


def _rows(lines: Iterable[Line]) -> Iterator[tuple[str, bytes]]:
    for line in lines:
        if isinstance(line, Intent):
            yield line.id, _encoder.encode(line)
        elif isinstance(line, Outcome) and line.is_settled:
            yield line.id, _DONE
