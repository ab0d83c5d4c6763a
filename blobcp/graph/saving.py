"""Storing a stopped run, so that nothing is lost where that fails; and storing it after all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from blobcp.checkpoint import Address, Checkpoint, InterruptState
from blobcp.checkpointer import Checkpointer, Loaded
from blobcp.codec import Header, Parent, PendingInterrupt
from blobcp.codec.envelope import Status
from blobcp.errors import CheckpointConflictError, CheckpointSaveError, OptionError, text_of
from blobcp.graph.effects import ANYTHING, Expected, GetBlob, LetGo, SetBlob
from blobcp.graph.options import RunOptions
from blobcp.graph.session import Steps
from blobcp.points import InterruptInfo, InterruptPoint, Signal, flatten
from blobcp.resumption import NO_DATA, Entry

__all__ = ["conflict", "header_of", "keep_points", "retry_save", "save_stop", "stopped_at"]


def save_stop(
    checkpointer: Checkpointer,
    checkpoint: Checkpoint,
    header: Header,
    points: Sequence[InterruptPoint],
    info: InterruptInfo,
    completed: Iterable[str] = (),
    expected: Expected = ANYTHING,
) -> Steps:
    """Encode a stopped run and store it.

    Args:
        checkpointer: makes the blob.
        checkpoint: what is to be stored.
        header: its header.
        points: what waits for an answer.
        info: where the run stands.
        completed: the nodes that could have made what can't be encoded.
        expected: what the run has seen under the id.

    Raises:
        CheckpointConflictError: somebody else has moved the checkpoint on.
        CheckpointSaveError: it is not stored; the error holds the checkpoint or the blob, and the points.
    """
    where = f"checkpoint {header.checkpoint_id!r} was not saved ({stopped_at(info)})"
    try:
        blob = checkpointer.encode(checkpoint, header)
    except Exception as error:
        raise CheckpointSaveError(
            f"{where}: {text_of(error)}; {_suspects(completed)}the checkpoint is in error.checkpoint, what is stored under "
            "the id was not changed. app.retry_save(error) tries again",
            checkpoint_id=header.checkpoint_id,
            interrupts=points,
            info=info,
            header=header,
            checkpoint=checkpoint,
            seen=None if expected is ANYTHING else (expected,),
        ) from error
    yield LetGo()
    try:
        yield SetBlob(header.checkpoint_id, blob, expected)
    except CheckpointConflictError as error:
        raise conflict(header.checkpoint_id, f"that it {stopped_at(info)}") from error
    except Exception as error:
        raise CheckpointSaveError(
            f"{where}: {text_of(error)}; app.retry_save(error), or store.set(error.checkpoint_id, error.blob), completes the save",
            checkpoint_id=header.checkpoint_id,
            interrupts=points,
            info=info,
            header=header,
            blob=blob,
            seen=None if expected is ANYTHING else (expected,),
        ) from error


def conflict(checkpoint_id: str, what: str) -> CheckpointConflictError:
    """Return the error of a run that was overtaken while it ran."""
    return CheckpointConflictError(
        f"conflict: checkpoint {checkpoint_id!r} was moved on by somebody else while this run went on from it; {what} is not "
        "stored. See what is pending there now",
        checkpoint_id=checkpoint_id,
    )


def _suspects(completed: Iterable[str]) -> str:
    names = list(completed)
    return f"nodes that finished since the last checkpoint: {names}; " if names else ""


def retry_save(error: CheckpointSaveError, checkpointer: Checkpointer) -> Steps:
    """Complete a save that has failed.

    Raises:
        CheckpointConflictError: somebody else has moved the checkpoint on meanwhile.
        CheckpointSaveError: it failed again.
        OptionError: the error holds nothing that could be stored.
    """
    expected = ANYTHING if error.seen is None else error.seen[0]
    if error.blob is not None and error.checkpoint_id is not None:
        try:
            yield SetBlob(error.checkpoint_id, error.blob, expected)
        except CheckpointConflictError as again:
            stored, _ = yield GetBlob(error.checkpoint_id)
            if stored != error.blob:  # else it was this save that got there, by an earlier try
                raise conflict(error.checkpoint_id, "what the error holds") from again
        except Exception as again:
            error.add_note(f"and again: {text_of(again)}")
            raise error from again
    elif error.checkpoint is not None and error.header is not None and error.info is not None:
        yield from save_stop(
            checkpointer, error.checkpoint, error.header, error.interrupts, error.info, expected=expected
        )
    else:
        raise OptionError("the error holds neither a blob nor a checkpoint, so there is nothing to store")


def header_of(
    loaded: Loaded | None,
    options: RunOptions,
    checkpoint_id: str,
    *,
    serializer: str,
    state_version: int,
    graph: str,
    steps: int,
    status: Status,
    points: Iterable[InterruptPoint] = (),
) -> Header:
    """Return the header of a blob: what it goes on from, and where it stands.

    Args:
        loaded: what the run was loaded from. A fork names it as its parent; a run under the same id keeps its parent.
        options: what the run was asked for.
        checkpoint_id: where the blob goes.
        serializer: the name of the serializer.
        state_version: the version of the state schema of today; 0 where none is declared.
        graph: the name of the graph.
        steps: how many steps the root graph has done in this run.
        status: where it stands.
        points: what waits for an answer.
    """
    before = loaded.header if loaded is not None and loaded.checkpoint is not None else None
    forks = before is not None and options.forks
    parent = before.parent if before is not None else None
    if forks and loaded is not None:
        parent = Parent(id=loaded.header.checkpoint_id, digest=loaded.digest)
    return Header(
        serializer=serializer,
        state_version=state_version,
        graph=graph,
        checkpoint_id=checkpoint_id,
        parent=parent,
        run_id=before.run_id if before is not None and not forks else uuid4().hex,
        step=(before.step if before is not None else 0) + steps,
        created_at=datetime.now(UTC),
        status=status,
        pending=[PendingInterrupt(id=point.id, address=str(point.address)) for point in points],
    )


def keep_points(checkpoint: Checkpoint, signal: Signal, answered: Iterable[Entry]) -> None:
    """Write the points into a checkpoint: those answered earlier whose nodes are not over, then those that wait.

    Args:
        checkpoint: the root's.
        signal: the tree of what waits.
        answered: the points whose answers must not be lost.
    """
    addresses, states = flatten(signal, set(_graphs(checkpoint, signal.address)))
    kept = {entry.id: entry for entry in answered if entry.id not in states}
    checkpoint.interrupt_id_to_address = {**{id: entry.address for id, entry in kept.items()}, **addresses}
    checkpoint.interrupt_id_to_state = {**{id: _record(entry) for id, entry in kept.items()}, **states}


def stopped_at(info: InterruptInfo) -> str:
    """Return where a run stopped, for messages."""
    places = {
        "before": info.before_nodes,
        "after": info.after_nodes,
        "in": [*info.rerun_nodes, *info.subgraphs],
    }
    where = ", ".join(f"{word} {nodes}" for word, nodes in places.items() if nodes)
    return f"stopped {where or 'before any node ran'}"


def _record(entry: Entry) -> InterruptState:
    if entry.data is NO_DATA:
        return entry.record
    return msgspec.structs.replace(entry.record, status="done", payload=entry.data)


def _graphs(checkpoint: Checkpoint, address: Address) -> Iterable[Address]:
    yield address
    for key, below in checkpoint.sub_graphs.items():
        yield from _graphs(below, address.child("node", key))
