"""Versions of stored checkpoints, and the steps from each to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from blobcp.checkpoint import Checkpoint
from blobcp.checkpointer import Checkpointer
from blobcp.codec import Envelope, Header, Serializer
from blobcp.errors import CheckpointVersionError, OptionError

from .arguments import checked_function, checked_name, checked_path, checked_version
from .blobs import checkpointer_of, open_blob
from .dropped import Dropped
from .migrated import Migrated
from .operations import Operation
from .steps import CheckpointStep, OperationStep, StateStep, Step
from .values import TypeName
from .work import Work

__all__ = ["Migrations"]

F = TypeVar("F", bound=Callable[[Any], Any])


class Migrations:
    """The versions that stored checkpoints have had, and what leads from each to the next.

    Given to ``graph.compile(migrations=...)``, it stamps new checkpoints with its version and brings older ones up when
    they are loaded; what is stored changes at the next save. `apply` does the same to a blob.

    All steps from one version run in the order in which they were added, each on all that it is for. Steps lead forward,
    and from each version to one other. There need not be one from every old version; a checkpoint that none starts from
    is refused.

    >>> migrations = Migrations(2)
    >>> @migrations.step(1, 2, raw=True)
    ... def rename(order):
    ...     order.fields["quantity"] = order.fields.pop("qty")
    >>> migrations
    <Migrations 1 -> 2>
    """

    def __init__(
        self,
        version: int,
        *,
        unversioned: int = 1,
        on_dropped: Callable[[str, Sequence[Dropped]], None] | None = None,
    ) -> None:
        """Begin a chain.

        Args:
            version: the version of today; at least 1.
            unversioned: the version of blobs that were written before there were any migrations.
            on_dropped: called with the checkpoint id where a load has dropped something; what is stored still has it.

        Raises:
            OptionError: a version is none, or ``on_dropped`` no function.
        """
        self._version = checked_version("version", version)
        self._unversioned = checked_version("unversioned", unversioned, least=0)
        if unversioned > version:
            raise OptionError(f"unversioned={unversioned} is above version={version}, which is that of today")
        if on_dropped is not None and not callable(on_dropped):
            raise OptionError(
                f"on_dropped={on_dropped!r} can't be called; give a function of an id and what was dropped"
            )
        self._on_dropped = on_dropped
        self._steps: dict[int, list[Step]] = {}
        self._next: dict[int, int] = {}

    def __repr__(self) -> str:
        route = sorted({*self._next, *self._next.values(), self._version})
        return f"<Migrations {' -> '.join(map(str, route))}>"

    @property
    def version(self) -> int:
        """The version of today."""
        return self._version

    def step(
        self,
        from_version: int,
        to_version: int,
        *,
        raw: bool = False,
        graph: str | None = None,
        path: Iterable[str] | None = None,
        state: TypeName | None = None,
    ) -> Callable[[F], F]:
        """Make a decorator for a function that brings a state up: ``state -> state``; ``None``: it was changed in place.

        It is called for each state of a checkpoint, a graph before those nested in it.

        Args:
            from_version: the version that it takes.
            to_version: the version that it makes.
            raw: whether it gets the state as a `RawValue`, whose class need not be there any more. If not, it gets what
                the class of today makes of what is stored: fields that the class has no more are gone.
            graph: only where the root graph has this name.
            path: only the state of the graph at these node keys; ``()`` is the root graph.
            state: only states of this class, or of the class stored under this name.

        Raises:
            OptionError: it can't be part of this chain, or there is one for the very same.
        """
        at = None if path is None else checked_path(path)
        graph_name = checked_name("graph", graph)
        if state is not None and not isinstance(state, type | str):
            raise OptionError(f"state={state!r} is no type; give a class, or the name that it is stored under")

        def decorate(function: F) -> F:
            called = checked_function(function)
            self._add(
                from_version, to_version, StateStep(graph=graph_name, function=called, raw=raw, path=at, state=state)
            )
            return function

        return decorate

    def checkpoint_step(
        self, from_version: int, to_version: int, *, raw: bool = True, graph: str | None = None
    ) -> Callable[[F], F]:
        """Make a decorator for a function that changes a whole checkpoint, for what no other step reaches.

        It gets a `Checkpoint` and returns one, or ``None`` where it was changed in place.

        Args:
            from_version: the version that it takes.
            to_version: the version that it makes.
            raw: whether values of your classes in it are `RawValue`.
            graph: only where the root graph has this name.

        Raises:
            OptionError: it can't be part of this chain, or there is one for the very same.
        """
        graph_name = checked_name("graph", graph)

        def decorate(function: F) -> F:
            called = checked_function(function)
            self._add(from_version, to_version, CheckpointStep(graph=graph_name, function=called, raw=raw))
            return function

        return decorate

    def add(self, from_version: int, to_version: int, *operations: Operation, graph: str | None = None) -> None:
        """Add ready-made steps.

        Args:
            from_version: the version that they take.
            to_version: the version that they make.
            operations: `rename_field` and the others of this package, in order; none where only the number changes.
            graph: only where the root graph has this name.

        Raises:
            OptionError: they can't be part of this chain.
        """
        for operation in operations:
            if not isinstance(operation, Operation):
                raise OptionError(f"{operation!r} is no ready-made step; give rename_field(...) or another of its kind")
        name = checked_name("graph", graph)
        self._add(
            from_version, to_version, *(OperationStep(graph=name, operation=operation) for operation in operations)
        )

    def check(self, serializer: Serializer | None = None) -> None:
        """Refuse a chain with a hole in it. `Graph.compile` does this, and `apply`.

        Args:
            serializer: the serializer that it is to work with; ``None`` for any.

        Raises:
            OptionError: a step leads to a version that none leads on from; or one is raw and the serializer is not.
        """
        for start, end in self._next.items():
            if end != self._version and end not in self._next:
                raise OptionError(
                    f"the step {start} -> {end} leads to version {end}, and no step leads on from there to {self._version}; "
                    f"add the step {end} -> {end + 1}, or correct the version"
                )
        if serializer is None or callable(getattr(serializer, "loads_raw", None)):
            return
        for start, steps in self._steps.items():
            if any(step.needs_raw for step in steps):
                raise OptionError(
                    f"the step {start} -> {self._next[start]} is raw, and {type(serializer).__qualname__} has no loads_raw; "
                    "use typed steps (raw=False), or MsgpackSerializer"
                )

    def version_of(self, header: Header) -> int:
        """Return the version of a blob by its header."""
        return header.state_version or self._unversioned

    def apply(
        self,
        blob: bytes,
        *,
        serializer: Serializer | None = None,
        envelope: Envelope | None = None,
        checkpoint_id: str | None = None,
    ) -> Migrated:
        """Bring a blob up to the version of today.

        A blob of that version, and the mark of a finished run, come back as they are.

        Args:
            blob: what the store gave.
            serializer: the one that it was written by; ``None``: a `MsgpackSerializer`.
            envelope: the one that it was sealed by; ``None``: an `Envelope` with its defaults.
            checkpoint_id: the id that it is stored under, which is compared; ``None``: whatever it was sealed for.

        Raises:
            OptionError: the chain has a hole.
            CheckpointVersionError: it is newer than this code, or no step starts from its version.
            MigrationError: a step failed.
            CheckpointError: it can't be opened.
            SerializationError: a value can't be brought back.
        """
        self.check()
        checkpointer = checkpointer_of(serializer, envelope)
        header, body = open_blob(checkpointer, blob, checkpoint_id)
        version = self.version_of(header)
        if header.status == "done" or version == self._version:
            return Migrated(
                blob=blob, header=header, changed=False, dropped=(), from_version=version, to_version=version
            )
        work = self._run(Work(checkpointer, header, body))
        body = work.body()
        header = msgspec.structs.replace(work.header, state_version=self._version)
        return Migrated(
            blob=checkpointer.seal(header, body),
            header=header,
            changed=True,
            dropped=work.dropped,
            from_version=version,
            to_version=self._version,
        )

    def bring_up(self, header: Header, body: bytes, checkpointer: Checkpointer) -> Checkpoint:
        """Return the checkpoint that a body holds, brought up; for the loading of checkpoints. Raises as `apply` does."""
        work = self._run(Work(checkpointer, header, body))
        checkpoint = work.tree(raw=False)
        if self._on_dropped is not None and work.dropped:
            work.label = "on_dropped"
            work.call(partial(self._on_dropped, header.checkpoint_id), work.dropped, "what was dropped")
        return checkpoint

    def _run(self, work: Work) -> Work:
        version = self.version_of(work.header)
        graph = work.header.graph
        self._check_known(version, work.id)
        while version != self._version:
            work.settle()
            to_version = self._next[version]
            work.label = f"the step {version} -> {to_version}"
            for step in self._steps[version]:
                if step.graph is None or step.graph == graph:
                    step.run(work)
            version = to_version
        return work

    def _check_known(self, version: int, checkpoint_id: str) -> None:
        if version == self._version or version in self._next:
            return
        if version > self._version:
            problem = f"newer than version {self._version} of this code; load it with the newer code"
        else:
            known = f"steps start from {sorted(self._next)}" if self._next else "there are no steps"
            problem = f"older than version {self._version} of this code, and no step starts from there ({known})"
        raise CheckpointVersionError(
            f"checkpoint {checkpoint_id!r} has state version {version}, which is {problem}; what is stored was not changed",
            checkpoint_id=checkpoint_id,
        )

    def _add(self, from_version: int, to_version: int, *steps: Step) -> None:
        start, end = checked_version("from_version", from_version, least=0), checked_version("to_version", to_version)
        where = f"the step {start} -> {end}"
        if start >= end:
            raise OptionError(f"{where} does not lead forward; give the older version first")
        if end > self._version:
            raise OptionError(f"{where} leads beyond version={self._version}, which is that of today")
        if start == 0 and self._unversioned != 0:
            raise OptionError(
                f"{where} would never run: blobs that were written before there were migrations count as version "
                f"{self._unversioned}; start from there, or give Migrations(..., unversioned=0)"
            )
        if self._next.get(start, end) != end:
            raise OptionError(f"{where} is one way on, and the step {start} -> {self._next[start]} is there already")
        known = self._steps.get(start, [])
        if any(step.clashes(other) for step in steps for other in known):
            raise OptionError(f"{where} is there already for the same graphs and states; narrow one of them down")
        self._next[start] = end
        self._steps[start] = [*known, *steps]
