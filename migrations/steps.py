"""The steps of a chain: a function for states, one for whole checkpoints, or a ready-made operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blobcp.checkpointer import problem_of
from blobcp.codec import RawValue, Registry

from .operations import Operation
from .values import TypeName, names_of
from .work import Work, graphs_of

__all__ = ["CheckpointStep", "OperationStep", "StateStep", "Step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(ABC):
    """One part of the way from a version to another.

    Attributes:
        graph: the root graph that it is for; ``None`` for any.
    """

    graph: str | None = None

    @property
    @abstractmethod
    def needs_raw(self) -> bool:
        """Whether the serializer has to be one that can read without classes."""

    @abstractmethod
    def run(self, work: Work) -> None:
        """Change a checkpoint."""

    def clashes(self, other: Step) -> bool:
        """Tell whether another step is for the very same."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStep(Step):
    """A function for each state of a checkpoint that it is for."""

    function: Callable[[Any], Any]
    raw: bool
    path: tuple[str, ...] | None
    state: TypeName | None

    @property
    def needs_raw(self) -> bool:
        return self.raw

    def run(self, work: Work) -> None:
        for path, graph in list(graphs_of(work.tree(raw=self.raw))):
            if graph.state is None or (self.path is not None and path != self.path):
                continue
            if self.state is not None and not _is_of(graph.state, self.state, work.registry):
                continue
            work.touched()
            changed = work.call(self.function, graph.state, "the state", path)
            if changed is not None:
                graph.state = changed

    def clashes(self, other: Step) -> bool:
        return isinstance(other, StateStep) and (
            (self.graph, self.path, self.state) == (other.graph, other.path, other.state)
        )


def _is_of(state: Any, target: TypeName, registry: Registry) -> bool:
    """Tell whether a state, raw or not, is of a class."""
    if isinstance(state, RawValue):
        return state.name in names_of(target, registry)
    if isinstance(target, type):
        return isinstance(state, target)
    return target in names_of(type(state), registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStep(Step):
    """A function for a whole checkpoint."""

    function: Callable[[Any], Any]
    raw: bool

    @property
    def needs_raw(self) -> bool:
        return self.raw

    def run(self, work: Work) -> None:
        tree = work.tree(raw=self.raw)
        work.touched()
        changed = work.call(self.function, tree, "the checkpoint")
        if changed is not None:
            tree = changed
        problem = problem_of(tree)
        if problem:
            raise work.error(f"made a checkpoint that is none: {problem}")
        work.put(tree)
        work.renew_pending(tree)

    def clashes(self, other: Step) -> bool:
        return isinstance(other, CheckpointStep) and self.graph == other.graph


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStep(Step):
    """A ready-made operation."""

    operation: Operation

    @property
    def needs_raw(self) -> bool:
        return self.operation.needs_raw

    def run(self, work: Work) -> None:
        work.settle()
        self.operation.apply(work)
