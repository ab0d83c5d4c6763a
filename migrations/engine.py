"""From ids to a report: batches, a bounded number of them at a time, and what became of them, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count

from blobcp.errors import BlobcpError, MigrationError, OptionError, text_of

from .batches import Batch, Task, Worker
from .executors import Hands
from .journal import Journal, Line
from .options import Options
from .outcome import Outcome
from .pace import Pace, Stop, stopping_on_ctrl_c
from .progress import Show, showing
from .report import JobReport
from .seen import Seen

__all__ = ["run_job"]


def run_job(
    ids: Iterable[str],
    task: Task,
    options: Options,
    report: JobReport,
    stop: Stop,
    job: dict[str, str],
    passes_over: Callable[[str], bool],
) -> JobReport:
    """Do a task to the blobs of all ids and return the report.

    Args:
        ids: the ids, read as they are needed.
        task: what is to be done.
        options: how.
        report: where to count.
        stop: ends it early.
        job: what the journal is bound to.
        passes_over: tells ids that are none of the job's.

    Raises:
        OptionError: the task can't be sent to the executor, an id is no text, or the journal is that of another job.
        StoreError: the journal failed, or the listing.
        MigrationError: the executor failed.
    """
    # A dry run writes nothing, and that it has looked at a blob is nothing to remember.
    journal = None if report.dry_run else options.journal_of()
    return _Run(options, journal, report, stop).through(ids, task, job, passes_over)


class _Run:
    """One run of a job."""

    def __init__(self, options: Options, journal: Journal | None, report: JobReport, stop: Stop) -> None:
        self._options = options
        self._journal = journal
        self._report = report
        self._stop = stop
        self._flying: deque[Future[list[Outcome]]] = deque()
        self._error: BlobcpError | None = None
        self._started = time.monotonic()

    def through(
        self, ids: Iterable[str], task: Task, job: dict[str, str], passes_over: Callable[[str], bool]
    ) -> JobReport:
        options, note = self._options, self._journal.note if self._journal else None
        worker = Worker(task, note, options.tries, options.on_error == "stop")
        with ExitStack() as stack:
            hands = stack.enter_context(Hands(worker, options.executor, options.workers, self._stop))
            show = stack.enter_context(showing(options.progress, self._report.kind, options.total))
            stack.enter_context(stopping_on_ctrl_c(self._stop))
            batches = self._batches(ids, self._begin(job, stack), passes_over)
            self._fly(batches, hands, show)
        if self._error is not None:
            raise self._error
        self._report.stopped = self._stop.reason
        self._report.seconds = time.monotonic() - self._started
        return self._report

    def _begin(self, job: dict[str, str], stack: ExitStack) -> Seen | None:
        if self._journal is None:
            return None
        stack.callback(self._journal.close)
        seen = Seen(self._counted(self._journal.begin(job)))
        stack.callback(seen.close)
        return seen

    def _counted(self, lines: Iterable[Line]) -> Iterator[Line]:
        for line in lines:
            if isinstance(line, Outcome) and line.is_settled:
                self._report.add(line)
                self._report.earlier += 1
            yield line

    def _batches(self, ids: Iterable[str], seen: Seen | None, passes_over: Callable[[str], bool]) -> Iterator[Batch]:
        size, numbers = self._options.size, count()
        batch = Batch(next(numbers))
        for id in ids:
            if not isinstance(id, str):
                raise OptionError(
                    f"{id!r} among the ids is of type {type(id).__name__}; give checkpoint ids, which are text"
                )
            if self._stop.reason is not None:
                return
            done = seen.is_done(id) if seen is not None else False
            if done is True or passes_over(id):
                continue
            batch.items.append((id, done or None))
            if len(batch.items) >= size:
                yield batch
                batch = Batch(next(numbers))
        if batch.items:
            yield batch

    def _fly(self, batches: Iterator[Batch], hands: Hands, show: Show) -> None:
        pace = Pace(self._options.rate)
        try:
            for batch in batches:
                pace.wait(len(batch.items), self._stop)
                while len(self._flying) >= hands.most:
                    self._land(show)
                if self._stop.reason is not None:
                    break
                batch.samples = self._options.samples - len(self._report.samples)
                try:
                    self._flying.append(hands.submit(batch))
                except Exception as error:
                    self._executor_failed(error)
                    break
        finally:
            while self._flying:
                self._land(show)

    def _land(self, show: Show) -> None:
        try:
            outcomes = self._flying.popleft().result()
            if self._journal is not None:
                self._journal.add(outcomes)
        except BlobcpError as error:
            self._fail(error)
            return
        except Exception as error:
            self._executor_failed(error)
            return
        for outcome in outcomes:
            if outcome.sample is not None and len(self._report.samples) >= self._options.samples:
                outcome.sample = None
            self._report.add(outcome)
            if outcome.became == "failed" and self._options.on_error == "stop":
                self._stop.request("failure")
        self._report.seconds = time.monotonic() - self._started
        show(self._report)
        if self._options.on_progress is not None:
            self._options.on_progress(self._report)

    def _executor_failed(self, cause: Exception) -> None:
        error = MigrationError(
            f"the executor failed ({text_of(cause)}); blobs that were in hand may be done or not, run the job again"
        )
        error.__cause__ = cause
        self._fail(error)

    def _fail(self, error: BlobcpError) -> None:
        self._stop.request("failure")
        if self._error is None:
            self._error = error
