"""A run with its checkpoint: load or start, run, then store, mark as finished, or fail.

One generator for both drivers. What is wrong with the caller's options or with what is stored is found before any node
runs; what goes wrong with the store afterwards never loses what the run has done.
"""

from __future__ import annotations

from collections.abc import Generator
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from blobcp.checkpoint import Address, Checkpoint, InterruptState
from blobcp.checkpointer import Checkpointer, Loaded
from blobcp.codec import Header, Parent, PendingInterrupt
from blobcp.codec.envelope import Status
from blobcp.errors import (
    CheckpointSaveError,
    Interrupted,
)
from blobcp.graph.answers import graph_states, rebase, resumption_of
from blobcp.graph.describe import describe
from blobcp.graph.effects import DeleteBlob, Effect, SetBlob
from blobcp.graph.instance import GraphRun
from blobcp.graph.loading import nothing_to_go_on_with, read_checkpoint
from blobcp.graph.options import RunOptions
from blobcp.graph.plan import GraphPlan
from blobcp.graph.restore import Restorer
from blobcp.graph.run import Finished, Machine, Paused
from blobcp.graph.session import Session, Steps, make_cell
from blobcp.points import InterruptInfo, InterruptPoint, Signal, flatten, points_of
from blobcp.scope import Frame, Resumption, RunClaims, Scope, new_id

__all__ = ["StoredRun"]


class StoredRun:
    """One call of an app.

    Args:
        plan: the compiled graph.
        checkpointer: makes blobs of checkpoints.
        options: what was asked for.
        when_done: what happens to the blob of a run that has finished: ``mark``, ``delete`` or ``keep``.
        claims: what the run holds, for runs inside it.
        host: the node that the app is called from, if any.
    """

    def __init__(
        self,
        plan: GraphPlan,
        checkpointer: Checkpointer,
        options: RunOptions,
        when_done: str,
        claims: RunClaims,
        host: Scope | None,
    ) -> None:
        self._plan = plan
        self._checkpointer = checkpointer
        self._options = options
        self._when_done = when_done
        self._claims = claims
        self._host = host
        self._address = (host.address if host else Address()).child("runnable", plan.name)
        self._loaded: Loaded | None = None

    def steps(self, value: Any) -> Steps:
        """Run from the input, or from what is stored; returns the graph's output.

        Raises:
            Interrupted: the run stopped; where it has an id to write to, it is stored.
            RunError: it failed.
            CheckpointError: it could not be loaded or stored.
        """
        stored = yield from self._load()
        if stored is None:
            machine, session = yield from self._begin(value)
        else:
            machine, session = self._resume(stored)
        outcome = yield from session.run()
        if isinstance(outcome, Finished):
            yield from self._finish(machine, outcome.value)
            return outcome.value
        if isinstance(outcome, Paused):
            yield from self._pause(machine, session, outcome.signal)
        else:
            first, *others = outcome.errors
            for other in others:
                first.add_note(f"also failed: {other}")
            raise first

    def _load(self) -> Generator[Effect, Any, Checkpoint | None]:
        """Return the checkpoint to go on with, or ``None`` to start anew."""
        options = self._options
        if options.read_id is None:
            return None
        self._loaded = yield from read_checkpoint(options.read_id, self._checkpointer, self._plan)
        if self._loaded is not None and self._loaded.checkpoint is not None:
            return self._loaded.checkpoint
        if options.needs_checkpoint:
            raise nothing_to_go_on_with(options.read_id, finished=self._loaded is not None)
        return None

    def _begin(self, value: Any) -> Generator[Effect, Any, tuple[Machine, Session]]:
        context = copy_context()
        cell = yield from make_cell(self._plan, (), context)
        resumption = self._host.resumption.take(self._address) if self._host and self._host.resumption else None
        root = GraphRun(self._plan, self._frame(cell, resumption), None)
        machine, session = self._session(root)
        yield from session.start(root, value, context)
        return machine, session

    def _resume(self, stored: Checkpoint) -> tuple[Machine, Session]:
        options = self._options
        assert options.read_id is not None
        taken = self._host.resumption.take(self._address) if self._host and self._host.resumption else None
        rebase(stored, self._address)
        resumption = resumption_of(options.read_id, stored, options.answers, options.bare, taken or ())
        for at, state in graph_states(options.read_id, stored, self._address, resumption):
            at.state = state
        restorer = Restorer(options.read_id, stored, resumption)
        frame = self._frame(restorer.cell(self._plan, stored, ()), resumption)
        root = restorer.restore(self._plan, stored, frame)
        machine, session = self._session(root)
        machine.resume(root)
        return machine, session

    def _frame(self, cell: object | None, resumption: Resumption | None) -> Frame:
        return Frame(self._address, cell, self._host.frame if self._host else None, self._claims, resumption)

    def _session(self, root: GraphRun) -> tuple[Machine, Session]:
        machine = Machine(root, new_id, self._options.max_steps)
        snapshot = self._checkpointer.snapshot if self._options.write_id is not None else None
        return machine, Session(machine, snapshot, self._options.concurrency)

    def _finish(self, machine: Machine, value: Any) -> Steps:
        """Deal with the blob of a run that is over; one that neither loaded nor saved leaves the store alone."""
        write_id = self._options.write_id
        if write_id is None or self._loaded is None or self._when_done == "keep":
            return
        try:
            if self._when_done == "delete":
                yield DeleteBlob(write_id)
            else:
                yield SetBlob(write_id, self._checkpointer.mark(self._header(machine, write_id, "done", ())))
        except Exception as error:
            raise CheckpointSaveError(
                f"the run finished, and checkpoint {write_id!r} could not be marked as finished: {error}; "
                "the result is in error.result. What is stored there still waits, so do not resume it",
                checkpoint_id=write_id,
                result=value,
            ) from error

    def _pause(self, machine: Machine, session: Session, signal: Signal) -> Steps:
        """Store the stopped run, then raise `Interrupted`."""
        write_id = self._options.write_id
        now = datetime.now(UTC)
        for at in signal.walk():
            at.created_at = at.created_at or now
        checkpoint = machine.checkpoint()
        checkpoint.interrupt_id_to_address, checkpoint.interrupt_id_to_state = self._records(session, machine, signal)
        info = describe(checkpoint, signal)
        points = points_of(signal)
        if write_id is not None:
            header = self._header(machine, write_id, "interrupted", points)
            yield from self._save(checkpoint, header, points, info)
        elif self._host is not None:
            self._host.raised.append(signal)
        where = f"; checkpoint {write_id!r}" if write_id is not None else "; not stored, since it has no checkpoint id"
        raise Interrupted(
            f"{_stopped_at(info)}, at {', '.join(str(point.address) for point in points)}{where}",
            interrupts=points,
            info=info,
            checkpoint_id=write_id,
            signal=signal,
        )

    def _records(
        self, session: Session, machine: Machine, signal: Signal
    ) -> tuple[dict[str, Address], dict[str, InterruptState]]:
        """Return what is kept of the points: those answered earlier whose nodes are not over, then those that wait."""
        addresses, states = flatten(signal)
        untaken = [entry for entry in machine.root.frame.resumption or () if not entry.pending]
        done = [*session.answered, *untaken]
        kept = {
            entry.id: msgspec.structs.replace(entry.record, status="done", payload=entry.data)
            for entry in done
            if entry.id not in states
        }
        return {**{entry.id: entry.address for entry in done}, **addresses}, {**kept, **states}

    def _save(self, checkpoint: Checkpoint, header: Header, points: list[InterruptPoint], info: InterruptInfo) -> Steps:
        id = header.checkpoint_id
        try:
            blob = self._checkpointer.encode(checkpoint, header)
        except Exception as error:
            raise CheckpointSaveError(
                f"checkpoint {id!r} was not saved ({_stopped_at(info)}): {error}; "
                "the checkpoint is in error.checkpoint, what is stored under the id was not changed",
                checkpoint_id=id,
                interrupts=points,
                info=info,
                checkpoint=checkpoint,
            ) from error
        try:
            yield SetBlob(id, blob)
        except Exception as error:
            raise CheckpointSaveError(
                f"checkpoint {id!r} was not saved ({_stopped_at(info)}): {error}; "
                "store.set(error.checkpoint_id, error.blob) completes the save",
                checkpoint_id=id,
                interrupts=points,
                info=info,
                blob=blob,
            ) from error

    def _header(
        self, machine: Machine, write_id: str, status: Status, points: list[InterruptPoint] | tuple[()]
    ) -> Header:
        before = self._loaded.header if self._loaded and self._loaded.checkpoint else None
        parent = before.parent if before else None
        if before and self._loaded and self._options.forks and self._options.read_id:
            parent = Parent(id=self._options.read_id, digest=self._loaded.digest)
        return Header(
            serializer=self._checkpointer.serializer_name,
            graph=self._plan.name,
            checkpoint_id=write_id,
            parent=parent,
            run_id=before.run_id if before and not self._options.forks else uuid4().hex,
            step=(before.step if before else 0) + machine.root.steps,
            created_at=datetime.now(UTC),
            status=status,
            pending=[PendingInterrupt(id=point.id, address=str(point.address)) for point in points],
        )


def _stopped_at(info: InterruptInfo) -> str:
    places = {
        "before": info.before_nodes,
        "after": info.after_nodes,
        "in": [*info.rerun_nodes, *info.subgraphs],
    }
    return "stopped " + ", ".join(f"{word} {nodes}" for word, nodes in places.items() if nodes)
