"""Between a cancel token and a machine: when it is told, and what of a run is kept that was stopped in the middle."""

from __future__ import annotations

from collections.abc import Iterator

from blobcp.cancel import CancelToken
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.run import Machine
from blobcp.graph.state import StateCell
from blobcp.resumption import Entry, Snapshot

__all__ = ["Cancelling", "points_left"]


class Cancelling:
    """Tells a machine of a cancel from outside. The machine has no clock; the token has.

    Args:
        token: what the run was given.
        machine: the run.
        keep: keeps a state as it was.
    """

    def __init__(self, token: CancelToken, machine: Machine, keep: Snapshot) -> None:
        self.token = token
        self._machine = machine
        self._keep = keep
        for run in machine.root.walk():
            self.guard(run)

    def guard(self, run: GraphRun) -> None:
        """Keep a graph's state from nodes that are left behind."""
        if isinstance(run.frame.cell, StateCell):
            run.frame.cell.guard(self._keep)

    def heed(self) -> bool:
        """Tell the machine what the token says by now, and return whether the run is over."""
        token, machine = self.token, self._machine
        if token.cancelled and machine.outcome is None:
            if token.due:
                self.abandon()
            else:
                machine.cancel()
        return machine.outcome is not None

    def abandon(self) -> None:
        """Leave everything behind that is under way."""
        for run in self._machine.root.walk():
            if isinstance(run.frame.cell, StateCell):
                run.frame.cell.close()
        self._machine.abandon()

    def wants(self, task: Task) -> bool:
        """Tell whether a task that was taken is still to be started; a cancel takes it back."""
        return not self.heed() and (task.leaving or not self._machine.cancelled)


def points_left(machine: Machine) -> Iterator[Entry]:
    """Yield the stored points of nodes that a cancel has stopped before they could end, or before they began.

    Such a node finds them again as they were: what it had kept for itself, its answers, and its open questions.
    """
    for run in machine.root.walk():
        for task in (*run.ready, *(task for task, _ in run.stopped.values())):
            if task.scope is not None and not task.scope.closed and (task.leaving or task.node.key not in run.children):
                yield from (
                    entry for entry in task.scope.resumption or () if not entry.record.of_graph and not entry.handed_on
                )
    for entry in machine.root.frame.resumption or ():
        if entry.pending and entry.outlives_stop:
            yield entry
