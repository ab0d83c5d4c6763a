"""The two drivers behind one face, so that every runtime test runs against both."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from blobcp import App, InterruptPoint

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


class AsyncRunner:
    """Runs apps by the asyncio driver, each call on an event loop of its own."""

    name = "async"

    def invoke(self, app: App, input: Any = None, **options: Any) -> Any:
        return self._run(app.ainvoke(input, **options))

    def resume(self, app: App, checkpoint_id: str, answers: Any = None, **options: Any) -> Any:
        return self._run(app.aresume(checkpoint_id, answers, **options))

    def pending(self, app: App, checkpoint_id: str) -> list[InterruptPoint]:
        return self._run(app.apending(checkpoint_id))

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(call, LIMIT))


Runner = SyncRunner | AsyncRunner
