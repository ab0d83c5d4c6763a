"""A tools node in stream runs that stop: what is kept, who is asked, what its readers see, and either run resumes the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cancelling import AT_ONCE, Gate
from drivers import Runner, SyncRunner
from graphs import Calls
from pausing import asked, ids, places
from stream_runs import LIMIT, nothing_left, until
from streaming import Background, record_of
from tool_calls import KINDS, ORDERS, asking, by_id, call, contents, failure, of_kind, streaming, tools_app, tools_graph
from wiring import wire

from blobcp import (
    END,
    START,
    App,
    CancelToken,
    ChatChunk,
    Graph,
    Interrupted,
    KeptChunks,
    NodeError,
    StreamReader,
    ToolsNode,
    ValueMismatchError,
    concat,
    get_interrupt_state,
    interrupt,
    read_header,
)
from blobcp.stores import FileStore, MapStore
from blobcp.tools import ToolMessages

WAYS = pytest.mark.parametrize(("first", "second"), [("stream", "stream"), ("stream", "invoke"), ("invoke", "stream")])


def run(runner: Runner, app: App, shape: str, input: Any = None, **options: Any) -> Any:
    """Run an app by a value or a stream run, and return its value."""
    given = getattr(runner, shape)(app, input, **options)
    return concat(given) if shape == "stream" else given


def stopped(runner: Runner, app: App, shape: str, input: Any = None, **options: Any) -> Interrupted:
    """Run what is to stop, and return the stop."""
    with pytest.raises(Interrupted) as caught:
        run(runner, app, shape, input, **options)
    return caught.value


def fours(calls: Calls, kind: str, streams: bool) -> list[Any]:
    """Return B099's tools: 1 and 2 interrupt on their first call, 3 and 4 do not."""

    def make(number: int) -> Any:
        def answer(text: str) -> str:
            if calls.note(f"{number}") == 1 and number < 3:
                interrupt(f"tool{number} rerun extra")
            return f"tool{number} input: {text}"

        def pieces(text: str) -> Iterator[str]:
            yield "tool"
            yield answer(text).removeprefix("tool")

        answer.__name__ = pieces.__name__ = f"tool{number}"
        return streaming(kind, pieces) if streams else of_kind(kind, answer)

    return [make(number) for number in (1, 2, 3, 4)]


@KINDS
@ORDERS
@WAYS
@pytest.mark.parametrize("streams", [True, False])
def test_finished_calls_do_not_run_again(
    runner: Runner,
    mode: dict[str, Any],
    kind: str,
    parallel: bool,
    first: str,
    second: str,
    streams: bool,
) -> None:
    """B099: of four calls two wait; the results of the others are kept, and what the re-run passes in is not used."""
    calls = Calls()
    graph = Graph()
    graph.add_node("tool node", ToolsNode(fours(calls, kind, streams), parallel=parallel))
    graph.add_edge(START, "tool node")
    graph.add_edge("tool node", END)
    app = graph.compile(store=MapStore(), **mode)
    request = asking(*(call(number, f"tool{number}", text="input") for number in "3412"))
    stop = stopped(runner, app, first, request, checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["tool node"]
    assert stop.info.rerun_extra["tool node"] == {
        "calls": [
            {"id": number, "name": f"tool{number}", "arguments": '{"text": "input"}', "key": number}
            for number in "3412"
        ],
        "executed": {"3": "tool3 input: input", "4": "tool4 input: input"},
        "rerun": ["1", "2"],
        "extra": {"1": "tool1 rerun extra", "2": "tool2 rerun extra"},
    }
    again = run(runner, app, second, asking(call("9", "tool3", text="else")), checkpoint_id="1")
    assert [message["tool_call_id"] for message in again] == list("3412")
    assert "".join(text for _, text in sorted(contents(again).items())) == (
        "tool1 input: inputtool2 input: inputtool3 input: inputtool4 input: input"
    )
    assert dict(calls.count) == {"1": 2, "2": 2, "3": 1, "4": 1}


@KINDS
def test_what_is_done_is_said_before_the_stop(runner: Runner, kind: str) -> None:
    """Finished calls are given before the stop is raised; on resume what was kept comes first, at its places."""
    app = tools_app(*fours(Calls(), kind, False), store=MapStore())
    request = asking(*(call(number, f"tool{number}", text="x") for number in "3142"))
    chunks: list[Any] = []

    def read() -> None:
        with app.stream(request, checkpoint_id="1") as reader:
            chunks.extend(reader)

    async def aread() -> None:
        async with app.astream(request, checkpoint_id="1") as reader:
            async for chunk in reader:
                chunks.append(chunk)

    with pytest.raises(Interrupted):
        read() if isinstance(runner, SyncRunner) else asyncio.run(aread())

    assert by_id(chunks, request) == {"3": "tool3 input: x", "1": "", "4": "tool4 input: x", "2": ""}
    again = runner.stream(app, checkpoint_id="1")
    assert [message and message["tool_call_id"] for message in again[0]] == ["3", None, "4", None]
    assert by_id(again, request) == {number: f"tool{number} input: x" for number in "1234"}


@KINDS
@WAYS
def test_a_tool_that_asks_in_mid_stream(
    runner: Runner, store: MapStore | FileStore, kind: str, first: str, second: str
) -> None:
    """A tool that has given chunks may ask; it runs again from its top, with an address and an answer of its own."""
    calls = Calls()

    def tell(who: str) -> Iterator[str]:
        state = get_interrupt_state(str)
        assert state.state in (None, f"state of {who}")
        calls.note(f"enter {who}")
        yield f"{who} "
        answer = interrupt(f"{who}?", state=f"state of {who}")
        yield f"{answer} "
        yield str(interrupt("sure?"))
        calls.note(f"end {who}")

    app = tools_app(streaming(kind, tell), store=store)
    request = asking(call("1", "tell", who="a"), call("2", "tell", who="b"))
    stop = stopped(runner, app, first, request, checkpoint_id="run")
    assert places(stop) == ["runnable:root;node:tools;tool:tell:1", "runnable:root;node:tools;tool:tell:2"]
    point = ids(stop)

    stop = stopped(runner, app, second, checkpoint_id="run", answers={point["b?"]: "B"})
    assert asked(stop) == ["a?", "sure?"]
    assert ids(stop)["a?"] == point["a?"]
    stop = stopped(runner, app, first, checkpoint_id="run", answers={stop.interrupts[1].id: "yes"})
    assert asked(stop) == ["a?"]
    stop = stopped(runner, app, second, checkpoint_id="run", answers={point["a?"]: "A"})
    assert asked(stop) == ["sure?"]
    messages = run(runner, app, first, checkpoint_id="run", answers={stop.interrupts[0].id: "no"})

    assert contents(messages) == {"1": "a A no", "2": "b B yes"}
    assert dict(calls.count) == {"enter a": 3, "enter b": 3, "end a": 1, "end b": 1}
    assert read_header(store.get("run") or b"").status == "done"


@KINDS
@WAYS
def test_a_question_in_mid_stream_that_reads_differently(runner: Runner, kind: str, first: str, second: str) -> None:
    """A question that holds a time, say, is known by its turn, also after chunks that came through other threads and tasks."""
    times = Calls()

    def tell() -> Iterator[str]:
        yield "a"
        yield str(interrupt(f"it is {times.note('asked')} o'clock, go on?"))

    app = tools_app(streaming(kind, tell), store=MapStore())
    stop = stopped(runner, app, first, asking(call("1", "tell"), call("2", "tell")), checkpoint_id="1")
    messages = run(runner, app, second, checkpoint_id="1", answers={point.id: "!" for point in stop.interrupts})

    assert contents(messages) == {"1": "a!", "2": "a!"}
    assert times["asked"] == 4


@KINDS
def test_an_answer_given_in_mid_stream(runner: Runner, kind: str) -> None:
    """A resume that streams gives the pieces of the answered call as they come; nothing of the other call is entered."""
    app = tools_app(*fours(Calls(), kind, True), store=MapStore())
    request = asking(call("1", "tool1", text="x"), call("2", "tool2", text="x"))
    point = ids(stopped(runner, app, "stream", request, checkpoint_id="1"))
    stopped(runner, app, "stream", checkpoint_id="1", answers={point["tool2 rerun extra"]: 1})
    chunks = runner.stream(app, checkpoint_id="1", answers={point["tool1 rerun extra"]: 1})

    assert [[message and message["content"] for message in chunk] for chunk in chunks] == [
        [None, "tool2 input: x"],
        ["tool", None],
        ["1 input: x", None],
    ]


@KINDS
@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_failure_and_stop(runner: Runner, kind: str, shape: str) -> None:
    """B101: an ordinary error in one tool wins over an interrupt in another; nothing is written."""
    store = MapStore()

    def ask() -> Iterator[str]:
        yield "a"
        yield interrupt("?")

    def boom() -> str:
        raise ValueError("broken")

    app = tools_app(streaming(kind, ask), of_kind(kind, boom), store=store)
    error = failure(runner, app, asking(call("1", "ask"), call("2", "boom")), shape, checkpoint_id="1")

    assert str(error) == "tool 'boom' (call '2') failed: ValueError: broken"
    assert store.get("1") is None


@KINDS
def test_a_stop_keeps_no_later_call_from_running(runner: Runner, kind: str) -> None:
    """B101: in sequential execution a tool that interrupts does not keep later tools from running."""
    calls = Calls()
    app = tools_app(*fours(calls, kind, True), store=MapStore(), parallel=False)
    request = asking(*(call(number, f"tool{number}", text="x") for number in "1324"))
    stop = stopped(runner, app, "stream", request, checkpoint_id="1")

    assert asked(stop) == ["tool1 rerun extra", "tool2 rerun extra"]
    assert calls.order == list("1324")


@KINDS
@WAYS
def test_in_nested_graphs(runner: Runner, mode: dict[str, Any], kind: str, first: str, second: str) -> None:
    """B100: a tool paused two nested graphs deep."""
    inner: Graph = tools_graph(streaming(kind, asking_tool))
    for key in ("sub_graph_b", "sub_graph_a"):
        outer = Graph()
        outer.add_node(key, inner)
        outer.add_edge(START, key)
        outer.add_edge(key, END)
        inner = outer
    app = inner.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, first, asking(call("tool_call_123", "interrupt_tool")), checkpoint_id="1")

    (point,) = stop.interrupts
    where = "runnable:root;node:sub_graph_a;node:sub_graph_b;node:tools"
    assert str(point.address) == f"{where};tool:interrupt_tool:tool_call_123"
    assert point.is_root_cause
    assert point.parent is not None
    assert (str(point.parent.address), point.parent.is_root_cause) == (where, False)
    messages = run(runner, app, second, checkpoint_id="1", answers={point.id: "data"})
    assert contents(messages) == {"tool_call_123": "got data"}


def asking_tool() -> Iterator[str]:
    """Ask between two pieces."""
    yield "got "
    yield str(interrupt("?"))


asking_tool.__name__ = "interrupt_tool"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"role": "user", "content": "?"}, "a message of role 'user'"),
        ({"role": "assistant", "content": "?"}, "without tool calls"),
        (asking(call("1", "nope")), "there is no tool 'nope'"),
    ],
)
def test_requests_that_are_none(runner: Runner, request_: Any, text: str) -> None:
    """B102: what is no request fails a stream run with the node's path."""
    with pytest.raises(NodeError, match=text) as caught:
        runner.stream(tools_app(asking_tool), request_)
    assert caught.value.path == ["tools"]


def test_unknown_tools_by_a_handler(runner: Runner) -> None:
    """B102: what a handler of unknown tools returns is the call's message, in a stream run too; it may ask as well."""
    app = tools_app(on_unknown=lambda call: f"{call.name}: {interrupt('what is it?')}", store=MapStore())
    stop = stopped(runner, app, "stream", asking(call("1", "nope")), checkpoint_id="1")

    (point,) = stop.interrupts
    assert contents(run(runner, app, "stream", checkpoint_id="1", answers={point.id: "!"})) == {"1": "nope: !"}


def consuming(kind: str, store: Any, tools: Any, seen: list[Any], **options: Any) -> App:
    """Return START -> tools -> reader -> END, where the reader is a node of that kind that notes what it is given."""

    def of_values(messages: Any) -> Any:
        seen.append(messages)
        return contents(messages)

    def collecting(chunks: StreamReader[Any]) -> Any:
        seen.append(list(chunks))
        return contents(concat(seen[-1]))

    def transforming(chunks: StreamReader[Any]) -> Iterator[Any]:
        seen.append([])
        for chunk in chunks:
            seen[-1].append(chunk)
            yield {message["tool_call_id"]: message["content"] for message in chunk if message is not None}

    graph = Graph()
    graph.add_node("tools", tools)
    graph.add_node("reader", {"value": of_values, "collect": collecting, "transform": transforming}[kind])
    return wire(graph, "start tools reader end").compile(store=store, **options)


@pytest.mark.parametrize("reader", ["value", "collect", "transform"])
@WAYS
def test_readers_after_stop_and_resume(
    runner: Runner, mode: dict[str, Any], reader: str, first: str, second: str
) -> None:
    """Whatever reads the messages sees each once after a stop and a resume; what it was shown before is taken back."""
    seen: list[Any] = []
    calls = Calls()
    request = asking(*(call(number, f"tool{number}", text="x") for number in "3412"))
    tools = ToolsNode(fours(calls, "plain", True))
    app = consuming(reader, MapStore(), tools, seen, **mode)
    stopped(runner, app, first, request, checkpoint_id="1")
    seen.clear()
    result = run(runner, app, second, checkpoint_id="1")

    whole = {number: f"tool{number} input: x" for number in "3412"}
    assert result == whole
    (last,) = seen
    if reader == "value":
        assert type(last) is list
        assert [type(message) for message in last] == [dict] * 4
        assert contents(last) == whole
    elif second == "stream":
        assert by_id(last, request) == whole
    else:
        assert [contents(chunk) for chunk in last] == [whole]
    assert dict(calls.count) == {"1": 2, "2": 2, "3": 1, "4": 1}


@pytest.mark.parametrize("chunks", [[], ["one"], ["a", "b"], [{"a": 1}]])
def test_a_node_of_values_sees_what_a_value_run_shows(runner: Runner, chunks: list[Any]) -> None:
    """A list of messages, of plain classes, also of a single call that gave a single chunk."""
    seen: list[Any] = []

    def tell() -> Iterator[Any]:
        yield from chunks

    app = consuming("value", None, ToolsNode([tell]), seen)
    request = asking(call("1", "tell"))
    assert run(runner, app, "stream", request) == run(runner, app, "invoke", request)

    assert seen[0] == seen[1]
    assert [type(each) for each in seen] == [list, list]
    assert [type(message) for messages in seen for message in messages] == [dict, dict]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("second", ["stream", "invoke"])
def test_what_waits_in_a_checkpoint(runner: Runner, store: MapStore | FileStore, keep: bool, second: str) -> None:
    """Messages that wait for a node are stored as a value run would store them, or chunk by chunk with `keep_chunks`."""
    seen: list[Any] = []

    def tell() -> Iterator[str]:
        yield "a"
        yield "b"

    def add() -> int:
        return 5

    tools = ToolsNode([tell, add], parallel=False)
    app = consuming("collect", store, tools, seen, interrupt_before=["reader"], keep_chunks=keep)
    request = asking(call("1", "tell"), call("2", "add"))
    whole = [
        {"role": "tool", "tool_call_id": "1", "name": "tell", "content": "ab"},
        {"role": "tool", "tool_call_id": "2", "name": "add", "content": "5"},
    ]
    stopped(runner, app, "stream", request, checkpoint_id="1")

    stored = record_of(store, "1").inputs["reader"]
    if keep:
        assert isinstance(stored, KeptChunks)
        assert [type(chunk) for chunk in stored.chunks] == [ToolMessages] * 3
        assert isinstance(stored.chunks[0][0], ChatChunk)
        assert stored.value() == whole
    else:
        assert type(stored) is list
        assert [type(message) for message in stored] == [dict, dict]
        assert stored == whole
    assert run(runner, app, second, checkpoint_id="1") == {"1": "ab", "2": "5"}
    assert len(seen[0]) == (3 if keep and second == "stream" else 1)
    assert concat(seen[0]) == whole


MODEL_CHUNKS = [
    {"role": "assistant", "content": None},
    {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "spell", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"wo'}}]},
    {
        "tool_calls": [
            {"index": 1, "id": "c2", "type": "function", "function": {"name": "spell", "arguments": '{"word'}}
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": 'rd": "ab"}'}}]},
    {"tool_calls": [{"index": 1, "function": {"arguments": '": "cd"}'}}]},
]


def document(delta: dict[str, Any]) -> ChatChunk:
    """Return a delta in a ``chat.completion.chunk``."""
    return ChatChunk(id="x", object="chat.completion.chunk", choices=[{"index": 0, "delta": delta}])


def spell(word: str) -> Iterator[str]:
    """Give letters."""
    yield from word


@pytest.mark.parametrize("made", [ChatChunk, document], ids=["deltas", "documents"])
@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_a_model_that_streams(runner: Runner, mode: dict[str, Any], made: Any, shape: str) -> None:
    """A model's chunks, with pieces of the arguments of several calls, are the request once they are joined."""

    def model(question: str) -> Iterator[ChatChunk]:
        for delta in MODEL_CHUNKS:
            yield made(delta)

    graph = Graph()
    graph.add_node("model", model)
    graph.add_node("tools", ToolsNode([spell]))
    app = wire(graph, "start model tools end").compile(**mode)

    assert contents(run(runner, app, shape, "?")) == {"c1": "ab", "c2": "cd"}


MESSAGE = asking(call("c1", "spell", word="ab"))


@pytest.mark.parametrize(
    "document",
    [
        {"object": "chat.completion", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}]},
        document(MESSAGE),
    ],
    ids=["whole", "one chunk"],
)
@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_completion_documents(runner: Runner, document: Any, shape: str) -> None:
    """A whole completion is taken for the message of its choice, also where it came as one chunk and has a delta."""
    assert contents(run(runner, tools_app(spell), shape, document)) == {"c1": "ab"}


def test_completions_with_several_choices(runner: Runner) -> None:
    """Of several answers none is chosen, and the calls of none are run."""
    request = {"choices": [{"index": 0, "message": MESSAGE}, {"index": 1, "message": MESSAGE}]}

    error = failure(runner, tools_app(spell), request)

    assert isinstance(error, ValueMismatchError)
    assert "handed a completion with 2 choices" in str(error)


def test_a_completion_without_calls(runner: Runner) -> None:
    """A completion that asks for no tool is refused like such a message."""
    request = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}]}

    assert isinstance(failure(runner, tools_app(spell), request), ValueMismatchError)


def test_a_loop_of_model_and_tools(runner: Runner) -> None:
    """An agent whose model and tools both stream goes round, stops in a tool, and goes on, in either kind of run."""
    rounds = Calls()

    def model(messages: Any) -> Iterator[ChatChunk]:
        if rounds.note("model") < 3:
            asks = call(f"c{rounds['model']}", "ask", word=f"w{rounds['model']}")
            arguments = asks["function"].pop("arguments")
            yield ChatChunk(role="assistant", tool_calls=[{"index": 0, **asks}])
            yield ChatChunk(tool_calls=[{"index": 0, "function": {"arguments": arguments}}])
        else:
            yield ChatChunk(role="assistant", content=contents(messages)["c2"])

    def ask(word: str) -> Iterator[str]:
        yield word
        yield str(interrupt(f"{word}?"))

    graph = Graph()
    graph.add_node("model", model)
    graph.add_node("tools", ToolsNode([ask]))
    graph.add_edge(START, "model")
    graph.add_branch("model", lambda message: "tools" if message.get("tool_calls") else END, ["tools", END])
    graph.add_edge("tools", "model")
    app = graph.compile(store=MapStore())
    stop = stopped(runner, app, "stream", "go", checkpoint_id="1")
    stop = stopped(runner, app, "invoke", checkpoint_id="1", answers={stop.interrupts[0].id: "!"})
    assert places(stop) == ["runnable:root;node:tools;tool:ask:c2"]

    assert run(runner, app, "stream", checkpoint_id="1", answers={stop.interrupts[0].id: "."})["content"] == "w2."
    assert rounds["model"] == 3


def cancelled(runner: Runner, app: App, gate: Gate, input: Any = None, **options: Any) -> Interrupted:
    """Cancel a stream run at once while a tool is inside the gate."""
    token = CancelToken()
    background = Background(lambda: runner.stream(app, input, cancel=token, **options))
    assert gate.entered.wait(LIMIT)
    token.cancel(AT_ONCE)
    stop = background.error()
    gate.let_go()
    assert isinstance(stop, Interrupted)
    return stop


@KINDS
@pytest.mark.parametrize("second", ["stream", "invoke"])
def test_a_tool_that_is_given_up_runs_again(runner: Runner, mode: dict[str, Any], kind: str, second: str) -> None:
    """B103: cancelled at once inside the only tool, the node runs again with the request it had, whatever it is given then."""
    gate = Gate("")

    def test_tool(text: str) -> str:
        return f"result_{gate(text)}"

    async def awaited(text: str) -> str:
        return f"result_{await gate.awaiting(text)}"

    awaited.__name__ = "test_tool"
    app = tools_graph(awaited if kind == "awaited" else test_tool).compile(store=MapStore(), **mode)
    with nothing_left():
        stop = cancelled(runner, app, gate, asking(call("c1", "test_tool", text="test")), checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["tools"]
    assert contents(run(runner, app, second, {"role": "assistant"}, checkpoint_id="run")) == {"c1": "result_test"}
    assert gate.calls.inputs == {"": ["test", "test"]}


@KINDS
def test_a_stream_that_is_given_up_is_closed(runner: Runner, kind: str) -> None:
    """K45: a cancel closes the streams that tools have opened; each call runs again from its top."""
    calls = Calls()
    gate = Gate("")

    def tell() -> Iterator[str]:
        calls.note("opened")
        try:
            yield "a"
            yield "b"
        finally:
            calls.note("closed")

    def work() -> str:
        until(lambda: calls["opened"])
        return str(gate("done"))

    app = tools_app(streaming(kind, tell), work, store=MapStore())
    request = asking(call("1", "tell"), call("2", "work"))
    with nothing_left():
        cancelled(runner, app, gate, request, checkpoint_id="run")
    until(lambda: calls["closed"] == 1)

    assert contents(run(runner, app, "stream", checkpoint_id="run")) == {"1": "ab", "2": "done"}
    assert dict(calls.count) == {"opened": 2, "closed": 2}


def test_what_had_been_kept_is_still_kept(runner: Runner) -> None:
    """A stream run that is cancelled while one call is answered keeps the calls that finished before, and the answer."""
    gate, told = Gate(""), []

    def note(text: str) -> str:
        told.append(text)
        return text

    def ask(text: str) -> Iterator[str]:
        yield str(gate(text))
        yield str(interrupt("sure?"))

    app = tools_app(note, ask, store=MapStore())
    gate.let_go()
    request = asking(call("c1", "note", text="a"), call("c2", "ask", text="b"))
    question = stopped(runner, app, "stream", request, checkpoint_id="run").interrupts[0]
    gate.go.clear()
    gate.entered.clear()
    cancelled(runner, app, gate, answers={question.id: "!"}, checkpoint_id="run")

    assert contents(run(runner, app, "stream", checkpoint_id="run")) == {"c1": "a", "c2": "b!"}
    assert told == ["a"]
    assert gate.calls.inputs == {"": ["b", "b", "b"]}


def test_tools_that_may_finish(runner: Runner) -> None:
    """B111 with a tools node in a stream run: without a time-out its calls end, and nothing of them is repeated."""
    gate = Gate("")
    token = CancelToken()

    def work() -> Iterator[str]:
        yield "a"
        yield str(gate("b"))

    app = tools_app(work, store=MapStore())
    background = Background(
        lambda: gate.calls.note("result", concat(runner.stream(app, asking(call("1", "work")), cancel=token)))
    )
    assert gate.entered.wait(LIMIT)
    token.cancel()
    gate.let_go()

    assert background.error() is None  # B118: it was the last node
    assert contents(gate.calls.inputs["result"][0]) == {"1": "ab"}
    assert gate.calls[""] == 1


def test_threads_of_one_visit_end(runner: Runner) -> None:
    """No thread is left of a visit that stops, nor of one that fails."""

    def ask() -> Iterator[str]:
        yield "a"
        yield interrupt("?")

    def boom() -> Iterator[str]:
        yield "a"
        raise ValueError("broken")

    before = set(threading.enumerate())
    with nothing_left():
        stopped(
            runner,
            tools_app(ask, store=MapStore()),
            "stream",
            asking(call("1", "ask"), call("2", "ask")),
            checkpoint_id="1",
        )
        failure(runner, tools_app(ask, boom), asking(call("1", "ask"), call("2", "boom")), "stream")
    until(lambda: not set(threading.enumerate()) - before)
