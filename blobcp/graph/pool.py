"""Running one node function, and the threads that node functions run in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import CoroutineType
from typing import Any, Final

from blobcp.errors import RunError
from blobcp.graph.effects import Visit

__all__ = ["LeavablePool", "Pool", "cancelled_inside", "make_pool", "refuse_coroutine", "run_visit", "submit"]

MAX_THREADS: Final = 1024
"""Far above what a step has nodes; the pool only starts as many threads as there are tasks at once."""


class LeavablePool:
    """A pool for one run that may have to leave its threads behind: they keep no process from ending."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, run: Callable[..., None], /, *arguments: Any) -> None:
        """Run something, which raises nothing, in a thread.

        Raises:
            RuntimeError: the system has no thread left.
        """
        if not self._idle.acquire(blocking=False):
            thread = threading.Thread(target=self._work, name=f"blobcp-{len(self._threads)}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._jobs.put(partial(run, *arguments))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let each thread end after what it is doing.

        Args:
            wait: whether to wait for that.
            cancel_futures: for the likeness to an executor's; nothing waits in this pool.
        """
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # an idle thread keeps nothing of the run alive
            self._idle.release()


Pool = ThreadPoolExecutor | LeavablePool


def make_pool() -> ThreadPoolExecutor:
    """Return a pool for one run. ``concurrency`` bounds what is handed to it, so it need not."""
    return ThreadPoolExecutor(max_workers=MAX_THREADS, thread_name_prefix="blobcp")


def submit(pool: Pool, run: Callable[[Visit], None], visit: Visit) -> None:
    """Start a visit in a thread.

    Raises:
        RunError: the system has no thread left.
    """
    try:
        pool.submit(run, visit)
    except RuntimeError as error:
        path = visit.task.path
        raise RunError(
            f"no thread could be started for node {'/'.join(path)}: {error}; give concurrency= to run fewer at once",
            path=path,
        ) from error


def run_visit(visit: Visit, task: object | None = None) -> None:
    """Run a node function in this thread; the visit then has its result or its error.

    Args:
        visit: what to run.
        task: the asyncio task that the caller runs in, if any.
    """
    node = visit.task.node
    visit.scope.enter(task)
    try:
        result = visit.context.run(node.call, visit.value)  # type: ignore[arg-type]
        visit.result = refuse_coroutine(result)
    except asyncio.CancelledError as error:
        visit.error = cancelled_inside(error)
    except BaseException as error:
        visit.error = error


def cancelled_inside(error: asyncio.CancelledError) -> RuntimeError:
    """Return the failure of user code that ended with a cancellation of its own, which is not one of the run."""
    failed = RuntimeError("the code was cancelled from inside")
    failed.__cause__ = error
    return failed


def refuse_coroutine(result: Any) -> Any:
    """Return a result that is none; a coroutine means that the function was not seen to be async.

    Raises:
        TypeError: it is a coroutine.
    """
    if type(result) is CoroutineType:
        result.close()
        raise TypeError("returned a coroutine although it is no `async def`; wrap the call in an async function")
    return result
