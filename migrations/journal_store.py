"""A journal in a store, for jobs whose workers share no disk.

Under the key itself is what the job is; under numbered keys behind it, portions of lines; and in a fixed number of slots, what
batches that may still be on their way were about to write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from blobcp.errors import OptionError
from blobcp.store import CheckPointStore, check_id

from .journal import Line, encoded, first_line, lines_in, same_job
from .outcome import Intent, Outcome

__all__ = ["SLOTS", "StoreJournal"]

SLOTS: Final = 256
"""More than there can be batches in hand and outcomes not yet stored, so that none overwrites what may be needed."""

_BATCHES_A_PORTION: Final = 64
_SECONDS_A_PORTION: Final = 10.0


class _StoreNote:
    """Notes the writes of a batch together, in one write of its own."""

    portion = 1_000_000

    def __init__(self, store: CheckPointStore, key: str) -> None:
        self._store = store
        self._key = key

    def for_batch(self, number: int) -> Callable[[Sequence[Intent]], None]:
        noted: list[Intent] = []

        def intend(intents: Sequence[Intent]) -> None:
            noted.extend(intents)
            self._store.set(_slot(self._key, number), encoded(noted))

        return intend


class StoreJournal:
    """Keep the journal of a job in a store, for workers that share no disk; two methods are enough.

    It costs one write a batch, and one for every 64 batches or 10 seconds. Whoever lists the store sees its keys (``key`` and
    what begins with ``key/``), and finds no checkpoints there; the job itself passes them over.

    Args:
        store: the store, the one that the job is about or another.
        key: an id in it that is not used otherwise.
        clock: what time it is, in seconds.

    Raises:
        InvalidCheckpointIdError: it is no id.
    """

    def __init__(self, store: CheckPointStore, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        check_id(_slot(check_id(key), 0))
        self.store = store
        self.key = key
        self.note = _StoreNote(store, key)
        self._clock = clock
        self._held: list[Line] = []
        self._batches = 0
        self._portion = 1
        self._stored = clock()

    def begin(self, job: dict[str, str]) -> Iterator[Line]:
        """Begin, or go on; yield what earlier runs have noted.

        Raises:
            OptionError: it is the journal of another job.
        """
        found = self.store.get(self.key)
        self._portion, self._held = 1, []
        if found is None:
            if self.store.get(_portion(self.key, 1)) is not None:
                raise OptionError(
                    f"there are parts of a journal behind {self.key!r} and no beginning; give another key"
                )
            self.store.set(self.key, first_line(job))
            return
        same_job(repr(self.key), found, job)
        while (portion := self.store.get(_portion(self.key, self._portion))) is not None:
            yield from lines_in(portion.splitlines())
            self._portion += 1
        in_doubt: list[Line] = []
        for slot in range(SLOTS):
            in_doubt.extend(lines_in((self.store.get(_slot(self.key, slot)) or b"").splitlines()))
        yield from in_doubt
        # The slots are about to be used again.
        self._held = in_doubt
        self._store()

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Note what became of the blobs of a batch."""
        self._held.extend(outcomes)
        self._batches += 1
        if self._batches >= _BATCHES_A_PORTION or self._clock() - self._stored >= _SECONDS_A_PORTION:
            self._store()

    def owns(self, store: object, checkpoint_id: str) -> bool:
        """Tell whether what a store has under an id is part of the journal."""
        return store is self.store and (checkpoint_id == self.key or checkpoint_id.startswith(f"{self.key}/"))

    def close(self) -> None:
        """Store what is held."""
        self._store()

    def _store(self) -> None:
        if self._held:
            self.store.set(_portion(self.key, self._portion), encoded(self._held))
            self._portion += 1
        self._held, self._batches, self._stored = [], 0, self._clock()


def _portion(key: str, number: int) -> str:
    return f"{key}/{number:010}"


def _slot(key: str, number: int) -> str:
    return f"{key}/writing/{number % SLOTS:03}"
