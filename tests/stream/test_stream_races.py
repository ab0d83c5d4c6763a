from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from stream_runs import in_thread, run

from blobcp import StreamReader, merge_streams, stream_pipe

CHUNKS = 40


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


async def sometimes_waiting(chance: random.Random, numbers: range) -> AsyncIterator[int]:
    """Yield numbers, with a turn of the loop before some."""
    for number in numbers:
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        yield number


def source_of(chance: random.Random) -> StreamReader[int]:
    """Return a stream of the numbers from a random kind of source."""
    kind = chance.choice(["generator", "async", "pipe", "merge"])
    if kind == "generator":
        return StreamReader(iter(range(CHUNKS)))
    if kind == "async":
        return StreamReader(sometimes_waiting(chance, range(CHUNKS)))
    if kind == "merge":
        half = CHUNKS // 2
        both = [StreamReader(sometimes_waiting(chance, range(half))), StreamReader(iter(range(half, CHUNKS)))]
        return merge_streams(both) or StreamReader([])
    writer, reader = stream_pipe(chance.choice([1, 2, 5]))

    def push() -> None:
        with writer:
            for number in range(CHUNKS):
                writer.send(number)

    in_thread(push)
    return reader


async def read(chance: random.Random, reader: StreamReader[int]) -> list[int]:
    """Read to the end, in this task with some reads cancelled, or in a thread."""
    if chance.random() < 0.5:
        return await asyncio.to_thread(list, reader)
    found: list[int] = []
    while True:
        limit = chance.random() * 0.0005 if chance.random() < 0.2 else None
        try:
            found.append(await asyncio.wait_for(anext(reader), limit))
        except TimeoutError:
            continue
        except StopAsyncIteration:
            return found


def rounds(few: int, many: int) -> list[Any]:
    """Return the seeds of a normal run, and those that are left to the soak."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(few, many))]


MANY = 2000 if os.environ.get("BLOBCP_FULL") else 200


@pytest.mark.parametrize("seed", rounds(15, MANY))
def test_random_readers(seed: int) -> None:
    """Copies read by threads and tasks, with reads cancelled at random, each give everything once and in one order."""

    async def main() -> list[list[int]]:
        chance = random.Random(seed)
        copies = source_of(chance).copy(chance.randint(2, 5))
        return await asyncio.gather(*(read(chance, copy) for copy in copies))

    parts = run(main())
    assert all(part == parts[0] for part in parts)
    assert sorted(parts[0]) == list(range(CHUNKS))


@pytest.mark.parametrize("seed", rounds(15, MANY))
def test_random_sharing(seed: int) -> None:
    """Threads and tasks that read one reader, with reads cancelled at random, get everything once between them."""

    async def main() -> list[int]:
        chance = random.Random(seed)
        reader = source_of(chance)
        parts = await asyncio.gather(*(read(chance, reader) for _ in range(3)))
        return sorted(number for part in parts for number in part)

    assert run(main()) == list(range(CHUNKS))
