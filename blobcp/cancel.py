"""Stopping a run from outside of it: the token that it is given, and the signals of a worker's process.

A token takes no lock, so that a signal's handler may cancel whatever the thread that it interrupts is doing.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from blobcp.errors import OptionError

__all__ = ["CancelToken", "cancel_on_signal"]

_NEVER: Final = float("inf")
_AT_ONCE: Final = timedelta(0)
_A_DAY: Final = 86400.0


class CancelToken:
    """Stops the run that it is given to, from any thread, task or signal handler: ``app.invoke(..., cancel=token)``.

    A token is for one run. The graphs nested in it see the same token and the same deadline.
    """

    def __init__(self) -> None:
        self._deadlines: list[float] = []  # only ever appended to, which is what makes a lock needless
        self._unused = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def cancel(self, timeout: timedelta | None = None) -> None:
        """Stop the run. It starts no further node, waits for those that run, and is stored.

        Args:
            timeout: how long to wait for the nodes that run; what is left then is given up and runs again, from its
                original input, when the run is resumed. Zero gives up at once, ``None`` waits for all.

        Called again, the earliest deadline counts. Called when the run is over, it does nothing.

        Raises:
            OptionError: the timeout is no ``timedelta``, or below zero.
        """
        check_timeout(timeout)
        self._deadlines.append(_NEVER if timeout is None else time.monotonic() + timeout.total_seconds())
        wake = self._wake
        if wake is not None:
            wake()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return bool(self._deadlines)

    @property
    def due(self) -> bool:
        """Whether what still runs is to be given up now."""
        return self.remaining() == 0

    def remaining(self) -> float | None:
        """Return the seconds until what runs is given up, 0 if that is now; ``None`` without such a limit.

        It is a day where it would be longer: not every wait takes any number.
        """
        deadline = min(self._deadlines, default=_NEVER)
        return None if deadline == _NEVER else min(max(0.0, deadline - time.monotonic()), _A_DAY)

    def claim(self) -> None:
        """Take the token for a run.

        Raises:
            OptionError: a run has had it already.
        """
        if not self._unused.acquire(blocking=False):
            raise OptionError("this cancel token belongs to another run already; make a CancelToken for each run")

    def attach(self, wake: Callable[[], None] | None) -> None:
        """Have this called on each `cancel`; ``None`` for a run that is over."""
        self._wake = wake


@contextmanager
def cancel_on_signal(token: CancelToken, *signals: int, timeout: timedelta | None = None) -> Iterator[CancelToken]:
    """Cancel a run when the process gets a signal, for workers that are told to end.

    Args:
        token: what the run was given, or will be.
        signals: which signals; ``SIGTERM`` if none is named.
        timeout: as for `CancelToken.cancel`, from the first signal on. A second signal gives up at once.

    Yields:
        The token. After the block the signals do what they did before.

    Raises:
        OptionError: this is not the main thread, which alone may say what signals do; one of the signals can't be
            caught; or the timeout is none.
    """
    check_timeout(timeout)
    numbers = signals or (signal.SIGTERM,)

    def counting() -> Callable[..., None]:
        heard: list[int] = []

        def hear(number: int, frame: object = None) -> None:
            if number in numbers:
                heard.append(number)
                token.cancel(timeout if len(heard) == 1 else _AT_ONCE)

        return hear

    with ExitStack() as undo:
        try:
            # Two ways to hear the same signals, each of which counts for itself.
            undo.enter_context(_listening(counting()))
            handler = counting()
            for number in numbers:
                undo.callback(_put_back, number, signal.signal(number, handler))
        except (ValueError, OSError, TypeError) as error:
            raise OptionError(
                f"cancel_on_signal can't catch {signals!r} here: {error}; use it in the main thread"
            ) from error
        yield token


@contextmanager
def _listening(hear: Callable[[int], None]) -> Iterator[None]:
    """Hear signals in a thread, at once, whatever the main thread does.

    The main thread runs its handlers between two steps of Python; a signal that comes just before it starts to wait for
    something would be heard when that wait is over.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    try:
        others = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    except ValueError:
        ours.close()
        theirs.close()
        raise

    def listen() -> None:
        while data := ours.recv(64):
            if others != -1:
                with suppress(OSError):  # whoever listened before has gone
                    os.write(others, data)
            for number in data:
                hear(number)

    thread = threading.Thread(target=listen, name="blobcp-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        now = signal.set_wakeup_fd(-1)
        with suppress(ValueError, OSError):  # whoever listened before has gone
            # Somebody who came after us stays.
            signal.set_wakeup_fd(others if now == theirs.fileno() else now)
        theirs.close()
        thread.join()
        ours.close()


def _put_back(number: int, handler: Any) -> None:
    # None is a handler that was not installed by Python, and can't be put back by it.
    signal.signal(number, signal.SIG_DFL if handler is None else handler)


def check_timeout(timeout: timedelta | None) -> None:
    """Refuse what is no timeout of a cancel.

    Raises:
        OptionError: it is no ``timedelta``, or below zero.
    """
    if timeout is not None and (not isinstance(timeout, timedelta) or timeout < _AT_ONCE):
        raise OptionError(f"timeout={timeout!r} is no time-out; give a timedelta of zero or more, or None for no limit")
