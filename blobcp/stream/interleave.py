"""Several streams as one: whichever has a chunk gives it, and each keeps its own order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Literal, TypeVar, overload

from blobcp.errors import StreamError
from blobcp.stream.feed import Feed, Wake
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END, NOT_YET, End, NotYet, SourceEnd

__all__ = ["merge_streams"]

T = TypeVar("T")


@overload
def merge_streams(
    sources: Mapping[str, StreamReader[T]] | Iterable[StreamReader[T]], *, mark_ends: Literal[False] = False
) -> StreamReader[T] | None: ...


@overload
def merge_streams(
    sources: Mapping[str, StreamReader[T]], *, mark_ends: Literal[True]
) -> StreamReader[T | SourceEnd] | None: ...


def merge_streams(
    sources: Mapping[str, StreamReader[T]] | Iterable[StreamReader[T]], *, mark_ends: bool = False
) -> StreamReader[T] | StreamReader[T | SourceEnd] | None:
    """Merge readers into one, which takes them over.

    Readers whose chunks are all there (of lists) come first, one after the other. Live ones are read at the same time,
    at most one chunk ahead, and take turns where several have one.

    Args:
        sources: the readers, or the readers by name.
        mark_ends: put a :class:`SourceEnd` with its name where a source ends; needs names.

    Returns:
        the one reader; ``None`` where there is nothing to merge.

    Raises:
        StreamError: ends are to be marked and the sources have no names, or one of them is being read.

    >>> list(merge_streams([StreamReader([1, 2]), StreamReader([3])]))
    [1, 2, 3]
    """
    if isinstance(sources, Mapping):
        named = list(sources.items())
    elif mark_ends:
        raise StreamError("the ends of sources without names can't be marked; merge a dict of readers")
    else:
        named = [(str(number), reader) for number, reader in enumerate(sources)]
    if not named:
        return None
    if len({id(reader) for _, reader in named}) < len(named):
        raise StreamError("one reader is merged twice; merge copies of it")
    feeds = [(name, reader.hand_over("merged; read what merge_streams returned")) for name, reader in named]
    return StreamReader._of(_MergeFeed(feeds, mark_ends))


class _MergeFeed(Feed[T | SourceEnd]):
    def __init__(self, sources: list[tuple[str, Feed[T]]], mark_ends: bool) -> None:
        self._sources = sorted(sources, key=lambda source: not source[1].ready_made)
        self._closing = [feed for _, feed in sources]
        self._mark_ends = mark_ends
        self.ready_made = all(feed.ready_made for _, feed in sources)

    def read(self, wake: Wake, here: bool) -> T | SourceEnd | End | NotYet:
        while self._sources:
            for source in self._sources.copy():
                name, feed = source
                if not feed.ready_made:
                    self._sources.remove(source)
                    self._sources.append(source)
                # Where several are live, none may keep this thread to itself.
                item = feed.read(wake, here and len(self._sources) == 1)
                if item is NOT_YET:
                    continue
                if item is not END:
                    return item
                self._sources.remove(source)
                if self._mark_ends:
                    return SourceEnd(name)
                break
            else:
                return NOT_YET
        return END

    def close(self, patient: bool) -> list[Future[None]]:
        self._sources = []
        feeds, self._closing = self._closing, []
        return [future for feed in feeds for future in feed.close(patient)]

    def loops(self) -> Iterable[asyncio.AbstractEventLoop]:
        return [loop for _, feed in self._sources for loop in feed.loops()]
