"""Stopping a run from inside a node, and reading what it was resumed with.

``interrupt()`` stops the run and, once somebody has answered, returns what they said::

    def approve(order):
        if interrupt({"ask": "refund?", "order": order}):
            return "refunded"
        return "refused"

The node runs again from its top on resume, with its original input. Questions that it asks one after the other are
answered one by one; what was answered earlier is remembered. A question is known by its info; where that reads
differently the second time, by its turn. Questions asked side by side, from tasks or threads that the node starts, are
known by their info alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from blobcp.checkpoint import Address
from blobcp.errors import Interrupted, NodeError, text_of
from blobcp.points import InterruptInfo, InterruptPoint, Signal
from blobcp.resumption import NO_DATA
from blobcp.scope import CURRENT, InterruptSignal, current_scope

__all__ = [
    "NO_DATA",
    "InterruptInfo",
    "InterruptPoint",
    "InterruptSignal",
    "InterruptStateView",
    "ResumeData",
    "address_segment",
    "composite_interrupt",
    "current_address",
    "get_interrupt_state",
    "get_resume_data",
    "interrupt",
    "signal_of",
]


class InterruptStateView(NamedTuple):
    """What a node finds of its last stop: whether there was one, whether it kept a state, and the state."""

    was_interrupted: bool
    has_state: bool
    state: Any


class ResumeData(NamedTuple):
    """What a node was resumed with: whether it is meant, whether it was given data, and the data."""

    is_target: bool
    has_data: bool
    data: Any


def interrupt(info: Any = None, state: Any = None) -> Any:
    """Stop the run here; after a resume that answers this question, return the answer.

    Args:
        info: what is asked. It is stored, so that another process can show it.
        state: what the node wants back on resume, by `get_interrupt_state`.

    Returns:
        The data that the answer gave; any value, ``None`` and ``False`` included. To ask again where it is no good, call
        ``interrupt`` again: ``while not valid(answer := interrupt("amount?")): ...``.

    Raises:
        InterruptSignal: the question has no answer yet. Let it pass.
        OutsideNodeError: no node runs here.
    """
    return current_scope("interrupt()").ask(info, state)


def composite_interrupt(info: Any, state: Any, signals: Sequence[BaseException]) -> BaseException:
    """Return what to raise in a node that ran several things, of which some stopped.

    Args:
        info: what the node itself has to say.
        state: what the node wants back on resume, such as the results of the things that finished.
        signals: what they raised: ``InterruptSignal`` of places inside the node, ``Interrupted`` of apps. With none,
            the node itself is the one that stops.

    Returns:
        An ``InterruptSignal`` with those below it; an ordinary error where one of them is no stop at all.
    """
    scope = current_scope("composite_interrupt()")
    children: list[Signal] = []
    for error in signals:
        child = signal_of(error)
        if child is None:
            failed = NodeError(f"{scope.address} passes on a failure with its interrupts: {text_of(error)}")
            failed.__cause__ = error
            return failed
        if all(child.id != known.id for known in children):
            children.append(child)
    signal = scope.pass_on(info, state, children)
    scope.gather(signal)
    return InterruptSignal(signal)


def signal_of(error: BaseException) -> Signal | None:
    """Return the stop that an exception stands for, or ``None`` if it is an ordinary failure.

    An exception raised ``from`` a stop counts as that stop.
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, InterruptSignal | Interrupted):
            return at.signal
        at = at.__cause__
    return None


def get_interrupt_state(type: type[Any] | None = None) -> InterruptStateView:
    """Return whether this node was interrupted in the run that is being resumed, and the state it kept.

    Args:
        type: the expected class of the state; a state of another class counts as none.
    """
    entry = current_scope("get_interrupt_state()").primary()
    if entry is None:
        return InterruptStateView(False, False, None)
    state = entry.record.state
    fits = state is not None and (type is None or isinstance(state, type))
    return InterruptStateView(True, fits, state if fits else None)


def get_resume_data(type: type[Any] | None = None) -> ResumeData:
    """Return whether the answers of this resume mean this node (or a place inside it), and the data for it.

    Args:
        type: the expected class of the data; data of another class counts as none.

    This only looks: the same question asked by `interrupt` afterwards has the same data for its answer.
    """
    scope = current_scope("get_resume_data()")
    is_target = scope.resumption is not None and scope.resumption.names(scope.address)
    entry = scope.look()
    if entry is None or entry.data is NO_DATA:
        return ResumeData(is_target, False, None)
    fits = type is None or isinstance(entry.data, type)
    return ResumeData(is_target, fits, entry.hand_out() if fits else None)


def current_address() -> Address:
    """Return the address of the running node, or of the place inside it."""
    return current_scope("current_address()").address


@contextmanager
def address_segment(type: str, id: str, sub_id: str = "") -> Iterator[Address]:
    """Give a part of a node an address of its own, for nodes that run several things.

    Args:
        type: what kind of thing it is, for instance ``"tool"``.
        id: which one.
        sub_id: a second id, where several of one id run side by side.

    Yields:
        The address; inside the block, `interrupt` and its kin speak of that place.
    """
    inner = current_scope("address_segment()").inside(type, id, sub_id)
    token = CURRENT.set(inner)
    try:
        yield inner.address
    finally:
        CURRENT.reset(token)
