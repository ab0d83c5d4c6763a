"""Handlers and branches that are async: awaited by the asyncio driver, refused by the threaded one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from graphs import appending, echo
from wiring import wire

from blobcp import END, START, Graph, NodeError, OptionError, use_state

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


class Log(list[str]):
    """A state."""


async def add(value: str, state: Log) -> str:
    """Append to state and value, giving way in between."""
    state.append("+")
    await asyncio.sleep(0)
    return value + "".join(state)


class Adds:
    async def __call__(self, value: str, state: Log) -> str:
        return await add(value, state)

    async def method(self, value: str, state: Log) -> str:
        return await add(value, state)


@pytest.mark.parametrize("handler", [add, Adds(), Adds().method], ids=["function", "object", "method"])
def test_async_handlers(mode: dict[str, Any], handler: Any) -> None:
    """Async pre- and post-handlers of any kind are awaited; the threaded driver refuses them, naming the node."""
    graph = Graph(str, str, state=Log)
    graph.add_node("1", appending("1"), pre=handler, post=handler)
    app = wire(graph, "start 1 end").compile(**mode)

    assert asyncio.run(asyncio.wait_for(app.ainvoke("x"), LIMIT)) == "x+1++"
    with pytest.raises(OptionError, match=r"\['1'\] .*ainvoke"):
        app.invoke("x")


async def choose(_: str) -> str:
    """Choose END."""
    await asyncio.sleep(0)
    return END


class Chooses:
    async def __call__(self, value: str) -> str:
        return await choose(value)


@pytest.mark.parametrize("branch", [choose, Chooses()], ids=["function", "object"])
def test_async_branches(mode: dict[str, Any], branch: Any) -> None:
    """Async branches of any kind are awaited; the threaded driver refuses them, naming the node."""
    graph = Graph(str, str)
    graph.add_node("1", appending("1"))
    graph.add_node("2", echo)
    graph.add_edge(START, "1")
    graph.add_branch("1", branch, ["2", END])
    graph.add_edge("2", END)
    app = graph.compile(**mode)

    assert asyncio.run(asyncio.wait_for(app.ainvoke("x"), LIMIT)) == "x1"
    with pytest.raises(OptionError, match=r"\['1'\] .*ainvoke"):
        app.invoke("x")


def test_async_handlers_never_overlap() -> None:
    """B036: an async handler holds the state across its awaits, against nodes that use it."""
    inside: list[str] = []
    overlaps: list[list[str]] = []

    async def alone(what: str) -> None:
        inside.append(what)
        if len(inside) > 1:
            overlaps.append(list(inside))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        inside.remove(what)

    async def handler(value: Any, state: Log) -> Any:
        await alone("handler")
        return value

    async def node(value: Any) -> Any:
        for _ in range(5):
            async with use_state(Log):
                await alone("node")
        return value

    graph = Graph(str, dict, state=Log)
    for index in range(5):
        graph.add_node(f"n{index}", node, pre=handler, post=handler, output_key=f"n{index}")
        wire(graph, f"start n{index} end")

    result = asyncio.run(asyncio.wait_for(graph.compile().ainvoke("x"), LIMIT))

    assert result == {f"n{index}": "x" for index in range(5)}
    assert overlaps == []


def test_an_async_handler_that_raises(mode: dict[str, Any]) -> None:
    """B037: an error of an async handler fails the run with the path of its node and that error as the cause."""
    boom = ValueError("not today")

    async def handler(value: str, state: Log) -> str:
        await asyncio.sleep(0)
        raise boom

    graph = Graph(str, str, state=Log)
    graph.add_node("1", echo, post=handler)
    app = wire(graph, "start 1 end").compile(**mode)

    with pytest.raises(NodeError, match="node 1 failed: ValueError: not today") as caught:
        asyncio.run(app.ainvoke("x"))

    assert caught.value.__cause__ is boom


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("what", ["node", "pre", "branch"])
def test_code_that_cancels_itself(what: str, kind: str) -> None:
    """B010: a CancelledError of the node's own code fails the node; only the caller's cancels the run."""

    async def main() -> None:
        def sync(value: Any, *state: Any) -> Any:
            raise asyncio.CancelledError

        async def cancelled(value: Any, *state: Any) -> Any:
            raise asyncio.CancelledError

        bad = sync if kind == "sync" else cancelled
        graph = Graph(str, Any, state=Log)
        graph.add_node("1", bad if what == "node" else echo, **({"pre": bad} if what == "pre" else {}))
        graph.add_edge(START, "1")
        graph.add_branch("1", bad if what == "branch" else lambda _: END, [END])
        with pytest.raises(NodeError, match="node 1 failed") as caught:
            await graph.compile().ainvoke("x")
        assert caught.value.path == ["1"]

    asyncio.run(main())


@pytest.mark.parametrize("what", ["pre", "branch"])
def test_stop_iteration_is_the_cause(what: str) -> None:
    """B010: a StopIteration that a sync handler or branch raises is the cause, as it is under the threaded driver."""

    def bad(value: Any, *state: Any) -> Any:
        raise StopIteration("empty")

    graph = Graph(str, Any, state=Log)
    graph.add_node("1", echo, **({"pre": bad} if what == "pre" else {}))
    graph.add_edge(START, "1")
    graph.add_branch("1", bad if what == "branch" else lambda _: END, [END])
    app = graph.compile()

    with pytest.raises(NodeError) as by_threads:
        app.invoke("x")
    with pytest.raises(NodeError) as by_loop:
        asyncio.run(app.ainvoke("x"))

    assert isinstance(by_threads.value.__cause__, StopIteration)
    assert isinstance(by_loop.value.__cause__, StopIteration)
