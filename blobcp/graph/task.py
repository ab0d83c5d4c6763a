"""One visit of a node, as the machine sees it; and a node that was not asked to run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blobcp.checkpoint import Checkpoint
from blobcp.graph.plan import NodePlan
from blobcp.points import Signal
from blobcp.scope import Scope

if TYPE_CHECKING:
    from blobcp.graph.instance import GraphRun

__all__ = ["Parked", "Task"]


class Task:
    """One visit of a node.

    Attributes:
        run: the graph it is in.
        node: the node.
        value: what arrived for it; for a nested graph that has finished, what that graph gave.
        original: gives the value as it was before anything could change it; what a checkpoint keeps.
        skip_pre: whether the pre-handler has run already.
        empty: whether ``None`` stands for nothing: for what was not sent, or for a typed None that was stored.
        leaving: whether a nested graph has finished, so that only what comes after a node is left to do.
        started: whether its function was started.
        scope: what the node sees of the run, once it was looked at.
        asked: what the node had asked when the run was stored, and nobody has answered.
    """

    __slots__ = ("asked", "empty", "leaving", "node", "original", "run", "scope", "skip_pre", "started", "value")

    def __init__(
        self, run: GraphRun, node: NodePlan, value: Any, *, empty: bool = False, skip_pre: bool = False
    ) -> None:
        self.run = run
        self.node = node
        self.value = value
        self.original: Callable[[], Any] | None = None
        self.empty = empty
        self.skip_pre = skip_pre
        self.leaving = False
        self.started = False
        self.scope: Scope | None = None
        self.asked: Sequence[Signal] = ()

    @property
    def path(self) -> list[str]:
        """The keys from the root graph to the node."""
        return [*self.run.path, self.node.key]

    def input(self) -> Any:
        """Return the value to run again with."""
        return self.value if self.original is None else self.original()


@dataclass(slots=True)
class Parked:
    """A stopped node that nobody asked to run again: kept as it was stored."""

    signals: list[Signal]
    value: Any = None
    has_value: bool = False
    skip_pre: bool = False
    sub_graph: Checkpoint | None = None
