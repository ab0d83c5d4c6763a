"""Conversion of chunks, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from blobcp.stream.feed import Feed, Wake
from blobcp.stream.signs import END, NO_VALUE, NOT_YET, End, NotYet, NoValue

__all__ = ["MapFeed"]

S = TypeVar("S")
T = TypeVar("T")


class MapFeed(Feed[T], Generic[S, T]):
    """Converts what another feed gives; see :meth:`StreamReader.map`."""

    def __init__(
        self,
        feed: Feed[S],
        convert: Callable[[S], T | NoValue],
        on_error: Callable[[Exception], T | NoValue | None] | None,
        at_end: Callable[[], T | NoValue | None] | None,
    ) -> None:
        self._feed = feed
        self._convert = convert
        self._on_error = on_error
        self._at_end = at_end
        self._ended = False
        self.ready_made = feed.ready_made

    def read(self, wake: Wake, here: bool) -> T | End | NotYet:
        while not self._ended:
            try:
                item = self._feed.read(wake, here)
            except Exception as error:
                if self._on_error is None:
                    raise
                instead = self._on_error(error)
                if instead is None or instead is NO_VALUE:
                    continue
                return instead
            if item is END:
                return self._end()
            if item is NOT_YET:
                return item
            value = self._convert(item)
            if value is not NO_VALUE:
                return value
        return END

    def close(self, patient: bool) -> list[Future[None]]:
        return self._feed.close(patient)

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return self._feed.loops()

    def _end(self) -> T | End:
        self._ended = True
        last = None if self._at_end is None else self._at_end()
        return END if last is None or last is NO_VALUE else last
