"""Trying again, for stores whose medium is now and then out of reach."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import TypeVar

from blobcp.errors import CheckpointConflictError, CheckpointError, MissingExtraError, StoreError, StoreUrlError
from blobcp.store import CheckPointStore, check_id
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..expiry import seconds_of

__all__ = ["RetryingStore"]

Result = TypeVar("Result")

LASTING = (CheckpointError, MissingExtraError, StoreUrlError)
"""What another attempt can't change; a conflict is an answer, not a failure."""


class RetryingStore(StoreWrapper):
    """Call the store inside again where it failed, after pauses that grow.

    The pause before the second attempt is about ``delay``, each further one twice as long, up to ``max_delay``; about, since
    many who failed together should not come back together: chance takes up to half of it away.

    A failed attempt may have been carried out all the same, with only the answer lost. So a plain ``set`` or ``delete``
    that is tried again can undo what somebody else wrote in between; ``set_if`` can't. Where ``set_if`` meets a conflict
    after an attempt that failed, the blob is read back: if it is, byte for byte, what was to be written, then it is taken
    for the failed attempt's own work and its version is returned. THIS RELIES ON RIVALS WRITING DIFFERENT BYTES. Blobs of
    the runtime do: they carry the id of their run and the time. Two callers of your own who may write equal bytes can
    both believe to have won; put something into the bytes that differs.

    A listing that breaks off goes on after the last id that was given.

    Stores that try again by themselves (S3, Redis) multiply their attempts by those made here; use one of the two.

    Args:
        store: the store inside.
        attempts: how often a call is tried at most, the first time included.
        delay: the first pause.
        max_delay: the longest pause.
        limit: no attempt begins later than this after the first. An attempt lasts as long as the store inside lets it.
        retry_on: the errors after which it is tried again. Errors that would come again are never among them: conflicts,
            wrong ids, values that are no bytes, missing extras, wrong URLs.
        sleep: waits for that many seconds.
        clock: tells the time in seconds.

    Raises:
        StoreError: an argument is out of range, or the methods of the store have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> store = RetryingStore(MapStore(), attempts=6, delay=timedelta(milliseconds=50))
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17")
    b'blob'
    """

    def __init__(
        self,
        store: CheckPointStore,
        *,
        attempts: int = 4,
        delay: timedelta = timedelta(milliseconds=100),
        max_delay: timedelta = timedelta(seconds=5),
        limit: timedelta = timedelta(seconds=30),
        retry_on: tuple[type[Exception], ...] = (StoreError, OSError),
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempts < 1 or min(delay, max_delay, limit) < timedelta(0):
            raise StoreError(
                f"RetryingStore can't work with attempts={attempts!r}, delay={delay!r}, max_delay={max_delay!r}, "
                f"limit={limit!r}; give at least one attempt, and times of zero or more"
            )
        super().__init__(store)
        self.blocking = True  # even where the store inside is not: it may sleep
        self.attempts = attempts
        self.delay = delay
        self.max_delay = max_delay
        self.limit = limit
        self.retry_on = retry_on
        self.sleep = sleep
        self.clock = clock

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the last attempt failed, too; a note tells how many there were.
        """
        check_id(checkpoint_id)
        return self._try(partial(super().get, checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or the last attempt failed, too; a note tells how many there were.
        """
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        self._try(partial(super().set, checkpoint_id, blob))

    def _delete(self, checkpoint_id: str) -> None:
        check_id(checkpoint_id)
        self._try(partial(super()._delete, checkpoint_id))

    def _list(self, prefix: str = "") -> Iterator[str]:
        last: str | None = None
        failed, first = 0, self.clock()
        while True:
            try:
                for found in super()._list(prefix):
                    if last is None or found > last:
                        last = found
                        yield found
                        failed = 0
                return
            except LASTING:
                raise
            except self.retry_on as error:
                failed += 1
                if failed == 1:  # since an id was given; how long the caller took for it does not count
                    first = self.clock()
                if not self._wait(error, failed, first):
                    raise

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        check_id(checkpoint_id)
        return self._try(partial(super()._get_versioned, checkpoint_id))

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        write, read = super()._set_if, super()._get_versioned
        maybe_written = False

        def attempt() -> str:
            nonlocal maybe_written
            try:
                return write(checkpoint_id, blob, version)
            except CheckpointConflictError:
                found = read(checkpoint_id) if maybe_written else None
                if found is None or found[0] != blob:
                    raise
                return found[1]
            except Exception:
                maybe_written = True
                raise

        return self._try(attempt)

    def _set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        seconds_of(checkpoint_id, ttl)  # for its error, which would come again
        self._try(partial(super()._set_expiring, checkpoint_id, blob, ttl))

    def _try(self, call: Callable[[], Result]) -> Result:
        failed, first = 0, self.clock()
        while True:
            try:
                return call()
            except LASTING:
                raise
            except self.retry_on as error:
                failed += 1
                if not self._wait(error, failed, first):
                    raise

    def _wait(self, error: Exception, failed: int, first: float) -> bool:
        """Wait for the next attempt; where there is none, note on the error how many there were."""
        longest = min(self.max_delay.total_seconds(), self.delay.total_seconds() * 2.0 ** min(failed - 1, 64))
        pause = random.uniform(longest / 2, longest)
        spent = self.clock() - first
        if failed < self.attempts and spent + pause <= self.limit.total_seconds():
            self.sleep(pause)
            return True
        error.add_note(f"RetryingStore gave up after {failed} attempt{'s' * (failed > 1)} in {spent:.1f} seconds")
        return False
