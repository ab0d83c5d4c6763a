from __future__ import annotations

import asyncio
import gc
import threading
from datetime import timedelta
from typing import Any

import pytest
from stream_runs import LIMIT, in_thread, run, until

from blobcp import StreamClosedError, StreamError, StreamLoopError, StreamReader, StreamTimeoutError, stream_pipe


async def all_of(reader: StreamReader[Any]) -> list[Any]:
    """Read to the end."""
    return [chunk async for chunk in reader]


def test_from_thread_to_thread() -> None:
    """What one thread sends another reads, in order, then the end."""
    writer, reader = stream_pipe(2)

    def push() -> None:
        with writer:
            for number in range(100):
                writer.send(number)

    thread = in_thread(push)
    read = list(reader)
    thread.join(LIMIT)

    assert read == list(range(100))


def test_from_task_to_task() -> None:
    """So it is between tasks, on a pipe that holds one chunk."""

    async def main() -> list[int]:
        writer, reader = stream_pipe(1)

        async def push() -> None:
            async with writer:
                for number in range(100):
                    await writer.asend(number)

        pushing = asyncio.create_task(push())
        read = await all_of(reader)
        await pushing
        return read

    assert run(main()) == list(range(100))


def test_from_thread_to_task_and_back() -> None:
    """So it is between a thread and a task, either way."""

    async def main() -> tuple[list[int], list[int]]:
        writer, reader = stream_pipe(1)

        def push() -> None:
            with writer:
                for number in range(50):
                    writer.send(number)

        there, _ = await asyncio.gather(all_of(reader), asyncio.to_thread(push))
        back_writer, back_reader = stream_pipe(1)

        async def apush() -> None:
            async with back_writer:
                for number in range(50):
                    await back_writer.asend(number)

        back, _ = await asyncio.gather(asyncio.to_thread(list, back_reader), apush())
        return there, back

    assert run(main()) == (list(range(50)), list(range(50)))


def test_full_pipe_holds_the_writer_back() -> None:
    """A writer that is ``size`` chunks ahead waits, and goes on when one is read."""

    async def main() -> list[int]:
        writer, reader = stream_pipe(2)
        sent: list[int] = []

        async def push() -> None:
            async with writer:
                for number in range(4):
                    await writer.asend(number)
                    sent.append(number)

        pushing = asyncio.create_task(push())
        for _ in range(10):
            await asyncio.sleep(0)
        ahead = list(sent)
        assert await anext(reader) == 0
        for _ in range(10):
            await asyncio.sleep(0)
        after_one = list(sent)
        assert await all_of(reader) == [1, 2, 3]
        await pushing
        return [len(ahead), len(after_one), len(sent)]

    assert run(main()) == [2, 3, 4]


def test_errors_keep_their_place() -> None:
    """B043: an error that is sent stands between the chunks, and reading goes on after it."""
    writer, reader = stream_pipe()
    with writer:
        writer.send(1)
        writer.send_error(ValueError("x"))
        writer.send(2)

    assert next(reader) == 1
    with pytest.raises(ValueError, match="x"):
        next(reader)
    assert list(reader) == [2]


def test_errors_sent_by_a_task() -> None:
    """So it is with the async methods."""

    async def main() -> tuple[int, list[int]]:
        writer, reader = stream_pipe(1)

        async def push() -> None:
            async with writer:
                await writer.asend(1)
                await writer.asend_error(ValueError("x"))
                await writer.asend(2)

        pushing = asyncio.create_task(push())
        first = await anext(reader)
        with pytest.raises(ValueError, match="x"):
            await anext(reader)
        rest = await all_of(reader)
        await pushing
        return first, rest

    assert run(main()) == (1, [2])


def test_block_that_raises() -> None:
    """Where the block of the writer raises, the reader gets that error last, even of a pipe that is full."""
    writer, reader = stream_pipe(1)
    writer.send(1)
    with pytest.raises(ValueError, match="x"), writer:
        raise ValueError("x")

    assert next(reader) == 1
    with pytest.raises(ValueError, match="x"):
        next(reader)
    assert list(reader) == []


def test_writer_is_told() -> None:
    """B042: a writer whose reader is closed is told so by its next send."""
    writer, reader = stream_pipe()
    writer.send(1)
    reader.close()

    with pytest.raises(StreamClosedError, match="the reader of the pipe is closed"):
        writer.send(2)
    with pytest.raises(StreamClosedError, match="the reader of the pipe is closed"):
        run(writer.asend(3))


def test_waiting_writer_is_told() -> None:
    """So is one that waits at a full pipe: a thread, and a task."""
    told: list[type[BaseException]] = []

    def fill(writer: Any) -> None:
        try:
            writer.send(2)
        except StreamError as error:
            told.append(type(error))

    writer, reader = stream_pipe(1)
    writer.send(1)
    thread = in_thread(lambda: fill(writer))
    until(lambda: writer._pipe.room.waiters)
    reader.close()
    thread.join(LIMIT)

    async def main() -> None:
        writer, reader = stream_pipe(1)
        await writer.asend(1)
        sending = asyncio.create_task(writer.asend(2))
        await asyncio.sleep(0)
        await reader.aclose()
        with pytest.raises(StreamClosedError):
            await sending

    run(main())
    assert told == [StreamClosedError]


def test_writer_is_told_by_the_last_copy() -> None:
    """The writer of a copied pipe goes on until the last copy is closed; a dropped reader counts."""
    writer, reader = stream_pipe()
    one, other = reader.copy(2)
    one.close()
    writer.send(1)
    assert next(other) == 1
    del other
    gc.collect()

    with pytest.raises(StreamClosedError):
        writer.send(2)


def test_dropped_writer() -> None:
    """A writer that is dropped unclosed does not leave the reader waiting: it gets an error, then the end."""
    writer, reader = stream_pipe()
    writer.send(1)
    del writer
    gc.collect()

    assert next(reader) == 1
    with pytest.raises(StreamError, match="dropped without being closed"):
        next(reader)
    assert list(reader) == []


def test_send_after_close() -> None:
    """A writer that is closed sends no more; closing it again does nothing."""
    writer, reader = stream_pipe()
    writer.close()
    writer.close(ValueError("too late"))

    with pytest.raises(StreamClosedError, match="send after close"):
        writer.send(1)
    assert list(reader) == []


def test_send_within_a_time_limit() -> None:
    """A send into a full pipe gives up when its time is over, and has put nothing in."""
    writer, reader = stream_pipe(1)
    writer.send(1)

    with pytest.raises(StreamTimeoutError, match="sending into a full pipe took longer than its time limit"):
        writer.send(2, timeout=timedelta(milliseconds=1))
    writer.close()
    assert list(reader) == [1]


def test_cancelled_send() -> None:
    """A send that is cancelled has put nothing in, and the others go on."""

    async def main() -> list[int]:
        writer, reader = stream_pipe(1)
        await writer.asend(1)
        sends = [asyncio.create_task(writer.asend(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        sends[0].cancel()
        assert await anext(reader) == 1
        await asyncio.wait(sends)
        writer.close()
        return await all_of(reader)

    assert run(main()) == [3]


def test_waiting_in_the_thread_of_a_loop() -> None:
    """A sync read or send that would wait in a loop's thread is an error: the other end may be a task of that loop."""

    async def main() -> None:
        writer, reader = stream_pipe(1)
        with pytest.raises(StreamLoopError, match="would block the event loop"):
            next(reader)
        writer.send(1)
        with pytest.raises(StreamLoopError, match="would block the event loop"):
            writer.send(2)
        assert next(reader) == 1

    run(main())


def test_size_below_one() -> None:
    """A pipe that could hold nothing is refused."""
    with pytest.raises(StreamError, match="size 0 lets nothing through"):
        stream_pipe(0)


def test_many_writers_and_readers() -> None:
    """Threads that send and read at once lose and double nothing."""
    writer, reader = stream_pipe(3)
    start = threading.Barrier(6)
    parts: list[list[int]] = []

    def push(base: int) -> None:
        start.wait(LIMIT)
        for number in range(300):
            writer.send(base + number)

    def read() -> None:
        start.wait(LIMIT)
        parts.append(list(reader))

    readers = [in_thread(read) for _ in range(3)]
    writers = [in_thread(lambda base=base: push(base)) for base in (0, 1000, 2000)]
    for thread in writers:
        thread.join(LIMIT)
    writer.close()
    for thread in readers:
        thread.join(LIMIT)

    assert sorted(number for part in parts for number in part) == [
        base + number for base in (0, 1000, 2000) for number in range(300)
    ]
