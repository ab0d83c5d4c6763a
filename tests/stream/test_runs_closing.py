"""Stream runs that are left in the middle: closed, cancelled by asyncio, dropped; what their nodes clean up is done, and told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from drivers import AsyncRunner, Runner
from graphs import chain
from stream_runs import LIMIT, nothing_left, run
from streaming import passing

from blobcp import App, NodeError, OutsideNodeError, StreamReader, current_address, interrupt
from blobcp.stores import MapStore

WHERE: ContextVar[str] = ContextVar("where", default="outside")


class Nodes:
    """A streaming node of each kind, which notes where its clean-up ran."""

    def __init__(self) -> None:
        self.closed: list[tuple[str, str]] = []

    def _note(self) -> None:
        try:
            self.closed.append((WHERE.get(), str(current_address())))
        except OutsideNodeError:
            self.closed.append((WHERE.get(), "outside"))

    def source(self, value: str) -> Iterator[str]:
        WHERE.set("source")
        try:
            for number in range(100):
                yield f"{value}{number}"
        finally:
            self._note()

    def passing(self, chunks: StreamReader[str]) -> Iterator[str]:
        WHERE.set("passing")
        try:
            yield from chunks
        finally:
            self._note()

    async def asource(self, value: str) -> AsyncIterator[str]:
        WHERE.set("source")
        try:
            for number in range(100):
                yield f"{value}{number}"
        finally:
            await asyncio.sleep(0)
            self._note()

    async def apassing(self, chunks: StreamReader[str]) -> AsyncIterator[str]:
        WHERE.set("passing")
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await asyncio.sleep(0)
            self._note()

    def app(self, kind: str, **options: Any) -> App:
        first, second = (self.asource, self.apassing) if kind == "async" else (self.source, self.passing)
        return chain("1", "2", **{"1": first, "2": second}).compile(store=MapStore(), **options)


CLEANED = [("passing", "runnable:root;node:2"), ("source", "runnable:root;node:1")]


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("options", [{}, {"checkpoint_id": "run"}], ids=["free", "stored"])
def test_a_loop_that_ends_with_an_open_run(
    mode: dict[str, Any], kind: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Where asyncio.run ends while an output is open, each node is closed once, in its own context, and nothing is logged."""
    nodes, kept = Nodes(), []

    async def main() -> None:
        reader = nodes.app(kind, **mode).astream("x", **options)
        assert await anext(reader) == "x0"
        kept.append(reader)

    with nothing_left():
        asyncio.run(main())

    assert sorted(nodes.closed) == CLEANED
    assert caplog.records == []


def close(app: App, runner: Runner) -> None:
    """Read a chunk of a run under either driver, then close it."""

    async def main() -> None:
        async with app.astream("x", checkpoint_id="run") as reader:
            await anext(reader)

    if isinstance(runner, AsyncRunner):
        run(main())
    else:
        with app.stream("x", checkpoint_id="run") as reader:
            next(reader)


def test_a_clean_up_that_fails_while_a_run_is_closed(runner: Runner, mode: dict[str, Any]) -> None:
    """What a node raises while its run is closed early is raised by the closing, as that node's failure; all are closed."""
    nodes = Nodes()

    def bad(value: str) -> Iterator[str]:
        try:
            yield value
        finally:
            raise ValueError("bad clean-up")

    app = chain("1", "2", **{"1": bad, "2": nodes.passing}).compile(store=MapStore(), **mode)

    with pytest.raises(NodeError, match="node 1 failed: ValueError: bad clean-up"):
        close(app, runner)
    assert nodes.closed == [("passing", "runnable:root;node:2")]


def test_a_question_in_a_clean_up_is_not_heard(runner: Runner, mode: dict[str, Any]) -> None:
    """A node that asks while its run is closed early is told so or not heard, but nothing is stored that could be answered."""

    def asks(value: str) -> Iterator[str]:
        try:
            yield value
        finally:
            interrupt("too late?")

    store = MapStore()
    app = chain("1", "2", **{"1": asks, "2": passing}).compile(store=store, **mode)

    with pytest.raises(NodeError, match="asked after its node had ended"):
        close(app, runner)
    assert store.get("run") is None


class Stuck:
    """A node whose thread stays inside it until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go, self.left = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, value: str) -> Iterator[str]:
        try:
            yield "first"
            self.inside.set()
            assert self.go.wait(LIMIT), "it was never let go"
            yield "second"
        finally:
            self.left.set()


async def read_all(app: App, **options: Any) -> None:
    """Read an output chunk by chunk."""
    async with app.astream("x", **options) as reader:
        async for _ in reader:
            pass


async def collect(app: App, **options: Any) -> None:
    """Have an output collected."""
    await app.acollect(["x"], **options)


@pytest.mark.parametrize("use", [read_all, collect])
@pytest.mark.parametrize("options", [{}, {"checkpoint_id": "run"}], ids=["free", "stored"])
def test_a_task_that_is_cancelled_is_not_held_up_by_a_thread(
    mode: dict[str, Any], use: Callable[..., Coroutine[Any, Any, None]], options: dict[str, Any]
) -> None:
    """A cancelled task is over while a node's thread is stuck; the thread closes the node when it comes out."""
    stuck = Stuck()
    app = chain("1", "2", **{"1": stuck, "2": passing}).compile(store=MapStore(), **mode)

    async def main() -> None:
        task = asyncio.create_task(use(app, **options))
        await asyncio.to_thread(stuck.inside.wait, LIMIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not stuck.left.is_set()

    with nothing_left():
        run(main())
        stuck.go.set()
        assert stuck.left.wait(LIMIT)


def test_a_time_limit_is_not_held_up_by_a_thread() -> None:
    """A reader in a block that runs out of time is left at once, and its source is closed when its thread comes out."""
    stuck = Stuck()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(use(), 0.01)

    async def use() -> None:
        async with StreamReader(stuck("x")) as reader:
            async for _ in reader:
                pass

    with nothing_left():
        run(main())
        stuck.go.set()
        assert stuck.left.wait(LIMIT)
