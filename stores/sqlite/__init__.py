"""A store in one SQLite file."""

from __future__ import annotations

from .store import SQLiteStore

__all__ = ["SQLiteStore"]
