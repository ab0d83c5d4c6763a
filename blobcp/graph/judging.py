"""What to make of what user code gave or raised: a stop, a failure, a value of another type, a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from blobcp.errors import BranchError, NodeError, text_of
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.plan import BranchPlan
from blobcp.interrupt import signal_of
from blobcp.points import Signal
from blobcp.scope import InterruptSignal, Scope

__all__ = ["CAUGHT", "keys_chosen", "mismatch", "node_error", "signals_in", "stops_of", "wrong_input"]

CAUGHT: Final = (Exception, InterruptSignal, BaseExceptionGroup)
"""What user code may end with and be told of; anything else (KeyboardInterrupt, cancellation) ends the driver."""


def stops_of(scope: Scope, error: BaseException | None) -> list[Signal]:
    """Return the signals that a node ended with; none where it failed in an ordinary way.

    A question that was asked and then swallowed (by ``except BaseException``, by ``gather(return_exceptions=True)``)
    still stops the run: somebody is meant to answer it. Signals from inside the node go below one of the node's own.
    """
    found = list(scope.raised)
    if error is not None:
        ended_by = signals_in(error)
        if not ended_by:
            return []
        found.extend(signal for signal in ended_by if all(signal.id != known.id for known in found))
    own = [signal for signal in found if signal.address == scope.address]
    inside = [signal for signal in found if signal.address != scope.address]
    if inside:
        own.append(scope.pass_on(None, None, inside))
    return own


def signals_in(error: BaseException) -> list[Signal]:
    """Return the stops that an exception stands for; none for an ordinary failure."""
    if isinstance(error, BaseExceptionGroup):
        parts = [signals_in(part) for part in error.exceptions]
        return [signal for part in parts for signal in part] if all(parts) else []
    signal = signal_of(error)
    return [signal] if signal else []


def node_error(path: Sequence[str], error: BaseException) -> NodeError:
    """Return the failure of a node whose code raised this."""
    where = f"node {'/'.join(path)}" if path else "the root graph"
    failed = NodeError(f"{where} failed: {text_of(error)}", path=path)
    failed.__cause__ = error
    return failed


def mismatch(task: Task, verb: str, wanted: str, value: Any) -> str:
    """Say that a node was given, or gave, what it is not declared to."""
    return f"node {'/'.join(task.path)} {verb} {wanted} and got {type(value).__qualname__}"


def wrong_input(run: GraphRun, value: Any) -> str:
    """Say that a graph was given what it is not declared to take."""
    where = f"graph {'/'.join(run.path)}" if run.path else f"graph {run.plan.name!r}"
    return f"{where} takes {run.plan.takes_name} and got {type(value).__qualname__}"


def keys_chosen(answer: Any, branch: BranchPlan, path: Sequence[str]) -> list[str]:
    """Return the keys that a branch chose.

    Args:
        answer: what its function returned.
        branch: the branch.
        path: the node that it is on.

    Raises:
        BranchError: that is no choice among its ends.
    """
    if isinstance(answer, str) and answer in branch.ends:
        return [answer]
    where = "/".join(path)
    try:
        keys = [answer] if isinstance(answer, str) else list(answer)
    except Exception as error:
        raise BranchError(
            f"a branch on {where} returned {type(answer).__qualname__}; return a node key or several ({text_of(error)})",
            path=path,
        ) from error
    for key in keys:
        if not isinstance(key, str):
            raise BranchError(f"a branch on {where} chose {key!r}, which is no node key", path=path)
        if key not in branch.ends:
            raise BranchError(
                f"a branch on {where} chose {key!r}, which is not among its ends {list(branch.ends)}", path=path
            )
    return keys
