"""Streams that stop or fail late: what is taken back, what must not be, who is charged, and under which ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import AsyncRunner, Runner
from graphs import Calls, appending, chain, echo
from pausing import stopped_by
from streaming import emitting, passing, record_of
from wiring import wire

from blobcp import Graph, Interrupted, InterruptPoint, NodeError, StreamReader, interrupt, serializable
from blobcp.stores import MapStore


@serializable("tests.test_machine_late.Text")
@dataclass
class Text:
    """A state."""

    a: str = ""


def asking(count: int = 1, question: str = "?", calls: Calls | None = None) -> Any:
    """Return a node that asks after so many chunks."""

    def source(value: str) -> Iterator[str]:
        if calls is not None:
            calls.note("src")
        for number in range(count):
            yield str(number)
        yield interrupt(question)

    return source


def ids(points: list[InterruptPoint]) -> list[list[tuple[str, str]]]:
    """Return the ids and addresses of points and of those above them."""
    trees = []
    for point in points:
        above: InterruptPoint | None = point
        trees.append([])
        while above is not None:
            trees[-1].append((above.id, str(above.address)))
            above = above.parent
    return trees


def first_of(chunks: StreamReader[str]) -> Iterator[str]:
    """Give the first chunk on, and leave the others."""
    yield next(chunks)


def test_behind_a_reader_that_has_enough(runner: Runner, mode: dict[str, Any]) -> None:
    """B089: a node of values runs once, though the stream that it follows from stops late in somebody else."""
    calls = Calls()
    graph = Graph(str, dict)
    graph.add_node("src", asking(2, calls=calls))
    graph.add_node("head", first_of)
    graph.add_node("value", appending("v", calls), output_key="value")
    graph.add_node("all", passing)
    graph.add_node("end2", echo, output_key="all")
    app = wire(graph, "start src head value end", "src all end2 end").compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert stop.info.rerun_nodes == ["src"]
    result = runner.collect(app, [], checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert result.get("value", "0v") == "0v"
    assert result["all"] == "01!"
    assert (calls["src"], calls["v"]) == (2, 1)


def test_where_a_choice_has_passed_a_node_over(runner: Runner) -> None:
    """B089: a node of values that waited for a choice, and was not chosen, runs once if what was chosen by stops late."""
    calls = Calls()
    graph = Graph(str, dict)
    graph.add_node("src", asking(2))
    graph.add_node("other", echo)
    graph.add_node("value", appending("v", calls), output_key="value")
    graph.add_node("chosen", passing, output_key="chosen")

    if runner.name == "sync":

        def choose(chunks: StreamReader[str]) -> str:
            next(chunks)
            return "chosen"

        graph.add_branch("src", choose, ["chosen", "value"])
    else:

        async def achoose(chunks: StreamReader[str]) -> str:
            await anext(chunks)
            return "chosen"

        graph.add_branch("src", achoose, ["chosen", "value"])
    app = wire(graph, "start src", "start other value end", "chosen end").compile(store=MapStore(), mode="dag")

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")

    result = runner.collect(app, [], checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert result == {"value": "xv", "chosen": "01!"}
    assert calls["v"] == 1


@pytest.mark.parametrize("depth", [1, 2])
def test_a_stream_inside_that_nobody_reads(runner: Runner, mode: dict[str, Any], depth: int) -> None:
    """B089: what follows a nested graph runs once, though a stream in there stops that nothing depends on."""
    calls = Calls()
    inner = Graph(str, str)
    inner.add_node("a", appending("a", calls))
    inner.add_node("side", asking(calls=calls))
    wire(inner, "start a end", "start side")
    for _ in range(depth - 1):
        inner = chain("n", n=inner)
    graph = chain("sub", "value", "more", sub=inner, value=appending("v", calls), more=passing)
    app = graph.compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert str(stop.interrupts[0].address) == "runnable:root;node:sub" + ";node:n" * (depth - 1) + ";node:side"
    assert runner.stream(app, checkpoint_id="run", answers={stop.interrupts[0].id: "!"}) == ["xav"]
    assert (calls["a"], calls["src"], calls["v"]) == (1, 2, 1)


def test_a_stream_inside_that_nobody_reads_at_a_stop(runner: Runner, mode: dict[str, Any]) -> None:
    """What a finished nested graph has still to do is done before its stop is stored, and not lost."""
    calls = Calls()

    def side(value: str) -> Iterator[str]:
        calls.note("begun")
        yield value
        calls.note("done")

    inner = Graph(str, str)
    inner.add_node("a", passing)
    inner.add_node("side", side)
    wire(inner, "start a end", "start side")
    app = chain("sub", "v", sub=inner).compile(store=MapStore(), interrupt_before=["v"], **mode)

    stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert runner.stream(app, checkpoint_id="run") == ["xv"]
    assert (calls["begun"], calls["done"]) == (1, 1)


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("how", ["stream", "invoke"])
def test_only_the_first_of_a_chain_is_charged(runner: Runner, mode: dict[str, Any], count: int, how: str) -> None:
    """B089: after any number of chunks, the node that asks is the one that stops, not those which hand its chunks on."""
    calls = Calls()
    nodes = {"a": asking(count), "b": passing, "c": passing, "v": appending("v", calls)}
    app = chain("a", "b", "c", "v", **nodes).compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert stop.info.rerun_nodes == ["a"]
    result = getattr(runner, how)(app, checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert "".join(result) == "".join(map(str, range(count))) + "!v"
    assert calls["v"] == 1


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_points_of_a_stop_while_streams_are_stored(runner: Runner, mode: dict[str, Any], levels: int) -> None:
    """Ids and addresses of all points of a late stop are those that are stored, also of the graphs which pass it on."""
    inner = chain("p", "src", "q", src=asking(2), q=passing)
    for _ in range(levels - 1):
        inner = chain("n", n=inner)
    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, inner, output_key=key)
    graph.add_node("j", echo)
    app = wire(graph, "start a j end", "start b j").compile(store=MapStore(), interrupt_before=["j"], **mode)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")
    assert {str(point.address)[:19] for point in stop.interrupts} == {"runnable:root;node:"}
    assert ids(stop.interrupts) == ids(runner.pending(app, "run"))
    seen = {point.id for point in stop.interrupts}
    assert len(seen) == 2

    stop = stopped_by(runner.stream, app, checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert {point.id for point in stop.interrupts} < seen
    assert ids(stop.interrupts) == ids(runner.pending(app, "run"))
    stop = stopped_by(runner.stream, app, checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert stop.info.before_nodes == ["j"]
    assert ids(stop.interrupts) == ids(runner.pending(app, "run"))
    assert runner.invoke(app, checkpoint_id="run") == {"a": "01!", "b": "01!"}


def test_a_question_swallowed_by_a_node_that_nobody_reads_on(runner: Runner, mode: dict[str, Any]) -> None:
    """A question that a streaming node has asked and swallowed stops the run, though its reader had enough before its end."""

    def source(value: str) -> Iterator[str]:
        try:
            interrupt("?")
        except BaseException:  # as a careless node does
            yield "a"
        yield "b"

    app = chain("src", "head", src=source, head=first_of).compile(store=MapStore(), **mode)

    assert stopped_by(runner.stream, app, "x", checkpoint_id="run").info.rerun_nodes == ["src"]


@pytest.mark.parametrize("interrupts", [{}, {"interrupt_before": ["t"]}])
def test_an_error_swallowed_by_a_choice(runner: Runner, mode: dict[str, Any], interrupts: dict[str, Any]) -> None:
    """B010: a node that fails in its stream has failed, even if the branch and the node which read it swallow that."""

    def source(value: str) -> Iterator[str]:
        yield "a"
        raise ValueError("broken")

    def choose(chunks: StreamReader[str]) -> str:
        with suppress(NodeError):
            list(chunks)
        return "t"

    async def achoose(chunks: StreamReader[str]) -> str:
        with suppress(NodeError):
            [chunk async for chunk in chunks]
        return "t"

    def careless(chunks: StreamReader[str]) -> Iterator[str]:
        try:
            yield from chunks
        except NodeError:
            yield "never mind"

    store = MapStore()
    graph = Graph(str, str)
    graph.add_node("src", source)
    graph.add_node("t", careless)
    graph.add_branch("src", choose if runner.name == "sync" else achoose, ["t"])
    app = wire(graph, "start src", "t end").compile(store=store, **interrupts, **mode)

    with pytest.raises(NodeError, match="node src failed: ValueError: broken") as caught:
        runner.stream(app, "x", checkpoint_id="run")
    assert caught.value.path == ["src"]
    assert store.get("run") is None


def handler(runner: Runner, last: Any) -> Any:
    """Return a handler of chunks that gives them on, and at the end calls something."""

    def handle(chunks: StreamReader[str], state: Text) -> Iterator[str]:
        yield from chunks
        yield last()

    async def ahandle(chunks: StreamReader[str], state: Text) -> AsyncIterator[str]:
        async for chunk in chunks:
            yield chunk
        yield last()

    return handle if runner.name == "sync" else ahandle


def broken() -> str:
    """Raise an error."""
    raise ValueError("broken")


@pytest.mark.parametrize("place", ["function", "graph"])
@pytest.mark.parametrize("which", ["pre", "post"])
def test_a_handler_of_chunks_that_fails_late(runner: Runner, mode: dict[str, Any], place: str, which: str) -> None:
    """B037: an error out of the stream that a handler gives is of the handler's node, as in a value run."""
    graph = Graph(str, str, state=Text)
    node: Any = passing if place == "function" else chain("i", i=passing)
    graph.add_node("1", node, **{which: handler(runner, broken)})
    graph.add_node("2", appending("2"))
    app = wire(graph, "start 1 2 end").compile(**mode)

    for call in (runner.stream, runner.invoke):
        with pytest.raises(NodeError, match="node 1 failed: ValueError: broken") as caught:
            call(app, "x")
        assert caught.value.path == ["1"]


@pytest.mark.parametrize("place", ["function", "graph"])
@pytest.mark.parametrize("which", ["pre", "post"])
def test_a_handler_of_chunks_that_asks_late(runner: Runner, mode: dict[str, Any], place: str, which: str) -> None:
    """B038, B040: a question out of the stream that a handler gives is the node's; a finished nested graph stays so."""
    calls = Calls()
    graph = Graph(str, str, state=Text)
    node: Any = passing if place == "function" else chain("i", calls=calls)
    graph.add_node("1", node, **{which: handler(runner, lambda: interrupt("?"))})
    graph.add_node("2", appending("2", calls))
    app = wire(graph, "start 1 2 end").compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert str(stop.interrupts[0].address) == "runnable:root;node:1"
    assert stop.info.rerun_nodes == ["1"]
    expected = {
        ("function", "pre"): "x!2",
        ("function", "post"): "x!2",
        ("graph", "pre"): "x!i2",
        ("graph", "post"): "xi!2",
    }
    result = runner.stream(app, checkpoint_id="run", answers={stop.interrupts[0].id: "!"})
    assert "".join(result) == expected[place, which]
    assert (calls["i"], calls["2"]) == (1 if place == "graph" else 0, 1)


def test_an_input_that_is_changed_by_who_asks(runner: Runner, mode: dict[str, Any]) -> None:
    """B115, K10: a node of values that changes what it took out of a stream gets it back as it was."""
    calls = Calls()

    def node(value: dict[str, Any]) -> dict[str, Any]:
        value["k"].append("changed")
        if calls.note("node") == 1:
            interrupt("?")
        return value

    store = MapStore()
    graph = Graph(str, dict)
    graph.add_node("src", emitting({"k": ["v"]}))
    graph.add_node("node", node)
    app = wire(graph, "start src node end").compile(store=store, **mode)

    stopped_by(runner.stream, app, "x", checkpoint_id="run")

    assert record_of(store, "run").inputs == {"node": {"k": ["v"]}}
    assert runner.collect(app, [], checkpoint_id="run") == {"k": ["v", "changed"]}


@pytest.mark.parametrize("eager", [True, False])
def test_a_stop_that_comes_while_another_stream_is_stored(eager: bool) -> None:
    """What was read for a checkpoint is stored, though another node stops in that very moment."""
    runner, go_on = AsyncRunner(), asyncio.Event()

    async def waiting(value: str) -> AsyncIterator[str]:
        await go_on.wait()
        yield interrupt("second")

    async def telling(value: str) -> AsyncIterator[str]:
        yield "a"
        go_on.set()
        for _ in range(100):
            await asyncio.sleep(0)
        yield "b"

    graph = Graph(str, dict)
    graph.add_node("s1", asking(0, "first"), output_key="s1")
    graph.add_node("s2", waiting, output_key="s2")
    graph.add_node("told", telling, output_key="told")
    graph.add_node("q", lambda value: interrupt("third"), output_key="q")
    graph.add_node("all", dict)  # before "both", so that what waits for it is stored first
    graph.add_node("both", dict)
    wire(graph, "start s1 both all end", "start s2 both", "start told all", "start q all")
    app = graph.compile(store=MapStore(), mode="dag", eager=eager)

    stop = stopped_by(runner.stream, app, "x", checkpoint_id="run")
    for _ in range(5):
        answers = {point.id: f"<{point.info}>" for point in stop.interrupts}
        try:
            result = runner.collect(app, [], checkpoint_id="run", answers=answers)
            break
        except Interrupted as again:
            stop = again
    assert result == {"s1": "<first>", "s2": "<second>", "told": "ab", "q": "<third>"}


def test_a_stream_that_is_over_while_another_is_waited_for(runner: Runner) -> None:
    """A node of values that lets several streams end begins all the same when one of them is settled meanwhile."""
    graph = Graph(str, dict)
    for key in ("s3", "s4", "s0"):
        graph.add_node(key, emitting("a", "b"), output_key=key)
    for key in ("n10", "e", "n11", "z"):
        graph.add_node(key, sorted, output_key=key)
    wire(graph, "start s3 n11 end", "start s4 e end", "start s0 n10 end", "s4 n11", "s0 n11", "s3 z end")
    app = graph.compile(store=MapStore(), mode="dag")

    # One function at a time, so that n10 ends between the second and the third stream that n11 lets end.
    result = runner.collect(app, ["in"], checkpoint_id="run", concurrency=1)

    assert result == {"n10": ["s0"], "e": ["s4"], "n11": ["s0", "s3", "s4"], "z": ["s3"]}
