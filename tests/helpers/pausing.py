"""Running apps that stop, and saying in few words what they stopped at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner

from blobcp import END, START, App, Graph, Interrupted, InterruptPoint, serializable

__all__ = [
    "Note",
    "answer_all",
    "asked",
    "calling",
    "ids",
    "on_a_loop",
    "places",
    "solo",
    "stopped",
    "stopped_again",
    "stopped_by",
]


@serializable("tests.pausing.Note")
@dataclass
class Note:
    """A state, a node's own state, or an answer."""

    text: str = ""


def stopped(runner: Runner, app: App, input: Any = None, **options: Any) -> Interrupted:
    """Start (or plainly run again) a run that is to stop, and return what it stopped with."""
    return stopped_by(runner.invoke, app, input, **options)


def stopped_again(runner: Runner, app: App, checkpoint_id: str, answers: Any = None, **options: Any) -> Interrupted:
    """Resume a run that is to stop again, and return what it stopped with."""
    return stopped_by(runner.resume, app, checkpoint_id, answers, **options)


def stopped_by(call: Callable[..., Any], *arguments: Any, **options: Any) -> Interrupted:
    """Make a call that is to stop, and return what it stopped with."""
    with pytest.raises(Interrupted) as caught:
        call(*arguments, **options)
    return caught.value


def asked(points: Interrupted | Iterable[InterruptPoint]) -> list[Any]:
    """Return what is asked, in order."""
    return [point.info for point in _points(points)]


def places(points: Interrupted | Iterable[InterruptPoint]) -> list[str]:
    """Return the addresses, in order."""
    return [str(point.address) for point in _points(points)]


def ids(points: Interrupted | Iterable[InterruptPoint]) -> dict[Any, str]:
    """Return the ids by what is asked; each question must be there once."""
    found = {point.info: point.id for point in _points(points)}
    assert len(found) == len(_points(points)), "a question is there twice"
    return found


def answer_all(points: Interrupted | Iterable[InterruptPoint], answer: Callable[[Any], Any]) -> dict[str, Any]:
    """Return answers to all points, each made from its info."""
    return {point.id: answer(point.info) for point in _points(points)}


def solo(
    node: Any,
    *,
    state: Callable[[], Any] | None = None,
    key: str = "n",
    pre: Callable[[Any, Any], Any] | None = None,
    post: Callable[[Any, Any], Any] | None = None,
) -> Graph:
    """Return the graph START -> node -> END."""
    graph = Graph(state=state)
    graph.add_node(key, node, pre=pre, post=post)
    graph.add_edge(START, key)
    graph.add_edge(key, END)
    return graph


def on_a_loop(runner: Runner, work: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Any]:
    """Return a node that awaits the work: on the run's own event loop, or on one that a sync node starts."""
    if runner.name == "async":

        async def awaiting(value: Any) -> Any:
            return await work(value)

        return awaiting

    async def main(value: Any) -> Any:
        return await work(value)

    return lambda value: asyncio.run(main(value))


def calling(
    runner: Runner, inner: App, catch: Callable[[Interrupted], BaseException] | None = None, **options: Any
) -> Callable[[Any], Any]:
    """Return a node that runs another app on its input; ``catch`` says what to raise where that app stops."""
    if runner.name == "async":

        async def awaiting(value: Any) -> Any:
            try:
                return await inner.ainvoke(value, **options)
            except Interrupted as stop:
                raise stop if catch is None else catch(stop) from None

        return awaiting

    def node(value: Any) -> Any:
        try:
            return inner.invoke(value, **options)
        except Interrupted as stop:
            raise stop if catch is None else catch(stop) from None

    return node


def _points(points: Interrupted | Iterable[InterruptPoint]) -> list[InterruptPoint]:
    return points.interrupts if isinstance(points, Interrupted) else list(points)
