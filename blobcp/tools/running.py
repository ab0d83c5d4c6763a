"""The two ways to run a batch to its end: in threads, and on an event loop. All that is decided is decided by the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextvars import copy_context
from typing import Any

from blobcp.graph.pool import LeavablePool
from blobcp.tools.batch import Batch
from blobcp.tools.carrying import acarry_out, carry_out

__all__ = ["run_in_threads", "run_on_loop"]


def run_in_threads(batch: Batch) -> None:
    """Run the calls, none of which needs an event loop; one at a time run in this thread."""
    if batch.width <= 1:
        _work(batch)
        return
    pool = LeavablePool()
    try:
        ended, _ = wait(_start(pool, batch), return_when=FIRST_EXCEPTION)
        for worker in ended:
            worker.result()
    except BaseException:
        batch.abandon()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()


def _start(pool: LeavablePool, batch: Batch) -> list[Future[None]]:
    workers: list[Future[None]] = []
    for _ in range(batch.width):
        try:
            workers.append(_submit(pool, copy_context().run, _work, batch))
        except RuntimeError:  # the system has no thread left; those that there are do all the work
            if not workers:
                raise
            break
    return workers


def _work(batch: Batch) -> None:
    while (job := batch.take()) is not None:
        copy_context().run(carry_out, batch, job)


async def run_on_loop(batch: Batch) -> None:
    """Run the calls: async tools as tasks of the running loop, plain ones in threads."""
    pool = LeavablePool()
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(batch.width):
                workers.create_task(_work_on_loop(batch, pool))
    except BaseException:
        batch.abandon()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()


async def _work_on_loop(batch: Batch, pool: LeavablePool) -> None:
    loop = asyncio.get_running_loop()
    while (job := batch.take()) is not None:
        context = copy_context()
        if job.is_async:
            await loop.create_task(acarry_out(batch, job), context=context)
        else:
            await asyncio.wrap_future(_submit(pool, context.run, carry_out, batch, job))


def _submit(pool: LeavablePool, run: Callable[..., None], /, *arguments: Any) -> Future[None]:
    """Run something in a thread that keeps no process from ending, as a cancel may leave it behind."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # it starts at once, so there is nothing to cancel

    def work() -> None:
        try:
            run(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    pool.submit(work)
    return future
