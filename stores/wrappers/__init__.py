"""Stores that keep their blobs in another store, and add something on the way."""

from __future__ import annotations

from .chunked import ChunkedStore
from .expiring import ExpiringStore
from .prefixed import PrefixedStore
from .retrying import RetryingStore
from .tiered import TieredStore
from .write_behind import WriteBehindStore

__all__ = ["ChunkedStore", "ExpiringStore", "PrefixedStore", "RetryingStore", "TieredStore", "WriteBehindStore"]
