"""The machine: which nodes run next, when a run is over, what a checkpoint of it looks like.

It is pure. It does no I/O, starts no thread, reads no clock, makes no ids and calls no user code but the merge
functions of values. A driver tells it what happened to a task (`Machine.finished`, `interrupted`, `failed`) and asks what
to do (`Machine.take`); when nothing is left to do, `Machine.outcome` says how the run ended. At any moment
`Machine.checkpoint` says how it could be continued.

A nested graph is a `GraphRun` inside the machine, not a machine of its own: one driver serves all levels, so that a
limit on concurrency counts once and a checkpoint is one consistent cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blobcp.checkpoint import Checkpoint
from blobcp.errors import MaxStepsError, RunError, ValueMismatchError
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.outcome import Failed, Finished, Outcome, Paused
from blobcp.graph.plan import END, START, NodePlan
from blobcp.graph.run_errors import nothing_to_run, place_of, too_many_steps, wrong_output
from blobcp.points import Signal

__all__ = ["Failed", "Finished", "Machine", "Outcome", "Paused"]


class Machine:
    """A run of a root graph and all that is nested in it.

    Args:
        root: the root graph's run.
        new_id: makes an id for a point; handed in, since the machine makes none itself.
        max_steps: a limit for the root graph in this run, in place of the compiled one.

    Attributes:
        outcome: how the run ended, once it has.
        cancelled: whether the run is to stop as soon as what was started has ended.
    """

    def __init__(self, root: GraphRun, new_id: Callable[[], str], max_steps: int | None = None) -> None:
        self.root = root
        self.outcome: Outcome | None = None
        self.cancelled = False
        self._new_id = new_id
        self._max_steps = root.plan.max_steps if max_steps is None else max_steps
        self._outbox: list[Task] = []
        self._in_hand = 0
        self._errors: list[tuple[tuple[int, ...], RunError]] = []

    def take(self) -> list[Task]:
        """Return the tasks to start now, in order; each is then finished, interrupted, failed, dropped or entered, once."""
        tasks, self._outbox = self._outbox, []
        self._in_hand += len(tasks)
        return tasks

    @property
    def failing(self) -> bool:
        """Whether the run has failed and only waits for what is still under way."""
        return bool(self._errors)

    def begin(self, run: GraphRun, value: Any, chosen: Sequence[str]) -> None:
        """Start a graph with its input, and the ends that START's branches chose."""
        run.deliver(run.plan.start, value, chosen)
        run.last_completed = [START]
        self._advance(run)

    def enter(self, task: Task, run: GraphRun) -> None:
        """Go into a nested graph; the task stays under way until that graph is over."""
        self._in_hand -= 1
        task.run.children[task.node.key] = run

    def resume(self, run: GraphRun) -> None:
        """Go on with a graph that was loaded, and with the nested graphs that it was inside."""
        tasks, run.ready = run.ready, []
        if not tasks:
            self._advance(run)
            return
        self._count_step(run)
        run.running.update((task.node.key, task) for task in tasks)
        for task in tasks:
            child = run.children.get(task.node.key)
            if child is None:
                self._outbox.append(task)
            else:
                self.resume(child)

    def finished(self, task: Task, value: Any, chosen: Sequence[str]) -> None:
        """Take a node's result, and the ends that its branches chose."""
        self._in_hand -= 1
        run, node = task.run, task.node
        del run.running[node.key]
        if node.graph is not None:
            run.children.pop(node.key, None)
        if self._errors:
            self._settle()
            return
        run.deliver(node, value, chosen)
        run.last_completed.append(node.key)
        run.completed[node.key] = None
        if node.stop_after:
            run.after_hits.append(node.key)
        self._advance(run)

    def dropped(self, task: Task) -> None:
        """Note that a task was not run, because the run is failing."""
        self._in_hand -= 1
        del task.run.running[task.node.key]
        self._settle()

    def interrupted(self, task: Task, signals: Sequence[Signal]) -> None:
        """Note that a node stopped by itself."""
        self._in_hand -= 1
        self._stop(task, signals)

    def failed(self, task: Task, error: RunError) -> None:
        """Note that a node failed; the run ends with it once what is under way has ended."""
        self._in_hand -= 1
        task.run.running.pop(task.node.key, None)
        self._fail(task.run, error, task.node)

    def cancel(self) -> None:
        """Start nothing more: the run stops, on all levels, once what was started has ended.

        Tasks that were handed out and not started are taken back.
        """
        if self.cancelled or self._errors or self.outcome is not None:
            return
        self.cancelled = True
        taken = self._in_hand + sum(not task.leaving for task in self._outbox)
        self._outbox = [task for task in self._outbox if task.leaving]
        unstarted = [(run, run.unstarted()) for run in self.root.walk()]
        self._in_hand = taken - sum(len(tasks) for _, tasks in unstarted)
        for run, tasks in unstarted:
            run.hold(tasks)
        for run, tasks in reversed(unstarted):
            if tasks and not self._is_over(run):
                self._advance(run)

    def abandon(self) -> None:
        """Stop at once: what is under way is given up and runs again when the run is resumed."""
        self.cancel()
        if self.outcome is not None:
            return
        self._outbox.clear()
        self._in_hand = 0
        if self._errors:
            self._settle()
        else:
            self._give_up(self.root)

    def checkpoint(self, *, live: bool = False) -> Checkpoint:
        """Return the whole run as it stands; ``live``: with inputs as the nodes have left them, not as they were."""
        return self.root.checkpoint(live)

    def _advance(self, run: GraphRun) -> None:
        try:
            if run.plan.mode == "dag":
                self._advance_dag(run)
            else:
                self._advance_pregel(run)
        except RunError as error:
            self._fail(run, error, None)

    def _advance_pregel(self, run: GraphRun) -> None:
        if run.running:
            return
        if run.stopped or run.parked or run.ready:
            self._pause(run)
            return
        if run.end_ready():
            self._pause(run) if run.after_hits else self._finish(run)
            return
        tasks = run.take_ready()
        if not tasks:
            raise nothing_to_run(run)
        run.before_hits.extend(task.node.key for task in tasks if task.node.stop_before)
        if run.halted or self.cancelled:
            run.ready = tasks
            self._pause(run)
            return
        self._start(run, tasks)

    def _advance_dag(self, run: GraphRun) -> None:
        ready = run.take_ready()
        if ready:
            run.ready = sorted([*run.ready, *ready], key=lambda task: task.node.index)
            run.before_hits = [task.node.key for task in run.ready if task.node.stop_before]
        if run.ready and not (run.halted or self.cancelled) and (run.plan.eager or not run.running):
            tasks, run.ready = run.ready, []
            self._start(run, tasks)
        if run.running:
            return
        if run.halted or run.parked or run.ready:
            self._pause(run)
        elif run.end_ready():
            self._finish(run)
        else:
            raise nothing_to_run(run)

    def _start(self, run: GraphRun, tasks: Sequence[Task]) -> None:
        self._count_step(run)
        run.completed_before, run.last_completed = run.last_completed, []
        for task in tasks:
            run.running[task.node.key] = task
        self._outbox.extend(tasks)

    def _count_step(self, run: GraphRun) -> None:
        if run.plan.mode == "pregel":
            limit = run.plan.max_steps if run.parent else self._max_steps
            if run.steps >= limit:
                raise MaxStepsError(too_many_steps(run, limit), path=run.path)
        run.steps += 1

    def _finish(self, run: GraphRun) -> None:
        value = run.end_value()
        end = run.channels[END]
        may_be_none = end.stored_none or not end.values
        if not (value is None and may_be_none) and run.plan.gives is not None and not run.plan.gives(value):
            raise ValueMismatchError(wrong_output(run, value), path=run.path)
        if run.parent is None:
            self.outcome = Finished(value)
            return
        task = run.parent
        task.leaving = True
        task.value = value
        self._outbox.append(task)

    def _pause(self, run: GraphRun) -> None:
        signals = self._signals_of(run)
        if run.parent is None:
            self.outcome = Paused(*signals)
        else:
            self._stop(run.parent, signals)

    def _give_up(self, run: GraphRun) -> None:
        """Stop a graph as it is; with nested graphs inside it, the last of those to stop stops it."""
        inside = [run.children[key] for key in run.running if key in run.children]
        for key in [key for key in run.running if key not in run.children]:
            task = run.running.pop(key)
            run.stopped[key] = (task, list(task.asked))
        for child in inside:
            self._give_up(child)
        if not inside:
            self._pause(run)

    def _signals_of(self, run: GraphRun) -> list[Signal]:
        """Return what a graph that stops tells the one round it: its own signal, over those of its nodes.

        A nested graph that only stops because the whole run is cancelled tells nothing: nobody has to answer it.
        """
        signals: list[Signal] = []
        for key in run.plan.nodes:
            if key in run.stopped:
                signals.extend(run.stopped[key][1])
            elif key in run.parked:
                signals.extend(run.parked[key].signals)
        silent = self.cancelled and run.parent is not None and not (signals or run.before_hits or run.after_hits)
        if self.cancelled:
            finished = [key for key in run.last_completed if key != START]
            run.after_hits = list(dict.fromkeys([*run.after_hits, *finished]))
        return [] if silent else [self._signal_of(run, signals)]

    def _is_over(self, run: GraphRun) -> bool:
        if run.parent is None:
            return self.outcome is not None
        return run.parent.node.key not in run.parent.run.running

    def _signal_of(self, run: GraphRun, signals: list[Signal]) -> Signal:
        """Return a graph's own signal; one that only passes on others keeps the id it had while they are open."""
        address = run.frame.address
        kept = run.frame.resumption.passed_on_at(address, of_graph=True) if run.frame.resumption and signals else None
        return Signal(
            id=kept.id if kept else self._new_id(),
            address=address,
            children=signals,
            of_graph=True,
            created_at=kept.record.created_at if kept else None,
        )

    def _stop(self, task: Task, signals: Sequence[Signal]) -> None:
        run = task.run
        del run.running[task.node.key]
        run.stopped[task.node.key] = (task, list(signals))
        if self._errors:
            self._settle()
        else:
            self._advance(run)

    def _fail(self, run: GraphRun, error: RunError, node: NodePlan | None) -> None:
        self._errors.append((place_of(run, node), error))
        self._outbox.clear()
        self._settle()

    def _settle(self) -> None:
        """End a failed run once nothing is under way."""
        if not self._in_hand:
            self.outcome = Failed([error for _, error in sorted(self._errors, key=lambda at: at[0])])
