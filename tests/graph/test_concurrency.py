"""Which nodes run side by side, in which threads and tasks, and how many at once."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from drivers import Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from wiring import wire

from blobcp import END, START, Graph, OptionError

LIMIT = 10.0
"""Seconds that a node waits for another one before the test fails."""


class Gauge:
    """Node functions that tell how many of them were ever inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.entered = 0

    def __call__(self, value: Any) -> Any:
        with self._lock:
            self._inside += 1
            self.entered += 1
            self.most = max(self.most, self._inside)
        threading.Event().wait(0.002)  # gives others the chance to come in too; nothing depends on it
        with self._lock:
            self._inside -= 1
        return value


def fan(node: Any, width: int, *, prefix: str = "n") -> Graph:
    """Return ``width`` nodes side by side, each of which gives ``{its key: its result}``."""
    graph = Graph(Any, dict)
    for index in range(width):
        key = f"{prefix}{index}"
        graph.add_node(key, node, output_key=key)
        wire(graph, f"start {key} end")
    return graph


def test_nodes_of_a_step_run_side_by_side(runner: Runner, mode: dict[str, Any]) -> None:
    """Nodes that don't depend on each other are inside their functions at the same time."""
    barrier = threading.Barrier(4)

    def meet(value: str) -> str:
        barrier.wait(LIMIT)
        return value

    result = runner.invoke(fan(meet, 4).compile(**mode), "x")

    assert result == {f"n{index}": "x" for index in range(4)}


def test_nodes_of_nested_graphs_run_side_by_side(runner: Runner, mode: dict[str, Any]) -> None:
    """Nodes of two nested graphs are inside their functions at the same time as each other and as a plain node."""
    barrier = threading.Barrier(5)

    def meet(value: str) -> str:
        barrier.wait(LIMIT)
        return value

    graph = Graph(Any, dict)
    graph.add_node("A", fan(meet, 2, prefix="a"))
    graph.add_node("B", fan(meet, 2, prefix="b"))
    graph.add_node("c", meet, output_key="c")
    wire(graph, "start A end", "start B end", "start c end")

    result = runner.invoke(graph.compile(**mode), "x")

    assert result == dict.fromkeys(["a0", "a1", "b0", "b1", "c"], "x")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_concurrency_limit(runner: Runner, mode: dict[str, Any], limit: int) -> None:
    """With concurrency=n never more than n node functions are inside at once; all of them run."""
    gauge = Gauge()

    result = runner.invoke(fan(gauge, 8).compile(**mode), "x", concurrency=limit)

    assert result == {f"n{index}": "x" for index in range(8)}
    assert gauge.entered == 8
    assert gauge.most <= limit


@pytest.mark.parametrize("limit", [1, 2])
def test_concurrency_limit_counts_nested_graphs(runner: Runner, mode: dict[str, Any], limit: int) -> None:
    """The limit is one for the whole run: nodes of nested graphs count, the graphs themselves don't."""
    gauge = Gauge()
    graph = Graph(Any, dict)
    graph.add_node("A", fan(gauge, 3, prefix="a"))
    graph.add_node("B", fan(gauge, 3, prefix="b"))
    graph.add_node("c", gauge, output_key="c")
    wire(graph, "start A end", "start B end", "start c end")

    result = runner.invoke(graph.compile(**mode), "x", concurrency=limit)

    assert sorted(result) == ["a0", "a1", "a2", "b0", "b1", "b2", "c"]
    assert gauge.entered == 7
    assert gauge.most <= limit


def test_concurrency_limit_is_used_up(runner: Runner) -> None:
    """With concurrency=2 two nodes do run at once, and those that wait start as soon as there is room."""
    barrier = threading.Barrier(2)

    def meet(value: str) -> str:
        barrier.wait(LIMIT)
        return value

    assert len(runner.invoke(fan(meet, 6).compile(), "x", concurrency=2)) == 6


@pytest.mark.parametrize("limit", [0, -1])
def test_concurrency_below_one(runner: Runner, limit: int) -> None:
    """P6: a concurrency below 1 is refused before anything runs, naming it."""
    calls = Calls()

    with pytest.raises(OptionError, match=rf"concurrency={limit} .*at least 1"):
        runner.invoke(chain("1", calls=calls).compile(), "x", concurrency=limit)

    assert calls["1"] == 0


def test_async_nodes_need_the_async_driver(mode: dict[str, Any]) -> None:
    """The threaded driver refuses a graph with async nodes before anything runs, naming them and what to call."""
    calls = Calls()

    async def node(text: str) -> str:
        return text

    inner = chain("b", b=node)
    graph = Graph(str, str)
    graph.add_node("first", appending("first", calls))
    graph.add_node("a", node)
    graph.add_node("sub", inner)
    wire(graph, "start first a sub end")

    with pytest.raises(OptionError, match=r"\['a', 'sub/b'\] .*ainvoke"):
        SyncRunner().invoke(graph.compile(**mode), "x")

    assert calls["first"] == 0


def test_async_nodes_are_tasks_of_the_loop(mode: dict[str, Any]) -> None:
    """Under the asyncio driver async nodes run side by side on the caller's event loop."""
    seen: list[Any] = []

    async def main() -> Any:
        inside = 0
        all_inside = asyncio.Event()

        async def meet(value: str) -> str:
            nonlocal inside
            seen.append(asyncio.get_running_loop())
            inside += 1
            if inside == 3:
                all_inside.set()
            await asyncio.wait_for(all_inside.wait(), LIMIT)
            return value

        seen.append(asyncio.get_running_loop())
        return await fan(meet, 3).compile(**mode).ainvoke("x")

    assert asyncio.run(main()) == {"n0": "x", "n1": "x", "n2": "x"}
    assert len(seen) == 4
    assert len(set(map(id, seen))) == 1


def test_sync_nodes_leave_the_loop_free(mode: dict[str, Any]) -> None:
    """Under the asyncio driver a sync node runs in a thread, while the loop goes on with async nodes."""
    threads: dict[str, int] = {}
    async_ran = threading.Event()

    def blocking(value: str) -> str:
        threads["sync"] = threading.get_ident()
        assert async_ran.wait(LIMIT), "the loop is blocked"
        return value

    async def light(value: str) -> str:
        threads["async"] = threading.get_ident()
        async_ran.set()
        return value

    graph = Graph(str, dict)
    graph.add_node("s", blocking, output_key="s")
    graph.add_node("a", light, output_key="a")
    wire(graph, "start s end", "start a end")

    assert asyncio.run(graph.compile(**mode).ainvoke("x")) == {"s": "x", "a": "x"}
    assert threads["async"] == threading.get_ident()
    assert threads["sync"] != threading.get_ident()


def test_one_node_runs_in_the_callers_thread(mode: dict[str, Any]) -> None:
    """The threaded driver runs a node that has nothing beside it in the caller's own thread."""
    threads: list[int] = []

    def node(value: str) -> str:
        threads.append(threading.get_ident())
        return value

    chain("1", "2", **{"1": node, "2": node}).compile(**mode).invoke("x")

    assert threads == [threading.get_ident()] * 2


@pytest.mark.parametrize("kind", ["partial", "method", "object"])
def test_async_callables_of_any_kind(kind: str) -> None:
    """An async method, a partial of an async function and an object with an async __call__ are async nodes."""
    from functools import partial

    class Node:
        async def __call__(self, value: str) -> str:
            return f"{value}!"

        async def method(self, value: str) -> str:
            return f"{value}!"

    async def function(mark: str, value: str) -> str:
        return value + mark

    node = {"partial": partial(function, "!"), "method": Node().method, "object": Node()}[kind]
    app = chain("1", **{"1": node}).compile()

    assert asyncio.run(app.ainvoke("x")) == "x!"
    with pytest.raises(OptionError, match="ainvoke"):
        app.invoke("x")


VAR: ContextVar[str] = ContextVar("VAR", default="unset")


def test_context_variables_come_in_and_stay_in(runner: Runner, mode: dict[str, Any]) -> None:
    """A node sees the caller's context variables; what it sets is seen by no other node and not by the caller."""
    seen: dict[str, str] = {}
    both = threading.Barrier(2)

    def node(key: str) -> Any:
        def run(value: Any) -> Any:
            seen[key] = VAR.get()
            VAR.set(key)
            if key in ("a", "b"):
                both.wait(LIMIT)
            seen[f"{key} after"] = VAR.get()
            return value

        return run

    graph = Graph()
    for key in ("a", "b", "c"):
        graph.add_node(key, node(key), output_key=key if key != "c" else None)
    wire(graph, "start a c end", "start b c")

    token = VAR.set("caller")
    try:
        runner.invoke(graph.compile(**mode), "x")
        assert VAR.get() == "caller"
    finally:
        VAR.reset(token)

    assert [seen[key] for key in ("a", "b", "c")] == ["caller"] * 3
    assert [seen[f"{key} after"] for key in ("a", "b", "c")] == ["a", "b", "c"]


def test_a_node_and_its_handlers_share_a_context(runner: Runner, mode: dict[str, Any]) -> None:
    """A pre-handler, the node, its post-handler and its branch run in one context, one after the other."""
    seen: list[str] = []

    def step(name: str, result: Any = None) -> Any:
        def run(value: Any, *state: Any) -> Any:
            seen.append(VAR.get())
            VAR.set(name)
            return value if result is None else result

        return run

    graph = Graph(str, str, state=dict)
    graph.add_node("1", lambda value: step("node")(value), pre=step("pre"), post=step("post"))
    graph.add_edge(START, "1")
    graph.add_branch("1", step("branch", END), [END])

    runner.invoke(graph.compile(**mode), "x")

    assert seen == ["unset", "pre", "node", "post"]
    assert VAR.get() == "unset"


def test_runs_side_by_side(runner: Runner) -> None:
    """Several threads may run one app at the same time."""
    barrier = threading.Barrier(4)

    def meet(value: str) -> str:
        barrier.wait(LIMIT)
        return value

    app = chain("1", "2", **{"1": meet, "2": echo}).compile()
    results: list[str] = []
    threads = [threading.Thread(target=lambda t=text: results.append(runner.invoke(app, t))) for text in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)

    assert sorted(results) == ["a", "b", "c", "d"]
