"""What a resume was told: answers checked against what a checkpoint asks, before any node runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from blobcp.checkpoint import Address, Checkpoint
from blobcp.errors import AmbiguousAnswerError, OptionError, UnknownInterruptError
from blobcp.resumption import NO_DATA, Entry, Resumption, Snapshot

__all__ = [
    "Answers",
    "answered_before",
    "expects_answers",
    "graph_states",
    "rebase",
    "resumption_of",
    "root_address_in",
]

Answers = Mapping[str, Any]


def resumption_of(
    checkpoint_id: str,
    stored: Checkpoint,
    answers: Answers | None,
    bare: list[Any],
    hosted: Resumption | None,
    snapshot: Snapshot,
) -> Resumption:
    """Return the stored points with what was answered.

    Args:
        checkpoint_id: for messages.
        stored: the root's checkpoint.
        answers: data by interrupt id; ``NO_DATA`` runs a point again without any.
        bare: one answer without an id, or nothing.
        snapshot: keeps values, so that every reader of an answer gets its own.
        hosted: what the node that calls this app knows of points inside it; what was answered there is answered here.

    Raises:
        UnknownInterruptError: an id is not pending.
        AmbiguousAnswerError: a bare answer while several points are pending.
    """
    entries = list(_entries(stored, snapshot))
    pending = {entry.id: entry for entry in entries if entry.pending}
    asked = [entry.id for entry in pending.values() if entry.record.is_root_cause]
    data = dict(answers or {})
    unknown = [id for id in (*data, *_meant_for(checkpoint_id, hosted)) if id not in pending]
    if unknown:
        raise UnknownInterruptError(
            f"checkpoint {checkpoint_id!r} has no pending interrupt {', '.join(map(repr, unknown))}; "
            f"pending are {', '.join(map(repr, asked)) or 'none'}",
            unknown=unknown,
            pending=asked,
        )
    if bare:
        data[_only(checkpoint_id, asked)] = bare[0]
    for entry in hosted or ():
        if entry.data is not NO_DATA and entry.id in pending:
            data.setdefault(entry.id, entry.data)
            entry.handed_on = True
        elif entry.named and entry.id in pending:
            data.setdefault(entry.id, NO_DATA)
    for id, value in data.items():
        pending[id].named = True
        pending[id].data = value
    return Resumption(entries, targeted=bool(data) or (hosted is not None and hosted.targeted))


def graph_states(
    checkpoint_id: str, stored: Checkpoint, root: Address, resumption: Iterable[Entry]
) -> list[tuple[Checkpoint, Any]]:
    """Return the states that answers to graphs' own points replace, as (checkpoint, new state).

    Raises:
        OptionError: the graph has no state, or one of another class.
    """
    graphs = dict(_graphs(stored, root))
    replaced: list[tuple[Checkpoint, Any]] = []
    for entry in resumption:
        if not (entry.record.of_graph and entry.named) or entry.data is NO_DATA:
            continue
        at = graphs.get(entry.address)
        if at is None:  # an app called from a node, which keeps its state itself
            continue
        if at.state is None or not isinstance(entry.data, type(at.state)):
            wanted = "has no state" if at.state is None else f"takes a state of class {type(at.state).__qualname__}"
            raise OptionError(
                f"interrupt {entry.id!r} of checkpoint {checkpoint_id!r} is of graph {entry.address}, which {wanted}; "
                f"it was given {type(entry.data).__qualname__}. Answer NO_DATA, or nothing, to let it go on as it is"
            )
        replaced.append((at, entry.hand_out()))
    return replaced


def root_address_in(stored: Checkpoint) -> Address | None:
    """Return the address that the root graph had when the checkpoint was written."""
    for id, record in stored.interrupt_id_to_state.items():
        if record.of_graph and record.parent is None:
            return stored.interrupt_id_to_address[id]
    return None


def expects_answers(checkpoint_id: str, hosted: Resumption | None) -> bool:
    """Tell whether the host was given answers to points that it knows to be stored under this id."""
    return bool(_meant_for(checkpoint_id, hosted))


def answered_before(checkpoint_id: str, hosted: Resumption | None) -> Resumption | None:
    """Return the points of a finished run under this id, for a new one that the host starts while it is not over."""
    entries = [entry for entry in hosted or () if entry.record.stored_under == checkpoint_id]
    return Resumption(entries, targeted=False) if entries else None


def _meant_for(checkpoint_id: str, hosted: Resumption | None) -> list[str]:
    return [entry.id for entry in hosted or () if entry.named and entry.record.stored_under == checkpoint_id]


def rebase(stored: Checkpoint, root: Address) -> None:
    """Give the stored points the addresses that they have in this run; an app may have been called from elsewhere."""
    then = root_address_in(stored)
    if then is None or then == root:
        return
    for id, address in stored.interrupt_id_to_address.items():
        if then.covers(address):
            stored.interrupt_id_to_address[id] = Address((*root, *address[len(then) :]))


def _entries(stored: Checkpoint, snapshot: Snapshot) -> Iterator[Entry]:
    for id, record in stored.interrupt_id_to_state.items():
        done = record.status == "done"
        data = record.payload if done else NO_DATA
        yield Entry(id, stored.interrupt_id_to_address[id], record, data=data, snapshot=snapshot)


def _graphs(stored: Checkpoint, address: Address) -> Iterator[tuple[Address, Checkpoint]]:
    yield address, stored
    for key, below in stored.sub_graphs.items():
        yield from _graphs(below, address.child("node", key))


def _only(checkpoint_id: str, asked: list[str]) -> str:
    if len(asked) != 1:
        raise AmbiguousAnswerError(
            f"a bare answer to checkpoint {checkpoint_id!r} is ambiguous: {len(asked)} interrupts are pending "
            f"({', '.join(map(repr, asked))}); give answers={{id: data}}",
            pending=asked,
        )
    return asked[0]
