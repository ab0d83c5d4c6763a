"""Which blobs a job is about, told by their headers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from blobcp.codec import Header
from blobcp.errors import OptionError

__all__ = ["HeaderFilter"]


@dataclass(frozen=True, kw_only=True)
class HeaderFilter:
    """Selects blobs by what their headers say; all that is given must hold.

    Args:
        status: ``running``, ``interrupted``, ``failed`` or ``done``; or several of them.
        graph: the name of the graph, or several.
        state_version: the version of the state schema, or several, for instance ``range(3)``.
        older: written longer ago than this.
        newer: written no longer ago than this.
        now: from when ages are counted; by default from when the filter is made.

    Raises:
        OptionError: an age is no `timedelta`.

    >>> old = HeaderFilter(status="interrupted", older=timedelta(days=30))
    >>> old(Header(checkpoint_id="order-17", status="interrupted", created_at=datetime(2020, 1, 1, tzinfo=UTC)))
    True
    """

    status: str | Collection[str] | None = None
    graph: str | Collection[str] | None = None
    state_version: int | Collection[int] | None = None
    older: timedelta | None = None
    newer: timedelta | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC), repr=False)

    def __post_init__(self) -> None:
        for name in ("older", "newer"):
            age = getattr(self, name)
            if age is not None and not isinstance(age, timedelta):
                raise OptionError(f"{name}={age!r} is no age; give a timedelta")

    def __call__(self, header: Header) -> bool:
        """Tell whether a header is one of those that are meant."""
        age = self.now - header.created_at
        return (
            _among(header.status, self.status)
            and _among(header.graph, self.graph)
            and _among(header.state_version, self.state_version)
            and (self.older is None or age > self.older)
            and (self.newer is None or age <= self.newer)
        )


def _among(value: object, allowed: object) -> bool:
    if allowed is None or value == allowed:
        return True
    return isinstance(allowed, Collection) and not isinstance(allowed, str) and value in allowed
