"""Branches: choosing one end or several, passing over the rest, and what a branch may not choose."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, echo
from wiring import wire

from blobcp import END, START, BranchError, Graph, NodeError, NothingToRunError

DAGS = pytest.mark.parametrize("eager", [True, False])


def noting(calls: Calls, *keys: str, output: bool = False) -> Graph:
    """Return a graph of appending nodes without edges; with ``output`` each gives ``{its key: its result}``."""
    graph = Graph(str, Any)
    for key in keys:
        graph.add_node(key, appending(key, calls), output_key=key if output else None)
    return graph


@DAGS
@pytest.mark.parametrize(
    ("text", "result", "ran"),
    [("hi", "hi1", "1"), ("hello", "hello23", "23"), ("hellohello", "hellohello24", "24")],
)
def test_branch_after_branch(runner: Runner, eager: bool, text: str, result: str, ran: str) -> None:
    """B012: in dag mode only the chosen way runs, and END is reached by it alone."""
    calls = Calls()
    graph = noting(calls, "1", "2", "3", "4")
    graph.add_branch(START, lambda text: "2" if len(text) > 3 else "1", ["1", "2"])
    graph.add_branch("2", lambda text: "4" if len(text) > 10 else "3", ["3", "4"])
    wire(graph, "1 end", "3 end", "4 end")

    assert runner.invoke(graph.compile(mode="dag", eager=eager), text) == result
    assert calls.order == list(ran)


@DAGS
@pytest.mark.parametrize(
    ("second_ends", "second", "result"),
    [(["3", "4"], "3", {"1": "1", "3": "3"}), (["2", "3"], "2", {"1": "1", "2": "2"})],
    ids=["apart", "sharing-an-end"],
)
def test_two_branches_on_one_node(
    runner: Runner, eager: bool, second_ends: list[str], second: str, result: dict[str, str]
) -> None:
    """B013: a node that any branch of a source chose runs, although another branch of that source rejected it."""
    graph = Graph(str, dict)
    for key in sorted({"1", "2", *second_ends}):
        graph.add_node(key, lambda _, key=key: key, output_key=key)
        graph.add_edge(key, END)
    graph.add_branch(START, lambda _: "1", ["1", "2"])
    graph.add_branch(START, lambda _: second, second_ends)

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "x") == result


@pytest.mark.parametrize("answer", [["1", "2"], ("2", "1"), {"1", "2"}], ids=["list", "tuple", "set"])
def test_several_ends(runner: Runner, mode: dict[str, Any], answer: Any) -> None:
    """B014: a branch may choose several ends, in any kind of collection."""
    graph = Graph(str, dict)
    for key in ("1", "2", "3"):
        graph.add_node(key, echo, output_key=key)
        graph.add_edge(key, END)
    graph.add_branch(START, lambda _: answer, ["1", "2", "3"])

    assert runner.invoke(graph.compile(**mode), "start") == {"1": "start", "2": "start"}


def test_choosing_nothing(runner: Runner, mode: dict[str, Any]) -> None:
    """B015: where a branch chooses nothing and nothing else is left, the run fails, naming what completed last."""
    calls = Calls()
    graph = noting(calls, "1", "2")
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda _: [], ["2"])
    graph.add_edge("2", END)

    with pytest.raises(NothingToRunError, match=r"nothing left to run .*last completed nodes: \['1'\]") as caught:
        runner.invoke(graph.compile(**mode), "input")

    assert caught.value.last_completed == ["1"]
    assert calls.order == ["1"]


@DAGS
def test_one_live_predecessor_is_enough(runner: Runner, eager: bool) -> None:
    """B015: a node runs when one predecessor was passed over and another one has finished."""
    graph = Graph(str, str)
    for key in ("1", "2"):
        graph.add_node(key, echo)
    graph.add_edge(START, "1")
    graph.add_edge(START, "2")
    graph.add_branch("1", lambda _: [], ["2"])
    graph.add_edge("2", END)

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "input") == "input"


@pytest.mark.parametrize(
    ("text", "picked", "result", "ran"),
    [("x", "3", {"6": "x136"}, ["1", "3", "6"]), ("y", "2", {"5": "y1245"}, ["1", "2", "4", "5"])],
)
def test_skips_travel_down(
    runner: Runner, mode: dict[str, Any], text: str, picked: str, result: dict[str, str], ran: list[str]
) -> None:
    """B016: what only a rejected node could have reached is passed over too, until another live predecessor."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in ("1", "2", "3", "4", "5", "6"):
        graph.add_node(key, appending(key, calls), output_key=key if key in ("5", "6") else None)
    graph.add_branch("1", lambda _: picked, ["2", "3"])
    wire(graph, "start 1", "2 4 5 end", "3 6 end")

    assert runner.invoke(graph.compile(**mode), text) == result
    assert calls.order == ran


@DAGS
def test_a_skip_passes_through_branches(runner: Runner, eager: bool) -> None:
    """B016: a node that is passed over passes over the ends of its branches, and these what is behind them."""
    calls = Calls()
    graph = noting(calls, "1", "2", "3", "4", "5")
    graph.add_branch(START, lambda _: "1", ["1", "2"])
    graph.add_branch("2", lambda _: pytest.fail("a branch of a node that did not run"), ["3", "4"])
    wire(graph, "3 5", "4 5", "1 5 end")

    assert runner.invoke(graph.compile(mode="dag", eager=eager), "x") == "x15"
    assert calls.order == ["1", "5"]


def test_join_after_a_branch(runner: Runner, mode: dict[str, Any]) -> None:
    """B017: a node behind both ends of a branch receives what the chosen one gave, and nothing else."""
    seen: list[Any] = []
    graph = Graph(str, dict)
    for key in ("2", "3"):
        graph.add_node(key, appending(key), output_key=key)
    graph.add_node("J", lambda value: seen.append(value) or value)
    graph.add_branch(START, lambda text: text, ["2", "3"])
    wire(graph, "2 J", "3 J end")

    assert runner.invoke(graph.compile(**mode), "3") == {"3": "33"}
    assert seen == [{"3": "33"}]


@pytest.mark.parametrize("answer", ["nowhere", ["2", "nowhere"], 2, None], ids=str)
@pytest.mark.parametrize("source", [START, "1"])
def test_unknown_end(runner: Runner, mode: dict[str, Any], source: str, answer: Any) -> None:
    """B017: a branch that returns what is not among its ends fails the run, naming node, answer and ends."""
    calls = Calls()
    graph = noting(calls, "1", "2")
    graph.add_branch(source, lambda _: answer, ["2"])
    wire(graph, "start 1 end", "2 end")

    with pytest.raises(BranchError) as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == [source]
    assert f"a branch on {source}" in str(caught.value)
    wanted = (
        f"returned {type(answer).__name__}" if answer in (2, None) else "'nowhere', which is not among its ends ['2']"
    )
    assert wanted in str(caught.value)
    assert calls["2"] == 0


def test_a_node_that_is_no_end_is_unknown_to_the_branch(runner: Runner) -> None:
    """B017: a node of the graph that the branch did not declare is refused as well."""
    graph = noting(Calls(), "1", "2")
    graph.add_branch(START, lambda _: "2", ["1"])
    wire(graph, "1 2 end")

    with pytest.raises(BranchError, match="a branch on start chose '2', which is not among its ends"):
        runner.invoke(graph.compile(), "x")


def test_direct_edge_beside_a_rejecting_branch(runner: Runner, mode: dict[str, Any]) -> None:
    """B018, K39: a direct edge counts although a branch of the same source rejected its target."""
    graph = Graph(str, dict)
    graph.add_node("1", appending("1"))
    for key in ("2", "3"):
        graph.add_node(key, appending(key), output_key=key)
        graph.add_edge(key, END)
    wire(graph, "start 1 2")
    graph.add_branch("1", lambda _: "3", ["2", "3"])

    assert runner.invoke(graph.compile(**mode), "a") == {"2": "a12", "3": "a13"}


@pytest.mark.parametrize("chosen", ["2", "3"])
def test_control_edge_beside_a_branch(runner: Runner, mode: dict[str, Any], chosen: str) -> None:
    """K39: beside a control-only edge a branch decides whether the value travels; the target runs either way."""
    calls = Calls()
    graph = noting(calls, "2", "3", output=True)
    graph.add_node("1", appending("1"))
    graph.add_edge(START, "1")
    graph.add_edge("1", "2", data=False)
    graph.add_branch("1", lambda _: chosen, ["2", "3"])
    wire(graph, "2 end", "3 end")

    result = runner.invoke(graph.compile(**mode), "a")

    assert result == ({"2": "a12"} if chosen == "2" else {"2": "2", "3": "a13"})
    assert calls.inputs["2"] == ["a1" if chosen == "2" else ""]


@pytest.mark.parametrize(("chosen", "result"), [("2", {"2": "a12"}), ("3", {"3": "a13"})])
def test_data_edge_beside_a_branch(runner: Runner, mode: dict[str, Any], chosen: str, result: dict[str, str]) -> None:
    """K39: beside a data-only edge the branch alone decides whether the target runs."""
    graph = noting(Calls(), "2", "3", output=True)
    graph.add_node("1", appending("1"))
    graph.add_edge(START, "1")
    graph.add_edge("1", "2", control=False)
    graph.add_branch("1", lambda _: chosen, ["2", "3"])
    wire(graph, "2 end", "3 end")

    assert runner.invoke(graph.compile(**mode), "a") == result


def test_chosen_twice_runs_once(runner: Runner, mode: dict[str, Any]) -> None:
    """K49: an end that one source chooses several times, or reaches by an edge too, runs once with one value."""
    calls = Calls()
    graph = noting(calls, "1", "2")
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_branch("1", lambda _: ["2", "2"], ["2"])
    graph.add_branch("1", lambda _: "2", ["2"])
    graph.add_edge("2", END)

    assert runner.invoke(graph.compile(**mode), "a") == "a12"
    assert calls.inputs["2"] == ["a1"]


def test_branch_on_the_output_key(runner: Runner, mode: dict[str, Any]) -> None:
    """A branch sees the value that travels on: after the output key and the post-handler."""
    seen: list[Any] = []
    graph = Graph(str, dict, state=list)
    graph.add_node("1", echo, output_key="k", post=lambda value, state: {**value, "post": True})
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda value: seen.append(value) or END, [END])

    assert runner.invoke(graph.compile(**mode), "a") == {"k": "a", "post": True}
    assert seen == [{"k": "a", "post": True}]


def test_a_branch_that_raises(runner: Runner, mode: dict[str, Any]) -> None:
    """B010: an error of a branch fails the run with the path of its node and that error as the cause."""
    boom = ValueError("no idea")

    def choose(_: str) -> str:
        raise boom

    graph = noting(Calls(), "1")
    graph.add_edge(START, "1")
    graph.add_branch("1", choose, [END])

    with pytest.raises(NodeError, match="node 1 failed: ValueError: no idea") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["1"]
    assert caught.value.__cause__ is boom


def test_ends_as_enum_members(runner: Runner, mode: dict[str, Any]) -> None:
    """A branch may return keys as members of a text enum."""

    class Way(StrEnum):
        LEFT = "left"
        RIGHT = "right"

    graph = noting(Calls(), "left", "right")
    graph.add_branch(START, lambda _: Way.RIGHT, [Way.LEFT, Way.RIGHT])
    wire(graph, "left end", "right end")

    assert runner.invoke(graph.compile(**mode), "x") == "xright"
