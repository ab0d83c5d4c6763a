from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from stream_runs import LIMIT, run, times

from blobcp import EmptyStreamError, StreamClosedError, StreamError, StreamLoopError, StreamReader
from blobcp.stream import Shapes


def invoke(value: int, option: str) -> str:
    """Value to value."""
    return f"{value}+{option}"


def stream(value: int, option: str) -> Iterator[str]:
    """Value to chunks."""
    yield from (str(value), "+", option)


def collect(reader: StreamReader[int], option: str) -> str:
    """Chunks to value."""
    [value] = reader
    return f"{value}+{option}"


def transform(reader: StreamReader[int], option: str) -> Iterator[str]:
    """Chunks to chunks."""
    for value in reader:
        yield str(value)
    yield "+"
    yield option


async def ainvoke(value: int, option: str) -> str:
    """Value to value."""
    await asyncio.sleep(0)
    return invoke(value, option)


async def astream(value: int, option: str) -> AsyncIterator[str]:
    """Value to chunks."""
    for chunk in stream(value, option):
        await asyncio.sleep(0)
        yield chunk


async def acollect(reader: StreamReader[int], option: str) -> str:
    """Chunks to value."""
    [value] = [chunk async for chunk in reader]
    return f"{value}+{option}"


async def atransform(reader: StreamReader[int], option: str) -> AsyncIterator[str]:
    """Chunks to chunks."""
    async for value in reader:
        yield str(value)
    yield "+"
    yield option


def returning(value: int, option: str) -> StreamReader[str]:
    """Value to chunks, without ``yield``."""
    return StreamReader([str(value), "+", option])


async def areturning(value: int, option: str) -> list[str]:
    """Value to chunks, without ``yield``."""
    return [str(value), "+", option]


WRITTEN: dict[str, dict[str, Callable[..., Any]]] = {
    "invoke": {"invoke": invoke},
    "stream": {"stream": stream},
    "collect": {"collect": collect},
    "transform": {"transform": transform},
    "async invoke": {"invoke": ainvoke},
    "async stream": {"stream": astream},
    "async collect": {"collect": acollect},
    "async transform": {"transform": atransform},
    "returning": {"stream": returning},
    "async returning": {"stream": areturning},
}

CALLS: dict[str, tuple[Callable[[Shapes], Any], Callable[[Shapes], Any]]] = {
    "invoke": (lambda shapes: shapes.invoke(10, "100"), lambda shapes: shapes.ainvoke(10, option="100")),
    "collect": (
        lambda shapes: shapes.collect(StreamReader([10]), "100"),
        lambda shapes: shapes.acollect(StreamReader(times([10])), option="100"),
    ),
    "stream": (
        lambda shapes: list(shapes.stream(10, "100")),
        lambda shapes: all_of(shapes.stream(10, option="100")),
    ),
    "transform": (
        lambda shapes: list(shapes.transform(StreamReader([10]), "100")),
        lambda shapes: all_of(shapes.transform(StreamReader(times([10])), option="100")),
    ),
}


async def all_of(reader: StreamReader[Any]) -> list[Any]:
    """Read to the end."""
    return [chunk async for chunk in reader]


@pytest.mark.parametrize("called", CALLS)
@pytest.mark.parametrize("written", WRITTEN)
def test_every_combination(written: str, called: str) -> None:
    """B041: 10 and option ``"100"`` -> ``"10+100"``, whichever shape is written and called, by sync and async code."""
    shapes = Shapes(**WRITTEN[written])
    by_sync, by_async = CALLS[called]

    for given in (by_sync(shapes), run(awaiting(by_async(shapes)))):
        streams = called in ("stream", "transform") and written.split()[-1] in ("stream", "transform", "returning")
        joined = given if isinstance(given, str) else "".join(given)
        assert joined == "10+100"
        assert given == (["10", "+", "100"] if streams else ["10+100"] if isinstance(given, list) else "10+100")


async def awaiting(coroutine: Any) -> Any:
    """Await what a lambda made."""
    return await coroutine


def test_nearest_shape_is_used() -> None:
    """What was written is called as it is; what was not comes from the shape that keeps streams streams."""
    both = Shapes(invoke=invoke, transform=transform)
    found = [both.source_of(shape) for shape in ("invoke", "stream", "collect", "transform")]

    assert found == ["invoke", "transform", "transform", "transform"]
    assert [
        Shapes(collect=acollect, invoke=invoke).is_async(shape) for shape in ("invoke", "collect", "transform")
    ] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("make", [transform, atransform])
def test_first_chunk_before_the_last_is_read(make: Any) -> None:
    """A transform gives its first chunk of output while the last chunk of its input is not there yet."""
    asked: list[int] = []

    def source() -> Iterator[int]:
        for number in (1, 2):
            asked.append(number)
            yield number

    with Shapes(transform=make).transform(StreamReader(source()), "x") as reader:
        before = list(asked)
        first = next(reader)

        assert (before, first, asked) == ([], "1", [1])


@pytest.mark.parametrize("written", WRITTEN)
def test_nothing_runs_before_the_first_read(written: str) -> None:
    """What gives chunks reads nothing of its input until it is read itself."""
    asked: list[int] = []

    def source() -> Iterator[int]:
        asked.append(1)
        yield 10

    with Shapes(**WRITTEN[written]).transform(StreamReader(source()), "100") as reader:
        before = list(asked)
        next(reader)

    assert (before, asked) == ([], [1])


@pytest.mark.parametrize("written", ["transform", "async transform", "stream", "collect"])
def test_closing_closes_the_input(written: str) -> None:
    """Closing what ``transform`` returned closes the reader that it was given; so does the end of a ``collect``."""
    reader = StreamReader([10])
    Shapes(**WRITTEN[written]).transform(reader, "x").close()
    collected = StreamReader([10])
    Shapes(**WRITTEN[written]).collect(collected, "x")

    for each in (reader, collected):
        with pytest.raises(StreamClosedError):
            next(each)


def test_sync_function_called_by_async_code() -> None:
    """It runs in a thread, so that it may block; an error that it raises comes as it is."""

    async def main() -> str:
        go = threading.Event()

        def waits(value: str) -> str:
            assert go.wait(LIMIT)
            return value + threading.current_thread().name

        calling = asyncio.create_task(Shapes(invoke=waits).ainvoke("in "))
        await asyncio.sleep(0)
        go.set()
        return await calling

    def fails(value: str) -> str:
        raise KeyError(value)

    assert run(main()) == "in blobcp-stream"
    with pytest.raises(KeyError, match="x"):
        run(Shapes(invoke=fails).ainvoke("x"))


def test_async_function_called_by_sync_code_on_a_loop() -> None:
    """Sync code can't wait for it in a loop's thread, and says what to await instead."""

    async def main() -> None:
        with pytest.raises(StreamLoopError, match=r"invoke is async and would block .* await ainvoke"):
            Shapes(invoke=ainvoke).invoke(10, "100")
        with pytest.raises(StreamLoopError, match="would block the event loop"):
            next(Shapes(stream=astream).stream(10, "100"))

    run(main())


def test_async_behind_partial_and_call() -> None:
    """An async function is seen behind ``functools.partial`` and as the ``__call__`` of an object."""

    class Callable_:  # noqa: N801 - Callable is taken
        async def __call__(self, value: int, option: str) -> str:
            return invoke(value, option)

    for call in (functools.partial(ainvoke, option="100"), functools.partial(Callable_(), option="100")):
        assert Shapes(invoke=call).invoke(10) == "10+100"


def test_coroutine_of_a_sync_function() -> None:
    """A function that returns a coroutine without being async is refused."""
    with pytest.raises(StreamError, match="returned a coroutine although it is no `async def`"):
        Shapes(invoke=lambda value: ainvoke(value, "100")).invoke(10)
    with pytest.raises(StreamError, match="returned a coroutine"):
        list(Shapes(stream=lambda value: ainvoke(value, "100")).stream(10))


def test_empty_stream_into_a_value() -> None:
    """B049: an empty stream into a function that takes a value is an error."""
    with pytest.raises(EmptyStreamError):
        list(Shapes(invoke=str).transform(StreamReader([])))


def test_function_for_joining() -> None:
    """Chunks are joined by the function that is given."""
    assert Shapes(stream=lambda n: iter(range(n)), concat=sum).invoke(4) == 6


def test_none_given() -> None:
    """A call of no shape is refused."""
    with pytest.raises(StreamError, match="none of the four shapes is given"):
        Shapes()
