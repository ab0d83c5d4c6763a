"""Stream runs in less common places: records without inputs, steps side by side, START's branches, apps in nodes, loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from drivers import Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from streaming import emitting, passing, record_of
from wiring import wire

from blobcp import (
    END,
    START,
    Envelope,
    Graph,
    Interrupted,
    MsgpackSerializer,
    StreamReader,
    concat,
    interrupt,
    read_header,
)
from blobcp.checkpointer import Checkpointer
from blobcp.stores import MapStore


@pytest.mark.parametrize(("takes", "zero"), [(str, "''"), (Any, "None")])
def test_a_record_without_the_input(runner: Runner, mode: dict[str, Any], takes: Any, zero: str) -> None:
    """B062: a node whose input was not stored gets the zero value of its type, as a stream of that one."""

    def node(value: Any) -> str:
        return interrupt("?") if value == "first" else f"<{value!r}>"

    node.__annotations__["value"] = takes
    store = MapStore()
    app = chain("1", **{"1": node}).compile(store=store, **mode)
    with pytest.raises(Interrupted):
        runner.stream(app, "first", checkpoint_id="run")
    record, header = record_of(store, "run"), read_header(store.get("run") or b"")
    record.inputs.clear()
    store.set("run", Checkpointer(MsgpackSerializer(), Envelope()).encode(record, header))

    assert runner.stream(app, checkpoint_id="run") == [f"<{zero}>"]


@pytest.mark.parametrize("steps", ["pregel", "dag"])
def test_a_late_stop_beside_later_steps(runner: Runner, steps: str) -> None:
    """B089: a node of values in a later step, beside the stopped stream, runs once, and what meets is still whole."""
    calls = Calls()
    store = MapStore()

    def x1(value: str) -> Iterator[str]:
        calls.note("x1")
        yield "x1"
        yield interrupt("?")

    graph = Graph(str, dict)
    graph.add_node("x1", x1)
    graph.add_node("t1", appending("t1", calls))
    graph.add_node("x2", passing, output_key="x")
    graph.add_node("t2", appending("t2", calls), output_key="t")
    graph.add_node("j", lambda value: (calls.note("j"), value)[1])
    app = wire(graph, "start x1 x2 j end", "start t1 t2 j").compile(store=store, mode=steps)

    with pytest.raises(Interrupted) as caught:
        runner.stream(app, "", checkpoint_id="run")
    (point,) = caught.value.interrupts

    assert record_of(store, "run").rerun_nodes == ["x1"]
    result = runner.collect(app, [], checkpoint_id="run", answers={point.id: "!"})
    assert result == {"x": "x1!", "t": "t1t2"}
    assert [calls[key] for key in ("x1", "t1", "t2", "j")] == [2, 1, 1, 1]


@pytest.mark.parametrize("place", ["root", "nested"])
def test_a_branch_on_start(runner: Runner, mode: dict[str, Any], place: str) -> None:
    """A choice on START by the value joins the input; the nodes still get its chunks."""
    got: list[list[str]] = []

    def note(chunks: StreamReader[str]) -> Iterator[str]:
        got.append(list(chunks))
        yield from got[-1]

    inner = Graph(str, str)
    inner.add_node("l", note)
    inner.add_node("r", echo)
    inner.add_branch(START, lambda value: "l" if value == "abc" else "r", ["l", "r"])
    wire(inner, "l end", "r end")
    graph = inner
    if place == "nested":
        graph = Graph(str, str)
        graph.add_node("n", inner)
        wire(graph, "start n end")

    assert runner.transform(graph.compile(**mode), ["a", "b", "c"]) == ["a", "b", "c"]
    assert got == [["a", "b", "c"]]


def test_an_app_that_streams_inside_a_node() -> None:
    """A node reads the stream of an app of its own; a question in there stops the node, and is answered there."""
    calls = Calls()

    def asking(value: str) -> Iterator[str]:
        calls.note("inner")
        yield value
        yield interrupt("how?")

    inner = chain("ask", ask=asking).compile(name="inner")

    def outer(value: str) -> Iterator[str]:
        yield from inner.stream(value)

    store = MapStore()
    app = chain("1", "2", **{"1": outer, "2": appending("2")}).compile(store=store)
    with pytest.raises(Interrupted) as caught:
        SyncRunner().stream(app, "x", checkpoint_id="run")
    (point,) = caught.value.interrupts

    assert str(point.address) == "runnable:root;node:1;runnable:inner;node:ask"
    assert SyncRunner().stream(app, checkpoint_id="run", answers={point.id: "so"}) == ["xso2"]
    assert calls["inner"] == 2


@pytest.mark.parametrize("stored", [False, True])
def test_a_loop_of_streaming_nodes(runner: Runner, stored: bool) -> None:
    """A loop whose branch reads the value goes round as in a value run, and remembers no more than it must."""

    def longer(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        yield "x"

    graph = Graph(str, str)
    graph.add_node("1", longer)
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda value: END if len(value) >= 100 else "1", ["1", END])
    app = graph.compile(store=MapStore(), max_steps=200)

    options = {"checkpoint_id": "run"} if stored else {}
    assert concat(runner.stream(app, "", **options)) == "x" * 100


def test_the_same_stream_for_several_nodes(runner: Runner, mode: dict[str, Any]) -> None:
    """Each successor gets every chunk; the node runs once."""
    graph = Graph(str, dict)
    graph.add_node("1", emitting("a", "b"))
    for key in "234":
        graph.add_node(key, passing, output_key=key)
        wire(graph, f"1 {key} end")
    graph.add_edge(START, "1")

    assert concat(runner.stream(graph.compile(**mode), "x")) == {"2": "ab", "3": "ab", "4": "ab"}
