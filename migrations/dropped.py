"""What a migration has left out of a checkpoint, for whoever has to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from .texts import printable

__all__ = ["Dropped", "where"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """One thing that a migration has dropped.

    Attributes:
        what: ``field``, ``channel``, ``value``, ``input``, ``nested graph`` or ``interrupt``.
        name: the field with its type, the node's key, or the id of the interrupt.
        path: the keys of the nodes on the way to the graph that it was in; empty for the root graph.
        detail: where exactly, in words: the address of an interrupt, the node that a value waited for.
        count: how often, for fields.
    """

    what: str
    name: str
    path: tuple[str, ...] = ()
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        detail = f", {self.detail}" if self.detail else ""
        return printable(f"{self.what} {self.name} of {where(self.path)}{detail}{times}")


def where(path: tuple[str, ...]) -> str:
    """Return what messages call a graph."""
    return f"graph {'/'.join(path)}" if path else "the root graph"
