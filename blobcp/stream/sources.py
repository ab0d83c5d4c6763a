"""Which feed reads what a user gives as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from contextvars import Context
from typing import TypeVar

from blobcp.errors import StreamError
from blobcp.stream.async_iterators import AsyncIteratorFeed
from blobcp.stream.feed import Feed
from blobcp.stream.iterators import IteratorFeed
from blobcp.stream.waiting import runs_loop

__all__ = ["feed_of"]

T = TypeVar("T")


def feed_of(source: Iterable[T] | AsyncIterable[T], context: Context | None, blocking: bool | None) -> Feed[T]:
    """Return what reads a source; the arguments are those of :class:`StreamReader`.

    Raises:
        StreamError: it is no source of chunks.
    """
    if isinstance(source, str | bytes | bytearray | Mapping):
        raise StreamError(f"a {type(source).__name__} is one value and no stream of chunks; give a list of chunks")
    is_iterable = isinstance(source, Iterable)
    if isinstance(source, AsyncIterable) and not (is_iterable and not runs_loop()):
        return AsyncIteratorFeed(source, context)
    if isinstance(source, Iterable):
        is_whole = isinstance(source, Collection)
        return IteratorFeed(source, context, blocking=not is_whole if blocking is None else blocking, is_whole=is_whole)
    raise StreamError(f"{type(source).__qualname__} is no source of chunks; give an iterable or an async iterable")
