"""Tools that stream: what their chunks become in value runs and in stream runs, how they fail, and that they are closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from drivers import Runner, SyncRunner
from graphs import Calls
from pausing import solo
from stream_runs import LIMIT, nothing_left, until
from tool_calls import KINDS, asking, by_id, call, contents, failure, of_kind, streaming, tools_app, tools_graph

from blobcp import (
    ChatChunk,
    ConcatError,
    NodeError,
    SourceEnd,
    StreamReader,
    Tool,
    ToolError,
    ToolsNode,
    concat,
    register_concat,
)
from blobcp.tools import ToolMessages

SHAPES = pytest.mark.parametrize("shape", ["invoke", "stream", "collect", "transform"])


def tool_message(id: str, name: str, content: str) -> dict[str, str]:
    """Return what a model is told, whole."""
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


def given(runner: Runner, app: Any, request: Any, shape: str) -> Any:
    """Run an app in one of the four ways, and return what it gives as one value."""
    if shape == "collect":
        return runner.collect(app, [request])
    if shape == "transform":
        return concat(runner.transform(app, [request]))
    return runner.invoke(app, request) if shape == "invoke" else concat(runner.stream(app, request))


def say(*chunks: Any) -> Callable[[], Iterator[Any]]:
    """Return a tool that gives these chunks."""

    def tell() -> Iterator[Any]:
        yield from chunks

    return tell


@KINDS
@SHAPES
@pytest.mark.parametrize(
    ("chunks", "content"),
    [
        (["He", "llo"], "Hello"),
        (["one"], "one"),
        ([], ""),
        ([""], ""),
        ([{"a": "x"}, {"a": "y", "b": 1}], '{"a":"xy","b":1}'),
        ([[1], [2]], "[1,2]"),
        ([3, 5], "5"),
        ([None, "a", None, "b"], "ab"),
        ([None], "null"),
        (["a", SourceEnd("s"), "b"], "ab"),
        ([SourceEnd("s")], ""),
    ],
)
def test_chunks_are_one_result(runner: Runner, kind: str, shape: str, chunks: list[Any], content: str) -> None:
    """In each kind of run the chunks of a tool are joined to its result; none at all are the empty text."""
    messages = given(runner, tools_app(streaming(kind, say(*chunks))), asking(call("c1", "tell")), shape)

    assert messages == [tool_message("c1", "tell", content)]
    assert type(messages) is list
    assert [type(message) for message in messages] == [dict]


def as_reader() -> StreamReader[str]:
    """Return a stream, and say so."""
    return StreamReader(["a", "b"])


def says_reader() -> StreamReader[str]:
    """Say so, and return what a stream can be made of."""
    return ["a", "b"]  # type: ignore[return-value]


def as_generator() -> Any:
    """Return a generator without saying so."""
    return (letter for letter in "ab")


def as_async_reader() -> Any:
    """Return a stream of an async source without saying so."""

    async def letters() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    return StreamReader(letters())


class Speller:
    """A callable object that is an async generator function."""

    async def __call__(self) -> AsyncIterator[str]:
        yield "a"
        yield "b"


@KINDS
@SHAPES
@pytest.mark.parametrize("function", [as_reader, says_reader, as_generator, as_async_reader])
def test_functions_that_return_streams(runner: Runner, kind: str, shape: str, function: Any) -> None:
    """A function that returns a reader or a generator streams, whether it says so or not."""
    app = tools_app(Tool(of_kind(kind, function), name="spell"))

    assert given(runner, app, asking(call("1", "spell")), shape) == [tool_message("1", "spell", "ab")]


@SHAPES
def test_callable_objects_that_stream(runner: Runner, shape: str) -> None:
    """What counts is what is called in the end, as for nodes."""
    app = tools_app(Tool(Speller(), name="spell"))

    assert given(runner, app, asking(call("1", "spell")), shape) == [tool_message("1", "spell", "ab")]


@pytest.mark.parametrize("function", [say("a"), streaming("awaited", say("a")), as_reader, says_reader])
def test_what_a_tool_says_of_itself(function: Any) -> None:
    """`Tool.streams` tells whether the function says that it gives chunks, `Tool.is_async` whether it needs a loop."""
    tool = Tool(function, name="t")

    assert (tool.streams, tool.is_async) == (
        True,
        function.__name__ == "tell" and "awaited" in function.__code__.co_name,
    )
    assert not Tool(as_generator).streams


@KINDS
def test_pieces_come_as_they_are(runner: Runner, kind: str) -> None:
    """Pieces of text are chunks of the tool message, each at the place of its call; joined they are the whole message."""
    app = tools_app(streaming(kind, say("He", "llo")))
    chunks = runner.stream(app, asking(call("1", "tell")))

    assert chunks == [[tool_message("1", "tell", "He")], [tool_message("1", "tell", "llo")]]
    assert [type(chunk) for chunk in chunks] == [ToolMessages, ToolMessages]
    assert all(isinstance(chunk[0], ChatChunk) for chunk in chunks)
    assert concat([chunk[0] for chunk in chunks]) == tool_message("1", "tell", "Hello")


@KINDS
def test_other_chunks_come_joined(runner: Runner, kind: str) -> None:
    """What is no text is one message once it is whole, as JSON of parts does not add up; an empty chunk makes it two."""
    app = tools_app(streaming(kind, say({"a": "x"}, {"a": "y"})))

    assert runner.stream(app, asking(call("1", "tell"))) == [[tool_message("1", "tell", '{"a":"xy"}')], [None]]


@KINDS
def test_messages_of_ones_own_come_whole(runner: Runner, kind: str) -> None:
    """With ``to_message`` there are no pieces, since nobody knows how such messages join."""
    app = tools_app(streaming(kind, say("a", "b")), to_message=lambda call, result: (call.id, result))

    assert runner.stream(app, asking(call("1", "tell"))) == [[("1", "ab")], [None]]
    assert runner.invoke(app, asking(call("1", "tell"))) == [("1", "ab")]


@KINDS
def test_positions(runner: Runner, mode: dict[str, Any], kind: str) -> None:
    """B098: in every chunk of a stream run each call has its place, in the order of the request."""
    request = asking(*(call(id, "spell", word=word) for id, word in [("3", "ab"), ("1", ""), ("2", "cde"), ("4", "f")]))

    def spell(word: str) -> Iterator[str]:
        yield from word

    app = tools_graph(streaming(kind, spell)).compile(**mode)
    chunks = runner.stream(app, request)

    assert by_id(chunks, request) == {"3": "ab", "1": "", "2": "cde", "4": "f"}
    assert concat(chunks) == runner.invoke(app, request)
    assert [sum(message is not None for message in chunk) for chunk in chunks] == [1] * 7


@KINDS
def test_calls_of_one_id(runner: Runner, kind: str) -> None:
    """B104: calls with the same id, or none, have places of their own."""
    app = tools_app(streaming(kind, say("x", "y")))
    request = asking(call("a", "tell"), call("a", "tell"), call("", "tell"), call(None, "tell"))

    assert concat(runner.stream(app, request)) == [tool_message(id, "tell", "xy") for id in ("a", "a", "", "")]


@KINDS
@pytest.mark.parametrize("streams", [True, False])
def test_the_first_chunk_waits_for_nobody(runner: Runner, kind: str, streams: bool) -> None:
    """What a call says is there while a slower call still runs."""
    said = threading.Event()

    def quick() -> str:
        return "quick"

    def slow() -> str:
        assert said.wait(LIMIT), "nothing came while it ran"
        return "slow"

    async def slow_awaited() -> str:
        assert await asyncio.to_thread(said.wait, LIMIT), "nothing came while it ran"
        return "slow"

    slow_awaited.__name__ = "slow"
    fast = streaming(kind, say("quick")) if streams else of_kind(kind, quick)
    app = tools_app(Tool(fast, name="quick"), slow_awaited if kind == "awaited" else slow)
    request = asking(call("s", "slow"), call("q", "quick"))
    chunks = []

    def take(chunk: Any) -> None:
        chunks.append(chunk)
        said.set()

    if isinstance(runner, SyncRunner):
        with app.stream(request) as reader:
            for chunk in reader:
                take(chunk)
    else:

        async def main() -> None:
            async with app.astream(request) as reader:
                async for chunk in reader:
                    take(chunk)

        asyncio.run(main())

    assert chunks == [
        [None, tool_message("q", "quick", "quick")],
        [tool_message("s", "slow", "slow"), None],
    ]


def test_no_tool_runs_far_ahead(runner: Runner) -> None:
    """A tool is at most one chunk ahead of the reader, so that one which never ends can be read as far as wanted."""
    calls = Calls()

    def count() -> Iterator[str]:
        number = 0
        while True:
            calls.note("made")
            yield f"{number} "
            number += 1

    request = asking(call("1", "count"), call("2", "count"))
    with nothing_left():
        chunks = first_chunks(runner, tools_app(count), request, 10)

    assert len(chunks) == 10
    assert calls["made"] <= 10 + 2


def first_chunks(runner: Runner, app: Any, request: Any, count: int, **options: Any) -> list[Any]:
    """Read some chunks of a stream run, then close it."""
    if isinstance(runner, SyncRunner):
        with app.stream(request, **options) as reader:
            return [next(reader) for _ in range(count)]

    async def main() -> list[Any]:
        async with app.astream(request, **options) as reader:
            return [await anext(reader) for _ in range(count)]

    return asyncio.run(asyncio.wait_for(main(), LIMIT))


@KINDS
@pytest.mark.parametrize("options", [{}, {"parallel": False}])
def test_a_reader_that_leaves(runner: Runner, kind: str, options: dict[str, Any]) -> None:
    """K45: the reader closes the node's stream; the tools' clean-up runs, and no call starts any more."""
    calls = Calls()

    def count(to: int) -> Iterator[str]:
        calls.note("opened")
        try:
            for number in range(to):
                yield str(number)
        finally:
            calls.note("closed")

    request = asking(call("1", "count", to=1000), call("2", "count", to=1000))
    with nothing_left():
        first_chunks(runner, tools_app(streaming(kind, count), **options), request, 3)
        # A thread that was inside the tool just then closes it as soon as it comes out.
        until(lambda: calls["closed"] == calls["opened"])

    # The other lane's thread may not have come to its call before the reader left.
    assert 1 <= calls["opened"] <= (1 if options else 2)


@KINDS
def test_a_tool_of_which_nothing_is_said_yet(runner: Runner, kind: str) -> None:
    """K45: a tool whose chunks can't be told bit by bit is closed too when the reader leaves, though it never ends itself."""
    calls = Calls()
    entered = threading.Event()

    def endless() -> Iterator[Any]:
        try:
            while True:
                entered.set()
                yield {"more": "and more"}
        finally:
            calls.note("closed")

    async def quick() -> str:
        assert await asyncio.to_thread(entered.wait, LIMIT)
        return "quick"

    def quick_plain() -> str:
        assert entered.wait(LIMIT)
        return "quick"

    app = tools_app(streaming(kind, endless), Tool(quick if kind == "awaited" else quick_plain, name="quick"))
    request = asking(call("1", "quick"), call("2", "endless"))
    with nothing_left():
        assert first_chunks(runner, app, request, 1) == [[tool_message("1", "quick", "quick"), None]]
        until(lambda: calls["closed"] == 1)


@KINDS
def test_a_reader_that_leaves_waits_for_clean_up(runner: Runner, kind: str) -> None:
    """A tool that waits for its chunk to be read has been closed when the reader's own closing is over."""
    calls = Calls()
    waiting = threading.Event()

    def count() -> Iterator[str]:
        try:
            yield "a"
            waiting.set()
            yield "b"
        finally:
            calls.note("closed")

    app = tools_app(streaming(kind, count))
    request = asking(call("1", "count"))
    if isinstance(runner, SyncRunner):
        with app.stream(request) as reader:
            next(reader)
    else:

        async def main() -> None:
            async with app.astream(request) as reader:
                await anext(reader)
                assert calls["closed"] == 0
            assert calls["closed"] == 1

        asyncio.run(main())

    assert calls["closed"] == 1
    assert not waiting.is_set()


@KINDS
@SHAPES
@pytest.mark.parametrize("failing", ["plain", "awaited"])
def test_a_failure_closes_the_others(runner: Runner, kind: str, shape: str, failing: str) -> None:
    """K45: where one call fails, the streams that others have opened are closed; the failure is what the run ends with."""
    calls = Calls()
    opened = threading.Event()

    def endless() -> Iterator[str]:
        try:
            while True:
                opened.set()
                yield "on and "
        finally:
            calls.note("closed")

    async def boom_awaited() -> str:
        await asyncio.to_thread(opened.wait, LIMIT)
        raise ValueError("broken")

    def boom() -> str:
        opened.wait(LIMIT)
        raise ValueError("broken")

    boom_awaited.__name__ = "boom"
    app = tools_app(streaming(kind, endless), boom if failing == "plain" else boom_awaited)
    request = asking(call("1", "endless"), call("2", "boom"))
    with nothing_left(), pytest.raises(NodeError) as caught:
        given(runner, app, request, shape)

    assert isinstance(caught.value.__cause__, ToolError)
    assert str(caught.value.__cause__) == "tool 'boom' (call '2') failed: ValueError: broken"
    assert calls["closed"] == 1


def broken() -> Iterator[str]:
    """Fail in the middle."""
    yield "so far "
    yield "so good"
    raise ValueError("broken")


@KINDS
@pytest.mark.parametrize("shape", ["invoke", "stream"])
def test_a_failure_in_mid_stream(runner: Runner, kind: str, shape: str) -> None:
    """An error in the middle of a stream is the tool's failure."""
    error = failure(runner, tools_app(streaming(kind, broken)), asking(call("1", "broken")), shape)

    assert str(error) == "tool 'broken' (call '1') failed: ValueError: broken"
    assert isinstance(error.__cause__, ValueError)


@KINDS
@SHAPES
def test_a_failure_in_mid_stream_that_the_model_is_told(runner: Runner, kind: str, shape: str) -> None:
    """The message about a failure stands for the pieces that came before it, as in a value run."""
    app = tools_app(streaming(kind, broken), on_error="message")

    assert given(runner, app, asking(call("1", "broken")), shape) == [
        tool_message("1", "broken", "Error: ValueError: broken")
    ]


def test_the_message_after_pieces_is_no_piece(runner: Runner) -> None:
    """A reader can tell a message that takes the place of pieces: it is no `ChatChunk`."""
    chunks = runner.stream(tools_app(broken, on_error="message"), asking(call("1", "broken")))

    assert [(message["content"], isinstance(message, ChatChunk)) for (message,) in chunks] == [
        ("so far ", True),
        ("so good", True),
        ("Error: ValueError: broken", False),
    ]


@KINDS
@SHAPES
def test_chunks_that_do_not_join(runner: Runner, kind: str, shape: str) -> None:
    """Chunks of different classes are the tool's failure, and go where its failures go."""
    tool = streaming(kind, say("text", 1))
    request = asking(call("1", "tell"))

    with pytest.raises(NodeError) as caught:
        given(runner, tools_app(tool), request, shape)
    assert isinstance(caught.value.__cause__, ToolError)
    assert isinstance(caught.value.__cause__.__cause__, ConcatError)
    told = given(runner, tools_app(tool, on_error=lambda call, error: type(error).__name__), request, shape)
    assert contents(told) == {"1": "ConcatError"}


class Loud(str):
    """Text that joins in its own way."""


register_concat(Loud, lambda parts: Loud("!".join(parts)))


@SHAPES
def test_text_that_joins_in_its_own_way(runner: Runner, shape: str) -> None:
    """Text of a class of its own is joined by its own function, so it does not go out in pieces."""
    assert given(runner, tools_app(say(Loud("a"), Loud("b"))), asking(call("1", "tell")), shape) == [
        tool_message("1", "tell", "a!b")
    ]


@KINDS
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("streams", [True, False])
def test_what_ends_the_process_is_let_through(
    runner: Runner, kind: str, error: type[BaseException], streams: bool
) -> None:
    """``sys.exit()`` and Ctrl-C in a tool end a stream run too, and no call that waits for its turn starts after it."""
    calls = Calls()

    def leave(number: int) -> str:
        calls.note(str(number))
        raise error

    def leave_late(number: int) -> Iterator[str]:
        calls.note(str(number))
        yield "a"
        raise error

    leave_late.__name__ = "leave"
    tool = streaming(kind, leave_late) if streams else of_kind(kind, leave)
    request = asking(*(call(str(number), "leave", number=number) for number in range(4)))
    with nothing_left(), pytest.raises(error):
        runner.stream(tools_app(tool, on_error="message", parallel=False), request)

    assert calls.order == ["0"]


@KINDS
def test_a_tool_that_cancels_itself(runner: Runner, kind: str) -> None:
    """A cancellation from inside a streaming tool is a failure of the tool, not of the run."""

    def work() -> Iterator[str]:
        yield "a"
        raise asyncio.CancelledError

    app = tools_app(streaming(kind, work), on_error="message")

    assert concat(runner.stream(app, asking(call("1", "work")))) == [
        tool_message("1", "work", "Error: RuntimeError: the code was cancelled from inside")
    ]


@KINDS
def test_limits(runner: Runner, kind: str) -> None:
    """``parallel=False`` reads one stream after the other, in the order of the calls; a failure ends the batch."""
    calls = Calls()

    def spell(word: str) -> Iterator[str]:
        calls.note(word)
        if word == "!":
            raise ValueError("no word")
        yield from word

    app = tools_app(streaming(kind, spell), parallel=False)

    def request(*words: str) -> Any:
        return asking(*(call(word, "spell", word=word) for word in words))

    said = [message["content"] for chunk in runner.stream(app, request("ab", "cd")) for message in chunk if message]
    assert said == list("abcd")
    failure(runner, app, request("ef", "!", "gh"), "stream")
    assert calls.order == ["ab", "cd", "ef", "!"]


def test_async_tools_share_a_loop(runner: Runner) -> None:
    """Async tools of a visit run on one loop: the run's own, or one of the visit's where the driver is sync."""
    loops: list[object] = []

    async def look() -> AsyncIterator[str]:
        loops.append(asyncio.get_running_loop())
        yield "ok"

    async def read() -> list[Any]:
        loops.append(asyncio.get_running_loop())
        async with app.astream(request) as reader:
            return [chunk async for chunk in reader]

    app = tools_app(look)
    request = asking(call("1", "look"), call("2", "look"))
    with nothing_left():
        if isinstance(runner, SyncRunner):
            runner.stream(app, request)
        else:
            asyncio.run(read())

    assert len(loops) == (2 if isinstance(runner, SyncRunner) else 3)
    assert len(set(loops)) == 1


@KINDS
@pytest.mark.parametrize("count", [1, 3])
def test_where_a_loop_runs(kind: str, count: int) -> None:
    """Sync streams in a thread with an event loop: plain tools work as in a value run, async ones are refused at once."""
    calls = Calls()

    def work() -> Iterator[str]:
        calls.note("work")
        yield "o"
        yield "k"

    app = tools_app(streaming(kind, work))
    request = asking(*(call(str(number), "work") for number in range(count)))

    async def main() -> Any:
        with app.stream(request) as reader:
            return concat(reader)

    if kind == "plain":
        assert asyncio.run(main()) == [tool_message(str(number), "work", "ok") for number in range(count)]
    else:
        with pytest.raises(NodeError, match="tool 'work' is async and an event loop runs in this thread already"):
            asyncio.run(main())
        assert calls["work"] == 0


def test_a_cancelled_reader_cancels_its_tools() -> None:
    """A task that is cancelled while it reads has its async tools cancelled and closed, and leaves no task behind."""
    calls = Calls()

    async def work() -> AsyncIterator[str]:
        calls.note("start")
        try:
            yield "a"
            await asyncio.sleep(LIMIT)
        finally:
            await asyncio.sleep(0)
            calls.note("cleaned up")

    async def main() -> None:
        read = asyncio.Event()

        async def reading() -> None:
            async with tools_app(work).astream(asking(call("1", "work"), call("2", "work"))) as reader:
                async for _ in reader:
                    read.set()

        task = asyncio.create_task(reading())
        await read.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    with nothing_left():
        asyncio.run(main())
    assert (calls["start"], calls["cleaned up"]) == (2, 2)


def test_a_cancelled_value_run_closes_streams_in_threads() -> None:
    """A value run that is cancelled leaves the thread of a plain tool behind, but its stream ends with its next chunk."""
    calls = Calls()
    started = threading.Event()

    def endless() -> Iterator[str]:
        try:
            while True:
                started.set()
                yield "a"
        finally:
            calls.note("closed")

    async def main() -> None:
        task = asyncio.create_task(tools_app(endless).ainvoke(asking(call("1", "endless"))))
        await asyncio.to_thread(started.wait, LIMIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until(lambda: calls["closed"])


@pytest.mark.parametrize("opened", ["plain", "awaited"])
def test_an_error_on_closing(runner: Runner, opened: str) -> None:
    """A clean-up that fails after another call has failed is a note on that failure."""
    ready = threading.Event()

    def endless() -> Iterator[str]:
        try:
            while True:
                ready.set()
                yield "a"
        finally:
            raise KeyError("clean-up")

    def boom() -> str:
        ready.wait(LIMIT)
        raise ValueError("broken")

    error = failure(
        runner, tools_app(streaming(opened, endless), boom), asking(call("1", "boom"), call("2", "endless")), "stream"
    )

    assert str(error) == "tool 'boom' (call '1') failed: ValueError: broken"
    assert error.__notes__ == ["tool 'endless' (call '2') failed: KeyError: 'clean-up'"]


def test_chunks_of_other_sizes_do_not_join() -> None:
    """Chunks of two requests are no chunks of one stream."""
    with pytest.raises(ConcatError, match="the concat function of ToolMessages failed"):
        concat([ToolMessages(["a"]), ToolMessages(["a", "b"])])


def test_what_was_said_so_far() -> None:
    """Chunks of a stream that was not read to its end join to what was said so far, with ``None`` where nothing was."""
    assert concat([ToolMessages([None, "b"]), ToolMessages([None, None])]) == [None, "b"]


def test_called_from_a_node_of_ones_own(runner: Runner) -> None:
    """A node of one's own may read the chunks, as it may call the node for the messages."""
    tools = ToolsNode([say("a", "b")])

    def plain(message: Any) -> Iterator[Any]:
        for chunk in tools.chunks(message):
            yield chunk[0]["content"].upper()

    async def awaited(message: Any) -> AsyncIterator[Any]:
        async for chunk in tools.achunks(message):
            yield chunk[0]["content"].upper()

    app = solo(plain if isinstance(runner, SyncRunner) else awaited).compile()
    assert runner.stream(app, asking(call("1", "tell"))) == ["A", "B"]
