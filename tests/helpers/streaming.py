"""Nodes that stream, and stored runs looked into, for tests of stream runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from blobcp import Checkpoint, Envelope, MsgpackSerializer, StreamReader
from blobcp.checkpointer import Checkpointer

__all__ = ["Background", "emitting", "passing", "record_of"]


def emitting(*chunks: Any) -> Callable[[Any], Iterator[Any]]:
    """Return a node that gives these chunks, whatever it takes."""

    def node(value: Any) -> Iterator[Any]:
        yield from chunks

    return node


def passing(chunks: StreamReader[Any]) -> Iterator[Any]:
    """Give each chunk on as it comes."""
    yield from chunks


class Background:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._result.set_result(call())
        except BaseException as error:
            self._result.set_exception(error)

    def error(self, limit: float = 20.0) -> BaseException | None:
        """Return what the call raised, or ``None``."""
        error = self._result.exception(limit)
        self._thread.join(limit)
        return error


def record_of(store: Any, checkpoint_id: str) -> Checkpoint:
    """Return what is stored under an id."""
    blob = store.get(checkpoint_id)
    assert blob is not None, f"nothing is stored under {checkpoint_id!r}"
    record = Checkpointer(MsgpackSerializer(), Envelope()).decode(checkpoint_id, blob).checkpoint
    assert record is not None, "it is finished"
    return record
