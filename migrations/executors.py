"""Where batches are done: in the caller's thread, in threads, or by whatever executor there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from .batches import Batch, Worker, packed, work_packed
from .outcome import Outcome
from .pace import Stop

__all__ = ["Hands"]

MAX_IN_FLIGHT: Final = 128


class Hands:
    """Takes batches and gives futures of their outcomes.

    Args:
        worker: does the batches.
        executor: where; one that is not of threads gets a copy of the worker. ``None``: in threads of its own.
        workers: how many there are at a time; with one and no executor, batches are done at once, where they are handed in.
        stop: ends a batch early, where it is done in this process.

    Attributes:
        most: how many batches there should be on their way, so that no worker waits and memory stays bounded.

    Raises:
        OptionError: the worker can't be sent to the executor.
    """

    def __init__(self, worker: Worker, executor: Executor | None, workers: int, stop: Stop) -> None:
        self._own: ThreadPoolExecutor | None = None
        if executor is None and workers == 1:
            self.most = 1
            self.submit: Callable[[Batch], Future[list[Outcome]]] = lambda batch: _done(worker, batch, stop)
            return
        if executor is None:
            executor = self._own = ThreadPoolExecutor(workers, "blobcp-job")
        else:
            workers = max(workers, os.cpu_count() or 1)
        self.most = min(2 * workers, MAX_IN_FLIGHT)
        if isinstance(executor, ThreadPoolExecutor):
            self.submit = lambda batch: executor.submit(worker.work, batch, stop)
        else:
            there, run = packed(worker), uuid4().hex
            self.submit = lambda batch: executor.submit(work_packed, there, batch, run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            # Whoever presses Ctrl-C twice does not want to wait.
            self._own.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)


def _done(worker: Worker, batch: Batch, stop: Stop) -> Future[list[Outcome]]:
    future: Future[list[Outcome]] = Future()
    try:
        future.set_result(worker.work(batch, stop))
    except Exception as error:
        future.set_exception(error)
    return future
