"""The stores that come with blobcp: places that keep a blob of bytes under an id.

Each promises what :mod:`blobcp.store` asks for. The library that a store needs is imported when the store is first used.
"""

from __future__ import annotations

from .file import FileStore
from .map import MapStore
from .opening import open_store
from .postgres import AsyncPostgresStore, PostgresStore
from .redis import AsyncRedisStore, RedisStore
from .s3 import S3Store
from .sqlite import SQLiteStore
from .wrappers import ChunkedStore, ExpiringStore, PrefixedStore, RetryingStore, TieredStore, WriteBehindStore

__all__ = [
    "AsyncPostgresStore",
    "AsyncRedisStore",
    "ChunkedStore",
    "ExpiringStore",
    "FileStore",
    "MapStore",
    "PostgresStore",
    "PrefixedStore",
    "RedisStore",
    "RetryingStore",
    "S3Store",
    "SQLiteStore",
    "TieredStore",
    "WriteBehindStore",
    "open_store",
]
