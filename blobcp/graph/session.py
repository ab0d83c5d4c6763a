"""One run from its first task to its outcome, between the machine that decides and the driver that does.

A session asks the machine for tasks, prepares each (its context, its pre-handler, its input), lets the driver run
the node functions, and tells the machine what came of them. It knows nothing of stores; that is `StoredRun`'s part.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import Context, copy_context
from typing import Any

from blobcp.errors import NodeError, RunError, ValueMismatchError
from blobcp.graph.cancelling import Cancelling
from blobcp.graph.effects import Abandoned, Call, Effect, RunNodes, Visit, Watch
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.judging import CAUGHT, keys_chosen, mismatch, node_error, signals_in, stops_of, wrong_input
from blobcp.graph.plan import START, GraphPlan, NodePlan
from blobcp.graph.run import Machine, Outcome
from blobcp.graph.state import StateCell
from blobcp.graph.state_types import StateTypes
from blobcp.resumption import Entry, Snapshot
from blobcp.scope import CURRENT, Frame, InterruptSignal, Scope

__all__ = ["CAUGHT", "Session", "Steps", "make_cell", "node_error", "stops_of"]

Steps = Generator[Effect, Any, Any]


class Session:
    """Runs one machine.

    Args:
        machine: the run, begun or resumed.
        types: the classes of the graphs' states.
        snapshot: keeps inputs as they were, for a run that may be stored; ``None`` for one that is not.
        concurrency: how many node functions may run at once; ``None`` for any number.
        cancelling: for a run that may be cancelled from outside.

    Attributes:
        answered: the points that were answered in nodes which stopped again; they are kept with the checkpoint.
    """

    def __init__(
        self,
        machine: Machine,
        types: StateTypes,
        snapshot: Snapshot | None,
        concurrency: int | None,
        cancelling: Cancelling | None = None,
    ) -> None:
        self._machine = machine
        self._cancelling = cancelling
        self._types = types
        self._snapshot = snapshot
        self._limit = concurrency
        self._waiting: list[Visit] = []
        self._flying = 0
        self.answered: list[Entry] = []

    def start(self, run: GraphRun, value: Any, context: Context) -> Steps:
        """Begin a graph with its input.

        Raises:
            RunError: the input is not of the declared type, or a branch on START failed.
        """
        plan = run.plan
        nothing = value is None and run.parent is not None and run.parent.empty
        if plan.takes is not None and not plan.takes(value) and not nothing:
            raise ValueMismatchError(wrong_input(run, value), path=run.path)
        chosen = (yield from self._choose_first(run, value, context)) if plan.start.branches else ()
        if run.parent is not None:
            if self._machine.failing:
                self._machine.dropped(run.parent)
                return
            self._machine.enter(run.parent, run)
        self._machine.begin(run, value, chosen)

    def _choose_first(self, run: GraphRun, value: Any, context: Context) -> Steps:
        """Ask START's branches, which see the graph's state as those of nodes do."""
        scope = Scope(run.frame, START)
        context = context.copy()
        context.run(CURRENT.set, scope)
        try:
            chosen = yield from self._choose(run.plan.start, run.path, value, context)
        except InterruptSignal:
            if run.parent is not None:
                raise
            raise NodeError(
                f"a branch on {START!r} of graph {run.plan.name!r} asked a question; nothing has run that could be resumed "
                "there, so ask in a node",
                path=[START],
            ) from None
        finally:
            scope.closed = True
        return chosen

    def run(self) -> Generator[Effect, Any, Outcome]:
        """Run until there is an outcome."""
        if self._cancelling is not None:
            yield Watch(self._cancelling.token)
        return (yield from self._until_outcome())

    def _until_outcome(self) -> Generator[Effect, Any, Outcome]:
        machine, cancelling = self._machine, self._cancelling
        try:
            while machine.outcome is None:
                if cancelling is not None:
                    cancelling.heed()
                while tasks := machine.take():
                    for task in tasks:
                        if cancelling is None or cancelling.wants(task):
                            yield from self._prepare(task)
                if machine.outcome is not None:
                    break
                visits = self._next_to_start()
                if not self._flying:
                    raise RuntimeError("the machine has no outcome and nothing is under way")
                visit = yield RunNodes(visits)
                if visit is None:
                    continue
                self._flying -= 1
                if cancelling is None or not cancelling.heed():
                    yield from self._conclude(visit)
        except Abandoned:
            self._abandon()
        assert machine.outcome is not None
        return machine.outcome

    def _abandon(self) -> None:
        assert self._cancelling is not None, "only a token makes a driver leave something"
        self._cancelling.abandon()

    def _next_to_start(self) -> Sequence[Visit]:
        if self._machine.cancelled:
            self._waiting = [visit for visit in self._waiting if visit.task.started or visit.task.leaving]
        waiting = self._waiting
        if self._limit is not None:
            waiting = waiting[: self._limit - self._flying]
        self._waiting = self._waiting[len(waiting) :]
        self._flying += len(waiting)
        if self._cancelling is not None:
            for visit in waiting:
                visit.task.started = True
        return waiting

    def _prepare(self, task: Task) -> Steps:
        """Get a task ready to be run: keep its input, run its pre-handler, go into it if it is a graph."""
        node, run = task.node, task.run
        task.scope = scope = Scope(run.frame, node.key)
        context = copy_context()
        context.run(CURRENT.set, scope)
        visit = Visit(task, scope, context)
        if task.leaving:
            yield from self._leave(visit, task.value)
            return
        if self._snapshot is not None:
            task.original = self._snapshot(task.value)
        try:
            value = task.value
            if node.pre is not None and not task.skip_pre:
                value = yield from self._handle(node.pre, value, visit)
            if scope.raised:
                self._report(visit, None)
                return
            if node.input_key is not None and not task.empty:
                value = _item(value, node.input_key, task)
            if node.takes is not None and not node.takes(value) and not (value is None and task.empty):
                raise ValueMismatchError(mismatch(task, "takes", node.takes_name, value), path=task.path)
            if node.graph is not None:
                yield from self._enter(visit, node.graph, value)
                return
        except CAUGHT as error:
            self._report(visit, error)
            return
        visit.value = value
        self._waiting.append(visit)

    def _enter(self, visit: Visit, plan: GraphPlan, value: Any) -> Steps:
        task, outer = visit.task, visit.task.run.frame
        cell = yield from make_cell(plan, task.path, visit.context, self._types)
        frame = Frame(visit.scope.address, cell, outer, outer.claims, visit.scope.resumption)
        run = task.run.nested(plan, frame, task)
        if self._cancelling is not None:
            self._cancelling.guard(run)
        yield from self.start(run, value, visit.context)

    def _conclude(self, visit: Visit) -> Steps:
        """Take what a node function came to: check it, run the post-handler, ask the branches, tell the machine."""
        task, error = visit.task, visit.error
        node = task.node
        if error is not None or visit.scope.raised:
            self._report(visit, error if error is None or signals_in(error) else node_error(task.path, error))
            return
        value = visit.result
        if node.gives is not None and not node.gives(value):
            wrong = ValueMismatchError(mismatch(task, "is declared to return", node.gives_name, value), path=task.path)
            self._report(visit, wrong)
            return
        yield from self._leave(visit, value)

    def _leave(self, visit: Visit, value: Any) -> Steps:
        """Do what comes after a node's own work."""
        task = visit.task
        node = task.node
        chosen: Sequence[str] = ()
        try:
            if node.output_key is not None:
                value = {node.output_key: value}
            if node.post is not None:
                value = yield from self._handle(node.post, value, visit)
            if node.branches:
                chosen = yield from self._choose(node, task.run.path, value, visit.context)
        except CAUGHT as error:
            self._report(visit, error)
            return
        if visit.scope.raised:
            self._report(visit, None)
            return
        visit.scope.closed = True
        self._machine.finished(task, value, chosen)

    def _handle(self, handler: Callable[[Any, Any], Any], value: Any, visit: Visit) -> Steps:
        cell = visit.task.run.frame.cell
        assert isinstance(cell, StateCell), "handlers are refused at build time on a graph without state"
        call = Call(handler, (value, cell.state), visit.context, cell.lock, visit.scope)
        return (yield from _user_code(call, visit.task.path))

    def _choose(self, node: NodePlan, path: Sequence[str], value: Any, context: Context) -> Steps:
        """Return the ends that the branches of a node chose, once each."""
        chosen: dict[str, None] = {}
        where = [*path, node.key]
        for branch in node.branches:
            answer = yield from _user_code(Call(branch.choose, (value,), context), where)
            for key in keys_chosen(answer, branch, where):
                chosen[key] = None
        return list(chosen)

    def _report(self, visit: Visit, error: BaseException | None) -> None:
        """Tell the machine that a node stopped or failed."""
        visit.scope.closed = True
        stops = stops_of(visit.scope, error)
        if stops:
            self.answered.extend(visit.scope.kept())
            self._machine.interrupted(visit.task, stops)
        elif isinstance(error, RunError):
            self._machine.failed(visit.task, error)
        else:
            assert error is not None, "a visit without stops ended with an error"
            self._machine.failed(visit.task, node_error(visit.task.path, error))


def _user_code(call: Call, path: Sequence[str]) -> Steps:
    """Let the driver call user code; what it raises becomes a `NodeError`, unless it is a stop."""
    try:
        return (yield call)
    except CAUGHT as error:
        if signals_in(error):
            raise
        raise node_error(path, error) from error


def make_cell(
    plan: GraphPlan, path: Sequence[str], context: Context, types: StateTypes
) -> Generator[Effect, Any, StateCell | None]:
    """Make a graph's fresh state.

    Raises:
        RunError: its factory failed, or gave none.
    """
    if plan.make_state is None:
        return None
    context = context.copy()
    context.run(CURRENT.set, None)  # a fresh state is also made where no node runs, to learn its class
    state = yield from _user_code(Call(plan.make_state, (), context), path)
    if state is None:
        where = "/".join(path) or repr(plan.name)
        raise ValueMismatchError(f"the state factory of graph {where} returned None; return a state object", path=path)
    types.learn(plan, state)
    return StateCell(state)


def _item(value: Any, key: str, task: Task) -> Any:
    if not isinstance(value, dict):
        raise ValueMismatchError(mismatch(task, f"takes key {key!r} of", "a dict", value), path=task.path)
    if key not in value:
        where = "/".join(task.path)
        raise ValueMismatchError(f"node {where} takes key {key!r}, and what arrived has {list(value)}", path=task.path)
    return value[key]
