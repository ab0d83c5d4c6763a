"""Cancelling runs from outside: nodes that wait to be let go, and runs in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls

from blobcp import App, CancelToken, Interrupted

__all__ = ["AT_ONCE", "LIMIT", "LONG", "Gate", "Run", "cancelled_in", "each_way", "no_threads_left"]

LIMIT = 20.0
"""Seconds that something waits for something else before the test fails."""

AT_ONCE = timedelta(0)
LONG = timedelta(hours=1)

each_way = pytest.mark.parametrize(
    ("runner", "kind"),
    [(SyncRunner(), "plain"), (AsyncRunner(), "plain"), (AsyncRunner(), "async")],
    ids=["sync", "async-threads", "async"],
)
"""Runs a test on both drivers, with each kind of node function that they run."""


class Gate:
    """A node function that says that it was entered, and ends when it is let go."""

    def __init__(self, key: str = "", calls: Calls | None = None) -> None:
        self.key = key
        self.calls = calls if calls is not None else Calls()
        self.entered = threading.Event()
        self.go = threading.Event()
        self.left = threading.Event()
        self.cancelled = 0

    def __call__(self, value: Any) -> Any:
        self.calls.note(self.key, value)
        self.entered.set()
        assert self.go.wait(LIMIT), f"node {self.key} was never let go"
        self.left.set()
        return value + self.key

    async def awaiting(self, value: Any) -> Any:
        """The same as an async function."""
        self.calls.note(self.key, value)
        self.entered.set()
        try:
            while not self.go.is_set():
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.left.set()
        return value + self.key

    def node(self, kind: str) -> Callable[[Any], Any]:
        """Return the function of a kind: ``plain`` or ``async``."""
        return self.awaiting if kind == "async" else self.__call__

    def let_go(self) -> None:
        """Let the node end."""
        self.go.set()


class Run:
    """A call of an app in a thread of its own, with a token.

    Args:
        runner: the driver.
        app: what is called.
        input: the run's input.
        resume: the id to resume, in place of a start.
        token: what cancels it; a fresh one unless given.
        options: further options of the call.
    """

    def __init__(
        self,
        runner: Runner,
        app: App,
        input: Any = None,
        *,
        resume: str | None = None,
        token: CancelToken | None = None,
        **options: Any,
    ) -> None:
        self.token = token if token is not None else CancelToken()
        self._future: Future[Any] = Future()
        call = runner.invoke if resume is None else runner.resume
        first = input if resume is None else resume
        self._thread = threading.Thread(target=self._call, args=(call, app, first), kwargs=options, daemon=True)
        self._thread.start()

    def _call(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        try:
            self._future.set_result(call(*arguments, cancel=self.token, **options))
        except BaseException as error:
            self._future.set_exception(error)

    def result(self) -> Any:
        """Return what the call returned."""
        result = self._future.result(LIMIT)
        self._thread.join(LIMIT)
        return result

    def stopped(self) -> Interrupted:
        """Return what the call stopped with."""
        with pytest.raises(Interrupted) as caught:
            self.result()
        return caught.value

    @property
    def over(self) -> bool:
        """Whether the call has returned."""
        return self._future.done()


def cancelled_in(
    runner: Runner, app: App, gate: Gate, input: Any, timeout: timedelta | None, **options: Any
) -> Interrupted:
    """Cancel a run while a node is inside its function; without a time-out, or a long one, the node is let go then."""
    run = Run(runner, app, input, **options)
    assert gate.entered.wait(LIMIT)
    run.token.cancel(timeout)
    if timeout is None or timeout == LONG:
        gate.let_go()
    stop = run.stopped()
    gate.let_go()
    return stop


def no_threads_left(before: set[threading.Thread]) -> None:
    """Wait for the threads that were started since to end."""
    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT)
        assert not thread.is_alive(), f"{thread.name} is left behind"
