"""Graph execution: chains, fan-out and fan-in, steps, loops, and the keys that take dicts apart and make them."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain, echo, race
from wiring import wire

from blobcp import END, START, App, Graph, ValueMismatchError


def test_chain(runner: Runner, mode: dict[str, Any]) -> None:
    """B001: each node of a chain is handed what the one before it gave."""
    app = chain("1", "2").compile(**mode)

    assert runner.invoke(app, "start") == "start12"


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("text", "result"), [("hello", "hellohellohello"), ("1", "111")])
def test_fan_in_waits_for_paths_of_any_length(runner: Runner, eager: bool, text: str, result: str) -> None:
    """B002: in dag mode a node runs once with the values of all its predecessors; a node without a way on still runs."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", echo, output_key="1")
    graph.add_node("2", echo, output_key="2")
    graph.add_node("3", lambda both: both["1"] + both["2"])
    graph.add_node("4", echo)
    graph.add_node("5", lambda text: calls.note("5", text))
    graph.add_node("6", echo, output_key="6")
    graph.add_node("7", lambda both: calls.note("7") and both["1"] + both["6"])
    wire(graph, "start 1 3 4 5", "start 2 3", "4 6 7 end", "1 7")

    assert runner.invoke(graph.compile(mode="dag", eager=eager), text) == result
    assert calls.inputs["5"] == [text * 2]
    assert calls["7"] == 1


def test_unequal_paths(runner: Runner, mode: dict[str, Any]) -> None:
    """B003: where paths of unequal length meet, pregel runs with what came first and dag with everything; once each."""
    calls = Calls()
    graph = Graph(str, dict)
    graph.add_node("a", appending("a"), output_key="a")
    graph.add_node("b1", appending("b1"))
    graph.add_node("b2", appending("b2"), output_key="b2")
    graph.add_node("c", lambda met: calls.note("c") and met)
    wire(graph, "start a c end", "start b1 b2 c")

    result = runner.invoke(graph.compile(**mode), "x")

    assert result == ({"a": "xa"} if mode["mode"] == "pregel" else {"a": "xa", "b2": "xb1b2"})
    assert calls["c"] == 1


def test_pregel_drops_what_became_ready_together_with_end(runner: Runner) -> None:
    """B004: when END is ready after a step, the other nodes that became ready in that step don't run."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", lambda _: "node1")
    graph.add_node("2", lambda _: calls.note("2") and "node2")
    wire(graph, "start 1 end", "1 2 end")

    assert runner.invoke(graph.compile(), "") == "node1"
    assert calls["2"] == 0


def test_dag_starts_a_node_the_moment_it_is_ready(runner: Runner) -> None:
    """B005: in dag mode a node runs while a slower one of an earlier step is still under way."""
    calls = Calls()
    app = race(calls, slow_after="fast2").compile(mode="dag")

    assert runner.invoke(app, "x") == {"f": "xfastfast2", "s": "xslow"}
    assert calls.order == ["fast", "fast2", "slow"]


def test_dag_in_steps_waits_for_the_whole_step(runner: Runner) -> None:
    """B005: without eager, a dag starts the next nodes when all those of the step have ended."""
    calls = Calls()
    app = race(calls, slow_after="fast").compile(mode="dag", eager=False)

    assert runner.invoke(app, "x") == {"f": "xfastfast2", "s": "xslow"}
    assert calls.order == ["fast", "slow", "fast2"]


def test_pregel_ends_at_the_first_step_that_reaches_end(runner: Runner) -> None:
    """B005: in pregel mode the longer path never gets to its second node."""
    calls = Calls()
    app = race(calls, slow_after="fast").compile()

    assert runner.invoke(app, "x") == {"s": "xslow"}
    assert calls.order == ["fast", "slow"]


def test_loop(runner: Runner) -> None:
    """B006: a branch leads back to a node until its condition holds."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda text: END if len(text) >= 3 else "1", ["1", END])

    assert runner.invoke(graph.compile(), "") == "111"
    assert calls.inputs["1"] == ["", "1", "11"]


def test_branch_straight_to_end(runner: Runner, mode: dict[str, Any]) -> None:
    """B008: a branch on START may pick END; then no node runs."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_branch(START, lambda _: END, ["1", END])
    graph.add_edge("1", END)

    assert runner.invoke(graph.compile(**mode), "test") == "test"
    assert calls["1"] == 0


def upper() -> Graph:
    """Return three nodes side by side, each of which makes one item of a dict upper-case."""
    graph = Graph(dict, dict)
    for key in ("1", "2", "3"):
        graph.add_node(key, lambda text: text.upper(), input_key=key, output_key=key)
        wire(graph, f"start {key} end")
    return graph


def test_keys_take_a_dict_apart_and_make_one(runner: Runner, mode: dict[str, Any]) -> None:
    """B009: input_key hands a node one item, output_key wraps what it gives; the results merge."""
    app = upper().compile(**mode)

    assert runner.invoke(app, {"1": "a", "2": "b", "3": "c"}) == {"1": "A", "2": "B", "3": "C"}


def test_missing_input_key(runner: Runner, mode: dict[str, Any]) -> None:
    """B009: a dict that lacks a node's input_key fails the run, naming the node, the key and what there is."""
    app = upper().compile(**mode)

    with pytest.raises(ValueMismatchError, match=r"node 1 takes key '1', and what arrived has \['unknown'\]") as caught:
        runner.invoke(app, {"unknown": "123"})

    assert caught.value.path == ["1"]


def test_input_key_of_something_else_than_a_dict(runner: Runner) -> None:
    """B009: a node with an input_key that is handed no dict fails the run, naming both."""
    graph = Graph()
    graph.add_node("1", echo, input_key="k")
    wire(graph, "start 1 end")

    with pytest.raises(ValueMismatchError, match="node 1 takes key 'k' of a dict and got str"):
        runner.invoke(graph.compile(), "text")


def test_falsy_items_are_items(runner: Runner, mode: dict[str, Any]) -> None:
    """B009: an item that is None or false is handed on like any other."""
    graph = Graph(dict, dict)
    graph.add_node("1", lambda value: [value], input_key="k", output_key="k")
    wire(graph, "start 1 end")
    app = graph.compile(**mode)

    assert [runner.invoke(app, {"k": value}) for value in (None, False, 0, "")] == [
        {"k": [None]},
        {"k": [False]},
        {"k": [0]},
        {"k": [""]},
    ]


def test_one_value_passes_through_as_it_is(runner: Runner, mode: dict[str, Any]) -> None:
    """B022: what one predecessor gives is handed on as the same object, whatever its class."""
    token = object()
    graph = Graph()
    graph.add_node("1", lambda _: token)
    graph.add_node("2", echo)
    wire(graph, "start 1 2 end")

    assert runner.invoke(graph.compile(**mode), "x") is token


def nested(depth: int) -> App:
    """Return a graph in a graph in a graph, each of which appends one letter before and one after."""
    inner = chain("x")
    for level in range(depth):
        outer = Graph(str, str)
        outer.add_node("in", appending(f"<{level}"))
        outer.add_node("sub", inner)
        outer.add_node("out", appending(f"{level}>"))
        inner = wire(outer, "start in sub out end")
    return inner.compile()


def test_nested_graphs(runner: Runner) -> None:
    """A graph is a node like any other, at any depth."""
    assert runner.invoke(nested(3), "") == "<2<1<0x0>1>2>"


def test_an_app_runs_many_times(runner: Runner, mode: dict[str, Any]) -> None:
    """Runs of one app know nothing of each other."""
    app = chain("1", "2").compile(**mode)

    assert [runner.invoke(app, text) for text in ("a", "b", "a")] == ["a12", "b12", "a12"]
