"""Small graphs that many tests are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from blobcp import END, START, Graph

__all__ = ["Calls", "appending", "chain", "echo"]


class Calls:
    """Counts how often node bodies are entered, and remembers with what."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.inputs: dict[str, list[Any]] = {}
        self.order: list[str] = []

    def __getitem__(self, key: str) -> int:
        return self.count[key]

    def note(self, key: str, value: Any = None) -> int:
        """Note one entry and return how many there have been."""
        self.count[key] += 1
        self.inputs.setdefault(key, []).append(value)
        self.order.append(key)
        return self.count[key]


def appending(key: str, calls: Calls | None = None) -> Callable[[str], str]:
    """Return a node function that returns its input with ``key`` appended."""

    def node(text: str) -> str:
        if calls is not None:
            calls.note(key, text)
        return text + key

    return node


def echo(value: Any) -> Any:
    """Return the input."""
    return value


def chain(*keys: str, calls: Calls | None = None, state: Callable[[], Any] | None = None, **nodes: Any) -> Graph:
    """Return the graph START -> keys -> END, of appending nodes unless ``nodes`` gives a function for a key."""
    graph = Graph(str, str, state=state)
    before = START
    for key in keys:
        graph.add_node(key, nodes.get(key, appending(key, calls)))
        graph.add_edge(before, key)
        before = key
    graph.add_edge(before, END)
    return graph
