"""Driving the pure machine by hand: no driver, no session, one task at a time, in any order, cut anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from blobcp import Address, App, Checkpoint, MsgpackSerializer
from blobcp.graph.plan import GraphPlan, NodePlan
from blobcp.graph.restore import Restorer
from blobcp.graph.run import Finished, GraphRun, Machine, Task
from blobcp.graph.state import StateCell
from blobcp.graph.state_types import StateTypes
from blobcp.resumption import Resumption
from blobcp.scope import Frame, RunClaims

__all__ = ["ByHand", "Pick"]

Pick = Callable[[Sequence[Task]], int]
"""Says which of the tasks under way ends next."""

SERIALIZER = MsgpackSerializer()


class ByHand:
    """A run of an app's root graph.

    Args:
        app: a compiled graph of plain functions and nested graphs.
        entered: counts how often each node, by path, was entered.

    Attributes:
        machine: the machine.
        under_way: the tasks that were taken and have not ended.
        log: the paths of the nodes in the order in which they were taken.
    """

    def __init__(self, app: App, entered: Counter[str] | None = None) -> None:
        self._app = app
        self.entered = entered if entered is not None else Counter()
        self.under_way: list[Task] = []
        self.log: list[str] = []
        self.machine: Machine

    def begin(self, value: Any) -> ByHand:
        """Start with an input."""
        root = GraphRun(self._app.plan, self._frame(self._cell(self._app.plan)), None)
        self.machine = self._made(root)
        self.machine.begin(root, value, choices(root.plan.start, value))
        return self

    def restore(self, checkpoint: Checkpoint) -> ByHand:
        """Go on with a checkpoint, after a trip through bytes."""
        stored: Checkpoint = SERIALIZER.loads(SERIALIZER.dumps(checkpoint))
        resumption = Resumption([], targeted=False)
        plan = self._app.plan
        restorer = Restorer("by hand", stored, resumption, StateTypes(plan, SERIALIZER))
        root = restorer.restore(plan, stored, self._frame(restorer.cell(plan, stored, ())))
        self.machine = self._made(root)
        self.machine.resume(root)
        return self

    def take(self) -> None:
        """Take what is to be started; nested graphs are entered at once."""
        while tasks := self.machine.take():
            for task in tasks:
                if task.leaving:
                    self.machine.finished(task, wrapped(task.node, task.value), choices(task.node, task.value))
                elif task.node.graph is not None:
                    self._enter(task, task.node.graph)
                else:
                    self.entered["/".join(task.path)] += 1
                    self.log.append("/".join(task.path))
                    task.started = True
                    self.under_way.append(task)

    def end(self, task: Task) -> None:
        """Let a task that is under way end."""
        self.under_way.remove(task)
        call = task.node.call
        assert call is not None
        value = task.value if task.node.input_key is None else task.value[task.node.input_key]
        result = wrapped(task.node, call(value))
        self.machine.finished(task, result, choices(task.node, result))

    def steps(self, pick: Pick) -> Iterator[None]:
        """Run to the outcome; yields before the first task and after each that ended."""
        self.take()
        yield
        while self.machine.outcome is None:
            self.end(self.under_way[pick(self.under_way)])
            self.take()
            yield

    def result(self, pick: Pick = lambda _: 0) -> Any:
        """Run to END and return what reached it."""
        for _ in self.steps(pick):
            pass
        outcome = self.machine.outcome
        assert isinstance(outcome, Finished), outcome
        return outcome.value

    def _enter(self, task: Task, plan: GraphPlan) -> None:
        outer = task.run.frame
        frame = Frame(outer.address.child("node", task.node.key), self._cell(plan), outer, outer.claims, None)
        run = GraphRun(plan, frame, task)
        self.machine.enter(task, run)
        self.machine.begin(run, task.value, choices(plan.start, task.value))

    def _made(self, root: GraphRun) -> Machine:
        ids = count()
        return Machine(root, lambda: f"id{next(ids)}")

    def _frame(self, cell: StateCell | None) -> Frame:
        return Frame(Address().child("runnable", "root"), cell, None, RunClaims(None, frozenset()), None)

    def _cell(self, plan: GraphPlan) -> StateCell | None:
        return StateCell(plan.make_state()) if plan.make_state is not None else None


def choices(node: NodePlan, value: Any) -> list[str]:
    """Ask a node's branches."""
    answers = [branch.choose(value) for branch in node.branches]
    return [end for answer in answers for end in ([answer] if isinstance(answer, str) else answer)]


def wrapped(node: NodePlan, value: Any) -> Any:
    """Put a result under the node's output key."""
    return value if node.output_key is None else {node.output_key: value}
