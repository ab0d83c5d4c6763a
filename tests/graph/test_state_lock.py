"""The lock of a state: re-entrant, for threads and tasks alike, and safe to stop waiting for."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from locks import LIMIT, Counter, queued, settle

from blobcp.graph.state import StateLock


def test_reentrant_in_one_thread() -> None:
    """The holder may take the lock again, and holds it until it has given it back as often."""
    lock = StateLock()
    other = ThreadPoolExecutor(1)
    lock.acquire()
    lock.acquire()
    waiting = other.submit(lock.acquire)
    queued(lock, 1)

    lock.release()
    assert not waiting.done()
    lock.release()

    waiting.result(LIMIT)
    other.shutdown()


def test_reentrant_in_one_task() -> None:
    """A task may take the lock again by either way of asking."""

    async def main() -> None:
        lock = StateLock()
        await lock.acquire_async()
        await lock.acquire_async()
        lock.acquire()
        for _ in range(3):
            lock.release()
        await asyncio.wait_for(asyncio.create_task(lock.acquire_async()), LIMIT)

    asyncio.run(main())


def test_threads_and_tasks_share_it() -> None:
    """Threads and tasks of several loops exclude each other."""
    lock = StateLock()
    counter = Counter()
    start = threading.Barrier(6)

    def by_thread() -> None:
        start.wait(LIMIT)
        for _ in range(100):
            lock.acquire()
            seen = counter.value
            threading.Event().wait(0)
            counter.value = seen + 1
            lock.release()

    async def one_task() -> None:
        for _ in range(50):
            await lock.acquire_async()
            seen = counter.value
            await asyncio.sleep(0)
            counter.value = seen + 1
            lock.release()

    async def two_tasks() -> None:
        await asyncio.gather(one_task(), one_task())

    def by_loop() -> None:
        start.wait(LIMIT)
        asyncio.run(two_tasks())

    with ThreadPoolExecutor(6) as pool:
        for call in [pool.submit(run) for run in (by_thread, by_loop) * 3]:
            call.result(LIMIT * 3)

    assert counter.value == 600


def test_stopping_to_wait_leaves_the_queue() -> None:
    """A task that is cancelled while it waits is passed by; the next in line gets the lock."""

    async def main() -> None:
        lock = StateLock()
        await lock.acquire_async()
        first = asyncio.create_task(lock.acquire_async())
        second = asyncio.create_task(lock.acquire_async())
        await settle()
        first.cancel()
        await settle()
        lock.release()
        await asyncio.wait_for(second, LIMIT)
        assert first.cancelled()

    asyncio.run(main())


def test_stopping_to_wait_when_it_is_ones_turn() -> None:
    """A task that is cancelled just as the lock comes to it hands it on; nobody waits for ever."""

    async def main() -> None:
        lock = StateLock()
        await lock.acquire_async()
        first = asyncio.create_task(lock.acquire_async())
        second = asyncio.create_task(lock.acquire_async())
        await settle()
        lock.release()
        first.cancel()
        await asyncio.wait_for(asyncio.wait([second]), LIMIT)
        if not first.cancelled():
            pytest.fail("the cancelled task got the lock")
        second.result()

    asyncio.run(main())


def test_cancelled_waiters_at_random() -> None:
    """Whoever is cancelled at whatever moment, the lock is free in the end."""

    async def main() -> None:
        lock = StateLock()

        async def take(steps: int) -> None:
            await lock.acquire_async()
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                lock.release()

        for moment in range(12):
            tasks = [asyncio.create_task(take(index % 3)) for index in range(8)]
            for _ in range(moment):
                await asyncio.sleep(0)
            for task in tasks[moment % 2 :: 2]:
                task.cancel()
            await asyncio.wait_for(asyncio.wait(tasks), LIMIT)
        await asyncio.wait_for(take(0), LIMIT)

    asyncio.run(main())
