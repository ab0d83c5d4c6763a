"""What a person is told of a stop: `InterruptInfo` of a run that just stopped, and the points of a stored one."""

from __future__ import annotations

from blobcp.checkpoint import Checkpoint
from blobcp.graph.answers import root_address_in
from blobcp.points import InterruptInfo, InterruptPoint, Signal, copied, points_of, unflatten

__all__ = ["describe", "stored_points"]


def describe(checkpoint: Checkpoint, signal: Signal | None) -> InterruptInfo:
    """Return the info of a graph that stopped, and give its signal (and those of nested graphs) the same state copy.

    Args:
        checkpoint: the graph as it stands.
        signal: the graph's own signal, whose children are those of its nodes; ``None`` for a nested graph that was
            cancelled with the run, where nothing is asked.
    """
    state = copied(checkpoint.state)
    by_node: dict[str, list[Signal]] = {}
    if signal is not None:
        signal.info = state
        for child in signal.children:
            by_node.setdefault(child.address[len(signal.address)].id, []).append(child)
    nested: dict[str, InterruptInfo] = {}
    for key, below in checkpoint.sub_graphs.items():
        children = by_node.get(key, ())
        own = next((child for child in children if child.of_graph), None)
        if own is not None or not children:  # else it is over, and what comes after it has asked
            nested[key] = describe(below, own)
    rerun = [key for key in checkpoint.rerun_nodes if key not in nested]
    asked = {key: [child.info for child in by_node.get(key, ()) if child.info is not None] for key in rerun}
    return InterruptInfo(
        state=state,
        before_nodes=list(checkpoint.before_nodes),
        after_nodes=list(checkpoint.after_nodes),
        rerun_nodes=rerun,
        rerun_extra={key: infos[0] if len(infos) == 1 else infos for key, infos in asked.items() if infos},
        subgraphs=nested,
    )


def stored_points(checkpoint: Checkpoint) -> list[InterruptPoint]:
    """Return the points that a stored run waits at; a graph's own point has the graph's state as its info."""
    points: list[InterruptPoint] = []
    for tree in unflatten(checkpoint.interrupt_id_to_address, checkpoint.interrupt_id_to_state):
        if tree.address == root_address_in(checkpoint):
            _give_states(checkpoint, tree)
        points.extend(points_of(tree))
    return points


def _give_states(checkpoint: Checkpoint, signal: Signal) -> None:
    signal.info = checkpoint.state
    for child in signal.children:
        below = checkpoint.sub_graphs.get(child.address[len(signal.address)].id)
        if child.of_graph and below is not None:
            _give_states(below, child)
