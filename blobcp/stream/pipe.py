"""A stream that another thread or task pushes into."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from datetime import timedelta
from types import TracebackType
from typing import Generic, TypeVar

from blobcp.errors import StreamClosedError, StreamError
from blobcp.stream.feed import Feed, Outcome, Wake
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END, NOT_YET, End, NotYet
from blobcp.stream.waiting import Bell, wait_in_task, wait_in_thread

__all__ = ["PipeWriter", "stream_pipe"]

T = TypeVar("T")


def stream_pipe(size: int = 16) -> tuple[PipeWriter[T], StreamReader[T]]:
    """Make a pipe: what goes in at the writer comes out of the reader.

    Args:
        size: how many chunks wait in it at most; a writer that is further ahead waits.

    Returns:
        its two ends, which any thread or task may use.

    Raises:
        StreamError: the size is below 1.

    >>> writer, reader = stream_pipe()
    >>> with writer:
    ...     writer.send("a")
    ...     writer.send("b")
    >>> list(reader)
    ['a', 'b']
    """
    if size < 1:
        raise StreamError(f"a pipe of size {size} lets nothing through; give 1 or more")
    pipe: _Pipe[T] = _Pipe(size)
    return PipeWriter(pipe), StreamReader._of(_PipeFeed(pipe))


class PipeWriter(Generic[T]):
    """The end of a pipe that chunks go in at; :func:`stream_pipe` makes it.

    As a context manager it closes the pipe; where its block raised, the error is what the reader gets last. A writer that
    is dropped without being closed gives the reader an error, so that nobody waits for it.
    """

    def __init__(self, pipe: _Pipe[T]) -> None:
        self._pipe = pipe

    def send(self, chunk: T, *, timeout: timedelta | None = None) -> None:
        """Put a chunk in, waiting in this thread while the pipe is full.

        Args:
            chunk: the chunk.
            timeout: how long to wait at most.

        Raises:
            StreamClosedError: the reader is closed, or this writer is.
            StreamTimeoutError: the pipe stayed full.
            StreamLoopError: the pipe is full and an event loop runs in this thread.
        """
        self._put(Outcome(chunk), timeout)

    async def asend(self, chunk: T) -> None:
        """Put a chunk in, waiting in this task while the pipe is full; where it is cancelled, nothing was put in.

        Raises:
            StreamClosedError: the reader is closed, or this writer is.
        """
        await self._aput(Outcome(chunk))

    def send_error(self, error: BaseException, *, timeout: timedelta | None = None) -> None:
        """Put an error in the place of a chunk; the reader raises it there, and can read on.

        Args:
            error: the error.
            timeout: how long to wait at most.

        Raises:
            StreamClosedError: the reader is closed, or this writer is.
            StreamTimeoutError: the pipe stayed full.
            StreamLoopError: the pipe is full and an event loop runs in this thread.
        """
        self._put(Outcome(error=error), timeout)

    async def asend_error(self, error: BaseException) -> None:
        """Put an error in the place of a chunk, waiting in this task while the pipe is full.

        Raises:
            StreamClosedError: the reader is closed, or this writer is.
        """
        await self._aput(Outcome(error=error))

    def close(self, error: BaseException | None = None) -> None:
        """End the stream, after what is in the pipe; does not wait, and does nothing a second time.

        Args:
            error: what the reader is to raise before the end.
        """
        self._pipe.end(error)

    def __enter__(self) -> PipeWriter[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(error)

    async def __aenter__(self) -> PipeWriter[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close(error)

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)
        if pipe is not None and not pipe.ended:
            pipe.end(StreamError("the writer of the pipe was dropped without being closed; use it in a `with` block"))

    def _put(self, outcome: Outcome[T], timeout: timedelta | None) -> None:
        pipe = self._pipe
        if pipe.put(outcome) is NOT_YET:
            deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
            wait_in_thread(pipe.room, lambda: pipe.put(outcome), tuple, "sending into a full pipe", deadline)

    async def _aput(self, outcome: Outcome[T]) -> None:
        pipe = self._pipe
        if pipe.put(outcome) is NOT_YET:
            await wait_in_task(pipe.room, lambda: pipe.put(outcome), tuple, "sending into a full pipe")


class _Pipe(Generic[T]):
    def __init__(self, size: int) -> None:
        # Finalizers of both ends take it, perhaps in a thread that has it already.
        self._lock = threading.RLock()
        self._size = size
        self._waiting: deque[Outcome[T]] = deque()
        self._wake: Wake | None = None
        self._left = False
        self.ended = False
        self.room = Bell()

    def put(self, outcome: Outcome[T]) -> NotYet | None:
        with self._lock:
            if self._left:
                raise StreamClosedError("the reader of the pipe is closed; stop sending")
            if self.ended:
                raise StreamClosedError("send after close: this writer is closed")
            if len(self._waiting) >= self._size:
                return NOT_YET
            self._waiting.append(outcome)
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()
        return None

    def end(self, error: BaseException | None) -> None:
        with self._lock:
            if self.ended:
                return
            self.ended = True
            if error is not None:
                self._waiting.append(Outcome(error=error))
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()
        self.room.ring()

    def get(self, wake: Wake) -> Outcome[T] | End | NotYet:
        with self._lock:
            if not self._waiting:
                if self.ended:
                    return END
                self._wake = wake
                return NOT_YET
            outcome = self._waiting.popleft()
        if self.room.waiters:
            self.room.ring()
        return outcome

    def leave(self) -> None:
        with self._lock:
            self._left = True
            self._waiting.clear()
        self.room.ring()


class _PipeFeed(Feed[T]):
    """The end that the reader reads; the pipe does not refer to it, so that the writer is told when it is dropped."""

    def __init__(self, pipe: _Pipe[T]) -> None:
        self._pipe = pipe

    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        outcome = self._pipe.get(wake)
        return outcome.get() if isinstance(outcome, Outcome) else outcome

    def close(self, patient: bool) -> list[Future[None]]:
        self._pipe.leave()
        return []

    def __del__(self) -> None:
        self._pipe.leave()
