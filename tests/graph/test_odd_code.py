"""User code that behaves oddly: branches, keys, depth, cancellation, locks held across calls of apps."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from drivers import Runner
from graphs import chain

from blobcp import (
    END,
    START,
    BranchError,
    Graph,
    GraphBuildError,
    Interrupted,
    NodeError,
    RunError,
    StateError,
    interrupt,
    use_state,
)
from blobcp.stores import MapStore

LIMIT = 30


def failing() -> Any:
    """Give one key, then fail."""
    yield "b"
    raise ValueError("boom")


class Uncertain:
    def __iter__(self) -> Any:
        raise KeyError("no keys")


@pytest.mark.parametrize(
    "choice", [failing, Uncertain, lambda: [["b"]], lambda: 5], ids=["generator", "object", "list", "int"]
)
@pytest.mark.parametrize("source", [START, "a"])
def test_a_branch_that_gives_no_keys(
    runner: Runner, mode: dict[str, Any], source: str, choice: Callable[[], Any]
) -> None:
    """B017: what a branch gives in place of keys is a branch error with the node's path, whatever it does when it is read."""
    graph = Graph(str, str)
    for key in ("a", "b"):
        graph.add_node(key, lambda text: text)
    graph.add_edge("b", END)
    if source == START:
        graph.add_edge(START, "a")
        graph.add_edge("a", "b")
    else:
        graph.add_edge(START, "a")
    graph.add_branch(source, lambda _: choice(), ["b"])
    with pytest.raises(BranchError) as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == [source]


@pytest.mark.parametrize("option", ["input_key", "output_key"])
def test_item_keys_are_text(option: str) -> None:
    """B011: an input or output key that is no text is refused when the node is added, by name."""
    with pytest.raises(GraphBuildError, match=rf"{option}=\['a'\] of node 'n'"):
        Graph().add_node("n", lambda value: value, **{option: ["a"]})  # type: ignore[arg-type]


def test_ends_are_keys() -> None:
    """B011: an end that is no key is refused when the branch is added."""
    graph = Graph()
    with pytest.raises(GraphBuildError, match=r"\['a'\] is no node key"):
        graph.add_branch(START, lambda value: "a", [["a"]])  # type: ignore[list-item]


def test_nesting_is_bounded() -> None:
    """A graph nested 100 deep stops and resumes; one nested beyond is refused at compile time."""

    def nested(levels: int) -> Graph:
        graph = chain("x")
        for _ in range(levels):
            outer = Graph(str, str)
            outer.add_node("in", graph)
            outer.add_edge(START, "in")
            outer.add_edge("in", END)
            graph = outer
        return graph

    assert nested(100).compile(store=MapStore()).invoke("a") == "ax"
    with pytest.raises(GraphBuildError, match="nested more than 100 graphs deep"):
        nested(300).compile()


def test_a_failed_build_is_reported_afresh() -> None:
    """B011: later calls report the first failure, each by an exception of its own."""
    graph = Graph()
    errors: list[GraphBuildError] = []
    for key in ("end", "a", "b"):
        with pytest.raises(GraphBuildError, match="'end' is reserved") as caught:
            graph.add_node(key, lambda value: value)
        errors.append(caught.value)

    assert len(set(map(id, errors))) == 3
    assert errors[2].__cause__ is errors[0]


def test_a_second_cancel_leaves_no_task() -> None:
    """B010: a run that is cancelled again while its nodes clean up still waits for them."""
    cleaned: list[str] = []

    async def slow(text: str) -> str:
        try:
            await asyncio.sleep(LIMIT)
        finally:
            inside.set()
            await asyncio.wait_for(go_on.wait(), LIMIT)
            cleaned.append(text)
        return text

    async def main() -> int:
        run = asyncio.create_task(chain("slow", slow=slow).compile().ainvoke("x"))
        while len(asyncio.all_tasks()) < 3:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait_for(inside.wait(), LIMIT)
        run.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        return len(asyncio.all_tasks())

    async def with_events() -> int:
        nonlocal inside, go_on
        inside, go_on = asyncio.Event(), asyncio.Event()
        return await main()

    inside = go_on = asyncio.Event()
    assert asyncio.run(with_events()) == 1
    assert cleaned == ["x"]


def test_a_handler_that_swallows_the_cancellation() -> None:
    """B010: a cancelled run ends cancelled although a handler caught the cancellation."""
    started: list[asyncio.Event] = []

    async def pre(value: str, state: list[Any]) -> str:
        started[0].set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(LIMIT)
        return value

    async def main() -> bool:
        started.append(asyncio.Event())
        graph = Graph(str, str, state=list)
        graph.add_node("n", lambda text: text, pre=pre)
        graph.add_edge(START, "n")
        graph.add_edge("n", END)
        run = asyncio.create_task(graph.compile().ainvoke("x"))
        await asyncio.wait_for(started[0].wait(), LIMIT)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return run.cancelled()

    assert asyncio.run(main())


class BlockingStore(MapStore):
    """A store that the asyncio driver calls in a thread."""

    blocking = True


class Counter:
    def __init__(self) -> None:
        self.count = 0


def counting() -> Graph:
    """Return a graph of two parallel nodes that reach the state of the graph round them."""

    def count(value: Any) -> Any:
        with use_state(Counter) as counter:
            counter.count += 1
        return value

    graph = Graph(Any, Any)
    for key in ("a", "b"):
        graph.add_node(key, count, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph


def around(node: Callable[[Any], Any], **options: Any) -> Graph:
    """Return a graph with a state round one node."""
    graph = Graph(Any, Any, state=Counter)
    graph.add_node("host", node, **options)
    graph.add_edge(START, "host")
    graph.add_edge("host", END)
    return graph


def test_an_app_called_under_the_lock(runner: Runner) -> None:
    """K48: an app whose nodes need the state that its caller holds, and waits, is refused; it does not hang."""
    inner = counting().compile()

    def host(value: Any) -> Any:
        with use_state(Counter):
            return inner.invoke(value)

    for graph in (around(host), around(lambda value: value, pre=lambda value, state: inner.invoke(value))):
        with pytest.raises(NodeError) as caught:
            runner.invoke(graph.compile(), "x")
        at: BaseException | None = caught.value
        while at is not None and not isinstance(at, StateError):
            at = at.__cause__
        assert "locked by the code that called this app" in str(at)


def test_an_async_app_called_under_the_lock() -> None:
    """K48: the same on an event loop, from a handler and from a block."""
    inner = counting().compile()

    async def host(value: Any) -> Any:
        async with use_state(Counter):
            return await inner.ainvoke(value)

    async def pre(value: Any, state: Counter) -> Any:
        return await inner.ainvoke(value)

    for graph in (around(host), around(lambda value: value, pre=pre)):
        with pytest.raises(NodeError, match="locked by the code that called this app"):
            asyncio.run(asyncio.wait_for(graph.compile().ainvoke("x"), LIMIT))


def test_an_app_called_beside_the_lock(runner: Runner) -> None:
    """B027: an app called outside of a block reaches the state of its caller as before."""
    inner = counting().compile()
    counts: list[int] = []

    def host(value: Any) -> Any:
        result = inner.invoke(value)
        with use_state(Counter) as counter:
            counts.append(counter.count)
        return result

    assert runner.invoke(around(host).compile(), "x") == {"a": "x", "b": "x"}
    assert counts == [2]


def test_too_few_threads(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """B010: where the system has no thread left, the run fails with the node's path and says what to do."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    app = counting().compile()
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RunError, match=r"no thread could be started for node a: .* give concurrency=") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["a"]


def test_a_run_in_the_clean_up_of_a_cancelled_task() -> None:
    """B010: a cancellation that was caught before a run began is not one of that run, which stops and resumes as ever."""
    results: list[str] = []

    async def main() -> None:
        async def ask(text: str) -> str:
            return text + interrupt("q")

        app = chain("ask", ask=ask).compile(store=BlockingStore())
        ready = asyncio.Event()

        async def work() -> None:
            try:
                ready.set()
                await asyncio.sleep(LIMIT)
            except asyncio.CancelledError:
                with pytest.raises(Interrupted):
                    await app.ainvoke("x", checkpoint_id="1")
                results.append(await app.aresume("1", answer="y"))

        task = asyncio.create_task(work())
        await asyncio.wait_for(ready.wait(), LIMIT)
        task.cancel()
        await task

    asyncio.run(main())
    assert results == ["xy"]
