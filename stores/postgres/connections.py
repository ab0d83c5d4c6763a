"""Connections to a Postgres server: where they lead, how long anything may take, what is asked of a new one.

This module imports psycopg; so it is itself imported only when a store is opened.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import getrandbits
from typing import Self, TypeVar

from psycopg import (
    AsyncConnection,
    Connection,
    Error,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    capabilities,
    waiting,
)
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from blobcp.errors import StoreUrlError

from .errors import Failed

__all__ = ["AsyncStoreConnection", "Server", "StoreConnection"]

CONNECT_TIMEOUT = 10
"""Seconds for one attempt to connect to one host, where neither the URL nor PGCONNECT_TIMEOUT says something else."""

DEAD_PEER: dict[str, str | int | None] = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""How a machine that has gone is noticed: after a minute of silence, or half a minute without an acknowledgement."""

GRACE = 5.0
"""Seconds that a statement may take beyond the server's own limit, which gives the better error."""

CANCEL_TIMEOUT = 5.0
"""Seconds that a call which is interrupted spends on telling the server to give up its statement."""

T = TypeVar("T")


class _Known:
    """What a store wants to know of a connection.

    Attributes:
        limit: seconds that one statement may take.
    """

    pgconn: PGconn
    limit: float = CONNECT_TIMEOUT

    @property
    def fit(self) -> bool:
        """Whether it can take another statement."""
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    @property
    def lost(self) -> bool:
        """Whether nobody can tell what became of its last statement."""
        return self.pgconn.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)

    def drop(self) -> None:
        """Close it; that needs no reply, so nobody waits."""
        self.pgconn.finish()

    def __del__(self, *_: object) -> None:
        """Leave out the library's warning: a connection that nobody holds is closed, by the process that opened it."""


class StoreConnection(_Known, Connection):
    """A connection whose waits end, also on a server that says nothing.

    The library has a time-out only in its newest versions, and never sets it. On an interruption it goes on waiting for the
    server; an error that comes of that takes the interruption's place, and the call would be repeated instead of ended.
    """

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Carry out a statement."""
        try:
            return waiting.wait(_bounded(gen, self.limit if timeout is None else timeout), self.pgconn.socket, interval)
        except KeyboardInterrupt:
            # The connection is not used again, so it does not matter whether the server hears of it.
            with suppress(Error, OSError):
                if capabilities.has_cancel_safe():  # all else can block for ever
                    self.cancel_safe(timeout=CANCEL_TIMEOUT)
            raise


class AsyncStoreConnection(_Known, AsyncConnection):
    """The same for asyncio."""

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Carry out a statement."""
        steps = _bounded(gen, self.limit if timeout is None else timeout)
        try:
            return await waiting.wait_async(steps, self.pgconn.socket, interval)
        except (asyncio.CancelledError, KeyboardInterrupt):
            with suppress(Error, OSError):
                if capabilities.has_cancel_safe():
                    await self.cancel_safe(timeout=CANCEL_TIMEOUT)
            raise


@dataclass(frozen=True)
class Server:
    """Where to connect, and how.

    Attributes:
        conninfo: what libpq is given.
        place: host, port and database, as far as they are known; for messages.
        limit: seconds that one statement may take.
    """

    conninfo: str = field(repr=False)  # it has the password
    place: str
    limit: float
    errors: type[Error] = Error

    @classmethod
    def at(cls, url: str, user: str, timeout: float, *, server_timeout: bool) -> Self:
        """Return the server that a URL, or a connection string in libpq's other form, names.

        Args:
            url: what libpq takes.
            user: the store that asks, for messages.
            timeout: seconds that one statement may take.
            server_timeout: whether the server is told so.

        Raises:
            StoreUrlError: libpq does not take it.
        """
        try:
            given = conninfo_to_dict(url)
        except ProgrammingError:
            # libpq quotes the part that it can't read, which may be the password; so its words are no use here.
            raise StoreUrlError(
                f"{user} can't read its URL; give postgresql://user:password@host:port/database?options with options of "
                "libpq, and percent-encode every special character of user and password"
            ) from None
        parameters = {"fallback_application_name": "blobcp", **DEAD_PEER, **given}
        if "connect_timeout" not in given and "PGCONNECT_TIMEOUT" not in os.environ:
            parameters["connect_timeout"] = CONNECT_TIMEOUT
        if server_timeout:
            # Theirs come last, so they win.
            theirs = given.get("options") or os.environ.get("PGOPTIONS", "")
            parameters["options"] = f"-c statement_timeout={max(1, round(timeout * 1000))} {theirs}".strip()
        parameters["client_encoding"] = "UTF8"  # an id can be any text
        return cls(make_conninfo("", **parameters), _place(given), timeout + GRACE)

    def connect(self) -> StoreConnection:
        """Return a new connection.

        Raises:
            Failed: there can be none.
        """
        with _connecting():
            connection = StoreConnection.connect(self.conninfo, autocommit=True)
            _accept(connection)
            connection.limit = self.limit
        return connection

    async def connect_async(self) -> AsyncStoreConnection:
        """Return a new connection for asyncio.

        Raises:
            Failed: there can be none.
        """
        with _connecting():
            connection = await AsyncStoreConnection.connect(self.conninfo, autocommit=True)
            _accept(connection)
            connection.limit = self.limit
        return connection


def _place(given: Mapping[str, object]) -> str:
    host = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", "")
    port = given.get("port") or os.environ.get("PGPORT", "")
    name = given.get("dbname") or os.environ.get("PGDATABASE", "") or given.get("service") or "the default database"
    return f"{host}{port and f':{port}'}/{name}".removeprefix("/")


@contextmanager
def _connecting() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise Failed(error, sent=False) from error
    except UnicodeError as error:  # by looking up a host with a part that is empty or too long
        raise Failed(OperationalError(f"the host is no name of one: {error}"), sent=False) from error


def _accept(connection: StoreConnection | AsyncStoreConnection) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.drop()
        raise NotSupportedError(f"the database keeps text as {encoding}, which can't hold every id; use one in UTF8")
    # Behind a pooler the server's end may change between two statements. The library counts the names of prepared
    # statements from zero, so one could meet that of somebody else. A name of its own is found or is missing, which is noticed.
    names = connection._prepared
    if hasattr(names, "_prepared_idx"):
        names._prepared_idx = getrandbits(62)
    else:
        connection.prepare_threshold = None


def _bounded(steps: PQGen[T], limit: float) -> PQGen[T]:
    deadline = time.monotonic() + limit
    try:
        wait = next(steps)
        while True:
            ready = yield wait
            if time.monotonic() >= deadline:
                raise OperationalError(f"no answer within {limit:g} seconds")
            wait = steps.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result
