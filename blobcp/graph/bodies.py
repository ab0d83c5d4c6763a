"""How a node's function is called in a stream run for one value, and how streams are read for that."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from typing import Any

from blobcp.errors import EmptyStreamError, ValueMismatchError
from blobcp.graph.flow import Refusal, Streams
from blobcp.graph.judging import mismatch
from blobcp.graph.parts import StreamTask
from blobcp.stream.concat import concat
from blobcp.stream.reader import StreamReader

__all__ = ["acall_with_chunks", "aread", "call_with_chunks", "checked", "gives_chunks", "read", "reader_of", "value_of"]


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


def reader_of(result: Any) -> StreamReader[Any]:
    """Return what a handler of chunks gave as a reader; what is no source of chunks is one chunk."""
    if isinstance(result, StreamReader):
        return result
    is_source = isinstance(result, list | tuple | Iterator | AsyncIterable)
    return StreamReader(result if is_source else [result])


def call_with_chunks(streams: Streams, task: StreamTask) -> Callable[[StreamReader[Any]], Any]:
    """Return what a thread calls for a node that gives one value; it takes the reader."""
    node = task.node

    def call(reader: StreamReader[Any]) -> Any:
        assert node.chunked is not None, "nested graphs are entered, not called"
        with reader:
            return node.chunked(reader if node.shape == "collect" else checked(streams, task, list(reader)))

    return call


def acall_with_chunks(
    streams: Streams, task: StreamTask
) -> Callable[[StreamReader[Any]], Coroutine[Any, Any, Any]] | None:
    """Return what a loop awaits for such a node; ``None`` where a thread is to call it."""
    node, awaited = task.node, task.node.achunked
    if awaited is None:
        return None

    async def call(reader: StreamReader[Any]) -> Any:
        async with reader:
            if node.shape == "collect":
                return await awaited(reader)
            return await awaited(checked(streams, task, [chunk async for chunk in reader]))

    return call


def checked(streams: Streams, task: StreamTask, chunks: list[Any]) -> Any:
    """Return the value that a node of values is given."""
    streams.heed()
    node, value = task.node, value_of(task, chunks)
    if node.takes is not None and not node.takes(value) and not (value is None and task.empty):
        raise Refusal(ValueMismatchError(mismatch(task, "takes", node.takes_name, value), path=task.path))
    return streams.apart(value)
