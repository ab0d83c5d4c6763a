"""What workers do: a few blobs at a time, each read, changed and written where the worker is."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

from blobcp.errors import CheckpointConflictError, OptionError, text_of

from .access import Found, digest
from .journal import Note
from .outcome import Intent, Outcome, failure_of
from .pace import Stop

__all__ = ["Batch", "Task", "Worker", "Write", "packed", "work_packed"]

MAX_HELD_BYTES: Final = 8 << 20
"""How many bytes of new blobs wait at most for their writes to be noted together."""

Intend = Callable[[Sequence[Intent]], None]


@dataclass(slots=True)
class Write:
    """A write that is to be made.

    Attributes:
        id: the id.
        blob: what is to be there.
        found: what is there.
        outcome: what has become of the blob then.
        late: whether some time has passed since it was read.
    """

    id: str
    blob: bytes
    found: Found
    outcome: Outcome
    late: bool = False

    def intent(self) -> Intent:
        """Return what a journal has to know of it."""
        return Intent(id=self.id, digest=digest(self.blob), outcome=self.outcome)


class Task(Protocol):
    """What a job does with each blob. It travels to the workers."""

    def plan(self, id: str, intent: Intent | None, *, sample: bool) -> Outcome | Write:
        """Read a blob and say what is to be done.

        Args:
            id: the id.
            intent: a write that an earlier run may have made.
            sample: whether the differences are asked for.
        """
        ...

    def write(self, write: Write) -> None:
        """Do it.

        Raises:
            CheckpointConflictError: the blob has been written by somebody else; nothing was done.
        """
        ...


@dataclass(slots=True)
class Batch:
    """Some ids, each with the write that an earlier run may have made.

    Attributes:
        number: which one of the job it is.
        items: the ids.
        samples: how many samples are wanted of it.
    """

    number: int
    items: list[tuple[str, Intent | None]] = field(default_factory=list)
    samples: int = 0


@dataclass(slots=True)
class Worker:
    """Does batches.

    Attributes:
        task: what is to be done.
        note: where writes are noted beforehand.
        tries: how often a blob is read again because somebody else has written it.
        stops_on_failure: whether a failure ends the batch.
    """

    task: Task
    note: Note | None
    tries: int
    stops_on_failure: bool

    def work(self, batch: Batch, stop: Stop) -> list[Outcome]:
        """Return what became of the blobs of a batch; of fewer of them where it was stopped.

        Raises:
            StoreError: a write can't be noted, and so was not made.
        """
        intend = self.note.for_batch(batch.number) if self.note else None
        most = self.note.portion if self.note else 1
        outcomes: list[Outcome] = []
        held: list[Write] = []
        samples = batch.samples
        for id, intent in batch.items:
            if stop.reason is not None:
                break
            step = self._plan(id, intent, sample=samples > 0)
            if isinstance(step, Write):
                held.append(step)
                if len(held) < most and sum(len(write.blob) for write in held) < MAX_HELD_BYTES:
                    continue
                done = self._finish(held, intend)
                held = []
            else:
                done = [step]
                samples -= step.sample is not None
            outcomes += done
            if self.stops_on_failure and any(outcome.became == "failed" for outcome in done):
                stop.request("failure")
        return outcomes + self._finish(held, intend)

    def _plan(self, id: str, intent: Intent | None, *, sample: bool = False) -> Outcome | Write:
        try:
            return self.task.plan(id, intent, sample=sample)
        except Exception as error:
            return failure_of(id, error)

    def _finish(self, held: list[Write], intend: Intend | None) -> list[Outcome]:
        if intend and held:
            intend([write.intent() for write in held])
        late = len(held) > 1
        for write in held:
            write.late = late
        return [self._write(write, intend) for write in held]

    def _write(self, write: Write, intend: Intend | None) -> Outcome:
        id, conflicts = write.id, 0
        while True:
            try:
                self.task.write(write)
            except CheckpointConflictError as error:
                conflicts += 1
                if conflicts >= self.tries:
                    outcome = failure_of(id, error, conflicts)
                    outcome.reason = (
                        f"it was written by others {conflicts} times while it was in hand; run the job again"
                    )
                    return outcome
            except Exception as error:
                return failure_of(id, error, conflicts)
            else:
                write.outcome.conflicts = conflicts
                return write.outcome
            step = self._plan(id, None)
            if isinstance(step, Outcome):
                step.conflicts = conflicts
                return step
            write = step
            if intend:
                intend([write.intent()])


def packed(worker: Worker) -> bytes:
    """Return a worker as bytes, for processes of one's own.

    Raises:
        OptionError: something in it can't be sent.
    """
    from cloudpickle import dumps  # type: ignore[import-untyped]  # it has no types; here, since few need it

    try:
        return bytes(dumps(worker))
    except Exception as error:  # __reduce__ and __getstate__ are the user's
        raise OptionError(
            f"the job can't be sent to other processes ({text_of(error)}); give a store that others can open (not a MapStore), "
            "and functions that hold no locks or connections, or let threads do the work"
        ) from error


def work_packed(worker: bytes, batch: Batch, run: str) -> list[Outcome]:
    """Do a batch in another process.

    Args:
        worker: what `packed` gave.
        batch: the batch.
        run: tells the runs of jobs apart, for executors that remember what they were asked before.
    """
    with _leaving_ctrl_c_to_the_parent():
        return _unpacked(worker).work(batch, Stop())


@lru_cache(maxsize=4)
def _unpacked(worker: bytes) -> Worker:
    unpacked: Worker = pickle.loads(worker)
    return unpacked


@contextmanager
def _leaving_ctrl_c_to_the_parent() -> Iterator[None]:
    """A terminal's Ctrl-C goes to all processes; the parent decides, and a batch is not to be torn."""
    if multiprocessing.parent_process() is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
