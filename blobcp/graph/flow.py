"""The readers of a stream run: handed on, kept unread for a checkpoint, closed at the end.

Here is also known who a failing stream is charged to: the node that makes it, whoever reads it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blobcp.cancel import CancelToken
from blobcp.errors import RunError
from blobcp.graph.effects import Abandoned
from blobcp.graph.fan_in import FanIn
from blobcp.graph.instance import GraphRun
from blobcp.graph.judging import CAUGHT, node_error, stops_of
from blobcp.graph.parts import Part, StreamTask
from blobcp.graph.plan import END
from blobcp.points import Signal
from blobcp.resumption import Snapshot
from blobcp.scope import InterruptSignal, Scope
from blobcp.stream.flatten import KeptChunks
from blobcp.stream.reader import StreamReader

__all__ = ["Late", "Refusal", "Streams"]

MANY: Final = 64
"""How many readers are remembered before it is looked which of them are done with."""

EMPTY: Final[tuple[Any, ...]] = ()


class Refusal(Exception):
    """Carries an error of ours through a place where errors are the node's."""

    def __init__(self, error: RunError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Late:
    """What came out of a stream that a node had handed on; ``task`` is ``None`` where several streams don't merge."""

    run: GraphRun
    task: StreamTask | None
    error: BaseException
    signals: Sequence[Signal] = ()


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A value as it was; the object itself may have been changed since."""

    thaw: Callable[[], Any]


class Streams:
    """The readers of one run.

    Args:
        snapshot: keeps values as they were, for a run that may be stored; ``None``: nothing is kept.

    Attributes:
        late: what has stopped or failed and was not dealt with yet. Any thread adds to it.
        token: that of a run which may be cancelled.
    """

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.late: deque[Late] = deque()
        self.token: CancelToken | None = None
        self._snapshot = snapshot
        self._readers: set[StreamReader[Any]] = set()
        self._many = MANY
        self._charged: dict[int, BaseException] = {}

    @property
    def keeps(self) -> bool:
        """Whether what was taken can be given back, since the run may be stored."""
        return self._snapshot is not None

    def own(self, reader: StreamReader[Any]) -> StreamReader[Any]:
        """Have a reader closed with the run."""
        self._readers.add(reader)
        if len(self._readers) > self._many:
            self._readers = {each for each in self._readers if not each.spent}
            self._many = max(MANY, 2 * len(self._readers))
        return reader

    @property
    def is_left(self) -> bool:
        """Whether the run is to stop at once, so that nothing begins or finishes any more."""
        return self.token is not None and self.token.due

    def heed(self) -> None:
        """Let nothing begin or finish any more.

        Raises:
            Abandoned: the run is to stop at once.
        """
        if self.is_left:
            raise Abandoned

    def apart(self, value: Any) -> Any:
        """Return a value that code may change while what it was made of is kept."""
        thaw = None if self._snapshot is None else self._snapshot(value)
        return value if thaw is None else thaw()

    def split(self, value: Any, count: int) -> list[Any]:
        if not isinstance(value, StreamReader):
            return [value] * count
        return [self.own(copy) for copy in value.copy(count)] if count else []

    def open(self, part: Part, nothing: bool) -> StreamReader[Any]:
        value = part.value
        if isinstance(value, _Frozen):
            value = value.thaw()
        elif isinstance(value, StreamReader):
            if self._snapshot is None:
                part.value = None
                return value
            live, part.value = self.split(value, 2)
            return self.own(live)
        if isinstance(value, KeptChunks):
            return self.own(value.reader())
        if self._snapshot is not None:
            thaw = self._snapshot(value)
            part.value = value if thaw is None else _Frozen(thaw)
        return self.own(StreamReader(EMPTY if nothing and value is None else [value]))

    def gather(self, run: GraphRun, key: str, readers: dict[str, StreamReader[Any]]) -> StreamReader[Any]:
        if not readers:  # END is reached, and nobody sends it anything
            return self.own(StreamReader([None]))
        marks = key == END and run.plan.mark_source_end
        if len(readers) == 1 and not marks:
            return next(iter(readers.values()))
        return self.own(FanIn(run, key, marks, self.fail).reader(readers))

    def close(self, part: Part) -> None:
        if isinstance(part.value, StreamReader):
            part.value.close()

    def stored(self, part: Part) -> Any:
        value = part.value
        if isinstance(value, _Frozen):
            return value.thaw()
        return None if isinstance(value, StreamReader) else value

    def close_all(self) -> list[RunError]:
        """Close every reader of the run that is left; returns how nodes failed at that."""
        failed: list[RunError] = []
        for reader in list(self._readers):
            try:
                reader.close()
            except BaseException as error:
                failed += self._failed_in(error)
        return failed

    async def aclose_all(self, *, patient: bool = True) -> list[RunError]:
        """Do as `close_all` does, and wait for those that are read on event loops.

        Args:
            patient: whether to wait for threads, too, that are inside a source.
        """
        failed: list[RunError] = []
        cancelled: asyncio.CancelledError | None = None
        for reader in list(self._readers):
            try:
                await (reader.aclose() if patient and cancelled is None else reader.leave())
            except asyncio.CancelledError as again:  # that leaves none of the others open
                cancelled = again
            except BaseException as error:
                failed += self._failed_in(error)
        if cancelled is not None:
            raise cancelled
        return failed

    def _failed_in(self, error: BaseException) -> list[RunError]:
        """Return the failure of a node that is behind an error; a question that one asks at its end is not heard."""
        known = self.charged_in(error)
        if known is None:
            raise error
        return [known] if isinstance(known, RunError) else []

    def charge(self, task: StreamTask, scope: Scope, error: BaseException) -> BaseException:
        """Charge an error to the node that makes the stream it came out of.

        Returns:
            What to raise in the one who reads: the error of the node that it was charged to first.
        """
        known = self.charged_in(error)
        if known is not None:
            return known
        stops = stops_of(scope, error)
        if not stops and not isinstance(error, CAUGHT):
            return error
        raised: BaseException
        if stops:
            scope.raised[:] = stops  # put under one of the node's own, once
            is_own = isinstance(error, InterruptSignal) and error.signal is stops[0]
            raised = error if is_own else InterruptSignal(stops[0])
        else:
            raised = error.error if isinstance(error, Refusal) else node_error(task.path, error)
        if not (stops or task.flowing):
            task.failure = raised
        self._note(Late(task.run, task, raised, stops), is_late=task.flowing)
        return raised

    def fail(self, run: GraphRun, error: RunError) -> RunError:
        """Have a run fail because of what is no node's fault; returns the error."""
        self._note(Late(run, None, error), is_late=True)
        return error

    def charged_in(self, error: BaseException) -> BaseException | None:
        """Return the error behind this one that was charged to a node, if there is one."""
        for at in _chain(error):
            known = self._charged.get(id(at))
            if known is at:
                return at
        return None

    def _note(self, late: Late, *, is_late: bool) -> None:
        self._charged[id(late.error)] = late.error
        if is_late:
            self.late.append(late)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it, each once."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        at = pending.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        pending += [at.__context__, at.__cause__]
        if isinstance(at, BaseExceptionGroup):
            pending += at.exceptions
