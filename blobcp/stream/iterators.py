"""Sources that are plain iterators: lists, generators, files.

Sync code pulls in its own thread. Async code must not be blocked, so a thread of the stream's own pulls for it, always
the same one, since what a generator holds (a database cursor, say) may belong to its thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

from blobcp.errors import StreamError
from blobcp.stream.feed import Feed, Outcome, Slot, Wake
from blobcp.stream.signs import END, NOT_YET, End, NotYet

__all__ = ["IteratorFeed"]

R = TypeVar("R")
T = TypeVar("T")


class IteratorFeed(Feed[T]):
    """Reads an iterator.

    Args:
        source: what to iterate over.
        context: the contextvars that its code sees; those of whoever reads where there is none.
        blocking: whether its code may block, so that an event loop must not run it.
        is_whole: whether all chunks are there already.
    """

    def __init__(self, source: Iterable[T], context: Context | None, *, blocking: bool, is_whole: bool) -> None:
        self._iterator = iter(source)
        self._context = context
        self._blocking = blocking
        self._slot: Slot[T] = Slot()
        self._worker: _Worker | None = None
        self.ready_made = is_whole and not blocking

    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        if (here or not self._blocking) and not self._slot.busy:
            item = next(self._iterator, END) if self._context is None else _step(self._context, self._iterator)
        else:
            outcome = self._slot.take(wake)
            if outcome is None:
                if not self._slot.busy:
                    self._start()
                return NOT_YET
            item = outcome.get()
        if item is END:
            self._iterator = iter(())
            self._stop()
        return item

    def close(self, patient: bool) -> list[Future[None]]:
        close: Callable[[], object] = getattr(self._iterator, "close", _nothing)
        self._iterator = iter(())
        done: Future[None] = Future()
        run = partial(_close, self._context, close, done)
        if self._worker is None:
            run()
            return [done]
        waits = patient or not self._slot.under_way
        # Where nobody waits, an error is reported as that of a thread.
        self._worker.do(run if waits else partial(_in, self._context, close))
        self._stop()
        return [done] if waits else []

    def _start(self) -> None:
        if self._worker is None:
            self._worker = _Worker()
        context = self._context = self._context or copy_context()
        self._slot.busy = True
        self._worker.do(partial(_pull, context, self._iterator, self._slot))

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def _in(context: Context | None, call: Callable[[], R]) -> R:
    return call() if context is None else context.run(call)


def _nothing() -> None:
    """Stands for the closing of what can't be closed."""


def _step(context: Context, iterator: Iterator[T]) -> T | End:
    return context.run(lambda: next(iterator, END))


def _pull(context: Context, iterator: Iterator[T], slot: Slot[T]) -> None:
    try:
        outcome = Outcome(_step(context, iterator))
    except BaseException as error:
        outcome = Outcome(error=error)
    slot.arrived(outcome)


def _close(context: Context | None, close: Callable[[], object], done: Future[None]) -> None:
    try:
        _in(context, close)
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(None)


class _Worker:
    """A thread that does one thing after the other, until it is stopped or forgotten."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        thread = threading.Thread(target=_work, args=(self._jobs,), name="blobcp-stream", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StreamError(f"no thread could be started to read a blocking source: {error}") from error

    def do(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)

    def __del__(self) -> None:
        self.stop()


def _work(jobs: queue.SimpleQueue[Callable[[], object] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # it holds the source, which may be forgotten while this thread waits
