"""One graph of a stream run: what was sent and taken can be taken back.

A node has finished for the machine when it has handed on a stream, and may stop or fail later, while others read it. Then
all that follows from it has not happened. What was sent and taken since the run began, or rather since the oldest stream
that still flows, is kept in order; without the lost part of it, the channels are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from blobcp.checkpoint import Checkpoint
from blobcp.graph.channel import Channel, make_channel
from blobcp.graph.history import Remembering, has_ended
from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.parts import Flow, Part, Sent, StreamTask
from blobcp.graph.plan import END, START, GraphPlan, NodePlan
from blobcp.scope import Frame
from blobcp.stream.flatten import joined
from blobcp.stream.reader import StreamReader

__all__ = ["StreamRun"]


class StreamRun(Remembering):
    """One graph instance of a stream run.

    Attributes:
        sender: the task whose result is sent next; ``None`` for START.
    """

    __slots__ = ("_base", "_waiting", "sender")

    def __init__(self, plan: GraphPlan, frame: Frame, parent: Task | None, flow: Flow) -> None:
        super().__init__(plan, frame, parent, flow)
        self.sender: StreamTask | None = None
        self._waiting: dict[str, list[Sent]] = {}
        self._base = {key: self._channel(key) for key in self.channels}

    def nested(self, plan: GraphPlan, frame: Frame, parent: Task) -> GraphRun:
        return StreamRun(plan, frame, parent, self.flow)

    def loaded(self) -> None:
        for channel in self.channels.values():
            channel.values = {source: Part(value) for source, value in channel.values.items()}
        self._base = {key: self._channel(key, channel) for key, channel in self.channels.items()}
        self.touch_all()

    def restored(self, node: NodePlan, value: Any, *, empty: bool, is_stored: bool, skip_pre: bool) -> Task:
        task = StreamTask(self, node, None, empty=empty, skip_pre=skip_pre)
        task.parts = {START: Part(value)}
        # None was stored for a stream that had no chunks.
        task.value = self.flow.open(task.parts[START], is_stored and empty)
        return task

    def deliver(self, node: NodePlan, value: Any, chosen: Sequence[str]) -> None:
        task, self.sender = self.sender, None
        targets = list(dict.fromkeys([*(send.target for send in node.sends if send.data), *chosen]))
        depth = 0 if task is None else task.depth
        if task is None and isinstance(self.parent, StreamTask):
            depth = self.parent.depth
        copies = self.flow.split(value, len(targets))
        parts = {target: Part(copy, depth) for target, copy in zip(targets, copies, strict=True)}
        sent = Sent(task, node, chosen, parts, None if targets else Part(value))
        self.history.append(sent)
        self._apply(sent)

    def _apply(self, sent: Sent) -> None:
        key, channels = sent.node.key, self.channels
        targets = dict.fromkeys([*(send.target for send in sent.node.sends), *sent.chosen])
        for send in sent.node.sends:
            if send.data:
                channels[send.target].put(key, sent.parts[send.target])
            if send.control:
                channels[send.target].fire(key)
        for target in sent.chosen:
            channels[target].put(key, sent.parts[target])
            channels[target].fire(key)
        for target in targets:
            self._touched[target] = None
            self._waiting.setdefault(target, []).append(sent)
        if sent.node.rejects and self.plan.mode == "dag":
            self._skip(key, [send for send in sent.node.rejects if send.target not in sent.chosen])

    def end_value(self) -> Any:
        channel = self.channels[END]
        for sent in self._waiting.get(END, ()):
            sent.taken = sent.taken or END in sent.parts
        if self.parent is not None and isinstance(self.parent, StreamTask):
            self.parent.depth = max((part.depth for part in channel.values.values()), default=0)
        return self._gathered(END, channel.values, channel.stored_none)

    def fits_output(self, value: Any) -> bool:
        return isinstance(value, StreamReader) or super().fits_output(value)

    def _task(self, node: NodePlan) -> Task:
        channel = self.channels[node.key]
        stored_none = channel.stored_none
        values = channel.take()
        task = StreamTask(self, node, None, empty=stored_none or not values)
        task.came = self._waiting.pop(node.key, ())
        for sent in task.came:
            sent.taken = sent.taken or node.key in sent.parts
        task.parts = self._in_order(node.key, values)
        task.depth = 1 + max((part.depth for part in values.values()), default=0)
        task.value = self._gathered(node.key, values or {START: Part(node.zero)}, stored_none)
        self.history.append(task)
        return task

    def _gathered(self, key: str, values: Mapping[str, Part], stored_none: bool) -> Any:
        readers = {
            source: self.flow.open(part, stored_none and part.value is None)
            for source, part in self._in_order(key, values).items()
        }
        return self.flow.gather(self, key, readers)

    def _in_order(self, key: str, values: Mapping[str, Part]) -> dict[str, Part]:
        sources = [source for source in self.plan.data[key] if source in values]
        return {source: values[source] for source in sources or values}

    def take_back(self, task: StreamTask) -> list[StreamTask]:
        """Forget that a task has finished, and all that followed; returns the tasks that are lost with it."""
        lost = self.dependents(task)
        gone = {task, *lost}
        self.history = [
            event
            for event in self.history
            if event is task or (event if isinstance(event, StreamTask) else event.task) not in gone
        ]
        for each in lost:
            self._forget(each)
        task.flowing = False
        task.over = True
        self._forget_finished(task.node.key)
        self._replay()
        return lost

    def _forget(self, task: StreamTask) -> None:
        key = task.node.key
        task.lost = True
        if self.running.get(key) is task:
            del self.running[key]
        if key in self.stopped and self.stopped[key][0] is task:
            del self.stopped[key]
        self.ready = [each for each in self.ready if each is not task]
        task.inner = task.inner or self.children.get(key)
        self.children.pop(key, None)
        self._forget_finished(key)
        if isinstance(task.inner, StreamRun):
            for below in task.inner.all_tasks():
                below.lost = True

    def _forget_finished(self, key: str) -> None:
        for names in (self.after_hits, self.before_hits, self.last_completed, self.completed_before):
            if key in names:
                names.remove(key)
        self.completed.pop(key, None)

    def _replay(self) -> None:
        self.channels = {key: self._channel(key, channel) for key, channel in self._base.items()}
        self._waiting = {}
        for event in self.history:
            if isinstance(event, Sent):
                self._apply(event)
            else:
                self.channels[event.node.key].take()
                self._waiting.pop(event.node.key, None)
        self.touch_all()

    def settle(self) -> None:
        """Forget the beginning of what happened, as far as it can't be taken back any more."""
        while self.history and self._is_settled(self.history[0]):
            event = self.history.pop(0)
            if isinstance(event, Sent):
                with self._on_base():
                    self._apply(event)
            else:
                self._base[event.node.key].take()
                event.came = ()  # else each visit of a loop would keep the one before
                for part in event.parts.values():
                    self.flow.close(part)

    def _is_settled(self, event: Sent | StreamTask) -> bool:
        task = event.task if isinstance(event, Sent) else event
        if task is None:
            return True
        return task.flowing and has_ended(task)

    @contextmanager
    def _on_base(self) -> Iterator[None]:
        live = self.channels, self._touched, self._waiting
        self.channels, self._touched, self._waiting = self._base, {}, {}
        try:
            yield
        finally:
            self.channels, self._touched, self._waiting = live

    def _channel(self, key: str, like: Channel | None = None) -> Channel:
        channel = make_channel(self.plan.mode, self.plan.control[key], self.plan.data[key])
        if like is not None:
            channel.load(like.dump())
            channel.stored_none = like.stored_none or any(part.value is None for part in like.values.values())
        return channel

    def input_of(self, task: Task, live: bool) -> Any:
        """Return the value to run a task again with; with ``live``, ``None``, as nothing may have been read yet."""
        if live or not isinstance(task, StreamTask):
            return None
        if not task.parts:
            return task.node.zero
        values = {source: self.flow.stored(part) for source, part in task.parts.items()}
        if len(values) > 1:
            values = {source: joined(value) for source, value in values.items()}
        return self._merge(task.node.key, values)

    def checkpoint(self, live: bool = False) -> Checkpoint:
        stored = super().checkpoint(live)
        for channel in stored.channels.values():
            channel.values = {source: self.flow.stored(part) for source, part in channel.values.items()}
        return stored
