"""Running tests of streams so that nothing that they leave behind goes unseen."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["LIMIT", "Bumpy", "in_thread", "nothing_left", "run", "times", "until"]

T = TypeVar("T")

LIMIT = 20.0
"""Seconds that nothing here may take."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine within the limit, and see to it that no task is left when it returns."""

    async def main() -> T:
        async with asyncio.timeout(LIMIT):
            result = await coroutine
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=5)
        assert not left, f"tasks were left: {left}"
        return result

    return asyncio.run(main())


@contextmanager
def nothing_left() -> Iterator[None]:
    """See to it that no thread of a stream is left when the block ends, once what is garbage is collected."""
    before = set(threading.enumerate())
    yield

    def left() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each not in before and "blobcp" in each.name]

    if left():
        gc.collect()
    until(lambda: not left())


def until(ready: Callable[[], Any]) -> None:
    """Wait until something is so, within the limit."""
    end = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < end, "it did not come to pass within the limit"
        time.sleep(0.001)


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    """Start a thread that ends with the process at the latest; join it with the limit."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


async def times(chunks: Any, closed: list[str] | None = None) -> AsyncIterator[Any]:
    """Yield chunks, each after a turn of the loop; note in ``closed`` that the clean-up ran, to its end."""
    try:
        for chunk in chunks:
            await asyncio.sleep(0)
            yield chunk
    finally:
        await asyncio.sleep(0)
        if closed is not None:
            closed.append("closed")


class Bumpy:
    """An iterator that raises the exceptions among its items where they stand, and goes on."""

    def __init__(self, *items: Any) -> None:
        self._items = iter(items)

    def __iter__(self) -> Bumpy:
        return self

    def __next__(self) -> Any:
        item = next(self._items)
        if isinstance(item, BaseException):
            raise item
        return item
