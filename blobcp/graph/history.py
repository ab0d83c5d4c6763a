"""What one graph of a stream run remembers of what was sent and taken, and what that tells of its streams.

A stream that flows may stop or fail. What it would then take with it, what nobody reads by itself, and what a checkpoint
has still to read to its end is found here; :mod:`blobcp.graph.recall` writes the history, and takes parts of it back.
"""

from __future__ import annotations

from collections.abc import Iterator

from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.parts import Flow, Part, Sent, StreamTask
from blobcp.graph.plan import END, GraphPlan
from blobcp.scope import Frame

__all__ = ["Remembering"]


class Remembering(GraphRun):
    """One graph instance of a stream run; channels hold `Part` objects.

    Attributes:
        flow: what knows about readers.
        history: what was sent and taken, in order, as far as it may still be taken back.
    """

    __slots__ = ("flow", "history")

    def __init__(self, plan: GraphPlan, frame: Frame, parent: Task | None, flow: Flow) -> None:
        super().__init__(plan, frame, parent)
        self.flow = flow
        self.history: list[Sent | StreamTask] = []

    def walk(self) -> Iterator[GraphRun]:
        yield from super().walk()
        for task in self.remembered():
            if task.flowing and task.inner is not None:
                yield from task.inner.walk()

    def remembered(self) -> list[StreamTask]:
        """Return the tasks of the history; one that was restored was taken before it began."""
        tasks = [event if isinstance(event, StreamTask) else event.task for event in self.history]
        return list(dict.fromkeys(task for task in tasks if task is not None))

    def all_tasks(self) -> Iterator[StreamTask]:
        """Yield all tasks that are known of this graph, and of those inside it."""
        tasks: dict[StreamTask, None] = {}
        known = [*self.remembered(), *self.running.values(), *self.ready, *(task for task, _ in self.stopped.values())]
        tasks.update((task, None) for task in known if isinstance(task, StreamTask))
        for task in tasks:
            yield task
            inner = task.inner or self.children.get(task.node.key)
            if isinstance(inner, Remembering):
                yield from inner.all_tasks()

    def is_over(self) -> bool:
        """Tell whether no stream that was made in this graph flows any more."""
        return all(task.over for task in self.all_tasks())

    def flowing(self) -> Iterator[StreamTask]:
        """Yield the tasks of this graph whose streams are in the making, in the order in which they were started."""
        for _, task in self._in_the_making():
            if task.flowing and not task.over:
                yield task

    def _in_the_making(self) -> Iterator[tuple[Sent, StreamTask]]:
        for event in self.history:
            if isinstance(event, Sent) and event.task is not None and not has_ended(event.task):
                yield event, event.task

    def dependents(self, task: StreamTask) -> list[StreamTask]:
        """Return the tasks that would not have begun if this one had not finished."""
        started = [event for event in self.history if isinstance(event, StreamTask)]
        return [each for each in started if self._follows(each, task)]

    def _follows(self, task: StreamTask, earlier: StreamTask) -> bool:
        if self.plan.mode == "dag":
            return task.node.key in self._below(earlier.node.key)
        # A step begins when the one before has ended; what ran beside this one's successors has not begun either.
        return task.step > earlier.step

    def _below(self, key: str) -> set[str]:
        """Return the nodes that can only have run after this one, in a graph without loops."""
        found: set[str] = set()
        pending = [key]
        while pending:
            for target in self.plan.nodes[pending.pop()].targets:
                if target != END and target not in found:
                    found.add(target)
                    pending.append(target)
        return found

    def unfinished_before(self, task: StreamTask) -> Iterator[Part]:
        """Yield the streams that flow, and that may stop after a task has read what it is given.

        Were one of them to stop then, the task would be taken back with all it has done.
        """
        read: set[StreamTask] | None = None
        for sent, maker in self._in_the_making():
            if not self._follows(task, maker):
                continue
            if read is None:
                read = _read_by(task)
            if maker not in read or sent.is_shared:
                yield from sent.all_parts[:1]
            if isinstance(maker.inner, Remembering):
                yield from maker.inner.unread_inside()
        inside = self.children.get(task.node.key) if task.leaving else None
        if isinstance(inside, Remembering):
            yield from inside.unread_inside()
        if isinstance(self.parent, StreamTask) and isinstance(self.parent.run, Remembering):
            yield from self.parent.run.unfinished_before(self.parent)

    def unread_inside(self) -> Iterator[Part]:
        """Yield the streams of this graph, which has finished, that may flow when its output has been read."""
        for sent, maker in self._in_the_making():
            if sent.is_shared or not sent.taken:
                yield from sent.all_parts[:1]
            if isinstance(maker.inner, Remembering):
                yield from maker.inner.unread_inside()

    def unread(self) -> Iterator[tuple[list[str], Part]]:
        """Yield the streams that are to end before a checkpoint is stored, each with the place that it waits at."""
        for key, channel in self.channels.items():
            yield from (([*self.path, key], part) for part in channel.values.values())
        tasks = [*self.running.values(), *(task for task, _ in self.stopped.values()), *self.ready]
        for task in tasks:
            if isinstance(task, StreamTask) and task.node.key not in self.children:
                yield from ((task.path, part) for part in task.parts.values())
        yield from self._left()
        for child in self.children.values():
            if isinstance(child, Remembering):
                yield from child.unread()

    def unwanted(self) -> Iterator[Part]:
        """Yield what was sent and nobody took."""
        yield from (part for _, part in self._left())

    def _left(self) -> Iterator[tuple[list[str], Part]]:
        for event in self.history:
            if isinstance(event, Sent) and event.task is not None and not event.taken:
                yield from ((event.task.path, part) for part in event.all_parts)
        for task in self.remembered():
            if isinstance(task.inner, Remembering):
                yield from task.inner._left()


def has_ended(task: StreamTask) -> bool:
    """Tell whether nothing can come of what a task has handed on."""
    return task.over and (not isinstance(task.inner, Remembering) or task.inner.is_over())


def _read_by(task: StreamTask) -> set[StreamTask]:
    """Return the tasks whose streams a task reads, itself or through others."""
    found: set[StreamTask] = set()
    pending = [task]
    while pending:
        reader = pending.pop()
        for sent in reader.came:
            if sent.task is not None and sent.task not in found and reader.node.key in sent.parts:
                found.add(sent.task)
                pending.append(sent.task)
    return found
