"""Running one node function, and the threads that node functions run in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType
from typing import Any, Final

from blobcp.errors import RunError
from blobcp.graph.effects import Visit

__all__ = ["cancelled_inside", "make_pool", "refuse_coroutine", "run_visit", "submit"]

MAX_THREADS: Final = 1024
"""Far above what a step has nodes; the pool only starts as many threads as there are tasks at once."""


def make_pool() -> ThreadPoolExecutor:
    """Return a pool for one run. ``concurrency`` bounds what is handed to it, so it need not."""
    return ThreadPoolExecutor(max_workers=MAX_THREADS, thread_name_prefix="blobcp")


def submit(pool: ThreadPoolExecutor, run: Callable[[Visit], None], visit: Visit) -> None:
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
