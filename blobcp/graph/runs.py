"""How an app makes its runs: with its store, its serializer, and what else it was compiled with."""

from __future__ import annotations

import inspect
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from blobcp.checkpointer import Checkpointer, StateMigrations, StateModifier
from blobcp.codec import Envelope, Serializer
from blobcp.errors import OptionError
from blobcp.graph.calls import AsyncParts
from blobcp.graph.driver_async import iterate_async, run_async
from blobcp.graph.driver_sync import iterate_sync, run_sync
from blobcp.graph.options import RunOptions, StreamSaving
from blobcp.graph.output import Out
from blobcp.graph.plan import GraphPlan
from blobcp.graph.state_types import StateTypes
from blobcp.graph.stored import StoredRun
from blobcp.graph.streamed import StreamedRun
from blobcp.scope import CURRENT, RunClaims, Scope
from blobcp.store import AsyncCheckPointStore, CheckPointStore
from blobcp.stream.reader import StreamReader

__all__ = ["Runs"]

R = TypeVar("R", bound=StoredRun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Makes the runs of one app, and has them driven.

    Attributes:
        plan: the compiled tables.
        store: where checkpoints are kept.
        serializer: makes bytes of them.
        envelope: the frame round these.
        when_done: what becomes of the checkpoint of a run that finished.
        async_parts: what only the asyncio driver can run.
        migrations: what brings up the checkpoints of older programs.
        saving: how streams are stored.
        types: the classes of the graphs' states.
    """

    plan: GraphPlan
    store: CheckPointStore | AsyncCheckPointStore | None
    serializer: Serializer
    envelope: Envelope
    when_done: str
    async_parts: AsyncParts
    migrations: StateMigrations | None
    saving: StreamSaving
    types: StateTypes

    def run(self, input: Any, options: RunOptions, modifier: StateModifier | None) -> Any:
        """Run on a value, and return the output."""
        _refuse_async(self.async_parts.values, "ainvoke or aresume")
        store = self.sync_store(needed=options.uses_store)
        return run_sync(self._made(StoredRun, options, modifier).steps(input), store)

    async def arun(self, input: Any, options: RunOptions, modifier: StateModifier | None) -> Any:
        """Do the same on the running event loop."""
        store = self.any_store(needed=options.uses_store)
        return await run_async(self._made(StoredRun, options, modifier).steps(input), store)

    def streamed(self, options: RunOptions, modifier: StateModifier | None, *, on_loop: bool) -> StreamedRun:
        """Return a run on streams; nothing of it has happened yet.

        Args:
            options: its options.
            modifier: changes states.
            on_loop: whether it will be driven on an event loop.

        Raises:
            OptionError: it can't be run like this.
        """
        if not on_loop:
            _refuse_async(self.async_parts.streams, "astream, acollect or atransform")
        return self._made(StreamedRun, options, modifier).prepare(self.saving, on_loop=on_loop)

    def read(self, run: StreamedRun, given: Out, options: RunOptions) -> StreamReader[Any]:
        """Return the output of a run on streams; it runs as that is read."""
        store = self.sync_store(needed=options.uses_store)
        return StreamReader(iterate_sync(run.chunks(given), store), context=copy_context())

    def aread(self, run: StreamedRun, given: Out, options: RunOptions) -> StreamReader[Any]:
        """Do the same on the event loop that reads."""
        store = self.any_store(needed=options.uses_store)
        return StreamReader(iterate_async(run.chunks(given), store, run.close), context=copy_context())

    def _made(self, kind: type[R], options: RunOptions, modifier: StateModifier | None) -> R:
        host = CURRENT.get()
        ids = frozenset(id for id in (options.read_id, options.write_id) if id is not None)
        _refuse_clash(host, self.store, ids)
        claims = RunClaims(self.store, ids)
        return kind(self.plan, self.checkpointer(modifier), options, self.when_done, self.types, claims, host)

    def checkpointer(self, modifier: StateModifier | None = None) -> Checkpointer:
        """Return what makes blobs of checkpoints."""
        return Checkpointer(self.serializer, self.envelope, modifier, self.migrations)

    def sync_store(self, *, needed: bool) -> CheckPointStore | None:
        """Return the store for a driver of threads.

        Raises:
            OptionError: it is an async one; or there is none, and it is needed.
        """
        store = self.any_store(needed=needed)
        if store is not None and inspect.iscoroutinefunction(store.get):
            raise OptionError(f"{type(store).__qualname__} is an async store; use ainvoke, aresume or apending")
        return store  # type: ignore[return-value]  # the check above is what tells the two protocols apart

    def any_store(self, *, needed: bool) -> CheckPointStore | AsyncCheckPointStore | None:
        """Return the store for a driver on an event loop.

        Raises:
            OptionError: there is none, and it is needed.
        """
        if needed and self.store is None:
            raise OptionError(
                "a checkpoint id was given and the graph was compiled without a store; compile(store=...)"
            )
        return self.store


def _refuse_async(parts: list[str], instead: str) -> None:
    if parts:
        raise OptionError(f"nodes {parts} have async functions, which need an event loop; use {instead}")


def _refuse_clash(host: Scope | None, store: object, ids: frozenset[str]) -> None:
    """Refuse a checkpoint that a run round this one holds: each would overwrite the other's record."""
    for frame in host.frame.outwards() if host is not None else ():
        clash = ids & frame.claims.checkpoint_ids
        if clash and frame.claims.store is store:
            raise OptionError(
                f"checkpoint {min(clash)!r} belongs to the run that this app is called from; give the inner run an id of its own"
            )
