"""A store in Redis or Valkey, by threads and by asyncio; what both do stands once, in ``commands``."""

from __future__ import annotations

from .store import RedisStore
from .store_async import AsyncRedisStore

__all__ = ["AsyncRedisStore", "RedisStore"]
