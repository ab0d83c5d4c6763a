"""What a session asks of its driver: a few small requests, the whole border between deciding and doing.

A session is a generator. It yields one of these, the driver does it and sends the result back, or throws the exception
that came of it. Both drivers answer the same requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from blobcp.cancel import CancelToken
from blobcp.graph.instance import Task
from blobcp.graph.state import StateLock
from blobcp.scope import Scope

__all__ = [
    "ANYTHING",
    "Abandoned",
    "Call",
    "DeleteBlob",
    "Effect",
    "Emit",
    "Expected",
    "GetBlob",
    "LetGo",
    "RunNodes",
    "SetBlob",
    "Visit",
    "Wait",
    "Watch",
]


class Visit:
    """A node function that is to run, and then what came of it.

    Attributes:
        task: the machine's task.
        scope: what the node sees of the run.
        context: the context that the node and its handlers run in.
        call: what is called in a thread.
        acall: what is awaited on a loop instead; ``None`` where a thread is taken there too.
        value: what the function is called with.
        result: what it returned.
        error: what it raised instead.
    """

    __slots__ = ("acall", "call", "context", "error", "result", "scope", "task", "value")

    def __init__(self, task: Task, scope: Scope, context: Context) -> None:
        self.task = task
        self.scope = scope
        self.context = context
        self.call = task.node.call
        self.acall = task.node.acall
        self.value: Any = None
        self.result: Any = None
        self.error: BaseException | None = None


class Anything(Enum):
    """The type of :data:`ANYTHING`."""

    ANYTHING = "ANYTHING"


ANYTHING: Final = Anything.ANYTHING
"""As what is expected under an id: whatever is there may be replaced."""

Expected = str | None | Anything
"""What must still be under an id for a write to be right: a version, nothing at all (``None``), or anything."""


@dataclass(frozen=True, slots=True)
class GetBlob:
    """Read the store; the answer is the bytes or ``None``, and what a later write may expect to find there.

    That is anything, where the store can't compare and set.
    """

    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class SetBlob:
    """Write the store, if what is expected is still there; the answer is what a further write may expect."""

    checkpoint_id: str
    blob: bytes
    expected: Expected = ANYTHING


@dataclass(frozen=True, slots=True)
class DeleteBlob:
    """Remove from the store."""

    checkpoint_id: str


class Call:
    """Call user code now; the answer is what it returns, awaited if need be.

    In a run with a token, `Abandoned` is thrown instead where the token is due before the call has ended.

    Attributes:
        call: the function.
        arguments: what it is called with.
        context: the context it runs in.
        lock: held meanwhile.
        scope: that of the node whose handler it is.
    """

    __slots__ = ("arguments", "call", "context", "lock", "scope")

    def __init__(
        self,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        context: Context,
        lock: StateLock | None = None,
        scope: Scope | None = None,
    ) -> None:
        self.call = call
        self.arguments = arguments
        self.context = context
        self.lock = lock
        self.scope = scope


class RunNodes:
    """Start node functions, side by side, then wait until any that was started has ended; the answer is its visit.

    In a run with a token the answer is ``None`` where the token has changed, or is due, before any has ended.

    Attributes:
        visits: what to start; nothing, to wait only.
    """

    __slots__ = ("visits",)

    def __init__(self, visits: Sequence[Visit]) -> None:
        self.visits = visits


@dataclass(frozen=True, slots=True)
class Watch:
    """From now on heed this token: run user code so that it can be left behind."""

    token: CancelToken


class LetGo:
    """Cancel the node functions that are still under way, where they can be; nobody asks for their results."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for something of a stream, by one of two functions without arguments; the answer is what it returns.

    In a run with a token, `Abandoned` is thrown instead where the token is due before that.

    Attributes:
        here: for a driver of threads.
        awaited: for a driver on an event loop.
        heeds: whether a token that is due ends the wait.
    """

    here: Callable[[], Any]
    awaited: Callable[[], Awaitable[Any]]
    heeds: bool = True


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand the output to whoever reads the run, chunk by chunk, until a wait answers ``END``; only in runs that are read."""

    wait: Wait


class Abandoned(BaseException):
    """The token is due while user code runs that is not to be waited for."""


Effect = GetBlob | SetBlob | DeleteBlob | Call | RunNodes | Watch | LetGo | Wait | Emit
