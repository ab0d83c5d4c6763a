"""The asyncio driver: does what a session asks for, on the running event loop.

Async node functions run as tasks of the loop, sync ones in threads. Sync handlers and branches run on the loop, as they
are meant to be short; async ones are awaited. A store with plain methods is called in a thread unless it says
``blocking = False``. In a run with a cancel token, handlers and branches run as tasks, so that the run can leave them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing, suppress
from contextvars import copy_context
from typing import Any

from blobcp.cancel import CancelToken
from blobcp.graph.effects import (
    ANYTHING,
    Abandoned,
    Call,
    DeleteBlob,
    Effect,
    Emit,
    Expected,
    GetBlob,
    LetGo,
    RunNodes,
    SetBlob,
    Visit,
    Wait,
    Watch,
)
from blobcp.graph.node import is_async
from blobcp.graph.pool import LeavablePool, Pool, cancelled_inside, make_pool, refuse_coroutine, run_visit, submit
from blobcp.graph.session import CAUGHT, Steps
from blobcp.store import AsyncCheckPointStore, CheckPointStore, CheckPointSwapper
from blobcp.stream.async_iterators import Owned
from blobcp.stream.signs import END

__all__ = ["iterate_async", "run_async"]


async def run_async(steps: Steps, store: CheckPointStore | AsyncCheckPointStore | None) -> Any:
    """Run a session to its end on the running loop and return what it gives."""
    async with _Driver(store) as driver:
        return await driver.run(steps)


async def iterate_async(
    steps: Steps,
    store: CheckPointStore | AsyncCheckPointStore | None,
    clean_up: Callable[[BaseException | None], Awaitable[None]],
) -> AsyncIterator[Any]:
    """Run a session on the running loop and yield what it gives, chunk by chunk; closing this ends the run.

    Args:
        steps: the session.
        store: where it loads and saves.
        clean_up: awaited at the end, however the run ends; told by what.
    """
    try:
        async with _Driver(store) as driver:
            with closing(steps):
                async with aclosing(Owned(driver.iterate(steps))) as chunks:
                    async for chunk in chunks:
                        yield chunk
    except BaseException as error:
        await clean_up(error)
        raise
    await clean_up(None)


class _Stopped(Exception):
    """Carries a StopIteration of user code, which can't leave a coroutine as it is."""

    def __init__(self, error: StopIteration) -> None:
        super().__init__()
        self.error = error


class _Driver:
    def __init__(self, store: CheckPointStore | AsyncCheckPointStore | None) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._pool: Pool | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = 0
        # A run may be started by the clean-up of a task that was cancelled; that cancellation is not the run's.
        self._cancelled_before = _cancellations()
        self._ended: asyncio.Queue[Visit | asyncio.Task[Any] | None] = asyncio.Queue()
        self._early: deque[Visit] = deque()
        self._token: CancelToken | None = None
        self._doers: dict[type[Effect], Callable[[Any], Awaitable[Any]]] = {
            RunNodes: self._run_nodes,
            Call: self._call,
            GetBlob: self._get,
            SetBlob: self._set,
            DeleteBlob: self._delete,
            Wait: self._wait,
            Watch: self._watch,
            LetGo: self._let_go,
        }

    async def __aenter__(self) -> _Driver:
        return self

    async def __aexit__(self, *error: object) -> None:
        cancelled: asyncio.CancelledError | None = None
        if self._token is not None:
            self._token.attach(None)
        for task in self._tasks:
            task.cancel()
        while unfinished := [task for task in self._tasks if not task.done()]:
            try:
                await asyncio.wait(unfinished)
            except asyncio.CancelledError as again:  # a second cancel does not leave tasks behind either
                cancelled = again
        if self._pool is not None:
            self._pool.shutdown(wait=not self._threads, cancel_futures=True)
        if cancelled is not None:
            raise cancelled

    async def run(self, steps: Steps) -> Any:
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
                answer = await doers[type(effect)](effect)
            except _Stopped as stopped:
                error = stopped.error
            except BaseException as raised:
                error = raised

    async def iterate(self, steps: Steps) -> AsyncGenerator[Any, None]:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer = error = None
            if type(effect) is Emit:
                while True:
                    try:
                        chunk = await self._wait(effect.wait)
                    except BaseException as raised:
                        error = raised
                        break
                    if chunk is END:
                        break
                    yield chunk
                continue
            try:
                answer = await self._doers[type(effect)](effect)
            except _Stopped as stopped:
                error = stopped.error
            except BaseException as raised:
                error = raised

    async def _run_nodes(self, request: RunNodes) -> Visit:
        self._start(request.visits)
        visit: Visit = await self._ended.get()  # type: ignore[assignment]  # nothing else is put there without a token
        if visit.error is not None and not isinstance(visit.error, CAUGHT):
            raise visit.error
        return visit

    async def _wait(self, wait: Wait) -> Any:
        if self._token is not None and wait.heeds:
            return await self._call_watched(Call(wait.awaited, (), copy_context()))
        return await self._told_apart(wait.awaited())

    async def _watch(self, watch: Watch) -> None:
        self._token = watch.token
        self._pool = LeavablePool()
        self._doers[RunNodes] = self._run_nodes_watched
        self._doers[Call] = self._call_watched
        watch.token.attach(self._wake)

    def _wake(self) -> None:
        """Make the driver look at its token; may be called from any thread, and from a signal's handler."""
        with suppress(RuntimeError):  # the loop was closed a moment ago, so the run is over
            self._loop.call_soon_threadsafe(self._ended.put_nowait, None)

    async def _let_go(self, _: LetGo) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run_nodes_watched(self, request: RunNodes) -> Visit | None:
        self._start(request.visits)
        visit = self._early.popleft() if self._early else await self._next()
        if visit is None:
            return None
        assert isinstance(visit, Visit), "no call is under way"
        if visit.error is not None and not isinstance(visit.error, CAUGHT):
            raise visit.error
        return visit

    async def _call_watched(self, call: Call) -> Any:
        return await self._told_apart(self._leavable(call))

    async def _leavable(self, call: Call) -> Any:
        assert self._token is not None
        task = self._loop.create_task(self._call_now(call))
        self._tasks.add(task)
        task.add_done_callback(self._ended.put_nowait)
        while (ended := await self._next()) is not task:
            if isinstance(ended, Visit):
                self._early.append(ended)
            elif self._token.due:
                raise Abandoned
        self._tasks.discard(task)
        return task.result()

    async def _next(self) -> Visit | asyncio.Task[Any] | None:
        """Wait for what ends next; ``None`` where the token has changed or is due first."""
        assert self._token is not None
        remaining = self._token.remaining()
        if remaining is None:
            return await self._ended.get()
        timer = self._loop.call_later(remaining, self._ended.put_nowait, None)
        try:
            return await self._ended.get()
        finally:
            timer.cancel()

    def _start(self, visits: Sequence[Visit]) -> None:
        for visit in visits:
            if visit.acall is not None:
                task = self._loop.create_task(self._await_visit(visit, visit.acall), context=visit.context)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                self._pool = self._pool or make_pool()
                submit(self._pool, self._run_in_thread, visit)
                self._threads += 1

    async def _await_visit(self, visit: Visit, acall: Callable[[Any], Awaitable[Any]]) -> None:
        visit.scope.enter(asyncio.current_task())
        try:
            visit.result = await acall(visit.value)
        except asyncio.CancelledError as error:
            # The driver cancels its tasks only when nobody waits for their visits any more.
            visit.error = cancelled_inside(error)
        except BaseException as error:
            visit.error = error
        self._ended.put_nowait(visit)

    def _run_in_thread(self, visit: Visit) -> None:
        run_visit(visit)
        with suppress(RuntimeError):  # the loop is closed: the run is over and has left this node behind
            self._loop.call_soon_threadsafe(self._end_of_thread, visit)

    def _end_of_thread(self, visit: Visit) -> None:
        self._threads -= 1
        self._ended.put_nowait(visit)

    async def _told_apart(self, user_code: Awaitable[Any]) -> Any:
        """Await user code, and tell a cancellation of the run from one that the code brought about itself."""
        try:
            answer = await user_code
        except asyncio.CancelledError as error:
            if self._cancelled():
                raise
            raise cancelled_inside(error) from error
        if self._cancelled():  # swallowed by the code; the run ends all the same
            raise asyncio.CancelledError
        return answer

    def _cancelled(self) -> bool:
        return _cancellations() > self._cancelled_before

    async def _call(self, call: Call) -> Any:
        return await self._told_apart(self._call_now(call))

    async def _call_now(self, call: Call) -> Any:
        if is_async(call.call):
            return await self._loop.create_task(_await_call(call), context=call.context)
        if call.scope is not None:
            call.scope.enter(asyncio.current_task())
        if call.lock is None:
            return _called(call)
        await call.lock.acquire_async()
        try:
            return _called(call)
        finally:
            call.lock.release()

    async def _get(self, get: GetBlob) -> tuple[bytes | None, Expected]:
        if isinstance(self._store, CheckPointSwapper):
            return await self._on_store("get_versioned", get.checkpoint_id) or (None, None)
        return await self._on_store("get", get.checkpoint_id), ANYTHING

    async def _set(self, put: SetBlob) -> Expected:
        if isinstance(self._store, CheckPointSwapper) and put.expected is not ANYTHING:
            version: str = await self._on_store("set_if", put.checkpoint_id, put.blob, put.expected)
            return version
        await self._on_store("set", put.checkpoint_id, put.blob)
        return ANYTHING

    async def _delete(self, delete: DeleteBlob) -> None:
        await self._on_store("delete", delete.checkpoint_id)

    async def _on_store(self, method: str, *arguments: object) -> Any:
        return await self._told_apart(self._on_store_now(getattr(self._store, method), *arguments))

    async def _on_store_now(self, call: Callable[..., Any], *arguments: object) -> Any:
        if inspect.iscoroutinefunction(call) or not getattr(self._store, "blocking", True):
            answer = _carried(call, *arguments)
        else:
            answer = await asyncio.to_thread(_carried, call, *arguments)
        return await answer if inspect.isawaitable(answer) else answer


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _called(call: Call) -> Any:
    return refuse_coroutine(_carried(call.context.run, call.call, *call.arguments))


def _carried(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except StopIteration as error:
        raise _Stopped(error) from error


async def _await_call(call: Call) -> Any:
    """Await an async handler; the task that holds the lock is the one the handler runs in."""
    if call.scope is not None:
        call.scope.enter(asyncio.current_task())
    if call.lock is None:
        return await call.call(*call.arguments)
    await call.lock.acquire_async()
    try:
        return await call.call(*call.arguments)
    finally:
        call.lock.release()
