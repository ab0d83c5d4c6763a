from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from stream_runs import LIMIT, Bumpy, in_thread, run, times

from blobcp import StreamClosedError, StreamReader, stream_pipe


class Chunk:
    """Something that a weak reference can watch."""


def test_what_is_left() -> None:
    """B042: after one read of ``[1, 2, 3]``, both copies start at 2."""
    reader = StreamReader([1, 2, 3])
    assert next(reader) == 1

    assert [list(copy) for copy in reader.copy(2)] == [[2, 3], [2, 3]]


@pytest.mark.parametrize("n", [1, 0, -1])
def test_fewer_than_two(n: int) -> None:
    """B042: n below 2 gives the same reader back, and it still reads."""
    reader = StreamReader([1])
    [only] = reader.copy(n)

    assert only is reader
    assert list(reader) == [1]


def test_copied_reader_is_gone() -> None:
    """A reader that was copied says what to read instead; closing it does nothing."""
    reader = StreamReader([1])
    one, other = reader.copy(2)
    reader.close()

    with pytest.raises(StreamClosedError, match="read after close: the stream was copied; read the copies"):
        next(reader)
    with pytest.raises(StreamClosedError, match="copied"):
        reader.copy(2)
    assert (list(one), list(other)) == ([1], [1])


def test_errors_in_place() -> None:
    """B043: items 1, error, 2: each copy gives 1, raises, gives 2, then reports the end again and again."""
    error = ValueError("x")
    found: list[list[Any]] = []
    for copy in StreamReader(Bumpy(1, error, 2)).copy(3):
        found.append([next(copy)])
        with pytest.raises(ValueError, match="x") as caught:
            next(copy)
        found[-1] += [caught.value is error, next(copy), next(copy, "end"), next(copy, "end")]

    assert found == [[1, True, 2, "end", "end"]] * 3


def test_tracebacks_do_not_grow() -> None:
    """An error that several copies raise has the same traceback in each, however often it was raised before."""

    def source() -> Iterator[int]:
        raise ValueError("x")
        yield 1

    lengths: list[int] = []
    for copy in StreamReader(source()).copy(4)[:3]:
        with pytest.raises(ValueError, match="x") as caught:
            next(copy)
        lengths.append(len(caught.traceback))

    assert lengths[1] == lengths[2] <= lengths[0]


def test_end_again() -> None:
    """The end is reported again on each further read of a copy, also where the loop of its source is gone."""
    for copy in StreamReader(times([1])).copy(2):
        assert [next(copy), next(copy, "end"), next(copy, "end")] == [1, "end", "end"]


def test_base_exceptions_in_place() -> None:
    """What is no ``Exception`` (a stop signal) reaches every copy too."""

    class Stop(BaseException):
        pass

    for copy in StreamReader(Bumpy(1, Stop(), 2)).copy(2):
        assert next(copy) == 1
        with pytest.raises(Stop):
            next(copy)
        assert list(copy) == [2]


def test_source_closes_with_the_last_copy() -> None:
    """B042: the source is closed when the last copy is; closing a copy twice counts once."""
    closed: list[str] = []

    def source() -> Iterator[int]:
        try:
            yield from (1, 2)
        finally:
            closed.append("closed")

    one, other = StreamReader(source()).copy(2)
    assert next(one) == 1
    one.close()
    one.close()
    before = list(closed)
    assert next(other) == 1
    other.close()

    assert (before, closed) == ([], ["closed"])
    with pytest.raises(StreamClosedError, match="read after close"):
        next(one)


def test_dropped_copy_counts_as_closed() -> None:
    """K49: a copy that nobody holds any more does not keep the source open."""

    async def main() -> list[str]:
        closed: list[str] = []
        one, other = StreamReader(times([1, 2], closed)).copy(2)
        assert await anext(one) == 1
        del other
        gc.collect()
        await one.aclose()
        return list(closed)

    assert run(main()) == ["closed"]


def test_lazily() -> None:
    """Nothing is read before a copy asks, and nothing twice."""
    pulled: list[int] = []

    def source() -> Iterator[int]:
        for number in range(3):
            pulled.append(number)
            yield number

    one, other = StreamReader(source()).copy(2)
    before = list(pulled)
    next(one)
    next(other)

    assert (before, pulled) == ([], [0])


def test_memory_is_bounded_by_the_slowest() -> None:
    """Only what the slowest copy has not read is kept: no chunk where they advance together."""
    alive: weakref.WeakSet[Chunk] = weakref.WeakSet()

    def source() -> Iterator[Chunk]:
        while True:
            chunk = Chunk()
            alive.add(chunk)
            yield chunk
            del chunk

    one, other = StreamReader(source()).copy(2)
    most = 0
    for _ in range(500):
        next(one), next(other)
        most = max(most, len(alive))
    for _ in range(100):
        next(one)
    behind = len(alive)
    for _ in range(100):
        next(other)
    together = len(alive)
    for _ in range(100):
        next(one)
    other.close()
    one.close()

    assert most <= 2
    assert 100 <= behind <= 102
    assert together <= 2
    assert len(alive) <= 2


def test_far_behind() -> None:
    """A copy may be 200,000 chunks behind, and be dropped there."""
    one, other = StreamReader(range(200_000)).copy(2)
    assert sum(1 for _ in one) == 200_000
    assert next(other) == 0
    del other


def test_copies_of_copies() -> None:
    """A copy can be copied where it stands; the source closes with the last of all."""
    closed: list[str] = []

    def source() -> Iterator[int]:
        try:
            yield from (1, 2, 3)
        finally:
            closed.append("closed")

    one, other = StreamReader(source()).copy(2)
    assert next(one) == 1
    three = [*one.copy(2), other]
    assert [next(three[0]), next(three[1]), next(three[2])] == [2, 2, 1]
    for copy in three[:2]:
        copy.close()
    before = list(closed)
    three[2].close()

    assert (before, closed) == ([], ["closed"])


def counted(pulled: list[int]) -> Iterator[int]:
    """Yield numbers, and note which were pulled."""
    for number in range(200):
        pulled.append(number)
        yield number


async def acounted(pulled: list[int]) -> AsyncIterator[int]:
    """Do so with a turn of the loop now and then."""
    for number in counted(pulled):
        if number % 3 == 0:
            await asyncio.sleep(0)
        yield number


def piped(pulled: list[int]) -> StreamReader[int]:
    """Do so from a thread, through a pipe."""
    writer, reader = stream_pipe(4)

    def push() -> None:
        with writer:
            for number in counted(pulled):
                writer.send(number)

    in_thread(push)
    return reader


SOURCES: dict[str, Callable[[list[int]], Any]] = {
    "list": lambda pulled: list(counted(pulled)),
    "generator": counted,
    "async": acounted,
    "pipe": piped,
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_threads_and_tasks(make: Callable[[list[int]], Any]) -> None:
    """Copies that are read at once by threads and by tasks each get everything, in order; each chunk is pulled once."""
    pulled: list[int] = []
    start = threading.Barrier(2)

    def read(copy: StreamReader[int]) -> list[int]:
        start.wait(LIMIT)
        return list(copy)

    async def aread(copy: StreamReader[int]) -> list[int]:
        return [number async for number in copy]

    async def main() -> list[list[int]]:
        copies = StreamReader(make(pulled)).copy(4)
        return await asyncio.gather(*(asyncio.to_thread(read, copy) for copy in copies[:2]), *map(aread, copies[2:]))

    assert run(main()) == [list(range(200))] * 4
    assert pulled == list(range(200))


def test_cancelled_copy_takes_nothing_from_the_others() -> None:
    """The task whose read pulls is cancelled: the source is not, and both copies get the chunk."""

    async def main() -> list[list[int]]:
        go = asyncio.Event()

        async def source() -> AsyncIterator[int]:
            await go.wait()
            yield 1
            yield 2

        one, other = StreamReader(source()).copy(2)
        reading = asyncio.create_task(one.__anext__())
        waiting = asyncio.create_task(other.__anext__())
        await asyncio.sleep(0.001)
        reading.cancel()
        await asyncio.wait([reading])
        go.set()
        first = await waiting
        return [[chunk async for chunk in one], [first] + [chunk async for chunk in other]]

    assert run(main()) == [[1, 2], [1, 2]]


def test_last_copy_closed_while_a_thread_pulls() -> None:
    """All copies are closed while one of them is in the generator: its clean-up runs when the thread comes out."""
    inside, go, closed = threading.Event(), threading.Event(), []

    class Source:
        """An iterator whose ``close`` nobody calls but the stream."""

        def __iter__(self) -> Source:
            return self

        def __next__(self) -> int:
            inside.set()
            assert go.wait(LIMIT)
            return 1

        def close(self) -> None:
            closed.append("closed")

    one, other = StreamReader(Source()).copy(2)
    thread = in_thread(lambda: next(one))
    assert inside.wait(LIMIT)
    other.close()
    one.close()
    before = list(closed)
    go.set()
    thread.join(LIMIT)

    assert (before, closed) == ([], ["closed"])


def test_copy_waits_for_the_one_that_pulls() -> None:
    """A thread and a task that need the chunk which another thread is pulling get it from that pull."""
    inside, go = threading.Event(), threading.Event()
    pulls: list[int] = []

    def source() -> Iterator[int]:
        pulls.append(1)
        inside.set()
        assert go.wait(LIMIT)
        yield 1

    async def main() -> list[int]:
        one, other, third = StreamReader(source()).copy(3)
        pulling = asyncio.to_thread(next, one)
        first = asyncio.create_task(pulling)
        assert await asyncio.to_thread(inside.wait, LIMIT)
        second = asyncio.create_task(asyncio.to_thread(next, other))
        reading = asyncio.create_task(third.__anext__())
        while not (other._bell.waiters and third._bell.waiters):
            await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(first, second, reading)

    assert run(main()) == [1, 1, 1]
    assert len(pulls) == 1
