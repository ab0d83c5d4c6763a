"""Stopping before and after listed nodes: what is told, what is stored, what runs again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain, echo
from stored_runs import TwoMethodStore, checkpoint_of, paused

from blobcp import END, START, Graph, GraphBuildError, get_interrupt_state, interrupt

DAGS = [{"mode": "dag"}, {"mode": "dag", "eager": False}]


@dataclass
class Text:
    """A graph's state, and a value that travels."""

    a: str = ""


@dataclass
class Box:
    """A value of a class."""

    text: str


class After:
    """Makes one node end after another: a post-handler marks the end of the first, the second waits for it."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def mark(self, value: Any, state: Any) -> Any:
        """Post-handler of the one that is to end first."""
        self._ended.set()
        return value

    def wait(self, node: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the node function that runs once the other has ended."""

        def late(value: Any) -> Any:
            assert self._ended.wait(30)
            return node(value)

        return late


def parallel(*ways: tuple[str, ...], calls: Calls) -> Graph:
    """Return a graph of chains side by side from START to END, each ending in a key of its own."""
    graph = Graph(str, dict)
    for way in ways:
        before = START
        for key in way:
            graph.add_node(key, appending(key, calls), output_key=key if key == way[-1] else None)
            graph.add_edge(before, key)
            before = key
        graph.add_edge(before, END)
    return graph


def test_before_and_after_in_one_stop(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B067: the stop tells both lists and one point of the root with the state; data for that point replaces the state."""
    graph = Graph(str, str, state=Text)
    graph.add_node("1", appending("1"))
    graph.add_node("2", appending("2"), pre=lambda text, state: text + state.a)
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_edge("2", END)
    app = graph.compile(store=store, interrupt_after=["1"], interrupt_before=["2"], **mode)
    stop = paused(runner.invoke, app, "start", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.before_nodes, stop.info.after_nodes) == (["2"], ["1"])
    assert (stop.info.rerun_nodes, stop.info.rerun_extra, stop.info.subgraphs) == ([], {}, {})
    assert stop.info.state == Text("")
    [point] = stop.interrupts
    assert (str(point.address), point.info, point.is_root_cause, point.parent) == (
        "runnable:root",
        Text(""),
        True,
        None,
    )
    [waiting] = runner.pending(app, "1")
    assert (waiting.id, waiting.info) == (point.id, Text(""))
    assert runner.resume(app, "1", {point.id: Text("state")}) == "start1state2"


def test_values_of_a_class_in_one_stop(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B067: the same where objects travel between the nodes."""

    def one(box: Box) -> Box:
        return Box(box.text + "1")

    def two(box: Box) -> Box:
        return Box(box.text + "2")

    graph = Graph(Box, Box, state=Text)
    graph.add_node("1", one)
    graph.add_node("2", two, pre=lambda box, state: Box(box.text + state.a))
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_edge("2", END)
    app = graph.compile(store=store, interrupt_after=["1"], interrupt_before=["2"], **mode)
    stop = paused(runner.invoke, app, Box("start"), checkpoint_id="1")

    assert checkpoint_of(store, "1").inputs == {"2": Box("start1")}
    assert runner.resume(app, "1", {stop.interrupts[0].id: Text("state")}) == Box("start1state2")


def test_one_of_two_ready_nodes_is_listed(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B068: stopping before one of two ready nodes starts neither; the resumed run starts both once."""
    calls = Calls()
    app = parallel(("A",), ("B",), calls=calls).compile(store=store, interrupt_before=["A"], **mode)
    stop = paused(runner.invoke, app, "x", checkpoint_id="1")

    assert calls.order == []
    assert stop.info is not None
    assert (stop.info.before_nodes, stop.info.after_nodes) == (["A"], [])
    assert checkpoint_of(store, "1").inputs == {"A": "x", "B": "x"}
    assert runner.invoke(app, "", checkpoint_id="1") == {"A": "xA", "B": "xB"}
    assert (calls["A"], calls["B"]) == (1, 1)


def test_after_nodes_are_in_the_order_of_ending(runner: Runner, mode: dict[str, Any]) -> None:
    """B069: the nodes stopped after are listed as they ended, not as they were declared."""
    after = After()
    graph = Graph(str, dict, state=Text)
    graph.add_node("2", after.wait(appending("2")), output_key="2")
    graph.add_node("1", appending("1"), output_key="1", post=after.mark)
    for key in ("2", "1"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(interrupt_after=["1", "2"], **mode)

    stop = paused(runner.invoke, app, "x")
    assert stop.info is not None
    assert stop.info.after_nodes == ["1", "2"]


@pytest.mark.parametrize("mode", DAGS, ids=["eager", "in-steps"])
def test_a_stop_waits_for_what_is_under_way(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B070: a stop after a fast node waits for the slow one beside it; neither is run again."""
    calls, after = Calls(), After()
    graph = Graph(str, dict, state=Text)
    graph.add_node("A", appending("A", calls), post=after.mark)
    graph.add_node("A2", appending("A2", calls), output_key="A2")
    graph.add_node("B", after.wait(appending("B", calls)))
    graph.add_node("B2", appending("B2", calls), output_key="B2")
    for key in ("A", "B"):
        graph.add_edge(START, key)
        graph.add_edge(key, f"{key}2")
        graph.add_edge(f"{key}2", END)
    app = graph.compile(store=store, interrupt_after=["A"], **mode)
    stop = paused(runner.invoke, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.before_nodes) == (["A"], [])
    assert checkpoint_of(store, "1").inputs == {"A2": "xA", "B2": "xB"}
    assert (calls["A2"], calls["B2"]) == (0, 0)
    assert runner.invoke(app, "", checkpoint_id="1") == {"A2": "xAA2", "B2": "xBB2"}
    assert dict(calls.count) == {"A": 1, "B": 1, "A2": 1, "B2": 1}


def test_before_a_nested_graph(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B071: stopping before a nested graph runs neither its pre-handler nor anything in it; the resume runs each once."""
    calls = Calls()

    def pre(text: str, state: Text) -> str:
        calls.note("pre", text)
        return text + state.a

    graph = Graph(str, str, state=lambda: Text("P"))
    graph.add_node("sub", chain("s", calls=calls), pre=pre)
    graph.add_edge(START, "sub")
    graph.add_edge("sub", END)
    app = graph.compile(store=store, interrupt_before=["sub"], **mode)
    stop = paused(runner.invoke, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.subgraphs, stop.info.before_nodes) == ({}, ["sub"])
    assert calls.order == []
    stored = checkpoint_of(store, "1")
    assert (stored.inputs, stored.sub_graphs, stored.skip_pre_handler) == ({"sub": "x"}, {}, {})
    assert runner.invoke(app, "", checkpoint_id="1") == "xPs"
    assert calls.inputs == {"pre": ["x"], "s": ["xP"]}


def test_a_listed_node_in_a_loop(runner: Runner, store: Any) -> None:
    """B072: the option does not fire for what a checkpoint brings back, and does for every later visit."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda text: END if len(text) >= 3 else "1", ["1", END])
    app = graph.compile(store=store, interrupt_before=["1"])
    ids = []
    for visits in range(3):
        stop = paused(runner.invoke, app, "", checkpoint_id="1")
        ids.append(stop.interrupts[0].id)
        assert calls["1"] == visits
        assert checkpoint_of(store, "1").inputs == {"1": "1" * visits}

    assert runner.invoke(app, "", checkpoint_id="1") == "111"
    assert calls["1"] == 3
    assert len(set(ids)) == 3


def test_after_the_last_node(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B073, K23: stopping after the node that leads to END keeps its result, which the resumed run returns."""
    calls = Calls()
    app = chain("1", calls=calls).compile(store=store, interrupt_after=["1"], **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.after_nodes == ["1"]
    assert checkpoint_of(store, "1").channels["end"].values == {"1": "a1"}
    assert runner.invoke(app, "b", checkpoint_id="1") == "a1"
    assert calls.inputs == {"1": ["a"]}


def test_after_the_last_node_of_a_nested_graph(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B073, K23: the same for a nested app's list, whose last node is not run again either."""
    calls = Calls()
    inner = chain("s", "t", calls=calls).compile(interrupt_after=["t"], name="inner", **mode)
    app = chain("1", "sub", "2", calls=calls, sub=inner).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.after_nodes == []
    assert stop.info.subgraphs["sub"].after_nodes == ["t"]
    assert [str(point.address) for point in stop.interrupts] == ["runnable:root;node:sub"]
    assert runner.invoke(app, "", checkpoint_id="1") == "a1st2"
    assert dict(calls.count) == {"1": 1, "s": 1, "t": 1, "2": 1}


@pytest.mark.parametrize("answered", [False, True], ids=["plain", "answered"])
@pytest.mark.parametrize("mode", DAGS, ids=["eager", "in-steps"])
def test_a_late_question_after_a_listed_node(runner: Runner, mode: dict[str, Any], store: Any, answered: bool) -> None:
    """B074, K03: a node that asks after another was stopped after is one stop; each finished value is delivered once."""
    calls, after = Calls(), After()

    def ask(text: str) -> str:
        calls.note("B", text)
        found = get_interrupt_state(str)
        if found.has_state:
            return f"B({found.state})"
        interrupt("q", state=text)
        raise AssertionError("not reached")

    def join(value: dict[str, str]) -> str:
        calls.note("C", dict(value))
        return "+".join(sorted(value))

    graph = Graph(str, dict, state=Text)
    graph.add_node("Z", appending("Z", calls), output_key="Z")
    graph.add_node("A", appending("A", calls), output_key="A", post=after.mark)
    graph.add_node("B", after.wait(ask), output_key="B")
    graph.add_node("C", join, output_key="C")
    for key in ("Z", "A", "B"):
        graph.add_edge(START, key)
        graph.add_edge(key, END if key == "B" else "C")
    graph.add_edge("C", END)
    app = graph.compile(store=store, interrupt_after=["A"], **mode)
    stop = paused(runner.invoke, app, "in", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.rerun_nodes) == (["A"], ["B"])
    assert [str(point.address) for point in stop.interrupts] == ["runnable:root;node:B"]
    options = {"answers": {stop.interrupts[0].id: "x"}} if answered else {}
    assert runner.invoke(app, "", checkpoint_id="1", **options) == {"B": "B(in)", "C": "A+Z"}
    assert dict(calls.count) == {"Z": 1, "A": 1, "B": 2, "C": 1}
    assert calls.inputs["C"] == [{"Z": "inZ", "A": "inA"}]


def test_a_question_that_stays_open_beside_a_listed_node(runner: Runner, mode: dict[str, Any]) -> None:
    """P2: where another question stays open, the node that the run had stopped before is run once and not again."""
    calls, store = Calls(), TwoMethodStore()

    def asking(key: str) -> Callable[[str], str]:
        def node(text: str) -> str:
            calls.note(key)
            return text + str(interrupt(key))

        return node

    graph = Graph(str, dict)
    for key in ("A", "B"):
        graph.add_node(key, asking(key), output_key=key)
        graph.add_edge(START, key)
    graph.add_node("C", appending("C", calls), output_key="C")
    graph.add_node("last", echo)
    graph.add_edge(START, "C")
    for key in ("A", "B", "C"):
        graph.add_edge(key, "last")
    graph.add_edge("last", END)
    app = graph.compile(store=store, interrupt_after=["C"], **mode)
    one = paused(runner.invoke, app, "x", checkpoint_id="1")
    assert [point.info for point in one.interrupts] == ["A", "B"]
    two = paused(runner.resume, app, "1", {one.interrupts[0].id: "a"})

    assert two.info is not None
    assert (two.info.after_nodes, two.info.rerun_nodes) == ([], ["B"])
    assert [point.id for point in two.interrupts] == [one.interrupts[1].id]
    result = runner.resume(app, "1", {one.interrupts[1].id: "b"})
    assert result == {"A": "xa", "B": "xb", "C": "xC"}
    assert dict(calls.count) == {"A": 2, "B": 2, "C": 1}


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("key", ["ghost", START, END, "sub/s", ""])
def test_an_unknown_node_in_a_list(mode: dict[str, Any], option: str, key: str) -> None:
    """B075, K24: a name in a list that is no node of this graph is refused when compiling, by name."""
    graph = chain("1", "sub", sub=chain("s"))

    with pytest.raises(GraphBuildError, match=option) as caught:
        graph.compile(**{option: ["1", key]}, **mode)
    assert repr(key) in str(caught.value)


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_text_in_place_of_a_list(option: str) -> None:
    """B075: text is refused, since its letters would be taken for node keys."""
    with pytest.raises(GraphBuildError, match=option):
        chain("1", "2").compile(**{option: "12"})
