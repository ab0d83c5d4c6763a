"""What can be said of a graph's shape before it runs: who precedes whom, what is reached, loops, types that can't meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from blobcp.codec import can_meet
from blobcp.errors import GraphBuildError
from blobcp.graph.node import type_name
from blobcp.graph.plan import END, START, Send

if TYPE_CHECKING:
    from blobcp.graph.graph import Graph, NodeSpec

__all__ = ["check_no_cycle", "check_reach", "check_types", "predecessors"]


def predecessors(graph: Graph) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return, per node and END, its control and its data predecessors, in the order in which the edges were declared."""
    control: dict[str, dict[str, None]] = {key: {} for key in (*graph.nodes, END)}
    data: dict[str, dict[str, None]] = {key: {} for key in (*graph.nodes, END)}
    for source, send in graph.connections:
        if send.control:
            control[send.target][source] = None
        if send.data:
            data[send.target][source] = None
    return {key: tuple(sources) for key, sources in control.items()}, {
        key: tuple(sources) for key, sources in data.items()
    }


def _all_sends(spec: NodeSpec) -> Iterator[Send]:
    yield from spec.sends.values()
    for branch in spec.branches:
        for end in branch.ends:
            yield Send(end)


def check_reach(graph: Graph, mode: str) -> None:
    """Refuse a graph in which START leads nowhere, END is never reached, or a node can never run."""
    if not graph.start.sends and not graph.start.branches:
        raise GraphBuildError(f"no edge leaves {START!r}; add one to the first node")
    if all(send.target != END for _, send in graph.connections):
        raise GraphBuildError(f"no edge reaches {END!r}; add one from the last node")
    reached = _reached(graph, mode)
    lost = [key for key in graph.nodes if key not in reached]
    if lost:
        raise GraphBuildError(
            f"nodes {lost} can't be reached from {START!r}{_by_control(mode)}, so they never run; connect or remove them"
        )
    if END not in reached:
        raise GraphBuildError(f"{END!r} can't be reached from {START!r}{_by_control(mode)}; no run would ever finish")


def _by_control(mode: str) -> str:
    return " by edges with control" if mode == "pregel" else ""


def _reached(graph: Graph, mode: str) -> set[str]:
    """Return the nodes that may run. Data alone starts a node in dag mode only, where nothing else decides over it."""
    controlled = {send.target for _, send in graph.connections if send.control}
    reached: set[str] = set()
    pending = [START]
    while pending:
        key = pending.pop()
        if key in reached:
            continue
        reached.add(key)
        if key != END:
            spec = graph.start if key == START else graph.nodes[key]
            pending.extend(
                send.target
                for send in _all_sends(spec)
                if send.control or (mode == "dag" and send.target not in controlled)
            )
    return reached


def check_no_cycle(graph: Graph) -> None:
    """Refuse a loop, which a dag can't have; the message shows it."""
    done: set[str] = set()
    for key in graph.nodes:
        loop = _find_loop(graph, key, done)
        if loop:
            raise GraphBuildError(f"a dag has no cycles, and {'→'.join(loop)} is one; use pregel mode to loop")


def _find_loop(graph: Graph, first: str, done: set[str]) -> list[str] | None:
    """Walk down from a node, without recursion; return the loop that was met, closed."""
    path: list[str] = []
    pending: list[tuple[str, int]] = [(first, 0)]
    while pending:
        key, depth = pending.pop()
        done.update(path[depth:])
        del path[depth:]
        if key in path:
            return [*path[path.index(key) :], key]
        if key in done or key == END:
            continue
        path.append(key)
        pending.extend((send.target, depth + 1) for send in _all_sends(graph.nodes[key]))
    done.update(path)
    return None


def check_types(graph: Graph) -> None:
    """Refuse an edge on which what is given can never be what is taken, by the annotations."""
    for source in (graph.start, *graph.nodes.values()):
        gives = _travels(graph, source)
        for send in _all_sends(source):
            if not send.data:
                continue
            takes = _accepts(graph, send.target)
            if not can_meet(gives, takes):
                raise GraphBuildError(
                    f"{source.key!r} gives {type_name(gives)} and {send.target!r} takes {type_name(takes)}; "
                    "these can't meet on an edge"
                )


def _travels(graph: Graph, spec: NodeSpec) -> Any:
    """Return the type of what leaves a node."""
    if spec.key == START:
        return graph.input
    if spec.post is not None:
        return Any
    return dict if spec.output_key is not None else spec.signature.gives


def _accepts(graph: Graph, key: str) -> Any:
    """Return the type of what a node may be sent."""
    if key == END:
        return graph.output
    spec = graph.nodes[key]
    if spec.pre is not None:
        return Any
    return dict if spec.input_key is not None else spec.signature.takes
