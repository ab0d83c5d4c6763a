"""A bounded queue of changes, newest per id, that threads carry out in the order of each id."""

from __future__ import annotations

import atexit
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from blobcp.errors import StoreError, text_of

from ..forking import watch_forks

__all__ = ["Change", "WriteQueue"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What is to become of an id.

    Attributes:
        blob: the bytes to keep; ``None`` to delete what is there.
        ttl: how long the bytes are to be kept; ``None`` for ever.
        since: when the change was asked for, on the monotonic clock.
    """

    blob: bytes | None
    ttl: timedelta | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> timedelta:
        """How much of the time to live is left; nothing where there is none."""
        return (self.ttl or timedelta(0)) - timedelta(seconds=time.monotonic() - self.since)

    @property
    def visible(self) -> bytes | None:
        """What a reader finds under the id."""
        return None if self.ttl is not None and self.left <= timedelta(0) else self.blob


class WriteQueue:
    """Take changes at once and have them carried out later.

    A change is at one of three places: it waits, it is being written, or it has failed and is kept until somebody asks
    for another try. One that waits or has failed gives way to a newer one of its id.

    Threads are started when there is something to write and end when there is nothing. They are no daemons, so the
    interpreter waits for them at its end. What is changed once its main thread is over, the caller's thread carries out:
    daemons that go on saving would keep those threads, and so the interpreter, from ending.

    Args:
        write: carries out a change; called by one thread at a time for an id.
        limit: the largest number of changes.
        workers: the largest number of threads.
    """

    def __init__(self, write: Callable[[str, Change], None], *, limit: int, workers: int) -> None:
        self._write = write
        self._limit = limit
        self._workers = workers
        self._left_to_parent: frozenset[str] = frozenset()
        self._start_over()
        watch_forks(self)

    def changes(self) -> dict[str, Change]:
        """Return the newest change of each id that has one which is not carried out."""
        with self._moved:
            return {**self._failed, **self._writing, **self._waiting}

    def check(self, checkpoint_id: str | None = None) -> None:
        """Refuse to go on after a failure that nobody was told of, and where only the parent process knows.

        Args:
            checkpoint_id: what is to be read or changed; ``None`` for everything.

        Raises:
            StoreError: it can't go on.
        """
        with self._moved:
            left = self._left_to_parent
            if left and (checkpoint_id is None or checkpoint_id in left):
                raise StoreError(
                    f"checkpoint {checkpoint_id or min(left)!r} was still queued in the parent when this process was "
                    "forked off, and it can't be known here what became of it; flush() before the fork, or open the "
                    "store anew in this process"
                )
            self._raise_errors()

    def put(self, checkpoint_id: str, change: Change, timeout: float) -> None:
        """Queue a change, waiting for room.

        Raises:
            StoreError: there was no room within the time, or as by `check`; the change was not queued.
        """
        with self._moved:
            self.check(checkpoint_id)
            if not self._moved.wait_for(lambda: self._has_room(checkpoint_id) or not self._is_busy(), timeout) or (
                not self._has_room(checkpoint_id)
            ):
                raise StoreError(
                    f"checkpoint {checkpoint_id!r} was not queued: {self._limit} changes wait to be written, "
                    f"{len(self._failed)} of them after a failure, and there was no room within {timeout} seconds; "
                    "call flush(), or find out what makes the store inside slow"
                )
            ending = not threading.main_thread().is_alive()
            if ending and not self._moved.wait_for(lambda: not self._is_moving(checkpoint_id), timeout):
                raise self._too_slow(checkpoint_id, timeout)
            self._failed.pop(checkpoint_id, None)
            _unfinished.add(self)
            (self._writing if ending else self._waiting)[checkpoint_id] = change
        if ending:
            self._carry_out(checkpoint_id, change)
        else:
            self._start_workers()

    def write_now(self, checkpoint_id: str, timeout: float) -> None:
        """Return once no change of the id is left, trying again one that has failed.

        Raises:
            StoreError: it failed (again), takes longer, or as by `check`.
        """
        with self._moved:
            self.check(checkpoint_id)
            self._retry([checkpoint_id])
            if checkpoint_id in self._waiting:
                self._waiting.move_to_end(checkpoint_id, last=False)
        self._start_workers()
        with self._moved:
            if not self._moved.wait_for(lambda: not self._is_moving(checkpoint_id), timeout):
                raise self._too_slow(checkpoint_id, timeout)
            if checkpoint_id in self._failed:
                self._raise_errors()

    def flush(self, timeout: float) -> None:
        """Return once no change is left, trying again those that have failed.

        Raises:
            StoreError: one failed (again), or it takes longer.
        """
        with self._moved:
            self._retry([*self._failed])
        self._start_workers()
        with self._moved:
            if not self._moved.wait_for(lambda: not self._is_busy(), timeout):
                raise StoreError(
                    f"{len(self.changes())} changes are not written after {timeout} seconds; call flush() again, or find "
                    "out what makes the store inside slow"
                )
            self._raise_errors()

    def finish(self) -> None:
        """Carry out what is left in this thread, at the end of the interpreter.

        Raises:
            StoreError: a change failed (again), and is lost with the process.
        """
        with self._moved:
            self._retry([*self._failed])
            left = {*self._writing.values(), *self._waiting.values()}
            self._running += 1
        self._work()
        with self._moved:
            # Other threads still write where the interpreter was interrupted while it waited for them. What daemons go on
            # saving is not waited for: that might never end.
            self._moved.wait_for(lambda: left.isdisjoint([*self._writing.values(), *self._waiting.values()]))
            self._raise_errors()

    def after_fork(self) -> None:
        """Start over without what the parent will write."""
        self._left_to_parent = self._left_to_parent.union(self._failed, self._writing, self._waiting)
        self._start_over()

    def _start_over(self) -> None:
        self._moved = threading.Condition()
        self._waiting: OrderedDict[str, Change] = OrderedDict()
        self._writing: dict[str, Change] = {}
        self._failed: dict[str, Change] = {}
        self._errors: dict[str, BaseException] = {}
        self._running = 0
        _unfinished.discard(self)

    def _is_busy(self) -> bool:
        return bool(self._waiting or self._writing)

    def _is_moving(self, checkpoint_id: str) -> bool:
        return checkpoint_id in self._waiting or checkpoint_id in self._writing

    def _has_room(self, checkpoint_id: str) -> bool:
        replaces = checkpoint_id in self._waiting or checkpoint_id in self._failed
        return replaces or len(self._waiting) + len(self._writing) + len(self._failed) < self._limit

    def _too_slow(self, checkpoint_id: str, timeout: float) -> StoreError:
        return StoreError(
            f"the earlier save of checkpoint {checkpoint_id!r} is not written after {timeout} seconds, and this call has to "
            "wait for it; try again, or find out what makes the store inside slow"
        )

    def _retry(self, checkpoint_ids: Iterable[str]) -> None:
        for checkpoint_id in checkpoint_ids:
            if checkpoint_id in self._failed:
                self._waiting[checkpoint_id] = self._failed.pop(checkpoint_id)
                self._errors.pop(checkpoint_id, None)

    def _raise_errors(self) -> None:
        if self._errors:
            errors, self._errors = self._errors, {}
            ids = ", ".join(map(repr, errors))
            first = next(iter(errors.values()))
            raise StoreError(
                f"could not write checkpoint {ids} behind: {text_of(first)}; the newest of it is kept in memory, see "
                "pending, and flush() tries again; this call did nothing else, so repeat it"
            ) from first

    def _start_workers(self) -> None:
        with self._moved:
            wanted = max(min(len(self._waiting) + len(self._writing), self._workers) - self._running, 0)
            self._running += wanted
        for _ in range(wanted):
            try:
                # What is started at the end of the interpreter, when the main thread is over, would not be waited for.
                started = threading.main_thread().is_alive()
                if started:
                    # Said, since a thread that a daemon starts is a daemon itself.
                    threading.Thread(target=self._work, name="blobcp-write-behind", daemon=False).start()
            except RuntimeError:  # the system has no thread left, or the interpreter is about to end
                started = False
            if not started:
                self._work()

    def _work(self) -> None:
        while taken := self._take():
            self._carry_out(*taken)

    def _carry_out(self, checkpoint_id: str, change: Change) -> None:
        problem: BaseException | None = None
        try:
            self._write(checkpoint_id, change)
        except BaseException as error:  # whatever it is, somebody waits to be told
            problem = error
        self._settle(checkpoint_id, problem)

    def _take(self) -> tuple[str, Change] | None:
        with self._moved:
            for checkpoint_id in self._waiting:
                if checkpoint_id not in self._writing:
                    change = self._writing[checkpoint_id] = self._waiting.pop(checkpoint_id)
                    return checkpoint_id, change
            self._running -= 1
            return None

    def _settle(self, checkpoint_id: str, problem: BaseException | None) -> None:
        with self._moved:
            change = self._writing.pop(checkpoint_id)
            if problem is not None:
                self._errors[checkpoint_id] = problem
                if checkpoint_id not in self._waiting:
                    self._failed[checkpoint_id] = change
            if not self.changes():
                _unfinished.discard(self)
            self._moved.notify_all()


_unfinished: set[WriteQueue] = set()
"""Queues that hold something, so that they live as long as it does."""


@atexit.register
def _finish_all() -> None:
    lost = []
    for queue in [*_unfinished]:
        try:
            queue.finish()
        except StoreError as error:
            lost.append(str(error))
    if lost:
        # The interpreter writes it to standard error; nobody is left who could be told otherwise.
        raise StoreError(f"checkpoints are lost with the end of the interpreter: {'; '.join(lost)}")
