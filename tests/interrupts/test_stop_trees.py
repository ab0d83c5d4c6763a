"""The tree behind a stop: to points and back, to the flat maps of a checkpoint and back; addresses as text."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from pausing import places, solo, stopped

from blobcp import END, START, Address, Graph, InterruptPoint, interrupt
from blobcp.points import Signal, flatten, points_of, tree_of, unflatten
from blobcp.stores import MapStore


def signal(id: str, *children: Signal, state: Any = None) -> Signal:
    """Return a signal at an address that is made of its id."""
    return Signal(id=id, address=Address.of(("node", id)), info=f"info {id}", state=state, children=list(children))


def shape(at: Signal | None) -> Any:
    """Return a tree as nested tuples of ids."""
    return None if at is None else (at.id, *(shape(child) for child in at.children))


def point(id: str, parent: InterruptPoint | None = None, *, root_cause: bool = False) -> InterruptPoint:
    """Return a point."""
    return InterruptPoint(id=id, address=Address.of(("node", id)), is_root_cause=root_cause, parent=parent)


def test_a_chain_of_parents() -> None:
    """B087: leaf C with parent B with parent A is the tree A, B, C, and that tree gives leaf C with those parents."""
    leaf = point("C", point("B", point("A")), root_cause=True)
    tree = tree_of([leaf])

    assert shape(tree) == ("A", ("B", ("C",)))
    (back,) = points_of(tree)
    assert (back.id, back.address, back.is_root_cause) == ("C", leaf.address, True)
    assert back.parent is not None
    assert (back.parent.id, back.parent.is_root_cause) == ("B", False)
    assert back.parent.parent is not None
    assert (back.parent.parent.id, back.parent.parent.parent) == ("A", None)


def test_siblings_share_their_parent() -> None:
    """B087: leaves B and C of parent D are one tree with root D and two children, and share the parent object again."""
    parent = point("D")
    tree = tree_of([point("B", parent, root_cause=True), point("C", parent, root_cause=True)])

    assert shape(tree) == ("D", ("B",), ("C",))
    first, second = points_of(tree)
    assert (first.id, second.id) == ("B", "C")
    assert first.parent is second.parent is not None


def test_nothing_is_nothing() -> None:
    """B087: no points are no tree, no tree is no points and two empty maps, and these are no trees."""
    assert tree_of([]) is None
    assert points_of(None) == []
    assert flatten(None) == ({}, {})
    assert unflatten({}, {}) == []


TREES = {
    "single": (1, signal("a", state=1)),
    "two children": (3, signal("a", signal("b", state=2), signal("c"))),
    "two levels": (4, signal("a", signal("b", signal("c", state={"x": 1})), signal("d"))),
    "two branches": (6, signal("a", signal("b", signal("c"), signal("d", state="s")), signal("e", signal("f")))),
}


@pytest.mark.parametrize("name", TREES)
def test_flat_maps(name: str) -> None:
    """B087: a tree flattens into one address and one state per signal, and comes back from them as it was."""
    size, tree = TREES[name]
    addresses, states = flatten(tree)

    assert len(addresses) == len(states) == size
    assert addresses == {at.id: at.address for at in tree.walk()}
    assert {id: record.state for id, record in states.items()} == {at.id: at.state for at in tree.walk()}
    (back,) = unflatten(addresses, states)
    assert back == tree


def test_answered_points_are_no_part_of_the_tree() -> None:
    """B087, P2: a point that was answered already is kept in the maps and is in no tree."""
    addresses, states = flatten(signal("a", signal("b"), signal("c")))
    states["b"].status = "done"
    (back,) = unflatten(addresses, states)

    assert shape(back) == ("a", ("c",))


def test_addresses_as_text() -> None:
    """B088: segments are joined by semicolons, a second id comes last, and no segments are no text."""
    address = Address.of(("agent", "agent1"), ("tool", "tool1"), ("node", "node1", "sub1"))

    assert str(address) == "agent:agent1;tool:tool1;node:node1:sub1"
    assert str(Address()) == ""


@pytest.mark.parametrize("other", [("tool", "n", "s"), ("node", "m", "s"), ("node", "n", "t"), ("node", "n")])
def test_addresses_are_equal_in_all_parts(other: tuple[str, ...]) -> None:
    """B088: addresses are equal where type, id and second id of every segment are; they cover what is inside them."""
    address = Address.of(("runnable", "root"), ("node", "n", "s"))

    assert address == Address.of(("runnable", "root"), ("node", "n", "s"))
    assert address != Address.of(("runnable", "root"), other)
    assert not Address.of(("runnable", "root"), other).covers(address)
    assert address.covers(address.child("part", "p"))
    assert not address.child("part", "p").covers(address)


def test_an_unnamed_root(runner: Runner, mode: dict[str, Any]) -> None:
    """B088: a root without a name prints an empty one; a nested node's address names every graph above it."""
    inner = solo(lambda text: text + interrupt("q"), key="inner_lambda")
    app = solo(inner, key="sub_graph_node").compile(name="", store=MapStore(), **mode)

    assert places(stopped(runner, app, "x", checkpoint_id="1")) == ["runnable:;node:sub_graph_node;node:inner_lambda"]
    assert runner.resume(app, "1", answer="!") == "x!"


def test_names_full_of_punctuation(runner: Runner) -> None:
    """B088: keys that hold the separators of the text are told apart, since addresses are compared by their parts."""
    graph = Graph(str, dict)
    for key in ("a;node:b", "a", "a:b"):
        graph.add_node(key, lambda text, key=key: interrupt(key), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore())
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert [at.address[-1].id for at in stop.interrupts] == ["a;node:b", "a", "a:b"]
    answers = {at.id: at.info.upper() for at in stop.interrupts}
    assert runner.resume(app, "1", answers) == {"a;node:b": "A;NODE:B", "a": "A", "a:b": "A:B"}
