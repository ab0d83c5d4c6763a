from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from stream_runs import LIMIT, Bumpy, in_thread, run, times, until

from blobcp import StreamClosedError, StreamError, StreamLoopError, StreamReader, stream_pipe


def numbers(closed: list[str]) -> Iterator[int]:
    """Yield 1, 2, 3 and note that the clean-up ran."""
    try:
        yield from (1, 2, 3)
    finally:
        closed.append("closed")


async def all_of(reader: StreamReader[Any]) -> list[Any]:
    """Read to the end."""
    return [chunk async for chunk in reader]


def outcomes(reader: StreamReader[Any], reads: int) -> list[Any]:
    """Read so often, and say what came of each."""
    found: list[Any] = []
    for _ in range(reads):
        try:
            found.append(next(reader))
        except StopIteration:
            found.append("end")
        except Exception as error:
            found.append(repr(error))
    return found


async def aoutcomes(reader: StreamReader[Any], reads: int) -> list[Any]:
    """Do the same on the loop."""
    found: list[Any] = []
    for _ in range(reads):
        try:
            found.append(await anext(reader))
        except StopAsyncIteration:
            found.append("end")
        except Exception as error:
            found.append(repr(error))
    return found


SOURCES: dict[str, Any] = {
    "list": lambda: [1, 2, 3],
    "tuple": lambda: (1, 2, 3),
    "generator": lambda: numbers([]),
    "iterator": lambda: iter([1, 2, 3]),
    "async generator": lambda: times([1, 2, 3]),
    "reader": lambda: StreamReader([1, 2, 3]),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
class TestEverySource:
    def test_sync(self, make: Any) -> None:
        """Sync code reads whatever the source is, and is told the end again and again."""
        assert outcomes(StreamReader(make()), 5) == [1, 2, 3, "end", "end"]

    def test_async(self, make: Any) -> None:
        """So does async code."""

        async def main() -> list[Any]:
            return await aoutcomes(StreamReader(make()), 5)

        assert run(main()) == [1, 2, 3, "end", "end"]

    def test_made_outside_of_the_loop(self, make: Any) -> None:
        """Async code reads a reader that was made where no loop ran."""
        reader = StreamReader(make())

        assert run(all_of(reader)) == [1, 2, 3]

    def test_by_turns(self, make: Any) -> None:
        """Async code goes on where sync code in a thread left off."""

        async def main() -> list[Any]:
            reader = StreamReader(make())
            return [await asyncio.to_thread(next, reader), await anext(reader), await asyncio.to_thread(next, reader)]

        assert run(main()) == [1, 2, 3]


def test_async_source_read_by_sync_code_in_another_thread() -> None:
    """An async source runs on the loop that it was made on, while a thread reads it by ``for``."""

    async def main() -> tuple[list[int], set[int]]:
        where: set[int] = set()

        async def source() -> AsyncIterator[int]:
            for number in range(3):
                where.add(threading.get_ident())
                await asyncio.sleep(0)
                yield number

        return await asyncio.to_thread(list, StreamReader(source())), where

    assert run(main()) == ([0, 1, 2], {threading.get_ident()})


def test_async_source_read_by_sync_code_in_its_own_loop() -> None:
    """Where waiting would block the loop that has to bring the chunk, there is an error and no hang; nothing is lost."""

    async def main() -> list[int]:
        reader = StreamReader(times([1, 2]))
        with pytest.raises(StreamLoopError, match="would block the event loop"):
            next(reader)
        return await all_of(reader)

    assert run(main()) == [1, 2]


def test_async_source_of_a_loop_that_is_closed() -> None:
    """Where the loop of a source is gone, the reader says so."""

    async def main() -> StreamReader[int]:
        return StreamReader(times([1, 2]))

    reader = asyncio.run(main())

    with pytest.raises(StreamLoopError, match="the event loop that its source belongs to is closed"):
        next(reader)
    with pytest.raises(StreamLoopError, match="is closed"):
        run(all_of(reader))
    reader.close()


def test_loop_that_stops_while_a_thread_waits() -> None:
    """A thread that waits for a source whose loop stops is told so within a moment."""
    reading = threading.Event()
    told: list[BaseException] = []

    async def source() -> AsyncIterator[int]:
        reading.set()
        await asyncio.Event().wait()
        yield 1

    loop = asyncio.new_event_loop()
    turning = in_thread(loop.run_forever)

    async def make() -> StreamReader[int]:
        return StreamReader(source())

    reader = asyncio.run_coroutine_threadsafe(make(), loop).result(LIMIT)

    def read() -> None:
        try:
            next(reader)
        except StreamError as error:
            told.append(error)

    thread = in_thread(read)
    assert reading.wait(LIMIT)
    loop.call_soon_threadsafe(loop.stop)
    turning.join(LIMIT)
    thread.join(LIMIT)
    loop.run_until_complete(reader.aclose())
    loop.close()

    assert [type(error) for error in told] == [StreamLoopError]


def test_loop_that_stops_while_a_task_waits() -> None:
    """So is a task of another loop."""
    others = asyncio.new_event_loop()
    turning = in_thread(others.run_forever)
    reading = threading.Event()

    async def source() -> AsyncIterator[int]:
        reading.set()
        await asyncio.Event().wait()
        yield 1

    async def make() -> StreamReader[int]:
        return StreamReader(source())

    async def main() -> None:
        read = asyncio.create_task(all_of(reader))
        assert await asyncio.to_thread(reading.wait, LIMIT)
        others.call_soon_threadsafe(others.stop)
        with pytest.raises(StreamLoopError, match="is not running"):
            await read

    reader = asyncio.run_coroutine_threadsafe(make(), others).result(LIMIT)
    run(main())
    turning.join(LIMIT)
    others.run_until_complete(reader.aclose())
    others.close()


@pytest.mark.parametrize("how", ["end", "close"])
@pytest.mark.parametrize("blocking", [False, True], ids=["async source", "blocking source"])
def test_threads_end_with_the_stream(blocking: bool, how: str) -> None:
    """The thread of a stream ends with it, although the reader is still there."""
    before = set(threading.enumerate())
    reader = StreamReader(iter([1, 2])) if blocking else StreamReader(times([1, 2]))
    if blocking:
        assert run(first_of(reader)) == 1
    else:
        assert next(reader) == 1
    started = [thread.name for thread in threading.enumerate() if thread not in before]
    if how == "close":
        reader.close()
    elif blocking:
        assert run(all_of(reader)) == [2]
    else:
        assert list(reader) == [2]
    until(lambda: not set(threading.enumerate()) - before)

    assert started == ["blobcp-stream" if blocking else "blobcp-stream-loop"]
    reader.close()


async def first_of(reader: StreamReader[Any]) -> Any:
    """Read one chunk."""
    return await anext(reader)


def test_mapped_at_its_end() -> None:
    """A reader that is at its end can still be mapped, whatever its source was."""
    for source in (iter([1]), times([1])):
        before = set(threading.enumerate())
        reader = StreamReader(source)
        assert list(reader) == [1]
        until(lambda before=before: not set(threading.enumerate()) - before)
        with reader.map(str, at_end=lambda: "end") as mapped:
            assert list(mapped) == ["end"]


def test_task_waits_for_a_thread() -> None:
    """A task that reads what a thread is just reading gets the next chunk when the thread is done."""

    async def main() -> list[int]:
        inside, go = threading.Event(), threading.Event()

        def source() -> Iterator[int]:
            inside.set()
            assert go.wait(LIMIT)
            yield from (1, 2)

        reader = StreamReader(source())
        pulling = asyncio.create_task(asyncio.to_thread(next, reader))
        assert await asyncio.to_thread(inside.wait, LIMIT)
        waiting = asyncio.create_task(first_of(reader))
        while not reader._bell.waiters:
            await asyncio.sleep(0)
        go.set()
        async with reader:
            return [await pulling, await waiting]

    assert run(main()) == [1, 2]


def test_two_loops() -> None:
    """A loop reads what belongs to another loop in another thread."""
    others = asyncio.new_event_loop()
    turning = in_thread(others.run_forever)

    async def make() -> StreamReader[int]:
        return StreamReader(times([1, 2, 3]))

    reader = asyncio.run_coroutine_threadsafe(make(), others).result(LIMIT)
    read = run(all_of(reader))
    others.call_soon_threadsafe(others.stop)
    turning.join(LIMIT)
    others.close()

    assert read == [1, 2, 3]


def test_blocking_source_does_not_block_the_loop() -> None:
    """While a generator blocks its thread, the loop that reads it goes on; the generator always runs in one thread."""

    async def main() -> tuple[list[str], int]:
        go, threads = threading.Event(), set()

        def source() -> Iterator[str]:
            for word in ("a", "b"):
                threads.add(threading.get_ident())
                assert go.wait(LIMIT)
                yield word

        reading = asyncio.create_task(all_of(StreamReader(source())))
        for _ in range(10):
            await asyncio.sleep(0)
        go.set()  # by the loop, which can do this only if it is not blocked
        return await reading, len(threads - {threading.get_ident()})

    assert run(main()) == (["a", "b"], 1)


def test_source_that_says_it_does_not_block() -> None:
    """A generator with ``blocking=False`` runs in the loop's own thread."""

    async def main() -> set[int]:
        return set(await all_of(StreamReader((threading.get_ident() for _ in range(2)), blocking=False)))

    assert run(main()) == {threading.get_ident()}


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def says_who() -> Iterator[str]:
    """Yield who runs it."""
    while True:
        yield WHO.get()


async def asays_who() -> AsyncIterator[str]:
    """Yield who runs it."""
    while True:
        yield WHO.get()


@pytest.mark.parametrize("make", [says_who, asays_who])
class TestContext:
    def test_given(self, make: Any) -> None:
        """A source's code sees the contextvars of the context it was given, whoever reads."""
        context = contextvars.copy_context()
        context.run(WHO.set, "maker")

        async def main() -> list[str]:
            async with StreamReader(make(), context=context) as reader:
                return [await anext(reader), await asyncio.to_thread(next, reader)]

        with StreamReader(make(), context=context) as reader:
            assert next(reader) == "maker"
        assert run(main()) == ["maker", "maker"]

    def test_carried(self, make: Any) -> None:
        """In another thread or task, it sees those of the first read."""

        async def main() -> str:
            WHO.set("reader")
            async with StreamReader(make()) as reader:
                return await anext(reader)

        assert run(main()) == "reader"

    def test_copied(self, make: Any) -> None:
        """The source has a copy of the context that it was given, so that code in that context can read it."""
        context = contextvars.copy_context()
        context.run(WHO.set, "maker")
        with StreamReader(make(), context=context) as reader:
            assert context.run(next, reader) == "maker"


class TestErrors:
    def test_in_place(self) -> None:
        """B043: an error keeps its place, and reading goes on where the source can."""
        assert outcomes(StreamReader(Bumpy(1, ValueError("x"), 2)), 5) == [1, "ValueError('x')", 2, "end", "end"]

    def test_in_place_async(self) -> None:
        """So it is for async code."""

        async def main() -> list[Any]:
            return await aoutcomes(StreamReader(Bumpy(1, ValueError("x"), 2)), 5)

        assert run(main()) == [1, "ValueError('x')", 2, "end", "end"]

    def test_generator_that_raises(self) -> None:
        """A generator is at its end after an error, as everywhere."""

        async def source() -> AsyncIterator[int]:
            yield 1
            raise ValueError("x")

        assert outcomes(StreamReader(source()), 4) == [1, "ValueError('x')", "end", "end"]

    def test_source_that_is_cancelled_from_inside(self) -> None:
        """A cancellation inside the source is an error of the stream, and does not look as if the reader were cancelled."""

        async def source() -> AsyncIterator[int]:
            yield 1
            raise asyncio.CancelledError

        async def main() -> list[Any]:
            return await aoutcomes(StreamReader(source()), 2)

        first, second = run(main())
        assert first == 1
        assert "StreamError('the source of the stream was cancelled from inside" in second

    @pytest.mark.parametrize("error", [StopIteration(), StopAsyncIteration()], ids=repr)
    def test_end_by_accident(self, error: Exception) -> None:
        """A conversion that lets a StopIteration out does not end the stream unseen."""

        def convert(chunk: int) -> int:
            raise error

        with pytest.raises(StreamError, match="would look like its end"):
            list(StreamReader([1]).map(convert))
        with pytest.raises(StreamError, match="would look like its end"):
            run(all_of(StreamReader([1]).map(convert)))

    @pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}], ids=["str", "bytes", "dict"])
    def test_one_value(self, value: Any) -> None:
        """A value that could be iterated over by mistake is refused."""
        with pytest.raises(StreamError, match="is one value and no stream of chunks; give a list of chunks"):
            StreamReader(value)

    def test_no_source(self) -> None:
        """So is what can't be iterated over."""
        source: Any = 5
        with pytest.raises(StreamError, match="int is no source of chunks"):
            StreamReader(source)

    def test_source_that_reads_itself(self) -> None:
        """A generator that reads the reader that reads it gets an error and no deadlock."""
        readers: list[StreamReader[int]] = []

        def source() -> Iterator[int]:
            yield next(readers[0])

        readers.append(StreamReader(source()))
        with pytest.raises(StreamError, match="read by its own source"):
            next(readers[0])
        readers[:] = StreamReader(source()).copy(2)
        with pytest.raises(StreamError, match="read by its own source"):
            next(readers[1])


class TestClosing:
    def test_read_after_close(self) -> None:
        """B042: closing twice is harmless, reading a closed reader is an error."""
        reader = StreamReader([1, 2])
        reader.close()
        reader.close()

        with pytest.raises(StreamClosedError, match="read after close"):
            next(reader)
        with pytest.raises(StreamClosedError, match="read after close"):
            run(all_of(reader))

    def test_finally_runs_once(self) -> None:
        """Closing runs the clean-up of a generator that was begun, once."""
        closed: list[str] = []
        with StreamReader(numbers(closed)) as reader:
            assert next(reader) == 1
        reader.close()

        assert closed == ["closed"]

    def test_finally_of_an_async_generator_is_awaited(self) -> None:
        """When ``aclose`` returns, the clean-up of an async generator has run to its end."""

        async def main() -> list[str]:
            closed: list[str] = []
            async with StreamReader(times([1, 2], closed)) as reader:
                assert await anext(reader) == 1
            return closed

        assert run(main()) == ["closed"]

    def test_sync_close_of_an_async_source_from_a_thread(self) -> None:
        """``close`` in another thread waits for the clean-up on the loop."""

        async def main() -> list[str]:
            closed: list[str] = []
            reader = StreamReader(times([1, 2], closed))
            assert await anext(reader) == 1
            await asyncio.to_thread(reader.close)
            return closed

        assert run(main()) == ["closed"]

    def test_sync_close_on_the_loop(self) -> None:
        """``close`` on the loop starts the clean-up and does not wait for it."""

        async def main() -> list[str]:
            closed: list[str] = []
            reader = StreamReader(times([1, 2], closed))
            assert await anext(reader) == 1
            reader.close()
            while not closed:
                await asyncio.sleep(0)
            return closed

        assert run(main()) == ["closed"]

    def test_async_source_without_a_loop(self) -> None:
        """Sync code closes an async source that it read; its own loop is gone afterwards."""
        closed: list[str] = []
        with StreamReader(times([1, 2], closed)) as reader:
            assert next(reader) == 1

        assert closed == ["closed"]

    def test_async_source_of_its_own_loop_closed_from_another(self) -> None:
        """A source that sync code began on a loop of its own is closed to its end by ``aclose`` on another."""
        closed: list[str] = []

        async def source() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                for _ in range(50):
                    await asyncio.sleep(0)
                closed.append("closed")

        reader = StreamReader(source())
        assert next(reader) == 1
        run(reader.aclose())

        assert closed == ["closed"]

    def test_async_source_never_read(self) -> None:
        """A source that was never begun is closed without a trace."""
        StreamReader(times([1])).close()

        async def main() -> None:
            await StreamReader(times([1])).aclose()
            StreamReader(times([1])).close()

        run(main())

    def test_source_that_fails_to_close(self) -> None:
        """What the clean-up raises comes out of ``close``."""

        def source() -> Iterator[int]:
            try:
                yield 1
            finally:
                raise ValueError("clean-up")

        async def main() -> None:
            reader = StreamReader(source())
            assert await anext(reader) == 1
            await reader.aclose()

        reader = StreamReader(source())
        assert next(reader) == 1
        with pytest.raises(ValueError, match="clean-up"):
            reader.close()
        with pytest.raises(ValueError, match="clean-up"):
            run(main())

    def test_close_while_another_thread_is_in_the_generator(self) -> None:
        """The clean-up then runs as soon as that thread comes out; ``close`` does not wait for it."""
        inside, go, closed, read = threading.Event(), threading.Event(), [], []

        def source() -> Iterator[int]:
            try:
                inside.set()
                assert go.wait(LIMIT)
                yield 1
            finally:
                closed.append("closed")

        reader = StreamReader(source())
        thread = in_thread(lambda: read.append(next(reader)))
        assert inside.wait(LIMIT)
        reader.close()
        before = list(closed)
        go.set()
        thread.join(LIMIT)

        assert (before, closed, read) == ([], ["closed"], [1])
        with pytest.raises(StreamClosedError):
            next(reader)

    def test_close_while_a_task_waits(self) -> None:
        """A task that waits for a chunk is told that its reader was closed, and the source is stopped."""

        async def main() -> list[str]:
            closed: list[str] = []

            async def source() -> AsyncIterator[int]:
                try:
                    await asyncio.Event().wait()
                    yield 1
                finally:
                    closed.append("closed")

            reader = StreamReader(source())
            reading = asyncio.create_task(all_of(reader))
            await asyncio.sleep(0.01)
            await reader.aclose()
            with pytest.raises(StreamClosedError):
                await reading
            return closed

        assert run(main()) == ["closed"]

    def test_close_while_a_thread_waits(self) -> None:
        """So is a thread that waits at an empty pipe."""
        writer, reader = stream_pipe()
        told: list[BaseException] = []

        def read() -> None:
            try:
                next(reader)
            except StreamError as error:
                told.append(error)

        thread = in_thread(read)
        until(lambda: reader._bell.waiters)
        reader.close()
        thread.join(LIMIT)
        writer.close()

        assert [type(error) for error in told] == [StreamClosedError]

    def test_dropped_source(self) -> None:
        """A reader that is dropped unclosed leaves nothing: its generator's clean-up runs, its pull is cancelled."""

        async def main() -> list[str]:
            closed: list[str] = []

            async def source() -> AsyncIterator[int]:
                try:
                    await asyncio.Event().wait()
                    yield 1
                finally:
                    closed.append("closed")

            reader = StreamReader(source())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.001)
            del reader
            gc.collect()
            while not closed:
                await asyncio.sleep(0)
            return closed

        closed: list[str] = []
        reader = StreamReader(numbers(closed))
        next(reader)
        dropped = weakref.ref(reader)
        del reader

        assert (closed, dropped()) == (["closed"], None)
        assert run(main()) == ["closed"]


class TestCancelledReads:
    def test_async_source(self) -> None:
        """A read that is cancelled loses nothing: the chunk that was on its way comes with the next read."""

        async def main() -> tuple[list[int], int]:
            go, cancelled = asyncio.Event(), []

            async def source() -> AsyncIterator[int]:
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    cancelled.append(1)
                    raise
                yield 1
                yield 2

            reader = StreamReader(source())
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(reader), 0.001)
            go.set()
            return await all_of(reader), len(cancelled)

        assert run(main()) == ([1, 2], 0)

    def test_blocking_source(self) -> None:
        """So it is for a generator that blocks its thread."""

        async def main() -> list[int]:
            go = threading.Event()

            def source() -> Iterator[int]:
                assert go.wait(LIMIT)
                yield from (1, 2)

            reader = StreamReader(source())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.001)
            go.set()
            return await all_of(reader)

        assert run(main()) == [1, 2]

    def test_many_readers_of_one(self) -> None:
        """Tasks that read one reader at once get each chunk once between them, however many are cancelled."""

        async def main() -> list[int]:
            writer, reader = stream_pipe()
            tasks = [asyncio.create_task(reader.__anext__()) for _ in range(20)]
            await asyncio.sleep(0)
            for number in range(20):
                await writer.asend(number)
                if number % 2:
                    tasks[number].cancel()
            writer.close()
            read = await asyncio.gather(*tasks, return_exceptions=True)
            rest = await all_of(reader)
            return sorted([each for each in read if isinstance(each, int)] + rest)

        assert run(main()) == list(range(20))

    def test_close_does_not_wait_for_a_thread_that_blocks(self) -> None:
        """After a cancelled read of a blocking source, ``close`` returns at once; the clean-up runs when it can."""
        go, closed = threading.Event(), []

        def source() -> Iterator[int]:
            try:
                assert go.wait(LIMIT)
                yield 1
            finally:
                closed.append("closed")

        async def main() -> list[str]:
            reader = StreamReader(source())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.001)
            await asyncio.to_thread(reader.close)
            return list(closed)

        before = run(main())
        go.set()
        until(lambda: closed)

        assert before == []


def test_threads_share_a_reader() -> None:
    """Threads that read one reader at once get each chunk once between them."""
    reader = StreamReader(iter(range(2000)))
    start = threading.Barrier(4)
    parts: list[list[int]] = []

    def read() -> None:
        start.wait(LIMIT)
        parts.append(list(reader))

    threads = [in_thread(read) for _ in range(4)]
    for thread in threads:
        thread.join(LIMIT)

    assert sorted(number for part in parts for number in part) == list(range(2000))


def test_shown() -> None:
    """A reader shows what became of it."""
    reader = StreamReader([1])
    shown = [repr(reader)]
    list(reader)
    shown.append(repr(reader))
    reader.map(str)
    shown.append(repr(reader))

    assert shown == [
        "<StreamReader: open>",
        "<StreamReader: at its end>",
        "<StreamReader: mapped; read what map() returned>",
    ]
