"""Going on with what another graph, or an older program, has stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain
from stored_runs import TwoMethodStore, blob_of, paused, refused, rewrite, sha

from blobcp import END, START, CheckpointMismatchError, Graph, interrupt


@dataclass
class Ticket:
    """An input of a class."""

    number: int = 0


@pytest.mark.parametrize(
    ("takes", "zero"), [(str, ""), (int, 0), (float, 0.0), (bool, False), (Ticket, None), (dict, None)]
)
def test_a_record_without_the_input(runner: Runner, mode: dict[str, Any], takes: Any, zero: Any) -> None:
    """B062: a rerun node whose record lacks the input gets the zero value of its input type."""
    store, calls = TwoMethodStore(), Calls()

    def node(value: Any) -> str:
        if calls.note("1", value) == 1:
            interrupt("q")
        return "success"

    node.__annotations__["value"] = takes
    graph = Graph(takes, str)
    graph.add_node("1", node)
    graph.add_edge(START, "1")
    graph.add_edge("1", END)
    app = graph.compile(store=store, **mode)
    first = takes(1) if takes is not dict else {"a": 1}
    paused(runner.invoke, app, first, checkpoint_id="1")
    rewrite(store, "1", lambda stored: stored.inputs.clear())

    assert runner.invoke(app, first, checkpoint_id="1") == "success"
    assert calls.inputs["1"][0] == first
    assert (calls.inputs["1"][1], type(calls.inputs["1"][1])) == (zero, type(zero))


def test_a_record_without_the_input_of_a_keyed_node(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B062: so does a node that takes one item of what arrives."""
    calls = Calls()

    def node(text: str) -> str:
        if calls.note("1", text) == 1:
            interrupt("q")
        return text + "!"

    graph = Graph(dict, str)
    graph.add_node("1", node, input_key="k")
    graph.add_edge(START, "1")
    graph.add_edge("1", END)
    app = graph.compile(store=store, **mode)
    paused(runner.invoke, app, {"k": "x"}, checkpoint_id="1")
    rewrite(store, "1", lambda stored: stored.inputs.clear())

    assert runner.invoke(app, {}, checkpoint_id="1") == "!"


@pytest.mark.parametrize(("takes", "first", "zero"), [(str, "x", ""), (Ticket, Ticket(1), None)], ids=["text", "class"])
def test_a_record_without_the_input_of_a_nested_graph(
    runner: Runner, mode: dict[str, Any], store: Any, takes: Any, first: Any, zero: Any
) -> None:
    """B062: a nested graph that is to run again, and whose record and input are both lacking, begins with the zero value."""
    calls = Calls()

    def node(value: Any) -> str:
        if calls.note("x", value) == 1:
            interrupt("q")
        return "success"

    inner = Graph(takes, str)
    inner.add_node("x", node)
    inner.add_edge(START, "x")
    inner.add_edge("x", END)
    graph = Graph(takes, str)
    graph.add_node("s", inner)
    graph.add_edge(START, "s")
    graph.add_edge("s", END)
    app = graph.compile(store=store, **mode)
    paused(runner.invoke, app, first, checkpoint_id="1")
    rewrite(store, "1", lambda stored: stored.sub_graphs.clear())

    assert runner.invoke(app, first, checkpoint_id="1") == "success"
    assert calls.inputs["x"] == [first, zero]


@pytest.mark.parametrize("place", ["rerun_nodes", "inputs", "channels", "sub_graphs"])
def test_a_record_that_names_an_unknown_node(runner: Runner, mode: dict[str, Any], place: str) -> None:
    """B065: a record whose rerun node, stored input, channel or nested graph the graph lacks is refused by name."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2", calls=calls).compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")

    def spoil(stored: Any) -> None:
        if place == "rerun_nodes":
            stored.rerun_nodes.append("ghost")
        else:
            source = {"inputs": "a", "channels": stored.channels["1"], "sub_graphs": type(stored)()}
            getattr(stored, place)["ghost"] = source[place]

    rewrite(store, "A", spoil)
    before = sha(store, "A")
    for call in (runner.resume, runner.invoke):
        options = {"checkpoint_id": "A"} if call == runner.invoke else {}
        error = refused(CheckpointMismatchError, call, app, "A" if call == runner.resume else "a", **options)
        assert "'ghost'" in str(error)
        assert "['1', '2']" in str(error)
        assert error.checkpoint_id == "A"
    assert (calls["1"], calls["2"]) == (1, 0)
    assert sha(store, "A") == before
    assert store.calls.count(("set", "A")) == 1


@pytest.mark.parametrize(("written", "loaded"), [("pregel", "dag"), ("dag", "pregel")])
def test_a_record_of_the_other_mode(runner: Runner, written: str, loaded: str) -> None:
    """B065: a record written in one mode is refused by the other, naming the channel."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], mode=written)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    before = blob_of(store, "A")
    other = chain("1", "2", calls=calls).compile(store=store, mode=loaded)

    error = refused(CheckpointMismatchError, runner.resume, other, "A")
    assert "channel '1'" in str(error)
    assert (written in str(error), loaded in str(error)) == (True, True)
    assert calls.order == []
    assert blob_of(store, "A") == before


def test_a_graph_may_grow(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B066, K08: a node added after the place where the run waits takes part in the resumed run."""
    paused(
        runner.invoke, chain("1", "2", "3").compile(store=store, interrupt_before=["2"], **mode), "a", checkpoint_id="1"
    )

    assert runner.resume(chain("1", "2", "4", "3").compile(store=store, **mode), "1") == "a1243"


def test_a_nested_graph_may_grow(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B066, K08: the same one level down."""

    def outer(*keys: str) -> Graph:
        inner = chain(*keys, **{"2": lambda text: text + str(interrupt("q"))})
        graph = Graph(str, str)
        graph.add_node("s", inner)
        graph.add_edge(START, "s")
        graph.add_edge("s", END)
        return graph

    stop = paused(runner.invoke, outer("1", "2", "3").compile(store=store, **mode), "a", checkpoint_id="1")
    assert (
        runner.resume(outer("1", "2", "4", "3").compile(store=store, **mode), "1", {stop.interrupts[0].id: "!"})
        == "a1!43"
    )


def test_a_lost_node_is_refused(runner: Runner, mode: dict[str, Any]) -> None:
    """F22 (1), (2): where the waiting node was renamed or is gone, the run is refused and says what nodes there are."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("a", "approve", approve=lambda text: text + str(interrupt("q"))).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "", checkpoint_id="A")
    before = sha(store, "A")

    for keys in (("a", "approval"), ("a",)):
        changed = chain(*keys, calls=calls).compile(store=store, **mode)
        for answers in ({stop.interrupts[0].id: "yes"}, None):
            error = refused(CheckpointMismatchError, runner.resume, changed, "A", answers)
            assert "'approve'" in str(error)
            assert str(list(keys)) in str(error)
            assert error.checkpoint_id == "A"
        refused(CheckpointMismatchError, runner.invoke, changed, "", checkpoint_id="A", write_to_checkpoint_id="B")
    assert calls.order == []
    assert sha(store, "A") == before
    assert [call for call in store.calls if call[0] == "set"] == [("set", "A")]


def test_a_lost_node_in_a_nested_graph_is_refused(runner: Runner, mode: dict[str, Any]) -> None:
    """F22: the same one level down, with the way to the graph that lacks the node; and where the graph became a function."""
    store, calls = TwoMethodStore(), Calls()

    def outer(node: Any) -> Graph:
        return chain("s", "end_of_it", calls=calls, s=node)

    inner = chain("approve", approve=lambda text: text + str(interrupt("q")))
    paused(runner.invoke, outer(inner).compile(store=store, **mode), "", checkpoint_id="A")
    before = sha(store, "A")

    error = refused(
        CheckpointMismatchError, runner.resume, outer(chain("approval", calls=calls)).compile(store=store, **mode), "A"
    )
    assert "'approve'" in str(error)
    assert "graph 's'" in str(error)
    error = refused(
        CheckpointMismatchError, runner.resume, outer(appending("s", calls)).compile(store=store, **mode), "A"
    )
    assert "node s" in str(error)
    assert calls.order == []
    assert sha(store, "A") == before


@pytest.mark.parametrize("change", ["a node added after", "an edge removed that was passed", "another function"])
def test_a_changed_graph_that_can_go_on(runner: Runner, mode: dict[str, Any], store: Any, change: str) -> None:
    """F22 (3), (4), (5): a graph with a new node behind, without an edge already passed, or with a new function goes on."""
    calls = Calls()

    def ask(value: dict[str, str]) -> str:
        calls.note("approve", value)
        return "+".join(value.values()) + str(interrupt("q"))

    def build(*, tail: bool = False, passed: bool = True, approve: Callable[[Any], str] = ask) -> Graph:
        graph = Graph(str, str)
        for key in ("a", "c"):
            graph.add_node(key, appending(key, calls), output_key=key)
        graph.add_node("approve", approve)
        graph.add_edge(START, "a")
        graph.add_edge(START, "c")
        graph.add_edge("a", "approve")
        if passed:
            graph.add_edge("c", "approve")
        if tail:
            graph.add_node("b", appending("b", calls))
            graph.add_edge("approve", "b")
        graph.add_edge("b" if tail else "approve", END)
        return graph

    changed, result = {
        "a node added after": (build(tail=True), "a+c!b"),
        "an edge removed that was passed": (build(passed=False), "a+c!"),
        "another function": (build(approve=lambda value: f"new({len(value)},{interrupt('q')})"), "new(2,!)"),
    }[change]
    stop = paused(runner.invoke, build().compile(store=store, **mode), "", checkpoint_id="A")

    assert runner.resume(changed.compile(store=store, **mode), "A", {stop.interrupts[0].id: "!"}) == result
    assert (calls["a"], calls["c"]) == (1, 1)
