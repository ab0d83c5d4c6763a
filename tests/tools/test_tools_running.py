"""How calls run: side by side, in which threads and loops, with which context, and what is left behind."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from drivers import Runner, SyncRunner
from graphs import Calls
from pausing import solo, stopped
from tool_calls import KINDS, asking, call, contents, failure, of_kind, tools_app

from blobcp import Interrupted, OptionError, OutsideNodeError, Tool, ToolsNode, current_address, interrupt
from blobcp.stores import MapStore

LIMIT = 30.0
"""Seconds that calls wait for each other at most."""

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def many(name: str, count: int) -> Any:
    """Return a request of many calls of one tool."""
    return asking(*(call(f"c{number}", name, number=number) for number in range(count)))


def meeting(kind: str, count: int) -> Any:
    """Return a tool whose calls end once ``count`` of them have met."""
    barrier = threading.Barrier(count)
    arrived: list[int] = []
    met = asyncio.Event()

    def plain(number: int) -> str:
        barrier.wait(LIMIT)
        return f"met {number}"

    async def awaited(number: int) -> str:
        arrived.append(number)
        if len(arrived) == count:
            met.set()
        await asyncio.wait_for(met.wait(), LIMIT)
        return f"met {number}"

    tool: Any = plain if kind == "plain" else awaited
    tool.__name__ = "meet"
    return tool


@KINDS
def test_side_by_side(runner: Runner, kind: str) -> None:
    """All calls of a message run at the same time."""
    messages = runner.invoke(tools_app(meeting(kind, 5)), many("meet", 5))

    assert contents(messages) == {f"c{number}": f"met {number}" for number in range(5)}


def test_both_kinds_side_by_side(runner: Runner) -> None:
    """Plain and async tools of one message run at the same time, under either driver."""
    barrier = threading.Barrier(2)

    def plain() -> str:
        barrier.wait(LIMIT)
        return "plain"

    async def awaited() -> str:
        await asyncio.to_thread(barrier.wait, LIMIT)
        return "awaited"

    assert contents(runner.invoke(tools_app(plain, awaited), asking(call("1", "plain"), call("2", "awaited")))) == {
        "1": "plain",
        "2": "awaited",
    }


class Gauge:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1


@KINDS
@pytest.mark.parametrize(("options", "most"), [({"max_parallel": 2}, 2), ({"parallel": False}, 1)])
def test_limits(runner: Runner, kind: str, options: dict[str, Any], most: int) -> None:
    """No more than that run at once; with a limit they start in the order of the calls."""
    gauge = Gauge()
    calls = Calls()
    pairs = threading.Barrier(most)
    gate = asyncio.Semaphore(0)

    def plain(number: int) -> str:
        calls.note(str(number))
        with gauge:
            pairs.wait(LIMIT)
        return str(number)

    async def awaited(number: int) -> str:
        calls.note(str(number))
        with gauge:
            if most > 1 and number % 2 == 0:
                await asyncio.wait_for(gate.acquire(), LIMIT)
            gate.release()
            await asyncio.sleep(0)
        return str(number)

    tool: Any = plain if kind == "plain" else awaited
    tool.__name__ = "work"
    messages = runner.invoke(tools_app(tool, **options), many("work", 6))

    assert [message["content"] for message in messages] == list("012345")
    assert gauge.most == most
    assert sorted(calls.order) == list("012345")
    if most == 1:
        assert calls.order == list("012345")


@KINDS
@pytest.mark.parametrize("parallel", [True, False])
def test_context_variables(runner: Runner, kind: str, parallel: bool) -> None:
    """Context variables of the run reach the tools; what a tool sets there stays its own."""

    def ask(number: int) -> str:
        before = tenant.get()
        tenant.set(f"tenant {number}")
        return f"{before} {current_address()[-1]}"

    token = tenant.set("acme")
    try:
        messages = runner.invoke(tools_app(of_kind(kind, ask), parallel=parallel), many("ask", 3))
    finally:
        tenant.reset(token)

    assert contents(messages) == {f"c{number}": f"acme tool:ask:c{number}" for number in range(3)}


def test_async_tools_run_on_the_runs_own_loop() -> None:
    """Under the asyncio driver, async tools run on the loop of the run, where their connections belong."""
    loops: list[object] = []

    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        return "ok"

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await tools_app(look).ainvoke(asking(call("1", "look")))

    asyncio.run(main())
    assert loops[0] is loops[1]


def test_a_loop_that_runs_already() -> None:
    """Async tools under ``invoke`` inside of a running event loop are refused, before any tool has run."""
    calls = Calls()

    async def awaited() -> str:
        return "ok"

    app = tools_app(Tool(lambda: calls.note("plain"), name="plain"), awaited)

    async def main() -> BaseException:
        return failure(SyncRunner(), app, asking(call("1", "plain"), call("2", "awaited")))

    error = asyncio.run(main())
    assert isinstance(error, OptionError)
    assert "tool 'awaited' is async and an event loop runs in this thread already" in str(error)
    assert calls["plain"] == 0


def test_plain_tools_where_a_loop_runs() -> None:
    """Plain tools need no loop, so one that runs does not matter."""

    async def main() -> Any:
        return tools_app(Tool(lambda: "ok", name="plain")).invoke(asking(call("1", "plain"), call("2", "plain")))

    assert contents(asyncio.run(main())) == {"1": "ok", "2": "ok"}


def test_a_cancelled_run_cancels_its_tools() -> None:
    """A run that is cancelled cancels async tools, waits for their clean-up, and starts no further call."""
    calls = Calls()

    async def main() -> None:
        started = asyncio.Event()

        async def work(number: int) -> str:
            calls.note("start")
            started.set()
            try:
                await asyncio.sleep(LIMIT)
            finally:
                await asyncio.sleep(0)
                calls.note("cleaned up")
            return "never"

        task = asyncio.create_task(tools_app(work, max_parallel=2).ainvoke(many("work", 5)))
        await started.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert (calls["start"], calls["cleaned up"]) == (2, 2)


@KINDS
def test_a_tool_that_cancels_itself(runner: Runner, kind: str) -> None:
    """A cancellation that comes from the tool is a failure of the tool, not of the run."""

    def work() -> str:
        raise asyncio.CancelledError

    app = tools_app(of_kind(kind, work), on_error="message")

    assert contents(runner.invoke(app, asking(call("1", "work")))) == {
        "1": "Error: RuntimeError: the code was cancelled from inside"
    }


@KINDS
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_process_is_let_through(runner: Runner, kind: str, error: type[BaseException]) -> None:
    """``sys.exit()`` and Ctrl-C in a tool end the run as they would in a node, whatever is said of errors."""

    def work(number: int) -> str:
        raise error

    with pytest.raises(error):
        runner.invoke(tools_app(of_kind(kind, work), on_error="message"), many("work", 2))


@pytest.mark.parametrize("leaver", [0, 1])
def test_nothing_starts_after_the_end(runner: Runner, leaver: int) -> None:
    """Once a tool has ended the process, the calls that wait for their turn are not started behind its back."""
    calls = Calls()
    ended = threading.Event()
    both = threading.Barrier(2)

    def work(number: int) -> str:
        calls.note(str(number))
        both.wait(LIMIT)
        if number == leaver:
            raise SystemExit
        ended.wait(LIMIT)
        return "ok"

    before = set(threading.enumerate())
    with pytest.raises(SystemExit):
        runner.invoke(tools_app(work, max_parallel=2), many("work", 6))
    ended.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT)

    assert sorted(calls.order) == ["0", "1"]


@KINDS
def test_no_thread_is_left(runner: Runner, kind: str) -> None:
    """Threads end with the visit, whether it ends with messages, a stop or a failure."""
    before = set(threading.enumerate())

    def work(number: int) -> str:
        if number == 1:
            interrupt("?")
        if number == 2:
            raise ValueError("bad")
        return "ok"

    tool = of_kind(kind, work)
    runner.invoke(tools_app(tool), many("work", 1))
    stopped(runner, tools_app(tool, store=MapStore()), many("work", 2), checkpoint_id="1")
    failure(runner, tools_app(tool), many("work", 3))

    assert set(threading.enumerate()) - before == set()


def test_late_questions_are_refused(runner: Runner) -> None:
    """A thread that a tool leaves behind can't ask once the tool has returned, though the node still runs."""
    returned = threading.Event()
    errors: list[BaseException] = []

    def late() -> None:
        returned.wait(LIMIT)
        try:
            interrupt("too late")
        except BaseException as error:
            errors.append(error)

    threads: list[threading.Thread] = []

    def leave() -> str:
        threads.append(threading.Thread(target=copy_context().run, args=(late,)))
        threads[0].start()
        return "left"

    def after() -> str:
        returned.set()
        threads[0].join(LIMIT)
        return "after"

    app = tools_app(leave, after, parallel=False)
    assert contents(runner.invoke(app, asking(call("1", "leave"), call("2", "after")))) == {"1": "left", "2": "after"}
    assert [type(error) for error in errors] == [OutsideNodeError]


def test_outside_of_a_node() -> None:
    """A tools node by itself has no run to stop, so it needs a graph round it."""
    with pytest.raises(OutsideNodeError, match="ToolsNode was called outside of a running node"):
        ToolsNode([])(asking(call("1", "x")))


def test_called_from_a_node_of_ones_own(runner: Runner) -> None:
    """A node function may run the tools itself, and do more before and after."""

    def ask(number: int) -> str:
        return str(interrupt(f"q{number}"))

    tools = ToolsNode([ask])

    def plain(message: Any) -> list[Any]:
        return ["before", *tools(message), "after"]

    async def awaited(message: Any) -> list[Any]:
        return ["before", *await tools.acall(message), "after"]

    app = solo(plain if isinstance(runner, SyncRunner) else awaited).compile(store=MapStore())
    stop = stopped(runner, app, many("ask", 2), checkpoint_id="1")
    with pytest.raises(Interrupted):
        runner.resume(app, "1", {stop.interrupts[1].id: "b"})
    result = runner.resume(app, "1", {stop.interrupts[0].id: "a"})

    assert (result[0], result[-1], contents(result[1:-1])) == ("before", "after", {"c0": "a", "c1": "b"})
