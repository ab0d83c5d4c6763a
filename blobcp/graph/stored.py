"""A run with its checkpoint: load or start, run, then store, mark as finished, or fail.

One generator for both drivers. What is wrong with the caller's options or with what is stored is found before any node
runs; what goes wrong with the store afterwards never loses what the run has done.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

from blobcp.checkpoint import Address, Checkpoint
from blobcp.checkpointer import Checkpointer, Loaded
from blobcp.codec import Header
from blobcp.codec.envelope import Status
from blobcp.errors import (
    CheckpointConflictError,
    CheckpointSaveError,
    Interrupted,
    OptionError,
    SerializationError,
    text_of,
)
from blobcp.graph.answers import answered_before, expects_answers, graph_states, rebase, resumption_of
from blobcp.graph.cancelling import Cancelling, points_left
from blobcp.graph.describe import describe
from blobcp.graph.effects import ANYTHING, DeleteBlob, Effect, Expected, SetBlob
from blobcp.graph.instance import GraphRun
from blobcp.graph.loading import nothing_to_go_on_with, read_checkpoint
from blobcp.graph.options import RunOptions
from blobcp.graph.plan import GraphPlan
from blobcp.graph.restore import Restorer
from blobcp.graph.run import Failed, Finished, Machine, Outcome, Paused
from blobcp.graph.saving import conflict, header_of, keep_points, save_stop, stopped_at
from blobcp.graph.session import Session, Steps, make_cell
from blobcp.graph.state_types import StateTypes
from blobcp.points import InterruptInfo, InterruptPoint, Signal, points_of
from blobcp.resumption import Resumption
from blobcp.scope import Frame, RunClaims, Scope, new_id, this_owner

__all__ = ["StoredRun"]


class StoredRun:
    """One call of an app.

    Args:
        plan: the compiled graph.
        checkpointer: makes blobs of checkpoints.
        options: what was asked for.
        when_done: what happens to the blob of a run that has finished: ``mark``, ``delete`` or ``keep``.
        types: the classes of the graphs' states.
        claims: what the run holds, for runs inside it.
        host: the node that the app is called from, if any.
    """

    def __init__(
        self,
        plan: GraphPlan,
        checkpointer: Checkpointer,
        options: RunOptions,
        when_done: str,
        types: StateTypes,
        claims: RunClaims,
        host: Scope | None,
    ) -> None:
        self._plan = plan
        self._checkpointer = checkpointer
        self._options = options
        self._when_done = when_done
        self._types = types
        self._claims = claims
        self._host = host
        self._address = (host.address if host else Address()).child("runnable", plan.name)
        self._loaded: Loaded | None = None
        self._expected: Expected = ANYTHING

    def steps(self, value: Any) -> Steps:
        """Run from the input, or from what is stored; returns the graph's output.

        Raises:
            Interrupted: the run stopped; where it has an id to write to, it is stored.
            RunError: it failed.
            CheckpointError: it could not be loaded or stored.
        """
        if self._options.cancel is not None:
            self._options.cancel.claim()
        stored = yield from self._load()
        if stored is None:
            machine, session = yield from self._begin(value)
        else:
            machine, session = self._resume(stored)
        outcome = yield from session.run()
        if isinstance(outcome, Finished):
            yield from self._finish(machine, outcome.value)
            return outcome.value
        yield from self._stop(machine, session, outcome)

    def _stop(self, machine: Machine, session: Session, outcome: Outcome) -> Steps:
        """Store a run that has stopped, or end one that has failed; raises in either case."""
        if isinstance(outcome, Paused):
            yield from self._pause(machine, session, outcome.signal)
        elif isinstance(outcome, Failed):
            first, *others = outcome.errors
            for other in others:
                first.add_note(f"also failed: {other}")
            raise first

    def _load(self) -> Generator[Effect, Any, Checkpoint | None]:
        """Return the checkpoint to go on with, or ``None`` to start anew."""
        options = self._options
        if options.read_id is None:
            return None
        self._loaded, seen = yield from read_checkpoint(options.read_id, self._checkpointer, self._plan, self._types)
        if not options.forks:
            self._expected = seen
        if self._loaded is not None and self._loaded.checkpoint is not None:
            return self._loaded.checkpoint
        if options.needs_checkpoint or expects_answers(options.read_id, self._hosted):
            raise nothing_to_go_on_with(options.read_id, finished=self._loaded is not None)
        return None

    def _begin(self, value: Any) -> Generator[Effect, Any, tuple[Machine, Session]]:
        self._refuse_endless_stop()
        context = copy_context()
        cell = yield from make_cell(self._plan, (), context, self._types)
        # A run that keeps its own checkpoint finds its answers there, unless it has finished and is started again.
        write_id = self._options.write_id
        resumption = self._hosted if write_id is None else answered_before(write_id, self._hosted)
        root = self._make_run(self._plan, self._frame(cell, resumption), None)
        machine, session = self._session(root)
        yield from session.start(root, value, context)
        return machine, session

    def _resume(self, stored: Checkpoint) -> tuple[Machine, Session]:
        options = self._options
        assert options.read_id is not None
        rebase(stored, self._address)
        resumption = resumption_of(
            options.read_id, stored, options.answers, options.bare, self._hosted, self._checkpointer.snapshot
        )
        for at, state in graph_states(options.read_id, stored, self._address, resumption):
            at.state = state
        restorer = Restorer(options.read_id, stored, resumption, self._types, self._make_run)
        frame = self._frame(restorer.cell(self._plan, stored, ()), resumption)
        root = restorer.restore(self._plan, stored, frame)
        machine, session = self._session(root)
        machine.resume(root)
        return machine, session

    @property
    def _hosted(self) -> Resumption | None:
        """What the node that calls this app knows of points inside it."""
        if self._host is None or self._host.resumption is None:
            return None
        return self._host.resumption.view(self._address)

    def _refuse_endless_stop(self) -> None:
        """Refuse an app that would stop at the same place each time the run round it is resumed."""
        if self._host is None or self._options.write_id is not None:
            return
        if not any(frame.claims.checkpoint_ids for frame in self._host.frame.outwards()):
            return
        for path, graph in self._plan.walk():
            for node in graph.nodes.values():
                if node.stop_before or node.stop_after:
                    raise OptionError(
                        f"app {self._plan.name!r} stops before or after node {'/'.join([*path, node.key])} and is called "
                        f"from {self._host.address} without a checkpoint of its own, so that it would start over and stop "
                        "there on every resume; give it a store and a checkpoint_id, or nest its graph"
                    )

    def _frame(self, cell: object | None, resumption: Resumption | None) -> Frame:
        host = self._host
        if host is None:
            return Frame(self._address, cell, None, self._claims, resumption)
        return Frame(self._address, cell, host.frame, self._claims, resumption, this_owner())

    def _make_run(self, plan: GraphPlan, frame: Frame, parent: None) -> GraphRun:
        return GraphRun(plan, frame, parent)

    def _session(self, root: GraphRun) -> tuple[Machine, Session]:
        machine = Machine(root, new_id, self._options.max_steps)
        options, keep = self._options, self._checkpointer.snapshot
        snapshot = keep if options.write_id is not None else None
        cancelling = Cancelling(options.cancel, machine, keep) if options.cancel is not None else None
        return machine, Session(machine, self._types, snapshot, options.concurrency, cancelling)

    def _finish(self, machine: Machine, value: Any) -> Steps:
        """Deal with the blob of a run that is over; one that neither loaded nor saved leaves the store alone."""
        write_id = self._options.write_id
        if write_id is None or self._loaded is None or self._when_done == "keep":
            return
        for entry in self._hosted or ():
            if entry.record.stored_under == write_id:
                entry.handed_on = False
        mark = self._checkpointer.mark(self._header(machine, write_id, "done"))
        try:
            if self._when_done == "mark" or self._expected is not ANYTHING:
                self._expected = yield SetBlob(write_id, mark, self._expected)
            if self._when_done == "delete":
                yield DeleteBlob(write_id)
        except CheckpointConflictError as error:
            raise conflict(write_id, "that it finished") from error
        except Exception as error:
            raise CheckpointSaveError(
                f"the run finished, and that was not saved under checkpoint {write_id!r}: {text_of(error)}; the result is in "
                "error.result. Do not resume what is stored there; app.retry_save(error) marks it as finished",
                checkpoint_id=write_id,
                blob=mark,
                seen=None if self._expected is ANYTHING else (self._expected,),
                result=value,
            ) from error

    def _pause(self, machine: Machine, session: Session, signal: Signal) -> Steps:
        """Store the stopped run, then raise `Interrupted`."""
        write_id = self._options.write_id
        now = datetime.now(UTC)
        for at in signal.walk():
            at.created_at = at.created_at or now
        checkpoint = self._checkpoint(machine, signal)
        info = describe(checkpoint, signal)
        points = points_of(signal)
        if write_id is not None:
            if self._host is not None:
                for at in signal.walk():
                    at.stored_under = at.stored_under or write_id
            untaken = [entry for entry in machine.root.frame.resumption or () if not entry.pending]
            stopped = points_left(machine) if machine.cancelled else ()
            keep_points(checkpoint, signal, [*session.answered, *stopped, *untaken])
            header = self._header(machine, write_id, "interrupted", points)
            completed = machine.root.all_completed()
            yield from self._save(checkpoint, header, points, info, completed)
        elif self._host is not None:
            self._host.raised.append(signal)
        where = f"; checkpoint {write_id!r}" if write_id is not None else "; not stored, since it has no checkpoint id"
        why = "cancelled: " if machine.cancelled else ""
        raise Interrupted(
            f"{why}{stopped_at(info)}, at {', '.join(str(point.address) for point in points)}{where}",
            interrupts=points,
            info=info,
            checkpoint_id=write_id,
            signal=signal,
        )

    def _save(
        self,
        checkpoint: Checkpoint,
        header: Header,
        points: Sequence[InterruptPoint],
        info: InterruptInfo,
        completed: Iterable[str],
    ) -> Steps:
        yield from save_stop(self._checkpointer, checkpoint, header, points, info, completed, self._expected)

    def _checkpoint(self, machine: Machine, signal: Signal) -> Checkpoint:
        try:
            return machine.checkpoint()
        except SerializationError as error:
            live = machine.checkpoint(live=True)
            raise CheckpointSaveError(
                f"checkpoint {self._options.write_id!r} was not saved: an input that was kept can't be read back: "
                f"{text_of(error)}; error.checkpoint has the inputs as the nodes have left them",
                checkpoint_id=self._options.write_id,
                info=describe(live, signal),
                interrupts=points_of(signal),
                checkpoint=live,
            ) from error

    def _header(self, machine: Machine, write_id: str, status: Status, points: Sequence[InterruptPoint] = ()) -> Header:
        return header_of(
            self._loaded,
            self._options,
            write_id,
            serializer=self._checkpointer.serializer_name,
            state_version=self._checkpointer.state_version,
            graph=self._plan.name,
            steps=machine.root.steps,
            status=status,
            points=points,
        )
