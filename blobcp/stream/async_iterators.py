"""Sources that are async iterators.

Each pull is a task of its own on the loop that the source belongs to: so a reader that is cancelled does not cancel the
source, and any thread or loop can ask for the next chunk. The loop is the one that ran when the reader was made, or else
when it was first read. Where there is none, the source gets one in a thread of its own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Coroutine, Iterable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from blobcp.errors import StreamError
from blobcp.stream.feed import Feed, Outcome, Slot, Wake
from blobcp.stream.signs import END, NOT_YET, End, NotYet
from blobcp.stream.waiting import runs_loop

__all__ = ["AsyncIteratorFeed", "Owned"]

T = TypeVar("T")


class AsyncIteratorFeed(Feed[T]):
    """Reads an async iterator.

    Args:
        source: what to iterate over.
        context: the contextvars that its code sees; a copy of those of the first read where there is none.
    """

    def __init__(self, source: AsyncIterable[T], context: Context | None) -> None:
        self._pulls: _Pulls[T] = _Pulls()
        self._thread: _LoopThread | None = None
        self._loop = asyncio._get_running_loop()
        self._context = context
        self._ended = False
        self._iterator = aiter(source)

    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        if self._ended:
            return END
        outcome = self._pulls.take(wake)
        if outcome is None and not self._pulls.busy and not (here and runs_loop()):
            self._start()
            outcome = self._pulls.take(wake)
        if outcome is None:
            return NOT_YET
        item = outcome.get()
        if item is END:
            self._ended = True
            self._stop()
        return item

    def close(self, patient: bool) -> list[Future[None]]:
        if self._ended and self._thread is not None:
            return []  # its loop is gone
        done: Future[None] = Future()
        home = self._home()
        shut = partial(_spawn, partial(_shut, self._pulls, self._iterator, done), self._context)
        if not self._send(home, shut) or not home.is_running():
            return []  # a loop that is closed has closed its generators; one that stands still may go on some time
        # Keeps this feed, and with it the thread of its loop, until the source has stopped.
        done.add_done_callback(lambda _: self._stop())
        return [done]

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        if self._loop is None and runs_loop():
            self._loop = asyncio.get_running_loop()
        return () if self._thread is not None or self._loop is None else (self._loop,)

    def _home(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio._get_running_loop()
        if self._loop is None:
            self._thread = _LoopThread()
            self._loop = self._thread.loop
        return self._loop

    def _start(self) -> None:
        home = self._home()
        self._context = self._context or copy_context()
        self._pulls.busy = True
        pull = partial(_pull, self._iterator, self._pulls)
        if not self._send(home, partial(_spawn_pull, pull, self._context, self._pulls)):
            self._pulls.busy = False

    @staticmethod
    def _send(loop: asyncio.AbstractEventLoop, call: partial[None]) -> bool:
        if asyncio._get_running_loop() is loop:
            call()
            return True
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()

    def __del__(self) -> None:
        task = self._pulls.task
        if task is not None and not task.done():
            self._send(task.get_loop(), partial(_cancel, task))
        self._stop()


class _Pulls(Slot[T]):
    """The slot of an async source, and the task that is about to fill it."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        super().__init__()
        self.task: asyncio.Task[None] | None = None


async def _pull(iterator: AsyncIterator[T], pulls: _Pulls[T]) -> None:
    try:
        outcome = Outcome(await anext(iterator))
    except StopAsyncIteration:
        outcome = Outcome(END)
    except asyncio.CancelledError as error:
        # Raised as it is, it would look as if the reader's own task were cancelled.
        failed = StreamError("the source of the stream was cancelled from inside, or its event loop is shutting down")
        failed.__cause__ = error
        outcome = Outcome(error=failed)
    except BaseException as error:
        outcome = Outcome(error=error)
    pulls.arrived(outcome)


async def _shut(pulls: _Pulls[T], iterator: AsyncIterator[T], done: Future[None]) -> None:
    try:
        if pulls.task is not None and not pulls.task.done():
            pulls.task.cancel()
            await asyncio.wait([pulls.task])
        aclose = getattr(iterator, "aclose", None)
        if aclose is not None:
            await aclose()
    except BaseException as error:
        done.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        done.set_result(None)


class Owned(Generic[T]):
    """An async generator that its owner closes, when and where he wants it, also where its event loop shuts down.

    A loop that shuts down closes all generators at once, which is an error where one of them is about to close another.

    Args:
        generator: not begun yet.
    """

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator
        self._begun = False

    def __aiter__(self) -> Owned[T]:
        return self

    def __anext__(self) -> Awaitable[T]:
        if self._begun:
            return self._generator.__anext__()
        self._begun = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None)  # by which a loop learns of it
        try:
            return self._generator.__anext__()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def aclose(self) -> Awaitable[None]:
        return self._generator.aclose()


_shutting: set[asyncio.Task[None]] = set()
"""Keeps tasks alive that nobody may be waiting for."""


def _spawn(call: partial[Coroutine[Any, Any, None]], context: Context | None) -> None:
    task = asyncio.get_running_loop().create_task(call(), context=context)
    _shutting.add(task)
    task.add_done_callback(_shutting.discard)


def _spawn_pull(call: partial[Coroutine[Any, Any, None]], context: Context, pulls: _Pulls[T]) -> None:
    if sys.version_info >= (3, 12):
        # A source that has its chunk at hand gives it at once, without a turn of the loop.
        pulls.task = asyncio.Task(call(), loop=asyncio.get_running_loop(), context=context, eager_start=True)
    else:
        pulls.task = asyncio.get_running_loop().create_task(call(), context=context)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


class _LoopThread:
    """An event loop in a thread of its own, until it is stopped or forgotten."""

    def __init__(self) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = Future()
        thread = threading.Thread(target=_turn, args=(started,), name="blobcp-stream-loop", daemon=True)
        try:
            thread.start()
            self.loop, self._end = started.result()
        except (RuntimeError, OSError) as error:
            raise StreamError(f"no event loop could be started to read an async source: {error}") from error

    def stop(self) -> None:
        try:
            self.loop.call_soon_threadsafe(_finish, self._end)
        except RuntimeError:  # it has stopped already
            return


def _turn(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()
        started.set_result((loop, end))
        await end

    try:
        asyncio.run(main())
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)  # no loop could be made


def _finish(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)
