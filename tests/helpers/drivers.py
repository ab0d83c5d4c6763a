"""The two drivers behind one face, so that every runtime test runs against both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from blobcp import App, InterruptPoint, StreamReader

__all__ = ["AsyncRunner", "Runner", "SyncRunner"]

LIMIT = 60.0
"""Seconds after which an asyncio run is taken for hanging."""


class SyncRunner:
    """Runs apps by the threaded driver."""

    name = "sync"

    def invoke(self, app: App, input: Any = None, **options: Any) -> Any:
        return app.invoke(input, **options)

    def resume(self, app: App, checkpoint_id: str, answers: Any = None, **options: Any) -> Any:
        return app.resume(checkpoint_id, answers, **options)

    def pending(self, app: App, checkpoint_id: str) -> list[InterruptPoint]:
        return app.pending(checkpoint_id)

    def stream(self, app: App, input: Any = None, **options: Any) -> list[Any]:
        with app.stream(input, **options) as reader:
            return list(reader)

    def collect(self, app: App, chunks: Any, **options: Any) -> Any:
        return app.collect(chunks, **options)

    def transform(self, app: App, chunks: Any, **options: Any) -> list[Any]:
        with app.transform(chunks, **options) as reader:
            return list(reader)


class AsyncRunner:
    """Runs apps by the asyncio driver, each call on an event loop of its own."""

    name = "async"

    def invoke(self, app: App, input: Any = None, **options: Any) -> Any:
        return self._run(app.ainvoke(input, **options))

    def resume(self, app: App, checkpoint_id: str, answers: Any = None, **options: Any) -> Any:
        return self._run(app.aresume(checkpoint_id, answers, **options))

    def pending(self, app: App, checkpoint_id: str) -> list[InterruptPoint]:
        return self._run(app.apending(checkpoint_id))

    def stream(self, app: App, input: Any = None, **options: Any) -> list[Any]:
        return self._run(_read(lambda: app.astream(input, **options)))

    def collect(self, app: App, chunks: Any, **options: Any) -> Any:
        return self._run(app.acollect(chunks, **options))

    def transform(self, app: App, chunks: Any, **options: Any) -> list[Any]:
        return self._run(_read(lambda: app.atransform(chunks, **options)))

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(call, LIMIT))


async def _read(start: Callable[[], StreamReader[Any]]) -> list[Any]:
    async with start() as reader:
        return [chunk async for chunk in reader]


Runner = SyncRunner | AsyncRunner
