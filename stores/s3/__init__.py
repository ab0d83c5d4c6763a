"""A store in a bucket of S3, or of what speaks its protocol."""

from __future__ import annotations

from .store import S3Store

__all__ = ["S3Store"]
