"""State and handlers in stream runs: found by class at each level, restored, and handled in the same order as in value runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending
from shaped import appender, fewer_modes, flowing, go, halted, kinds, shapes
from streaming import record_of
from wiring import wire

from blobcp import Graph, Interrupted, NodeError, StateError, StreamReader, interrupt, serializable, use_state
from blobcp.stores import MapStore

__all__ = ["fewer_modes"]

LIMIT = 10.0


@serializable("tests.test_spec_state.Two")
@dataclass
class Two:
    """A state with two texts."""

    f1: str = ""
    f2: str = ""


@serializable("tests.test_spec_state.Outer")
@dataclass
class Outer:
    """The state of an outer graph."""

    value: str = "outer"
    counter: int = 0


@serializable("tests.test_spec_state.Inner")
@dataclass
class Inner:
    """The state of an inner graph."""

    value: str = "inner"


@serializable("tests.test_spec_state.Text")
@dataclass
class Text:
    """A state with a text."""

    a: str = ""


def one_node(node: Callable[..., Any], state: Any = None, key: str = "n", **handlers: Any) -> Graph:
    """Return the graph START -> node -> END."""
    graph = Graph(Any, Any, state=state)
    graph.add_node(key, node, **handlers)
    return wire(graph, f"start {key} end")


@shapes
@pytest.mark.parametrize("kind", ["values", "chunks"])
def test_state_travels_beside_the_chunks(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B026: what a node and its post-handler put into the state is there for the next pre-handler; runs start afresh."""

    def values(text: str) -> str:
        with use_state(Two) as state:
            state.f1 = "node1"
        return text

    def chunks(texts: StreamReader[str]) -> Iterator[str]:
        with use_state(Two) as state:
            state.f1 = "node1"
        yield from texts

    def post(text: str, state: Two) -> str:
        state.f2 = "node2"
        return text

    graph = Graph(str, str, state=Two)
    graph.add_node("1", values if kind == "values" else chunks, post=post)
    graph.add_node("2", flowing(""), pre=lambda text, state: text + state.f1 + state.f2)
    app = wire(graph, "start 1 2 end").compile(**mode)

    assert [go(runner, shape, app, "start") for _ in range(2)] == ["startnode1node2"] * 2


def both_states(chunks: StreamReader[str]) -> Iterator[str]:
    """Give the chunks on, and what the states of both levels hold."""
    yield from chunks
    with use_state(Inner) as inner:
        yield f"_inner={inner.value}"
    with use_state(Outer) as outer:
        yield f"_outer={outer.value}"


@shapes
def test_a_nested_node_reads_both_states(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B027: a streaming node of a nested graph finds both levels' states by class, while its stream is read."""
    graph = one_node(one_node(both_states, Inner).compile(**mode), Outer)

    assert go(runner, shape, graph.compile(**mode), "start") == "start_inner=inner_outer=outer"


@pytest.mark.parametrize("form", ["value", "chunks"])
def test_an_app_in_a_node_reads_both_states(mode: dict[str, Any], form: str) -> None:
    """B027: an app that a node calls, or whose stream it gives on, finds the state of the graph round that node."""

    def seen(chunks: StreamReader[str]) -> Iterator[str]:
        yield from both_states(chunks)
        with use_state(Outer) as outer:
            yield f"_{outer.counter}"

    inner = one_node(seen, Inner).compile(**mode)

    def call(text: str) -> str:
        return "".join(inner.stream(text))

    def give_on(text: str) -> Iterator[str]:
        yield from inner.stream(text)

    app = one_node(call if form == "value" else give_on, lambda: Outer(counter=100)).compile(**mode)

    assert "".join(app.stream("start")) == "start_inner=inner_outer=outer_100"


@shapes
def test_the_innermost_of_a_class_is_meant(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B028: where both levels have a state of one class, a streaming node of the inner graph sees the inner one."""

    def node(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        with use_state(Inner) as state:
            yield f"_{state.value}"

    graph = one_node(one_node(node, lambda: Inner("inner")), lambda: Inner("outer"))

    assert go(runner, shape, graph.compile(**mode), "start") == "start_inner"


@shapes
@pytest.mark.parametrize(("state", "text"), [(Outer, "Inner.*Outer"), (None, "no state")])
def test_a_state_that_is_not_there(runner: Runner, mode: dict[str, Any], shape: str, state: Any, text: str) -> None:
    """B029: asking out of a stream for a class that no level has, or without any state, fails that node."""

    def node(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        with use_state(Inner) as inner:
            yield inner.value

    with pytest.raises(NodeError, match=text) as caught:
        go(runner, shape, one_node(node, state).compile(**mode), "x")
    assert caught.value.path == ["n"]
    assert isinstance(caught.value.__cause__, StateError)


@shapes
def test_streams_take_turns_at_a_state(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B030: ten streaming nodes that read, wait and write the outer counter lose no change."""

    def count(chunks: StreamReader[str]) -> Iterator[str]:
        for chunk in chunks:
            with use_state(Outer) as outer:
                before = outer.counter
                threading.Event().wait(0.001)  # gives others the chance to come in; nothing depends on it
                outer.counter = before + 1
            yield chunk

    inner = Graph(str, dict, state=Inner)
    for number in range(10):
        inner.add_node(f"n{number}", count, output_key=f"n{number}")
        wire(inner, f"start n{number} end")
    graph = Graph(str, int, state=Outer)
    graph.add_node("sub", inner)
    graph.add_node("show", lambda found: len(found), post=lambda found, state: state.counter)

    assert go(runner, shape, wire(graph, "start sub show end").compile(**mode), "x") == 10


@shapes
def test_a_restored_outer_state_is_seen_inside(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B031: after a stop in a nested graph its nodes read the outer state as it was stored."""

    def set_counter(text: str) -> str:
        with use_state(Outer) as outer:
            outer.counter = 42
        return text

    def read(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        with use_state(Outer) as outer:
            yield f"_counter={outer.counter}_value={outer.value}"

    graph = Graph(str, str, state=Outer)
    graph.add_node("set", set_counter)
    graph.add_node("sub", one_node(read, Inner, "read").compile(interrupt_before=["read"], **mode))
    app = wire(graph, "start set sub end").compile(store=MapStore(), **mode)
    halted(runner, shape, app, "start", checkpoint_id="1")

    assert go(runner, shape, app, checkpoint_id="1") == "start_counter=42_value=outer"


@shapes
def test_a_told_state_is_a_copy(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B032: what happens to the live state after a stop does not reach what the stop tells; both places tell one copy."""
    made: list[Text] = []

    def fresh() -> Text:
        made.append(Text("live"))
        return made[-1]

    graph = Graph(str, str, state=fresh)
    graph.add_node("1", flowing("1"))
    graph.add_node("2", flowing("2"))
    stop = halted(runner, shape, wire(graph, "start 1 2 end").compile(interrupt_before=["2"], **mode), "x")
    for state in made:
        state.a = "changed"

    assert stop.info is not None
    assert stop.info.state == stop.interrupts[0].info == Text("live")


@shapes
def test_handlers_come_one_by_one(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B036: of nodes that are ready together, each pre-handler runs before its function, in order, and none beside another."""
    events: list[str] = []
    lock = threading.Lock()

    def pre(key: str) -> Callable[[str, Text], str]:
        def handler(text: str, state: Text) -> str:
            assert lock.acquire(blocking=False), "two handlers run at the same time"
            events.append(f"pre {key}")
            threading.Event().wait(0.001)  # gives others the chance to come in; nothing depends on it
            lock.release()
            return text

        return handler

    graph = Graph(str, dict, state=Text)
    for key in ("a", "b", "c"):
        node = appending(key) if key != "b" else flowing(key)
        graph.add_node(key, node, pre=pre(key), output_key=key)
        wire(graph, f"start {key} end")

    assert go(runner, shape, graph.compile(**mode), "x") == {"a": "xa", "b": "xb", "c": "xc"}
    assert events == ["pre a", "pre b", "pre c"]


@shapes
@kinds
def test_a_pre_handler_that_raises(runner: Runner, shape: str, kind: str) -> None:
    """B037: its node's function does not run, the other of the step runs once, the run fails with the path."""
    calls = Calls()
    boom = ValueError("not today")

    def bad(text: str, state: Text) -> str:
        raise boom

    graph = Graph(str, Any, state=Text)
    graph.add_node("a", appender(kind, "a", calls), pre=bad)
    graph.add_node("b", appending("b", calls))

    with pytest.raises(NodeError, match="node a failed: ValueError: not today") as caught:
        go(runner, shape, wire(graph, "start a end", "start b end").compile(), "x")
    assert caught.value.path == ["a"]
    assert caught.value.__cause__ is boom
    assert calls.order == ["b"]


def value_post(text: str, state: Text) -> str:
    """Fail on the joined value."""
    raise ValueError("not today")


def chunk_post(chunks: StreamReader[str], state: Text) -> Iterator[str]:
    """Fail out of the stream that it gives."""
    yield next(chunks)
    raise ValueError("not today")


@shapes
@kinds
@pytest.mark.parametrize("post", [value_post, chunk_post])
def test_a_post_handler_that_raises(runner: Runner, mode: dict[str, Any], shape: str, kind: str, post: Any) -> None:
    """B037: an error of a post-handler, or of the stream that it gives, is its node's; what follows has no result."""
    calls = Calls()
    graph = Graph(str, str, state=Text)
    graph.add_node("a", appender(kind, "a"), post=post)
    graph.add_node("b", appending("b", calls))

    with pytest.raises(NodeError, match="node a failed: ValueError: not today") as caught:
        go(runner, shape, wire(graph, "start a b end").compile(**mode), "x")
    assert caught.value.path == ["a"]
    assert calls.order == []


def once(info: str) -> Callable[[], None]:
    """Return a function that interrupts on its first call."""
    calls: list[int] = []

    def ask() -> None:
        calls.append(1)
        if len(calls) == 1:
            interrupt(info)

    return ask


@shapes
@kinds
@pytest.mark.parametrize("reads", ["value", "chunks"])
def test_a_pre_handler_may_interrupt(runner: Runner, mode: dict[str, Any], shape: str, kind: str, reads: str) -> None:
    """B038: its node is a rerun node; on a plain re-run the handler runs again with the original input."""
    calls, seen, ask = Calls(), [], once("may I?")

    def of_value(text: str, state: Text) -> str:
        seen.append(text)
        ask()
        return text

    def of_chunks(chunks: StreamReader[str], state: Text) -> list[str]:
        return [of_value("".join(chunks), state)]

    graph = Graph(str, str, state=Text)
    graph.add_node("1", appender(kind, "1", calls), pre=of_value if reads == "value" else of_chunks)
    app = wire(graph, "start 1 end").compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "a", checkpoint_id="run")

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.rerun_extra, calls["1"]) == (["1"], {"1": "may I?"}, 0)
    assert go(runner, shape, app, "other", checkpoint_id="run") == "a1"
    assert seen == ["a", "a"]


@shapes
@pytest.mark.parametrize("kind", ["values", "late"])
def test_a_rerun_repeats_the_pre_handler(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B039, K51: the pre-handler's effect on the state is kept at the stop, and made once more on the re-run."""
    calls, ask = Calls(), once("?")

    def pre(text: str, state: Text) -> str:
        state.a += f"|{text}"
        return state.a

    def values(text: str) -> str:
        calls.note("1", text)
        ask()
        return text

    def late(chunks: StreamReader[str]) -> Iterator[str]:
        text = "".join(chunks)
        calls.note("1", text)
        yield text
        ask()

    graph = Graph(str, str, state=Text)
    graph.add_node("1", values if kind == "values" else late, pre=pre)
    store = MapStore()
    app = wire(graph, "start 1 end").compile(store=store, **mode)
    halted(runner, shape, app, "a", checkpoint_id="run")

    assert record_of(store, "run").inputs == {"1": "a"}
    assert go(runner, shape, app, checkpoint_id="run") == "|a|a"
    assert calls.inputs["1"] == ["|a", "|a|a"]


@shapes
@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("values", "value"),
        ("values", "chunks"),
        ("chunks", "chunks"),
        ("chunks", "value"),
    ],
)
def test_a_post_handler_may_interrupt(runner: Runner, mode: dict[str, Any], shape: str, kind: str, reads: str) -> None:
    """B040, K11: its node is a rerun node; the function is called again with the original input."""
    calls, ask = Calls(), once("keep it?")

    def of_value(text: str, state: Text) -> str:
        ask()
        return text + "p"

    def of_chunks(chunks: StreamReader[str], state: Text) -> Iterator[str]:
        yield from chunks
        ask()
        yield "p"

    graph = Graph(str, str, state=Text)
    graph.add_node("1", appender(kind, "1", calls), post=of_value if reads == "value" else of_chunks)
    app = wire(graph, "start 1 end").compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "a", checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["1"]
    assert go(runner, shape, app, checkpoint_id="run") == "a1p"
    assert calls.inputs["1"] == ["a", "a"]


@shapes
@pytest.mark.parametrize("stops", ["pre", "node", "late", "post"])
def test_inputs_are_kept_as_they_arrived(runner: Runner, mode: dict[str, Any], shape: str, stops: str) -> None:
    """K10, K11, F08: what handlers and nodes do in place to a chunk does not change what the node runs again with."""
    seen: list[Any] = []
    ask = once("?")

    def step(name: str, value: dict[str, str]) -> dict[str, str]:
        if name == "pre":
            seen.append(dict(value))
        value["k"] += name[1]
        if name == stops:
            ask()
        return value

    def node(value: dict[str, str]) -> Iterator[dict[str, str]]:
        yield step("node", value)
        if stops == "late":
            ask()

    graph = Graph(dict, dict, state=Text)
    graph.add_node(
        "1", node, pre=lambda value, state: step("pre", value), post=lambda value, state: step("post", value)
    )
    app = wire(graph, "start 1 end").compile(store=MapStore(), **mode)
    halted(runner, shape, app, {"k": "v"}, checkpoint_id="run")

    assert go(runner, shape, app, checkpoint_id="run") == {"k": "vroo"}
    assert seen == [{"k": "v"}, {"k": "v"}]


@shapes
def test_handlers_round_a_nested_graph_run_once(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B108: a late stop inside a nested graph repeats no handler round it: pre ran before, post runs when it ends."""
    calls = Calls()

    def asks(text: str) -> Iterator[str]:
        yield text
        yield interrupt("?")

    graph = Graph(str, str, state=Text)
    graph.add_node(
        "sub",
        one_node(asks, key="x"),
        pre=lambda text, state: (calls.note("pre"), f"{text}[")[1],
        post=lambda text, state: (calls.note("post"), f"{text}]")[1],
    )
    app = wire(graph, "start sub end").compile(store=MapStore(), **mode)
    with pytest.raises(Interrupted) as caught:
        go(runner, shape, app, "a", checkpoint_id="run")
    assert calls.order == ["pre"]

    answers = {caught.value.interrupts[0].id: "!"}
    assert go(runner, shape, app, checkpoint_id="run", answers=answers) == "a[!]"
    assert calls.order == ["pre", "post"]


@shapes
@pytest.mark.parametrize("form", ["function", "stream"])
def test_inputs_are_kept_at_every_stop(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """K10, F08: the second and third stop of a node that changes its input in place store it as it was, too."""
    seen: list[list[int]] = []

    def change(value: dict[str, list[int]]) -> list[int]:
        seen.append(list(value["items"]))
        value["items"].append(len(seen))
        return [*value["items"], interrupt("one"), interrupt("two"), interrupt("three")]

    def late(value: dict[str, list[int]]) -> Iterator[list[int]]:
        yield change(value)

    store = MapStore()
    app = one_node(change if form == "function" else late).compile(store=store, **mode)
    stop = halted(runner, shape, app, {"items": [0]}, checkpoint_id="run")
    for answer in (10, 20):
        assert record_of(store, "run").inputs == {"n": {"items": [0]}}
        stop = halted(runner, shape, app, checkpoint_id="run", answers={stop.interrupts[0].id: answer})

    assert go(runner, shape, app, checkpoint_id="run", answers={stop.interrupts[0].id: 30}) == [0, 4, 10, 20, 30]
    assert seen == [[0]] * 4


@shapes
@pytest.mark.parametrize("reads", ["value", "chunks"])
def test_a_handler_that_asks_for_the_state_it_holds(
    runner: Runner, mode: dict[str, Any], shape: str, reads: str
) -> None:
    """K48: a handler, or the stream that it gives, may ask for the state of its own graph; nothing hangs."""

    def of_value(text: str, state: Text) -> str:
        with use_state(Text) as same:
            assert same is state
            same.a += "x"
        return text + state.a

    def of_chunks(chunks: StreamReader[str], state: Text) -> Iterator[str]:
        yield from chunks
        with use_state(Text) as same:
            assert same is state
            same.a += "x"
        yield state.a

    handler: Any = of_value if reads == "value" else of_chunks
    graph = one_node(flowing("1"), Text, pre=handler, post=handler)

    assert go(runner, shape, graph.compile(**mode), "a") == "ax1xx"
