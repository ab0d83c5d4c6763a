"""How a run ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blobcp.errors import RunError
from blobcp.points import Signal

__all__ = ["Failed", "Finished", "Outcome", "Paused"]


@dataclass(frozen=True, slots=True)
class Finished:
    """END was reached with this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Paused:
    """The run stopped on purpose; the tree of signals starts at the root graph."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed; the first error in declaration order, then the others."""

    errors: Sequence[RunError]


Outcome = Finished | Paused | Failed
