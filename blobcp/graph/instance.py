"""One graph of a run: what waits in its channels, which of its nodes are under way, what a checkpoint keeps of it.

Pure, like the machine that moves it (:mod:`blobcp.graph.run`): no I/O, no thread, no clock, no user code but the merge
functions of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from blobcp.checkpoint import Checkpoint
from blobcp.errors import MergeError
from blobcp.graph.channel import Channel, make_channel
from blobcp.graph.plan import END, GraphPlan, NodePlan, Send
from blobcp.graph.state import StateCell
from blobcp.graph.task import Parked, Task
from blobcp.points import Signal
from blobcp.scope import Frame
from blobcp.stream.flatten import joined
from blobcp.stream.merge import merge_values

__all__ = ["GraphRun", "Parked", "Task"]


class GraphRun:
    """One graph instance of a run.

    Args:
        plan: the compiled graph.
        frame: what its nodes see of the run.
        parent: the task of the node that it is nested in; ``None`` for the root graph.

    Attributes:
        path: the node keys on the way to it.
        channels: what waits for each node and for END.
        running: the tasks under way, by node.
        ready: tasks that have taken their values and were not started: the run halts, or was just loaded.
        stopped: nodes that stopped by themselves, with what they asked.
        parked: nodes that had stopped earlier and are not asked to run again.
        children: the nested graphs that are inside, by node.
        before_hits: ready nodes that the run stops before.
        after_hits: finished nodes that the run stops after, in the order in which they finished.
        last_completed: the nodes that finished since tasks were last started.
        completed_before: those that finished before that, since tasks were started then.
        completed: all nodes that finished in this run.
        steps: how often tasks were started.
    """

    __slots__ = (
        "_touched", "after_hits", "before_hits", "channels", "children", "completed", "completed_before", "frame",
        "last_completed", "parent", "parked", "path", "plan", "ready", "running", "steps", "stopped",
    )  # fmt: skip

    def __init__(self, plan: GraphPlan, frame: Frame, parent: Task | None) -> None:
        self.plan = plan
        self.frame = frame
        self.parent = parent
        self.path: tuple[str, ...] = (*parent.run.path, parent.node.key) if parent else ()
        self.channels: dict[str, Channel] = {
            key: make_channel(plan.mode, plan.control[key], plan.data[key]) for key in (*plan.nodes, END)
        }
        self.running: dict[str, Task] = {}
        self.ready: list[Task] = []
        self.stopped: dict[str, tuple[Task, list[Signal]]] = {}
        self.parked: dict[str, Parked] = {}
        self.children: dict[str, GraphRun] = {}
        self.before_hits: list[str] = []
        self.after_hits: list[str] = []
        self.last_completed: list[str] = []
        self.completed_before: list[str] = []
        self.completed: dict[str, None] = {}
        self.steps = 0
        self._touched: dict[str, None] = {}

    def deliver(self, node: NodePlan, value: Any, chosen: Sequence[str]) -> None:
        """Hand a finished node's value to its successors, and pass over the ends that no branch chose."""
        channels, touched, key = self.channels, self._touched, node.key
        for send in node.sends:
            target = send.target
            channel = channels[target]
            if send.data:
                channel.put(key, value)
            if send.control:
                channel.fire(key)
            touched[target] = None
        for target in chosen:
            channel = channels[target]
            channel.put(key, value)
            channel.fire(key)
            touched[target] = None
        if node.rejects and self.plan.mode == "dag":
            self._skip(key, [send for send in node.rejects if send.target not in chosen])

    def _skip(self, source: str, rejected: Sequence[Send]) -> None:
        """Pass over nodes, and over all that only they could have reached."""
        pending = [(source, send) for send in rejected]
        while pending:
            source, send = pending.pop()
            target = send.target
            self._touched[target] = None
            if self.channels[target].skip(source, control=send.control, data=send.data) and target != END:
                pending.extend((target, Send(after)) for after in self.plan.nodes[target].targets)

    def take_ready(self) -> list[Task]:
        """Take the nodes that may run now out of their channels, in declaration order.

        Raises:
            MergeError: values that meet at a node can't be merged.
        """
        touched, self._touched = self._touched, {}
        channels = self.channels
        keys = [key for key in touched if key != END and channels[key].ready()]
        if len(keys) > 1:
            keys.sort(key=self.plan.order.__getitem__)
        nodes = self.plan.nodes
        return [self._task(nodes[key]) for key in keys]

    def end_value(self) -> Any:
        """Return what reached END; it stays in its channel, so that a checkpoint can still tell it."""
        channel = self.channels[END]
        return self._merge(END, channel.values) if channel.values else None

    def _task(self, node: NodePlan) -> Task:
        channel = self.channels[node.key]
        stored_none = channel.stored_none
        values = channel.take()
        if not values:
            return Task(self, node, node.zero, empty=True)
        value = self._merge(node.key, values)
        if stored_none and value is None:  # it may have been a stream without chunks
            value = node.zero
        return Task(self, node, value, empty=stored_none)

    def _merge(self, key: str, values: dict[str, Any]) -> Any:
        if len(values) == 1:
            return next(iter(values.values()))
        in_order = {source: values[source] for source in self.plan.data[key] if source in values}
        try:
            return merge_values(in_order)
        except MergeError as error:
            error.path = [*self.path, key]
            error.args = (f"{'/'.join(error.path)}: {error}",)
            raise

    def fits_output(self, value: Any) -> bool:
        """Tell whether what reached END is what the graph is declared to return."""
        end = self.channels[END]
        if value is None and (end.stored_none or not end.values):
            return True
        return self.plan.gives is None or self.plan.gives(value)

    def nested(self, plan: GraphPlan, frame: Frame, parent: Task) -> GraphRun:
        """Return the run of a graph that is nested in this one."""
        return GraphRun(plan, frame, parent)

    def end_ready(self) -> bool:
        """Whether END was reached."""
        return self.channels[END].ready()

    @property
    def halted(self) -> bool:
        """Whether something happened in this graph after which no further node may start."""
        return bool(self.stopped or self.before_hits or self.after_hits)

    def walk(self) -> Iterator[GraphRun]:
        """Yield this graph and the nested ones that are inside, a graph before those in it."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def unstarted(self) -> list[Task]:
        """Return the tasks under way of which nothing was started yet."""
        return [
            task for key, task in self.running.items() if not (task.started or task.leaving or key in self.children)
        ]

    def hold(self, tasks: Sequence[Task]) -> None:
        """Take back tasks that were not started; one that had asked something still does."""
        for task in tasks:
            del self.running[task.node.key]
            if task.asked:
                self.stopped[task.node.key] = (task, list(task.asked))
            else:
                self.ready.append(task)
        self.ready.sort(key=lambda task: task.node.index)
        if not self.running and not self.last_completed:
            self.last_completed = self.completed_before

    def all_completed(self) -> Iterator[str]:
        """Yield the nodes that finished in this run, those of nested graphs that are inside included, as paths."""
        yield from ("/".join([*self.path, key]) for key in self.completed)
        for child in self.children.values():
            yield from child.all_completed()

    def loaded(self) -> None:
        """Go on from channels that were just loaded."""
        for channel in self.channels.values():
            channel.values = {source: joined(value) for source, value in channel.values.items()}
        self.touch_all()

    def touch_all(self) -> None:
        """Look at every channel again."""
        self._touched = dict.fromkeys(self.channels)

    def restored(self, node: NodePlan, value: Any, *, empty: bool, is_stored: bool, skip_pre: bool) -> Task:
        """Return the task of a node that is to run, from a checkpoint.

        Args:
            node: the node.
            value: its input; ``None`` that stands for nothing becomes the zero of its type.
            empty: whether ``None`` stands for nothing.
            is_stored: whether the input was stored; else the value is the node's zero.
            skip_pre: whether its pre-handler has run already.
        """
        value = node.zero if value is None else joined(value)
        return Task(self, node, value, empty=empty, skip_pre=skip_pre)

    def checkpoint(self, live: bool = False) -> Checkpoint:
        """Return this graph as it stands, see `Machine.checkpoint`; interrupts are kept by the root alone."""
        cell = self.frame.cell
        stored = Checkpoint(
            state=cell.settled() if isinstance(cell, StateCell) else None,
            channels={key: channel.dump() for key, channel in self.channels.items()},
            before_nodes=list(self.before_hits),
            after_nodes=list(self.after_hits),
        )
        for key in self.plan.nodes:
            if key in self.stopped:
                self._store_task(stored, self.stopped[key][0], live, rerun=True)
            elif key in self.parked:
                _store_parked(stored, key, self.parked[key])
            elif key in self.running:
                self._store_task(stored, self.running[key], live, rerun=key in self.children)
        for task in self.ready:
            stored.inputs[task.node.key] = self.input_of(task, live)
        return stored

    def input_of(self, task: Task, live: bool) -> Any:
        """Return what a checkpoint keeps of a task's input."""
        return task.value if live else task.input()

    def _store_task(self, stored: Checkpoint, task: Task, live: bool, *, rerun: bool) -> None:
        key = task.node.key
        child = self.children.get(key)
        if rerun:
            stored.rerun_nodes.append(key)
        if child is not None:
            stored.sub_graphs[key] = child.checkpoint(live)
            stored.skip_pre_handler[key] = True
        else:
            stored.inputs[key] = self.input_of(task, live)


def _store_parked(stored: Checkpoint, key: str, parked: Parked) -> None:
    stored.rerun_nodes.append(key)
    if parked.sub_graph is not None:
        stored.sub_graphs[key] = parked.sub_graph
    if parked.skip_pre:
        stored.skip_pre_handler[key] = True
    if parked.has_value:
        stored.inputs[key] = parked.value
