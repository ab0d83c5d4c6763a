"""One visit of a tools node: which calls run, and what comes of them.

It starts no thread and no task: see `running` and, for what is given as it comes, `streaming`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blobcp.errors import ToolError, text_of
from blobcp.graph.session import CAUGHT, stops_of
from blobcp.interrupt import composite_interrupt
from blobcp.points import Signal
from blobcp.scope import CURRENT, InterruptSignal, Scope
from blobcp.tools.chunks import MessagePiece, ToolMessages
from blobcp.tools.kept import Kept, find_kept, info_of, open_stops, to_keep
from blobcp.tools.messages import tool_message
from blobcp.tools.parameters import ArgumentsError
from blobcp.tools.policy import Policy
from blobcp.tools.request import ToolCall, read_request
from blobcp.tools.tool import Tool

__all__ = ["Batch", "Job"]

_UNSET: Final = object()


@dataclass(slots=True, eq=False)
class Job:
    """One call that runs in this visit.

    Attributes:
        call: the call.
        place: its position among the calls of the request.
        work: runs it.
        is_async: whether it needs an event loop.
        streams: whether its result is known to be a stream of chunks; it may be one all the same.
        of_tool: whether a tool runs, as against a handler that stands in for one.
        message: what it came to.
        stops: where it stopped instead.
        error: why it failed instead.
    """

    call: ToolCall
    place: int
    work: Callable[[], Any]
    is_async: bool = False
    streams: bool = False
    of_tool: bool = True
    message: Any = _UNSET
    stops: Sequence[Signal] = ()
    error: ToolError | None = None

    @property
    def messages(self) -> list[Any]:
        """The message, if it has come to one."""
        return [] if self.message is _UNSET else [self.message]


class Batch:
    """The calls of one visit.

    Args:
        tools: the tools by name.
        policy: what becomes of calls that can't be carried out or fail.
        limit: how many may run at once; ``None`` for any number.
        scope: the visit.
        value: what the node was handed; what it has kept from an earlier visit comes first.

    Raises:
        ValueMismatchError: it was handed no request.
        ToolError: the request is refused as a whole; nothing has run.
    """

    def __init__(self, tools: Mapping[str, Tool], policy: Policy, limit: int | None, scope: Scope, value: Any) -> None:
        self._tools = tools
        self._policy = policy
        self._scope = scope
        kept = find_kept(scope)
        self._calls = kept.calls if kept else read_request(value)
        self._done: dict[str, Any] = kept.done if kept else {}
        left = [call for call in self._calls if call.key not in self._done]
        self._parked = _parked(scope, kept, left)
        self._size = len(self._calls)
        self.jobs = [
            self._job(call, place)
            for place, call in enumerate(self._calls)
            if call.key not in self._done and call.key not in self._parked
        ]
        self.width = min(limit or len(self.jobs), len(self.jobs))
        self._waiting = deque(self.jobs)
        self._started = 0
        self._given = 0
        self._failing = False
        self._abandoned = False
        self._lock = threading.Lock()

    def take(self) -> Job | None:
        """Hand out the next call, in order. Once one has failed, those that would wait for their turn are left out."""
        with self._lock:
            if not self._waiting or self._abandoned or (self._failing and self._started >= self.width):
                return None
            self._started += 1
            return self._waiting.popleft()

    def abandon(self) -> None:
        """Start no further call; nobody waits for this visit any more."""
        self._abandoned = True

    @property
    def is_over(self) -> bool:
        """Whether no result is of use any more, as a call has failed or nobody waits."""
        return self._failing or self._abandoned

    def enter(self, job: Job) -> Scope:
        """Give the running thread or task the call's own place; to be called in a context of its own."""
        place = self._scope.inside("tool", job.call.name, job.call.key)
        # Not shared with the other calls: threads may raise at once, and each call is to know its own.
        place.raised = []
        CURRENT.set(place)
        return place

    def conclude(self, job: Job, place: Scope, result: Any, error: BaseException | None) -> None:
        """Note what a call came to; runs in its place, since handlers of the user's may ask questions too."""
        try:
            self._note(job, place, result, error)
        except CAUGHT as failed:
            job.stops = stops_of(place, failed)
            if not job.stops:
                self._fail(job, failed)

    def _note(self, job: Job, place: Scope, result: Any, error: BaseException | None) -> None:
        job.stops = stops_of(place, error)
        if job.stops:
            return
        make = self._policy.to_message
        if error is None:
            try:
                job.message = make(job.call, result)
                return
            except Exception as unusable:
                error = unusable
        if not job.of_tool:
            raise error
        job.message = make(job.call, self._policy.failed(job.call, error))

    def _fail(self, job: Job, error: BaseException) -> None:
        call = job.call
        job.error = ToolError(
            f"tool {call.name!r} (call {call.id!r}) failed: {text_of(error)}", tool=call.name, call_id=call.id
        )
        job.error.__cause__ = error
        self._failing = True

    def piece(self, job: Job, chunk: Any) -> MessagePiece | None:
        """Return a chunk of a tool as a piece of its message; ``None`` where the message must be whole."""
        is_text = type(chunk) is str and self._policy.to_message is tool_message
        return MessagePiece(tool_message(job.call, chunk)) if is_text else None

    def chunk(self, job: Job, said: Any) -> ToolMessages:
        """Return what a stream run gives for something that is said of a call."""
        with self._lock:
            self._given += 1
        return ToolMessages.of(self._size, {job.place: said})

    def first_chunks(self) -> list[ToolMessages]:
        """Return what a stream run gives before any call has run: what was kept."""
        kept = {place: self._done[call.key] for place, call in enumerate(self._calls) if call.key in self._done}
        if not kept:
            return []
        self._given = 1
        return [ToolMessages.of(self._size, kept)]

    def last_chunks(self) -> list[ToolMessages]:
        """Return what a stream run gives when all calls have run.

        One chunk alone would not be joined, and reach a node of values as it is; so there are always two.

        Raises:
            ToolError: a call has failed.
            InterruptSignal: a call waits for an answer.
        """
        self.result()
        return [ToolMessages.of(self._size, {})] if self._given == 1 else []

    def result(self) -> list[Any]:
        """Return the messages in the order of the calls.

        Raises:
            ToolError: a call has failed; others that failed are notes on it.
            InterruptSignal: a call waits for an answer.
        """
        failures = [job.error for job in self.jobs if job.error is not None]
        if failures:
            for other in failures[1:]:
                failures[0].add_note(str(other))
            raise failures[0]
        done = self._done | {job.call.key: job.message for job in self.jobs if not job.stops}
        stopped = self._parked | {job.call.key: job.stops for job in self.jobs if job.stops}
        done, stopped = self._in_order(done), self._in_order(stopped)
        if stopped:
            signals = [InterruptSignal(stop) for stops in stopped.values() for stop in stops]
            raise composite_interrupt(info_of(self._calls, done, stopped), to_keep(self._calls, done), signals)
        return list(done.values())

    def _in_order(self, by_key: Mapping[str, Any]) -> dict[str, Any]:
        return {call.key: by_key[call.key] for call in self._calls if call.key in by_key}

    def _job(self, call: ToolCall, place: int) -> Job:
        tool = self._tools.get(call.name)
        if tool is None:
            return Job(call, place, self._policy.unknown(call, list(self._tools)), of_tool=False)
        try:
            arguments = tool.parameters.read(call.arguments)
        except ArgumentsError as error:
            return Job(call, place, self._policy.bad_arguments(call, error), of_tool=False)
        return Job(call, place, lambda: tool.call(**arguments), is_async=tool.is_async, streams=tool.streams)


def _parked(scope: Scope, kept: Kept | None, left: Iterable[ToolCall]) -> dict[str, Sequence[Signal]]:
    """Return the calls that this resume does not mean, with what they wait for; they are not entered."""
    resumption = scope.resumption
    if resumption is None or kept is None or kept.entry.named or not resumption.targeted:
        return {}
    stops = {
        call.key: open_stops(scope, call)
        for call in left
        if not resumption.names(scope.address.child("tool", call.name, call.key))
    }
    return {key: waiting for key, waiting in stops.items() if waiting}
