"""Stream runs: the four ways to run an app, nodes that stream, fan-in, keys, branches and handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from streaming import emitting, passing
from wiring import wire

from blobcp import (
    END,
    START,
    App,
    EmptyStreamError,
    Graph,
    MergeError,
    Node,
    NodeError,
    OptionError,
    SourceEnd,
    StreamLoopError,
    StreamReader,
    ValueMismatchError,
    concat,
    serializable,
)


def test_a_chain_in_all_four_shapes(runner: Runner, mode: dict[str, Any]) -> None:
    """B001: invoke, stream, collect and transform of a chain give the same text."""
    app = chain("1", "2").compile(**mode)

    assert runner.invoke(app, "start") == "start12"
    assert runner.stream(app, "start") == ["start12"]
    assert runner.collect(app, ["st", "art"]) == "start12"
    assert runner.transform(app, ["st", "art"]) == ["start12"]


@pytest.mark.parametrize("text", ["1", "hello"])
def test_a_dag_with_keys(runner: Runner, text: str) -> None:
    """B002: fan-out, fan-in by keys and a node that leads nowhere give one text in value and stream runs."""
    graph = Graph(str, str)
    graph.add_node("1", echo, output_key="1")
    graph.add_node("2", echo, output_key="2")
    graph.add_node("3", lambda value: value["1"] + value["2"])
    graph.add_node("4", echo)
    graph.add_node("5", echo)
    graph.add_node("6", echo, output_key="6")
    graph.add_node("7", lambda value: value["1"] + value["6"])
    wire(graph, "start 1 3 4 5", "start 2 3", "4 6 7 end", "1 7")
    app = graph.compile(mode="dag")

    assert runner.invoke(app, text) == text * 3
    assert concat(runner.stream(app, text)) == text * 3


def test_a_branch_that_goes_to_the_end(runner: Runner, mode: dict[str, Any]) -> None:
    """B008: where START's branch picks END, the chunks pass through and no node runs."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_branch(START, lambda value: END, ["1", END])
    graph.add_edge("1", END)

    assert runner.transform(graph.compile(**mode), ["test"]) == ["test"]
    assert calls["1"] == 0


def three_keys() -> Graph:
    """Return three nodes side by side, each with a key of its own."""
    graph = Graph(dict, dict)
    for key in "123":
        graph.add_node(key, Node(invoke=str.upper), input_key=key, output_key=key)
        wire(graph, f"start {key} end")
    return graph


def test_a_node_sees_the_chunks_with_its_key(runner: Runner, mode: dict[str, Any]) -> None:
    """B009: with input keys, each node gets only the chunks that carry its key."""
    app = three_keys().compile(**mode)

    assert concat(runner.transform(app, [{"1": "a"}, {"2": "b"}, {"3": "c"}])) == {"1": "A", "2": "B", "3": "C"}


def test_a_key_that_no_chunk_carries(runner: Runner, mode: dict[str, Any]) -> None:
    """B009: an unknown key is named in a value run; in a stream run the nodes find their streams empty."""
    app = three_keys().compile(**mode)

    with pytest.raises(ValueMismatchError, match=r"takes key '1'.*unknown"):
        runner.invoke(app, {"unknown": "123"})
    with pytest.raises(NodeError) as caught:
        runner.transform(app, [{"unknown": "123"}])
    assert isinstance(caught.value.__cause__, EmptyStreamError)


def choose_of_value(value: str) -> list[str]:
    """Choose by the value."""
    return ["1", "2"]


def choose_of_reader(chunks: StreamReader[str]) -> list[str]:
    """Choose by the first chunk."""
    assert next(chunks) == "start"
    return ["1", "2"]


@pytest.mark.parametrize("choose", [choose_of_value, choose_of_reader])
def test_a_branch_that_chooses_several(runner: Runner, mode: dict[str, Any], choose: Any) -> None:
    """B014: several ends are chosen, by a choice on the value or on a copy of the stream."""
    graph = Graph(str, dict)
    for key in "123":
        graph.add_node(key, echo, output_key=key)
        graph.add_edge(key, END)
    graph.add_branch(START, choose, ["1", "2", "3"])
    app = graph.compile(**mode)

    assert runner.invoke(app, "start") == {"1": "start", "2": "start"}
    assert concat(runner.stream(app, "start")) == {"1": "start", "2": "start"}


def test_a_branch_that_peeks(runner: Runner, mode: dict[str, Any]) -> None:
    """B019, K53: a choice that reads one chunk takes nothing away from the target; in a value run it sees the whole."""

    def choose(chunks: StreamReader[str]) -> str:
        return "l" if next(chunks) == "go" else "r"

    graph = Graph(str, str)
    graph.add_node("source", emitting("go", "-", "tail"))
    graph.add_node("l", lambda value: f"L({value})")
    graph.add_node("r", lambda value: f"R({value})")
    graph.add_edge(START, "source")
    graph.add_branch("source", choose, ["l", "r"])
    wire(graph, "l end", "r end")
    app = graph.compile(**mode)

    assert runner.stream(app, "x") == ["L(go-tail)"]
    assert runner.invoke(app, "x") == "R(go-tail)"


def test_a_branch_on_chunks_of_async_code() -> None:
    """In an async run a plain choice is told that it can't wait for chunks of async code; an async one can."""

    async def source(value: str) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield value

    def choose(chunks: StreamReader[str]) -> str:
        return next(chunks)

    async def choose_awaiting(chunks: StreamReader[str]) -> str:
        return await anext(chunks)

    def app(choice: Any) -> App:
        graph = Graph(str, str)
        graph.add_node("source", source)
        graph.add_node("l", lambda value: f"L({value})")
        graph.add_edge(START, "source")
        graph.add_branch("source", choice, ["l"])
        return wire(graph, "l end").compile()

    with pytest.raises(NodeError) as caught:
        AsyncRunner().stream(app(choose), "l")
    assert isinstance(caught.value.__cause__, StreamLoopError)
    assert AsyncRunner().stream(app(choose_awaiting), "l") == ["L(l)"]


def test_a_plain_handler_of_async_chunks() -> None:
    """In an async run a plain generator function may be a handler of chunks that async code makes."""

    async def source(value: str) -> AsyncIterator[str]:
        for letter in value:
            await asyncio.sleep(0)
            yield letter

    def upper(chunks: StreamReader[str], state: list[str]) -> Iterator[str]:
        for chunk in chunks:
            yield chunk.upper()

    graph = Graph(str, str, state=list)
    graph.add_node("source", source, post=upper)

    assert AsyncRunner().stream(wire(graph, "start source end").compile(), "ab") == ["A", "B"]


@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_texts_that_meet_at_the_end(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B022: two texts at END have no merge and fail the run, in value and stream runs."""
    graph = Graph(str, str)
    graph.add_node("1", echo)
    graph.add_node("2", echo)
    wire(graph, "start 1 end", "start 2 end")

    with pytest.raises(MergeError, match="unsupported type"):
        getattr(runner, shape)(graph.compile(**mode), "x")


def test_one_value_passes_unmerged(runner: Runner, mode: dict[str, Any]) -> None:
    """B022: a single arriving value passes whatever its class."""
    value = object()
    graph = Graph()
    graph.add_node("1", lambda _: value)

    assert runner.stream(wire(graph, "start 1 end").compile(**mode), "x") == [value]


def test_ends_of_sources_are_marked(runner: Runner, mode: dict[str, Any]) -> None:
    """B023: with mark_source_end, a marker for each node that feeds END stands among the chunks."""
    graph = Graph(int, dict)
    graph.add_node("s1", Node(stream=lambda number: [number + 1, number + 2]), output_key="s1")
    graph.add_node("s2", Node(stream=lambda number: [number + 10, number + 20]), output_key="s2")
    wire(graph, "start s1 end", "start s2 end")
    app = graph.compile(mark_source_end=True, **mode)

    chunks = runner.stream(app, 1)

    values = [chunk for chunk in chunks if not isinstance(chunk, SourceEnd)]
    ends = [chunk for chunk in chunks if isinstance(chunk, SourceEnd)]
    assert {key: {chunk[key] for chunk in values if key in chunk} for key in ("s1", "s2")} == {
        "s1": {2, 3},
        "s2": {11, 21},
    }
    assert sorted(end.source for end in ends) == ["s1", "s2"]


@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_one_key_from_two_sources(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B025, K43: the same key from two nodes is the same error in stream runs as in value runs."""
    graph = Graph(str, dict)
    graph.add_node("2", emitting({"k": "x2"}))
    graph.add_node("3", emitting({"k": "x3"}))
    wire(graph, "start 2 end", "start 3 end")

    with pytest.raises(MergeError, match="end: key 'k' comes from both") as caught:
        getattr(runner, shape)(graph.compile(**mode), "x")
    assert caught.value.path == [END]


@serializable("tests.test_runs_shapes.Seen")
@dataclass
class Seen:
    """What handlers saw."""

    texts: list[str] = field(default_factory=list)
    text: str = "1"


def seeing(value: str, state: Seen) -> str:
    """Note what a handler is given."""
    state.texts.append(value)
    return value


@pytest.mark.parametrize("shape", ["invoke", "stream", "transform"])
def test_value_handlers_on_streams(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B034: handlers of values get the joined value of a stream, in every kind of run."""
    states: list[Seen] = []

    def fresh() -> Seen:
        states.append(Seen())
        return states[-1]

    def words(text: str) -> Iterator[str]:
        yield from (f"{word} " for word in f"S: {text}".split())

    def c(chunks: StreamReader[str]) -> Iterator[str]:
        yield "T: "
        yield from chunks

    graph = Graph(str, str, state=fresh)
    graph.add_node("A", lambda text: f"I: {text}", pre=seeing, post=seeing)
    graph.add_node("B", words, post=seeing)
    graph.add_node("C", c, post=seeing)
    app = wire(graph, "start A B C end").compile(**mode)
    given = "how are you"

    result = getattr(runner, shape)(app, [given] if shape == "transform" else given)

    assert (result if shape == "invoke" else concat(result)) == "T: S: I: how are you "
    assert states[-1].texts == ["how are you", "I: how are you", "S: I: how are you ", "T: S: I: how are you "]


def test_stream_handlers(runner: Runner, mode: dict[str, Any]) -> None:
    """B035: handlers that take a reader replace and see the chunks."""
    states: list[Seen] = []

    def fresh() -> Seen:
        states.append(Seen())
        return states[-1]

    def pre(chunks: StreamReader[str], state: Seen) -> list[str]:
        return [state.text] * 5

    def post(chunks: StreamReader[str], state: Seen) -> StreamReader[str]:
        mine, result = chunks.copy(2)
        for chunk in mine:
            state.text += chunk
        return result

    graph = Graph(str, str, state=fresh)
    graph.add_node("1", passing, pre=pre, post=post)
    app = wire(graph, "start 1 end").compile(**mode)

    assert runner.stream(app, "x") == ["1"] * 5
    assert states[-1].text == "111111"
    assert runner.invoke(app, "x") == "11111"


def test_no_chunks_for_a_node_of_values(runner: Runner, mode: dict[str, Any]) -> None:
    """B049: joining no chunks is an error of the node that needs a value."""
    app = chain("1").compile(**mode)

    with pytest.raises(NodeError) as caught:
        runner.transform(app, [])
    assert caught.value.path == ["1"]
    assert isinstance(caught.value.__cause__, EmptyStreamError)


def test_a_target_named_twice_gets_one_copy(runner: Runner, mode: dict[str, Any]) -> None:
    """K49: an edge and a branch to one target deliver once, and no copy stays open."""
    closed: list[str] = []

    def source(value: str) -> Iterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append("source")

    def choose(chunks: StreamReader[str]) -> list[str]:
        return ["2", "2"]

    graph = Graph(str, str)
    graph.add_node("1", source)
    graph.add_node("2", passing)
    graph.add_branch("1", choose, ["2"])
    wire(graph, "start 1 2 end")

    assert runner.stream(graph.compile(**mode), "x") == ["a", "b"]
    assert closed == ["source"]


def test_async_nodes_need_the_loop(mode: dict[str, Any]) -> None:
    """Async nodes stream under the asyncio driver; the threaded one refuses them before anything runs."""

    async def source(value: str) -> AsyncIterator[str]:
        for letter in value:
            yield letter

    async def shout(chunks: StreamReader[str]) -> AsyncIterator[str]:
        async for chunk in chunks:
            yield chunk.upper()

    def title(chunks: StreamReader[str]) -> Iterator[str]:
        for chunk in chunks:
            yield chunk.swapcase()

    async def value(text: str) -> str:
        return f"<{text}>"

    app = chain("1", "2", "3", "4", "5", **{"1": source, "2": shout, "3": title, "4": value, "5": passing}).compile(
        **mode
    )

    assert AsyncRunner().stream(app, "ab") == ["<ab>"]
    assert AsyncRunner().invoke(app, "ab") == "<ab>"
    with pytest.raises(OptionError, match=r"\['1', '2', '4'\] have async functions.*astream"):
        SyncRunner().stream(app, "ab")
    with pytest.raises(OptionError, match="ainvoke"):
        SyncRunner().invoke(app, "ab")


def test_a_node_with_several_shapes(runner: Runner) -> None:
    """A Node is called by the shape that the run wants."""
    node = Node(invoke=lambda text: f"value {text}", transform=lambda chunks: (f"<{chunk}>" for chunk in chunks))
    app = chain("1", **{"1": node}).compile()

    assert runner.invoke(app, "x") == "value x"
    assert runner.transform(app, ["a", "b"]) == ["<a>", "<b>"]


def test_a_failing_stream_is_its_makers_fault(runner: Runner, mode: dict[str, Any]) -> None:
    """An error in a stream is charged to the node that makes it, wherever it is read."""

    def bad(value: str) -> Iterator[str]:
        yield "a"
        raise ValueError("no more")

    app = chain("1", "2", "3", **{"1": bad, "2": passing, "3": appending("3")}).compile(**mode)

    for run in (runner.stream, runner.invoke):
        with pytest.raises(NodeError, match="node 1 failed: ValueError: no more") as caught:
            run(app, "x")
        assert caught.value.path == ["1"]


def test_a_caught_failure_is_still_one(runner: Runner) -> None:
    """A node that catches the failure of the stream it reads does not undo it: the run fails as in a value run."""

    def bad(value: str) -> Iterator[str]:
        yield "a"
        raise ValueError("no more")

    def catching(chunks: StreamReader[str]) -> Iterator[str]:
        try:
            yield from chunks
        except NodeError:
            yield "caught"

    with pytest.raises(NodeError, match="node 1 failed"):
        runner.stream(chain("1", "2", **{"1": bad, "2": catching}).compile(), "x")


def test_types_are_checked_on_the_joined_value(runner: Runner) -> None:
    """A declared input type is checked where chunks become the node's value."""

    def two(text: str) -> str:
        return text

    def one(value: Any) -> Iterator[Any]:
        yield 1

    with pytest.raises(ValueMismatchError, match="node 2 takes str and got int"):
        runner.stream(chain("1", "2", **{"1": one, "2": two}).compile(), "x")


def test_an_input_stream_that_fails(runner: Runner) -> None:
    """What the caller's stream raises is charged to START."""

    def chunks() -> Iterator[str]:
        yield "a"
        raise OSError("cut off")

    with pytest.raises(NodeError, match=r"input stream.*cut off") as caught:
        runner.transform(chain("1", "2", **{"1": passing}).compile(), chunks())
    assert caught.value.path == [START]


def test_a_node_that_nobody_reads_runs_to_its_end(runner: Runner) -> None:
    """A streaming node without successors does its work before the run is over, as in a value run."""
    done: list[str] = []

    def aside(value: str) -> Iterator[str]:
        yield value
        done.append(value)

    graph = Graph(str, str)
    graph.add_node("aside", aside)
    graph.add_node("1", echo)
    wire(graph, "start 1 end", "start aside")

    assert runner.stream(graph.compile(mode="dag"), "x") == ["x"]
    assert done == ["x"]


def test_a_long_row_of_lazy_nodes(runner: Runner) -> None:
    """So many streaming nodes in a row that reading one chunk by the next would exhaust the stack."""
    keys = [str(number) for number in range(150)]

    assert runner.stream(chain(*keys, **dict.fromkeys(keys, passing)).compile(), "x") == ["x"]
