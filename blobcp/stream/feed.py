"""What a reader reads from: one small interface for every kind of source."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from blobcp.errors import text_of
from blobcp.stream.signs import End, NotYet

__all__ = ["Feed", "Outcome", "Slot", "Wake", "raise_failed"]

T = TypeVar("T")

Wake = Callable[[], None]
"""Called, in any thread, when it is worth reading again."""


class Feed(ABC, Generic[T]):
    """Gives chunks, one at a time, to one that reads.

    A feed is read and closed by one caller at a time; whoever owns it sees to that. An error that it raises stands in
    the place of a chunk, and it may be read on afterwards.
    """

    ready_made = False
    """Whether a read never has to wait and never runs code that could."""

    @abstractmethod
    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        """Return the next chunk, ``END``, or ``NOT_YET``; then ``wake`` is called once there is something.

        Args:
            wake: who to tell; one that is given later replaces it.
            here: whether the source's own code may run in this thread, for as long as it takes.
        """

    @abstractmethod
    def close(self, patient: bool) -> list[Future[None]]:
        """Stop the source; it is not read afterwards.

        Args:
            patient: whether to wait for a pull that runs elsewhere and can't be stopped, or leave it alone.

        Returns:
            what to wait for until it has stopped.
        """

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        """Return the event loops of others without which no chunk comes."""
        return ()


class Outcome(Generic[T]):
    """What a read gave: a value, ``END``, or an error, which may be raised several times."""

    __slots__ = ("_error", "_trace", "_value")

    def __init__(self, value: T | End | None = None, error: BaseException | None = None) -> None:
        self._value = value
        self._error = error
        self._trace = None if error is None else error.__traceback__

    def get(self) -> T | End:
        if self._error is not None:
            # Raising adds to the traceback; each who is given the error gets it as it was.
            raise self._error.with_traceback(self._trace)
        return self._value  # type: ignore[return-value]  # where there is no error there is a value


class Slot(Generic[T]):
    """Holds what a pull that runs in another thread or task has brought, or will bring."""

    __slots__ = ("_outcome", "_wake", "busy")

    def __init__(self) -> None:
        self.busy = False
        self._outcome: Outcome[T] | None = None
        self._wake: Wake | None = None

    @property
    def under_way(self) -> bool:
        """Whether something is still to arrive."""
        return self.busy and self._outcome is None

    def take(self, wake: Wake) -> Outcome[T] | None:
        """Return what has arrived; ``wake`` is called where it has not."""
        self._wake = wake  # before looking, so that what arrives in between wakes
        outcome = self._outcome
        if outcome is not None:
            self._outcome = None
            self.busy = False
        return outcome

    def arrived(self, outcome: Outcome[T]) -> None:
        self._outcome = outcome
        if self._wake is not None:
            self._wake()


def raise_failed(stopped: Iterable[Future[None]]) -> None:
    """Raise what went wrong while sources were stopped; where several failed, the first, with notes on the others."""
    errors = [error for future in stopped if future.done() and (error := future.exception()) is not None]
    for other in errors[1:]:
        errors[0].add_note(f"closing another source failed too: {text_of(other)}")
    if errors:
        raise errors[0]
