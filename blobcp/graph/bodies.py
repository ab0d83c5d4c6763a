"""The code of a node in a stream run: what reads its input, calls its function and makes its stream.

A function that gives chunks runs while its stream is read, in whoever reads it, but in the node's own context. What comes
out of it is charged to the node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, closing
from typing import Any

from blobcp.errors import EmptyStreamError, ValueMismatchError
from blobcp.graph.effects import Visit
from blobcp.graph.flow import Refusal, Streams
from blobcp.graph.parts import StreamTask
from blobcp.graph.pool import cancelled_inside, refuse_coroutine
from blobcp.graph.session import mismatch, signals_in, stops_of
from blobcp.scope import InterruptSignal, Scope, running_task
from blobcp.stream.async_iterators import Owned
from blobcp.stream.concat import concat
from blobcp.stream.feed import Feed, Wake
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END, End, NotYet

__all__ = ["acall_with_chunks", "aread", "body", "call_with_chunks", "gives_chunks", "read", "value_of"]


def gives_chunks(task: StreamTask) -> bool:
    """Tell whether a node makes a stream, rather than one value."""
    return task.node.shape in ("stream", "transform")


def read(reader: StreamReader[Any]) -> list[Any]:
    """Read a stream to its end."""
    with reader:
        return list(reader)


async def aread(reader: StreamReader[Any]) -> list[Any]:
    """Read a stream to its end, on the running event loop."""
    async with reader:
        return [chunk async for chunk in reader]


def value_of(task: StreamTask, chunks: list[Any]) -> Any:
    """Return the value that chunks are.

    Raises:
        EmptyStreamError: there are none, and nothing was stored for the node.
        ConcatError: they can't be joined.
    """
    try:
        return concat(chunks)
    except EmptyStreamError:
        if task.empty:
            return task.node.zero
        raise


def call_with_chunks(task: StreamTask) -> Callable[[StreamReader[Any]], Any]:
    """Return what a thread calls for a node that gives one value; it takes the reader."""
    node = task.node

    def call(reader: StreamReader[Any]) -> Any:
        assert node.chunked is not None, "nested graphs are entered, not called"
        with reader:
            return node.chunked(reader if node.shape == "collect" else _checked(task, list(reader)))

    return call


def acall_with_chunks(task: StreamTask) -> Callable[[StreamReader[Any]], Coroutine[Any, Any, Any]] | None:
    """Return what a loop awaits for such a node; ``None`` where a thread is to call it."""
    node, awaited = task.node, task.node.achunked
    if awaited is None:
        return None

    async def call(reader: StreamReader[Any]) -> Any:
        async with reader:
            if node.shape == "collect":
                return await awaited(reader)
            return await awaited(_checked(task, [chunk async for chunk in reader]))

    return call


def _checked(task: StreamTask, chunks: list[Any]) -> Any:
    node, value = task.node, value_of(task, chunks)
    if node.takes is not None and not node.takes(value) and not (value is None and task.empty):
        raise Refusal(ValueMismatchError(mismatch(task, "takes", node.takes_name, value), path=task.path))
    return value


def body(
    streams: Streams, task: StreamTask, visit: Visit, reader: StreamReader[Any], *, on_loop: bool
) -> StreamReader[Any]:
    """Return the stream of a node that gives chunks; nothing of it runs before it is read.

    Args:
        streams: the run's readers.
        task: the node's task.
        visit: where its code runs.
        reader: what it is given.
        on_loop: whether it may be read on an event loop.
    """
    task.over = False
    source: Iterable[Any] | AsyncIterable[Any]
    if on_loop and task.node.achunked is not None:
        source = Owned(_async_chunks(streams, task, visit.scope, reader))
    else:
        source = _chunks(streams, task, visit.scope, reader)
    chunks: StreamReader[Any] = StreamReader(source, context=visit.context)
    return streams.own(StreamReader._of(_BodyFeed(chunks.hand_over("a node's"), reader, task, visit.scope)))


def _chunks(streams: Streams, task: StreamTask, scope: Scope, reader: StreamReader[Any]) -> Iterator[Any]:
    node = task.node
    assert node.chunked is not None, "nested graphs are entered, not called"
    try:
        scope.enter(running_task())
        result = node.chunked(reader if node.shape == "transform" else _checked(task, read(reader)))
        with closing(_iterated(refuse_coroutine(result))) as chunks:
            for chunk in chunks:
                yield chunk
                scope.enter(running_task())
        if scope.raised:  # asked, and swallowed
            raise InterruptSignal(stops_of(scope, None)[0])
    except GeneratorExit:
        raise
    except BaseException as error:
        failed = _charged(streams, task, scope, error)
        raise failed from failed.__cause__
    finally:
        scope.closed = True


async def _async_chunks(
    streams: Streams, task: StreamTask, scope: Scope, reader: StreamReader[Any]
) -> AsyncGenerator[Any, None]:
    node = task.node
    assert node.achunked is not None, "that is why it is read like this"
    try:
        scope.enter(running_task())
        result = node.achunked(reader if node.shape == "transform" else _checked(task, await aread(reader)))
        if inspect.isawaitable(result):
            result = await result
        async with aclosing(Owned(result if inspect.isasyncgen(result) else _read_on(result))) as chunks:
            async for chunk in chunks:
                yield chunk
                scope.enter(running_task())
        if scope.raised:  # asked, and swallowed
            raise InterruptSignal(stops_of(scope, None)[0])
    except GeneratorExit:
        raise
    except BaseException as error:
        failed = _charged(streams, task, scope, error)
        raise failed from failed.__cause__
    finally:
        scope.closed = True


def _charged(streams: Streams, task: StreamTask, scope: Scope, error: BaseException) -> BaseException:
    if isinstance(error, asyncio.CancelledError) and not signals_in(error):
        if task.over:  # that is how an async stream is closed
            return error
        error = cancelled_inside(error)
    return streams.charge(task, scope, error)


def _iterated(result: Any) -> Any:
    """Return what a function gave as a generator that can be closed."""
    return result if inspect.isgenerator(result) else _read_through(result)


def _read_through(result: Any) -> Iterator[Any]:
    with StreamReader(result) as reader:
        yield from reader


async def _read_on(result: Any) -> Any:
    async with StreamReader(result) as reader:
        async for chunk in reader:
            yield chunk


class _BodyFeed(Feed[Any]):
    """What a node gives, together with the stream that it reads; tells its task when it is over."""

    def __init__(self, feed: Feed[Any], eaten: StreamReader[Any], task: StreamTask, scope: Scope) -> None:
        self._feed = feed
        self._eaten = eaten
        self._task = task
        self._scope = scope

    def read(self, wake: Wake, here: bool) -> Any | End | NotYet:
        item = self._feed.read(wake, here)
        if item is END:
            self._over()
        return item

    def close(self, patient: bool) -> list[Future[None]]:
        # The node first: its clean-up may still read.
        self._over()
        stopping = self._feed.close(patient)
        return [*stopping, *self._eaten.stop(patient)]

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return self._feed.loops()

    def _over(self) -> None:
        self._task.over = True
        self._scope.closed = True
