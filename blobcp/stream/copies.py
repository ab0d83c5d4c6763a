"""Several readers of one feed: a chain of what was read, which each walks at its own pace.

A chunk is read once, by whichever copy needs it first. The chain holds on to no chunk that every copy has passed, as only
those behind refer to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from blobcp.errors import StreamError
from blobcp.stream.feed import Feed, Outcome, Wake
from blobcp.stream.signs import END, NOT_YET, End, NotYet

__all__ = ["CopyFeed"]

T = TypeVar("T")


class CopyFeed(Feed[T]):
    """One of several readers of a feed."""

    def __init__(self, shared: _Shared[T], node: _Node[T]) -> None:
        self._shared = shared
        self._node = node
        self.ready_made = shared.feed.ready_made
        shared.copies[id(self)] = None

    @classmethod
    def share(cls, feed: Feed[T], n: int) -> list[CopyFeed[T]]:
        """Return ``n`` feeds that each give all that this one would; they own it from now on."""
        if isinstance(feed, CopyFeed):
            return [feed, *(cls(feed._shared, feed._node) for _ in range(n - 1))]
        shared = _Shared(feed)
        start: _Node[T] = _Node(Outcome(END))
        return [cls(shared, start) for _ in range(n)]

    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        node = self._node.next or self._shared.grow(self._node, wake, here)
        if node is None:
            return NOT_YET
        self._node = node
        return node.outcome.get()

    def close(self, patient: bool) -> list[Future[None]]:
        self._shared.copies.pop(id(self), None)
        return self._shared.close_if_alone(patient)

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return self._shared.feed.loops()

    def __del__(self) -> None:
        self._shared.copies.pop(id(self), None)


class _Node(Generic[T]):
    __slots__ = ("next", "outcome")

    def __init__(self, outcome: Outcome[T]) -> None:
        self.outcome = outcome
        self.next: _Node[T] | None = None


class _Shared(Generic[T]):
    """The feed, the turn to read it, and who waits for it."""

    def __init__(self, feed: Feed[T]) -> None:
        self.feed = feed
        self.copies: dict[int, None] = {}
        self._turn = threading.Lock()
        self._reader = 0
        self._contended = False
        self._closed = False
        self._waiting: set[Wake] = set()

    def grow(self, node: _Node[T], wake: Wake, here: bool) -> _Node[T] | None:
        """Return the node after the last one, reading it if nobody else is about to; ``None`` if it is not there yet."""
        if not self._turn.acquire(blocking=False):
            if self._reader == threading.get_ident():
                raise StreamError("a stream is read by its own source; the source would wait for itself")
            self._waiting.add(wake)
            self._contended = True
            # Whoever has the turn looks at the flag after giving it back; it may have been given back before that.
            if not self._turn.acquire(blocking=False):
                return node.next
        self._reader = threading.get_ident()
        try:
            if node.next is None:
                node.next = self._read(wake, here)
            return node.next
        finally:
            self._reader = 0
            self._turn.release()
            if node.next is not None or self._contended:
                self._ring()

    def close_if_alone(self, patient: bool) -> list[Future[None]]:
        """Close the feed if no copy is left; so nobody reads it, as a copy is not closed before its read is over."""
        if self.copies:
            return []
        with self._turn:
            if self._closed:
                return []
            self._closed = True
        return self.feed.close(patient)

    def _read(self, wake: Wake, here: bool) -> _Node[T] | None:
        try:
            item = self.feed.read(self._ring, here)
            if item is NOT_YET:
                self._waiting.add(wake)
                # It may have arrived before this one was among those who are told.
                item = self.feed.read(self._ring, here)
                if item is NOT_YET:
                    return None
        except BaseException as error:
            return _Node(Outcome(error=error))
        return _Node(Outcome(item))

    def _ring(self) -> None:
        self._contended = False
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for wake in waiting:
                wake()
