"""Waiting with a limit: for a call that may hang, and for what has to be awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from blobcp.errors import text_of

from .failing import Failed

__all__ = ["EventLoop", "HangsError", "Worker", "settle"]

T = TypeVar("T")


class HangsError(Exception):
    """A call did not come back in time; its thread is left alone."""


class Worker:
    """A thread that makes one call after the other, so that whoever wants a result can stop waiting for it.

    All calls are made by the same thread, since some stores can be used only where they were opened.

    Attributes:
        hangs: a call did not come back in time; no other is made.
    """

    def __init__(self) -> None:
        self.hangs = False
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="blobcp-kit", daemon=True).start()

    def call(self, function: Callable[[], T], seconds: float) -> T:
        """Return what a function returns.

        Raises:
            HangsError: it did not return within this time, or one before did not.
        """
        answer: Future[T] = Future()
        if not self.hangs:
            self._calls.put((function, answer))
            wait([answer], timeout=seconds)
        if not answer.done():
            self.hangs = True
            raise HangsError
        return answer.result()

    def stop(self) -> None:
        """Let the thread end after the call that it makes."""
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            function, answer = item
            settle(answer, function)


class EventLoop:
    """An event loop in a thread of its own, for those who can't await.

    Args:
        seconds: how long to wait for one call.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, function: Callable[[], object]) -> Any:
        """Call a function on the loop and return what it returns, awaited where it has to be.

        Raises:
            Failed: it did not come back in time.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="blobcp-kit-loop", daemon=True).start()
        answer = asyncio.run_coroutine_threadsafe(_awaited(function), self._loop)
        wait([answer], timeout=self._seconds)
        if not answer.done():
            answer.cancel()
            raise Failed(f"a call of the store that was awaited did not come back in {self._seconds:g} s")
        return answer.result()

    def stop(self) -> None:
        """End the loop, where there is one."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(self._seconds)
        loop.call_soon_threadsafe(loop.stop)
        limit = time.monotonic() + self._seconds
        while loop.is_running() and time.monotonic() < limit:
            time.sleep(0.001)
        loop.close()


async def _awaited(function: Callable[[], object]) -> object:
    try:
        answer = function()
        return await answer if inspect.isawaitable(answer) else answer
    except SystemExit as error:  # it would end the loop, and all that is awaited after it
        raise Failed(f"the store raised {text_of(error)}") from error


def settle(answer: Future[T], function: Callable[[], T]) -> None:
    """Call a function and leave what it gives or raises to whoever waits for the answer."""
    try:
        answer.set_result(function())
    except BaseException as error:
        answer.set_exception(error)
