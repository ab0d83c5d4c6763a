"""The streams that nodes make, by their functions or by handlers of chunks.

A function that gives chunks runs while its stream is read, in whoever reads it, but in the node's own context. What comes
out of it is charged to the node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, closing
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from blobcp.graph.bodies import aread, checked, read, reader_of
from blobcp.graph.effects import Abandoned, Visit
from blobcp.graph.flow import Streams
from blobcp.graph.judging import signals_in, stops_of
from blobcp.graph.parts import StreamTask
from blobcp.graph.pool import cancelled_inside, refuse_coroutine
from blobcp.scope import InterruptSignal, Scope, running_task
from blobcp.stream.async_iterators import Owned
from blobcp.stream.feed import Feed, Wake
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END, End, NotYet

__all__ = ["body", "handed_back"]


@dataclass(slots=True)
class _Making:
    """A stream that a node makes, by its function or by a handler of chunks.

    Attributes:
        streams: the run's readers.
        task: the node's task.
        scope: what its code sees of the run.
        eaten: the stream that it is made of.
        is_last: whether the node is over with it.
        is_closed: whether it is to be read no more.
    """

    streams: Streams
    task: StreamTask
    scope: Scope
    eaten: StreamReader[Any]
    is_last: bool
    is_closed: bool = False

    def reader(self, chunks: Iterator[Any] | AsyncIterator[Any], context: Context) -> StreamReader[Any]:
        self.task.over = False
        feed = StreamReader(chunks, context=context).hand_over("a node's")
        return self.streams.own(StreamReader._of(_MakingFeed(feed, self)))

    def end(self) -> None:
        """Take it that the node is over; one that ends when the run is to stop at once has not finished."""
        if self.is_last:
            self.task.over = self.task.over or not self.streams.is_left
            if self.task.flowing:  # else handlers and branches follow, which may ask
                self.scope.closed = True

    def charged(self, error: BaseException) -> BaseException:
        if isinstance(error, asyncio.CancelledError) and not signals_in(error):
            if self.is_closed:  # that is how an async stream is closed
                return error
            error = cancelled_inside(error)
        return self.streams.charge(self.task, self.scope, error)

    def finish(self) -> None:
        """Take it that the code has run to its end, unless the run is to stop at once: then the node has not finished.

        Raises:
            Abandoned: it is.
            InterruptSignal: a question was asked and swallowed; somebody is meant to answer it.
        """
        self.streams.heed()
        if self.scope.raised:
            raise InterruptSignal(stops_of(self.scope, None)[0])

    def charge_swallowed(self) -> None:
        """Charge the node with such a question where nobody reads on."""
        if self.scope.raised:
            self.streams.charge(self.task, self.scope, InterruptSignal(stops_of(self.scope, None)[0]))


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
    node = task.node
    making = _Making(streams, task, visit.scope, reader, node.post_reading is None)

    def start() -> Any:
        assert node.chunked is not None, "nested graphs are entered, not called"
        return node.chunked(reader if node.shape == "transform" else checked(streams, task, read(reader)))

    async def astart() -> Any:
        assert node.achunked is not None, "that is why it is read like this"
        result = node.achunked(reader if node.shape == "transform" else checked(streams, task, await aread(reader)))
        return await result if inspect.isawaitable(result) else result

    is_async = on_loop and node.achunked is not None
    return making.reader(Owned(_async_chunks(making, astart)) if is_async else _chunks(making, start), visit.context)


def handed_back(
    streams: Streams, task: StreamTask, visit: Visit, reader: StreamReader[Any], given: Any, *, on_loop: bool
) -> StreamReader[Any]:
    """Return the stream that a node's post-handler gave for the one that it was given: it is the node's own, too.

    Args:
        streams: the run's readers.
        task: the node's task.
        visit: where its code runs.
        reader: what the handler was given.
        given: what it gave.
        on_loop: whether it may be read on an event loop.
    """
    making = _Making(streams, task, visit.scope, reader, True)
    changed = reader_of(given)

    async def astart() -> Any:
        return changed

    chunks = Owned(_async_chunks(making, astart)) if on_loop else _chunks(making, lambda: changed)
    return making.reader(chunks, visit.context)


def _chunks(making: _Making, start: Callable[[], Any]) -> Iterator[Any]:
    scope = making.scope
    try:
        scope.enter(running_task())
        with closing(_iterated(refuse_coroutine(start()))) as chunks:
            for chunk in chunks:
                yield chunk
                scope.enter(running_task())
        making.finish()
    except GeneratorExit:
        making.charge_swallowed()
        raise
    except Abandoned:
        raise
    except BaseException as error:
        failed = making.charged(error)
        raise failed from failed.__cause__
    finally:
        making.end()


async def _async_chunks(making: _Making, start: Callable[[], Awaitable[Any]]) -> AsyncGenerator[Any, None]:
    scope = making.scope
    try:
        scope.enter(running_task())
        result = await start()
        async with aclosing(Owned(_async_iterated(result))) as chunks:
            async for chunk in chunks:
                yield chunk
                scope.enter(running_task())
        making.finish()
    except GeneratorExit:
        making.charge_swallowed()
        raise
    except Abandoned:
        raise
    except BaseException as error:
        failed = making.charged(error)
        raise failed from failed.__cause__
    finally:
        making.end()


def _iterated(result: Any) -> Any:
    """Return what a function gave as a generator that can be closed."""
    return result if inspect.isgenerator(result) else _read_through(result)


def _read_through(result: Any) -> Iterator[Any]:
    with StreamReader(result) as reader:
        yield from reader


def _async_iterated(result: Any) -> Any:
    return result if inspect.isasyncgen(result) else _read_on(result)


async def _read_on(result: Any) -> AsyncGenerator[Any, None]:
    async with StreamReader(result) as reader:
        async for chunk in reader:
            yield chunk


class _MakingFeed(Feed[Any]):
    """What a node gives, together with the stream that it reads; tells its task when it is over."""

    def __init__(self, feed: Feed[Any], making: _Making) -> None:
        self._feed = feed
        self._making = making

    def read(self, wake: Wake, here: bool) -> Any | End | NotYet:
        item = self._feed.read(wake, here)
        if item is END:
            self._making.end()
        return item

    def close(self, patient: bool) -> list[Future[None]]:
        # The node first: its clean-up may still read.
        self._making.is_closed = True
        self._making.end()
        stopping = self._feed.close(patient)
        return [*stopping, *self._making.eaten.stop(patient)]

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return self._feed.loops()
