"""The code of a node, and what comes before and after it, as it is called in a stream run: handlers, function, branches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from blobcp.errors import ValueMismatchError
from blobcp.graph.bodies import acall_with_chunks, aread, call_with_chunks, gives_chunks, read, reader_of
from blobcp.graph.effects import Call
from blobcp.graph.flow import Refusal, Streams
from blobcp.graph.judging import CAUGHT, keys_chosen, mismatch, node_error, signals_in
from blobcp.graph.lives import MOST_LAZY, Driven, StreamVisit, joined_chunks, under_key, value_at
from blobcp.graph.making import body, handed_back
from blobcp.graph.output import Out
from blobcp.graph.parts import StreamTask
from blobcp.graph.plan import NodePlan
from blobcp.graph.run_errors import wrong_output
from blobcp.graph.session import Steps
from blobcp.graph.state import StateCell
from blobcp.stream.reader import StreamReader

__all__ = ["NodeCode"]


class NodeCode:
    """Calls what a user wrote for a node.

    Args:
        streams: the run's readers.
        on_loop: whether the driver is the one of an event loop.
    """

    def __init__(self, streams: Streams, *, on_loop: bool) -> None:
        self._streams = streams
        self._on_loop = on_loop

    def read(self, task: StreamTask, reader: StreamReader[Any]) -> Steps:
        """Read a stream to its end where node functions run; returns its chunks."""
        return (yield from self._called(task.path, Driven(read, aread, reader)))

    def before(
        self, visit: StreamVisit, task: StreamTask, pre: Callable[[Any, Any], Any], reader: StreamReader[Any]
    ) -> Generator[Any, Any, StreamReader[Any]]:
        """Do what comes before a node's own work, and return what it is given then."""
        if task.node.pre_reading is not None:
            given = yield from self._handled(visit, task, task.node.pre_reading, reader)
            changed = self._streams.own(reader_of(given))
            if task.node.graph is not None:  # the nodes inside must not be taken for who asks or fails in it
                changed = StreamReader((yield from self.read(task, changed)))
            return self._streams.own(changed)
        chunks = yield from self.read(task, reader)
        value = self._streams.apart(joined_chunks(task, chunks))
        changed = yield from self._handled(visit, task, pre, value)
        return self._streams.own(StreamReader([changed]))

    def own(self, visit: StreamVisit, task: StreamTask, reader: StreamReader[Any]) -> Generator[Any, Any, Out]:
        """Do a node's own work."""
        if gives_chunks(task):
            return Out(self._streams, reader=body(self._streams, task, visit, reader, on_loop=self._on_loop))
        call, acall = call_with_chunks(self._streams, task), acall_with_chunks(self._streams, task)
        result = yield from self._called(task.path, Driven(call, acall, reader))
        _check_result(task, result)
        return Out(self._streams, chunks=[result])

    def after(self, visit: StreamVisit, task: StreamTask, out: Out) -> Generator[Any, Any, Sequence[str]]:
        """Do what comes after a node's own work, and return the ends that its branches chose."""
        node = task.node
        yield from self._read_as_needed(task, out)
        if node.output_key is not None:
            out.convert(partial(under_key, node.output_key))
        if node.post_reading is not None:
            given = out.result_reader()
            changed = yield from self._handled(visit, task, node.post_reading, given)
            out.become(handed_back(self._streams, task, visit, given, changed, on_loop=self._on_loop))
        elif node.post is not None:
            changed = yield from self._handled(visit, task, node.post, joined_chunks(task, out.chunks or []))
            out.become([changed])
        is_asked = any(branch.reading is None for branch in node.branches)
        # A graph that has finished would have to run again if its handler asked later.
        if out.reader is not None and (is_asked or (node.graph is not None and node.post_reading is not None)):
            out.become((yield from self.read(task, out.reader)))
        return (yield from self.choose(task, node, task.run.path, out, visit.context)) if node.branches else ()

    def _read_as_needed(self, task: StreamTask, out: Out) -> Steps:
        """Read what a node gives to its end, where its value is asked for, or its end is waited for."""
        node = task.node
        takes_value = node.post is not None and node.post_reading is None
        wants_value = takes_value or any(branch.reading is None for branch in node.branches)
        is_waited_for = any(send.control and not send.data for send in node.sends)
        if out.reader is not None and (wants_value or is_waited_for or task.depth > MOST_LAZY):
            out.become((yield from self.read(task, out.reader)))
            if wants_value:
                _check_result(task, joined_chunks(task, out.chunks or []))
        if out.reader is None:
            task.depth = 0

    def choose(self, task: StreamTask | None, node: NodePlan, path: Sequence[str], out: Out, context: Context) -> Steps:
        """Return the ends that the branches of a node, or of START, chose, once each."""
        chosen: dict[str, None] = {}
        where = [*path, node.key]
        for branch in node.branches:
            if branch.reading is not None:
                given: Any = out.copy()
                call = Call(branch.reading, (given,), context)
            else:
                call = Call(branch.choose, (value_at(task, where, out),), context)
            answer = yield from self._called(where, call)
            if branch.reading is not None:
                given.close()
            chosen.update(dict.fromkeys(keys_chosen(answer, branch, where)))
        return list(chosen)

    def _handled(self, visit: StreamVisit, task: StreamTask, handler: Callable[[Any, Any], Any], value: Any) -> Steps:
        cell = task.run.frame.cell
        assert isinstance(cell, StateCell), "handlers are refused at build time on a graph without state"
        # One that reads a stream must not keep the state from the nodes that make it.
        lock = None if isinstance(value, StreamReader) else cell.lock
        return (
            yield from self._called(task.path, Call(handler, (value, cell.state), visit.context, lock, visit.scope))
        )

    def _called(self, path: Sequence[str], call: Any) -> Steps:
        """Have user code called; what it raises becomes a `NodeError`, unless it is a stop or was charged to a node."""
        try:
            return (yield call)
        except Refusal as refusal:
            raise refusal.error from None
        except CAUGHT as error:
            known = self._streams.charged_in(error)
            if known is not None:
                raise known from known.__cause__
            if signals_in(error):
                raise
            raise node_error(path, error) from error


def _check_result(task: StreamTask, value: Any) -> None:
    node, inside = task.node, task.run.children.get(task.node.key)
    if inside is not None:
        if not inside.fits_output(value):
            raise ValueMismatchError(wrong_output(inside, value), path=task.path)
    elif node.gives is not None and not node.gives(value):
        message = mismatch(task, "is declared to return", node.gives_name, value)
        raise ValueMismatchError(message, path=task.path)
