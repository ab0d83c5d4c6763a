"""The stores that come with blobcp: places that keep a blob of bytes under an id.

Each promises what :mod:`blobcp.store` asks for. The library that a store needs is imported when the store is first used.
"""

from __future__ import annotations

from .file import FileStore
from .map import MapStore
from .opening import open_store

__all__ = ["FileStore", "MapStore", "open_store"]
