"""A compiled graph: immutable tables that the machine and the drivers read.

The builder writes them once, in declaration order; nothing here runs or decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from blobcp.stream.shapes import Shape

__all__ = ["END", "START", "BranchPlan", "Checker", "GraphPlan", "NodePlan", "Send"]

START: Final = "start"
"""The key of the place where a graph's input comes in."""

END: Final = "end"
"""The key of the place where a graph's output goes out."""

Checker = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Send:
    """What a finished node does for one successor: hand it its value, count as a finished predecessor, or both."""

    target: str
    control: bool = True
    data: bool = True


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A choice after a node, and the ends it may choose, in declaration order.

    Attributes:
        choose: takes the node's value.
        ends: what it may choose.
        reading: the same choice for one that takes a `StreamReader`; it peeks at a copy in a stream run.
    """

    choose: Callable[[Any], Any]
    ends: tuple[str, ...]
    reading: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodePlan:
    """One node, or START (which only has sends and branches).

    Attributes:
        key: the node's key.
        index: its place in the order of declaration.
        call: the user's function; ``None`` for a nested graph and for START.
        is_async: whether only the asyncio driver can run it.
        acall: what the asyncio driver awaits; ``None`` where it calls ``call`` in a thread.
        graph: the nested graph.
        shape: which of the four shapes a stream run calls the node in.
        chunked: the user's function of that shape.
        chunked_is_async: whether only the asyncio driver can run that.
        achunked: what the asyncio driver awaits or reads of that shape; ``None`` where it does as threads do.
        pre: the handler before the node, ``(value, state) -> value``.
        post: the handler after it.
        pre_reading: the former for one that takes a `StreamReader`.
        post_reading: the latter likewise.
        input_key: which item of the incoming dict the node takes.
        output_key: under which key its result travels on.
        takes: checks what the node is handed; ``None`` where anything goes.
        gives: checks what it returns.
        takes_name: the declared type, for messages.
        gives_name: likewise.
        zero: what it is handed where nothing was sent.
        sends: its direct edges.
        branches: its choices.
        rejects: per end of a branch, what that end is not owed any more if no branch chooses it; what a direct edge
            brings there all the same is left out.
        targets: all that it may send to, once each.
        stop_before: whether the run stops before it.
        stop_after: whether the run stops after it.
    """

    key: str
    index: int
    call: Callable[[Any], Any] | None = None
    is_async: bool = False
    acall: Callable[[Any], Awaitable[Any]] | None = None
    shape: Shape = "invoke"
    chunked: Callable[[Any], Any] | None = None
    chunked_is_async: bool = False
    achunked: Callable[[Any], Any] | None = None
    graph: GraphPlan | None = None
    pre: Callable[[Any, Any], Any] | None = None
    post: Callable[[Any, Any], Any] | None = None
    pre_reading: Callable[[Any, Any], Any] | None = None
    post_reading: Callable[[Any, Any], Any] | None = None
    input_key: str | None = None
    output_key: str | None = None
    takes: Checker | None = None
    gives: Checker | None = None
    takes_name: str = "Any"
    gives_name: str = "Any"
    zero: Any = None
    sends: tuple[Send, ...] = ()
    branches: tuple[BranchPlan, ...] = ()
    rejects: tuple[Send, ...] = ()
    targets: tuple[str, ...] = ()
    stop_before: bool = False
    stop_after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphPlan:
    """One graph.

    Attributes:
        name: what the root address is called by.
        mode: ``"pregel"`` or ``"dag"``.
        eager: in dag mode, whether a node starts the moment it is ready.
        max_steps: how many super-steps a pregel run may take.
        start: START's sends and branches.
        nodes: the nodes by key, in declaration order.
        control: per node and END, the sources that decide when it runs, in declaration order.
        data: likewise, the sources that send it values.
        make_state: makes a fresh state, or ``None`` for a graph without one.
        state_type: the class of the state where the factory shows it.
        takes: checks the graph's input.
        gives: checks its output.
        takes_name: the declared input type, for messages.
        gives_name: likewise.
        mark_source_end: whether a stream run marks in its output where each node that feeds END has ended.
    """

    name: str
    mode: str
    eager: bool
    max_steps: int
    start: NodePlan
    nodes: Mapping[str, NodePlan]
    control: Mapping[str, tuple[str, ...]]
    data: Mapping[str, tuple[str, ...]]
    make_state: Callable[[], Any] | None = None
    state_type: type[Any] | None = None
    takes: Checker | None = None
    gives: Checker | None = None
    takes_name: str = "Any"
    gives_name: str = "Any"
    order: Mapping[str, int] = field(default_factory=dict)
    mark_source_end: bool = False

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], GraphPlan]]:
        """Yield this graph and those nested in it, each with the keys on the way to it."""
        yield path, self
        for node in self.nodes.values():
            if node.graph is not None:
                yield from node.graph.walk((*path, node.key))
