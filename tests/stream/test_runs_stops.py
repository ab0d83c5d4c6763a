"""Stream runs that stop: what is stored of streams, how they come back, and stops that come out of streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import LIMIT, Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from pausing import stopped_by
from streaming import emitting, passing, record_of
from wiring import wire

from blobcp import (
    END,
    START,
    Graph,
    Interrupted,
    InterruptPoint,
    KeptChunks,
    Node,
    NodeError,
    StreamReader,
    get_interrupt_state,
    interrupt,
    serializable,
)
from blobcp.checkpoint import DagChannelState
from blobcp.stores import MapStore


@serializable("tests.test_runs_stops.Text")
@dataclass
class Text:
    """A state with a text."""

    a: str = ""


def asking(calls: Calls, key: str, **named: Any) -> Any:
    """Return a node that asks on its first call, then returns ``success``."""

    def node(value: Any) -> Any:
        calls.note(key, value)
        if get_interrupt_state().was_interrupted:
            return "success"
        return interrupt(**named)

    return node


@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_one_finished_and_one_stopped(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B051: what a finished node sent waits as a plain value, in stream runs too; it is not run again."""
    calls = Calls()
    store = MapStore()
    graph = Graph(str, dict)
    graph.add_node("f", appending("f", calls), output_key="f")
    graph.add_node("i", asking(calls, "i", info="need", state="a"), output_key="i")
    graph.add_node("j", echo)
    app = wire(graph, "start f j end", "start i j").compile(store=store, **mode)

    stop = stopped_by(getattr(runner, shape), app, "a", checkpoint_id="run")

    record = record_of(store, "run")
    assert stop.info.rerun_nodes == ["i"]
    assert record.inputs == {"i": "a"}
    assert record.rerun_nodes == ["i"]
    assert record.channels["j"].values == {"f": {"f": "af"}}
    channel = record.channels["j"]
    if isinstance(channel, DagChannelState):
        assert channel.control == {"f": "ready", "i": "waiting"}
        assert channel.data == {"f": True, "i": False}
    states = {str(address): record.interrupt_id_to_state[id] for id, address in record.interrupt_id_to_address.items()}
    assert {at: state.state for at, state in states.items()} == {"runnable:root": None, "runnable:root;node:i": "a"}
    assert runner.invoke(app, checkpoint_id="run") == {"f": "af", "i": "success"}
    assert calls["f"] == 1


def reading(calls: Calls, key: str) -> Any:
    """Return a node that notes the chunks it gets, and gives them on."""

    def node(chunks: StreamReader[Any]) -> Iterator[Any]:
        got = list(chunks)
        calls.note(key, got)
        yield from got

    return node


@pytest.mark.parametrize(("chunks", "value"), [(("x", "-", "b"), "x-b"), ((), None)])
def test_a_stream_waiting_before_a_node(runner: Runner, mode: dict[str, Any], chunks: Any, value: Any) -> None:
    """B054: a stream that waits is stored joined and comes back as one chunk; an empty one comes back without any."""
    calls = Calls()
    store = MapStore()
    app = chain("1", "2", **{"1": emitting(*chunks), "2": reading(calls, "2")}).compile(
        store=store, interrupt_before=["2"], **mode
    )

    stopped_by(runner.stream, app, "s", checkpoint_id="run")

    assert record_of(store, "run").inputs == {"2": value}
    back = [value] if value else []
    assert runner.stream(app, checkpoint_id="run") == back
    assert calls.inputs["2"] == [back]


def test_an_empty_stream_resumed_by_invoke(runner: Runner, mode: dict[str, Any]) -> None:
    """K33: an empty stream that was stored is the zero value for a node of a value run."""
    plain = chain("1", "2", **{"1": emitting(), "2": shown}).compile(store=MapStore(), interrupt_before=["2"], **mode)

    stopped_by(runner.stream, plain, "s", checkpoint_id="run")

    assert runner.invoke(plain, checkpoint_id="run") == "<''>"


def shown(text: str) -> str:
    """Return a text that shows its input."""
    return f"<{text!r}>"


def test_an_empty_stream_resumed_by_stream_before_a_node_of_values(runner: Runner, mode: dict[str, Any]) -> None:
    """K33: the same for a node of values in a stream run."""
    app = chain("1", "2", **{"1": emitting(), "2": shown}).compile(store=MapStore(), interrupt_before=["2"], **mode)

    stopped_by(runner.stream, app, "s", checkpoint_id="run")

    assert runner.stream(app, checkpoint_id="run") == ["<''>"]


def test_chunks_that_are_kept(runner: Runner, mode: dict[str, Any]) -> None:
    """With keep_chunks, a stored stream comes back with the same chunks, and as one value in a value run."""
    calls = Calls()
    store = MapStore()
    app = chain("1", "2", **{"1": emitting("x", "-", "b"), "2": reading(calls, "2")}).compile(
        store=store, interrupt_before=["2"], keep_chunks=True, **mode
    )
    stopped_by(runner.stream, app, "s", checkpoint_id="run")
    store.set("other", store.get("run") or b"")

    assert record_of(store, "run").inputs == {"2": KeptChunks(["x", "-", "b"])}
    assert runner.stream(app, checkpoint_id="run") == ["x", "-", "b"]
    stopped_by(runner.stream, app, "s", checkpoint_id="again")
    assert runner.invoke(app, checkpoint_id="again") == "x-b"
    assert calls.inputs["2"] == [["x", "-", "b"], ["x-b"]]


def test_a_stream_that_fails_while_it_is_stored(runner: Runner, mode: dict[str, Any]) -> None:
    """B055, K32: a stream that fails at a stop fails the run; nothing is written, and the error tells of the stop."""

    def bad(value: str) -> Iterator[str]:
        yield "x"
        raise ValueError("broken")

    store = MapStore()
    app = chain("1", "2", **{"1": bad}).compile(store=store, interrupt_before=["2"], **mode)

    with pytest.raises(NodeError, match="node 1 failed: ValueError: broken") as caught:
        runner.stream(app, "s", checkpoint_id="run")

    assert caught.value.path == ["1"]
    assert caught.value.stopping is not None
    assert caught.value.stopping.before_nodes == ["2"]
    assert store.get("run") is None


def test_a_value_from_start_that_waits(runner: Runner) -> None:
    """B059, K04: START's value that waits in a channel of a stream run is stored as it is."""
    calls = Calls()
    store = MapStore()
    graph = Graph(dict, dict)
    graph.add_node("1", asking(calls, "1"), output_key="one")
    graph.add_node("2", echo)
    app = wire(graph, "start 1 2 end", "start 2").compile(store=store, mode="dag")

    stopped_by(runner.stream, app, {"a": "b"}, checkpoint_id="run")

    assert record_of(store, "run").channels["2"].values == {START: {"a": "b"}}
    assert runner.stream(app, checkpoint_id="run") == [{"a": "b", "one": "success"}]


def test_stopped_by_one_kind_of_run_and_resumed_by_the_other(runner: Runner, mode: dict[str, Any]) -> None:
    """B061: what invoke stopped, stream goes on with, and the other way round."""
    app = chain("1", "2").compile(store=MapStore(), interrupt_before=["2"], **mode)

    stopped_by(runner.invoke, app, "a", checkpoint_id="a")
    assert runner.stream(app, checkpoint_id="a") == ["a12"]
    stopped_by(runner.stream, app, "b", checkpoint_id="b")
    assert runner.invoke(app, checkpoint_id="b") == "b12"


def test_resumed_without_chunks(mode: dict[str, Any]) -> None:
    """A run on chunks that is gone on with needs none."""
    app = chain("1", "2").compile(store=MapStore(), interrupt_before=["2"], when_done="keep", **mode)
    stopped_by(SyncRunner().stream, app, "a", checkpoint_id="a")

    async def resumed() -> list[Any]:
        return [await app.acollect(checkpoint_id="a"), [chunk async for chunk in app.atransform(checkpoint_id="a")]]

    assert [app.collect(checkpoint_id="a"), list(app.transform(checkpoint_id="a"))] == ["a12", ["a12"]]
    assert asyncio.run(asyncio.wait_for(resumed(), LIMIT)) == ["a12", ["a12"]]


@pytest.mark.parametrize("interrupts", [{"interrupt_after": ["1"], "interrupt_before": ["2"]}])
def test_stops_around_nodes_with_state(runner: Runner, mode: dict[str, Any], interrupts: dict[str, Any]) -> None:
    """B067: stops before and after nodes are the same in a stream run; the answer replaces the state."""

    def add(text: str, state: Text) -> str:
        return text + state.a

    graph = Graph(str, str, state=Text)
    graph.add_node("1", appending("1"))
    graph.add_node("2", appending("2"), pre=add)
    app = wire(graph, "start 1 2 end").compile(store=MapStore(), **interrupts, **mode)

    stop = stopped_by(runner.stream, app, "start", checkpoint_id="1")

    assert (stop.info.before_nodes, stop.info.after_nodes) == (["2"], ["1"])
    assert (stop.info.rerun_extra, stop.info.subgraphs) == ({}, {})
    (point,) = stop.interrupts
    assert (str(point.address), point.info, point.is_root_cause) == ("runnable:root", Text(), True)
    assert runner.stream(app, checkpoint_id="1", answers={point.id: Text("state")}) == ["start1state2"]


def test_a_node_that_asks_with_a_handler(runner: Runner, mode: dict[str, Any]) -> None:
    """B076: a node that asked runs again with its pre-handler; the stream run gives one chunk."""
    calls = Calls()

    def node(text: str) -> str:
        if calls.note("1") == 1:
            interrupt("test extra")
        return text

    graph = Graph(str, str, state=Text)
    graph.add_node("1", node, pre=lambda text, state: state.a)
    app = wire(graph, "start 1 end").compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "start", checkpoint_id="1")

    assert stop.info.rerun_nodes == ["1"]
    assert stop.info.rerun_extra == {"1": "test extra"}
    assert runner.stream(app, checkpoint_id="1", state_modifier=lambda path, state: Text("state")) == ["state"]


def late(calls: Calls) -> Any:
    """Return a node whose stream asks in its middle."""

    def source(value: str) -> Iterator[str]:
        calls.note("src", value)
        yield f"{value}("
        yield interrupt("how?")
        yield ")"

    return source


def only(points: list[InterruptPoint]) -> InterruptPoint:
    """Return the one point."""
    (point,) = points
    return point


@pytest.mark.parametrize("consumer", ["value", "chunks", "none"])
def test_an_interrupt_out_of_a_stream(runner: Runner, mode: dict[str, Any], consumer: str) -> None:
    """B089, K07: a stop in a stream is that of the node which makes it; who has read it has not run."""
    calls = Calls()
    store = MapStore()
    keys = ("src",) if consumer == "none" else ("src", "dst")
    dst = appending("!", calls) if consumer == "value" else passing
    app = chain(*keys, src=late(calls), dst=dst).compile(store=store, **mode)

    stop = stopped_by(runner.stream, app, "in", checkpoint_id="run")

    point = only(stop.interrupts)
    assert stop.info.rerun_nodes == ["src"]
    assert str(point.address) == "runnable:root;node:src"
    record = record_of(store, "run")
    assert record.inputs == {"src": "in"}
    assert all(not channel.values for channel in record.channels.values())
    expected = "in(so)!" if consumer == "value" else "in(so)"
    assert "".join(runner.stream(app, checkpoint_id="run", answers={point.id: "so"})) == expected
    assert calls["src"] == 2
    assert calls.inputs.get("!", []) == (["in(so)"] if consumer == "value" else [])


def test_the_output_of_a_late_stop_comes_anew(runner: Runner) -> None:
    """B089: chunks that had come before a late stop come again when the run goes on."""
    app = chain("src", src=late(Calls())).compile(store=MapStore())
    got: list[str] = []

    with pytest.raises(Interrupted), app_stream(runner, app, "in", checkpoint_id="run") as reader:
        got.extend(reader)

    assert got == ["in("]
    assert runner.stream(app, checkpoint_id="run", answers={only(runner.pending(app, "run")).id: "so"}) == [
        "in(",
        "so",
        ")",
    ]


def app_stream(runner: Runner, app: Any, *arguments: Any, **options: Any) -> StreamReader[Any]:
    """Return the reader itself; only the threaded driver can give it to sync code without a loop."""
    return app.stream(*arguments, **options)


def test_what_is_independent_of_a_late_stop_stays(runner: Runner, mode: dict[str, Any]) -> None:
    """B089: nodes that took the stopped stream are taken back, others have finished; what they sent waits."""
    calls = Calls()
    store = MapStore()
    graph = Graph(str, dict)
    graph.add_node("src", late(calls), output_key="src")
    graph.add_node("other", appending("o", calls), output_key="other")
    graph.add_node("mid", passing)
    graph.add_node("join", lambda value: (calls.note("join", value), value)[1])
    app = wire(graph, "start src mid join end", "start other join").compile(store=store, mode="dag")

    stop = stopped_by(runner.stream, app, "in", checkpoint_id="run")

    record = record_of(store, "run")
    assert record.rerun_nodes == ["src"]
    assert record.inputs == {"src": "in"}
    channel = record.channels["join"]
    assert isinstance(channel, DagChannelState)
    assert channel.values == {"other": {"other": "ino"}}
    assert channel.control == {"mid": "waiting", "other": "ready"}
    assert runner.invoke(app, checkpoint_id="run", answers={stop.interrupts[0].id: "so"}) == {
        "src": "in(so)",
        "other": "ino",
    }
    assert (calls["src"], calls["o"], calls["join"]) == (2, 1, 1)
    assert mode is not None


def test_a_late_stop_while_streams_are_stored(runner: Runner, mode: dict[str, Any]) -> None:
    """K07: a node that asks while its stream is read for a checkpoint stops too; the stop before its target is gone."""
    calls = Calls()
    store = MapStore()
    app = chain("src", "dst", src=late(calls)).compile(store=store, interrupt_before=["dst"], **mode)

    stop = stopped_by(runner.stream, app, "in", checkpoint_id="run")

    assert (stop.info.rerun_nodes, stop.info.before_nodes) == (["src"], [])
    stop = stopped_by(runner.stream, app, checkpoint_id="run", answers={stop.interrupts[0].id: "so"})
    assert (stop.info.rerun_nodes, stop.info.before_nodes) == ([], ["dst"])
    assert record_of(store, "run").inputs == {"dst": "in(so)"}
    assert runner.stream(app, checkpoint_id="run") == ["in(so)dst"]


@pytest.mark.parametrize("outer", ["pregel", "dag"])
def test_a_late_stop_inside_a_nested_graph(runner: Runner, outer: str) -> None:
    """B089: a stop out of a stream that a nested graph has handed on is inside that graph."""
    calls = Calls()
    store = MapStore()
    inner = chain("a", "src", "b", src=late(calls), b=passing, a=appending("a", calls))
    graph = Graph(str, str)
    graph.add_node("sub", inner)
    graph.add_node("dst", passing)
    graph.add_node("end2", appending("!", calls))
    app = wire(graph, "start sub dst end2 end").compile(store=store, mode=outer)

    stop = stopped_by(runner.stream, app, "in", checkpoint_id="run")

    point = only(stop.interrupts)
    assert str(point.address) == "runnable:root;node:sub;node:src"
    assert stop.info.subgraphs["sub"].rerun_nodes == ["src"]
    record = record_of(store, "run")
    assert record.sub_graphs["sub"].inputs == {"src": "ina"}
    assert all(not channel.values for channel in record.channels.values())
    assert runner.stream(app, checkpoint_id="run", answers={point.id: "so"}) == ["ina(so)!"]
    assert (calls["a"], calls["src"], calls["!"]) == (1, 2, 1)


def test_two_late_stops(runner: Runner, mode: dict[str, Any]) -> None:
    """Streams that meet and both ask: each is answered; the one that was answered first is not asked again."""
    store = MapStore()

    def source(key: str) -> Any:
        def node(value: str) -> Iterator[str]:
            yield key
            yield interrupt(key)

        return node

    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, source(key), output_key=key)
    graph.add_node("join", echo)
    app = wire(graph, "start a join end", "start b join").compile(store=store, **mode)

    answered: list[str] = []
    stop = stopped_by(runner.stream, app, "in", checkpoint_id="run")
    while True:
        point = stop.interrupts[0]
        answered.append(point.info)
        try:
            result = runner.collect(app, [], checkpoint_id="run", answers={point.id: point.info.upper()})
            break
        except Interrupted as again:
            stop = again
    assert sorted(answered) == ["a", "b"]
    assert result == {"a": "aA", "b": "bB"}


def nested_with_state() -> Any:
    """Return the chain 1 -> 2 whose 2 gets the state's text appended first."""
    inner = Graph(str, str, state=Text)
    inner.add_node("1", appending("1"))
    inner.add_node("2", appending("2"), pre=lambda text, state: text + state.a)
    return wire(inner, "start 1 2 end")


def test_a_nested_graph_that_stops(runner: Runner, mode: dict[str, Any]) -> None:
    """B105: a nested graph stops after a node and is given its state, in stream runs too."""
    graph = Graph(str, str)
    graph.add_node("1", appending("1"))
    graph.add_node("2", nested_with_state().compile(interrupt_after=["1"], **mode))
    graph.add_node("3", appending("3"))
    app = wire(graph, "start 1 2 3 end").compile(store=MapStore(), **mode)

    stop = stopped_by(runner.stream, app, "start", checkpoint_id="1")

    inner = stop.info.subgraphs["2"]
    assert (inner.state, inner.after_nodes, inner.rerun_extra, inner.subgraphs) == (Text(), ["1"], {}, {})
    (point,) = stop.interrupts
    assert (str(point.address), point.info, point.is_root_cause) == ("runnable:root;node:2", Text(), True)
    assert point.parent is not None
    assert str(point.parent.address) == "runnable:root"
    assert runner.stream(app, checkpoint_id="1", answers={point.id: Text("state")}) == ["start11state23"]


@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_three_levels_that_stop(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B106: stops at three depths, one after the other, in value and stream runs."""
    deep = nested_with_state().compile(interrupt_after=["1"], **mode)
    middle = Graph(str, str, state=Text)
    middle.add_node("1", appending("1"))
    middle.add_node("2", deep, pre=lambda text, state: text + state.a, output_key="2")
    middle.add_node("3", appending("3"), output_key="3")
    middle.add_node(
        "4",
        lambda value: f"{value['2']}4\n{value['3']}4\n{value['state']}4\n",
        pre=lambda value, state: {**value, "state": state.a},
    )
    wire(middle, "start 1 2 4 end", "1 3 4")
    graph = Graph(str, str)
    graph.add_node("1", appending("1"))
    graph.add_node("2", middle.compile(interrupt_after=["1", "3"], interrupt_before=["4"], **mode))
    graph.add_node("3", appending("3"))
    app = wire(graph, "start 1 2 3 end").compile(store=MapStore(), **mode)
    run = getattr(runner, shape)

    stop = stopped_by(run, app, "start", checkpoint_id="1")
    assert stop.info.subgraphs["2"].after_nodes == ["1"]
    stop = stopped_by(run, app, checkpoint_id="1", answers={stop.interrupts[0].id: Text("state")})
    (point,) = stop.interrupts
    assert stop.info.subgraphs["2"].after_nodes == ["3"]
    assert stop.info.subgraphs["2"].subgraphs["2"].after_nodes == ["1"]
    assert str(point.address) == "runnable:root;node:2;node:2"
    assert point.parent is not None
    assert point.parent.info == Text("state")
    stop = stopped_by(run, app, checkpoint_id="1", answers={point.id: Text("state")})
    assert stop.info.subgraphs["2"].before_nodes == ["4"]
    result = run(app, checkpoint_id="1", answers={stop.interrupts[0].id: Text("state2")})
    assert "".join(result) == "start11state1state24\nstart1134\nstate24\n3"


def test_the_callers_stream_is_closed_unread_on_resume(runner: Runner) -> None:
    """K38: where a stored run is gone on with, the stream that the caller gave is closed and not read."""
    app = chain("1", "2").compile(store=MapStore(), interrupt_before=["2"])
    stopped_by(runner.stream, app, "a", checkpoint_id="run")
    seen: list[str] = []

    class Source:
        def __iter__(self) -> Source:
            return self

        def __next__(self) -> str:
            seen.append("read")
            return "x"

        def close(self) -> None:
            seen.append("closed")

    assert runner.collect(app, Source(), checkpoint_id="run") == "a12"
    assert seen == ["closed"]


def test_a_node_of_shapes_is_stopped_and_resumed(runner: Runner, mode: dict[str, Any]) -> None:
    """A rerun node gets the whole original input of its stream back, whatever it had read of it."""
    calls = Calls()

    def peeking(chunks: StreamReader[str]) -> Iterator[str]:
        first = next(chunks)
        calls.note("peek", first)
        yield interrupt("go on?")
        yield from chunks

    store = MapStore()
    app = chain("1", "2", **{"1": emitting("x", "y"), "2": Node(transform=peeking)}).compile(store=store, **mode)

    stop = stopped_by(runner.stream, app, "s", checkpoint_id="run")

    assert record_of(store, "run").inputs == {"2": "xy"}
    assert runner.stream(app, checkpoint_id="run", answers={stop.interrupts[0].id: "yes"}) == ["yes"]
    assert calls.inputs["peek"] == ["x", "xy"]


def test_a_finished_stream_run_is_marked(runner: Runner) -> None:
    """A stream run that went on from a checkpoint is done once its output has ended, not before."""
    store = MapStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"])
    stopped_by(runner.stream, app, "a", checkpoint_id="run")
    before = store.get("run")

    with app.stream(checkpoint_id="run") as reader:
        assert next(reader) == "a12"
        assert store.get("run") == before
        assert list(reader) == []

    assert runner.pending(app, "run") == []
    assert END == "end"
