"""Stream runs pass chunks on as they come: the first of the output is there before the last of the input."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from graphs import chain
from stream_runs import LIMIT, run
from streaming import passing
from wiring import wire

from blobcp import Graph, StreamReader


def held_back(gate: threading.Event) -> Iterator[str]:
    """Give a chunk, and the last one when the gate is open."""
    yield "first"
    assert gate.wait(LIMIT), "the output did not come before the end of the input"
    yield "last"


async def held_back_async(gate: asyncio.Event) -> AsyncIterator[str]:
    """The same as an async source."""
    yield "first"
    await asyncio.wait_for(gate.wait(), LIMIT)
    yield "last"


def upper(chunks: StreamReader[str]) -> Iterator[str]:
    """Give each chunk on in upper case."""
    for chunk in chunks:
        yield chunk.upper()


async def upper_async(chunks: StreamReader[str]) -> AsyncIterator[str]:
    """The same as an async node."""
    async for chunk in chunks:
        yield chunk.upper()


def three(node: Any) -> Graph:
    """Return three streaming nodes in a row."""
    return chain("1", "2", "3", **dict.fromkeys("123", node))


def nested(node: Any) -> Graph:
    """Return three streaming nodes, of which the middle one is in a graph of its own."""
    graph = Graph(str, str)
    graph.add_node("1", node)
    graph.add_node("2", chain("x", x=node))
    graph.add_node("3", node)
    return wire(graph, "start 1 2 3 end")


def side_by_side(node: Any) -> Graph:
    """Return streaming nodes side by side, whose streams meet at one."""
    graph = Graph(str, dict)
    graph.add_node("1", node, output_key="1")
    graph.add_node("2", node, output_key="2")
    graph.add_node("3", passing)
    return wire(graph, "start 1 3 end", "start 2 3")


@pytest.mark.parametrize("make", [three, nested], ids=["three", "nested"])
def test_the_first_chunk_comes_before_the_last_sync(mode: dict[str, Any], make: Any) -> None:
    """Three nodes hand on a chunk while the source of the input still waits."""
    gate = threading.Event()

    with make(upper).compile(**mode).transform(held_back(gate)) as reader:
        assert next(reader) == "FIRST"
        gate.set()
        assert list(reader) == ["LAST"]


@pytest.mark.parametrize("make", [three, nested], ids=["three", "nested"])
@pytest.mark.parametrize("node", [upper, upper_async], ids=["plain", "async"])
def test_the_first_chunk_comes_before_the_last_async(mode: dict[str, Any], make: Any, node: Any) -> None:
    """The same under the asyncio driver, with plain and async nodes."""

    async def main() -> None:
        gate = asyncio.Event()
        async with make(node).compile(**mode).atransform(held_back_async(gate)) as reader:
            assert await anext(reader) == "FIRST"
            gate.set()
            assert [chunk async for chunk in reader] == ["LAST"]

    run(main())


@pytest.mark.parametrize("stored", [False, True])
def test_streams_that_meet_come_as_they_are_made(mode: dict[str, Any], stored: bool) -> None:
    """Streams of dicts are merged chunk by chunk, also in a run that may be stored."""
    from blobcp.stores import MapStore

    gate = threading.Event()
    app = side_by_side(upper).compile(store=MapStore(), **mode)
    options = {"checkpoint_id": "run"} if stored else {}

    with app.transform(held_back(gate), **options) as reader:
        assert sorted(str(next(reader)) for _ in range(2)) == ["{'1': 'FIRST'}", "{'2': 'FIRST'}"]
        gate.set()
        assert sorted(map(str, reader)) == ["{'1': 'LAST'}", "{'2': 'LAST'}"]


def test_nothing_runs_before_it_is_read() -> None:
    """Calling stream runs nothing; each read asks for what it needs."""
    seen: list[str] = []

    def source(value: str) -> Iterator[str]:
        for letter in value:
            seen.append(letter)
            yield letter

    with chain("1", "2", **{"1": source, "2": passing}).compile().stream("abc") as reader:
        assert seen == []
        assert next(reader) == "a"
        assert seen == ["a"]


def test_chunks_of_an_async_run_are_read_by_a_thread() -> None:
    """The reader of an async run serves sync code of another thread, while the loop runs."""

    async def main() -> list[str]:
        app = three(upper_async).compile()
        reader = app.atransform(["a", "b"])
        first = await anext(reader)
        return [first, *await asyncio.to_thread(list, reader)]

    assert run(main()) == ["A", "B"]
