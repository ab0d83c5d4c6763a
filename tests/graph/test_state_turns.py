"""Whose turn it is at the lock of a state, and waits that would never end."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from graphs import echo
from locks import LIMIT, Counter, queued, settle
from wiring import wire

from blobcp import Graph, NodeError, StateError, use_state
from blobcp.graph.state import StateLock


def test_threads_get_it_in_the_order_of_asking() -> None:
    """Threads are served first come, first served."""
    lock = StateLock()
    served: list[int] = []

    def take(index: int) -> None:
        lock.acquire()
        served.append(index)
        lock.release()

    lock.acquire()
    with ThreadPoolExecutor(6) as pool:
        calls = []
        for index in range(6):
            calls.append(pool.submit(take, index))
            queued(lock, index + 1)
        lock.release()
        for call in calls:
            call.result(LIMIT)

    assert served == list(range(6))


def test_tasks_get_it_in_the_order_of_asking() -> None:
    """Tasks are served first come, first served; one that gives it back and asks again is last."""

    async def main() -> list[str]:
        lock = StateLock()
        served: list[str] = []

        async def take(name: str) -> None:
            await lock.acquire_async()
            served.append(name)
            await settle()
            lock.release()

        await lock.acquire_async()
        others = [asyncio.create_task(take(name)) for name in "bcd"]
        await settle()
        lock.release()
        await asyncio.wait_for(take("a"), LIMIT)
        await asyncio.gather(*others)
        return served

    assert asyncio.run(main()) == ["b", "c", "d", "a"]


def test_ctrl_c_while_waiting() -> None:
    """A thread that a KeyboardInterrupt takes out of its wait leaves the queue; the next in line gets the lock."""
    lock = StateLock()
    held, interrupted, served = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        lock.acquire()
        held.set()
        queued(lock, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        interrupted.wait(LIMIT)
        lock.release()

    def next_in_line() -> None:
        lock.acquire()
        lock.release()
        served.set()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(LIMIT)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    interrupted.set()
    holder.join(LIMIT)

    threading.Thread(target=next_in_line, daemon=True).start()
    assert served.wait(1.0), "the lock went to a thread that does not wait any more"


def test_a_waiting_coroutine_that_is_closed() -> None:
    """A coroutine that is closed while it waits leaves the queue."""

    async def main() -> None:
        lock = StateLock()
        await asyncio.create_task(lock.acquire_async())
        waiting = lock.acquire_async()
        waiting.send(None)
        waiting.close()
        lock.release()
        await asyncio.wait_for(asyncio.create_task(lock.acquire_async()), 1.0)

    asyncio.run(main())


def test_a_waiter_whose_loop_is_gone() -> None:
    """A task of a loop that was closed without it is passed by; who gives the lock back does not notice."""
    lock = StateLock()
    lock.acquire()
    loop = asyncio.new_event_loop()

    def run() -> None:
        task = loop.create_task(lock.acquire_async())
        loop.run_until_complete(settle())
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result(LIMIT)
    served = threading.Event()
    threading.Thread(target=lambda: (lock.acquire(), served.set()), daemon=True).start()
    queued(lock, 2)

    lock.release()

    assert served.wait(1.0), "the lock went to a loop that is gone"


def test_blocking_where_it_would_never_end() -> None:
    """A plain `with` that meets a lock held by another task of the same loop is refused at once, not waited for."""

    async def main() -> None:
        lock = StateLock()
        await asyncio.create_task(lock.acquire_async())
        with pytest.raises(StateError, match=r"locked by other code of this thread.*async with"):
            lock.acquire()

    asyncio.run(main())


def test_a_loop_started_while_holding_the_state() -> None:
    """K48: `async with` in a loop that a block of the same thread started is served or refused, not waited for."""

    async def ask(value: str) -> str:
        async with use_state(Counter):
            return value

    def handler(value: str, state: Counter) -> str:
        return asyncio.run(asyncio.wait_for(ask(value), 2.0))

    graph = Graph(str, str, state=Counter)
    graph.add_node("n", echo, pre=handler)
    wire(graph, "start n end")

    try:
        assert graph.compile().invoke("x") == "x"
    except NodeError as error:
        assert isinstance(error.__cause__, StateError)  # noqa: PT017 - both ways are right
