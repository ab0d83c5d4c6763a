"""A graph's state while it runs: the cell that holds it, its lock, and the way for node code to reach it.

The lock is re-entrant and is held for a whole handler or ``use_state`` block. It serves threads and asyncio tasks
alike: an owner is a thread together with the task it is running, if any.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

from blobcp.errors import StateError
from blobcp.resumption import Snapshot
from blobcp.scope import Owner, Scope, current_scope, this_owner

__all__ = ["StateCell", "StateLock", "use_state"]

S = TypeVar("S")


@dataclass(eq=False, slots=True)
class _Waiter:
    owner: Owner
    wake: Callable[[], object]


class StateLock:
    """A re-entrant lock for threads and tasks, given to those who wait in the order in which they asked."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: Owner | None = None
        self._depth = 0
        self._waiting: deque[_Waiter] = deque()

    def acquire(self) -> None:
        """Take the lock, waiting in this thread.

        Raises:
            StateError: something else of this thread holds it, so that waiting here would never end.
        """
        turn = threading.Event()
        waiter = _Waiter(this_owner(), turn.set)
        if self._take_or_wait(waiter, blocks_loop=True):
            return
        try:
            turn.wait()
        except BaseException:  # Ctrl-C
            self._give_up(waiter)
            raise

    async def acquire_async(self) -> None:
        """Take the lock, waiting without blocking the event loop.

        Raises:
            StateError: code that called this event loop holds it, so that waiting here would never end.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        waiter = _Waiter(this_owner(), lambda: loop.call_soon_threadsafe(_set, turn))
        if self._take_or_wait(waiter, blocks_loop=False):
            return
        try:
            await turn
        except BaseException:  # cancelled, or closed
            self._give_up(waiter)
            raise

    def release(self) -> None:
        """Give the lock back; the one that has waited longest has it then."""
        with self._guard:
            self._depth -= 1
            if self._depth:
                return
        self._hand_over()

    def refuse_wait_for(self, callers: Sequence[Owner]) -> None:
        """Refuse a wait for somebody who waits for us.

        Raises:
            StateError: one of these holds the lock while the app that it called asks for it.
        """
        owner = self._owner
        if owner is not None and owner in callers and owner != this_owner():
            raise StateError(
                "the state is locked by the code that called this app and waits for it; "
                "leave the handler or the use_state block before calling an app whose nodes reach the same state"
            )

    def _take_or_wait(self, waiter: _Waiter, *, blocks_loop: bool) -> bool:
        with self._guard:
            if self._owner is None or self._owner == waiter.owner:
                self._owner = waiter.owner
                self._depth += 1
                return True
            thread, task = self._owner
            if thread == waiter.owner[0] and (blocks_loop or task is None):
                raise StateError(
                    "the state is locked by other code of this thread that can't go on meanwhile: by another task across an "
                    "await, or by the caller of this event loop. Write `async with use_state(...)` where a block awaits and "
                    "where it may meet one that does, and leave a block before an event loop is run in it"
                )
            self._waiting.append(waiter)
            return False

    def _hand_over(self) -> None:
        """Give the lock, which nobody holds any more, to the next in line."""
        while True:
            with self._guard:
                if not self._waiting:
                    self._owner = None
                    return
                waiter = self._waiting.popleft()
                self._owner = waiter.owner
                self._depth = 1
            try:
                waiter.wake()
            except RuntimeError:  # its event loop was closed, so that nobody waits there any more
                continue
            return

    def _give_up(self, waiter: _Waiter) -> None:
        """Leave the queue, or pass on a lock that was handed over at the same moment."""
        with self._guard:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return
        self._hand_over()


class StateCell:
    """The state of one graph instance, and its lock."""

    __slots__ = ("lock", "state")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.lock = StateLock()

    def guard(self, snapshot: Snapshot) -> None:
        """Keep the state as it was before whatever holds the lock, for a run that may have to leave that behind."""
        self.lock = GuardedLock(self, snapshot)

    def close(self) -> None:
        """Let nothing take the lock any more; needs a guard."""
        assert isinstance(self.lock, GuardedLock), "guarded before the run began"
        self.lock.closed = True

    def settled(self) -> Any:
        """Return the state; after `close`, without what was under way then."""
        return self.lock.settled() if isinstance(self.lock, GuardedLock) else self.state


class GuardedLock(StateLock):
    """The lock of a state that can be closed while code holds it that will never be waited for.

    What such code does to the state from then on is seen by nobody. It takes no lock to close: code that has the lock and
    does not see ``closed`` has stored ``_before`` first, so that whoever closes and then finds none knows that it will.
    """

    def __init__(self, cell: StateCell, snapshot: Snapshot) -> None:
        super().__init__()
        self._cell = cell
        self._snapshot = snapshot
        self._before: Callable[[], Any] | None = None
        self.closed = False

    def acquire(self) -> None:
        super().acquire()
        self._enter()

    async def acquire_async(self) -> None:
        await super().acquire_async()
        self._enter()

    def release(self) -> None:
        if self._depth == 1:
            self._before = None
        super().release()

    def settled(self) -> Any:
        """Return the state as it was before what holds the lock now."""
        before = self._before
        return self._cell.state if before is None or not self.closed else before()

    def _enter(self) -> None:
        if self._depth == 1:
            self._before = self._snapshot(self._cell.state)
        if self.closed:
            self.release()
            raise StateError("the run was cancelled and has left this node behind; what it does is of no use any more")


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
        callers: list[Owner] = []
        for frame in scope.frame.outwards():
            cell = frame.cell
            if isinstance(cell, StateCell):
                if isinstance(cell.state, self._type):
                    cell.lock.refuse_wait_for(callers)
                    return cell, cell.state
                innermost = innermost or cell
            if frame.caller is not None:
                callers.append(frame.caller)
        raise StateError(_not_found(self._type, innermost, scope))


def _not_found(wanted: type[Any], innermost: StateCell | None, scope: Scope) -> str:
    if innermost is None:
        return f"no state: {scope.address} asks for {wanted.__qualname__}, and no graph there has one; give Graph(state=...)"
    return (
        f"no state of class {wanted.__qualname__} is there for {scope.address}; "
        f"the innermost state is of class {type(innermost.state).__qualname__}"
    )


def _set(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
