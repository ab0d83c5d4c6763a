"""One stream run from its first task to its outcome: a session whose nodes exchange streams.

What happens to a task is written as one generator, its life. It yields what every session asks of its driver, and
`Driven` for what is to run where node functions run: in a thread or a task of its own, side by side with others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from blobcp.errors import RunError, ValueMismatchError
from blobcp.graph.cancelling import Cancelling
from blobcp.graph.effects import RunNodes, Visit
from blobcp.graph.flow import Late, Streams
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.judging import CAUGHT, stops_of, wrong_input
from blobcp.graph.lives import Driven, StreamVisit, item_of, works_at_once
from blobcp.graph.node_code import NodeCode
from blobcp.graph.output import Out
from blobcp.graph.parts import Part, StreamTask
from blobcp.graph.plan import GraphPlan, NodePlan
from blobcp.graph.recall import StreamRun
from blobcp.graph.session import Session, Steps, make_cell
from blobcp.graph.state_types import StateTypes
from blobcp.graph.stream_machine import StreamMachine
from blobcp.scope import CURRENT, Frame, InterruptSignal, Scope
from blobcp.stream.reader import StreamReader

__all__ = ["StreamSession"]


class StreamSession(Session):
    """Runs one machine of a stream run.

    Args:
        machine: the run, begun or resumed.
        types: the classes of the graphs' states.
        streams: its readers.
        concurrency: how many node functions may run at once; those that make streams don't count.
        cancelling: for a run that may be cancelled from outside.
        on_loop: whether the driver is the one of an event loop.
    """

    def __init__(
        self,
        machine: StreamMachine,
        types: StateTypes,
        streams: Streams,
        concurrency: int | None,
        cancelling: Cancelling | None,
        on_loop: bool,
    ) -> None:
        super().__init__(machine, types, None, concurrency, cancelling)
        self._stream_machine = machine
        self._streams = streams
        streams.token = cancelling.token if cancelling is not None else None
        self._code = NodeCode(streams, on_loop=on_loop)

    def start(self, run: GraphRun, value: Any, context: Context) -> Steps:
        plan, out = run.plan, value if isinstance(value, Out) else Out(self._streams, reader=value)
        chosen: Sequence[str] = ()
        if out.chunks is not None and len(out.chunks) == 1 and plan.takes is not None:
            only = out.chunks[0]
            nothing = only is None and run.parent is not None and run.parent.empty
            if not plan.takes(only) and not nothing:
                raise ValueMismatchError(wrong_input(run, only), path=run.path)
        if plan.start.branches:
            chosen = yield from self._choose_first(run, out, context)
        if run.parent is not None:
            if self._machine.failing:
                self._machine.dropped(run.parent)
                return
            self._machine.enter(run.parent, run)
        self._machine.begin(run, out.result(), chosen)

    def _prepare(self, task: Task) -> Steps:
        assert isinstance(task, StreamTask), "a stream run has no other tasks"
        if task.lost or (task.node.key in task.run.children and not task.leaving):
            self._stream_machine.discharged()
            return
        task.scope = scope = Scope(task.run.frame, task.node.key)
        context = copy_context()
        context.run(CURRENT.set, scope)
        visit = StreamVisit(task, scope, context)
        task.visit = visit
        visit.life = self._life(visit, task)
        yield from self._live(visit)

    def _conclude(self, visit: Visit) -> Steps:
        assert isinstance(visit, StreamVisit), "a stream run has no other visits"
        self.heed_late()
        if visit.void:
            self._drop(visit)
            return
        yield from self._live(visit, visit.result, visit.error)

    def _live(self, visit: StreamVisit, answer: Any = None, error: BaseException | None = None) -> Steps:
        """Let a life go on, until it is over or waits for something that a driver does beside others."""
        life = visit.life
        assert life is not None, "it was begun"
        while True:
            try:
                asked = life.send(answer) if error is None else life.throw(error)
            except StopIteration:
                return
            answer = error = None
            if isinstance(asked, Driven):
                visit.call, visit.acall, visit.value = asked.call, asked.acall, asked.value
                visit.result = visit.error = None
                self._waiting.append(visit)
                return
            try:
                answer = yield asked
            except BaseException as raised:
                error = raised

    def _drop(self, visit: StreamVisit) -> None:
        if visit.life is not None:
            visit.life.close()
        self._discharge(visit)

    def _discharge(self, visit: StreamVisit) -> None:
        visit.scope.closed = True
        self._stream_machine.discharged()

    def heed_late(self) -> bool:
        """Tell the machine what has come out of streams that are read elsewhere; return whether there was anything."""
        found = False
        while self._streams.late:
            late = self._streams.late.popleft()
            task = late.task
            if task is not None and (task.lost or not task.flowing):
                continue
            found = True
            assert isinstance(late.run, StreamRun), "a stream run has no other runs"
            if isinstance(late.error, RunError):
                self._stream_machine.failed_late(late.run, late.error, task)
            elif task is not None and late.signals:
                self._stream_machine.stopped_late(task, late.signals)
            self.let_go()
        return found

    def heed_left(self) -> bool:
        """Do the same at the end of the output; whoever has asked by then, swallowed it and is not read on stops, too."""
        for task in self._stream_machine.flowing():
            stops = stops_of(task.scope, None) if task.scope is not None else []
            if stops:
                self._streams.late.append(Late(task.run, task, InterruptSignal(stops[0]), stops))
        return self.heed_late()

    def let_go(self) -> None:
        """Leave what is done for tasks that were taken back."""
        lost, self._stream_machine.taken_back = self._stream_machine.taken_back, []
        for task in lost:
            if isinstance(task.visit, StreamVisit):
                task.visit.void = True
            if task.scope is not None:
                self.answered.extend(task.scope.kept())
            if isinstance(task.value, StreamReader):
                task.value.close()
        for visit in [visit for visit in self._waiting if isinstance(visit, StreamVisit) and visit.void]:
            self._waiting.remove(visit)
            self._drop(visit)

    def abandon(self) -> None:
        """Leave everything behind that is under way."""
        self._abandon()

    def _abandon(self) -> None:
        super()._abandon()
        self.let_go()

    @property
    def left_behind(self) -> bool:
        """Whether the run has left behind what was under way."""
        return self._cancelling is not None and self._machine.cancelled and self._cancelling.token.due

    def until_rest(self) -> Steps:
        """Wait for what is under way for tasks that were taken back."""
        while self._flying and not self.left_behind:
            visit = yield RunNodes(())
            if visit is None:
                if self._cancelling is not None and self._cancelling.token.due:
                    self._abandon()
                continue
            self._flying -= 1
            yield from self._conclude(visit)

    def opened(self, part: Part) -> StreamReader[Any]:
        """Return a reader of a part that takes nothing away, so that it can be read again where this does not end well."""
        return self._streams.open(part, False)

    def go_on(self) -> Steps:
        """Run until there is an outcome again."""
        yield from self._until_outcome()

    def _life(self, visit: StreamVisit, task: StreamTask) -> Generator[Any, Any, None]:
        scope = visit.scope
        try:
            if self._streams.keeps and works_at_once(task):
                yield from self._let_end(task)
            out = yield from self._work(visit, task)
            if out is None:
                return
            if scope.raised:
                self._end(visit, None)
                return
            chosen = yield from self._code.after(visit, task, out)
        except CAUGHT as error:
            self._end(visit, error)
            return
        if scope.raised or task.failure is not None:  # it was swallowed
            self._end(visit, task.failure)
            return
        self.heed_late()
        if visit.void:
            self._discharge(visit)
            return
        scope.closed = task.over
        self._machine.finished(task, out.result(), chosen)

    def _end(self, visit: StreamVisit, error: BaseException | None) -> None:
        self.heed_late()
        if visit.void:
            self._discharge(visit)
        else:
            self._report(visit, error)

    def _let_end(self, task: StreamTask) -> Generator[Any, Any, None]:
        """Read the streams to their end that could take back what a task is about to do."""
        assert isinstance(task.run, StreamRun), "a stream run has no other runs"
        for part in list(task.run.unfinished_before(task)):
            # While one of them is read, another may have ended and been closed, since nothing is to be taken back any more.
            if isinstance(part.value, StreamReader) and not part.value.spent:
                yield from self._code.read(task, self._streams.open(part, False))

    def _work(self, visit: StreamVisit, task: StreamTask) -> Generator[Any, Any, Out | None]:
        """Do what comes before a node, and its own work; ``None`` where a graph was gone into, or where it has asked."""
        node, reader = task.node, task.value
        if task.leaving:
            return Out(self._streams, reader=reader)
        if node.pre is not None and not task.skip_pre:
            reader = yield from self._code.before(visit, task, node.pre, reader)
            if visit.scope.raised:
                self._end(visit, None)
                return None
        if node.input_key is not None and not task.empty:
            reader = reader.map(partial(item_of, task, node.input_key))
        if node.graph is not None:
            yield from self._go_into(visit, task, node.graph, reader)
            return None
        return (yield from self._code.own(visit, task, reader))

    def _go_into(self, visit: StreamVisit, task: StreamTask, plan: GraphPlan, reader: StreamReader[Any]) -> Steps:
        outer = task.run.frame
        cell = yield from make_cell(plan, task.path, visit.context, self._types)
        frame = Frame(visit.scope.address, cell, outer, outer.claims, visit.scope.resumption)
        run = task.run.nested(plan, frame, task)
        if self._cancelling is not None:
            self._cancelling.guard(run)
        out = Out(self._streams, reader=reader)
        if any(branch.reading is None for branch in plan.start.branches):
            out = Out(self._streams, chunks=(yield from self._code.read(task, reader)))
        self.heed_late()
        if visit.void:
            self._discharge(visit)
            return
        yield from self.start(run, out, visit.context)

    def _choose(self, node: NodePlan, path: Sequence[str], value: Any, context: Context) -> Steps:
        return (yield from self._code.choose(None, node, path, value, context))
