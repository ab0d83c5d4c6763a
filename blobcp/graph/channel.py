"""What waits in front of a node until it may run: one channel per node and one for END, in two kinds.

pregel: a node is ready as soon as any predecessor has fired. dag: a node is ready once every control predecessor has
fired or was skipped and every data predecessor has delivered or never will; a node that no predecessor chose is itself
skipped. A channel knows nothing of steps, and nothing of user code.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Literal, Protocol

from blobcp.checkpoint import ChannelState, DagChannelState, PregelChannelState

__all__ = ["Channel", "ChannelMisfit", "DagChannel", "PregelChannel", "make_channel"]


class ChannelMisfit(Exception):
    """A stored channel does not fit the graph's; the machine turns it into a checkpoint error with the names."""


class Channel(Protocol):
    """What the machine asks of a channel."""

    values: dict[str, Any]
    stored_none: bool
    """Whether a value that was loaded is ``None``, which may have stood for a typed None."""

    def put(self, source: str, value: Any) -> None:
        """Keep the value that a source sent."""
        ...

    def fire(self, source: str) -> None:
        """Note that a control predecessor has finished and chose this node."""
        ...

    def skip(self, source: str, *, control: bool, data: bool) -> bool:
        """Note that a predecessor did not choose this node, or sends it nothing; tell if that skips the node."""
        ...

    def ready(self) -> bool:
        """Tell whether the node may run."""
        ...

    def take(self) -> dict[str, Any]:
        """Hand over the values, by source, and start afresh."""
        ...

    def dump(self) -> ChannelState:
        """Return what a checkpoint keeps."""
        ...

    def load(self, stored: ChannelState) -> None:
        """Lay what a checkpoint kept over a fresh channel.

        Raises:
            ChannelMisfit: it is of the other mode, or holds a value of a source that is no predecessor any more.
        """
        ...


class PregelChannel:
    """A channel that any predecessor opens."""

    __slots__ = ("_sources", "_triggers", "stored_none", "values")

    def __init__(self, control: Sequence[str], data: Sequence[str]) -> None:
        self._sources = dict.fromkeys([*data, *control])
        self._triggers: list[str] = []
        self.values: dict[str, Any] = {}
        self.stored_none = False

    def put(self, source: str, value: Any) -> None:
        self.values[source] = value

    def fire(self, source: str) -> None:
        if source not in self._triggers:
            self._triggers.append(source)

    def skip(self, source: str, *, control: bool, data: bool) -> bool:
        return False

    def ready(self) -> bool:
        return bool(self._triggers)

    def take(self) -> dict[str, Any]:
        values = self.values
        self.values = {}
        self._triggers = []
        self.stored_none = False
        return values

    def dump(self) -> PregelChannelState:
        return PregelChannelState(
            values=_in_order(self.values, self._sources),
            triggers=[source for source in self._sources if source in self._triggers],
        )

    def load(self, stored: ChannelState) -> None:
        if not isinstance(stored, PregelChannelState):
            raise ChannelMisfit("was written in dag mode and is loaded in pregel mode")
        _refuse_strangers(stored.values, self._sources)
        self.values = dict(stored.values)
        self.stored_none = any(value is None for value in self.values.values())
        self._triggers = [source for source in stored.triggers if source in self._sources]


Control = Literal["waiting", "ready", "skipped"]


class DagChannel:
    """A channel that opens once nothing is owed to it any more."""

    __slots__ = ("_control", "_data", "_skipped", "_taken", "stored_none", "values")

    def __init__(self, control: Sequence[str], data: Sequence[str]) -> None:
        self._control: dict[str, Control] = dict.fromkeys(control, "waiting")
        self._data = dict.fromkeys(data, False)
        self._skipped = False
        self._taken = False
        self.values: dict[str, Any] = {}
        self.stored_none = False

    def put(self, source: str, value: Any) -> None:
        self.values[source] = value
        self._data[source] = True

    def fire(self, source: str) -> None:
        self._control[source] = "ready"

    def skip(self, source: str, *, control: bool, data: bool) -> bool:
        if control and source in self._control:
            self._control[source] = "skipped"
        if data and source in self._data:
            self._data[source] = True
        if self._skipped or not self._unreachable():
            return False
        self._skipped = True
        return True

    def ready(self) -> bool:
        if self._skipped or self._taken:
            return False
        return "waiting" not in self._control.values() and all(self._data.values())

    def take(self) -> dict[str, Any]:
        values = self.values
        self.values = {}
        self._taken = True
        return values

    def dump(self) -> DagChannelState:
        return DagChannelState(
            control=dict(self._control),
            data=dict(self._data),
            values=_in_order(self.values, self._data),
            skipped=self._skipped,
            taken=self._taken,
        )

    def load(self, stored: ChannelState) -> None:
        if not isinstance(stored, DagChannelState):
            raise ChannelMisfit("was written in pregel mode and is loaded in dag mode")
        _refuse_strangers(stored.values, self._data)
        self.values = dict(stored.values)
        self.stored_none = any(value is None for value in self.values.values())
        self._skipped = stored.skipped
        self._taken = stored.taken
        self._control.update((source, status) for source, status in stored.control.items() if source in self._control)
        self._data.update((source, settled) for source, settled in stored.data.items() if source in self._data)

    def _unreachable(self) -> bool:
        if self._control:
            return all(status == "skipped" for status in self._control.values())
        return all(self._data.values()) and not self.values


def make_channel(mode: str, control: Sequence[str], data: Sequence[str]) -> Channel:
    """Return a fresh channel for a node with these predecessors, in declaration order."""
    return DagChannel(control, data) if mode == "dag" else PregelChannel(control, data)


def _in_order(values: dict[str, Any], sources: Iterable[str]) -> dict[str, Any]:
    """Return values in the order in which their sources were declared, whatever the order in which they came."""
    return {source: values[source] for source in sources if source in values}


def _refuse_strangers(values: dict[str, Any], sources: Container[str]) -> None:
    strangers = [source for source in values if source not in sources]
    if strangers:
        raise ChannelMisfit(f"holds a value from {', '.join(strangers)}, which is no predecessor in this graph")
