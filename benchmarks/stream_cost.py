"""What one chunk costs: through three nodes of a graph, through the readers below it, and through bare generators.

Most parts count chunks up in three stages: bare generators; one reader that is mapped three times; generators that read
readers, which is what is under a graph; the graph, without and with a checkpoint id. The others (copies, a pipe, a task
for each chunk) only hand chunks on. Each part is run once to see that it gives the right sum. Then the parts take turns,
round by round, so that a busy machine slows all of them. ``to bare`` relates the lowest figures, which others on the
machine disturb least: how many times what the bare generators of its kind cost.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator

from blobcp import END, START, App, Graph, Node, PipeWriter, StreamReader, stream_pipe
from blobcp.stores import MapStore

Run = Callable[[int], int]
"""Reads so many chunks through the stages, and returns the sum of what came out."""

Source = Iterable[int] | AsyncIterable[int]


def increment(number: int) -> int:
    """Do the work of a stage: next to nothing."""
    return number + 1


def count(chunks: int) -> Iterator[int]:
    """Yield the numbers."""
    yield from range(chunks)


async def acount(chunks: int) -> AsyncIterator[int]:
    """Yield the numbers without ever waiting."""
    for number in range(chunks):
        yield number


def stage(source: Iterable[int]) -> Iterator[int]:
    """Count up."""
    for number in source:
        yield increment(number)


async def astage(source: AsyncIterable[int]) -> AsyncIterator[int]:
    """Count up."""
    async for number in source:
        yield increment(number)


async def asum(source: AsyncIterable[int]) -> int:
    """Add up."""
    total = 0
    async for number in source:
        total += number
    return total


def mapped(source: Source) -> StreamReader[int]:
    """Return a reader of a source that is counted up three times."""
    return StreamReader[int](source).map(increment).map(increment).map(increment)


def read_in_stages(source: Source, through: Callable[[StreamReader[int]], Source]) -> StreamReader[int]:
    """Return a reader of three generators, each of which reads a reader."""
    for _ in range(3):
        source = through(StreamReader[int](source))
    return StreamReader(source)


def bare(chunks: int) -> int:
    """Three bare generators."""
    return sum(stage(stage(stage(count(chunks)))))


def copies(chunks: int) -> int:
    """Two copies that advance together."""
    one, other = StreamReader(count(chunks)).copy(2)
    return sum(number for number, _ in zip(one, other, strict=True))


def pipe(chunks: int) -> int:
    """A pipe that is filled and emptied by one thread."""
    ends: tuple[PipeWriter[int], StreamReader[int]] = stream_pipe(1)
    writer, reader = ends
    total = 0
    with writer:
        for number in range(chunks):
            writer.send(number)
            total += next(reader)
    return total


async def abare(chunks: int) -> int:
    """Three bare async generators."""
    return await asum(astage(astage(astage(acount(chunks)))))


async def acopies(chunks: int) -> int:
    """Two copies of an async source that advance together."""
    one, other = StreamReader(acount(chunks)).copy(2)
    total = 0
    async for number in one:
        total += number
        await anext(other)
    return total


async def tasks(chunks: int) -> int:
    """A bare async generator of which each chunk is pulled by a task of its own."""
    source, total = acount(chunks), 0

    async def pull() -> int:
        return await anext(source)

    for _ in range(chunks):
        total += await asyncio.create_task(pull())
    return total


def three_nodes(node: Callable[[StreamReader[int]], Source]) -> App:
    """Return a graph of three streaming nodes."""
    graph = Graph()
    before = START
    for key in "123":
        graph.add_node(key, Node(transform=node))
        graph.add_edge(before, key)
        before = key
    graph.add_edge(before, END)
    return graph.compile(store=MapStore())


PLAIN, ASYNC = three_nodes(stage), three_nodes(astage)


def graph_of_nodes(chunks: int) -> int:
    """Three streaming nodes of a graph."""
    return sum(PLAIN.transform(count(chunks)))


def stored_graph(chunks: int) -> int:
    """The same under a checkpoint id, so that it could be stored at any moment."""
    return sum(PLAIN.transform(count(chunks), checkpoint_id="run", force_new_run=True))


async def agraph_of_nodes(chunks: int) -> int:
    """Three async streaming nodes of a graph."""
    return await asum(ASYNC.atransform(acount(chunks)))


async def astored_graph(chunks: int) -> int:
    """The same under a checkpoint id."""
    return await asum(ASYNC.atransform(acount(chunks), checkpoint_id="run", force_new_run=True))


BARE, ABARE = "three bare generators", "three bare async generators"

PARTS: dict[str, Run] = {
    BARE: bare,
    "sync: one reader, mapped three times": lambda chunks: sum(mapped(count(chunks))),
    "sync: three generators, each reads a reader": lambda chunks: sum(read_in_stages(count(chunks), stage)),
    "sync: graph of three streaming nodes": graph_of_nodes,
    "sync: the same graph, under a checkpoint id": stored_graph,
    "sync: copy(2), read side by side": copies,
    "sync: pipe, in one thread": pipe,
    ABARE: lambda chunks: asyncio.run(abare(chunks)),
    "async: bare, a task per chunk": lambda chunks: asyncio.run(tasks(chunks)),
    "async: list, mapped three times": lambda chunks: asyncio.run(asum(mapped(list(range(chunks))))),
    "async: async source, mapped three times": lambda chunks: asyncio.run(asum(mapped(acount(chunks)))),
    "async: three async generators, each reads a reader": lambda chunks: asyncio.run(
        asum(read_in_stages(acount(chunks), astage))
    ),
    "async: graph of three async streaming nodes": lambda chunks: asyncio.run(agraph_of_nodes(chunks)),
    "async: the same graph, under a checkpoint id": lambda chunks: asyncio.run(astored_graph(chunks)),
    "async: copy(2) of an async source": lambda chunks: asyncio.run(acopies(chunks)),
    "async: blocking generator, in its thread, mapped": lambda chunks: asyncio.run(asum(mapped(count(chunks)))),
    "crossing: async source, read by sync code": lambda chunks: sum(mapped(acount(chunks))),
}


def check(chunks: int) -> None:
    """See that every part hands on each chunk, counted up in three stages or not at all."""
    plain = sum(range(chunks))
    for name, run in PARTS.items():
        total = run(chunks)
        assert total in (plain, plain + 3 * chunks), f"{name}: {total}"


def measure(chunks: int, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds per chunk of each round of each part, the parts taking turns."""
    times: dict[str, list[float]] = {name: [] for name in PARTS}
    for _ in range(rounds):
        for name, run in PARTS.items():
            gc.collect()
            began = time.perf_counter()
            run(chunks)
            times[name].append((time.perf_counter() - began) / chunks * 1e6)
    return times


def report(times: dict[str, list[float]], chunks: int, rounds: int) -> None:
    """Print the figures of each part, and how the lowest relates to that of the bare generators of its kind."""
    print(f"{chunks} chunks, {rounds} rounds in turn; Python {platform.python_version()}\n")
    print(f"{'microseconds per chunk':<54}{'median':>9}{'lowest':>9}{'highest':>9}{'to bare':>9}")
    for name, values in times.items():
        ratio = min(values) / min(times[ABARE if "async" in name else BARE])
        print(f"{name:<54}{statistics.median(values):>9.2f}{min(values):>9.2f}{max(values):>9.2f}{ratio:>9.1f}")


def main() -> None:
    """Measure, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5000, help="how many chunks (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="how many rounds to measure (default: %(default)s)")
    options = parser.parse_args()
    check(options.chunks)
    report(measure(options.chunks, options.rounds), options.chunks, options.rounds)


if __name__ == "__main__":
    main()
