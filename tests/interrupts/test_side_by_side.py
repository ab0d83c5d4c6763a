"""Questions asked at once from inside one node, and pauses that another process goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asking_program import SHAPES, build, entries, gathering, in_new_process, levels
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls
from pausing import stopped, stopped_again

from blobcp import END, START, Graph, Interrupted, InterruptPoint, interrupt
from blobcp.stores import FileStore, MapStore

COLOURED = [f"{shape}:{colour}" for shape, colour in SHAPES.items()]


def colours(points: list[InterruptPoint]) -> dict[str, str]:
    """Return the answers to the points, looked up by what is asked."""
    return {point.id: SHAPES[point.info["shape"]] for point in points}


def test_all_at_once(runner: Runner) -> None:
    """F01: where the node waits for all three helpers, all three questions are pending at once, with ids of their own."""
    for _ in range(20):
        app = gathering("returning", looped=runner.name == "sync").compile(store=MapStore())
        stop = stopped(runner, app, None, checkpoint_id="A")

        assert sorted(point.info["shape"] for point in stop.interrupts) == sorted(SHAPES)
        assert len({point.id for point in stop.interrupts}) == 3
        assert [point.id for point in runner.pending(app, "A")] == [point.id for point in stop.interrupts]
        assert runner.resume(app, "A", colours(stop.interrupts)) == COLOURED


@pytest.mark.parametrize("kind", ["plain", "group"])
def test_as_many_as_were_asked(runner: Runner, kind: str) -> None:
    """F01: where the first question ends the node, each helper is asked once, under one id, and keeps its answer."""
    for _ in range(20):
        app = gathering(kind, looped=runner.name == "sync").compile(store=MapStore())
        ids: dict[str, set[str]] = {shape: set() for shape in SHAPES}
        answered: set[str] = set()
        points = stopped(runner, app, None, checkpoint_id="A").interrupts
        result = None
        while result is None:
            for point in points:
                assert point.id not in answered
                ids[point.info["shape"]].add(point.id)
            answers = colours(points)
            answered |= answers.keys()
            try:
                result = runner.resume(app, "A", answers)
            except Interrupted as stop:
                points = stop.interrupts

        assert result == COLOURED
        assert [len(each) for each in ids.values()] == [1, 1, 1]
        assert len(answered) == 3


def test_answered_one_by_one(runner: Runner) -> None:
    """F01, F03: of three questions at once one is answered at a time; the others keep their ids."""
    app = gathering("returning", looped=runner.name == "sync").compile(store=MapStore())
    points = stopped(runner, app, None, checkpoint_id="A").interrupts
    ids = {point.info["shape"]: point.id for point in points}
    for shape in ("square", "circle"):
        points = stopped_again(runner, app, "A", {ids.pop(shape): SHAPES[shape]}).interrupts
        assert {point.info["shape"]: point.id for point in points} == ids

    assert runner.resume(app, "A", colours(points)) == COLOURED


@pytest.mark.parametrize("concurrency", [1, 2, None])
def test_nodes_side_by_side(runner: Runner, mode: dict[str, Any], concurrency: int | None) -> None:
    """F01: nodes side by side show all their questions in one stop, also where one node runs at a time."""
    graph = Graph(str, dict)
    for key in "abc":
        graph.add_node(key, lambda text, key=key: interrupt(key), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="A", concurrency=concurrency)

    assert [point.info for point in stop.interrupts] == ["a", "b", "c"]
    answers = {point.id: point.info.upper() for point in stop.interrupts}
    assert runner.resume(app, "A", answers, concurrency=concurrency) == {"a": "A", "b": "B", "c": "C"}


@pytest.mark.parametrize("first", ["sync", "async"])
def test_paused_by_one_driver(first: str, store: MapStore | FileStore) -> None:
    """A run that one driver stopped goes on with the other, stop by stop, with the same ids."""
    drivers: list[Runner] = [SyncRunner(), AsyncRunner()] if first == "sync" else [AsyncRunner(), SyncRunner()]
    calls = Calls()
    app = levels(3, calls.note).compile(store=store)
    stop = stopped(drivers[0], app, None, checkpoint_id="A")
    again = stopped(drivers[1], app, None, checkpoint_id="A")

    assert [point.id for point in again.interrupts] == [point.id for point in stop.interrupts]
    assert drivers[0].resume(app, "A", answer="yes") == ["o1", "p1", "p2", "yes", "p3", "o2"]
    assert calls["ask"] == 3


def test_ids_in_another_process(runner: Runner, tmp_path: Path) -> None:
    """F01: the ids read in a second process are the same three, and a third one answers them."""
    app = build(tmp_path, "returning", runner.name)
    stop = stopped(runner, app, None, checkpoint_id="A")
    seen = in_new_process(tmp_path, "returning", runner.name, "pending")

    assert seen["points"] == [[point.id, str(point.address), point.info] for point in stop.interrupts]
    answers = json.dumps(colours(stop.interrupts))
    assert in_new_process(tmp_path, "returning", runner.name, "resume", answers)["result"] == COLOURED


@pytest.mark.parametrize("depth", [2, 3])
def test_nested_steps_in_another_process(runner: Runner, tmp_path: Path, depth: int) -> None:
    """F07: a pause two or three levels down is answered in a new process; no finished step, at any level, runs again."""
    graph = f"levels-{depth}"
    stopped(runner, build(tmp_path, graph, runner.name), None, checkpoint_id="A")
    ((id, address, info),) = in_new_process(tmp_path, graph, runner.name, "pending")["points"]
    done = in_new_process(tmp_path, graph, runner.name, "resume", json.dumps({id: "yes"}))

    assert (address, info) == (f"runnable:root;node:inner;{'node:wrap;' * (depth - 2)}node:ask", "go on?")
    assert done == {"result": ["o1", "p1", "p2", "yes", "p3", "o2"], "points": []}
    assert entries(tmp_path) == {"o1": 1, "p1": 1, "p2": 1, "ask": 2, "p3": 1, "o2": 1}
