"""Value runs and stream runs agree: on what meets at a node, on declared types, on handlers; and nothing piles up."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any
from weakref import WeakSet

import pytest
from drivers import Runner
from graphs import Calls, appending, chain, echo
from streaming import emitting, passing
from wiring import wire

from blobcp import (
    END,
    START,
    ChatChunk,
    Graph,
    MergeError,
    StreamReader,
    ValueMismatchError,
    concat,
    serializable,
    use_state,
)
from blobcp.graph.parts import StreamTask
from blobcp.stores import MapStore


@serializable("tests.test_machine_values.Count")
@dataclass
class Count:
    """A state."""

    n: int = 0


class Sums(dict[str, int]):
    """A dict that joins in its own way."""

    @staticmethod
    def __concat__(chunks: list[Sums]) -> Sums:
        return Sums(n=sum(chunk["n"] for chunk in chunks))


def joining(first: Any, second: Any) -> Graph:
    """Return two nodes in front of one that gives a plain dict of what meets there."""
    graph = Graph(str, dict)
    graph.add_node("a", first)
    graph.add_node("b", second)
    graph.add_node("j", dict)
    return wire(graph, "start a j end", "start b j")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (({"a": 1}, None), ({"b": 2},), {"a": 1, "b": 2}),
        ((None, {"a": 1}), ({"b": 2}, {"b": 3}), {"a": 1, "b": 3}),
        ((Sums(n=1), Sums(n=2)), ({"b": 2}, {"c": 3}), {"n": 3, "b": 2, "c": 3}),
        ((ChatChunk(content="a"), ChatChunk(content="b")), ({"x": 1},), {"content": "ab", "x": 1}),
    ],
    ids=["none last", "none first", "own concat", "chat"],
)
def test_dicts_that_meet(runner: Runner, mode: dict[str, Any], first: Any, second: Any, expected: Any) -> None:
    """B020, B024: dicts of any class that meet at a node are what they are in a value run."""
    app = joining(emitting(*first), emitting(*second)).compile(**mode)

    assert runner.invoke(app, "x") == expected
    assert concat(runner.stream(app, "x")) == expected


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        ((None,), ({"b": 2},), r"j: type mismatch: .* \(a: NoneType, b: dict\)"),
        ((Sums(n=1), Sums(n=2)), ({"n": 2},), r"j: key 'n' comes from both [ab] and [ab]"),
        (("text",), ({"b": 2},), r"j: type mismatch: .* \(a: str, b: dict\)"),
    ],
    ids=["none", "own concat", "text"],
)
def test_what_can_not_meet(runner: Runner, mode: dict[str, Any], first: Any, second: Any, match: str) -> None:
    """B022, B024, B025: what can't be merged in a value run is the same error in a stream run."""
    app = joining(emitting(*first), emitting(*second)).compile(**mode)

    for call in (runner.invoke, runner.stream):
        with pytest.raises(MergeError, match=match) as caught:
            call(app, "x")
        assert caught.value.path == ["j"]


def test_one_source_in_front_of_a_marked_end(runner: Runner, mode: dict[str, Any]) -> None:
    """B023: a lone source in front of an END that marks ends is not held back to become one value."""
    app = chain("1", **{"1": emitting("a", "b")}).compile(mark_source_end=True, **mode)

    chunks = runner.stream(app, "x")

    assert chunks[:2] == ["a", "b"]
    assert [chunk.source for chunk in chunks[2:]] == ["1"]


def test_what_a_nested_graph_is_declared_to_return(runner: Runner, mode: dict[str, Any]) -> None:
    """A nested graph whose output is joined is held to its declared type, as in a value run."""
    inner = Graph(str, str)
    inner.add_node("i", lambda text: 5)
    wire(inner, "start i end")
    graph = Graph(str, Any, state=Count)
    graph.add_node("n", inner, post=lambda value, state: value)
    app = wire(graph, "start n end").compile(**mode)

    for call in (runner.invoke, runner.stream):
        with pytest.raises(ValueMismatchError, match="graph n is declared to return str and got int from i") as caught:
            call(app, "x")
        assert caught.value.path == ["n"]


def test_a_handler_of_chunks_does_not_keep_the_state(runner: Runner) -> None:
    """A handler that reads a whole stream does not hold the lock that the node which makes the stream waits for."""
    in_value, in_handler = Event(), Event()

    def source(value: str) -> Iterator[str]:
        for number in range(3):
            with use_state(Count) as count:
                count.n += 1
            if number == 1:
                in_value.set()
                assert in_handler.wait(20), "the handler was not called meanwhile"
            yield str(number)

    def whole(chunks: StreamReader[str], state: Count) -> list[str]:
        in_handler.set()
        return list(chunks)

    async def awhole(chunks: StreamReader[str], state: Count) -> list[str]:
        in_handler.set()
        return [chunk async for chunk in chunks]

    def tick(value: str) -> str:
        assert in_value.wait(20), "nobody reads the stream"
        return value

    graph = Graph(str, dict, state=Count)
    graph.add_node("tick", tick)
    graph.add_node("src", source)
    graph.add_node("value", concat_all, output_key="value")
    graph.add_node("other", concat_all, output_key="other")
    graph.add_node("handled", echo, pre=whole if runner.name == "sync" else awhole, output_key="handled")
    graph.add_edge("tick", "handled", data=False)
    app = wire(graph, "start src value end", "start tick", "src other end", "src handled end").compile(mode="dag")

    assert concat(runner.stream(app, "x")) == {"value": "012", "other": "012", "handled": "012"}


def concat_all(chunks: StreamReader[str]) -> str:
    """Return all chunks as one."""
    return "".join(chunks)


@pytest.mark.parametrize("stored", [False, True])
def test_a_loop_keeps_nothing_of_earlier_rounds(runner: Runner, stored: bool) -> None:
    """A loop of streaming nodes remembers as much after many rounds as after few."""
    most = 0

    def longer(chunks: StreamReader[int]) -> Iterator[int]:
        for chunk in chunks:
            yield chunk + 1

    def watch(number: int) -> str:
        nonlocal most
        if number == 300:
            gc.collect()
            most = max(most, sum(type(each) is StreamTask for each in gc.get_objects()))
        return END if number == 300 else "1"

    graph = Graph(int, int)
    graph.add_node("1", longer)
    graph.add_node("2", echo)
    wire(graph, "start 1 2")
    graph.add_branch("2", watch, ["1", END])
    app = graph.compile(store=MapStore(), max_steps=1000)

    assert runner.stream(app, 0, **({"checkpoint_id": "run"} if stored else {})) == [300]
    assert 0 < most < 10


def test_a_stream_that_only_others_wait_for(runner: Runner, mode: dict[str, Any]) -> None:
    """B137: a node that waits for another without its data begins when the other's stream has ended."""
    calls = Calls()

    def first(value: str) -> Iterator[str]:
        yield value
        calls.note("first ended")

    graph = Graph(str, str)
    graph.add_node("first", first)
    graph.add_node("second", appending("2", calls))
    wire(graph, "start first", "second end")
    graph.add_edge("first", "second", data=False)
    graph.add_edge(START, "second", control=False)

    assert runner.stream(graph.compile(**mode), "x") == ["x2"]
    assert calls.order == ["first ended", "2"]


def test_copies_that_advance_together(mode: dict[str, Any]) -> None:
    """Without a checkpoint id no chunk is kept once all have passed it."""

    class Chunk:
        pass

    alive: WeakSet[Chunk] = WeakSet()
    most = 0

    def source(value: str) -> Iterator[Chunk]:
        nonlocal most
        for _ in range(500):
            chunk = Chunk()
            alive.add(chunk)
            most = max(most, len(alive))
            yield chunk

    app = chain("src", "a", "b", src=source, a=passing, b=passing).compile(**mode)

    with app.stream("x") as reader:
        assert sum(1 for _ in reader) == 500
    assert most < 10
