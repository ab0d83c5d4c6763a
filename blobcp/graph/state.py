"""A graph's state while it runs: the cell that holds it, its lock, and the way for node code to reach it.

The lock is re-entrant and is held for a whole handler or ``use_state`` block. It serves threads and asyncio tasks
alike: an owner is a thread together with the task it is running, if any.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from blobcp.errors import StateError
from blobcp.scope import Scope, current_scope, running_task

__all__ = ["StateCell", "StateLock", "use_state"]

S = TypeVar("S")
Owner = tuple[int, object]


class StateLock:
    """A re-entrant lock for threads and tasks, fair in the order of asking."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: Owner | None = None
        self._depth = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def acquire(self) -> None:
        """Take the lock, waiting in this thread.

        Raises:
            StateError: another task of this thread's event loop holds it, so that waiting here would never end.
        """
        me = _me()
        while not self._take(me):
            turn = threading.Event()
            with self._guard:
                if self._owner is None:
                    continue
                if self._owner[0] == me[0]:
                    raise StateError(
                        "the state is locked by another task of this event loop, across an await; "
                        "write `async with use_state(...)` where a block awaits and where it may meet one that does"
                    )
                self._waiting.append(turn.set)
            turn.wait()

    async def acquire_async(self) -> None:
        """Take the lock, waiting without blocking the event loop."""
        me = _me()
        loop = asyncio.get_running_loop()
        while not self._take(me):
            turn = loop.create_future()

            def wake(turn: asyncio.Future[None] = turn) -> None:
                loop.call_soon_threadsafe(_set, turn)

            with self._guard:
                if self._owner is None:
                    continue
                self._waiting.append(wake)
            try:
                await turn
            except asyncio.CancelledError:
                self._give_up(wake)
                raise

    def release(self) -> None:
        """Give the lock back, and wake the one that has waited longest."""
        with self._guard:
            self._depth -= 1
            if self._depth:
                return
            self._owner = None
            wake = self._waiting.popleft() if self._waiting else None
        if wake:
            wake()

    def _take(self, me: Owner) -> bool:
        with self._guard:
            if self._owner is not None and self._owner != me:
                return False
            self._owner = me
            self._depth += 1
            return True

    def _give_up(self, wake: Callable[[], None]) -> None:
        """Leave the queue; a wake-up that was already on its way here goes to the next in line."""
        with self._guard:
            if wake in self._waiting:
                self._waiting.remove(wake)
                return
            following = self._waiting.popleft() if self._waiting and self._owner is None else None
        if following:
            following()


class StateCell:
    """The state of one graph instance, and its lock."""

    __slots__ = ("lock", "state")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.lock = StateLock()


class use_state(Generic[S]):  # noqa: N801 - reads as a function, like contextlib's own
    """Reach the state of the graph that the running node is in, or of one round it, locked for the block.

    Args:
        type: the class of the state. The innermost graph whose state is of it is meant, through nested graphs and
            apps called from nodes, so that a nested state hides an outer one of the same class.

    Raises:
        StateError: no graph on the way out has a state of that class, or none has a state at all.
        OutsideNodeError: no node runs here.

    ``with use_state(Order) as order: ...`` serves sync and async code whose block does not await;
    ``async with use_state(Order) as order: ...`` serves blocks that do. An assignment to the name does not reach the
    graph: change the object.
    """

    def __init__(self, type: type[S]) -> None:
        self._type = type
        self._held: list[StateCell] = []

    def __enter__(self) -> S:
        cell, state = self._find()
        cell.lock.acquire()
        self._held.append(cell)
        return state

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.pop().lock.release()

    async def __aenter__(self) -> S:
        cell, state = self._find()
        await cell.lock.acquire_async()
        self._held.append(cell)
        return state

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._held.pop().lock.release()

    def _find(self) -> tuple[StateCell, S]:
        scope = current_scope("use_state()")
        innermost: StateCell | None = None
        for frame in scope.frame.outwards():
            cell = frame.cell
            if not isinstance(cell, StateCell):
                continue
            if isinstance(cell.state, self._type):
                return cell, cell.state
            innermost = innermost or cell
        raise StateError(_not_found(self._type, innermost, scope))


def _not_found(wanted: type[Any], innermost: StateCell | None, scope: Scope) -> str:
    if innermost is None:
        return f"no state: {scope.address} asks for {wanted.__qualname__}, and no graph there has one; give Graph(state=...)"
    return (
        f"no state of class {wanted.__qualname__} is there for {scope.address}; "
        f"the innermost state is of class {type(innermost.state).__qualname__}"
    )


def _me() -> Owner:
    return threading.get_ident(), running_task()


def _set(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
