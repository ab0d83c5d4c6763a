"""The state in async blocks, and asked for again by code that holds it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from graphs import echo
from wiring import wire

from blobcp import Graph, use_state

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


class Counter:
    def __init__(self) -> None:
        self.value = 0


def test_async_blocks_exclude_each_other() -> None:
    """B030: `async with use_state` holds the state across awaits, against tasks and threads alike."""
    counter = Counter()
    start = threading.Barrier(2)

    async def add() -> None:
        async with use_state(Counter) as state:
            seen = state.value
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            state.value = seen + 1

    async def tasks(value: Any) -> Any:
        await asyncio.to_thread(start.wait, LIMIT)
        await asyncio.gather(*(add() for _ in range(40)))
        return value

    def thread(value: Any) -> Any:
        start.wait(LIMIT)
        for _ in range(40):
            with use_state(Counter) as state:
                seen = state.value
                threading.Event().wait(0)
                state.value = seen + 1
        return value

    graph = Graph(state=lambda: counter)
    graph.add_node("tasks", tasks, output_key="tasks")
    graph.add_node("thread", thread, output_key="thread")
    wire(graph, "start tasks end", "start thread end")

    asyncio.run(asyncio.wait_for(graph.compile().ainvoke("x"), LIMIT * 3))

    assert counter.value == 80


def test_an_error_in_the_block_gives_the_lock_back() -> None:
    """A block that raises gives the state back; the next one gets it."""

    async def node(value: Any) -> Any:
        with pytest.raises(ArithmeticError):
            fail(value)
        with pytest.raises(ArithmeticError):
            await afail(value)
        return await asyncio.to_thread(in_thread, value)

    def fail(value: Any) -> None:
        with use_state(Counter):
            raise ArithmeticError(value)

    async def afail(value: Any) -> None:
        async with use_state(Counter):
            raise ArithmeticError(value)

    def in_thread(value: Any) -> Any:
        with use_state(Counter):
            return value

    graph = Graph(state=Counter)
    graph.add_node("n", node)
    wire(graph, "start n end")

    assert asyncio.run(asyncio.wait_for(graph.compile().ainvoke("x"), LIMIT)) == "x"


@pytest.mark.parametrize("where", ["pre", "post"])
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_state_inside_a_handler(where: str, driver: str) -> None:
    """K48: a handler, which holds its state, may ask for the same state again."""

    def handler(value: str, state: Counter) -> str:
        with use_state(Counter) as again:
            assert again is state
            again.value += 1
        return f"{value}{state.value}"

    graph = Graph(str, str, state=Counter)
    graph.add_node("n", echo, **{where: handler})
    app = wire(graph, "start n end").compile()

    assert (app.invoke("x") if driver == "sync" else asyncio.run(asyncio.wait_for(app.ainvoke("x"), LIMIT))) == "x1"


def test_state_inside_an_async_handler() -> None:
    """K48: an async handler may ask for the same state again, both ways, across awaits."""

    async def handler(value: str, state: Counter) -> str:
        async with use_state(Counter) as again:
            await asyncio.sleep(0)
            with use_state(Counter) as once_more:
                assert once_more is again is state
        return value + "!"

    graph = Graph(str, str, state=Counter)
    graph.add_node("n", echo, pre=handler)
    app = wire(graph, "start n end").compile()

    assert asyncio.run(asyncio.wait_for(app.ainvoke("x"), LIMIT)) == "x!"
