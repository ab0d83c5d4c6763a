"""What stored channels know of the nodes before them, changed from outside of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from blobcp.checkpoint import ChannelState, DagChannelState, PregelChannelState

__all__ = ["forget", "has_anything", "make_like", "merge", "put", "rename_source"]

V = TypeVar("V")


def make_like(channel: ChannelState) -> ChannelState:
    """Return an empty channel of the same mode."""
    return PregelChannelState() if isinstance(channel, PregelChannelState) else DagChannelState()


def has_anything(channel: ChannelState) -> bool:
    """Tell whether a value or a trigger waits in a channel."""
    return bool(channel.values or (isinstance(channel, PregelChannelState) and channel.triggers))


def rename_source(channel: ChannelState, old: str, new: str) -> None:
    """Let what came from one node have come from another; where both have sent something, each keeps its own."""
    channel.values = _renamed(channel.values, old, new)
    if isinstance(channel, PregelChannelState):
        channel.triggers = list(dict.fromkeys(new if each == old else each for each in channel.triggers))
        return
    channel.control = _renamed(channel.control, old, new)
    channel.data = _renamed(channel.data, old, new)


def _renamed(mapping: dict[str, V], old: str, new: str) -> dict[str, V]:
    if new in mapping:
        return mapping
    return {new if source == old else source: item for source, item in mapping.items()}


def forget(channel: ChannelState, source: str) -> bool:
    """Take a node out of a channel; tell whether a value from it was lost."""
    if isinstance(channel, PregelChannelState):
        channel.triggers = [each for each in channel.triggers if each != source]
    else:
        channel.control.pop(source, None)
        channel.data.pop(source, None)
    if source not in channel.values:
        return False
    del channel.values[source]
    return True


def merge(channel: ChannelState, other: ChannelState, copy: Callable[[Any], Any]) -> None:
    """Add copies of what waits in another channel, from the same sources."""
    channel.values = {**{source: copy(value) for source, value in other.values.items()}, **channel.values}
    if isinstance(channel, PregelChannelState) and isinstance(other, PregelChannelState):
        channel.triggers = list(dict.fromkeys([*channel.triggers, *other.triggers]))
    elif isinstance(channel, DagChannelState) and isinstance(other, DagChannelState):
        channel.control = {**other.control, **channel.control}
        channel.data = {**other.data, **channel.data}


def put(channel: ChannelState, source: str, value: Any) -> None:
    """Let a node have sent a value, and have finished."""
    channel.values = {**channel.values, source: value}
    if isinstance(channel, PregelChannelState):
        channel.triggers = list(dict.fromkeys([*channel.triggers, source]))
    else:
        channel.control = {**channel.control, source: "ready"}
        channel.data = {**channel.data, source: True}
