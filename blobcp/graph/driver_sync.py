"""The threaded driver: does what a session asks for, in the caller's thread and a pool of its own.

One task at a time runs in the caller's thread; tasks that may run side by side run in threads. Handlers, branches and
the store are called in the caller's thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import CoroutineType
from typing import Any

from blobcp.graph.effects import ANYTHING, Call, DeleteBlob, Effect, Expected, GetBlob, RunNodes, SetBlob, Visit
from blobcp.graph.pool import cancelled_inside, make_pool, refuse_coroutine, run_visit, submit
from blobcp.graph.session import CAUGHT, Steps
from blobcp.scope import running_task
from blobcp.store import CheckPointDeleter, CheckPointStore, CheckPointSwapper

__all__ = ["run_sync"]


def run_sync(steps: Steps, store: CheckPointStore | None) -> Any:
    """Run a session to its end in this thread and return what it gives."""
    with _Driver(store) as driver:
        return driver.run(steps)


class _Driver:
    def __init__(self, store: CheckPointStore | None) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        self._ended: SimpleQueue[Visit] = SimpleQueue()
        self._flying = 0
        self._task = running_task()
        self._doers: dict[type[Effect], Callable[[Any], Any]] = {
            RunNodes: self._run_nodes,
            Call: self._call,
            GetBlob: self._get,
            SetBlob: self._set,
            DeleteBlob: self._delete,
        }

    def __enter__(self) -> _Driver:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=not self._flying, cancel_futures=True)

    def run(self, steps: Steps) -> Any:
        doers = self._doers
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            answer = error = None
            try:
                answer = doers[type(effect)](effect)
            except BaseException as raised:
                error = raised

    def _run_nodes(self, request: RunNodes) -> Visit:
        visits = request.visits
        if self._flying == 0 and len(visits) == 1:
            visit = visits[0]
            run_visit(visit, self._task)
        else:
            self._start(visits)
            visit = self._ended.get()
            self._flying -= 1
        if visit.error is not None and not isinstance(visit.error, CAUGHT):
            raise visit.error
        return visit

    def _start(self, visits: Sequence[Visit]) -> None:
        if self._pool is None:
            self._pool = make_pool()
        for visit in visits:
            submit(self._pool, self._run_and_tell, visit)
            self._flying += 1

    def _run_and_tell(self, visit: Visit) -> None:
        run_visit(visit)
        self._ended.put(visit)

    def _call(self, call: Call) -> Any:
        if call.scope is not None:
            call.scope.enter(self._task)
        if call.lock is not None:
            call.lock.acquire()
        try:
            return refuse_coroutine(call.context.run(call.call, *call.arguments))
        except asyncio.CancelledError as error:
            raise cancelled_inside(error) from error
        finally:
            if call.lock is not None:
                call.lock.release()

    def _get(self, get: GetBlob) -> tuple[bytes | None, Expected]:
        assert self._store is not None
        if isinstance(self._store, CheckPointSwapper):
            return _done(self._store.get_versioned, get.checkpoint_id) or (None, None)
        return _done(self._store.get, get.checkpoint_id), ANYTHING

    def _set(self, put: SetBlob) -> Expected:
        assert self._store is not None
        if isinstance(self._store, CheckPointSwapper) and put.expected is not ANYTHING:
            version: str = _done(self._store.set_if, put.checkpoint_id, put.blob, put.expected)
            return version
        _done(self._store.set, put.checkpoint_id, put.blob)
        return ANYTHING

    def _delete(self, delete: DeleteBlob) -> None:
        assert isinstance(self._store, CheckPointDeleter)
        _done(self._store.delete, delete.checkpoint_id)


def _done(call: Callable[..., Any], *arguments: object) -> Any:
    """Call a store; what it gives to await has not happened, and must not pass for done."""
    try:
        answer = call(*arguments)
    except asyncio.CancelledError as error:
        raise cancelled_inside(error) from error
    if inspect.isawaitable(answer):
        if isinstance(answer, CoroutineType):
            answer.close()
        raise TypeError("the store's methods have to be awaited; use ainvoke, aresume or apending")
    return answer
