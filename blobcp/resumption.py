"""What a loaded checkpoint knows of the points a run had stopped at, and what was answered.

A run has one :class:`Resumption`; each visit of a node takes its own part of it, so that a point is handed out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from blobcp.checkpoint import Address, InterruptState

__all__ = ["NO_DATA", "Entry", "NoData", "Resumption", "Snapshot"]

Snapshot = Callable[[Any], Callable[[], Any] | None]
"""Keeps a value as it is now; returns what gives it back, or ``None`` where the value can't change."""


class NoData(Enum):
    """The type of :data:`NO_DATA`."""

    NO_DATA = "NO_DATA"

    def __repr__(self) -> str:
        return "NO_DATA"


NO_DATA: Final = NoData.NO_DATA
"""As an answer: run the point again without giving it data. Any other value, ``None`` included, is data."""


@dataclass(slots=True, eq=False)
class Entry:
    """One stored point: where it is, what is stored, and the data it was given now or earlier.

    Attributes:
        id: the point's id.
        address: where it is, in this run.
        record: what is stored.
        named: whether an answer of this run means it.
        data: what it was answered with, now or earlier; code is given copies, by `hand_out`.
        snapshot: keeps a value so that it can be given back as it is now, or tells that it can't change.
        used: whether a question of this run was it already.
        by_turn: whether that question read differently, and was taken for it by its turn.
        looked_at: whether a node has read its data without asking.
        handed_on: whether its data went to a run that keeps a checkpoint of its own.
    """

    id: str
    address: Address
    record: InterruptState
    named: bool = False
    data: Any = NO_DATA
    snapshot: Snapshot | None = None
    used: bool = False
    by_turn: bool = False
    looked_at: bool = False
    handed_on: bool = False

    @property
    def pending(self) -> bool:
        """Whether it was still open in the checkpoint."""
        return self.record.status == "pending"

    def hand_out(self) -> Any:
        """Return the data for code that may change it; neither what is stored nor the caller's own object changes."""
        give = self.snapshot(self.data) if self.snapshot is not None else None
        return self.data if give is None else give()

    @property
    def outlives_stop(self) -> bool:
        """Whether its data has to be kept where its node stops again without having finished."""
        return self.data is not NO_DATA and not self.record.of_graph and not self.handed_on


class Resumption:
    """Stored points, as one run or one visit of a node sees them.

    Args:
        entries: the points, parents first.
        targeted: whether answers were given, so that only what they name runs again.
    """

    def __init__(self, entries: Iterable[Entry], *, targeted: bool) -> None:
        self._entries = list(entries)
        self.targeted = targeted

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def names(self, address: Address) -> bool:
        """Tell whether an answer names this place or one inside it."""
        return any(entry.named and address.covers(entry.address) for entry in self._entries)

    def take(self, address: Address) -> Resumption | None:
        """Hand out what is stored at this place and inside it; a run hands out each point once."""
        taken = [entry for entry in self._entries if address.covers(entry.address)]
        if not taken:
            return None
        self._entries = [entry for entry in self._entries if not address.covers(entry.address)]
        return Resumption(taken, targeted=self.targeted)

    def view(self, address: Address) -> Resumption | None:
        """Show a run inside this place what no earlier run there has used."""
        seen = [entry for entry in self._entries if address.covers(entry.address)]
        left = [entry for entry in seen if not (entry.used or entry.looked_at)]
        return Resumption(left, targeted=self.targeted) if left else None

    def at(self, address: Address) -> list[Entry]:
        """Return the points that the node's code stored at exactly this place."""
        return [entry for entry in self._entries if entry.address == address and not entry.record.of_graph]

    def passed_on_at(self, address: Address, *, of_graph: bool) -> Entry | None:
        """Hand out the open point that only passed others on at this place, so that its id is kept if it does so again."""
        entry = next((entry for entry in self._entries if _passes_on(entry, address, of_graph)), None)
        if entry is not None:
            entry.used = True
        return entry


def _passes_on(entry: Entry, address: Address, of_graph: bool) -> bool:
    record = entry.record
    if entry.address != address or record.of_graph is not of_graph:
        return False
    return entry.pending and not record.is_root_cause and not entry.named and not entry.used
