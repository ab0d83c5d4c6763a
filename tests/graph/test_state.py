"""A graph's state: fresh in each run, reached by class through nested graphs and apps, locked while it is used."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import appending, echo
from wiring import wire

from blobcp import Graph, Interrupted, NodeError, OutsideNodeError, StateError, serializable, use_state
from blobcp.stores import MapStore

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


@serializable("tests.state.Two")
@dataclass
class Two:
    f1: str = ""
    f2: str = ""


@serializable("tests.state.Outer")
@dataclass
class Outer:
    value: str = "outer"
    counter: int = 0


@serializable("tests.state.Inner")
@dataclass
class Inner:
    value: str = "inner"
    log: list[str] = field(default_factory=list)


def single(node: Any, state: Any = None, **handlers: Any) -> Graph:
    """Return a graph of one node."""
    graph = Graph(state=state)
    graph.add_node("n", node, **handlers)
    return wire(graph, "start n end")


def test_state_travels_beside_the_values(runner: Runner, mode: dict[str, Any]) -> None:
    """B026: what a node and its handlers put into the state is there for the next node; a new run starts afresh."""
    before: list[Two] = []

    def one(text: str) -> str:
        with use_state(Two) as state:
            before.append(Two(state.f1, state.f2))
            state.f1 = "node1"
        return text

    def after(text: str, state: Two) -> str:
        state.f2 = "node2"
        return text

    graph = Graph(str, str, state=Two)
    graph.add_node("1", one, post=after)
    graph.add_node("2", echo, pre=lambda text, state: text + state.f1 + state.f2)
    app = wire(graph, "start 1 2 end").compile(**mode)

    assert [runner.invoke(app, "start") for _ in range(2)] == ["startnode1node2"] * 2
    assert before == [Two(), Two()]


def read_both(text: str) -> str:
    """Append what the inner and the outer state say."""
    with use_state(Inner) as inner, use_state(Outer) as outer:
        return f"{text}_inner={inner.value}_outer={outer.value}"


def test_nested_graph_reads_both_states(runner: Runner, mode: dict[str, Any]) -> None:
    """B027: a node of a nested graph reads its own graph's state and that of the graph round it, by class."""
    graph = single(single(read_both, Inner), Outer)

    assert runner.invoke(graph.compile(**mode), "start") == "start_inner=inner_outer=outer"


def test_app_called_from_a_node_reads_both_states(runner: Runner, mode: dict[str, Any]) -> None:
    """B027: a node of an app that a node's function calls reads the state of the graph round that node too."""

    def node(text: str) -> str:
        with use_state(Outer) as outer:
            return f"{read_both(text)}_{outer.counter}"

    inner = single(node, Inner).compile(**mode)
    graph = single(lambda text: runner.invoke(inner, text), lambda: Outer(counter=100))

    assert runner.invoke(graph.compile(**mode), "start") == "start_inner=inner_outer=outer_100"


@pytest.mark.parametrize("form", ["nested", "called"])
def test_inner_state_of_the_same_class_hides_the_outer(runner: Runner, mode: dict[str, Any], form: str) -> None:
    """B028: where both states are of one class, the innermost is meant; the outer one is left alone."""

    def node(text: str) -> str:
        with use_state(Outer) as state:
            state.counter += 1
            return f"{text}_{state.value}"

    inner = single(node, lambda: Outer("inner"))
    app = inner.compile(**mode)
    seen: list[Outer] = []
    graph = Graph(state=Outer)
    graph.add_node("n", inner if form == "nested" else lambda text: runner.invoke(app, text), post=look(seen))

    assert runner.invoke(wire(graph, "start n end").compile(**mode), "start") == "start_inner"
    assert seen == [Outer("outer", 0)]


def look(seen: list[Any]) -> Any:
    """Return a handler that remembers the state."""

    def handle(value: Any, state: Any) -> Any:
        seen.append(state)
        return value

    return handle


@pytest.mark.parametrize("eager", [True, False])
def test_two_nested_graphs_have_a_state_each(runner: Runner, eager: bool) -> None:
    """B028: graphs nested side by side, and visits of one graph after the other, each have a fresh state."""

    def node(text: str) -> str:
        with use_state(Inner) as state:
            state.log.append(text)
            return "".join(state.log)

    nested = single(node, Inner)
    graph = Graph(str, dict, state=Outer)
    for key in ("a", "b", "a2"):
        graph.add_node(key, nested, output_key=key)
    graph.add_node("take", echo, input_key="a")
    wire(graph, "start a take a2 end", "start b end")

    result = runner.invoke(graph.compile(mode="dag", eager=eager), "x")

    assert result == {"a2": "x", "b": "x"}


def test_a_base_class_finds_the_state(runner: Runner) -> None:
    """B027: a state is found by its class or any base of it."""

    class Special(Outer):
        pass

    def node(text: str) -> str:
        with use_state(Outer) as state:
            return type(state).__name__

    assert runner.invoke(single(node, Special).compile(), "x") == "Special"


def test_no_state_of_that_class(runner: Runner, mode: dict[str, Any]) -> None:
    """B029: a class that no level has fails the node, naming that class, the innermost state's and the place."""

    def node(text: str) -> Any:
        with use_state(Two) as state:
            return state

    graph = single(single(node, Inner), Outer)

    with pytest.raises(NodeError, match="no state of class Two") as caught:
        runner.invoke(graph.compile(**mode), "x")

    cause = caught.value.__cause__
    assert isinstance(cause, StateError)
    assert str(cause) == (
        "no state of class Two is there for runnable:root;node:n;node:n; the innermost state is of class Inner"
    )
    assert caught.value.path == ["n", "n"]


def test_no_state_at_all(runner: Runner, mode: dict[str, Any]) -> None:
    """B029: asking for a state where no graph has one fails the node with "no state"."""

    def node(text: str) -> Any:
        with use_state(Two) as state:
            return state

    with pytest.raises(NodeError) as caught:
        runner.invoke(single(node).compile(**mode), "x")

    assert isinstance(caught.value.__cause__, StateError)
    assert str(caught.value.__cause__).startswith("no state: runnable:root;node:n asks for Two")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_outside_of_a_node(way: str) -> None:
    """B029: asking for a state where no node runs is an error of its own."""

    async def ask() -> None:
        async with use_state(Two):
            pass

    with pytest.raises(OutsideNodeError, match=r"use_state\(\) was called outside of a running node"):
        asyncio.run(ask()) if way == "async" else use_state(Two).__enter__()


def test_a_thread_without_the_context(runner: Runner) -> None:
    """B029: a thread that a node starts without its context is outside; the error says how to take it along."""

    def node(text: str) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(use_state(Two).__enter__).result(LIMIT)

    with pytest.raises(NodeError, match="copy_context"):
        runner.invoke(single(node, Two).compile(), "x")


def count_in_threads(text: str) -> str:
    """Let ten threads each read the outer counter, give way, and write one more."""
    start = threading.Barrier(10)

    def add() -> None:
        start.wait(LIMIT)
        with use_state(Outer) as state:
            seen = state.counter
            threading.Event().wait(0.001)
            state.counter = seen + 1

    with ThreadPoolExecutor(10) as pool:
        calls = [pool.submit(contextvars.copy_context().run, add) for _ in range(10)]
        for call in calls:
            call.result(LIMIT)
    return text


@pytest.mark.parametrize("form", ["nested", "called"])
def test_threads_take_turns(runner: Runner, form: str) -> None:
    """B030: ten threads of an inner node that read, sleep and write the outer counter leave 10."""
    inner = single(count_in_threads, Inner)
    app = inner.compile()
    seen: list[Outer] = []
    graph = Graph(state=Outer)
    graph.add_node("n", inner if form == "nested" else lambda text: runner.invoke(app, text), post=look(seen))

    runner.invoke(wire(graph, "start n end").compile(), "x")

    assert seen == [Outer("outer", 10)]


def test_nodes_take_turns(runner: Runner, mode: dict[str, Any]) -> None:
    """B030: nodes that run side by side and change the state in use_state blocks lose no change."""
    start = threading.Barrier(8)
    seen: list[Outer] = []

    def node(text: str) -> str:
        start.wait(LIMIT)
        for _ in range(20):
            with use_state(Outer) as state:
                before = state.counter
                threading.Event().wait(0.0001)
                state.counter = before + 1
        return text

    graph = Graph(state=Outer)
    for index in range(8):
        graph.add_node(f"n{index}", node, output_key=f"n{index}")
    graph.add_node("join", echo, post=look(seen))
    for index in range(8):
        wire(graph, f"start n{index} join")
    wire(graph, "join end")

    runner.invoke(graph.compile(**mode), "x")

    assert seen[-1].counter == 160


def test_levels_have_a_lock_each(runner: Runner, mode: dict[str, Any]) -> None:
    """B030: holding the inner state keeps nobody from the outer one."""
    holding, done = threading.Event(), threading.Event()

    def holder(text: str) -> str:
        with use_state(Inner):
            holding.set()
            assert done.wait(LIMIT), "the outer state is not to be had"
        return text

    def other(text: str) -> str:
        assert holding.wait(LIMIT)
        with use_state(Outer) as state:
            state.counter += 1
        done.set()
        return text

    graph = Graph(Any, dict, state=Outer)
    graph.add_node("sub", single(holder, Inner), output_key="sub")
    graph.add_node("o", other, output_key="o")
    wire(graph, "start sub end", "start o end")

    assert runner.invoke(graph.compile(**mode), "x") == {"sub": "x", "o": "x"}


def test_restored_outer_state_is_seen_inside(runner: Runner, mode: dict[str, Any]) -> None:
    """B031: after a pause in a nested graph its nodes read the outer state as it was stored."""

    def set_counter(text: str, state: Outer) -> str:
        state.counter = 42
        return text

    def read(text: str) -> str:
        with use_state(Outer) as state:
            return f"{text}_counter={state.counter}_value={state.value}"

    inner = Graph(str, str, state=Inner)
    inner.add_node("read", read)
    graph = Graph(str, str, state=Outer)
    graph.add_node("set", echo, post=set_counter)
    graph.add_node("sub", wire(inner, "start read end").compile(interrupt_before=["read"], **mode))
    app = wire(graph, "start set sub end").compile(store=MapStore(), **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "start", checkpoint_id="1")
    assert caught.value.info is not None
    assert caught.value.info.subgraphs["sub"].before_nodes == ["read"]

    assert runner.invoke(app, "start", checkpoint_id="1") == "start_counter=42_value=outer"


def test_told_state_is_a_copy(runner: Runner, mode: dict[str, Any]) -> None:
    """B032: the state in an interrupt's info is one copy; what happens to the live object later does not reach it."""
    live: list[Inner] = []
    graph = Graph(str, str, state=Inner)
    graph.add_node("1", appending("1"), post=lambda text, state: (state.log.append("1"), live.append(state), text)[2])
    graph.add_node("2", appending("2"))
    app = wire(graph, "start 1 2 end").compile(interrupt_before=["2"], **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "x")
    live[0].log.append("later")

    assert caught.value.info is not None
    assert caught.value.info.state == Inner(log=["1"])
    assert caught.value.interrupts[0].info is caught.value.info.state
