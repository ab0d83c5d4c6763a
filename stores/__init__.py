"""The stores that come with blobcp: places that keep a blob of bytes under an id.

Each promises what :mod:`blobcp.store` asks for. The library that a store needs is imported when the store is first used.
"""

from __future__ import annotations

from .file import FileStore
from .map import MapStore
from .opening import open_store
from .postgres import PostgresStore
from .postgres_async import AsyncPostgresStore
from .prefixed import PrefixedStore
from .redis import RedisStore
from .redis_async import AsyncRedisStore
from .retrying import RetryingStore
from .s3 import S3Store
from .sqlite import SQLiteStore

__all__ = [
    "AsyncPostgresStore",
    "AsyncRedisStore",
    "FileStore",
    "MapStore",
    "PostgresStore",
    "PrefixedStore",
    "RedisStore",
    "RetryingStore",
    "S3Store",
    "SQLiteStore",
    "open_store",
]
