"""What the machine says of a run that can't go on as it is, and in which order."""

from __future__ import annotations

from typing import Any

from blobcp.errors import NothingToRunError
from blobcp.graph.instance import GraphRun
from blobcp.graph.plan import END, NodePlan

__all__ = ["nothing_to_run", "place_of", "too_many_steps", "wrong_output"]


def nothing_to_run(run: GraphRun) -> NothingToRunError:
    """Return the error of a graph that ran out of nodes before END."""
    last = sorted(run.last_completed, key=lambda key: run.plan.order.get(key, -1))
    return NothingToRunError(
        f"{_where(run)} has nothing left to run and END was not reached; last completed nodes: {last}",
        path=run.path,
        last_completed=last,
    )


def too_many_steps(run: GraphRun, limit: int) -> str:
    """Say that a loop was longer than it may be."""
    return (
        f"{_where(run)} was not finished after max_steps={limit} super-steps; "
        "give a larger max_steps if the loop is meant to be that long"
    )


def wrong_output(run: GraphRun, value: Any) -> str:
    """Say that END got what the graph is not declared to return."""
    sources = ", ".join(run.channels[END].values) or "no node"
    return (
        f"{_where(run)} is declared to return {run.plan.gives_name} and got {type(value).__qualname__} from {sources}; "
        "check what that returns"
    )


def place_of(run: GraphRun, node: NodePlan | None) -> tuple[int, ...]:
    """Return where in the declaration order of the whole tree something is."""
    above = place_of(run.parent.run, run.parent.node) if run.parent else ()
    return above if node is None else (*above, node.index)


def _where(run: GraphRun) -> str:
    return f"graph {'/'.join(run.path)}" if run.path else f"graph {run.plan.name!r}"
