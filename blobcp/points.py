"""What a stop consists of: the tree of signals behind it, and the points a person sees.

A stop is a tree. Its leaves are the root causes (somebody must answer them), the nodes above only pass it on: a
composite node, a nested graph, the root graph. Inside the framework the tree is made of :class:`Signal`, from the root
down. A user gets :class:`InterruptPoint`, from a leaf up. A checkpoint keeps two flat maps, by id.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from blobcp.checkpoint import Address, InterruptState

__all__ = ["InterruptInfo", "InterruptPoint", "Signal", "copied", "flatten", "points_of", "tree_of", "unflatten"]


@dataclass(slots=True, kw_only=True)
class Signal:
    """One node of the tree of a stop.

    Attributes:
        id: what an answer names.
        address: where it stopped.
        info: what is asked.
        state: what the component wants back on resume.
        children: the signals that this one passes on; none for a root cause.
        of_graph: whether a graph stopped here, whose info is its state and is not stored twice.
        stored_under: in an app that was called from a node, the checkpoint id that the app is stored under.
        in_order: whether the node's own body asked it, one question after the other.
        created_at: when it was asked first, in UTC; ``None`` until the run has stopped.
    """

    id: str
    address: Address
    info: Any = None
    state: Any = None
    children: list[Signal] = field(default_factory=list)
    of_graph: bool = False
    stored_under: str | None = None
    in_order: bool = True
    created_at: datetime | None = None

    @property
    def is_root_cause(self) -> bool:
        """Whether it stopped by itself."""
        return not self.children

    def walk(self) -> Iterator[Signal]:
        """Yield this signal and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InterruptPoint:
    """A place where a run waits.

    Attributes:
        id: what ``answers`` names.
        address: where it is; ``str(point.address)`` reads ``runnable:root;node:approve``.
        info: what is asked. For a graph that stopped before or after a node, a copy of its state.
        is_root_cause: whether it stopped by itself, as against passing on what stopped inside it.
        parent: the point that passed it on, up to the root graph, which has none.
        created_at: when the run stopped at it first, in UTC.
    """

    id: str
    address: Address
    info: Any = None
    is_root_cause: bool = True
    parent: InterruptPoint | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InterruptInfo:
    """Where one graph of a stopped run stands.

    Attributes:
        state: a copy of the graph's state, made when the run stopped.
        before_nodes: nodes it stopped before, by ``interrupt_before``.
        after_nodes: nodes it stopped after, by ``interrupt_after``, in the order in which they finished.
        rerun_nodes: nodes that stopped by themselves and will run again.
        rerun_extra: per rerun node, the info it gave; a list where it asked several things.
        subgraphs: per nested graph that is inside, the same for that graph.
    """

    state: Any = None
    before_nodes: list[str] = field(default_factory=list)
    after_nodes: list[str] = field(default_factory=list)
    rerun_nodes: list[str] = field(default_factory=list)
    rerun_extra: dict[str, Any] = field(default_factory=dict)
    subgraphs: dict[str, InterruptInfo] = field(default_factory=dict)


def copied(value: Any) -> Any:
    """Return a copy of what a run shows of itself, as it is now.

    What can't be copied (it holds a lock, say) is shown itself: a run without a checkpoint may well have such a value,
    and a run with one is told by the save.
    """
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def points_of(signal: Signal | None) -> list[InterruptPoint]:
    """Return the root causes of a tree, each with its chain of parents; siblings share one parent object."""
    return list(_leaves(signal, None)) if signal else []


def _leaves(signal: Signal, parent: InterruptPoint | None) -> Iterator[InterruptPoint]:
    point = InterruptPoint(
        id=signal.id,
        address=signal.address,
        info=signal.info,
        is_root_cause=signal.is_root_cause,
        parent=parent,
        created_at=signal.created_at,
    )
    if signal.is_root_cause:
        yield point
    for child in signal.children:
        yield from _leaves(child, point)


def tree_of(points: Iterable[InterruptPoint]) -> Signal | None:
    """Return the tree that the points are the leaves of, or ``None`` for no points; the inverse of `points_of`."""
    signals: dict[str, Signal] = {}
    root: Signal | None = None
    for point in points:
        root = _join(point, signals) or root
    return root


def _join(point: InterruptPoint, signals: dict[str, Signal]) -> Signal | None:
    """Hang the point and its parents into the tree; returns the root where this made it."""
    child: Signal | None = None
    at: InterruptPoint | None = point
    while at is not None:
        known = signals.get(at.id)
        signal = known or Signal(id=at.id, address=at.address, info=at.info, created_at=at.created_at)
        if child is not None:
            signal.children.append(child)
        if known is not None:
            return None
        signals[at.id] = child = signal
        at = at.parent
    return child


def flatten(
    signal: Signal | None, graphs: Collection[Address] = ()
) -> tuple[dict[str, Address], dict[str, InterruptState]]:
    """Return what a checkpoint keeps of a tree: by id, the address and the state, parents first.

    Args:
        signal: the tree's root.
        graphs: the graphs whose state the checkpoint holds anyway; their points' info is not stored a second time.
    """
    addresses: dict[str, Address] = {}
    states: dict[str, InterruptState] = {}
    for at, parent in _with_parents(signal, None) if signal else ():
        addresses[at.id] = at.address
        states[at.id] = InterruptState(
            state=at.state,
            stored_under=at.stored_under,
            info=None if at.of_graph and at.address in graphs else at.info,
            of_graph=at.of_graph,
            is_root_cause=at.is_root_cause,
            parent=parent,
            in_order=at.in_order,
            created_at=at.created_at,
        )
    return addresses, states


def _with_parents(signal: Signal, parent: str | None) -> Iterator[tuple[Signal, str | None]]:
    yield signal, parent
    for child in signal.children:
        yield from _with_parents(child, signal.id)


def unflatten(addresses: Mapping[str, Address], states: Mapping[str, InterruptState]) -> list[Signal]:
    """Return the trees that two maps of a checkpoint stand for; points that were answered already are left out."""
    signals: dict[str, Signal] = {}
    roots: list[Signal] = []
    for id, record in states.items():
        if record.status == "done":
            continue
        signal = Signal(
            id=id,
            address=addresses[id],
            info=record.info,
            state=record.state,
            of_graph=record.of_graph,
            stored_under=record.stored_under,
            in_order=record.in_order,
            created_at=record.created_at,
        )
        signals[id] = signal
        siblings = signals[record.parent].children if record.parent in signals else roots
        siblings.append(signal)
    return roots
