"""The four shapes of a call, and how those that are missing follow from those that are there.

=========  ==============  ==============
shape      takes           gives
=========  ==============  ==============
invoke     a value         a value
stream     a value         chunks
collect    chunks          a value
transform  chunks          chunks
=========  ==============  ==============

A value is handed to what takes chunks as a stream of that one chunk; chunks are joined for what takes a value. Every
derived call is lazy: what it gives as chunks starts with the first read, and reads no further ahead than it must.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, Literal

from blobcp.errors import StreamError, StreamLoopError
from blobcp.stream.concat import concat as join
from blobcp.stream.feed import Feed, Wake
from blobcp.stream.flatten import aconcat_stream, concat_stream
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import End, NotYet
from blobcp.stream.waiting import runs_loop

__all__ = ["Shape", "Shapes"]

Shape = Literal["invoke", "stream", "collect", "transform"]

_TAKES_CHUNKS: Final = frozenset({"collect", "transform"})
_GIVES_CHUNKS: Final = frozenset({"stream", "transform"})

_NEAREST: Final[dict[Shape, tuple[Shape, ...]]] = {
    "invoke": ("invoke", "stream", "collect", "transform"),
    "stream": ("stream", "transform", "invoke", "collect"),
    "collect": ("collect", "transform", "invoke", "stream"),
    "transform": ("transform", "stream", "collect", "invoke"),
}
"""For each shape what to derive it from, best first: streams stay streams as far as can be."""


class Shapes:
    """A call in all four shapes, made from those that were written.

    ``invoke`` and ``collect`` are for sync code, ``ainvoke`` and ``acollect`` for async code; ``stream`` and ``transform``
    return a reader that serves both. A sync function that async code calls runs in a thread of its own; an async one that
    sync code calls runs on a loop of its own.

    Args:
        invoke: value -> value; sync or async, like the others.
        stream: value -> chunks: a generator function, or one that returns an iterable, sync or async.
        collect: reader -> value.
        transform: reader -> chunks.
        concat: how chunks become a value.

    Raises:
        StreamError: none is given.

    >>> def spell(word):
    ...     yield from word
    >>> Shapes(stream=spell).invoke("abc")
    'abc'
    """

    def __init__(
        self,
        *,
        invoke: Callable[..., Any] | None = None,
        stream: Callable[..., Any] | None = None,
        collect: Callable[..., Any] | None = None,
        transform: Callable[..., Any] | None = None,
        concat: Callable[[list[Any]], Any] = join,
    ) -> None:
        given: dict[Shape, Callable[..., Any] | None] = {
            "invoke": invoke,
            "stream": stream,
            "collect": collect,
            "transform": transform,
        }
        self._written = {shape: call for shape, call in given.items() if call is not None}
        if not self._written:
            raise StreamError("none of the four shapes is given; give invoke, stream, collect or transform")
        self._concat = concat

    def source_of(self, shape: Shape) -> Shape:
        """Return the shape that this one is derived from: itself where it was written."""
        return next(nearest for nearest in _NEAREST[shape] if nearest in self._written)

    def is_async(self, shape: Shape) -> bool:
        """Tell whether a shape comes down to an async function."""
        return is_async(self._written[self.source_of(shape)])

    def invoke(self, value: Any, *args: Any, **options: Any) -> Any:
        """Turn a value into a value, in this thread.

        Raises:
            StreamLoopError: it is async, and an event loop runs in this thread.
        """
        return self._now("invoke", value, args, options)

    def collect(self, reader: StreamReader[Any], *args: Any, **options: Any) -> Any:
        """Turn chunks into a value, in this thread; the reader is closed afterwards.

        Raises:
            StreamLoopError: it is async, and an event loop runs in this thread.
        """
        with reader:
            return self._now("collect", reader, args, options)

    async def ainvoke(self, value: Any, *args: Any, **options: Any) -> Any:
        """Turn a value into a value, on the running event loop."""
        return await self._soon("invoke", value, args, options)

    async def acollect(self, reader: StreamReader[Any], *args: Any, **options: Any) -> Any:
        """Turn chunks into a value, on the running event loop; the reader is closed afterwards."""
        async with reader:
            return await self._soon("collect", reader, args, options)

    def stream(self, value: Any, *args: Any, **options: Any) -> StreamReader[Any]:
        """Turn a value into chunks, as they are read."""
        return self._chunks("stream", value, args, options)

    def transform(self, reader: StreamReader[Any], *args: Any, **options: Any) -> StreamReader[Any]:
        """Turn chunks into chunks, as they are read; closing what this returns closes the reader that it was given."""
        chunks = self._chunks("transform", reader, args, options)
        return StreamReader._of(_FedFeed(chunks.hand_over("transformed"), reader))

    def _now(self, shape: Shape, given: Any, args: Any, options: Any) -> Any:
        if self.is_async(shape):
            if runs_loop():
                raise StreamLoopError(f"{shape} is async and would block the event loop of this thread; await a{shape}")
            return asyncio.run(self._soon(shape, given, args, options))
        source = self.source_of(shape)
        result = _no_coroutine(self._written[source](self._fit(shape, source, given), *args, **options))
        return concat_stream(StreamReader(result), concat=self._concat) if source in _GIVES_CHUNKS else result

    async def _soon(self, shape: Shape, given: Any, args: Any, options: Any) -> Any:
        if not self.is_async(shape):
            # Closed without waiting, so that a cancellation does not wait for a thread that can't be stopped.
            with StreamReader(_once(lambda: self._now(shape, given, args, options))) as only:
                return await anext(only)
        source = self.source_of(shape)
        result = self._written[source](await self._afit(shape, source, given), *args, **options)
        if inspect.isawaitable(result):
            result = await result
        return await aconcat_stream(StreamReader(result), concat=self._concat) if source in _GIVES_CHUNKS else result

    def _chunks(self, shape: Shape, given: Any, args: Any, options: Any) -> StreamReader[Any]:
        source = self.source_of(shape)
        if self.is_async(shape):
            return StreamReader(self._alazily(shape, source, given, args, options))
        if source not in _GIVES_CHUNKS:
            return StreamReader(_once(lambda: self._now(shape, given, args, options)))
        if source == shape and inspect.isgeneratorfunction(self._written[source]):
            return StreamReader(self._written[source](given, *args, **options))
        return StreamReader(self._lazily(shape, source, given, args, options))

    def _lazily(self, shape: Shape, source: Shape, given: Any, args: Any, options: Any) -> Iterator[Any]:
        result = _no_coroutine(self._written[source](self._fit(shape, source, given), *args, **options))
        with StreamReader(result) as chunks:
            yield from chunks

    async def _alazily(self, shape: Shape, source: Shape, given: Any, args: Any, options: Any) -> AsyncIterator[Any]:
        result = self._written[source](await self._afit(shape, source, given), *args, **options)
        if inspect.isawaitable(result):
            result = await result
        if source not in _GIVES_CHUNKS:
            yield result
            return
        async with StreamReader(result) as chunks:
            async for chunk in chunks:
                yield chunk

    def _fit(self, shape: Shape, source: Shape, given: Any) -> Any:
        if (shape in _TAKES_CHUNKS) == (source in _TAKES_CHUNKS):
            return given
        return concat_stream(given, concat=self._concat) if shape in _TAKES_CHUNKS else StreamReader([given])

    async def _afit(self, shape: Shape, source: Shape, given: Any) -> Any:
        if shape in _TAKES_CHUNKS and source not in _TAKES_CHUNKS:
            return await aconcat_stream(given, concat=self._concat)
        return self._fit(shape, source, given)


def is_async(call: Callable[..., Any]) -> bool:
    """Tell whether a function is an ``async def``, with or without ``yield``; also behind ``partial`` and ``__call__``."""
    while isinstance(call, functools.partial):
        call = call.func
    candidates = (call, getattr(type(call), "__call__", None))  # noqa: B004 - the method, not whether there is one
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


def _no_coroutine(result: Any) -> Any:
    if inspect.iscoroutine(result):
        result.close()
        raise StreamError(
            "a function returned a coroutine although it is no `async def`; wrap the call in an async one"
        )
    return result


def _once(make: Callable[[], Any]) -> Iterator[Any]:
    yield make()


class _FedFeed(Feed[Any]):
    """What a transformation gives, together with the stream that it eats."""

    def __init__(self, feed: Feed[Any], eaten: StreamReader[Any]) -> None:
        self._feed = feed
        self._eaten = eaten

    def read(self, wake: Wake, here: bool) -> Any | End | NotYet:
        return self._feed.read(wake, here)

    def close(self, patient: bool) -> list[Future[None]]:
        # The transformation first: its clean-up may still read.
        return [*self._feed.close(patient), *self._eaten.stop(patient)]

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return self._feed.loops()
