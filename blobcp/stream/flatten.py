"""A stream as one value: read to its end within a time limit, joined or with its chunks kept apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from blobcp.codec import serializable
from blobcp.errors import StreamClosedError, StreamFailedError, StreamLoopError, StreamTimeoutError, text_of
from blobcp.stream.concat import concat
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END, NOT_YET

__all__ = [
    "KeptChunks",
    "aconcat_stream",
    "akeep_chunks",
    "aread_within",
    "concat_stream",
    "joined",
    "keep_chunks",
    "read_within",
]

T = TypeVar("T")

_ABOUT_THE_READER: Final = (StreamClosedError, StreamLoopError)
"""Errors that say that the stream can't be read here, and are no part of it."""


@serializable("blobcp.KeptChunks")
class KeptChunks(msgspec.Struct):
    """The chunks of a stream, as a value that a checkpoint can hold.

    Attributes:
        chunks: the chunks, end markers of merged sources included.
    """

    chunks: list[Any]

    def reader(self) -> StreamReader[Any]:
        """Return a stream of the same chunks."""
        return StreamReader(self.chunks)

    def value(self) -> Any:
        """Return the chunks joined.

        Raises:
            ConcatError: they can't be.
        """
        return concat(self.chunks)


def concat_stream(
    reader: StreamReader[Any], *, timeout: timedelta | None = None, concat: Callable[[list[Any]], Any] = concat
) -> Any:
    """Read a stream to its end, close it, and join its chunks.

    Args:
        reader: the stream.
        timeout: how long that may take; without a limit if it is ``None``. A source that blocks a thread goes on
            blocking it after that.
        concat: how to join the chunks.

    Raises:
        StreamFailedError: the stream raised an error; it is the cause.
        StreamTimeoutError: the time is up.
        ConcatError: the chunks can't be joined.

    >>> concat_stream(StreamReader(["a", "b"]))
    'ab'
    """
    return concat(_read(reader, timeout))


async def aconcat_stream(
    reader: StreamReader[Any], *, timeout: timedelta | None = None, concat: Callable[[list[Any]], Any] = concat
) -> Any:
    """Do what :func:`concat_stream` does, on the running event loop."""
    return concat(await _aread(reader, timeout))


def keep_chunks(reader: StreamReader[Any], *, timeout: timedelta | None = None) -> KeptChunks:
    """Read a stream to its end and keep its chunks apart; arguments and errors are those of :func:`concat_stream`."""
    return KeptChunks(_read(reader, timeout))


async def akeep_chunks(reader: StreamReader[Any], *, timeout: timedelta | None = None) -> KeptChunks:
    """Do what :func:`keep_chunks` does, on the running event loop."""
    return KeptChunks(await _aread(reader, timeout))


def joined(value: Any) -> Any:
    """Return a value that a checkpoint holds, where chunks that were kept apart are joined."""
    return value.value() if type(value) is KeptChunks else value


def _read(reader: StreamReader[T], timeout: timedelta | None) -> list[T]:
    with reader:
        return read_within(reader, timeout)


async def _aread(reader: StreamReader[T], timeout: timedelta | None) -> list[T]:
    async with reader:
        try:
            return await aread_within(reader, timeout)
        except StreamTimeoutError:
            reader.close()  # waiting for the source to stop would go on after the time limit
            raise


def read_within(reader: StreamReader[T], timeout: timedelta | None) -> list[T]:
    """Read a stream to its end and return its chunks; does not close it, and raises as :func:`concat_stream` does."""
    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    chunks: list[T] = []
    while True:
        try:
            item = reader.read_before(deadline)
        except _ABOUT_THE_READER:
            raise
        except Exception as error:
            if deadline is not None and isinstance(error, StreamTimeoutError) and time.monotonic() >= deadline:
                raise _too_slow(timeout, chunks) from None
            raise _failed(error, chunks) from error
        if item is END or item is NOT_YET:
            return chunks
        chunks.append(item)


async def aread_within(reader: StreamReader[T], timeout: timedelta | None) -> list[T]:
    """Do as :func:`read_within` does, on the running event loop."""
    chunks: list[T] = []
    limit = asyncio.timeout(None if timeout is None else timeout.total_seconds())
    try:
        async with limit:
            async for chunk in reader:
                chunks.append(chunk)
    except _ABOUT_THE_READER:
        raise
    except Exception as error:
        if limit.expired():
            raise _too_slow(timeout, chunks) from None
        raise _failed(error, chunks) from error
    return chunks


def _too_slow(timeout: timedelta | None, chunks: list[Any]) -> StreamTimeoutError:
    return StreamTimeoutError(
        f"the stream did not end within its time limit of {timeout}; {len(chunks)} chunks had come",
        position=len(chunks),
        chunks=chunks,
    )


def _failed(error: Exception, chunks: list[Any]) -> StreamFailedError:
    return StreamFailedError(
        f"the stream failed after {len(chunks)} chunks: {text_of(error)}", position=len(chunks), chunks=chunks
    )
