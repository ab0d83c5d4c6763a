from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from stream_runs import LIMIT, run, times

from blobcp import (
    ConcatError,
    EmptyStreamError,
    KeptChunks,
    MsgpackSerializer,
    SourceEnd,
    StreamClosedError,
    StreamFailedError,
    StreamLoopError,
    StreamReader,
    StreamTimeoutError,
    aconcat_stream,
    akeep_chunks,
    concat_stream,
    keep_chunks,
    stream_pipe,
)

SOON = timedelta(milliseconds=200)


def failing() -> Iterator[str]:
    """Yield twice, then fail."""
    yield "a"
    yield "b"
    raise ValueError("x")


async def afailing() -> AsyncIterator[str]:
    """Yield twice, then fail."""
    for chunk in failing():
        yield chunk


def flatten(reader: StreamReader[Any], *, by_async: bool, **options: Any) -> Any:
    """Join a stream, by sync or by async code."""
    return run(aconcat_stream(reader, **options)) if by_async else concat_stream(reader, **options)


@pytest.mark.parametrize("by_async", [False, True], ids=["sync", "async"])
class TestBoth:
    @pytest.mark.parametrize("timeout", [None, timedelta(seconds=LIMIT)], ids=["no limit", "limit"])
    def test_joined(self, by_async: bool, timeout: timedelta | None) -> None:
        """A stream is read to its end, joined and closed, within a limit or without, whatever its source."""
        for source in (["a", "b"], iter(["a", "b"]), times(["a", "b"])):
            reader = StreamReader(source)
            assert flatten(reader, by_async=by_async, timeout=timeout) == "ab"
            with pytest.raises(StreamClosedError):
                next(reader)

    def test_function_of_its_own(self, by_async: bool) -> None:
        """The chunks are joined by the function that is given."""
        assert flatten(StreamReader([1, 2]), by_async=by_async, concat=sum) == 3

    @pytest.mark.parametrize("make", [failing, afailing])
    def test_error_keeps_its_position(self, by_async: bool, make: Any) -> None:
        """An error in the stream is the cause; how many chunks came before it, and which, are on the error."""
        with pytest.raises(StreamFailedError, match="the stream failed after 2 chunks: ValueError: x") as caught:
            flatten(StreamReader(make()), by_async=by_async)

        assert (caught.value.position, caught.value.chunks) == (2, ["a", "b"])
        assert isinstance(caught.value.__cause__, ValueError)

    def test_base_exceptions_pass(self, by_async: bool) -> None:
        """A stop signal out of the stream comes through as it is."""

        class Stop(BaseException):
            pass

        def source() -> Iterator[str]:
            yield "a"
            raise Stop

        with pytest.raises(Stop):
            flatten(StreamReader(source()), by_async=by_async)

    def test_time_limit_of_a_pipe(self, by_async: bool) -> None:
        """A stream that does not end in time gives what came, and its writer is told."""
        writer, reader = stream_pipe()
        writer.send("a")
        with pytest.raises(
            StreamTimeoutError, match=r"did not end within its time limit of 0:00:00.2.*; 1 chunks"
        ) as caught:
            flatten(reader, by_async=by_async, timeout=SOON)

        assert (caught.value.position, caught.value.chunks) == (1, ["a"])
        with pytest.raises(StreamClosedError):
            writer.send("b")

    def test_time_limit_of_a_blocking_source(self, by_async: bool) -> None:
        """A generator that blocks its thread does not hold up whoever waits; its clean-up runs when it can."""
        go, closed = threading.Event(), threading.Event()

        def source() -> Iterator[str]:
            try:
                yield "a"
                assert go.wait(LIMIT)
                yield "b"
            finally:
                closed.set()

        try:
            with pytest.raises(StreamTimeoutError) as caught:
                flatten(StreamReader(source()), by_async=by_async, timeout=SOON)
            assert not closed.is_set()
        finally:
            go.set()

        assert caught.value.chunks == ["a"]
        assert closed.wait(LIMIT)

    def test_time_limit_of_an_async_source(self, by_async: bool) -> None:
        """An async source is stopped when the time is up."""
        closed: list[str] = []

        async def source() -> AsyncIterator[str]:
            try:
                yield "a"
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

        with pytest.raises(StreamTimeoutError):
            flatten(StreamReader(source()), by_async=by_async, timeout=SOON)

        assert closed == ["closed"]

    def test_time_out_inside_the_source(self, by_async: bool) -> None:
        """A time-out that the source itself raises is an error of the stream, not of the limit."""

        def source() -> Iterator[str]:
            raise TimeoutError("inner")
            yield "a"

        with pytest.raises(StreamFailedError, match="TimeoutError: inner"):
            flatten(StreamReader(source()), by_async=by_async, timeout=timedelta(seconds=LIMIT))

    def test_what_can_not_be_joined(self, by_async: bool) -> None:
        """Chunks that don't join, or none at all, are errors of the join."""
        with pytest.raises(ConcatError, match="type mismatch"):
            flatten(StreamReader(["a", 1]), by_async=by_async)
        with pytest.raises(EmptyStreamError):
            flatten(StreamReader([]), by_async=by_async)


def test_sync_on_a_loop() -> None:
    """Where sync flattening would block a loop, the error says so itself."""

    async def main() -> None:
        with pytest.raises(StreamLoopError, match="would block"):
            concat_stream(StreamReader(times(["a"])))

    run(main())


class TestKept:
    def test_same_chunks(self) -> None:
        """The chunks that are kept make a stream with the same boundaries again, and the value."""
        kept = keep_chunks(StreamReader(iter(["a", "", "bc"])))
        also = run(akeep_chunks(StreamReader(times(["a", "", "bc"]))))

        assert kept == also == KeptChunks(["a", "", "bc"])
        assert (list(kept.reader()), list(kept.reader()), kept.value()) == (["a", "", "bc"], ["a", "", "bc"], "abc")

    def test_stored(self) -> None:
        """They come back from a checkpoint, markers of ended sources included."""
        serializer = MsgpackSerializer()
        kept = KeptChunks(["a", SourceEnd("s1"), {"b": 1}])

        assert serializer.loads(serializer.dumps(kept)) == kept

    def test_errors(self) -> None:
        """A stream that fails or takes too long is no value."""
        with pytest.raises(StreamFailedError):
            keep_chunks(StreamReader(failing()))
        writer, reader = stream_pipe()
        with writer, pytest.raises(StreamTimeoutError):
            run(akeep_chunks(reader, timeout=SOON))
