"""Edges that carry only control or only data, and nodes beside the way to END."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, echo
from wiring import wire

from blobcp import END, START, Graph, NodeError

LIMIT = 10.0
"""Seconds that a node waits for another one before the test fails."""

DAGS = pytest.mark.parametrize("eager", [True, False])


def test_control_without_data(runner: Runner, mode: dict[str, Any]) -> None:
    """B137: a node that waits for one node and reads from another runs after the first, with the value of the second."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("0", appending("0", calls))
    graph.add_node("1", appending("_done", calls))
    graph.add_edge(START, "0")
    graph.add_edge("0", "1", data=False)
    graph.add_edge(START, "1", control=False)
    graph.add_edge("1", END)

    assert runner.invoke(graph.compile(**mode), "hello") == "hello_done"
    assert calls.inputs == {"0": ["hello"], "_done": ["hello"]}
    assert calls.order == ["0", "_done"]


def test_data_without_control(runner: Runner, mode: dict[str, Any]) -> None:
    """B137: values that travel past a node by data-only edges arrive together with what triggers it."""
    graph = Graph(dict, dict)
    graph.add_node("1", lambda text: f"{text}_{text}", input_key="q", output_key="1")
    graph.add_node("2", lambda both: f"{both['1']}_{both['q']}", output_key="2")
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_edge(START, "2", control=False)
    graph.add_edge("2", END)
    graph.add_edge("1", END, control=False)

    assert runner.invoke(graph.compile(**mode), {"q": "query"}) == {"1": "query_query", "2": "query_query_query"}


@pytest.mark.parametrize(
    ("takes", "zero"), [(str, ""), (int, 0), (float, 0.0), (bool, False), (list, None), (Any, None)]
)
def test_control_only_gives_the_zero_value(runner: Runner, mode: dict[str, Any], takes: Any, zero: Any) -> None:
    """B137: a node that nothing is sent to is handed the zero value of its declared type."""
    seen: list[Any] = []

    def node(value):  # type: ignore[no-untyped-def]
        seen.append(value)
        return value

    node.__annotations__ = {"value": takes | None if takes is list else takes}
    graph = Graph()
    graph.add_node("0", echo)
    graph.add_node("1", node)
    graph.add_edge(START, "0")
    graph.add_edge("0", "1", data=False)
    graph.add_edge("1", END)

    runner.invoke(graph.compile(**mode), "x")

    assert seen == [zero]
    assert type(seen[0]) is type(zero)


@pytest.mark.parametrize("output", [Any, str])
def test_end_with_control_only(runner: Runner, mode: dict[str, Any], output: Any) -> None:
    """B137: a graph whose END is sent nothing gives None, whatever its declared output."""
    graph = Graph(str, output)
    graph.add_node("1", echo)
    graph.add_edge(START, "1")
    graph.add_edge("1", END, data=False)

    assert runner.invoke(graph.compile(**mode), "x") is None


@DAGS
def test_data_only_node_runs_with_what_was_sent(runner: Runner, eager: bool) -> None:
    """K40: a node without control predecessors runs with its live sources although another one was passed over."""
    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, appending(key), output_key=key)
    graph.add_node("d", echo)
    graph.add_branch(START, lambda _: "a", ["a", "b"])
    graph.add_edge("a", "d", control=False)
    graph.add_edge("b", "d", control=False)
    graph.add_edge("d", END)

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "x") == {"a": "xa"}


@DAGS
def test_data_only_node_is_passed_over_with_all_its_sources(runner: Runner, eager: bool) -> None:
    """K40: a node without control predecessors is passed over when all its sources are, and so are those behind it."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in ("a", "b", "c"):
        graph.add_node(key, appending(key), output_key=key)
    graph.add_node("d", lambda value: calls.note("d") and value)
    graph.add_branch(START, lambda _: "c", ["a", "b", "c"])
    graph.add_edge("a", "d", control=False)
    graph.add_edge("b", "d", control=False)
    wire(graph, "d end", "c end")

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "x") == {"c": "xc"}
    assert calls["d"] == 0


@DAGS
def test_data_from_a_node_passed_over_is_not_waited_for(runner: Runner, eager: bool) -> None:
    """K40: a node that is triggered runs although one of its data sources will never send anything."""
    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, appending(key), output_key=key)
    graph.add_node("d", echo)
    graph.add_branch(START, lambda _: "a", ["a", "b"])
    graph.add_edge("a", "d")
    graph.add_edge("b", "d", control=False)
    graph.add_edge("d", END)

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "x") == {"a": "xa"}


def test_dag_waits_for_nodes_beside_the_way_to_end(runner: Runner) -> None:
    """K41: a dag that has reached END waits for the side node that is still running, and for what follows it."""
    calls = Calls()
    end_reached = threading.Event()

    def side(text: str) -> str:
        assert end_reached.wait(LIMIT), "the node before END has not ended"
        return text

    def reach_end(value: str, state: dict[str, Any]) -> str:
        end_reached.set()
        return value

    graph = Graph(str, str, state=dict)
    graph.add_node("side", side)
    graph.add_node("side2", appending("side2", calls))
    graph.add_node("last", echo, post=reach_end)
    wire(graph, "start side side2", "start last end")

    assert runner.invoke(graph.compile(mode="dag"), "x") == "x"
    assert calls.inputs == {"side2": ["x"]}


def test_dag_reports_the_error_of_a_side_node(runner: Runner) -> None:
    """K41: the error of a node that is still running when END is reached fails the run."""
    end_reached = threading.Event()

    def side(text: str) -> str:
        assert end_reached.wait(LIMIT), "the node before END has not ended"
        raise LookupError("side trouble")

    def reach_end(value: str, state: dict[str, Any]) -> str:
        end_reached.set()
        return value

    graph = Graph(str, str, state=dict)
    graph.add_node("side", side)
    graph.add_node("last", echo, post=reach_end)
    wire(graph, "start side", "start last end")

    with pytest.raises(NodeError, match="node side failed: LookupError: side trouble") as caught:
        runner.invoke(graph.compile(mode="dag"), "x")

    assert caught.value.path == ["side"]


def test_pregel_waits_for_the_step_that_reaches_end(runner: Runner) -> None:
    """K41: in pregel mode the nodes of the last step all end, and an error of one of them fails the run."""
    graph = Graph(str, str, state=dict)
    end_reached = threading.Event()

    def side(text: str) -> str:
        assert end_reached.wait(LIMIT), "the node before END has not ended"
        raise LookupError("side trouble")

    def reach_end(value: str, state: dict[str, Any]) -> str:
        end_reached.set()
        return value

    graph.add_node("side", side)
    graph.add_node("last", echo, post=reach_end)
    wire(graph, "start side end", "start last end")

    with pytest.raises(NodeError, match="side trouble"):
        runner.invoke(graph.compile(), "x")


def test_value_of_a_data_edge_waits_for_its_trigger(runner: Runner) -> None:
    """B137: in pregel mode a value on a data-only edge stays until a control edge triggers the node, then is used up."""
    seen: list[Any] = []

    def join(values: dict[str, str]) -> dict[str, str]:
        seen.append(values)
        return values

    graph = Graph(str, dict)
    graph.add_node("a", appending("a"), output_key="a")
    graph.add_node("b", lambda values: values["a"] + "b", output_key="b")
    graph.add_node("j", join)
    graph.add_edge(START, "a")
    graph.add_edge("a", "j", control=False)
    graph.add_edge("a", "b")
    graph.add_edge("b", "j")
    graph.add_edge("j", END)

    assert runner.invoke(graph.compile(), "x") == {"a": "xa", "b": "xab"}
    assert seen == [{"a": "xa", "b": "xab"}]
