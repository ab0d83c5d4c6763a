"""What becomes of a blob that is brought up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blobcp.codec import Header

from .dropped import Dropped

__all__ = ["Migrated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What became of a blob.

    Attributes:
        blob: the blob as it is to be stored; the very object that was given where nothing had to be done.
        header: its header.
        changed: whether it is another one than was given.
        dropped: what the steps have dropped, in order.
        from_version: the version that it had.
        to_version: the version that it has now.
    """

    blob: bytes
    header: Header
    changed: bool
    dropped: Sequence[Dropped]
    from_version: int
    to_version: int
