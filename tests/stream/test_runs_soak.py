"""Runs that are cancelled at random moments, and resumed in any shape until they end: nothing lost, nothing twice, nothing left.

What a checkpoint says to have finished is read off what it is going to run: that, and what follows from it. All else must have
finished by then, and must never be entered again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cancelling import AT_ONCE
from drivers import AsyncRunner, Runner, SyncRunner
from stream_runs import nothing_left, run
from streaming import record_of
from wiring import wire

from blobcp import App, CancelToken, Checkpoint, Graph, Interrupted, StreamReader, concat, interrupt
from blobcp.stores import MapStore

INNER = {"x": ["y"], "y": []}
OUTER = {"a": ["n", "b"], "b": ["j"], "n": ["j"], "j": ["k"], "k": []}
"""The graphs, as lists of successors."""


class Watching(AsyncRunner):
    """Sees to it that each call leaves no task behind on its loop."""

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return run(call)


RUNNERS = [pytest.param(SyncRunner(), id="sync"), pytest.param(Watching(), id="async")]


class Cut:
    """One run: a graph of streaming nodes that is cancelled when its nodes have come to a random place.

    Args:
        runner: the driver.
        random: decides.
    """

    def __init__(self, runner: Runner, random: Random) -> None:
        self.runner = runner
        self.random = random
        self.store = MapStore()
        self.begun: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.finished: dict[str, int] = {}
        self.token = CancelToken()
        self.ticks = 0
        self.grace: timedelta | None = None
        self.lock = threading.Lock()

    def tick(self) -> None:
        """Come to a place where the run may be cancelled."""
        with self.lock:
            self.ticks -= 1
            if self.ticks == 0:
                self.token.cancel(self.grace)

    def letters(self, key: str) -> Callable[[str], Any]:
        """Return a node that gives a text letter by letter, and its key."""

        def node(text: str) -> Iterator[str]:
            self.begun[key] += 1
            for letter in text:
                self.tick()
                yield letter
            yield key
            self.done[key] += 1

        async def anode(text: str) -> AsyncIterator[str]:
            for chunk in node(text):
                await asyncio.sleep(0)
                yield chunk

        return anode if self.is_async() else node

    def is_async(self) -> bool:
        """Tell whether the next node is to be async: on a loop, at random."""
        return isinstance(self.runner, AsyncRunner) and self.random.random() < 0.5

    def passing(self, key: str, asks: bool = False) -> Callable[[StreamReader[str]], Any]:
        """Return a node that gives chunks on, and asks in the end if it is to."""

        def node(chunks: StreamReader[str]) -> Iterator[str]:
            self.begun[key] += 1
            for chunk in chunks:
                self.tick()
                yield chunk
            yield interrupt(key) if asks else key
            self.done[key] += 1

        async def anode(chunks: StreamReader[str]) -> AsyncIterator[str]:
            self.begun[key] += 1
            async for chunk in chunks:
                self.tick()
                yield chunk
            yield interrupt(key) if asks else key
            self.done[key] += 1

        return anode if self.is_async() else node

    def value(self, key: str) -> Callable[[Any], Any]:
        """Return a node of values."""

        def node(value: Any) -> str:
            self.begun[key] += 1
            self.tick()
            text = value if isinstance(value, str) else "".join(value[side] for side in sorted(value))
            self.done[key] += 1
            return f"{text}{key}"

        async def anode(value: Any) -> str:
            await asyncio.sleep(0)
            return node(value)

        return anode if self.is_async() else node

    def graph(self) -> Graph:
        """Return the graph: two ways side by side, one of them through a nested graph that asks."""
        inner = Graph(str, str)
        inner.add_node("x", self.passing("x"))
        inner.add_node("y", self.passing("y", asks=True))
        wire(inner, "start x y end")
        graph = Graph(str, str)
        graph.add_node("a", self.letters("a"))
        graph.add_node("b", self.value("b"), output_key="b")
        graph.add_node("n", inner, output_key="n")
        graph.add_node("j", self.value("j"))
        graph.add_node("k", self.passing("k"))
        return wire(graph, "start a n j k end", "a b j")

    def run(self, mode: str) -> Any:
        """Run to the end, through every stop."""
        app = self.graph().compile(store=self.store, mode=mode)
        answers: dict[str, Any] = {}
        for _ in range(50):
            self.token, self.ticks = CancelToken(), self.random.randint(1, 40)
            self.grace = self.random.choice([None, AT_ONCE, timedelta(milliseconds=self.random.random() * 3)])
            timer = threading.Timer(self.random.random() / 100, self.token.cancel, (self.grace,))
            if self.random.random() < 0.3:  # between two ticks, too
                timer.start()
            try:
                return self.call(app, {"checkpoint_id": "run", "cancel": self.token, "answers": answers or None})
            except Interrupted as stop:
                answers = {point.id: "!" for point in stop.interrupts if point.info == "y"}
                self.check(record_of(self.store, "run"))
            finally:
                timer.cancel()
        raise AssertionError("the run does not come to an end")

    def call(self, app: App, options: dict[str, Any]) -> Any:
        """Start the run, or go on with it, in any shape; what a resumed run is given is not used."""
        value = "in" if self.store.get("run") is None else "other"
        shape = self.random.choice(["invoke", "stream", "collect", "transform"])
        if shape == "invoke":
            return self.runner.invoke(app, value, **options)
        if shape == "collect":
            return self.runner.collect(app, list(value), **options)
        if shape == "transform":
            return concat(self.runner.transform(app, list(value), **options))
        return concat(self.runner.stream(app, value, **options))

    def check(self, record: Checkpoint) -> None:
        """See that what waits is whole, and that what will not run again has finished; remember how often that was entered."""
        whole = {"a": "ina", "b": "inab", "n": "inax!"}
        for channel in record.channels.values():
            for source, value in channel.values.items():
                if source in whole:
                    assert (value if isinstance(value, str) else value[source]) == whole[source]
        open_nodes = still_to_run(record, OUTER)
        inside = record.sub_graphs.get("n")
        if inside is not None:
            open_nodes |= still_to_run(inside, INNER)
        elif "n" in open_nodes:
            open_nodes |= {"x", "y"}
        for key in [*OUTER, *INNER]:
            if key not in open_nodes and key != "n":
                assert self.done[key] >= 1, f"{key} is taken for finished, and has never been"
                self.finished.setdefault(key, self.begun[key])


def still_to_run(record: Checkpoint, successors: dict[str, list[str]]) -> set[str]:
    """Return the nodes of a graph that a checkpoint is going to run, sooner or later."""
    pending = [*record.inputs, *record.rerun_nodes, *record.sub_graphs]
    found: set[str] = set()
    while pending:
        key = pending.pop()
        if key not in found:
            found.add(key)
            pending += successors[key]
    return found


def left_open() -> int:
    """Return how many file handles the process has."""
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0


def soak(runner: Runner, runs: int, seed: int) -> None:
    """Cancel and resume so many runs."""
    handles = left_open()
    stops = 0
    with nothing_left():
        for number in range(runs):
            random = Random(seed + number)
            cut = Cut(runner, random)
            mode = random.choice(["pregel", "dag"])
            assert cut.run(mode) == "inabinax!jk", f"seed {seed + number}"
            assert all(cut.done[key] >= 1 for key in "abjkxy")
            stops += len(cut.finished)
            for key, begun in cut.finished.items():
                assert cut.begun[key] == begun, f"seed {seed + number}: {key} had finished, and was run again"
    assert stops > runs, "the runs were stopped, and had nodes that had finished by then"
    gc.collect()
    assert left_open() <= handles


@pytest.mark.timeout(300)
@pytest.mark.parametrize("runner", RUNNERS)
def test_runs_that_are_cancelled_at_random(runner: Runner) -> None:
    """Cancelled anywhere, with or without grace, a stream run ends as if it had not been."""
    soak(runner, 60, seed=1)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runner", RUNNERS)
def test_many_runs_that_are_cancelled_at_random(runner: Runner) -> None:
    """The same for 1,000 runs on each driver."""
    soak(runner, 1000, seed=10_000)
