"""Reading what is stored under an id, and telling what waits there."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import copy_context
from typing import Any

from blobcp.checkpointer import Checkpointer, Loaded
from blobcp.errors import BlobcpError, CheckpointDoneError, CheckpointNotFoundError, StoreError, text_of
from blobcp.graph.describe import stored_points
from blobcp.graph.effects import Effect, Expected, GetBlob
from blobcp.graph.plan import GraphPlan
from blobcp.graph.session import make_cell
from blobcp.graph.state_types import StateTypes
from blobcp.points import InterruptPoint

__all__ = ["nothing_to_go_on_with", "pending_points", "read_checkpoint"]


def read_checkpoint(
    checkpoint_id: str, checkpointer: Checkpointer, plan: GraphPlan, types: StateTypes
) -> Generator[Effect, Any, tuple[Loaded | None, Expected]]:
    """Read and decode what is stored under an id; ``None`` where the store says that there is nothing.

    Returns:
        What was read, and what a later write may expect to find there.

    Raises:
        StoreError: the store could not tell.
        CheckpointError: what is there can't be used by this graph.
    """
    try:
        blob, expected = yield GetBlob(checkpoint_id)
    except BlobcpError:
        raise
    except Exception as error:
        raise StoreError(f"the store could not read checkpoint {checkpoint_id!r}: {text_of(error)}") from error
    if blob is None:
        return None, expected
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StoreError(
            f"the store gave {type(blob).__qualname__} for checkpoint {checkpoint_id!r}; get must return bytes or None"
        )
    for path, graph in types.unknown():
        yield from make_cell(graph, path, copy_context(), types)
    loaded = checkpointer.decode(checkpoint_id, bytes(blob), plan.name)
    return loaded, expected


def pending_points(
    checkpoint_id: str, checkpointer: Checkpointer, plan: GraphPlan, types: StateTypes
) -> Generator[Effect, Any, list[InterruptPoint]]:
    """Return the points that wait under an id; none for a finished run.

    Raises:
        CheckpointNotFoundError: nothing is stored there.
    """
    loaded, _ = yield from read_checkpoint(checkpoint_id, checkpointer, plan, types)
    if loaded is None:
        raise nothing_to_go_on_with(checkpoint_id, finished=False)
    return stored_points(loaded.checkpoint) if loaded.checkpoint else []


def nothing_to_go_on_with(checkpoint_id: str, *, finished: bool) -> CheckpointDoneError | CheckpointNotFoundError:
    """Return the error for a run that was to go on where it can't."""
    if finished:
        return CheckpointDoneError(
            f"checkpoint {checkpoint_id!r} is finished, nothing is pending there; "
            "start a new run with invoke, or with force_new_run where it is to be forked",
            checkpoint_id=checkpoint_id,
        )
    return CheckpointNotFoundError(
        f"checkpoint {checkpoint_id!r} was not found in the store, so there is nothing to resume or fork; "
        "check the id, or start a new run without answers",
        checkpoint_id=checkpoint_id,
    )
