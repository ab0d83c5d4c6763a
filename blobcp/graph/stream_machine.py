"""The machine of a stream run: nodes may stop or fail after they have finished, while others read what they made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blobcp.errors import RunError
from blobcp.graph.instance import Task
from blobcp.graph.parts import StreamTask
from blobcp.graph.recall import StreamRun
from blobcp.graph.run import Failed, Finished, Machine
from blobcp.points import Signal

__all__ = ["StreamMachine"]


class StreamMachine(Machine):
    """A stream run of a root graph and all that is nested in it.

    Attributes:
        taken_back: tasks that were taken back since somebody looked; what is done for them is of no use.
    """

    def __init__(self, root: StreamRun, new_id: Callable[[], str], max_steps: int | None = None) -> None:
        super().__init__(root, new_id, max_steps)
        self.stream_root = root
        self.taken_back: list[StreamTask] = []

    def finished(self, task: Task, value: Any, chosen: Sequence[str]) -> None:
        run = _run_of(task)
        assert isinstance(task, StreamTask), "a stream run has no other tasks"
        task.inner = run.children.get(task.node.key)
        task.flowing = True
        run.sender = task
        run.settle()
        super().finished(task, value, chosen)
        run.sender = None

    def discharged(self) -> None:
        """Note that what was done for a task that was taken back is over."""
        self._in_hand -= 1
        if self._errors:
            self._settle()

    def stopped_late(self, task: StreamTask, signals: Sequence[Signal]) -> None:
        """Note that a node has stopped while others read what it made: it has not finished, nor have they begun."""
        if self._errors:
            return
        self._stop_flowing(task, signals)
        self._advance(task.run)

    def failed_late(self, run: StreamRun, error: RunError, task: StreamTask | None) -> None:
        """Note that a node has failed while others read what it made, or that what they read can't be merged."""
        if isinstance(self.outcome, Failed):
            return
        self.outcome = None
        self._fail(run, error, None if task is None else task.node)

    def stop_flowing(self) -> bool:
        """Stop all nodes whose streams are in the making; they run again when the run is resumed.

        Returns:
            Whether there were any.
        """
        found = False
        for task in self.flowing():
            if not (task.lost or task.over):
                found = True
                self._stop_flowing(task, ())
                self._advance(task.run)
        return found

    def flowing(self) -> list[StreamTask]:
        """Return the tasks of functions whose streams are in the making."""
        runs = [run for run in self.stream_root.walk() if isinstance(run, StreamRun)]
        return [task for run in runs for task in run.flowing() if task.node.graph is None]

    def abandon(self) -> None:
        if isinstance(self.outcome, Finished):  # what was read of the output is lost; all of it waits for END then
            self.outcome = None
        self.cancel()
        if not self._errors:
            self.stop_flowing()
        super().abandon()

    def _stop_flowing(self, task: StreamTask, signals: Sequence[Signal]) -> None:
        run = _run_of(task)
        self._recall(run, task)
        run.stopped[task.node.key] = (task, list(signals))
        self._reopen(run)

    def _recall(self, run: StreamRun, task: StreamTask) -> None:
        lost = run.take_back(task)
        inside = [below for each in lost if isinstance(each.inner, StreamRun) for below in each.inner.all_tasks()]
        self.taken_back += [task, *lost, *inside]
        self._outbox = [each for each in self._outbox if not (isinstance(each, StreamTask) and each.lost)]

    def _reopen(self, run: StreamRun) -> None:
        """Have a graph that was over, or had stopped, under way again."""
        task = run.parent
        if task is None:
            self.outcome = None
            return
        assert isinstance(task, StreamTask), "a stream run has no other tasks"
        outer = _run_of(task)
        key = task.node.key
        if outer.running.get(key) is task:
            if task.leaving:
                self._outbox = [each for each in self._outbox if each is not task]
                self.taken_back.append(task)
                task.leaving = False
            return
        if key in outer.stopped and outer.stopped[key][0] is task:
            del outer.stopped[key]
        elif task.flowing:
            self._recall(outer, task)
        task.leaving = False
        outer.running[key] = task
        outer.children[key] = run
        self._reopen(outer)


def _run_of(task: Task) -> StreamRun:
    assert isinstance(task.run, StreamRun), "a stream run has no other runs"
    return task.run
