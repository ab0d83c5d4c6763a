"""Which blobs a command is about, by what their headers say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from blobcp.codec import Header

__all__ = ["Selection"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a header must say.

    Attributes:
        status: one of these; empty for any.
        graph: one of these; empty for any.
        older: written at least so long ago.
        newer: written at most so long ago.
    """

    status: Collection[str] = ()
    graph: Collection[str] = ()
    older: timedelta | None = None
    newer: timedelta | None = None

    def __bool__(self) -> bool:
        return bool(self.status or self.graph) or self.older is not None or self.newer is not None

    def takes(self, header: Header | None, now: datetime | None = None) -> bool:
        """Tell whether a blob is among them; one whose header can't be read is only where nothing is asked of it."""
        if header is None or not self:
            return not self
        age = (now or datetime.now(UTC)) - header.created_at
        return (
            (not self.status or header.status in self.status)
            and (not self.graph or header.graph in self.graph)
            and (self.older is None or age >= self.older)
            and (self.newer is None or age <= self.newer)
        )
