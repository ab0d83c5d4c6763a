"""When a job may go on, and when it is to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["Pace", "Stop", "stopping_on_ctrl_c"]

_LOOKS_EVERY: Final = 0.1


class Stop:
    """Whether a job is to end early, and why; a copy in another process never says so.

    Attributes:
        reason: ``interrupted`` or ``failure``; ``None`` while it is to go on.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    def request(self, reason: str) -> None:
        """Let the job end once the blobs in hand are finished; the first reason counts."""
        if self.reason is None:
            self.reason = reason

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()


class Pace:
    """Hands out no more than so many blobs a second, on the whole.

    Args:
        rate: how many; ``None`` for as many as there are.
        clock: what time it is, in seconds.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    def wait(self, count: int, stop: Stop) -> None:
        """Wait until so many more may be handed out, or until the job is to stop."""
        if self._rate is None:
            return
        while stop.reason is None and (rest := self._next - self._clock()) > 0:
            self._sleep(min(rest, _LOOKS_EVERY))
        self._next = max(self._next, self._clock()) + count / self._rate


@contextmanager
def stopping_on_ctrl_c(stop: Stop) -> Iterator[None]:
    """Let Ctrl-C request a stop; a second one raises.

    Only in the main thread, which alone gets signals, and where nobody else has said what Ctrl-C is to do.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.reason == "interrupted":
            raise KeyboardInterrupt
        stop.reason = "interrupted"

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
