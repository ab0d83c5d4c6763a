"""What travels between the nodes of a stream run, as the machine sees it: parts, which it hands on and never reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from blobcp.graph.instance import GraphRun, Task
from blobcp.graph.plan import NodePlan

if TYPE_CHECKING:
    from blobcp.graph.effects import Visit

__all__ = ["Flow", "Part", "Sent", "StreamTask"]


class Part:
    """What one node sent to one other: a plain value, or a stream of which nothing has been read.

    Attributes:
        value: the value, or the reader.
        depth: how many nodes work while it is read, one for the other.
    """

    __slots__ = ("depth", "value")

    def __init__(self, value: Any, depth: int = 0) -> None:
        self.value = value
        self.depth = depth


class Sent:
    """What a node (or START) has sent, once.

    Attributes:
        task: whose result it is; ``None`` for START.
        node: the node.
        chosen: the ends that its branches chose.
        parts: what each target got.
        rest: the result itself, where nobody gets it.
        taken: whether a target has taken its part.
    """

    __slots__ = ("chosen", "node", "parts", "rest", "taken", "task")

    def __init__(
        self, task: StreamTask | None, node: NodePlan, chosen: Sequence[str], parts: dict[str, Part], rest: Part | None
    ) -> None:
        self.task = task
        self.node = node
        self.chosen = chosen
        self.parts = parts
        self.rest = rest
        self.taken = False

    @property
    def all_parts(self) -> list[Part]:
        """All that was sent."""
        return list(self.parts.values()) if self.rest is None else [self.rest]

    @property
    def is_shared(self) -> bool:
        """Whether it is not only for one reader, who reads it to its end or for whom nobody does."""
        return self.rest is not None or len(self.parts) > 1


class StreamTask(Task):
    """One visit of a node in a stream run.

    Attributes:
        parts: what it was given, by source, as it was before anything of it was read.
        came: what made it run.
        flowing: whether it has handed on a result that may still be in the making.
        over: whether the stream that it made has ended, or was closed.
        failure: what its code raised before its result was handed on, even if whoever read it has swallowed it.
        lost: whether it was taken back, so that what it does is of no use.
        inner: the graph inside it, also while it is flowing.
        visit: what is done for it now or was done last.
        depth: how many nodes work while its result is read.
        step: how many steps its graph had done before it.
    """

    __slots__ = ("came", "depth", "failure", "flowing", "inner", "lost", "over", "parts", "step", "visit")

    def __init__(
        self, run: GraphRun, node: NodePlan, value: Any, *, empty: bool = False, skip_pre: bool = False
    ) -> None:
        super().__init__(run, node, value, empty=empty, skip_pre=skip_pre)
        self.parts: dict[str, Part] = {}
        self.came: Sequence[Sent] = ()
        self.flowing = False
        self.over = True
        self.failure: BaseException | None = None
        self.lost = False
        self.inner: GraphRun | None = None
        self.visit: Visit | None = None
        self.depth = 0
        self.step = run.steps


class Flow(Protocol):
    """What knows about readers."""

    def split(self, value: Any, count: int) -> list[Any]:
        """Return as many independent copies of a result; it is not used otherwise."""
        ...

    def open(self, part: Part, nothing: bool) -> Any:
        """Return a reader of a part, and leave the part as it was.

        Args:
            part: the part.
            nothing: whether ``None`` stands for a stream without chunks.
        """
        ...

    def gather(self, run: GraphRun, key: str, readers: dict[str, Any]) -> Any:
        """Return one reader of several, by source, in front of a node or END."""
        ...

    def close(self, part: Part) -> None:
        """Close a part that nobody will ask for."""
        ...

    def stored(self, part: Part) -> Any:
        """Return what a checkpoint keeps of a part; ``None`` for a stream that has not been read to its end."""
        ...
