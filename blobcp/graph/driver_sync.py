"""The threaded driver: does what a session asks for, in the caller's thread and a pool of its own.

One task at a time runs in the caller's thread; tasks that may run side by side run in threads. Handlers, branches and
the store are called in the caller's thread. In a run with a cancel token the caller's thread runs nothing of the user's
but the store, so that it can leave the rest behind.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import Any

from blobcp.cancel import CancelToken
from blobcp.graph.effects import (
    ANYTHING,
    Abandoned,
    Call,
    DeleteBlob,
    Effect,
    Expected,
    GetBlob,
    LetGo,
    RunNodes,
    SetBlob,
    Visit,
    Watch,
)
from blobcp.graph.pool import LeavablePool, Pool, cancelled_inside, make_pool, refuse_coroutine, run_visit, submit
from blobcp.graph.session import CAUGHT, Steps
from blobcp.scope import running_task
from blobcp.store import CheckPointDeleter, CheckPointStore, CheckPointSwapper

__all__ = ["run_sync"]


def run_sync(steps: Steps, store: CheckPointStore | None) -> Any:
    """Run a session to its end in this thread and return what it gives."""
    with _Driver(store) as driver:
        return driver.run(steps)


@dataclass(eq=False, slots=True)
class _Called:
    """A call in a thread of its own, and then what came of it."""

    call: Call
    result: Any = None
    error: BaseException | None = None


class _Driver:
    def __init__(self, store: CheckPointStore | None) -> None:
        self._store = store
        self._pool: Pool | None = None
        self._ended: SimpleQueue[Visit | _Called | None] = SimpleQueue()
        self._early: deque[Visit] = deque()
        self._flying = 0
        self._token: CancelToken | None = None
        self._task = running_task()
        self._doers: dict[type[Effect], Callable[[Any], Any]] = {
            RunNodes: self._run_nodes,
            Call: self._call,
            GetBlob: self._get,
            SetBlob: self._set,
            DeleteBlob: self._delete,
            Watch: self._watch,
            LetGo: _nothing,
        }

    def __enter__(self) -> _Driver:
        return self

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            self._token.attach(None)
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
            visit = self._ended.get()  # type: ignore[assignment]  # nothing else is put there without a token
            self._flying -= 1
        if visit.error is not None and not isinstance(visit.error, CAUGHT):
            raise visit.error
        return visit

    def _watch(self, watch: Watch) -> None:
        self._token = watch.token
        self._pool = LeavablePool()
        self._doers[RunNodes] = self._run_nodes_watched
        self._doers[Call] = self._call_watched
        watch.token.attach(lambda: self._ended.put(None))

    def _run_nodes_watched(self, request: RunNodes) -> Visit | None:
        self._start(request.visits)
        visit = self._early.popleft() if self._early else self._next()
        if visit is None:
            return None
        assert isinstance(visit, Visit), "no call is under way"
        self._flying -= 1
        if visit.error is not None and not isinstance(visit.error, CAUGHT):
            raise visit.error
        return visit

    def _call_watched(self, call: Call) -> Any:
        assert self._token is not None
        assert self._pool is not None
        called = _Called(call)
        self._pool.submit(self._call_and_tell, called)
        self._flying += 1
        while (ended := self._next()) is not called:
            if isinstance(ended, Visit):
                self._early.append(ended)
            elif self._token.due:
                raise Abandoned
        self._flying -= 1
        if called.error is not None:
            raise called.error
        return called.result

    def _call_and_tell(self, called: _Called) -> None:
        try:
            called.result = self._call(called.call)
        except BaseException as error:
            called.error = error
        self._ended.put(called)

    def _next(self) -> Visit | _Called | None:
        """Wait for what ends next; ``None`` where the token has changed or is due first."""
        assert self._token is not None
        try:
            return self._ended.get(timeout=self._token.remaining())
        except Empty:
            return None

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


def _nothing(effect: Effect) -> None:
    """Do nothing: a thread can't be cancelled."""


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
