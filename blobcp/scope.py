"""What running node code can see of its run, through one context variable.

A :class:`Frame` stands for one graph instance of a run, a :class:`Scope` for one visit of a node (or of a place inside
it). What a node finds of an earlier stop is in :mod:`blobcp.resumption`, the public functions over all this are in
:mod:`blobcp.interrupt` and :mod:`blobcp.graph.state`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from blobcp.checkpoint import Address
from blobcp.errors import OptionError, OutsideNodeError
from blobcp.points import Signal, copied
from blobcp.resumption import NO_DATA, Entry, Resumption

__all__ = [
    "CURRENT",
    "Frame",
    "InterruptSignal",
    "Owner",
    "RunClaims",
    "Scope",
    "current_scope",
    "new_id",
    "running_task",
    "this_owner",
]


Owner = tuple[int, object]
"""Who holds a lock: a thread, and the asyncio task that it runs, if any."""


class InterruptSignal(BaseException):
    """The stop signal on its way out of a node.

    It is no ``Exception``, so that a node's ``except Exception`` round a tool call can't turn a question to a person
    into "the tool failed". Let it pass; code that runs several things and collects their signals raises
    :func:`blobcp.composite_interrupt` with them.
    """

    def __init__(self, signal: Signal) -> None:
        super().__init__(f"stopped at {signal.address}")
        self.signal = signal

    def __reduce__(self) -> tuple[type[InterruptSignal], tuple[Signal]]:
        return InterruptSignal, (self.signal,)


@dataclass(slots=True)
class RunClaims:
    """What a run holds while it is under way, so that a run inside it can't take the same checkpoint."""

    store: object | None
    checkpoint_ids: frozenset[str]


class Frame:
    """One graph instance of a run, as seen from its nodes.

    Args:
        address: the graph's own address.
        cell: the graph's state, or ``None`` if it has none; the graph layer knows its type.
        outer: the frame of the graph that this one is nested in, or of the node that called the app.
        claims: what the run holds.
        resumption: the run's stored points.
        caller: who called the app that this is the root of, as the owner of a state lock.
    """

    __slots__ = ("address", "caller", "cell", "claims", "outer", "resumption")

    def __init__(
        self,
        address: Address,
        cell: object | None,
        outer: Frame | None,
        claims: RunClaims,
        resumption: Resumption | None,
        caller: Owner | None = None,
    ) -> None:
        self.address = address
        self.caller = caller
        self.cell = cell
        self.outer = outer
        self.claims = claims
        self.resumption = resumption

    def outwards(self) -> Iterator[Frame]:
        """Yield this frame and those round it, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer


class Scope:
    """One visit of a node, or of a place inside a node.

    Args:
        frame: the graph the node is in.
        key: the node's key.

    Attributes:
        raised: the signals that were raised during the visit and not put under another one.
        closed: set once the node has returned; late questions are refused.
        resumption: what is stored of the node, and of all inside it.
    """

    __slots__ = ("_address", "_key", "_looked", "_outer", "_task", "_thread", "closed", "frame", "raised", "resumption")

    def __init__(self, frame: Frame, key: str) -> None:
        self.frame = frame
        self._key = key
        self._outer: Scope | None = None
        self._address: Address | None = None
        self._thread = 0
        self._task: object | None = None
        self._looked = False
        self.raised: list[Signal] = []
        self.closed = False
        self.resumption: Resumption | None = None
        if frame.resumption:
            self.resumption = frame.resumption.take(self.address)

    @property
    def address(self) -> Address:
        """Where this is."""
        if self._address is None:
            self._address = self.frame.address.child("node", self._key)
        return self._address

    def inside(self, type: str, id: str, sub_id: str) -> Scope:
        """Return the scope of a place inside this one; what happens there is still part of this visit."""
        inner = Scope.__new__(Scope)
        inner.frame = self.frame
        inner._key = self._key
        inner._outer = self
        inner._address = self.address.child(type, id, sub_id)
        inner._looked = False
        inner.raised = self.raised
        inner.closed = False
        inner.resumption = self.resumption
        inner.enter(running_task())
        return inner

    def enter(self, task: object | None) -> None:
        """Note whose turn it is: questions asked by this thread and task are asked one after the other."""
        self._thread = threading.get_ident()
        self._task = task

    def ask(self, info: Any, state: Any) -> Any:
        """Return the data that this question was answered with, or raise the signal that stops the run."""
        self._refuse_if_closed()
        in_order = self._in_order()
        entry = self._match(info, in_order)
        if entry is not None and entry.data is not NO_DATA:
            return entry.hand_out()
        signal = Signal(
            id=entry.id if entry else new_id(),
            address=self.address,
            info=copied(info),
            state=copied(state),
            in_order=in_order,
            created_at=entry.record.created_at if entry else None,
        )
        self.raised.append(signal)
        raise InterruptSignal(signal)

    def pass_on(self, info: Any, state: Any, children: list[Signal]) -> Signal:
        """Return a signal of this place with others below it, under the id that it had if it is still open."""
        entry = self.resumption.passed_on_at(self.address, of_graph=False) if self.resumption and children else None
        return Signal(
            id=entry.id if entry else new_id(),
            address=self.address,
            info=copied(info),
            state=copied(state),
            children=children,
            created_at=entry.record.created_at if entry else None,
        )

    def gather(self, signal: Signal) -> None:
        """Take a signal for raised, in place of those that it has below it.

        Another thread of the node may ask at this very moment: what it appends stays, as nothing is copied here.
        """
        below = {at.id for at in signal.walk()}
        with _matching:
            for index in reversed(range(len(self.raised))):
                if self.raised[index].id in below:
                    del self.raised[index]
            self.raised.append(signal)

    def primary(self) -> Entry | None:
        """Return the stored point that this place is told of.

        One that is still open comes before one that was answered earlier, one that an answer names before others, an
        outer one before one inside.
        """
        entries = self.resumption.at(self.address) if self.resumption else []
        entries.sort(key=lambda entry: (not entry.pending, not entry.named))
        return entries[0] if entries else None

    def look(self) -> Entry | None:
        """Like `primary`, for a node that reads its answer without asking again."""
        self._looked = True
        entry = self.primary()
        if entry is not None and entry.data is not NO_DATA:
            entry.looked_at = True
        return entry

    def kept(self) -> list[Entry]:
        """Return the points whose answers must not be lost if this visit ends in a stop."""
        return [entry for entry in self.resumption or () if entry.outlives_stop]

    def _match(self, info: Any, in_order: bool) -> Entry | None:
        """Find the stored point that this question is.

        The same question is known by its content. A question that reads differently now (it holds a time, say) is
        taken by its turn, but only where turns are certain: asked by the node's own body, by a node that has not
        already looked at its answer by another way.
        """
        if self.resumption is None:
            return None
        with _matching:
            entries = [entry for entry in self.resumption.at(self.address) if entry.record.is_root_cause]
            found = next((entry for entry in entries if not entry.used and _same(entry.record.info, info)), None)
            if found is None and any(entry.by_turn and _same(entry.record.info, info) for entry in entries):
                raise OptionError(
                    f"the questions of {self.address} have changed since the run stopped there: an earlier one that reads "
                    f"differently was given the answer to this one. Answers can't be told apart; what is stored was not "
                    "changed. Run the code that asked, or start anew with force_new_run"
                )
            if found is None and in_order and not self._looked:
                found = next((entry for entry in entries if not entry.used and entry.record.in_order), None)
                if found is not None:
                    found.by_turn = True
            if found is not None:
                found.used = True
        return found

    def _in_order(self) -> bool:
        if threading.get_ident() != self._thread:
            return False
        task = running_task()
        return task is None or task is self._task

    def _refuse_if_closed(self) -> None:
        outer: Scope | None = self
        while outer is not None:
            if outer.closed:
                raise OutsideNodeError(
                    f"{self.address} asked after its node had ended; wait in the node for the tasks and threads it starts"
                )
            outer = outer._outer


_matching = threading.Lock()
"""Held while a question is matched, or several are gathered: threads of one node may ask at once."""

CURRENT: ContextVar[Scope | None] = ContextVar("blobcp_scope", default=None)


def current_scope(what: str) -> Scope:
    """Return the scope of the running node.

    Raises:
        OutsideNodeError: no node runs here; ``what`` names the function that needs one.
    """
    scope = CURRENT.get()
    if scope is None:
        raise OutsideNodeError(
            f"{what} was called outside of a running node; in a thread that a node starts, "
            "run it by contextvars.copy_context().run(...) or asyncio.to_thread(...)"
        )
    return scope


def new_id() -> str:
    """Return an id that no other point has."""
    return uuid4().hex


def this_owner() -> Owner:
    """Return who runs here."""
    return threading.get_ident(), running_task()


def _same(stored: Any, asked: Any) -> bool:
    if type(stored) is not type(asked):
        return False
    try:
        return bool(stored == asked)
    except Exception:
        # An array has no single answer, and a user's == may raise anything: such a question is known by its turn.
        return False


def running_task() -> object | None:
    """Return the asyncio task that runs here, or ``None`` outside of one."""
    loop = asyncio._get_running_loop()  # unlike current_task(), it raises nothing where there is none
    return None if loop is None else asyncio.current_task(loop)
