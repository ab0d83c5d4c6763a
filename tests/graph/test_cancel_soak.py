"""Runs that are cancelled at random moments, again and again: nothing finished is lost or repeated, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, no_threads_left
from wiring import wire

from blobcp import App, CancelToken, Graph, Interrupted, InterruptInfo, serializable, use_state
from blobcp.stores import FileStore

TICKS = 3
"""How many moments at which a cancel may come each node has."""


@serializable("tests.cancel_soak.Twin")
@dataclass
class Twin:
    """A state whose parts are equal whenever nothing holds its lock."""

    left: int = 0
    right: int = 0


class Clock:
    """Counts the moments of a run's nodes, and cancels the run at a random one."""

    def __init__(self) -> None:
        self.entered: list[str] = []  # appending is atomic
        self._left: list[None] = []
        self._due = threading.Event()

    def attempt(self, chance: random.Random) -> CancelToken:
        """Return the token of the next call, which will be cancelled after some moments, somehow."""
        token, due = CancelToken(), threading.Event()
        grace = chance.choice([None, AT_ONCE, timedelta(milliseconds=chance.random() * 2)])
        self._left = [None] * chance.randrange(30)
        self._due = due
        if chance.random() < 0.5:
            due.set = lambda: token.cancel(grace)  # type: ignore[method-assign]  # cancelled by the node itself
        else:
            threading.Thread(target=lambda: due.wait(LIMIT) and token.cancel(grace), name="canceller").start()
        return token

    def tick(self) -> None:
        """Let a moment pass."""
        left = self._left
        try:
            left.pop()
        except IndexError:
            self._due.set()

    def over(self) -> None:
        """Let the one who would cancel end; the call is over."""
        self._due.set()


def build(clock: Clock, folder: Path, kind: str, mode: dict[str, Any]) -> App:
    """Return an app of two levels, side by side, that sorts out who ran before whom."""

    def node(key: str) -> Any:
        def body() -> Iterator[None]:
            clock.entered.append(key)
            for _ in range(TICKS):
                with use_state(Twin) as twin:
                    twin.left += 1
                    clock.tick()
                    twin.right += 1
                yield

        def plain(value: Any) -> Any:
            for _ in body():
                time.sleep(0)
            return outcome(value, key)

        async def awaiting(value: Any) -> Any:
            for _ in body():
                await asyncio.sleep(0)
            return outcome(value, key)

        return awaiting if kind == "async" else plain

    def graph(name: str, paths: list[str], **inside: Graph) -> Graph:
        made = Graph(Any, Any, state=Twin)
        for key in dict.fromkeys(" ".join(paths).split()):
            if key not in ("start", "end"):
                made.add_node(key, inside.get(key) or node(f"{name}{key}"), output_key=key)
        return wire(made, *paths)

    deep = graph("deep/", ["start x y end"])
    sub = graph("sub/", ["start p deep r end", "p q r"], deep=deep)
    return graph("", ["start a b join end", "a sub join", "a c c2 join"], sub=sub).compile(
        store=FileStore(folder), **mode
    )


def outcome(value: Any, key: str) -> Any:
    """Return what a node gives: its key over what it was given."""
    return {key: value} if not isinstance(value, dict) else {key: sorted(value.items())}


def reruns(info: InterruptInfo, path: str = "") -> Iterator[str]:
    """Yield the nodes that a stop says run again."""
    names = {"": "", "sub": "sub/", "deep": "deep/"}
    yield from (names[path] + key for key in info.rerun_nodes)
    for key, below in info.subgraphs.items():
        yield from reruns(below, key)


def states(info: InterruptInfo) -> Iterator[Twin]:
    """Yield the states of all levels."""
    yield info.state
    for below in info.subgraphs.values():
        yield from states(below)


def call(app: App, kind: str, id: str, token: CancelToken | None) -> Any:
    """Start or go on with a run; no task is left where it returns."""
    if kind == "sync":
        return app.invoke("in", checkpoint_id=id, cancel=token)

    async def main() -> Any:
        try:
            return await asyncio.wait_for(app.ainvoke("in", checkpoint_id=id, cancel=token), LIMIT)
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(main())


def one_run(app: App, clock: Clock, kind: str, id: str, chance: random.Random) -> tuple[Any, Counter[str]]:
    """Cancel a run a few times and let it end; returns its result and how often each node was given up."""
    given_up: Counter[str] = Counter()
    for turn in range(6):
        token = clock.attempt(chance) if turn < 5 else None
        try:
            return call(app, kind, id, token), given_up
        except Interrupted as stop:
            info = stop.info
        finally:
            clock.over()
        assert info is not None
        given_up.update(reruns(info))
        assert [state for state in states(info) if state.left != state.right] == []
    raise AssertionError("a run that nobody cancels did not end")


def open_files() -> int:
    """Return how many file handles this process has, where that can be seen."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def soak(kind: str, mode: dict[str, Any], rounds: int, folder: Path, seed: int) -> None:
    """Cancel many runs at random moments."""
    chance = random.Random(seed)
    uncut = Clock()
    expected = call(build(uncut, folder, kind, mode), kind, "uncut", None)
    nodes = set(uncut.entered)
    threads, files = set(threading.enumerate()), open_files()
    runs: list[tuple[Clock, Counter[str]]] = []
    for round in range(rounds):
        clock = Clock()
        app = build(clock, folder, kind, mode)
        result, given_up = one_run(app, clock, kind, f"run-{round}", chance)
        assert result == expected, f"seed {seed}, round {round}"
        runs.append((clock, given_up))

    no_threads_left(threads)
    assert open_files() <= files
    for round, (clock, given_up) in enumerate(runs):
        entered = Counter(clock.entered)
        assert set(entered) == nodes
        for key in nodes:
            assert 1 <= entered[key] <= 1 + given_up[key], f"seed {seed}, round {round}: {key} ran {entered[key]} times"
    # A dozen rounds may by chance all end in time; of a thousand many do not.
    assert sum(sum(given_up.values()) for _, given_up in runs) >= rounds // 20, "hardly anything was given up"


KINDS = pytest.mark.parametrize("kind", ["sync", "async", "async-threads"])


@KINDS
def test_cancelled_at_random(kind: str, mode: dict[str, Any], tmp_path: Path) -> None:
    """A hundred runs and more, cancelled at random, lose no finished work, repeat none, and leave nothing behind."""
    soak(kind, mode, 12, tmp_path, random.randrange(10**6))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@KINDS
def test_cancelled_at_random_for_long(kind: str, mode: dict[str, Any], tmp_path: Path) -> None:
    """The same with more than two thousand runs in all, where BLOBCP_FULL=1 asks for that."""
    soak(kind, mode, 250 if os.environ.get("BLOBCP_FULL") else 25, tmp_path, random.randrange(10**6))
