"""A stream run with its checkpoint: as a value run, but its output is read while it is made.

A run whose output has begun may still stop, or fail: it is over when that has ended, and only then marked as done.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from blobcp.checkpoint import Checkpoint
from blobcp.codec import Header
from blobcp.errors import CheckpointSaveError, NodeError, RunError, ValueMismatchError, text_of
from blobcp.graph.cancelling import Cancelling
from blobcp.graph.describe import describe
from blobcp.graph.effects import Abandoned, Effect, Emit, Wait
from blobcp.graph.flattening import Flattening, reading
from blobcp.graph.flow import Streams
from blobcp.graph.instance import GraphRun
from blobcp.graph.options import StreamSaving
from blobcp.graph.output import Out
from blobcp.graph.plan import END as END_KEY
from blobcp.graph.plan import START, GraphPlan
from blobcp.graph.recall import StreamRun
from blobcp.graph.run import Failed, Finished, Machine, Outcome, Paused
from blobcp.graph.run_errors import wrong_output
from blobcp.graph.session import CAUGHT, Session, Steps, node_error
from blobcp.graph.stored import StoredRun
from blobcp.graph.stream_machine import StreamMachine
from blobcp.graph.streaming import StreamSession
from blobcp.points import InterruptInfo, InterruptPoint, Signal
from blobcp.scope import Frame, new_id
from blobcp.stream.concat import concat
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import END

__all__ = ["StreamedRun"]


class StreamedRun(StoredRun):
    """One call of an app that takes or gives chunks; see `prepare` for what it needs besides what a value run does."""

    _streams: Streams
    _saving: StreamSaving
    _on_loop: bool
    _patient = True
    _flattening: Flattening | None = None
    _root: StreamRun | None = None

    def prepare(self, saving: StreamSaving, *, on_loop: bool) -> StreamedRun:
        """Get ready.

        Args:
            saving: how streams are stored.
            on_loop: whether the driver is the one of an event loop.
        """
        self._saving = saving
        self._on_loop = on_loop
        self._streams = Streams(self._checkpointer.snapshot if self._options.write_id is not None else None)
        return self

    def of_value(self, value: Any) -> Out:
        """Return the input of a run that is given a value."""
        return Out(self._streams, chunks=[value])

    def of_chunks(self, chunks: Any) -> Out:
        """Return the input of a run that is given chunks.

        Raises:
            StreamError: that is no source of chunks.
        """
        reader: StreamReader[Any] = StreamReader(chunks)
        return Out(self._streams, reader=self._streams.own(reader.map(_same, on_error=self._input_failed)))

    async def close(self, error: BaseException | None = None) -> None:
        """Close what is left of the run's streams, on the running event loop.

        Of a run that has not ended well, no thread is waited for that is inside a source; it may never come out.

        Args:
            error: what has ended the run.

        Raises:
            RunError: a node failed at that, and nothing else has.
        """
        self._tell(await self._streams.aclose_all(patient=self._patient), error)

    def chunks(self, given: Out) -> Steps:
        """Run, and emit the output chunk by chunk; raises as `StoredRun.steps` does."""
        yield from self._run(given, None)

    def collected(self, given: Out) -> Steps:
        """Run, and return the output as one value; raises as `StoredRun.steps` does."""
        return (yield from self._run(given, []))

    def _run(self, given: Out, collected: list[Any] | None) -> Steps:
        try:
            result = yield from self._run_to_end(given, collected)
        except BaseException as error:
            self._patient = isinstance(error, GeneratorExit)
            if not self._on_loop:
                self._tell(self._streams.close_all(), error)
            raise
        if not self._on_loop:
            self._streams.close_all()
        return result

    @staticmethod
    def _tell(failed: Sequence[RunError], error: BaseException | None) -> None:
        """Raise what failed while streams were closed; where the run has ended otherwise, note it there."""
        if failed and (error is None or isinstance(error, GeneratorExit)):
            raise failed[0]
        for other in failed:
            error.add_note(f"closing a stream failed too: {other}")  # type: ignore[union-attr]  # it is there

    def _run_to_end(self, given: Out, collected: list[Any] | None) -> Steps:
        if self._options.cancel is not None:
            self._options.cancel.claim()
        stored = yield from self._load()
        if stored is None:
            machine, session = yield from self._begin(given)
        else:
            if given.reader is not None:
                yield Wait(given.reader.close, given.reader.aclose)
            machine, session = self._resume(stored)
        assert isinstance(machine, StreamMachine), "made below"
        assert isinstance(session, StreamSession), "made below"
        yield from session.run()
        while True:
            outcome = yield from self._rest(machine, session)
            if not isinstance(outcome, Finished):
                break
            value = yield from self._give(machine, session, outcome.value, collected)
            if machine.outcome is outcome:
                yield from self._finish(machine, value)
                return value
        yield from self._stop(machine, session, outcome)

    def _rest(self, machine: StreamMachine, session: StreamSession) -> Generator[Effect, Any, Outcome]:
        """Wait until the run has an outcome that can't change any more by itself; streams of a stop are read."""
        stopping: InterruptInfo | None = None
        while True:
            yield from session.until_rest()
            outcome = machine.outcome
            if outcome is None:
                yield from session.go_on()
                continue
            if isinstance(outcome, Failed) and stopping is not None:
                outcome.errors[0].stopping = stopping
            if not isinstance(outcome, Paused) or self._options.write_id is None:
                return outcome
            stopping = describe(machine.checkpoint(live=True), outcome.signal)
            self._flattening = self._flattening or Flattening(machine, session, self._saving)
            is_whole = yield from self._flattening.read_all()
            if is_whole and machine.outcome is outcome:
                return outcome

    def _give(
        self, machine: StreamMachine, session: StreamSession, reader: StreamReader[Any], collected: list[Any] | None
    ) -> Steps:
        """Hand out the output, then let those nodes end whose streams nobody reads; returns the value if collected."""
        following = Wait(partial(reader.read_before, None), partial(_next, reader))
        try:
            if collected is None:
                yield Emit(following)
            else:
                collected.extend((yield reading(reader)))
            for part in list(machine.stream_root.unwanted()):
                if isinstance(part.value, StreamReader):
                    yield reading(part.value)
            if session.heed_left():  # before closing: what such a node was given is still needed
                return None
            with suppress(Abandoned):  # the output is there; what is still to be closed is left behind
                yield Wait(self._streams.close_all, self._streams.aclose_all)
        except Abandoned:
            session.abandon()
            return None
        except CAUGHT:
            if not session.heed_late():
                raise
            return None
        if session.heed_late() or collected is None:
            return None
        return self._value_of(collected)

    def _value_of(self, chunks: list[Any]) -> Any:
        assert self._root is not None, "the run is over"
        try:
            value = concat(chunks)
        except Exception as error:
            raise node_error([END_KEY], error) from error
        if not self._root.fits_output(value):
            raise ValueMismatchError(wrong_output(self._root, value), path=self._root.path)
        return value

    def _begin(self, value: Any) -> Generator[Effect, Any, tuple[Machine, Session]]:
        if value.reader is not None and any(branch.reading is None for branch in self._plan.start.branches):
            try:
                value.become((yield reading(value.reader)))
            except CAUGHT as error:
                known = self._streams.charged_in(error)
                raise known or error from None
        return (yield from super()._begin(value))

    def _make_run(self, plan: GraphPlan, frame: Frame, parent: None) -> GraphRun:
        self._root = StreamRun(plan, frame, parent, self._streams)
        return self._root

    def _session(self, root: GraphRun) -> tuple[Machine, Session]:
        assert isinstance(root, StreamRun), "made above"
        options = self._options
        machine = StreamMachine(root, new_id, options.max_steps)
        keep = self._checkpointer.snapshot
        cancelling = Cancelling(options.cancel, machine, keep) if options.cancel is not None else None
        session = StreamSession(machine, self._types, self._streams, options.concurrency, cancelling, self._on_loop)
        return machine, session

    def _checkpoint(self, machine: Machine, signal: Signal) -> Checkpoint:
        # Of a run that is not stored nothing was read, and a checkpoint is only made to tell where it stands.
        return machine.checkpoint(live=True) if self._options.write_id is None else super()._checkpoint(machine, signal)

    def _input_failed(self, error: Exception) -> None:
        failed = NodeError(f"the input stream of graph {self._plan.name!r} failed: {text_of(error)}", path=[START])
        failed.__cause__ = error
        if self._root is not None:
            self._streams.fail(self._root, failed)
        raise failed from error

    def _save(
        self,
        checkpoint: Checkpoint,
        header: Header,
        points: Sequence[InterruptPoint],
        info: InterruptInfo,
        completed: Iterable[str],
    ) -> Steps:
        flattening = self._flattening
        if flattening is not None and flattening.slow is not None:
            raise self._unsaved(flattening, checkpoint, header, points, info)
        yield from super()._save(checkpoint, header, points, info, completed)

    def _unsaved(
        self,
        flattening: Flattening,
        checkpoint: Checkpoint,
        header: Header,
        points: Sequence[InterruptPoint],
        info: InterruptInfo,
    ) -> CheckpointSaveError:
        limit = self._saving.timeout
        within = "soon after the cancel" if limit is None else f"within flatten_timeout={limit}"
        what = (
            "it is the input of the run, of which error.checkpoint has what had come; app.retry_save(error) stores that as "
            "if it were all, and compile(flatten_timeout=...) has a run wait longer"
            if flattening.cut
            else "error.checkpoint has its node run again from its input, and all else as it finished; "
            "app.retry_save(error) stores that"
        )
        return CheckpointSaveError(
            f"checkpoint {self._options.write_id!r} was not saved: the stream at node {'/'.join(flattening.slow or ())} did "
            f"not end {within}; {what}",
            checkpoint_id=self._options.write_id,
            interrupts=points,
            info=info,
            header=header,
            checkpoint=checkpoint,
        )


def _same(chunk: Any) -> Any:
    return chunk


async def _next(reader: StreamReader[Any]) -> Any:
    try:
        return await anext(reader)
    except StopAsyncIteration:
        return END
