"""What travels between nodes: a stream of chunks that is read once, by sync or by async code."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterable
from concurrent.futures import Future
from contextvars import Context
from threading import Lock, get_ident
from types import TracebackType
from typing import Final, Generic, TypeVar

from blobcp.errors import StreamClosedError, StreamError
from blobcp.stream.copies import CopyFeed
from blobcp.stream.feed import Feed, raise_failed
from blobcp.stream.mapping import MapFeed
from blobcp.stream.signs import END, NOT_YET, End, NotYet, NoValue
from blobcp.stream.sources import feed_of
from blobcp.stream.waiting import Bell, runs_loop, settled, wait_for, wait_in_task, wait_in_thread

__all__ = ["StreamReader"]

S = TypeVar("S")
T = TypeVar("T")

READING: Final = "reading the stream"
CLOSING: Final = "closing the stream"


class StreamReader(Generic[T]):
    """A stream of chunks, for ``for`` and ``async for`` alike, whatever it comes from.

    An error in the stream is raised in the place of a chunk. Reading can go on afterwards where the source can; the end
    is reported on each further read. Any thread and any task may read. A read that is cancelled loses no chunk.

    Sync code reads an iterator in its own thread. Async code does so in a thread of the stream's own, so that its loop is
    not blocked. An async source runs on the loop that was running when the reader was made, else on the one that reads
    first, else on one in a thread of the stream's own. Sync code never waits in a thread that runs an event loop.

    Args:
        source: an iterator or iterable of chunks, an async one, or another reader, which is taken over.
        context: the contextvars for the source's code; it gets a copy. By default a source that is read in the reading
            thread sees those of its reader, any other source those of the first read.
        blocking: whether the next chunk of an iterator may take time. By default that of a collection does not, and that
            of anything else may; say ``False`` of a generator that only computes, and async code reads it faster.

    Raises:
        StreamError: the source is no source of chunks.

    >>> list(StreamReader(["a", "b"]))
    ['a', 'b']
    """

    def __init__(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        context: Context | None = None,
        blocking: bool | None = None,
    ) -> None:
        if isinstance(source, StreamReader):
            self._start(source.hand_over("taken over by another reader"))
        else:
            self._start(feed_of(source, None if context is None else context.copy(), blocking))

    @classmethod
    def _of(cls, feed: Feed[T]) -> StreamReader[T]:
        reader = cls.__new__(cls)
        reader._start(feed)
        return reader

    def _start(self, feed: Feed[T]) -> None:
        self._feed: Feed[T] | None = feed
        self._gone = ""
        self._closed = False
        self._ended = False
        self._bell = Bell()
        self._ring = self._bell.ring
        self._lock = Lock()
        self._thread = 0
        self._contended = False

    def __iter__(self) -> StreamReader[T]:
        return self

    def __next__(self) -> T:
        item = self._attempt(here=True)
        if item is NOT_YET:
            item = wait_in_thread(self._bell, lambda: self._attempt(here=True), self.loops, READING)
        if item is END or item is NOT_YET:
            raise StopIteration
        return item

    def __aiter__(self) -> StreamReader[T]:
        return self

    async def __anext__(self) -> T:
        item = self._attempt(here=False)
        if item is NOT_YET:
            item = await wait_in_task(self._bell, lambda: self._attempt(here=False), self.loops, READING)
        if item is END or item is NOT_YET:
            raise StopAsyncIteration
        return item

    def read_before(self, deadline: float | None) -> T | End | NotYet:
        """Return the next chunk or ``END``, waiting in this thread up to a moment of the monotonic clock.

        Raises:
            StreamTimeoutError: the deadline has passed; nothing is lost.
        """
        here = deadline is None
        item = self._attempt(here)
        if item is NOT_YET:
            item = wait_in_thread(self._bell, lambda: self._attempt(here), self.loops, READING, deadline)
        return item

    def copy(self, n: int = 2) -> list[StreamReader[T]]:
        """Return ``n`` readers that each give every chunk that is left; they take this one over.

        A chunk is read once, when the first of them asks, and kept until the last has passed it. Errors and the end are
        given to each. The source is closed with the last copy.

        Args:
            n: how many; below 2, this same reader is the only one.

        Raises:
            StreamError: it is being read.

        >>> one, other = StreamReader([1, 2]).copy(2)
        >>> list(one), list(other)
        ([1, 2], [1, 2])
        """
        if n < 2:
            return [self]
        return [StreamReader._of(feed) for feed in CopyFeed.share(self.hand_over("copied; read the copies"), n)]

    def map(
        self,
        convert: Callable[[T], S | NoValue],
        *,
        on_error: Callable[[Exception], S | NoValue | None] | None = None,
        at_end: Callable[[], S | NoValue | None] | None = None,
    ) -> StreamReader[S]:
        """Return a reader of converted chunks, which takes this one over. The functions run in whoever reads.

        Args:
            convert: a chunk -> what to give for it; ``NO_VALUE`` drops it.
            on_error: an error in the stream -> what to give in its place; ``None`` drops it. It may raise, the error
                itself or another.
            at_end: called once, at the end -> one more chunk, or ``None``; it may raise.

        Raises:
            StreamError: a function is async, or the stream is being read.

        >>> list(StreamReader([1, 2]).map(str, at_end=lambda: "end"))
        ['1', '2', 'end']
        """
        for function in (convert, on_error, at_end):
            if inspect.iscoroutinefunction(function):
                raise StreamError(f"{function!r} is async; write an async generator that reads the stream instead")
        return StreamReader._of(MapFeed(self.hand_over("mapped; read what map() returned"), convert, on_error, at_end))

    def close(self) -> None:
        """Stop the source; reading afterwards is an error. Does nothing a second time.

        A generator's ``finally`` runs before this returns, unless another thread is inside the generator: then it runs
        there, next. An async source is stopped on its loop; this waits for it unless that would block the loop of this
        thread. Prefer :meth:`aclose` there.
        """
        feed = self._feed
        stopping = self._stop(patient=False)
        if feed is None or stopping is NOT_YET:
            return
        for future in stopping:
            if not future.done() and not runs_loop():
                wait_for(future, feed.loops, CLOSING)
        raise_failed(stopping)

    async def aclose(self) -> None:
        """Stop the source and wait until it has stopped; reading afterwards is an error. Does nothing a second time."""
        stopping = self._stop(patient=True)
        if stopping is NOT_YET:
            stopping = await wait_in_task(self._bell, lambda: self._stop(patient=True), tuple, CLOSING)
        if stopping is not NOT_YET:
            await _settle(stopping)

    async def leave(self) -> None:
        """Do as `aclose` does, but do not wait for a thread that is inside the source: that closes it when it comes out."""
        await _settle(self.stop(patient=False))

    def __enter__(self) -> StreamReader[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> StreamReader[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        # A task that is cancelled is not held up by a thread, which can't be.
        await (self.leave() if kind is asyncio.CancelledError else self.aclose())

    def __repr__(self) -> str:
        state = self._gone or ("at its end" if self._ended else "open")
        return f"<StreamReader: {state}>"

    @property
    def spent(self) -> bool:
        """Whether nothing can come any more: it is at its end, closed, or handed over."""
        return self._ended or self._feed is None

    def hand_over(self, what: str) -> Feed[T]:
        """Give the feed to another reader; this one can't be read any more.

        Args:
            what: what became of the stream, and what to read instead.

        Raises:
            StreamError: it is being read.
            StreamClosedError: it is closed or was handed over before.
        """
        if not self._lock.acquire(blocking=False):
            raise StreamError(f"the stream is being read by another thread; it can't be {what.partition(';')[0]} now")
        try:
            feed = self._feed
            if feed is None or self._closed:
                raise self._read_after_close()
            self._feed = None
            self._gone = what
        finally:
            self._lock.release()
            self._ring()
        return feed

    def stop(self, patient: bool) -> list[Future[None]]:
        """Close without waiting, and return what to wait for; see :meth:`Feed.close`."""
        stopping = self._stop(patient)
        return [] if stopping is NOT_YET else stopping

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        """Return the event loops without which no chunk comes."""
        feed = self._feed
        return () if feed is None else feed.loops()

    def _attempt(self, here: bool) -> T | End | NotYet:
        """Read without waiting for others; ``NOT_YET`` where there is nothing or another thread reads just now."""
        # Written out, as it is done for every chunk of every stream.
        if not self._lock.acquire(False) and not self._take_turn():
            return NOT_YET
        self._thread = get_ident()
        try:
            feed = self._feed
            if feed is None or self._closed:
                raise self._read_after_close()
            if self._ended:
                return END
            item = feed.read(self._ring, here)
            if item is END:
                self._ended = True
            return item
        except (StopIteration, StopAsyncIteration) as error:
            raise StreamError(f"code of the stream raised {error!r}, which would look like its end") from error
        finally:
            self._thread = 0
            self._lock.release()
            if self._contended:
                self._contended = False
                self._ring()
            if self._closed and self._feed is not None:
                stopping = self._stop(patient=False)
                raise_failed(() if stopping is NOT_YET else stopping)

    def _read_after_close(self) -> StreamClosedError:
        return StreamClosedError(f"read after close: the stream was {self._gone}")

    def _stop(self, patient: bool) -> list[Future[None]] | NotYet:
        """Close the feed; ``NOT_YET`` where another thread reads it, which then closes it."""
        if not self._closed and not self._gone:
            self._closed = True
            self._gone = "closed"
            self._ring()
        if not self._take_turn(nested=True):
            return NOT_YET
        try:
            feed, self._feed = self._feed, None
            return [] if feed is None else feed.close(patient)
        finally:
            self._give_turn()

    def _take_turn(self, nested: bool = False) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        if self._thread == get_ident() and not nested:
            raise StreamError("a stream is read by its own source; the source would wait for itself")
        self._contended = True
        # Whoever has the turn looks at the flag after giving it back; it may have been given back before that.
        return self._lock.acquire(blocking=False)

    def _give_turn(self) -> None:
        self._lock.release()
        if self._contended:
            self._contended = False
            self._ring()


async def _settle(stopping: Iterable[Future[None]]) -> None:
    for future in stopping:
        await settled(future)
    raise_failed(stopping)
