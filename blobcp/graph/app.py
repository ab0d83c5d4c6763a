"""What compiling gives: an app that runs a graph, resumes it and tells what is pending."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from blobcp.cancel import CancelToken
from blobcp.checkpointer import StateModifier
from blobcp.errors import CheckpointSaveError
from blobcp.graph.answers import Answers
from blobcp.graph.driver_async import run_async
from blobcp.graph.driver_sync import run_sync
from blobcp.graph.loading import pending_points
from blobcp.graph.options import MISSING, resume_options, run_options
from blobcp.graph.runs import Runs
from blobcp.graph.saving import retry_save
from blobcp.graph.session import Steps, make_cell
from blobcp.points import InterruptPoint
from blobcp.store import check_id
from blobcp.stream.reader import StreamReader

if TYPE_CHECKING:
    from blobcp.graph.graph import Graph

__all__ = ["App"]


class App:
    """A compiled graph. Made by `Graph.compile`; may be used from many threads and tasks at once.

    Attributes:
        graph: what it was compiled from.
        plan: the compiled tables.
        store: where its checkpoints are kept.
        migrations: what brings up the checkpoints of older programs.
    """

    def __init__(self, graph: Graph, runs: Runs) -> None:
        self.graph = graph
        self.plan = runs.plan
        self.store = runs.store
        self.migrations = runs.migrations
        self._runs = runs

    def invoke(
        self,
        input: Any = None,
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Start a run, or go on with the one that is stored, and return the graph's output.

        Args:
            input: what the graph takes. Not used where a stored run is gone on with.
            checkpoint_id: load from it if something is there, save to it when the run stops.
            write_to_checkpoint_id: save there instead and leave what was loaded untouched: a fork.
            force_new_run: start anew whatever is stored.
            state_modifier: ``(path, state) -> state`` for each graph's state, when it is loaded and (on a copy) when
                it is saved; ``None`` keeps the object it was given.
            answers: data by interrupt id; only what they name runs again. ``NO_DATA`` names a point without giving it
                data. Without answers, or with none in the mapping, every node that had stopped runs again.
            max_steps: a limit for the root graph in this run, pregel only.
            concurrency: how many node functions may run at once; ``None`` for any number.
            cancel: stops the run from outside, see `CancelToken`. A token is for one run. With one, nodes and handlers run
                in threads (those of `ainvoke` in tasks), so that the run can leave them behind.

        Raises:
            Interrupted: the run stopped on purpose; with an id to save to, it is stored.
            OptionError: the options can't be carried out.
            RunError: the run failed.
            CheckpointError: what is stored can't be used, or the run could not be stored.
            StoreError: the store could not be read.
        """
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        return self._runs.run(input, options, state_modifier)

    async def ainvoke(
        self,
        input: Any = None,
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Do as `invoke` does, on the running event loop: async nodes as tasks, sync ones in threads."""
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        return await self._runs.arun(input, options, state_modifier)

    def stream(
        self,
        input: Any = None,
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> StreamReader[Any]:
        """Run as `invoke` does, with streams between the nodes, and return the output as a stream.

        Nothing runs before the first chunk is read. What `invoke` raises is raised in the place of a chunk; a run that stops
        may have given some chunks already, and gives all of them anew when it is resumed. Closing the reader ends the
        run: what is open is closed, and nothing is stored.

        Args:
            input: what the graph takes. Not used where a stored run is gone on with.
            checkpoint_id: as for `invoke`, like all that follow.
            write_to_checkpoint_id: likewise.
            force_new_run: likewise.
            state_modifier: likewise.
            answers: likewise.
            max_steps: likewise.
            concurrency: how many functions that give one value may run at once; ``None`` for any number.
            cancel: likewise.

        Raises:
            OptionError: the options can't be carried out.
        """
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=False)
        return self._runs.read(run, run.of_value(input), options)

    def collect(
        self,
        chunks: Iterable[Any] | AsyncIterable[Any] = (),
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Run on a stream of chunks and return the output as one value.

        Args:
            chunks: what the graph takes, read as the nodes need it. Not needed where a stored run is gone on with; closed
                unread then.
            checkpoint_id: as for `stream`, like all that follow.
            write_to_checkpoint_id: likewise.
            force_new_run: likewise.
            state_modifier: likewise.
            answers: likewise.
            max_steps: likewise.
            concurrency: likewise.
            cancel: likewise.

        Raises:
            BlobcpError: as for `invoke`.
            StreamError: ``chunks`` is no source of chunks.
        """
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=False)
        store = self._runs.sync_store(needed=options.uses_store)
        return run_sync(run.collected(run.of_chunks(chunks)), store)

    def transform(
        self,
        chunks: Iterable[Any] | AsyncIterable[Any] = (),
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> StreamReader[Any]:
        """Run on a stream of chunks, as `collect` does, and return the output as a stream, as `stream` does."""
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=False)
        return self._runs.read(run, run.of_chunks(chunks), options)

    def astream(
        self,
        input: Any = None,
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> StreamReader[Any]:
        """Do as `stream` does, on the event loop that reads; there is nothing to await before ``async for``."""
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=True)
        return self._runs.aread(run, run.of_value(input), options)

    async def acollect(
        self,
        chunks: Iterable[Any] | AsyncIterable[Any] = (),
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Do as `collect` does, on the running event loop."""
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=True)
        store = self._runs.any_store(needed=options.uses_store)
        try:
            result = await run_async(run.collected(run.of_chunks(chunks)), store)
        except BaseException as error:
            await run.close(error)
            raise
        await run.close()
        return result

    def atransform(
        self,
        chunks: Iterable[Any] | AsyncIterable[Any] = (),
        *,
        checkpoint_id: str | None = None,
        write_to_checkpoint_id: str | None = None,
        force_new_run: bool = False,
        state_modifier: StateModifier | None = None,
        answers: Answers | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> StreamReader[Any]:
        """Do as `transform` does, on the event loop that reads; there is nothing to await before ``async for``."""
        options = run_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, force_new_run, answers, max_steps, concurrency, cancel
        )
        run = self._runs.streamed(options, state_modifier, on_loop=True)
        return self._runs.aread(run, run.of_chunks(chunks), options)

    def resume(
        self,
        checkpoint_id: str,
        answers: Answers | None = None,
        *,
        answer: Any = MISSING,
        write_to_checkpoint_id: str | None = None,
        state_modifier: StateModifier | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Go on with a stored run, which must be there and waiting.

        Args:
            checkpoint_id: where it is stored.
            answers: as for `invoke`.
            answer: the one answer, where exactly one interrupt is pending. Any value is an answer.
            write_to_checkpoint_id: as for `invoke`.
            state_modifier: as for `invoke`.
            max_steps: as for `invoke`.
            concurrency: as for `invoke`.
            cancel: as for `invoke`.

        Raises:
            CheckpointNotFoundError: nothing is stored there.
            CheckpointDoneError: the run there is finished.
            AmbiguousAnswerError: ``answer`` was given and several interrupts are pending.
            BlobcpError: as for `invoke`.
        """
        options = resume_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, answers, answer, max_steps, concurrency, cancel
        )
        return self._runs.run(None, options, state_modifier)

    async def aresume(
        self,
        checkpoint_id: str,
        answers: Answers | None = None,
        *,
        answer: Any = MISSING,
        write_to_checkpoint_id: str | None = None,
        state_modifier: StateModifier | None = None,
        max_steps: int | None = None,
        concurrency: int | None = None,
        cancel: CancelToken | None = None,
    ) -> Any:
        """Do as `resume` does, on the running event loop."""
        options = resume_options(
            self.plan, checkpoint_id, write_to_checkpoint_id, answers, answer, max_steps, concurrency, cancel
        )
        return await self._runs.arun(None, options, state_modifier)

    def pending(self, checkpoint_id: str) -> list[InterruptPoint]:
        """Return the points that wait under an id, with what they ask, running nothing; none for a finished run.

        Raises:
            CheckpointNotFoundError: nothing is stored there.
            CheckpointError: what is there can't be read.
        """
        steps = pending_points(check_id(checkpoint_id), self._runs.checkpointer(), self.plan, self._runs.types)
        points: list[InterruptPoint] = run_sync(steps, self._runs.sync_store(needed=True))
        return points

    async def apending(self, checkpoint_id: str) -> list[InterruptPoint]:
        """Do as `pending` does, on the running event loop."""
        steps = pending_points(check_id(checkpoint_id), self._runs.checkpointer(), self.plan, self._runs.types)
        points: list[InterruptPoint] = await run_async(steps, self._runs.any_store(needed=True))
        return points

    def check(self, input: Any = None) -> None:
        """Find out before a run whether its input and a fresh state could be stored.

        Args:
            input: what the run is to be started with.

        Raises:
            SerializationError: they could not; the error has the path to the value.
        """
        run_sync(self._check_steps(input), None)

    def retry_save(self, error: CheckpointSaveError, *, state_modifier: StateModifier | None = None) -> None:
        """Complete a save that failed, once the reason is gone; the run can then be resumed as if it had not.

        Args:
            error: what the run had raised.
            state_modifier: as for `invoke`.

        Raises:
            CheckpointSaveError: it failed again.
            OptionError: the error holds nothing that could be stored.
        """
        run_sync(retry_save(error, self._runs.checkpointer(state_modifier)), self._runs.sync_store(needed=True))

    async def aretry_save(self, error: CheckpointSaveError, *, state_modifier: StateModifier | None = None) -> None:
        """Do as `retry_save` does, on the running event loop."""
        await run_async(retry_save(error, self._runs.checkpointer(state_modifier)), self._runs.any_store(needed=True))

    def _check_steps(self, input: Any) -> Steps:
        checkpointer = self._runs.checkpointer()
        checkpointer.dumps({"input": input})
        for path, graph in self.plan.walk():
            cell = yield from make_cell(graph, path, copy_context(), self._runs.types)
            if cell is not None:
                checkpointer.dumps({"state": cell.state})
