"""Small pieces of a stream session: what it has driven, what it makes of chunks, what a node does at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from blobcp.errors import ValueMismatchError
from blobcp.graph.bodies import gives_chunks, value_of
from blobcp.graph.effects import Visit
from blobcp.graph.flow import Refusal
from blobcp.graph.instance import Task
from blobcp.graph.judging import mismatch, node_error
from blobcp.graph.output import Out
from blobcp.graph.parts import StreamTask
from blobcp.graph.session import Steps
from blobcp.scope import Scope
from blobcp.stream.signs import NO_VALUE

__all__ = [
    "MOST_LAZY",
    "Driven",
    "StreamVisit",
    "item_of",
    "joined_chunks",
    "under_key",
    "value_at",
    "works_at_once",
]

MOST_LAZY = 20
"""So many nodes may work one for the other while a chunk is read; a longer row is read to its end in between, as each
needs several frames of Python's stack."""


@dataclass(frozen=True, slots=True)
class Driven:
    """Run this where node functions run; the answer is what it returns.

    Attributes:
        call: what is called in a thread.
        acall: what is awaited on a loop instead; ``None`` where a thread is taken there too.
        value: what it is called with.
    """

    call: Callable[[Any], Any]
    acall: Callable[[Any], Awaitable[Any]] | None
    value: Any


class StreamVisit(Visit):
    """What is done for one task of a stream run.

    Attributes:
        void: whether its task was taken back, so that nobody asks for what comes of it.
        life: all that happens to the task.
    """

    __slots__ = ("life", "void")

    def __init__(self, task: Task, scope: Scope, context: Context) -> None:
        super().__init__(task, scope, context)
        self.void = False
        self.life: Steps | None = None


def works_at_once(task: StreamTask) -> bool:
    """Tell whether code of a node runs before its stream is read."""
    node = task.node
    if node.pre is not None or node.post is not None or node.branches:
        return True
    return node.graph is None and not gives_chunks(task)


def value_at(task: StreamTask | None, path: Sequence[str], out: Out) -> Any:
    """Return the value that a branch chooses by."""
    chunks = out.chunks
    assert chunks is not None, "it was read, since a branch asks for the value"
    if task is not None:
        return joined_chunks(task, chunks)
    return chunks[0] if len(chunks) == 1 else out.value(path)


def joined_chunks(task: StreamTask, chunks: list[Any]) -> Any:
    """Return the value that a node's chunks are.

    Raises:
        NodeError: they can't be joined.
    """
    try:
        return value_of(task, chunks)
    except Exception as error:
        raise node_error(task.path, error) from error


def item_of(task: StreamTask, key: str, chunk: Any) -> Any:
    """Return what a node with an input key takes of a chunk."""
    if not isinstance(chunk, dict):
        message = mismatch(task, f"takes key {key!r} of", "a dict", chunk)
        raise Refusal(ValueMismatchError(message, path=task.path))
    return chunk.get(key, NO_VALUE)


def under_key(key: str, chunk: Any) -> dict[str, Any]:
    """Return a chunk as it travels on under an output key."""
    return {key: chunk}
