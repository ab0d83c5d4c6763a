"""Nodes that stop by themselves: what the stop says, what is stored of it, what the node finds when it runs again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, echo
from pausing import Note, answer_all, asked, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    START,
    Graph,
    Interrupted,
    InterruptSignal,
    InterruptStateView,
    NodeError,
    ResumeData,
    address_segment,
    composite_interrupt,
    get_interrupt_state,
    get_resume_data,
    interrupt,
)
from blobcp.stores import FileStore, MapStore


def test_info_of_a_node_that_stops_on_its_first_call(runner: Runner, mode: dict[str, Any]) -> None:
    """B076: the node is a rerun node with its info, and what its pre-handler makes of a modified state reaches it."""

    def node(text: str) -> str:
        if not get_interrupt_state().was_interrupted:
            interrupt("test extra")
        return text

    def set_state(path: list[str], state: Note) -> None:
        state.text = "state"

    app = solo(node, key="1", state=Note, pre=lambda value, state: state.text).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "start", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["1"]
    assert stop.info.rerun_extra == {"1": "test extra"}
    assert runner.invoke(app, "", checkpoint_id="1", state_modifier=set_state) == "state"


def test_state_and_data_come_back(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B077: after an answer the node knows that it was interrupted, and has its state and the data."""
    seen: list[tuple[InterruptStateView, ResumeData]] = []

    def node(text: str) -> str:
        seen.append((get_interrupt_state(Note), get_resume_data(str)))
        if not get_interrupt_state().was_interrupted:
            raise interrupt({"reason": "scheduled maintenance"}, Note("initial input"))
        return f"{text} {get_resume_data().data}"

    app = solo(node, key="lambda").compile(store=store, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    (point,) = stop.interrupts

    assert (str(point.address), point.info) == ("runnable:root;node:lambda", {"reason": "scheduled maintenance"})
    assert (point.is_root_cause, point.parent is not None and str(point.parent.address)) == (True, "runnable:root")
    assert runner.resume(app, "1", {point.id: "let's continue"}) == "in let's continue"
    assert seen == [
        (InterruptStateView(False, False, None), ResumeData(False, False, None)),
        (InterruptStateView(True, True, Note("initial input")), ResumeData(True, True, "let's continue")),
    ]


def test_input_kept_as_state(runner: Runner, mode: dict[str, Any]) -> None:
    """B078: in a plain re-run the node gets its original input and its state back, and is no target."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("1", text)
        was_interrupted, has_state, state = get_interrupt_state(str)
        if not was_interrupted:
            interrupt("stop", state=text)
        assert (has_state, get_resume_data()) == (True, ResumeData(False, False, None))
        return state + "_processed"

    app = solo(node, key="1").compile(store=MapStore(), **mode)
    stopped(runner, app, "test_input", checkpoint_id="1")

    assert runner.invoke(app, "", checkpoint_id="1") == "test_input_processed"
    assert calls.inputs["1"] == ["test_input", "test_input"]


def test_state_without_info(runner: Runner, mode: dict[str, Any]) -> None:
    """B079: no info means no entry among the extras; a state of another class than asked for counts as none."""
    views: list[InterruptStateView] = []

    def node(text: str) -> str:
        if get_interrupt_state().was_interrupted:
            views.extend([get_interrupt_state(int), get_interrupt_state(str), get_interrupt_state()])
            return text
        return str(interrupt(None, state="a string"))

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.rerun_extra) == (["n"], {})
    assert runner.invoke(app, "", checkpoint_id="1") == "in"
    assert views == [
        InterruptStateView(True, False, None),
        InterruptStateView(True, True, "a string"),
        InterruptStateView(True, True, "a string"),
    ]


def test_info_is_stored_beside_the_state(runner: Runner, store: MapStore | FileStore) -> None:
    """P5: who opens the store later reads what is asked, where, since when and by whom it is passed on."""
    app = solo(lambda text: interrupt({"ask": text, "at": [1, 2]}, state=5)).compile(store=store)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    again = solo(echo).compile(store=store)
    (point,) = runner.pending(again, "1")
    (live,) = stop.interrupts

    assert point.info == {"ask": "in", "at": [1, 2]}
    assert (point.id, point.address, point.is_root_cause) == (live.id, live.address, True)
    assert point.created_at == live.created_at is not None
    assert point.parent is not None
    assert live.parent is not None
    assert (point.parent.id, str(point.parent.address)) == (live.parent.id, "runnable:root")


def test_a_point_that_stays_open_keeps_its_age(runner: Runner) -> None:
    """P2: a plain re-run that stops at the same question keeps its id and the time it was asked first."""
    app = solo(lambda text: interrupt("q")).compile(store=MapStore())
    first = stopped(runner, app, "in", checkpoint_id="1").interrupts
    second = stopped(runner, app, "in", checkpoint_id="1").interrupts
    third = stopped_again(runner, app, "1").interrupts

    assert [point.id for point in first] == [point.id for point in second] == [point.id for point in third]
    assert first[0].created_at == second[0].created_at == third[0].created_at is not None


def test_stops_side_by_side(runner: Runner, mode: dict[str, Any]) -> None:
    """B080: two nodes stop in one step and a third finishes; its output waits and it is not run again."""
    calls = Calls()

    def asking(key: str) -> Any:
        def node(text: str) -> str:
            calls.note(key)
            return text + str(interrupt(f"q{key}"))

        return node

    graph = Graph(str, dict)
    for key, node in (("A", asking("A")), ("B", asking("B")), ("C", lambda text: text + str(calls.note("C")))):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["A", "B"]
    assert [(point.is_root_cause, point.info) for point in stop.interrupts] == [(True, "qA"), (True, "qB")]
    assert runner.resume(app, "1", answer_all(stop, str.lower)) == {"A": "xqa", "B": "xqb", "C": "x1"}
    assert dict(calls.count) == {"A": 2, "B": 2, "C": 1}


@pytest.mark.parametrize("first", ["ask", "bad"])
def test_an_error_beats_a_stop(runner: Runner, mode: dict[str, Any], first: str) -> None:
    """B081: where one node stops and another fails, the run fails whichever came first, and nothing is written."""
    over = {"ask": threading.Event(), "bad": threading.Event()}
    second = "bad" if first == "ask" else "ask"

    def in_turn(key: str) -> None:
        if key == second:
            assert over[first].wait(10)
        over[key].set()

    def ask(text: str) -> str:
        in_turn("ask")
        return str(interrupt("q"))

    def bad(text: str) -> str:
        in_turn("bad")
        raise ValueError("broken")

    graph = Graph(str, dict)
    for key, node in (("ask", ask), ("bad", bad)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    store = MapStore()
    with pytest.raises(NodeError, match="broken") as caught:
        runner.invoke(graph.compile(store=store, **mode), "x", checkpoint_id="1")

    assert caught.value.path == ["bad"]
    assert isinstance(caught.value.__cause__, ValueError)
    assert store.get("1") is None


def test_composite_of_nothing(runner: Runner, mode: dict[str, Any]) -> None:
    """B082: a composite without children is the node's own stop: a root cause with its info and state."""
    seen: list[Any] = []

    def node(text: str) -> str:
        if not get_interrupt_state().was_interrupted:
            raise composite_interrupt("i", "s", [])
        seen.append((get_interrupt_state(), get_resume_data()))
        return text

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert [(point.info, point.is_root_cause) for point in stop.interrupts] == [("i", True)]
    assert places(stop) == ["runnable:root;node:n"]
    assert runner.resume(app, "1", answer=3) == "x"
    assert seen == [(InterruptStateView(True, True, "s"), ResumeData(True, True, 3))]


def test_composite_of_several(runner: Runner, mode: dict[str, Any]) -> None:
    """B082: of a composite only the children are listed, and they share one parent, which is no root cause."""

    def node(text: str) -> str:
        stops: list[BaseException] = []
        for part in ("p0", "p1"):
            try:
                with address_segment("part", part):
                    interrupt(f"ask {part}")
            except InterruptSignal as signal:
                stops.append(signal)
        raise composite_interrupt("the node", {"done": []}, stops)

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    first, second = stop.interrupts

    assert asked(stop) == ["ask p0", "ask p1"]
    assert places(stop) == ["runnable:root;node:n;part:p0", "runnable:root;node:n;part:p1"]
    assert first.parent is second.parent is not None
    assert (str(first.parent.address), first.parent.info, first.parent.is_root_cause) == (
        "runnable:root;node:n",
        "the node",
        False,
    )
    assert stop.info is not None
    assert stop.info.rerun_extra == {"n": "the node"}


def test_composite_with_a_failure(runner: Runner, mode: dict[str, Any]) -> None:
    """B082: a child that is no stop turns the whole into an ordinary error, and nothing is written."""
    store = MapStore()

    def node(text: str) -> str:
        errors: list[BaseException] = [ValueError("broken")]
        try:
            with address_segment("part", "p0"):
                interrupt("q")
        except InterruptSignal as signal:
            errors.insert(0, signal)
        raise composite_interrupt("i", "s", errors)

    with pytest.raises(NodeError, match="broken") as caught:
        runner.invoke(solo(node).compile(store=store, **mode), "x", checkpoint_id="1")

    assert not isinstance(caught.value, Interrupted)
    assert caught.value.path == ["n"]
    assert store.get("1") is None


def test_a_composite_has_an_id_of_its_own(runner: Runner) -> None:
    """B082, P2: a node that stopped at one question and then at two as a composite keeps both and the first's id."""
    calls = Calls()

    def node(text: str) -> str:
        stops: list[BaseException] = []
        answers: list[Any] = []
        for question in ("q1", "q2")[: calls.note("n")]:
            try:
                answers.append(interrupt(question))
            except InterruptSignal as signal:
                stops.append(signal)
        if len(stops) == 1:
            raise stops[0]
        if stops:
            raise composite_interrupt("both", None, stops)
        return text + "".join(answers)

    app = solo(node).compile(store=MapStore())
    first = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped(runner, app, "x", checkpoint_id="1")
    waiting = runner.pending(app, "1")

    assert asked(second) == asked(waiting) == ["q1", "q2"]
    assert ids(first)["q1"] == ids(second)["q1"] == ids(waiting)["q1"]
    parent = waiting[0].parent
    assert parent is not None
    assert len({parent.id, *ids(second).values()}) == 3
    assert runner.resume(app, "1", {ids(second)["q1"]: "1", ids(second)["q2"]: "2"}) == "x12"
