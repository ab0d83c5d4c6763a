"""What the plain and the awaited Redis store have in common: how they are made, by what arguments, and how pickled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlunsplit

from blobcp.errors import StoreError, StoreUrlError

from ..urls import shown, split
from .clients import AsyncClient, PlainClient, Settings
from .commands import Commands

__all__ = ["RedisBase"]

DEFAULT_URL = "redis://localhost:6379/0"
DEFAULT_PREFIX = "blobcp:"
PREFIX_OPTION = "blobcp_prefix"

C = TypeVar("C", bound=PlainClient | AsyncClient)


class RedisBase(ABC, Generic[C]):
    """A store by its URL or with a client that was handed in; its subclasses talk to the server.

    Args:
        url: see :class:`blobcp.stores.redis.RedisStore`, as for all others.
        prefix: what all keys start with.
        client: a client to use, in place of one of its own.
        socket_timeout: seconds to wait for an answer.
        socket_connect_timeout: seconds to wait for a connection.
        max_connections: the size of the pool.
        pool_timeout: seconds to wait for a free connection of the pool.
        retries: how often a command is sent again.

    Raises:
        StoreUrlError: the URL can't be taken.
        StoreError: the arguments contradict each other.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        prefix: str | None = None,
        client: C | None = None,
        socket_timeout: float = 10.0,
        socket_connect_timeout: float = 5.0,
        max_connections: int = 50,
        pool_timeout: float = 10.0,
        retries: int = 2,
    ) -> None:
        if url is not None and client is not None:
            raise StoreError(f"a {type(self).__name__} has either a url or a client; both were given")
        bare_url, prefix_in_url = _take_prefix(DEFAULT_URL if url is None else url)
        if prefix is not None and prefix_in_url is not None:
            raise StoreUrlError(
                f"store URL {shown(bare_url)!r} has a prefix, and another was given beside it; give one"
            )
        self._settings = Settings(
            bare_url, socket_timeout, socket_connect_timeout, max_connections, pool_timeout, retries
        )
        self._prefix = next((given for given in (prefix, prefix_in_url) if given is not None), DEFAULT_PREFIX)
        self._commands = Commands(self._prefix)
        self._given = client
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Make ready what commands are sent through."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a store for ``redis://user:password@host:6379/0``, or with ``rediss`` by TLS.

        Behind a ``?`` it takes ``blobcp_prefix`` and the options of redis-py, for instance ``socket_timeout=3``.

        Raises:
            StoreUrlError: the URL can't be taken.
        """
        return cls(url)

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        if self._given is not None:
            raise StoreError(
                f"a {type(self).__name__} with a client that was handed in can't be pickled or copied, since the client "
                "can't be opened again elsewhere; open it by its URL"
            )
        settings = self._settings
        again = partial(
            type(self),
            settings.url,
            prefix=self._prefix,
            socket_timeout=settings.socket_timeout,
            socket_connect_timeout=settings.socket_connect_timeout,
            max_connections=settings.max_connections,
            pool_timeout=settings.pool_timeout,
            retries=settings.retries,
        )
        return again, ()


def _take_prefix(url: str) -> tuple[str, str | None]:
    """Return the URL as redis-py takes it, and the key prefix that it named."""
    parts = split(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    ours = [(name, value) for name, value in options if name.startswith("blobcp_")]
    if not ours:
        return url, None
    if len(ours) > 1 or ours[0][0] != PREFIX_OPTION:
        names = ", ".join(name for name, _ in ours)
        raise StoreUrlError(
            f"store URL {shown(url)!r} has the options {names}; of blobcp's there is one {PREFIX_OPTION}"
        )
    rest = urlencode([option for option in options if option not in ours])
    return urlunsplit(parts._replace(query=rest)), ours[0][1]
