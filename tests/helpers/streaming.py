"""Nodes that stream, and stored runs looked into, for tests of stream runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blobcp import Checkpoint, Envelope, MsgpackSerializer, StreamReader
from blobcp.checkpointer import Checkpointer

__all__ = ["emitting", "passing", "record_of"]


def emitting(*chunks: Any) -> Callable[[Any], Iterator[Any]]:
    """Return a node that gives these chunks, whatever it takes."""

    def node(value: Any) -> Iterator[Any]:
        yield from chunks

    return node


def passing(chunks: StreamReader[Any]) -> Iterator[Any]:
    """Give each chunk on as it comes."""
    yield from chunks


def record_of(store: Any, checkpoint_id: str) -> Checkpoint:
    """Return what is stored under an id."""
    blob = store.get(checkpoint_id)
    assert blob is not None, f"nothing is stored under {checkpoint_id!r}"
    record = Checkpointer(MsgpackSerializer(), Envelope()).decode(checkpoint_id, blob).checkpoint
    assert record is not None, "it is finished"
    return record
