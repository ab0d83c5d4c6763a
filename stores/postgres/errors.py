"""What can go wrong between a Postgres store and its server, and how it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blobcp.errors import StoreError

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "BUSY",
    "NEVER_RAN",
    "NO_SUCH_COLUMN",
    "NO_SUCH_STATEMENT",
    "NO_SUCH_TABLE",
    "READ_ONLY",
    "Failed",
    "busy",
    "explain",
]

BUSY = "busy"  # no SQLSTATE: those have five characters

NO_SUCH_TABLE = "42P01"
NO_SUCH_COLUMN = "42703"
NO_SUCH_STATEMENT = frozenset({"26000", "42P05"})
"""A prepared statement is not where it was left: a pooler has changed the server's end of the connection."""

NEVER_RAN = frozenset({"40001", "40P01"})
"""The statement met another and was rolled back; it can be sent again."""

READ_ONLY = "25006"

_ADVICE = {
    BUSY: "raise pool_size, or have fewer calls at the same time",
    READ_ONLY: "it is a standby or set to read-only; connect to the primary (target_session_attrs=read-write)",
    "3F000": "create the schema first",
    "42501": "give the role SELECT, INSERT, UPDATE and DELETE on the table; if it is not there yet, let a role that may "
    "create tables run what setup_sql() returns",
    NO_SUCH_TABLE: "call setup(), or let a role that may create tables run what setup_sql() returns",
    NO_SUCH_COLUMN: "the table is not a table of checkpoints, or one of another release of blobcp; name another table",
    "53100": "free some space on the server's disk",
    "53200": "the server is short of memory; give it more",
    "53300": "lower pool_size, or raise max_connections of the server",
    "55P03": "somebody holds a lock on the row or the table; see pg_stat_activity",
    "57014": "the server's time-out for statements ran out; look for locks in pg_stat_activity, or raise timeout",
}


class Failed(Exception):
    """A statement that has no result, for one of three reasons.

    Attributes:
        error: what the library said.
        sent: whether the statement may have reached the server; where not, no connection could be had.
        lost: whether the connection broke before the reply came, so that nobody knows if the statement was carried out.
        code: the SQLSTATE by which the server refused it, or ``BUSY``; ``None`` where nobody said more than the text.
    """

    def __init__(self, error: psycopg.Error, *, sent: bool, lost: bool = False, code: str | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.sent = sent
        self.lost = lost
        self.code = code or error.sqlstate


def busy(size: int, waited: float) -> Failed:
    """Return the failure of a call for which there is no free connection."""
    from psycopg import OperationalError

    error = OperationalError(f"all {size} connections were in use for {waited:g} seconds")
    return Failed(error, sent=False, code=BUSY)


def explain(doing: str, place: str, failed: Failed, *, unknown: bool) -> StoreError:
    """Return the error that a user sees.

    Only the first line of what the server says is passed on; the rest may quote rows, which are the user's secrets.

    Args:
        doing: what was to be done, for instance ``save checkpoint 'a' to``.
        place: table and server.
        failed: the last failure.
        unknown: whether the statement may have been carried out all the same.
    """
    reason = failed.error.diag.message_primary or " ".join(str(failed.error).split())
    if failed.code in _ADVICE:
        advice = _ADVICE[failed.code]
    elif failed.sent:
        advice = "see the cause"
    else:
        advice = "check that the server runs, and the host, port, user, password and database of the URL"
    if unknown:
        advice += "; a connection broke before the reply came, so nobody knows whether the server did it"
    return StoreError(f"can't {doing} {place}: {reason}; {advice}")
