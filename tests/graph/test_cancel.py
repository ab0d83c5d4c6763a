"""What is no failure of a node: KeyboardInterrupt, SystemExit, and the cancellation of an asyncio run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from drivers import Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from wiring import wire

from blobcp import END, START, Graph
from blobcp.stores import MapStore

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises."""

    def run(*values: Any) -> Any:
        raise error

    return run


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("where", ["node", "beside", "pre", "post", "branch", "nested"])
def test_what_ends_the_process_passes_through(mode: dict[str, Any], where: str, error: BaseException) -> None:
    """B010: KeyboardInterrupt and SystemExit leave a run as they are, from wherever they come; nothing more starts."""
    calls = Calls()
    bad = raising(error)
    inner = chain("x", x=bad) if where == "nested" else None
    graph = Graph(str, Any, state=dict)
    handlers = {where: bad} if where in ("pre", "post") else {}
    graph.add_node("1", inner or (bad if where in ("node", "beside") else echo), **handlers)
    graph.add_node("2", appending("2", calls))
    if where == "beside":
        graph.add_node("other", echo)
        wire(graph, "start other end")
    graph.add_edge(START, "1")
    if where == "branch":
        graph.add_branch("1", bad, ["2"])
    else:
        graph.add_edge("1", "2")
    graph.add_edge("2", END)

    with pytest.raises(type(error)) as caught:
        SyncRunner().invoke(graph.compile(**mode), "x")

    assert caught.value is error
    assert calls["2"] == 0


def test_keyboard_interrupt_writes_nothing(runner: Runner) -> None:
    """B010: a run that a KeyboardInterrupt ended has stored nothing; what was stored before is as it was."""
    store = MapStore()
    app = chain("1", "2", **{"1": appending("1"), "2": raising(KeyboardInterrupt())}).compile(store=store)

    with pytest.raises(KeyboardInterrupt):
        runner.invoke(app, "x", checkpoint_id="run")

    assert store.get("run") is None


async def cancelled(app_call: Awaitable[Any], started: asyncio.Event) -> tuple[bool, set[asyncio.Task[Any]]]:
    """Cancel a run once it has started; tell whether it ended as cancelled, and which tasks are left."""
    before = asyncio.all_tasks()
    run = asyncio.ensure_future(app_call)
    await asyncio.wait_for(started.wait(), LIMIT)
    run.cancel()
    await asyncio.wait_for(asyncio.wait([run]), LIMIT)
    return run.cancelled(), asyncio.all_tasks() - before


@pytest.mark.parametrize("where", ["node", "nested", "pre", "branch"])
def test_cancelling_a_run_leaves_no_task(mode: dict[str, Any], where: str) -> None:
    """K41: a cancelled asyncio run ends as cancelled, cancels its nodes, lets them clean up and leaves no task."""

    async def main() -> None:
        started = asyncio.Event()
        inside = 0
        cleaned: list[str] = []

        async def hang(value: Any, *state: Any) -> Any:
            nonlocal inside
            inside += 1
            if inside == (2 if where in ("node", "nested") else 1):
                started.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)
                cleaned.append("cleaned")

        graph = Graph(Any, Any, state=dict)
        body = hang if where in ("node", "nested") else echo
        graph.add_node("1", body, **({"pre": hang} if where == "pre" else {}))
        graph.add_node("2", body)
        graph.add_edge(START, "1")
        graph.add_edge(START, "2")
        graph.add_edge("2", END)
        graph.add_branch("1", hang if where == "branch" else lambda _: END, [END])
        if where == "nested":
            outer = Graph()
            outer.add_node("sub", graph)
            graph = wire(outer, "start sub end")

        was_cancelled, left = await cancelled(graph.compile(**mode).ainvoke("x"), started)

        assert was_cancelled
        assert left == set()
        assert cleaned == ["cleaned"] * inside

    asyncio.run(main())


def test_cancelling_does_not_wait_for_threads() -> None:
    """K41: a cancelled run does not wait for a sync node that is in a thread; what that gives is dropped."""
    started, go_on, over = threading.Event(), threading.Event(), threading.Event()
    calls = Calls()

    def blocking(value: str) -> str:
        started.set()
        go_on.wait(LIMIT)
        over.set()
        return value

    async def main() -> None:
        run = asyncio.ensure_future(chain("1", "2", calls=calls, **{"1": blocking}).compile().ainvoke("x"))
        await asyncio.to_thread(started.wait, LIMIT)
        run.cancel()
        await asyncio.wait_for(asyncio.wait([run]), LIMIT)
        assert run.cancelled()
        assert not over.is_set()
        go_on.set()
        assert await asyncio.to_thread(over.wait, LIMIT)

    asyncio.run(main())

    assert calls["2"] == 0


def test_a_run_that_is_cancelled_before_it_starts() -> None:
    """B010: a run under an already cancelled caller ends as cancelled, and no node runs."""
    calls = Calls()

    async def main() -> None:
        run = asyncio.ensure_future(chain("1", calls=calls).compile().ainvoke("x"))
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()

    asyncio.run(main())

    assert calls["1"] == 0


def test_a_time_limit_round_a_run() -> None:
    """K41: `asyncio.timeout` round a run ends it like any other await."""
    ended: list[str] = []

    async def hang(value: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")
        return value

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(chain("1", **{"1": hang}).compile().ainvoke("x"), 0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())

    assert ended == ["hang"]


def test_a_failing_async_run_waits_for_its_tasks(mode: dict[str, Any]) -> None:
    """K41: when one async node fails, the others of the step end before the run does; no task is left."""

    async def main() -> None:
        failed = asyncio.Event()
        ended: list[str] = []

        async def fails(value: str) -> str:
            failed.set()
            raise ValueError("bad")

        async def slow(value: str) -> str:
            await asyncio.wait_for(failed.wait(), LIMIT)
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append("slow")
            return value

        graph = Graph(str, Any)
        graph.add_node("p", fails)
        graph.add_node("slow", slow)
        app = wire(graph, "start p end", "start slow end").compile(**mode)
        with pytest.raises(Exception, match="node p failed"):
            await app.ainvoke("x")
        assert ended == ["slow"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
