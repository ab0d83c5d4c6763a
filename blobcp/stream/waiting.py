"""Waiting for something to change, in threads and in tasks of any event loop alike.

Whoever waits registers first and tries afterwards, so that no change is missed; a bell wakes all who wait, and each
tries again. So a waiter that is cancelled or runs out of time takes nothing away from the others.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Final, Literal, TypeVar

from blobcp.errors import StreamLoopError, StreamTimeoutError
from blobcp.stream.signs import NOT_YET, NotYet

__all__ = ["Bell", "Loops", "runs_loop", "settled", "wait_for", "wait_in_task", "wait_in_thread"]

R = TypeVar("R")

Loops = Callable[[], Iterable[asyncio.AbstractEventLoop]]
"""Tells which event loops have to run for the wait to end."""

TICK: Final = 0.5
"""Seconds after which a waiter looks whether the loops that it depends on still run."""


class _ThreadWaiter:
    """One thread that waits. A bare lock, as a finalizer may wake it while the thread is about to wait."""

    __slots__ = ("_bell", "_lock")

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._lock = threading.Lock()
        self._lock.acquire()

    def __enter__(self) -> _ThreadWaiter:
        self._bell.waiters.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bell.waiters.remove(self)

    def wake(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # it is awake already
            return

    def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=seconds)


class _TaskWaiter:
    """One task that waits, on the loop that runs here."""

    __slots__ = ("_bell", "_future", "loop")

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self.loop.create_future()

    def __enter__(self) -> _TaskWaiter:
        self._bell.waiters.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bell.waiters.remove(self)

    def wake(self) -> None:
        if asyncio._get_running_loop() is self.loop:
            self._set()
            return
        try:
            self.loop.call_soon_threadsafe(self._set)
        except RuntimeError:  # its loop is closed, and the task with it
            return

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, watched: bool) -> None:
        tick = self.loop.call_later(TICK, self._set) if watched else None
        try:
            await self._future
        finally:
            if tick is not None:
                tick.cancel()


class Bell:
    """Wakes all who wait for a change; it does not ring for those who come later."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: list[_ThreadWaiter | _TaskWaiter] = []

    def ring(self) -> None:
        for waiter in self.waiters.copy():
            waiter.wake()


def wait_in_thread(bell: Bell, attempt: Callable[[], R], loops: Loops, what: str, deadline: float | None = None) -> R:
    """Try until it works, waiting in this thread in between.

    Args:
        bell: rings when it is worth trying again.
        attempt: returns :data:`NOT_YET` where it did not work.
        loops: the event loops without which it never will.
        what: what is being done, for messages.
        deadline: when to give up, by the monotonic clock.

    Raises:
        StreamLoopError: an event loop runs in this thread, or one that is needed does not run.
        StreamTimeoutError: the deadline has passed.
    """
    while True:
        with _ThreadWaiter(bell) as waiter:
            result = attempt()
            if result is not NOT_YET:
                return result
            if runs_loop():
                raise StreamLoopError(
                    f"{what} would block the event loop of this thread; use `async for`, or `await` the async method"
                )
            _check(loops(), what)
            left = TICK if deadline is None else min(TICK, deadline - time.monotonic())
            if left <= 0:
                raise StreamTimeoutError(f"{what} took longer than its time limit")
            waiter.wait(left)


async def wait_in_task(bell: Bell, attempt: Callable[[], R], loops: Loops, what: str) -> R:
    """Try until it works, waiting in this task in between; the arguments are those of :func:`wait_in_thread`.

    Raises:
        StreamLoopError: an event loop that is needed does not run.
    """
    while True:
        with _TaskWaiter(bell) as waiter:
            result = attempt()
            if result is not NOT_YET:
                return result
            others = [loop for loop in loops() if loop is not waiter.loop]
            _check(others, what)
            await waiter.wait(watched=bool(others))
        result = attempt()
        if result is not NOT_YET:
            return result


def runs_loop() -> bool:
    """Tell whether an event loop runs in this thread."""
    return asyncio._get_running_loop() is not None


def wait_for(future: Future[None], loops: Loops, what: str) -> None:
    """Wait in this thread until a future is done, whatever became of it."""
    wait_in_thread(_bell_of(future), partial(_is_done, future), loops, what)


async def settled(future: Future[None]) -> None:
    """Wait until a future is done, whatever became of it; being cancelled does not cancel it."""
    await wait_in_task(_bell_of(future), partial(_is_done, future), tuple, "closing the stream")


def _bell_of(future: Future[None]) -> Bell:
    bell = Bell()
    future.add_done_callback(lambda _: bell.ring())
    return bell


def _is_done(future: Future[None]) -> Literal[True] | NotYet:
    return True if future.done() else NOT_YET


def _check(loops: Iterable[asyncio.AbstractEventLoop], what: str) -> None:
    for loop in loops:
        if not loop.is_running():
            state = "closed" if loop.is_closed() else "not running"
            raise StreamLoopError(f"{what} can't go on: the event loop that its source belongs to is {state}")
