"""Compiling a graph: what can't run is refused before it does, naming the nodes; so are options that mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphs import appending, chain, echo
from wiring import wire

from blobcp import END, START, Graph, GraphBuildError
from blobcp.stores import FileStore


def nodes(*keys: str) -> Graph:
    """Return a graph of echo nodes without edges."""
    graph = Graph()
    for key in keys:
        graph.add_node(key, echo)
    return graph


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["1 end"], "no edge leaves 'start'"),
        (["start 1"], "no edge reaches 'end'"),
        ([], "no edge leaves 'start'"),
        (["start 1", "2 end"], r"nodes \['2'\] can't be reached from 'start'"),
        (["start 1 end", "2 end"], r"nodes \['2'\] can't be reached from 'start'"),
        (["start 1 end", "2 3 2"], r"nodes \['2', '3'\] can't be reached from 'start'"),
    ],
)
def test_no_way_through(mode: dict[str, Any], paths: list[str], message: str) -> None:
    """B011: a graph without a way from START, without a way to END or with nodes off the way is refused."""
    keys = {key for path in paths for key in path.split()} - {START, END} or {"1"}
    graph = wire(nodes(*sorted(keys)), *paths)

    with pytest.raises(GraphBuildError, match=message):
        graph.compile(**mode)


def test_a_way_by_branches(mode: dict[str, Any]) -> None:
    """B011: ends of branches are ways like edges."""
    graph = nodes("1")
    graph.add_branch(START, lambda _: "1", ["1"])
    graph.add_branch("1", lambda _: END, [END])

    assert graph.compile(**mode).invoke("x") == "x"


@pytest.mark.parametrize(
    ("keys", "paths", "loops"),
    [
        ("1", ["start 1 1", "1 end"], ["1→1"]),
        ("123", ["start 1 2 3 2", "3 end"], ["2→3→2", "3→2→3"]),
        ("1234", ["start 1 2 end", "2 3 4 1"], ["1→2→3→4→1", "2→3→4→1→2", "3→4→1→2→3", "4→1→2→3→4"]),
    ],
)
@pytest.mark.parametrize("eager", [True, False])
def test_cycle_in_a_dag(keys: str, paths: list[str], loops: list[str], eager: bool) -> None:
    """B007: a dag with a cycle is refused with the loop in the message; pregel mode takes it."""
    graph = wire(nodes(*keys), *paths)

    with pytest.raises(GraphBuildError, match="a dag has no cycles") as caught:
        graph.compile(mode="dag", eager=eager)

    assert any(f" {loop} is one" in str(caught.value) for loop in loops)
    graph.compile()


@pytest.mark.parametrize("kind", ["branch", "data", "control"])
def test_cycle_by_other_ways(kind: str) -> None:
    """B007: a branch, a data-only edge or a control-only edge back closes a cycle too."""
    graph = wire(nodes("1", "2"), "start 1 2 end")
    if kind == "branch":
        graph.add_branch("2", lambda _: END, ["1", END])
    else:
        graph.add_edge("2", "1", control=kind == "control", data=kind == "data")

    with pytest.raises(GraphBuildError, match="1→2→1 is one"):
        graph.compile(mode="dag")


def test_diamonds_are_no_cycles() -> None:
    """B007: several ways to one node are no cycle."""
    graph = wire(nodes("1", "2", "3", "4"), "start 1 2 4 end", "1 3 4", "1 4", "2 3")

    graph.compile(mode="dag")


def test_cycle_in_a_nested_graph() -> None:
    """B007: a graph nested in a dag runs as a dag, so its cycles are refused too."""
    outer = Graph()
    outer.add_node("sub", wire(nodes("x", "y"), "start x y x", "y end"))
    wire(outer, "start sub end")

    with pytest.raises(GraphBuildError, match="x→y→x is one"):
        outer.compile(mode="dag")
    outer.compile()


def test_an_app_keeps_its_mode() -> None:
    """B007: an app nested in a dag runs as it was compiled, loops included."""
    inner = Graph(str, str)
    inner.add_node("x", appending("x"))
    inner.add_edge(START, "x")
    inner.add_branch("x", lambda text: END if len(text) > 3 else "x", ["x", END])
    outer = Graph(str, str)
    outer.add_node("sub", inner.compile())
    wire(outer, "start sub end")

    assert outer.compile(mode="dag").invoke("a") == "axxx"


def takes_int(value: int) -> int:
    """Return the int."""
    return value


def takes_text(value: str) -> str:
    """Return the text."""
    return value


def takes_either(value: int | str) -> int | str:
    """Return the value."""
    return value


@pytest.mark.parametrize("control_only", [False, True])
def test_types_that_can_not_meet(mode: dict[str, Any], control_only: bool) -> None:
    """Annotated types at both ends of an edge that can't meet are refused, naming nodes and types; control carries none."""
    graph = Graph()
    graph.add_node("1", takes_int)
    graph.add_node("2", takes_text)
    graph.add_edge(START, "1")
    graph.add_edge("1", "2", data=not control_only)
    graph.add_edge("2", END)

    if control_only:
        graph.compile(**mode)
        return
    with pytest.raises(GraphBuildError, match="'1' gives int and '2' takes str; these can't meet"):
        graph.compile(**mode)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((int, str), "'start' gives int and '1' takes str"),
        ((str, int), "'1' gives str and 'end' takes int"),
        ((str, dict), "'1' gives str and 'end' takes dict"),
    ],
)
def test_types_of_the_graph(declared: tuple[Any, Any], message: str) -> None:
    """A graph's input and output types must meet those of its first and last nodes."""
    graph = Graph(*declared)
    graph.add_node("1", takes_text)
    wire(graph, "start 1 end")

    with pytest.raises(GraphBuildError, match=message):
        graph.compile()


def test_types_at_a_branch() -> None:
    """Every end of a branch is held against the type of its source."""
    graph = Graph()
    graph.add_node("1", takes_int)
    graph.add_node("2", takes_text)
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda _: END, ["2", END])
    graph.add_edge("2", END)

    with pytest.raises(GraphBuildError, match="'1' gives int and '2' takes str"):
        graph.compile()


def test_types_with_keys() -> None:
    """A node with an output key gives a dict, one with an input key takes a dict."""
    graph = Graph()
    graph.add_node("1", takes_int, output_key="n")
    graph.add_node("2", takes_text)
    wire(graph, "start 1 2 end")
    with pytest.raises(GraphBuildError, match="'1' gives dict and '2' takes str"):
        graph.compile()

    graph = Graph()
    graph.add_node("1", takes_int)
    graph.add_node("2", takes_int, input_key="n")
    wire(graph, "start 1 2 end")
    with pytest.raises(GraphBuildError, match="'1' gives int and '2' takes dict"):
        graph.compile()


def test_types_of_nested_graphs() -> None:
    """A nested graph takes and gives what it declares."""
    outer = Graph(int, Any)
    outer.add_node("sub", chain("1"))
    wire(outer, "start sub end")

    with pytest.raises(GraphBuildError, match="'start' gives int and 'sub' takes str"):
        outer.compile()


def test_types_that_may_meet() -> None:
    """Types that may meet are let through: unions, subclasses, unannotated functions, nodes with handlers."""
    graph = Graph(bool, Any, state=list)
    graph.add_node("1", takes_int)
    graph.add_node("2", takes_either)
    graph.add_node("3", echo)
    graph.add_node("4", takes_text, pre=lambda value, state: str(value))
    wire(graph, "start 1 2 3 4 end")

    assert graph.compile().invoke(True) == "True"


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("key", ["nowhere", START, END, ""])
def test_interrupt_lists_name_nodes(mode: dict[str, Any], option: str, key: str) -> None:
    """B075, K24: an interrupt list that names what is no node is refused, naming option, node and nodes."""
    with pytest.raises(GraphBuildError, match=rf"{option} names node '{key}', which is not there; nodes are \['1'\]"):
        chain("1").compile(**{option: ["1", key]}, **mode)


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_interrupt_list_as_text(option: str) -> None:
    """B075: a text in place of the list is refused, since its letters are not what is meant."""
    with pytest.raises(GraphBuildError, match=f"{option}='1' is str; give a list"):
        chain("1").compile(**{option: "1"})


def test_interrupt_lists_name_no_nodes_of_nested_graphs() -> None:
    """B075: a node of a nested graph is no node of the graph round it."""
    outer = Graph(str, str)
    outer.add_node("sub", chain("x"))
    wire(outer, "start sub end")

    with pytest.raises(
        GraphBuildError, match=r"interrupt_before names node 'x', which is not there; nodes are \['sub'\]"
    ):
        outer.compile(interrupt_before=["x"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "tree"}, "mode='tree' is not known; give 'pregel' or 'dag'"),
        ({"when_done": "burn"}, "when_done='burn' is not known; give 'mark', 'delete' or 'keep'"),
        ({"durability": "never"}, "durability='never'"),
        ({"max_steps": 0}, r"max_steps=0 .*at least 1"),
        ({"max_steps": -3}, r"max_steps=-3 .*at least 1"),
        ({"max_steps": 5, "mode": "dag"}, "max_steps is for pregel mode"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    """B131, P6: options that mean nothing are refused, naming option and value."""
    with pytest.raises(GraphBuildError, match=message):
        chain("1").compile(**options)


def test_deleting_needs_a_store_that_can(tmp_path: Path) -> None:
    """when_done="delete" needs a store that can delete; the store's class is named."""

    class TwoMethods:
        def get(self, checkpoint_id: str) -> bytes | None:
            return None

        def set(self, checkpoint_id: str, checkpoint: bytes) -> None: ...

    with pytest.raises(
        GraphBuildError, match=r"when_done='delete' needs a store that can delete, and .*TwoMethods can't"
    ):
        chain("1").compile(store=TwoMethods(), when_done="delete")
    chain("1").compile(store=FileStore(tmp_path), when_done="delete")


def test_a_refused_compile_leaves_the_graph_open() -> None:
    """A graph that compile refused can be completed and compiled."""
    graph = nodes("1")
    graph.add_edge(START, "1")
    with pytest.raises(GraphBuildError, match="no edge reaches 'end'"):
        graph.compile()

    graph.add_edge("1", END)

    assert graph.compile().invoke("x") == "x"
