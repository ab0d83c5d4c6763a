"""Small graphs that many tests are made of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from wiring import wire

from blobcp import END, START, Graph

__all__ = ["Calls", "appending", "chain", "echo", "race"]

LIMIT = 10.0
"""Seconds that a node waits for another one before the test fails."""


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


def race(calls: Calls, slow_after: str) -> Graph:
    """Return fast -> fast2 and slow side by side, where slow does not end before ``slow_after`` has."""
    ended = {"fast": threading.Event(), "fast2": threading.Event()}

    def node(key: str) -> Any:
        def run(text: str) -> str:
            if key == "slow":
                assert ended[slow_after].wait(LIMIT), f"{slow_after} has not ended"
            return text + key

        return run

    def note(key: str) -> Any:
        def post(value: Any, state: list[str]) -> Any:
            calls.note(key)
            if key in ended:
                ended[key].set()
            return value

        return post

    graph = Graph(str, dict, state=list)
    for key, output_key in (("slow", "s"), ("fast", None), ("fast2", "f")):
        graph.add_node(key, node(key), post=note(key), output_key=output_key)
    return wire(graph, "start fast fast2 end", "start slow end")
