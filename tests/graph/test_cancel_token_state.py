"""K12: what a node that was given up still does to the state is seen by nobody, and nothing waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, Gate, Run, cancelled_in, each_way, no_threads_left
from drivers import AsyncRunner, Runner
from graphs import appending, chain
from pausing import stopped
from wiring import wire

from blobcp import App, Graph, StateError, get_interrupt_state, interrupt, serializable, use_state
from blobcp.stores import MapStore


@serializable("tests.cancel.Pair")
@dataclass
class Pair:
    """A state whose two parts are equal whenever nothing holds its lock."""

    left: int = 0
    right: int = 0


def app_of(node: Callable[[Any], Any], mode: dict[str, Any], **handlers: Any) -> App:
    """Return an app with the state round one node, then another."""
    graph = Graph(str, str, state=Pair)
    graph.add_node("1", node, **handlers)
    graph.add_node("2", appending("2"))
    return wire(graph, "start 1 2 end").compile(store=MapStore(), **mode)


def stored_state(runner: Runner, app: App) -> Any:
    """Return the root's state as it is stored."""
    (point,) = runner.pending(app, "run")
    return point.info


@each_way
def test_a_block_that_never_ends(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A node given up inside a `use_state` block holds the lock: the run stops without it, with the state before the block."""
    gate = Gate("1")

    def plain(text: str) -> str:
        with use_state(Pair) as pair:
            pair.left = pair.right = pair.left + 1
        with use_state(Pair) as pair:
            pair.left += 10
            gate(text)
            pair.right += 10
        return text + "1"

    async def awaiting(text: str) -> str:
        async with use_state(Pair) as pair:
            pair.left = pair.right = pair.left + 1
        async with use_state(Pair) as pair:
            pair.left += 10
            try:
                await gate.awaiting(text)
            finally:
                pair.right += 10
        return text + "1"

    app = app_of(awaiting if kind == "async" else plain, mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    stop = run.stopped()
    gate.let_go()
    assert gate.left.wait(LIMIT)

    assert stop.info is not None
    assert stop.info.state == Pair(1, 1)
    assert stored_state(runner, app) == Pair(1, 1)
    assert runner.resume(app, "run") == "a12"


def test_a_handler_that_never_ends(runner: Runner, mode: dict[str, Any]) -> None:
    """A run given up inside a handler stops at once; the node runs again, and what the handler had done is not stored."""
    for where in ("pre", "post"):
        gate = Gate()

        def plain(text: str, pair: Pair, gate: Gate = gate) -> str:
            pair.left += 1
            gate(text)
            pair.right += 1
            return text

        async def awaiting(text: str, pair: Pair, gate: Gate = gate) -> str:
            pair.left += 1
            await gate.awaiting(text)
            pair.right += 1
            return text

        app = app_of(appending("1"), mode, **{where: awaiting if runner.name == "async" else plain})
        run = Run(runner, app, "a", checkpoint_id="run")
        assert gate.entered.wait(LIMIT)
        run.token.cancel(AT_ONCE)
        stop = run.stopped()
        gate.let_go()
        assert gate.left.wait(LIMIT)

        assert stop.info is not None
        assert stop.info.rerun_nodes == (["1"] if where == "post" else [])
        assert stored_state(runner, app) == Pair()
        assert runner.resume(app, "run") == "a12"


@each_way
def test_a_handler_that_waits_for_a_node(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A handler that waits for the lock of a node that never ends does not keep the run from being cancelled."""
    holder, other = Gate("h"), Gate("o")

    def plain(text: str) -> str:
        with use_state(Pair):
            return str(holder(text))

    async def awaiting(text: str) -> str:
        async with use_state(Pair):
            return str(await holder.awaiting(text))

    graph = Graph(str, dict, state=Pair)
    graph.add_node("holder", awaiting if kind == "async" else plain, output_key="holder")
    graph.add_node("other", other.node(kind), output_key="other", post=lambda value, _: value)
    app = wire(graph, "start holder end", "start other end").compile(store=MapStore(), **mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert holder.entered.wait(LIMIT)
    assert other.entered.wait(LIMIT)
    other.let_go()
    assert other.left.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    stop = run.stopped()
    holder.let_go()

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["holder", "other"]
    assert runner.resume(app, "run") == {"holder": "ah", "other": "ao"}


def test_a_late_block_is_refused(runner: Runner, mode: dict[str, Any]) -> None:
    """A node that was given up and asks for the state then is told so; it ends with that, seen by nobody."""
    gate = Gate("1")
    ended_with: list[str] = []
    over = threading.Event()

    def node(text: str) -> str:
        gate(text)
        try:
            with use_state(Pair) as pair:
                pair.left += 1
        except StateError as error:
            ended_with.append(str(error))
        over.set()
        return text

    app = app_of(node, mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    run.stopped()
    gate.let_go()
    assert over.wait(LIMIT)

    assert ended_with == ["the run was cancelled and has left this node behind; what it does is of no use any more"]
    assert stored_state(runner, app) == Pair()


def test_the_state_is_never_torn(runner: Runner, mode: dict[str, Any]) -> None:
    """Nodes that change the state without a pause are given up 50 times: the stored state is always one between blocks."""
    before = set(threading.enumerate())
    for _ in range(50):
        enough, over = threading.Event(), threading.Event()

        def busy(text: str, enough: threading.Event = enough, over: threading.Event = over) -> str:
            try:
                for turn in range(10_000_000):
                    with use_state(Pair) as pair:
                        pair.left += 1
                        if turn == 20:
                            enough.set()
                        pair.right += 1
            finally:
                over.set()
            return text

        app = app_of(busy, mode)
        run = Run(runner, app, "a", checkpoint_id="run")
        assert enough.wait(LIMIT)
        run.token.cancel(AT_ONCE)
        stop = run.stopped()
        assert over.wait(LIMIT)

        state = stored_state(runner, app)
        assert state.left == state.right >= 20
        assert stop.info is not None
        assert stop.info.state == state
    no_threads_left(before)


@pytest.mark.parametrize("deep", [False, True], ids=["root", "nested"])
def test_states_of_all_levels(runner: Runner, mode: dict[str, Any], deep: bool) -> None:
    """A node given up inside a block on an outer graph's state leaves that state as it was before the block, too."""
    gate = Gate("x")

    def node(text: str) -> str:
        with use_state(Pair) as pair:
            pair.left += 1
            gate(text)
            pair.right += 1
        return text

    inner = chain("x", state=dict, x=node)
    if deep:
        inner = chain("in", state=dict, **{"in": inner})
    app = app_of(inner, mode)  # type: ignore[arg-type]  # a graph is a node as well
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    run.stopped()
    gate.let_go()

    assert stored_state(runner, app) == Pair()
    assert runner.resume(app, "run") == "a2"


def test_cleaning_up_is_not_stored() -> None:
    """An async node that is given up is cancelled and may clean up; what its clean-up does to the state is not stored."""
    cleaned: list[str] = []
    entered = threading.Event()

    async def node(text: str) -> str:
        async with use_state(Pair) as pair:
            entered.set()
            try:
                await asyncio.sleep(3600 if not cleaned else 0)
            finally:
                pair.left = 99
                cleaned.append(text)
        return text

    app = app_of(node, {})
    run = Run(AsyncRunner(), app, "a", checkpoint_id="run")
    assert entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    run.stopped()

    assert cleaned == ["a"]
    assert stored_state(AsyncRunner(), app) == Pair()


@each_way
def test_what_a_node_has_kept_outlives_a_cancel(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A node that is given up while it goes on from what it kept at a stop finds the same again, its question open as before."""
    gate = Gate("")
    seen: list[Any] = []

    def ask(text: str) -> str:
        kept = get_interrupt_state(str)
        seen.append(kept.state)
        if kept.has_state and not gate.go.is_set():
            gate(text)
        return text + str(interrupt("q", state="half done"))

    async def awaiting(text: str) -> str:
        kept = get_interrupt_state(str)
        seen.append(kept.state)
        if kept.has_state and not gate.go.is_set():
            await gate.awaiting(text)
        return text + str(interrupt("q", state="half done"))

    app = chain("1", **{"1": awaiting if kind == "async" else ask}).compile(store=MapStore(), **mode)
    [question] = stopped(runner, app, "a", checkpoint_id="run").interrupts

    cancelled_in(runner, app, gate, None, AT_ONCE, checkpoint_id="run")

    assert question.id in [point.id for point in runner.pending(app, "run")]
    assert runner.resume(app, "run", {question.id: "!"}) == "a!"
    assert seen == [None, "half done", "half done"]
