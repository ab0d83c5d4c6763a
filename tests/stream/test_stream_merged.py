from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from stream_runs import LIMIT, Bumpy, run, times

from blobcp import SourceEnd, StreamClosedError, StreamError, StreamReader, merge_streams, stream_pipe


def merged(sources: Any, **options: Any) -> StreamReader[Any]:
    """Merge what is there to merge."""
    reader: StreamReader[Any] | None = merge_streams(sources, **options)
    assert reader is not None
    return reader


async def all_of(reader: StreamReader[Any]) -> list[Any]:
    """Read to the end."""
    return [chunk async for chunk in reader]


def test_lists_in_order() -> None:
    """B044: merging readers over ``[1, 2, 3]``, ``[4, 5, 6]`` and ``[7, 8, 9]`` gives 1 to 9 in that order."""
    lists = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]

    assert list(merged(StreamReader(each) for each in lists)) == list(range(1, 10))
    assert run(all_of(merged([StreamReader(each) for each in lists]))) == list(range(1, 10))


def test_mapped_and_copied_lists_in_order() -> None:
    """So it is where the lists are converted or copied."""
    one = StreamReader([1, 2]).map(lambda number: number * 10)
    two, _ = StreamReader([3, 4]).copy(2)

    assert list(merged([one, two])) == [10, 20, 3, 4]


@pytest.mark.parametrize("sources", [{}, []])
def test_nothing(sources: Any) -> None:
    """B044: merging nothing gives no reader."""
    assert merge_streams(sources) is None


def live(numbers: list[int]) -> Iterator[int]:
    """Yield numbers from a generator."""
    yield from numbers


LIVE: dict[str, Any] = {"generator": live, "async generator": times}


@pytest.mark.parametrize("make", LIVE.values(), ids=LIVE)
class TestLive:
    def test_with_a_list(self, make: Any) -> None:
        """B044: a list reader merged with a live one gives every item once; each keeps its order."""
        read = list(merged([StreamReader(make([4, 5, 6])), StreamReader([1, 2, 3])]))

        assert read == [1, 2, 3, 4, 5, 6]

    def test_several(self, make: Any) -> None:
        """Live ones give every item once, in the order of its source; sync and async."""
        parts = [list(range(base, base + 50)) for base in (0, 100, 200)]

        for read in (
            list(merged([StreamReader(make(part)) for part in parts])),
            run(all_of(merged([StreamReader(make(part)) for part in parts]))),
        ):
            assert [[number for number in read if number // 100 == each] for each in range(3)] == parts
            assert len(read) == 150

    def test_names_and_ends(self, make: Any) -> None:
        """B044: of stream1 (2 items) and stream2 (3): five items, one end marker each after its items, the real end."""
        sources = {"stream1": StreamReader(make([11, 12])), "stream2": StreamReader(make([21, 22, 23]))}
        read = list(merged(sources, mark_ends=True))

        ones = [item for item in read if item in (11, 12, SourceEnd("stream1"))]
        twos = [item for item in read if item in (21, 22, 23, SourceEnd("stream2"))]
        assert ones == [11, 12, SourceEnd("stream1")]
        assert twos == [21, 22, 23, SourceEnd("stream2")]
        assert len(read) == 7


def test_one_that_waits_does_not_hold_up_the_others() -> None:
    """While one source waits, the others' chunks come; sync and async."""
    writer, reader = stream_pipe()
    both = merged([reader, StreamReader(live([1, 2]))])
    first = [next(both), next(both)]
    writer.send(3)
    writer.close()

    async def main() -> list[int]:
        go = asyncio.Event()

        async def late() -> AsyncIterator[int]:
            await go.wait()
            yield 3

        both = merged([StreamReader(late()), StreamReader(times([1, 2]))])
        first = [await anext(both), await anext(both)]
        go.set()
        return [*first, *await all_of(both)]

    assert first + list(both) == [1, 2, 3]
    assert run(main()) == [1, 2, 3]


def test_at_most_one_chunk_ahead() -> None:
    """A live source is read one chunk ahead of what was given, no further."""

    async def main() -> dict[str, int]:
        pulled = {"a": 0, "b": 0}

        async def source(name: str) -> AsyncIterator[str]:
            while True:
                pulled[name] += 1
                yield name

        async with merged([StreamReader(source("a")), StreamReader(source("b"))]) as both:
            for _ in range(4):
                await anext(both)
            for _ in range(10):
                await asyncio.sleep(0)
        return pulled

    pulled = run(main())
    assert 4 <= sum(pulled.values()) <= 6


def test_errors_in_place() -> None:
    """An error of one source stands in the place of one chunk; the others and itself go on."""
    both = merged([StreamReader(Bumpy(1, ValueError("x"), 2), blocking=False), StreamReader([5])])
    assert next(both) == 5
    assert next(both) == 1
    with pytest.raises(ValueError, match="x"):
        next(both)

    assert list(both) == [2]


def test_closing_closes_all() -> None:
    """Closing the merged reader closes every source, those that have ended and that fail to close included."""
    closed: list[str] = []

    def source(name: str) -> Iterator[str]:
        try:
            while True:
                yield name
        finally:
            closed.append(name)
            raise ValueError(name)

    both = merged([StreamReader(source(name), blocking=False) for name in ("a", "b")])
    assert {next(both), next(both)} == {"a", "b"}
    with pytest.raises(ValueError, match="a") as caught:
        both.close()

    assert sorted(closed) == ["a", "b"]
    assert caught.value.__notes__ == ["closing another source failed too: ValueError: b"]


def test_sources_are_taken_over() -> None:
    """A reader that was merged says so; merging one twice, or marking ends without names, is refused."""
    reader = StreamReader([1])
    with pytest.raises(StreamError, match="merged twice"):
        merge_streams([reader, reader])
    nameless: Any = [reader]
    with pytest.raises(StreamError, match="ends of sources without names"):
        merge_streams(nameless, mark_ends=True)
    merged([reader])

    with pytest.raises(StreamClosedError, match="the stream was merged; read what merge_streams returned"):
        next(reader)


def test_blocking_sources_wait_side_by_side() -> None:
    """Sync code that merges blocking generators reads them at the same time: each here waits for the other."""
    meet = threading.Barrier(2)

    def source(name: str) -> Iterator[str]:
        meet.wait(LIMIT)
        yield name

    assert sorted(merged([StreamReader(source("a")), StreamReader(source("b"))])) == ["a", "b"]
