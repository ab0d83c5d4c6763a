"""What a branch sees of the run: the state of the graph it is in, wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import appending, chain
from wiring import wire

from blobcp import END, START, Graph, current_address, use_state


@dataclass
class Way:
    to: str


def choose(_: str) -> str:
    """Go where the state says."""
    with use_state(Way) as state:
        return state.to


def forking(source: str, to: str) -> Graph:
    """Return a graph that goes where its state says: by a branch on START, or on a first node a."""
    graph = Graph(str, str, state=lambda: Way(to))
    for key in ("x", "y"):
        graph.add_node(key, appending(key))
        graph.add_edge(key, END)
    if source != START:
        graph.add_node(source, appending(source))
        graph.add_edge(START, source)
    graph.add_branch(source, choose, ["x", "y"])
    return graph


@pytest.mark.parametrize("source", [START, "a"])
def test_a_branch_reads_the_state(runner: Runner, mode: dict[str, Any], source: str) -> None:
    """B027: a branch reads the state of its graph, on START as on a node."""
    assert runner.invoke(forking(source, "x").compile(**mode), "") == ("x" if source == START else "ax")


@pytest.mark.parametrize("source", [START, "a"])
def test_a_branch_of_a_nested_graph_reads_the_inner_state(runner: Runner, mode: dict[str, Any], source: str) -> None:
    """B028: a branch of a nested graph reads the inner state where both are of one class, on START as on a node."""
    outer = Graph(str, str, state=lambda: Way("y"))
    outer.add_node("sub", forking(source, "x"))
    wire(outer, "start sub end")

    assert runner.invoke(outer.compile(**mode), "") == ("x" if source == START else "ax")


def test_a_branch_of_a_nested_graph_reads_the_outer_state(runner: Runner, mode: dict[str, Any]) -> None:
    """B027: a branch on START of a nested graph without a state of that class reads the outer one."""
    inner = Graph(str, str)
    for key in ("x", "y"):
        inner.add_node(key, appending(key))
    inner.add_branch(START, choose, ["x", "y"])
    outer = Graph(str, str, state=lambda: Way("y"))
    outer.add_node("sub", wire(inner, "x end", "y end"))
    wire(outer, "start sub end")

    assert runner.invoke(outer.compile(**mode), "") == "y"


def test_where_a_branch_is(runner: Runner, mode: dict[str, Any]) -> None:
    """A branch on a node is at that node's address."""
    seen: list[str] = []

    def note(_: str) -> str:
        seen.append(str(current_address()))
        return "end"

    inner = Graph(str, str)
    inner.add_node("a", appending("a"))
    inner.add_edge(START, "a")
    inner.add_branch("a", note, ["end"])
    outer = Graph(str, str)
    outer.add_node("sub", inner)

    runner.invoke(wire(outer, "start sub end").compile(**mode), "")
    runner.invoke(chain("1").compile(**mode), "")

    assert seen == ["runnable:root;node:sub;node:a"]
