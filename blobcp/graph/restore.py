"""Back from a checkpoint to a run: lay stored channels over the compiled graph, and say which nodes run again.

Every name that a checkpoint holds must be in the graph that loads it. A graph may have grown since; what is gone is
an error that names it, before any node runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from blobcp.checkpoint import Address, Checkpoint, InterruptState
from blobcp.errors import CheckpointMismatchError
from blobcp.graph.channel import ChannelMisfit
from blobcp.graph.instance import GraphRun, Parked, Task
from blobcp.graph.plan import END, GraphPlan
from blobcp.graph.state import StateCell
from blobcp.graph.state_types import StateTypes
from blobcp.points import Signal, unflatten
from blobcp.resumption import NO_DATA, Resumption
from blobcp.scope import Frame

__all__ = ["Restorer"]


class Restorer:
    """Builds the runs of one loaded checkpoint.

    Args:
        checkpoint_id: for messages.
        root: the root's checkpoint, which has the interrupts of the whole tree.
        resumption: the stored points and what was answered now.
        types: the classes that the graphs' states must be of.
    """

    def __init__(self, checkpoint_id: str, root: Checkpoint, resumption: Resumption, types: StateTypes) -> None:
        self._id = checkpoint_id
        self._resumption = resumption
        self._types = types
        self._signals: Mapping[str, Signal] = {
            signal.id: signal
            for tree in unflatten(root.interrupt_id_to_address, root.interrupt_id_to_state)
            for signal in tree.walk()
        }
        self._states: Mapping[str, InterruptState] = root.interrupt_id_to_state

    def restore(self, plan: GraphPlan, stored: Checkpoint, frame: Frame, parent: Task | None = None) -> GraphRun:
        """Return the run of one graph as it was stored, with the nodes that run now in ``ready``.

        Raises:
            CheckpointMismatchError: the checkpoint names something that the graph does not have.
        """
        run = GraphRun(plan, frame, parent)
        self._check_names(run, stored)
        self._load_channels(run, stored)
        run.touch_all()
        for key, node in plan.nodes.items():
            address = frame.address.child("node", key)
            if key in stored.rerun_nodes and self._stays_pending(address):
                run.parked[key] = self._park(key, stored, address)
            elif key in stored.inputs or key in stored.rerun_nodes:
                task = Task(
                    run,
                    node,
                    stored.inputs.get(key, node.zero),
                    empty=stored.inputs.get(key) is None,
                    skip_pre=key in stored.skip_pre_handler,
                )
                run.ready.append(task)
                task.asked = self._unanswered(address) if key in stored.rerun_nodes else ()
                if key in stored.sub_graphs:
                    run.children[key] = self._restore_nested(task, stored.sub_graphs[key])
        return run

    def cell(self, plan: GraphPlan, stored: Checkpoint, path: Sequence[str]) -> StateCell | None:
        """Return the cell of a stored state.

        Raises:
            CheckpointMismatchError: the graph has no state, or one of another class.
        """
        where = "/".join(path) or plan.name
        if plan.make_state is None:
            if stored.state is not None:
                raise self._mismatch(
                    f"holds a state of class {type(stored.state).__qualname__} for graph {where!r}, which has none"
                )
            return None
        if stored.state is None:
            raise self._mismatch(f"holds no state for graph {where!r}, which has one")
        expected = self._types.of(plan)
        if expected is not None and not isinstance(stored.state, expected):
            raise self._mismatch(
                f"holds a state of class {type(stored.state).__qualname__} for graph {where!r}, "
                f"whose state is of class {expected.__qualname__}"
            )
        return StateCell(stored.state)

    def _restore_nested(self, task: Task, stored: Checkpoint) -> GraphRun:
        plan, outer = task.node.graph, task.run.frame
        if plan is None:
            raise self._mismatch(f"is inside a nested graph at node {'/'.join(task.path)}, which is a function now")
        address = outer.address.child("node", task.node.key)
        frame = Frame(address, self.cell(plan, stored, task.path), outer, outer.claims, outer.resumption)
        return self.restore(plan, stored, frame, task)

    def _stays_pending(self, address: Address) -> bool:
        """Tell whether a node asks something, and is not named by the answers; one that was cancelled asks nothing."""
        if not self._resumption.targeted or self._resumption.names(address):
            return False
        return any(address.covers(signal.address) for signal in self._signals.values())

    def _unanswered(self, address: Address) -> list[Signal]:
        """Return what a node asks that has no answer yet, to be asked again where a cancel stops it before it could."""
        answered = {entry.id for entry in self._resumption if entry.data is not NO_DATA}
        return [left for signal in self._asked_by(address) if (left := _without(signal, answered))]

    def _park(self, key: str, stored: Checkpoint, address: Address) -> Parked:
        return Parked(
            signals=self._asked_by(address),
            value=stored.inputs.get(key),
            has_value=key in stored.inputs,
            skip_pre=key in stored.skip_pre_handler,
            sub_graph=stored.sub_graphs.get(key),
        )

    def _asked_by(self, address: Address) -> list[Signal]:
        return [signal for signal in self._signals.values() if self._is_outermost(signal, address)]

    def _is_outermost(self, signal: Signal, address: Address) -> bool:
        """Tell whether a signal is of a node and not passed on by another of the same node."""
        if not address.covers(signal.address):
            return False
        parent = self._signals.get(self._states[signal.id].parent or "")
        return parent is None or not address.covers(parent.address)

    def _check_names(self, run: GraphRun, stored: Checkpoint) -> None:
        known = run.plan.nodes
        places: tuple[tuple[str, Sequence[str]], ...] = (
            ("a node that is to run again", stored.rerun_nodes),
            ("a node that is to run", list(stored.inputs)),
            ("a nested graph that is to go on", list(stored.sub_graphs)),
            ("a node's channel", [key for key in stored.channels if key != END]),
        )
        for what, keys in places:
            for key in keys:
                if key not in known:
                    where = "/".join(run.path) or run.plan.name
                    raise self._mismatch(
                        f"names {key!r} ({what}), which graph {where!r} does not have; its nodes are {list(known)}"
                    )

    def _load_channels(self, run: GraphRun, stored: Checkpoint) -> None:
        for key, channel in stored.channels.items():
            try:
                run.channels[key].load(channel)
            except ChannelMisfit as misfit:
                where = "/".join([*run.path, key])
                raise self._mismatch(f"does not fit the graph: channel {where!r} {misfit}") from None

    def _mismatch(self, problem: str) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f"checkpoint {self._id!r} {problem}; what is stored was not changed; load it with a graph that has what it names",
            checkpoint_id=self._id,
        )


def _without(signal: Signal, answered: Collection[str]) -> Signal | None:
    """Return a signal without what was answered; ``None`` where nothing is left of it."""
    if signal.id in answered:
        return None
    left = [child for part in signal.children if (child := _without(part, answered))]
    if signal.children and not left:
        return None
    return replace(signal, children=left)
