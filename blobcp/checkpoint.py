"""What a stopped run consists of: plain structs, no behaviour.

The checkpoint holds what the framework can see and no more: channels, inputs, state, which nodes run again, nested
graphs, and what is asked. User data enters by one door, the graph's state. Dicts keep insertion order, which is
declaration order of the graph; nothing depends on hash order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

__all__ = [
    "Address",
    "AddressSegment",
    "ChannelState",
    "Checkpoint",
    "DagChannelState",
    "InterruptState",
    "PregelChannelState",
]


class AddressSegment(NamedTuple):
    """One step of an address: the kind of place, its id, and a second id where one is not enough.

    ``sub_id`` tells apart parallel calls of one tool: ``tool:ask:call_1``.
    """

    type: str
    id: str
    sub_id: str = ""

    def __str__(self) -> str:
        return f"{self.type}:{self.id}:{self.sub_id}" if self.sub_id else f"{self.type}:{self.id}"


class Address(tuple[AddressSegment, ...]):
    """Where in a run something is: a tuple of segments from the root graph inwards.

    >>> str(Address.of(("runnable", "root"), ("node", "tools"), ("tool", "ask", "c1")))
    'runnable:root;node:tools;tool:ask:c1'
    """

    __slots__ = ()

    @classmethod
    def of(cls, *segments: Iterable[str]) -> Address:
        """Make an address of ``(type, id)`` or ``(type, id, sub_id)`` tuples."""
        return cls(AddressSegment(*segment) for segment in segments)

    def child(self, type: str, id: str, sub_id: str = "") -> Address:
        """Return the address one step further in."""
        return Address((*self, AddressSegment(type, id, sub_id)))

    def covers(self, other: Address) -> bool:
        """Tell whether ``other`` is this place or one inside it."""
        return other[: len(self)] == self

    def __str__(self) -> str:
        return ";".join(str(segment) for segment in self)

    def __repr__(self) -> str:
        return f"<Address {self}>"


class PregelChannelState(msgspec.Struct, kw_only=True):
    """What waits for a node in pregel mode.

    Attributes:
        values: the value that each source wrote, by source.
        triggers: the sources whose control edge fired since the node last ran.
    """

    values: dict[str, Any] = {}
    triggers: list[str] = []


class DagChannelState(msgspec.Struct, kw_only=True):
    """What waits for a node in dag mode.

    Attributes:
        control: per control predecessor, whether it is still owed.
        data: per data predecessor, whether its value (or its absence) is settled.
        values: the value that each source wrote, by source.
        skipped: whether the node will never run because no predecessor chose it.
        taken: whether the node has been handed its input; it runs once.
    """

    control: dict[str, Literal["waiting", "ready", "skipped"]] = {}
    data: dict[str, bool] = {}
    values: dict[str, Any] = {}
    skipped: bool = False
    taken: bool = False


ChannelState = PregelChannelState | DagChannelState


class InterruptState(msgspec.Struct, kw_only=True):
    """What is known of one interrupt point.

    Attributes:
        state: what the component that stopped wants back on resume.
        payload: the answer that a ``done`` point was given.
        status: ``pending`` while it waits, ``done`` once it was answered and its node has stopped again elsewhere.
        info: what is asked, kept so that another process can show it.
        stored_under: in an app that was called from a node, the checkpoint id that the app is stored under itself.
        of_graph: whether a graph stopped here; its info is its state, which is not stored a second time.
        is_root_cause: whether somebody has to answer it, as against a parent that only passes it on.
        parent: the id of the point that passes it on.
        in_order: whether it was asked by the node's own body (one after the other) or beside it (tasks, threads).
        created_at: when the run stopped at it first, in UTC.
    """

    state: Any = None
    payload: Any = None
    status: Literal["pending", "done"] = "pending"
    info: Any = None
    stored_under: str | None = None
    of_graph: bool = False
    is_root_cause: bool = True
    parent: str | None = None
    in_order: bool = True
    created_at: datetime | None = None


class Checkpoint(msgspec.Struct, kw_only=True):
    """One graph of a stopped run; nested graphs are checkpoints inside it.

    Attributes:
        channels: per node and ``"end"``, what waits there.
        inputs: per node that is to run next, the value it is to run with, as it was before its pre-handler.
        state: the graph's state object.
        skip_pre_handler: nodes whose pre-handler has run and is not to run again (nested graphs that are inside).
        rerun_nodes: those of the next nodes that stopped in the middle, in declaration order.
        before_nodes: those of the next nodes that the run stopped before.
        after_nodes: nodes that the run stopped after, in the order in which they finished.
        sub_graphs: per nested graph that is inside, its own checkpoint.
        interrupt_id_to_address: for the whole tree, kept at the root only.
        interrupt_id_to_state: likewise.
    """

    channels: dict[str, ChannelState] = {}
    inputs: dict[str, Any] = {}
    state: Any = None
    skip_pre_handler: dict[str, bool] = {}
    rerun_nodes: list[str] = []
    before_nodes: list[str] = []
    after_nodes: list[str] = []
    sub_graphs: dict[str, Checkpoint] = {}
    interrupt_id_to_address: dict[str, Address] = {}
    interrupt_id_to_state: dict[str, InterruptState] = {}
