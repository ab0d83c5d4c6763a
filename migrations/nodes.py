"""Ready-made steps for nodes that were renamed or removed: whatever names them in a checkpoint is changed or dropped.

A node is named by its channel, by the channels of the nodes behind it (as the source of a value or of a trigger), by its
input, by the lists of nodes that go on, by the graph nested in it, and by the addresses of interrupts. The ids of
interrupts stay as they are, so that answers still find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from blobcp.checkpoint import Address, AddressSegment, Checkpoint, PregelChannelState
from blobcp.errors import OptionError

from .arguments import checked_path, node_key
from .channels import forget, has_anything, make_like, merge, put, rename_source
from .dropped import where
from .operations import Operation
from .work import Work

__all__ = ["remove_node", "rename_node"]

V = TypeVar("V")


def rename_node(old: str, new: str, path: Iterable[str] = ()) -> Operation:
    """Follow a node to its new key: what waits there goes on there, under the same ids.

    Args:
        old: its key in blobs of the older version; where a blob does not have it, nothing is changed.
        new: its key from now on.
        path: the keys of the nodes on the way to the nested graph that it is in; none for the root graph.

    Raises:
        OptionError: a key is none, or both are the same.
    """
    if old == new:
        raise OptionError(f"rename_node({old!r}, {new!r}) renames nothing; give two different keys")
    return _RenameNode(node_key(old), node_key(new), checked_path(path))


def remove_node(name: str, path: Iterable[str] = (), *, hand_to: Mapping[str, str] | None = None) -> Operation:
    """Take a node out of stored runs; what is lost by it is reported.

    A run that waited at the node can go on only where its input is handed to others.

    Args:
        name: the node's key; where a blob does not have it, nothing is changed.
        path: the keys of the nodes on the way to the nested graph that it is in; none for the root graph.
        hand_to: the nodes behind it (``"end"`` included) that get what waits for the node, as if it had never been there;
            each with the node (or ``"start"``) that it then comes from, a predecessor in the graph of today:
            ``{"ship": "check"}`` where ``check -> approve -> ship`` has become ``check -> ship``.

    Raises:
        OptionError: a key is none.
    """
    if hand_to is not None and not isinstance(hand_to, Mapping):
        raise OptionError(f"hand_to={hand_to!r} is no mapping; give the nodes behind, each with the node before")
    targets = {node_key(key, "end"): node_key(source, "start") for key, source in (hand_to or {}).items()}
    if name in targets or name in targets.values():
        raise OptionError(
            f"hand_to={hand_to!r} names the removed node {name!r} itself; name those before and behind it"
        )
    return _RemoveNode(node_key(name), checked_path(path), targets)


@dataclass(frozen=True)
class _RenameNode(Operation):
    needs_raw = False

    old: str
    new: str
    path: tuple[str, ...]

    def apply(self, work: Work) -> None:
        tree = work.tree(raw=None)
        graph = _graph_at(tree, self.path)
        if graph is not None and self.old in _keys_of(graph):
            if self.new in _keys_of(graph):
                raise work.error(
                    f"can't rename node {self.old!r} to {self.new!r}, which {where(self.path)} has already", self.path
                )
            self._rename(graph)
        self._move_interrupts(tree)
        work.renew_pending(tree)

    def _rename(self, graph: Checkpoint) -> None:
        for channel in graph.channels.values():
            rename_source(channel, self.old, self.new)
        graph.channels = self._keys(graph.channels)
        graph.inputs = self._keys(graph.inputs)
        graph.skip_pre_handler = self._keys(graph.skip_pre_handler)
        graph.sub_graphs = self._keys(graph.sub_graphs)
        for nodes in (graph.rerun_nodes, graph.before_nodes, graph.after_nodes):
            nodes[:] = [self.new if key == self.old else key for key in nodes]

    def _keys(self, mapping: dict[str, V]) -> dict[str, V]:
        return {self.new if key == self.old else key: item for key, item in mapping.items()}

    def _move_interrupts(self, tree: Checkpoint) -> None:
        then = _address_of(tree, (*self.path, self.old))
        for id, address in tree.interrupt_id_to_address.items():
            if then.covers(address):
                now = (*then[:-1], AddressSegment("node", self.new), *address[len(then) :])
                tree.interrupt_id_to_address[id] = Address(now)


@dataclass(frozen=True)
class _RemoveNode(Operation):
    needs_raw = False

    name: str
    path: tuple[str, ...]
    hand_to: Mapping[str, str] = field(default_factory=dict)

    def apply(self, work: Work) -> None:
        tree = work.tree(raw=None)
        graph = _graph_at(tree, self.path)
        if graph is not None and self.name in _keys_of(graph):
            if self.hand_to:
                self._hand_on(graph, work)
            self._remove(graph, work)
        self._remove_interrupts(tree, work)
        work.renew_pending(tree)

    def _hand_on(self, graph: Checkpoint, work: Work) -> None:
        """Put what waits for the node where the nodes behind it find it."""
        if self.name in graph.sub_graphs:
            raise work.error(
                f"can't hand on what waited for node {self.name!r}: the run is inside of the graph nested there, whose input "
                "is not kept",
                self.path,
            )
        channel = graph.channels.get(self.name) or make_like(next(iter(graph.channels.values()), PregelChannelState()))
        for key, source in self.hand_to.items():
            target = graph.channels.setdefault(key, make_like(channel))
            rename_source(target, self.name, source)
            merge(target, channel, work.copy)
            if self.name in graph.inputs:
                put(target, source, work.copy(graph.inputs[self.name]))
        graph.channels[self.name] = make_like(channel)
        graph.inputs.pop(self.name, None)

    def _remove(self, graph: Checkpoint, work: Work) -> None:
        channel = graph.channels.pop(self.name, None)
        if channel is not None and has_anything(channel):
            work.drop("channel", self.name, self.path)
        for key, other in graph.channels.items():
            if forget(other, self.name):
                work.drop("value", self.name, self.path, f"which waited for node {key}")
        if self.name in graph.inputs:
            del graph.inputs[self.name]
            work.drop("input", self.name, self.path)
        if graph.sub_graphs.pop(self.name, None) is not None:
            work.drop("nested graph", self.name, self.path)
        graph.skip_pre_handler.pop(self.name, None)
        for nodes in (graph.rerun_nodes, graph.before_nodes, graph.after_nodes):
            nodes[:] = [key for key in nodes if key != self.name]

    def _remove_interrupts(self, tree: Checkpoint, work: Work) -> None:
        place = _address_of(tree, (*self.path, self.name))
        parents: set[str | None] = set()
        for id, address in list(tree.interrupt_id_to_address.items()):
            if place.covers(address):
                parents.add(tree.interrupt_id_to_state.pop(id).parent)
                del tree.interrupt_id_to_address[id]
                work.drop("interrupt", id, self.path, f"at {address}")
        # A graph's own point that has nothing left to pass on is what the run waits at now.
        left = {record.parent for record in tree.interrupt_id_to_state.values() if record.status == "pending"}
        for id, record in tree.interrupt_id_to_state.items():
            if id in parents and id not in left:
                record.is_root_cause = True


def _keys_of(graph: Checkpoint) -> set[str]:
    """Return the keys of the nodes that a stored graph names; one that was not written by this package may lack channels."""
    lists = (graph.rerun_nodes, graph.before_nodes, graph.after_nodes)
    return {*graph.channels, *graph.inputs, *graph.sub_graphs, *(key for nodes in lists for key in nodes)}


def _graph_at(tree: Checkpoint, path: tuple[str, ...]) -> Checkpoint | None:
    graph: Checkpoint | None = tree
    for key in path:
        graph = graph.sub_graphs.get(key) if graph is not None else None
    return graph


def _address_of(tree: Checkpoint, path: tuple[str, ...]) -> Address:
    """Return the address that a node has in the interrupts of a checkpoint."""
    root = next(
        (
            tree.interrupt_id_to_address[id]
            for id, record in tree.interrupt_id_to_state.items()
            if record.of_graph and record.parent is None
        ),
        None,
    )
    if root is None:  # no graph has stopped here, so there is nothing but the name of the root before its nodes
        root = Address(next(iter(tree.interrupt_id_to_address.values()), Address())[:1])
    return Address((*root, *(AddressSegment("node", key) for key in path)))
