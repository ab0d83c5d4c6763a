"""One blob, one function for its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from blobcp.codec import Envelope, Serializer
from blobcp.errors import OptionError

from .blobs import checkpointer_of, open_blob
from .work import Work, graphs_of

__all__ = ["Migrate", "migrate_checkpoint_state"]

Migrate = Callable[[Any], tuple[Any, bool]]
"""``state -> (state, changed)``."""


def migrate_checkpoint_state(
    data: bytes,
    migrate: Migrate,
    *,
    serializer: Serializer | None = None,
    envelope: Envelope | None = None,
    state_version: int | None = None,
    interrupt_states: Migrate | None = None,
    raw: bool = False,
    checkpoint_id: str | None = None,
) -> bytes:
    """Change the states in a blob.

    Args:
        data: what the store gave.
        migrate: ``state -> (state, changed)``, called for the state of each graph that has one, a graph before those nested
            in it.
        serializer: the one that the blob was written by; ``None``: a `MsgpackSerializer`.
        envelope: the one that it was sealed by; ``None``: an `Envelope` with its defaults.
        state_version: the version to stamp it with; ``None``: as it was.
        interrupt_states: likewise, for what the nodes that stopped have kept for themselves (the ``state`` of
            ``interrupt(info, state)``).
        raw: whether the functions get each value of a class of yours as a `RawValue`, whose class need not be there.
        checkpoint_id: the id that it is stored under, which is compared; ``None``: whatever it was sealed for.

    Returns:
        The very object that was given where nothing has changed, or for the mark of a finished run; else a new blob, with the
        header of the old one (its id, parent, run, step and time) and the new states.

    Raises:
        OptionError: ``state_version`` is none.
        MigrationError: a function failed, or gave something else; its exception is the cause.
        CheckpointError: the bytes are no blob that can be opened.
        SerializationError: a value can't be brought back.
    """
    if state_version is not None and (type(state_version) is not int or state_version < 0):
        raise OptionError(f"state_version={state_version!r} is no version; give an int, or None to leave it as it is")
    checkpointer = checkpointer_of(serializer, envelope)
    header, body = open_blob(checkpointer, data, checkpoint_id)
    if header.status == "done":
        return data
    work = Work(checkpointer, header, body)
    work.label = "the function"
    changed = _change(work, migrate, interrupt_states, raw)
    stamped = header if state_version is None else msgspec.structs.replace(header, state_version=state_version)
    if not changed and stamped == header:
        return data
    return checkpointer.seal(stamped, work.body() if changed else body)


def _change(work: Work, migrate: Migrate, interrupt_states: Migrate | None, raw: bool) -> bool:
    any_changed = False
    tree = work.tree(raw=raw)
    for path, graph in list(graphs_of(tree)):
        if graph.state is not None:
            graph.state, changed = _asked(work, migrate, graph.state, "the state", path)
            any_changed |= changed
    for id, record in tree.interrupt_id_to_state.items():
        if interrupt_states is not None and record.state is not None:
            what = f"the state of interrupt {id} at {tree.interrupt_id_to_address[id]}"
            record.state, changed = _asked(work, interrupt_states, record.state, what, ())
            any_changed |= changed
    return any_changed


def _asked(work: Work, migrate: Migrate, state: Any, what: str, path: tuple[str, ...]) -> tuple[Any, bool]:
    answer = work.call(migrate, state, what, path)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise work.error(f"gave {type(answer).__qualname__} for {what}; return (state, changed)", path)
    new, changed = answer
    if changed and new is None:
        raise work.error(f"gave None for {what}; return the new state", path)
    return (new, True) if changed else (state, False)
