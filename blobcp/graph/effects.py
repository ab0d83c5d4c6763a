"""What a session asks of its driver: a few small requests, the whole border between deciding and doing.

A session is a generator. It yields one of these, the driver does it and sends the result back, or throws the exception
that came of it. Both drivers answer the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from blobcp.graph.instance import Task
from blobcp.graph.state import StateLock
from blobcp.scope import Scope

__all__ = ["Call", "DeleteBlob", "Effect", "GetBlob", "Launch", "Next", "SetBlob", "Visit"]


class Visit:
    """A node function that is to run, and then what came of it.

    Attributes:
        task: the machine's task.
        scope: what the node sees of the run.
        context: the context that the node and its handlers run in.
        value: what the function is called with.
        result: what it returned.
        error: what it raised instead.
    """

    __slots__ = ("context", "error", "result", "scope", "task", "value")

    def __init__(self, task: Task, scope: Scope, context: Context) -> None:
        self.task = task
        self.scope = scope
        self.context = context
        self.value: Any = None
        self.result: Any = None
        self.error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class GetBlob:
    """Read the store; the answer is bytes or ``None``."""

    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class SetBlob:
    """Write the store."""

    checkpoint_id: str
    blob: bytes


@dataclass(frozen=True, slots=True)
class DeleteBlob:
    """Remove from the store."""

    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Call:
    """Call user code now, in this context and under this lock; the answer is what it returns, awaited if need be.

    ``scope`` is that of the node whose handler it is.
    """

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: Context
    lock: StateLock | None = None
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Start node functions, side by side; there is no answer."""

    visits: Sequence[Visit]


class Next:
    """Wait until any launched function has ended; the answer is its visit, with ``result`` or ``error`` set."""

    __slots__ = ()


Effect = GetBlob | SetBlob | DeleteBlob | Call | Launch | Next
