"""A store in a folder: how a blob becomes a file, how files are locked, listed and cleaned up."""

from __future__ import annotations

from .store import FileStore

__all__ = ["FileStore"]
