"""What the two Postgres stores share beside their calls: how they are opened, shown, copied and told apart."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Self, TypeVar

from blobcp.errors import StoreError

from ..extras import extra
from ..urls import Converter, boolean, options_of
from .calls import Calls
from .sql import statements

__all__ = ["PREFIX", "PostgresBase"]

PREFIX = "blobcp_"
"""What the options of the store start with in a URL; all others belong to libpq."""

MAX_TIMEOUT = 2_000_000
"""Seconds, 23 days; the server counts its limit in milliseconds of 32 bits."""

OPTIONS: dict[str, Converter] = {
    "table": str,
    "schema": str,
    "pool_size": int,
    "timeout": float,
    "server_timeout": boolean,
    "create": boolean,
}


Place = TypeVar("Place", bound=Hashable)
Pool = TypeVar("Pool")


class PostgresBase(Generic[Place, Pool]):
    """A store that can be opened and described, but does nothing by itself; see ``PostgresStore`` for the arguments."""

    def __init__(
        self,
        url: str,
        *,
        table: str = "blobcp_checkpoints",
        schema: str | None = None,
        pool_size: int = 10,
        timeout: float = 30.0,
        server_timeout: bool = True,
        create: bool = True,
    ) -> None:
        name = type(self).__name__
        if pool_size < 1 or not 0 < timeout <= MAX_TIMEOUT:
            raise StoreError(
                f"{name} can't work with pool_size={pool_size} and timeout={timeout}; give more than nothing, and at most "
                f"{MAX_TIMEOUT} seconds"
            )
        self.table = table
        self.schema = schema
        self.pool_size = pool_size
        self.timeout = timeout
        self._arguments: dict[str, object] = {
            "url": url,
            "table": table,
            "schema": schema,
            "pool_size": pool_size,
            "timeout": timeout,
            "server_timeout": server_timeout,
            "create": create,
        }
        with extra("postgres", name):
            from .connections import Server
        sql = statements(table, schema)
        self._server = Server.at(url, name, timeout, server_timeout=server_timeout)
        self._pools: dict[Place, Pool] = {}
        self._calls = Calls(sql, f"table {sql.table} at {self._server.place}", create=create)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the store that ``postgresql://user:password@host:port/database?option=value`` names.

        The constructor's arguments are options with ``blobcp_`` before the name (``blobcp_table=drafts``); all other
        options go to libpq (``sslmode=require``).

        Raises:
            StoreUrlError: libpq can't read the URL, or an option with ``blobcp_`` is unknown or not of its kind.
            MissingExtraError: psycopg is not installed.
        """
        # Cut by hand: libpq takes several hosts with a port each, which is no URL to the standard library.
        place, _, query = url.partition("?")
        items = query.split("&") if query else []
        ours = "&".join(item for item in items if item.startswith(PREFIX))
        theirs = "&".join(item for item in items if not item.startswith(PREFIX))
        known = {PREFIX + name: converter for name, converter in OPTIONS.items()}
        options: dict[str, Any] = {
            name.removeprefix(PREFIX): value
            for name, value in options_of(f"{url.partition(':')[0]}:?{ours}", known).items()
        }
        return cls(f"{place}?{theirs}" if theirs else place, **options)

    def setup_sql(self) -> str:
        """Return the SQL that makes the table, for those whose role at run time may not; it does no harm a second time.

        >>> from blobcp.stores.postgres import PostgresStore
        >>> print(PostgresStore("postgresql://db/app", table="drafts").setup_sql().splitlines()[2])
        CREATE TABLE IF NOT EXISTS "drafts" (
        """
        return self._calls.sql.setup

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._calls.place})"

    def __getstate__(self) -> dict[str, object]:
        return self._arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)
