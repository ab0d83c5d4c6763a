"""A store with async methods, used by code that can't await."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from blobcp.wrapping import POWERS

from .waiting import EventLoop

__all__ = ["AwaitedStore", "is_async"]


def is_async(function: object) -> bool:
    """Say whether what a function returns has to be awaited."""
    # An object with an async __call__ is no coroutine function.
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004


class AwaitedStore:
    """Show an async store as one with plain methods, with the optional powers that it has.

    ``list`` may be an async generator or a coroutine function that returns an iterable of either kind.

    Args:
        store: the store.
        loop: where its methods run; always the same one, since connections belong to their loop.
    """

    def __init__(self, store: Any, loop: EventLoop) -> None:
        self._store = store
        self._loop = loop
        for power, methods in POWERS.items():
            if isinstance(store, power):
                for method in methods:
                    setattr(self, method, getattr(self, f"_{method}", None) or self._waiting(method))
        for method in ("aclose", "close"):
            if callable(getattr(store, method, None)):
                self.close: Callable[[], Any] = self._waiting(method)
                break

    def get(self, checkpoint_id: str) -> Any:
        """Return what the store gives for the id."""
        return self._waiting("get")(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the bytes under the id."""
        self._waiting("set")(checkpoint_id, checkpoint)

    def _list(self, prefix: str = "") -> Iterator[str]:
        found = self._waiting("list")(prefix)
        return self._each(found) if hasattr(found, "__aiter__") else iter(found)

    def _each(self, found: Any) -> Iterator[str]:
        items = found.__aiter__()
        try:
            while True:
                try:
                    yield self._loop.call(items.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            if hasattr(items, "aclose"):
                self._loop.call(items.aclose)

    def _waiting(self, method: str) -> Callable[..., Any]:
        call = getattr(self._store, method)
        return lambda *args: self._loop.call(lambda: call(*args))
