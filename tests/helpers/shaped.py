"""Stream runs behind the face of a value run, so that what is told of the one can be tried on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls, appending
from pausing import stopped_by

from blobcp import App, Interrupted, StreamReader, concat

__all__ = ["appender", "fewer_modes", "flowing", "go", "halted", "kinds", "shapes", "ways"]

shapes = pytest.mark.parametrize(
    ("runner", "shape"),
    [
        pytest.param(SyncRunner(), "stream", id="sync-stream"),
        pytest.param(AsyncRunner(), "collect", id="async-collect"),
        pytest.param(SyncRunner(), "collect", id="sync-collect", marks=pytest.mark.soak),
        pytest.param(AsyncRunner(), "stream", id="async-stream", marks=pytest.mark.soak),
    ],
)
"""Runs a test on both drivers, in two shapes that have between them each way in and each way out."""

ways = pytest.mark.parametrize(
    ("runner", "kind", "shape"),
    [
        pytest.param(SyncRunner(), "plain", "collect", id="sync-collect"),
        pytest.param(AsyncRunner(), "async", "stream", id="async-stream"),
        pytest.param(AsyncRunner(), "plain", "stream", id="threads-stream", marks=pytest.mark.soak),
        pytest.param(SyncRunner(), "plain", "stream", id="sync-stream", marks=pytest.mark.soak),
        pytest.param(AsyncRunner(), "async", "collect", id="async-collect", marks=pytest.mark.soak),
        pytest.param(AsyncRunner(), "plain", "collect", id="threads-collect", marks=pytest.mark.soak),
    ],
)
"""The same, with each kind of node function that the drivers run."""


@pytest.fixture(
    name="mode",
    params=[
        pytest.param({"mode": "pregel"}, id="pregel"),
        pytest.param({"mode": "dag"}, id="dag"),
        pytest.param({"mode": "dag", "eager": False}, id="dag-in-steps", marks=pytest.mark.soak),
    ],
)
def fewer_modes(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of ``compile`` as the fixture of that name gives them, one of them left to the soak tests."""
    return dict(request.param)


kinds = pytest.mark.parametrize("kind", ["values", "chunks"])


def go(runner: Runner, shape: str, app: App, input: Any = None, **options: Any) -> Any:
    """Run an app in a shape: the input goes in as one chunk, the chunks that come out are joined.

    Args:
        runner: the driver.
        shape: ``invoke``, ``stream``, ``collect`` or ``transform``.
        app: what is run.
        input: the input as one value.
        options: further options of the call.
    """
    given = [input] if shape in ("collect", "transform") else input
    result = getattr(runner, shape)(app, given, **options)
    if shape in ("invoke", "collect"):
        return result
    return concat(result) if result else None


def halted(runner: Runner, shape: str, app: App, input: Any = None, **options: Any) -> Interrupted:
    """Run what is to stop, and return the stop."""
    return stopped_by(go, runner, shape, app, input, **options)


def flowing(key: str, calls: Calls | None = None) -> Callable[[StreamReader[str]], Iterator[str]]:
    """Return a node that gives its chunks on as they come, then ``key``; it is noted with all that it read."""

    def node(chunks: StreamReader[str]) -> Iterator[str]:
        read: list[str] = []
        for chunk in chunks:
            read.append(chunk)
            yield chunk
        if calls is not None:
            calls.note(key, "".join(read))
        yield key

    return node


def appender(kind: str, key: str, calls: Calls | None = None) -> Callable[[Any], Any]:
    """Return a node that appends ``key``: a function of the value, or of its chunks."""
    return appending(key, calls) if kind == "values" else flowing(key, calls)
