"""Several threads at one store at the same moment, so that what should be one step and is two shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from .failing import Failed
from .waiting import settle

__all__ = ["lingering", "together"]

T = TypeVar("T")


class LingeringText(str):
    """An id or a version that makes whoever compares it, looks something up by it or encodes it wait for a moment.

    A thread of Python is left to run for 5 ms, in which most stores do all there is to do. So a look at a version and the
    write after it, two steps in a store that keeps blobs in a dict and has no lock, are hardly ever torn apart by chance;
    here they are. A store that goes to a disk or to a network waits anyway.

    Attributes:
        lingers: whether it does so now; switched off once a race is over.
    """

    lingers = True

    def __hash__(self) -> int:
        self._wait()
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self._wait()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        self._wait()
        return super().encode(encoding, errors)

    def _wait(self) -> None:
        if self.lingers:
            time.sleep(0.00002)


@contextmanager
def lingering(text: str) -> Iterator[str]:
    """Give an id or a version as a :class:`LingeringText` for a while; a store may keep it for longer."""
    slow = LingeringText(text)
    try:
        yield slow
    finally:
        slow.lingers = False


def together(count: int, act: Callable[[int], T], seconds: float) -> list[T | Exception]:
    """Call a function in several threads at the same moment; return what each call gave or raised, in their order.

    Args:
        count: how many threads.
        act: gets the number of its thread, counted from 0.
        seconds: how long to wait for them all.

    Raises:
        Failed: not all of them came back in time.
    """
    barrier = threading.Barrier(count, timeout=seconds)
    answers: list[Future[T]] = [Future() for _ in range(count)]

    def meet_and_act(number: int) -> T:
        barrier.wait()
        return act(number)

    def run(number: int) -> None:
        settle(answers[number], lambda: meet_and_act(number))

    for number in range(count):
        threading.Thread(target=run, args=(number,), name=f"blobcp-kit-{number}", daemon=True).start()
    _, late = wait(answers, timeout=seconds)
    if late:
        raise Failed(f"{len(late)} of {count} threads that used the store at once did not come back in {seconds:g} s")
    found: list[T | Exception] = []
    for answer in answers:
        error = answer.exception()
        if error is None:
            found.append(answer.result())
        elif isinstance(error, Exception):
            found.append(error)
        else:
            raise error
    return found
