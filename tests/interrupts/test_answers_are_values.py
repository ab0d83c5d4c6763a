"""Answers are values: what a node does to one changes neither what is stored, nor another run, nor the caller's object."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from pausing import Note, calling, solo, stopped, stopped_again

from blobcp import get_resume_data, interrupt, use_state
from blobcp.stores import MapStore


def test_an_answer_that_the_node_changes(runner: Runner, mode: dict[str, Any]) -> None:
    """F08 for answers: a node gets an earlier answer as it was given, whatever it did to it before it stopped again."""

    def node(text: str) -> list[Any]:
        items = interrupt("q1")
        items["list"].append("added")
        return [items, interrupt("q2")]

    app = solo(node).compile(store=MapStore(), **mode)
    given: dict[str, Any] = {"list": []}
    stopped(runner, app, "in", checkpoint_id="1")
    stopped_again(runner, app, "1", answer=given)

    assert given == {"list": []}
    assert runner.resume(app, "1", answer="end") == [{"list": ["added"]}, "end"]


@pytest.mark.parametrize("how", ["returned", "read", "inside an app"])
def test_a_changed_answer_given_to_two_forks(runner: Runner, mode: dict[str, Any], how: str) -> None:
    """B093, K18: forks that are given one plan get equal answers, although the first one's node has changed its own."""

    def node(text: str) -> list[str]:
        items = get_resume_data().data if how == "read" else None
        if items is None:
            items = interrupt("q")
        items.append(text)
        return list(items)

    graph = solo(node)
    if how == "inside an app":
        graph = solo(calling(runner, graph.compile(name="inner", **mode)))
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    plan = {stop.interrupts[0].id: ["given"]}

    for fork in ("f1", "f2"):
        assert runner.resume(app, "1", plan, write_to_checkpoint_id=fork) == ["given", "x"]
    assert plan == {stop.interrupts[0].id: ["given"]}


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
def test_a_state_given_to_two_forks(runner: Runner, mode: dict[str, Any], nest: bool) -> None:
    """K18, F12: one state object given to two forks is a state of each; what the first run makes of it stays there."""

    def node(text: str) -> str:
        with use_state(Note) as note:
            note.text += "+"
            return text + note.text

    graph, store = solo(node, state=Note), MapStore()
    app = graph.compile(store=None if nest else store, interrupt_before=["n"], **mode)
    if nest:
        app = solo(app).compile(store=store, **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    plan = {stop.interrupts[0].id: Note("given")}

    for fork in ("f1", "f2"):
        assert runner.resume(app, "1", plan, write_to_checkpoint_id=fork) == "xgiven+"
    assert plan == {stop.interrupts[0].id: Note("given")}
