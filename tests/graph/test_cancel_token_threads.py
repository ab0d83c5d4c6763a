"""Cancelled runs and what runs beside them: limits on concurrency, threads and tasks left behind, tokens by themselves."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, Gate, Run, cancelled_in, each_way, no_threads_left
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from pausing import stopped
from wiring import wire

from blobcp import END, START, App, CancelToken, CheckpointNotFoundError, Graph, Interrupted, OptionError
from blobcp.stores import MapStore


def fan(gates: list[Gate], kind: str, mode: dict[str, Any]) -> App:
    """Return gates side by side, whose outputs meet in one node."""
    graph = Graph(str, dict)
    graph.add_node("join", echo)
    for gate in gates:
        graph.add_node(gate.key, gate.node(kind), output_key=gate.key)
        wire(graph, f"start {gate.key} join")
    return wire(graph, "join end").compile(store=MapStore(), **mode)


@each_way
@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_nodes_that_wait_for_room(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """With a limit on concurrency, nodes that wait for room do not start once the run is cancelled; they are next."""
    calls = Calls()
    gates = [Gate(key, calls) for key in ("a", "b", "c", "d")]
    app = fan(gates, kind, mode)
    run = Run(runner, app, "x", checkpoint_id="run", concurrency=2)
    for gate in gates[:2]:
        assert gate.entered.wait(LIMIT)
    run.token.cancel(grace)
    for gate in gates[:2] if grace is None else ():
        gate.let_go()
    stop = run.stopped()
    for gate in gates:
        gate.let_go()

    assert stop.info is not None
    assert sorted(stop.info.after_nodes) == (["a", "b"] if grace is None else [])
    assert stop.info.rerun_nodes == ([] if grace is None else ["a", "b"])
    assert sorted(calls.order) == ["a", "b"]
    assert runner.resume(app, "run") == {key: f"x{key}" for key in "abcd"}
    assert dict(calls.count) == dict.fromkeys("ab", 1 if grace is None else 2) | {"c": 1, "d": 1}


@each_way
def test_end_is_kept_while_a_node_waits(runner: Runner, kind: str) -> None:
    """In pregel, END was reached by one node of a step of which another did not start: that one runs first, then END."""
    gate, calls = Gate("a"), Calls()
    graph = Graph(str, str)
    graph.add_node("a", gate.node(kind))
    graph.add_node("b", appending("b", calls))
    graph.add_node("c", echo)
    app = wire(graph, "start a end", "start b c b").compile(store=MapStore())
    run = Run(runner, app, "x", checkpoint_id="run", concurrency=1)
    assert gate.entered.wait(LIMIT)
    run.token.cancel()
    gate.let_go()
    stop = run.stopped()

    assert stop.info is not None
    assert stop.info.after_nodes == ["a"]
    assert calls.order == []
    assert runner.resume(app, "run") == "xa"
    assert calls.order == ["b"]


def test_the_run_does_not_wait_for_threads(runner: Runner, mode: dict[str, Any]) -> None:
    """A run given up at once returns while the thread of its node goes on; the thread ends with the node."""
    before = set(threading.enumerate())
    gates = [Gate(key) for key in ("a", "b")]
    app = fan(gates, "plain", mode)
    run = Run(runner, app, "x", checkpoint_id="run")
    for gate in gates:
        assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    run.stopped()

    assert not any(gate.left.is_set() for gate in gates)
    left = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("blobcp")]
    assert all(thread.daemon for thread in left), "a thread would keep the process from ending"
    for gate in gates:
        gate.let_go()
    no_threads_left(before)


def test_a_run_that_is_not_cancelled_leaves_no_thread(runner: Runner, mode: dict[str, Any]) -> None:
    """A run with a token that nobody cancels joins its threads before it returns."""
    before = set(threading.enumerate())
    calls = Calls()
    app = chain("1", "2", "3", calls=calls).compile(**mode)

    assert runner.invoke(app, "x", cancel=CancelToken()) == "x123"

    assert set(threading.enumerate()) <= before


def test_async_nodes_are_cancelled_and_awaited(mode: dict[str, Any]) -> None:
    """Async nodes that are given up are cancelled, may clean up, and have ended when the run has."""

    async def main() -> None:
        gates = [Gate(key) for key in ("a", "b")]
        app = fan(gates, "async", mode)
        token = CancelToken()
        run = asyncio.ensure_future(app.ainvoke("x", checkpoint_id="run", cancel=token))
        while not all(gate.entered.is_set() for gate in gates):
            await asyncio.sleep(0)
        token.cancel(AT_ONCE)
        with pytest.raises(Interrupted):
            await asyncio.wait_for(run, LIMIT)
        assert [gate.cancelled for gate in gates] == [1, 1]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_async_nodes_are_cancelled_before_the_store_is_done() -> None:
    """A store that takes its time keeps no node going: those that are given up are cancelled while it writes."""

    class Patient:
        """Writes once the node has ended."""

        async def get(self, checkpoint_id: str) -> None:
            return None

        async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
            await asyncio.wait_for(ended.wait(), LIMIT)

    ended = asyncio.Event()

    async def main() -> list[str]:
        token = CancelToken()

        async def node(text: str) -> str:
            token.cancel(AT_ONCE)
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            return text

        with pytest.raises(Interrupted) as caught:
            await chain("1", **{"1": node}).compile(store=Patient()).ainvoke("x", checkpoint_id="run", cancel=token)
        assert caught.value.info is not None
        return caught.value.info.rerun_nodes

    assert asyncio.run(main()) == ["1"]


def test_a_cancelled_task_with_a_token() -> None:
    """K41: cancelling the asyncio task of a run that has a token ends it as before: cancelled, nothing stored, no task left."""

    async def main() -> None:
        gate = Gate("1")
        store = MapStore()
        app = chain("1", **{"1": gate.awaiting}).compile(store=store)
        run = asyncio.ensure_future(app.ainvoke("x", checkpoint_id="run", cancel=CancelToken()))
        while not gate.entered.is_set():
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        assert store.get("run") is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_branch_that_never_ends(runner: Runner, mode: dict[str, Any]) -> None:
    """A run given up while a branch is asked stops at once; the node before it runs again."""
    gate, calls = Gate(), Calls()

    def plain(text: str) -> str:
        gate(text)
        return END

    async def awaiting(text: str) -> str:
        await gate.awaiting(text)
        return END

    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", awaiting if runner.name == "async" else plain, [END])
    app = graph.compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "a", AT_ONCE, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["1"]
    assert runner.resume(app, "run") == "a1"
    assert calls["1"] == 2


def test_a_cancel_from_many_threads(runner: Runner, mode: dict[str, Any]) -> None:
    """Many threads that cancel one run at the same time stop it once."""
    gate = Gate("1")
    app = chain("1", "2", **{"1": gate}).compile(store=MapStore(), **mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    barrier = threading.Barrier(8)

    def cancel(turn: int) -> None:
        barrier.wait(LIMIT)
        run.token.cancel(None if turn % 2 else AT_ONCE)

    threads = [threading.Thread(target=cancel, args=(turn,)) for turn in range(8)]
    for thread in threads:
        thread.start()
    stop = run.stopped()
    gate.let_go()
    for thread in threads:
        thread.join(LIMIT)

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["1"]
    assert runner.resume(app, "run") == "a12"


class TestToken:
    """The token by itself."""

    def test_one_run_only(self, runner: Runner) -> None:
        """K26: a token that a run has had is refused for another one, whether it was cancelled or not."""
        calls = Calls()
        app = chain("1", calls=calls).compile()
        token = CancelToken()
        runner.invoke(app, "a", cancel=token)

        with pytest.raises(OptionError, match="belongs to another run already; make a CancelToken for each run"):
            runner.invoke(app, "a", cancel=token)
        assert calls["1"] == 1

    def test_not_shared_with_an_app_inside(self, runner: Runner) -> None:
        """K26: an app called from a node is a run of its own, and can't be given the token of the run round it."""
        token = CancelToken()
        inner = chain("1").compile()

        def node(text: str) -> str:
            return str(inner.invoke(text, cancel=token))

        app = chain("call", call=node).compile()
        with pytest.raises(Exception, match="belongs to another run already"):
            runner.invoke(app, "a", cancel=token)

    @pytest.mark.parametrize("cancel", [True, threading.Event(), CancelToken], ids=repr)
    def test_what_is_no_token(self, runner: Runner, cancel: Any) -> None:
        """P6: something else than a token is refused before anything runs."""
        calls = Calls()

        with pytest.raises(OptionError, match="is no CancelToken"):
            runner.invoke(chain("1", calls=calls).compile(), "a", cancel=cancel)
        assert calls["1"] == 0

    @pytest.mark.parametrize("timeout", [5, timedelta(seconds=-1), "now"], ids=repr)
    def test_what_is_no_timeout(self, timeout: Any) -> None:
        """P6: a time-out that is none is refused and cancels nothing."""
        token = CancelToken()

        with pytest.raises(OptionError, match="is no time-out; give a timedelta of zero or more"):
            token.cancel(timeout)
        assert not token.cancelled

    def test_the_longest_timeout(self, runner: Runner) -> None:
        """The longest time-out there is, is one."""
        gate = Gate("1")
        run = Run(runner, chain("1", "2", **{"1": gate}).compile(), "a")
        assert gate.entered.wait(LIMIT)
        run.token.cancel(timedelta.max)
        gate.let_go()

        stop = run.stopped()
        assert stop.info is not None
        assert stop.info.after_nodes == ["1"]

    def test_what_it_tells(self) -> None:
        """A token tells whether it was cancelled, and whether what runs is to be given up."""
        token = CancelToken()
        assert (token.cancelled, token.due, token.remaining()) == (False, False, None)
        token.cancel()
        assert (token.cancelled, token.due, token.remaining()) == (True, False, None)
        token.cancel(timedelta(hours=1))
        remaining = token.remaining()
        assert remaining is not None
        assert 0 < remaining <= 3600
        token.cancel(AT_ONCE)
        assert (token.cancelled, token.due, token.remaining()) == (True, True, 0)

    def test_after_the_run(self, runner: Runner) -> None:
        """A cancel after the run is over does nothing, also where the run's event loop is closed; the run can be freed."""
        token = CancelToken()
        store = MapStore()
        runner.invoke(chain("1").compile(store=store), "a", checkpoint_id="run", cancel=token)
        watched = weakref.ref(store)
        del store
        gc.collect()

        token.cancel(AT_ONCE)

        assert watched() is None

    def test_a_resume_that_finds_nothing(self, runner: Runner) -> None:
        """A resume that finds nothing fails as ever, with a token too."""
        with pytest.raises(CheckpointNotFoundError):
            runner.resume(chain("1").compile(store=MapStore()), "none", cancel=CancelToken())


def test_both_drivers_read_what_the_other_stored(mode: dict[str, Any]) -> None:
    """A run cancelled under one driver goes on under the other."""
    gate = Gate("1")
    app = chain("1", "2", **{"1": gate}).compile(store=MapStore(), **mode)
    cancelled_in(SyncRunner(), app, gate, "a", AT_ONCE, checkpoint_id="run")

    token = CancelToken()
    token.cancel(AT_ONCE)
    with pytest.raises(Interrupted):
        AsyncRunner().resume(app, "run", cancel=token)

    assert SyncRunner().resume(app, "run") == "a12"


def test_no_store_at_all(runner: Runner) -> None:
    """A cancelled run of an app without a store is raised, and says that it is not stored."""
    token = CancelToken()
    token.cancel()

    stop = stopped(runner, chain("1").compile(), "a", cancel=token)

    assert str(stop).endswith("not stored, since it has no checkpoint id")
