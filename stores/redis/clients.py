"""The connections of the Redis stores: a client opened by its URL, and what is asked of one that is handed in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

from blobcp.errors import StoreError, StoreUrlError

from ..extras import extra
from ..urls import shown, split

if TYPE_CHECKING:
    from redis import BlockingConnectionPool
    from redis.asyncio import BlockingConnectionPool as AsyncBlockingConnectionPool

    P = TypeVar("P", BlockingConnectionPool, AsyncBlockingConnectionPool)

__all__ = ["AsyncClient", "PlainClient", "Pool", "Settings", "check_client", "name_of", "open_async_pool", "open_pool"]

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two tries of a command whose connection failed; each pause is twice the one before."""


LONGEST_WAIT = 2_000_000
"""Seconds, 23 days; much more can't be waited for on every system."""


class Pool(Protocol):
    """What is asked of a connection pool."""

    @property
    def connection_class(self) -> Callable[..., object]: ...

    @property
    def connection_kwargs(self) -> Mapping[str, object]: ...


class Encoder(Protocol):
    """What is asked of the part of a client that turns answers into text or leaves them as they are."""

    @property
    def decode_responses(self) -> bool: ...


class PlainClient(Protocol):
    """What a store needs of ``redis.Redis`` or ``redis.cluster.RedisCluster``."""

    def execute_command(self, *words: object) -> object: ...

    def scan_iter(self, match: bytes, count: int) -> Iterator[bytes]: ...

    def get_encoder(self) -> Encoder: ...


class AsyncClient(Protocol):
    """What a store needs of ``redis.asyncio.Redis`` or ``redis.asyncio.cluster.RedisCluster``."""

    def execute_command(self, *words: object) -> Awaitable[object]: ...

    def scan_iter(self, match: bytes, count: int) -> AsyncIterator[bytes]: ...

    def get_encoder(self) -> Encoder: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How a store connects; its docstring says what each is."""

    url: str = field(repr=False)  # it has the password
    socket_timeout: float
    socket_connect_timeout: float
    max_connections: int
    pool_timeout: float
    retries: int


def open_pool(settings: Settings) -> BlockingConnectionPool:
    """Return a pool for the URL, which has not connected yet.

    Raises:
        StoreUrlError: redis-py can't take the URL.
        StoreError: a number is out of range.
        MissingExtraError: redis-py is not installed.
    """
    with extra("redis", "RedisStore"):
        from redis import BlockingConnectionPool
        from redis.backoff import ExponentialBackoff
        from redis.connection import AbstractConnection
        from redis.retry import Retry

    retry = Retry(ExponentialBackoff(LONGEST_PAUSE, SHORTEST_PAUSE), settings.retries)
    return _checked(BlockingConnectionPool, settings, retry, AbstractConnection)


def open_async_pool(settings: Settings) -> AsyncBlockingConnectionPool:
    """Return a pool for the URL and the running event loop, which has not connected yet.

    Raises:
        StoreUrlError: redis-py can't take the URL.
        StoreError: a number is out of range.
        MissingExtraError: redis-py is not installed.
    """
    with extra("redis", "AsyncRedisStore"):
        from redis.asyncio import BlockingConnectionPool
        from redis.asyncio.connection import AbstractConnection
        from redis.asyncio.retry import Retry
        from redis.backoff import ExponentialBackoff

    retry = Retry(ExponentialBackoff(LONGEST_PAUSE, SHORTEST_PAUSE), settings.retries)
    return _checked(BlockingConnectionPool, settings, retry, AbstractConnection)


def check_client(client: PlainClient | AsyncClient, kinds: tuple[type, ...]) -> None:
    """Refuse a client that the store can't use.

    Args:
        client: what was handed in.
        kinds: the classes that it may be of.

    Raises:
        StoreError: it is of another class, or makes text of answers.
    """
    if not isinstance(client, kinds):
        names = " or ".join(f"{kind.__module__.removesuffix('.client')}.{kind.__name__}" for kind in kinds)
        given = f"{type(client).__module__}.{type(client).__name__}"
        raise StoreError(f"the store can't use a {given} as its client; give a {names}")
    if client.get_encoder().decode_responses:
        raise StoreError("the store can't use a client with decode_responses=True, since blobs are bytes; leave it out")


def name_of(pool: Pool | None) -> str:
    """Return what a message calls the server behind a pool; it never holds a password."""
    if pool is None:
        return "the Redis cluster"
    service = getattr(pool, "service_name", None)  # of a pool that asks Sentinel
    options = pool.connection_kwargs
    where = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    return f"Redis at {service or where}, database {options.get('db', 0)}"


def _checked(pool_class: type[P], settings: Settings, retry: object, connection: type) -> P:
    with _refusing(settings.url):
        pool = pool_class.from_url(settings.url, retry=retry, **_options(settings, connection))
        _try_out(pool)
    _check_limits(settings, pool.timeout, pool.connection_kwargs)
    return pool


def _options(settings: Settings, connection: type) -> dict[str, object]:
    """Return what redis-py is told about time-outs and retries; the options in the URL win over it."""
    from redis.exceptions import ConnectionError, TimeoutError

    options: dict[str, object] = {
        "max_connections": settings.max_connections,
        "timeout": settings.pool_timeout,
        "socket_timeout": settings.socket_timeout,
        "retry_on_error": [ConnectionError, TimeoutError],
        # A new connection then sends nothing but what it is opened for (and AUTH and SELECT where they are needed).
        "protocol": 2,
    }
    known = inspect.signature(connection).parameters
    options |= {"driver_info": None} if "driver_info" in known else {"lib_name": None, "lib_version": None}
    if not settings.url.startswith("unix:"):
        options["socket_connect_timeout"] = settings.socket_connect_timeout
    return options


def _try_out(pool: Pool) -> None:
    # Without a connection: that shows an option that redis-py does not know now, and not at the first save.
    pool.connection_class(**pool.connection_kwargs)


def _check_limits(settings: Settings, pool_timeout: float | None, options: Mapping[str, object]) -> None:
    # As they are in the pool, since each may come from the URL.
    waits = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout") if name in options}
    waits["pool_timeout"] = pool_timeout
    wrong = [f"{name}={wait}" for name, wait in waits.items() if not _is_number(wait) or not 0 < wait <= LONGEST_WAIT]
    if settings.max_connections < 1:
        wrong.append(f"max_connections={settings.max_connections}")
    if settings.retries < 0:
        wrong.append(f"retries={settings.retries}")
    if wrong:
        raise StoreError(
            f"the store can't work with {', '.join(wrong)}; give at least one connection, no fewer than no retries, and times "
            f"above zero, of at most {LONGEST_WAIT} seconds"
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float)


@contextmanager
def _refusing(url: str) -> Iterator[None]:
    database = split(url).path.strip("/")
    if not url.startswith("unix:") and database and not database.isdecimal():
        raise StoreUrlError(
            f"store URL {shown(url)!r} has {database!r} for a database; Redis numbers them, as in .../0"
        )
    try:
        yield
    except (TypeError, ValueError) as error:
        said = str(error).rpartition("() got an ")[2]
        raise StoreUrlError(f"store URL {shown(url)!r} can't be taken by redis-py: {said}") from error
