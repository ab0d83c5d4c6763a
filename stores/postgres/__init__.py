"""A store in a table of Postgres, by threads and by asyncio; what both do stands once, in ``calls``."""

from __future__ import annotations

from .store import PostgresStore
from .store_async import AsyncPostgresStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]
