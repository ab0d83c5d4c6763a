"""What a tools node that stops keeps in the checkpoint, and what it tells of itself: plain data, so any registry reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blobcp.errors import CheckpointVersionError
from blobcp.points import Signal, unflatten
from blobcp.resumption import Entry
from blobcp.scope import Scope
from blobcp.tools.messages import content_of
from blobcp.tools.request import ToolCall

__all__ = ["Kept", "find_kept", "info_of", "open_stops", "to_keep"]

_MARK = "blobcp.tools"
_VERSION = 1


class Kept(NamedTuple):
    """What an earlier visit has left: the request, the messages of the calls that are done, and where this is stored."""

    calls: list[ToolCall]
    done: dict[str, Any]
    entry: Entry


def to_keep(calls: Sequence[ToolCall], done: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that a later visit goes on with."""
    return {_MARK: _VERSION, "calls": [_plain(call) for call in calls], "done": dict(done)}


def find_kept(scope: Scope) -> Kept | None:
    """Return what was kept at this place, if the run stopped here.

    Raises:
        CheckpointVersionError: a newer release has kept it.
    """
    entries = [entry for entry in scope.resumption.at(scope.address) if _is_ours(entry)] if scope.resumption else []
    entries.sort(key=lambda entry: not entry.pending)
    if not entries:
        return None
    state = entries[0].record.state
    if state[_MARK] != _VERSION:
        raise CheckpointVersionError(
            f"{scope.address} was stopped by a newer release, whose kept results (version {state[_MARK]!r}) this one can't read; "
            "resume with that release"
        )
    return Kept([ToolCall(**call) for call in state["calls"]], dict(state["done"]), entries[0])


def open_stops(scope: Scope, call: ToolCall) -> list[Signal]:
    """Return the stops of a call that still wait for an answer, as they are stored."""
    address = scope.address.child("tool", call.name, call.key)
    entries = [entry for entry in scope.resumption or () if address.covers(entry.address)]
    return unflatten({at.id: at.address for at in entries}, {at.id: at.record for at in entries})


def info_of(
    calls: Sequence[ToolCall], done: Mapping[str, Any], stops: Mapping[str, Sequence[Signal]]
) -> dict[str, Any]:
    """Return what a person is told of a node that stopped: what was called, what is done, what waits and for what."""
    extra = {key: infos[0] if len(infos) == 1 else infos for key in stops if (infos := _infos(stops[key]))}
    return {
        "calls": [_plain(call) for call in calls],
        "executed": {key: content_of(message) for key, message in done.items()},
        "rerun": list(stops),
        "extra": extra,
    }


def _plain(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "key": call.key}


def _is_ours(entry: Entry) -> bool:
    state = entry.record.state
    return isinstance(state, dict) and _MARK in state


def _infos(stops: Sequence[Signal]) -> list[Any]:
    """Return what the tool itself said of its stop; where it said nothing, what is asked inside it."""
    said = [stop.info for stop in stops if stop.info is not None and not stop.of_graph]
    asked = [at.info for stop in stops for at in stop.walk() if at.is_root_cause and not at.of_graph]
    return said or [info for info in asked if info is not None]
