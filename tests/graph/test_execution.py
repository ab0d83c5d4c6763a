"""Graph execution: chains, fan-out and fan-in, steps, loops, errors of nodes."""

from __future__ import annotations

from typing import Any

from drivers import Runner
from graphs import chain


def test_chain(runner: Runner, mode: dict[str, Any]) -> None:
    """B001: each node of a chain is handed what the one before it gave."""
    app = chain("1", "2").compile(**mode)

    assert runner.invoke(app, "start") == "start12"
