"""Stream runs that are cancelled at random moments, and resumed until they end: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from streaming import record_of
from wiring import wire

from blobcp import CancelToken, Checkpoint, Graph, Interrupted, StreamReader, concat, interrupt
from blobcp.stores import MapStore

AT_ONCE = timedelta(0)


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

    def letters(self, key: str) -> Callable[[str], Iterator[str]]:
        """Return a node that gives a text letter by letter, and its key."""

        def node(text: str) -> Iterator[str]:
            self.begun[key] += 1
            for letter in text:
                self.tick()
                yield letter
            yield key
            self.done[key] += 1

        return node

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

        return anode if isinstance(self.runner, AsyncRunner) and not asks else node

    def value(self, key: str) -> Callable[[Any], str]:
        """Return a node of values."""

        def node(value: Any) -> str:
            self.begun[key] += 1
            self.tick()
            text = value if isinstance(value, str) else "".join(value[side] for side in sorted(value))
            self.done[key] += 1
            return f"{text}{key}"

        return node

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
            self.grace = self.random.choice([None, AT_ONCE])
            options = {"checkpoint_id": "run", "cancel": self.token, "answers": answers or None}
            stored = self.store.get("run") is not None
            try:
                if self.random.random() < 0.7 or not stored:
                    return concat(self.runner.stream(app, None if stored else "in", **options))
                return self.runner.invoke(app, None, **options)
            except Interrupted as stop:
                answers = {point.id: "!" for point in stop.interrupts if point.info == "y"}
                self.check(record_of(self.store, "run"))
        raise AssertionError("the run does not come to an end")

    def check(self, record: Checkpoint) -> None:
        """See that what waits is whole, and remember the nodes that made it: they have finished."""
        whole = {"a": "ina", "b": "inab", "n": "inax!"}
        made_by = {"a": "a", "b": "ab", "n": "axy"}
        for channel in record.channels.values():
            for source, value in channel.values.items():
                if source in whole:
                    text = value if isinstance(value, str) else value[source]
                    assert text == whole[source]
                    for key in made_by[source]:
                        self.finished.setdefault(key, self.begun[key])


def left_open() -> int:
    """Return how many file handles the process has."""
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0


def soak(runner: Runner, runs: int, seed: int) -> None:
    """Cancel and resume so many runs."""
    handles = left_open()
    for number in range(runs):
        random = Random(seed + number)
        cut = Cut(runner, random)
        mode = random.choice(["pregel", "dag"])
        assert cut.run(mode) == "inabinax!jk", f"seed {seed + number}"
        assert all(cut.done[key] >= 1 for key in "abjkxy")
        for key, begun in cut.finished.items():
            assert cut.begun[key] == begun, f"seed {seed + number}: {key} had finished, and was run again"
    gc.collect()
    assert left_open() <= handles + 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("runner", [SyncRunner(), AsyncRunner()], ids=["sync", "async"])
def test_runs_that_are_cancelled_at_random(runner: Runner) -> None:
    """Cancelled anywhere, with or without grace, a stream run ends as if it had not been."""
    soak(runner, 60, seed=1)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runner", [SyncRunner(), AsyncRunner()], ids=["sync", "async"])
def test_many_runs_that_are_cancelled_at_random(runner: Runner) -> None:
    """The same for 1,000 runs on each driver."""
    soak(runner, 1000, seed=10_000)
