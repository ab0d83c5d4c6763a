"""Answers that name a point above a question (a composite, a graph), and resumes that fail and are tried again."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import Calls
from pausing import Note, asked, calling, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    NO_DATA,
    START,
    CheckpointDoneError,
    Graph,
    InterruptSignal,
    NodeError,
    ResumeData,
    address_segment,
    composite_interrupt,
    get_resume_data,
    interrupt,
    use_state,
)
from blobcp.stores import FileStore, MapStore


@pytest.mark.parametrize("data", ["for the node", NO_DATA])
def test_a_composite_is_named(runner: Runner, mode: dict[str, Any], data: Any) -> None:
    """P2, B092: a composite that is named itself runs with its data; its children are no targets and keep their ids."""
    seen: list[Any] = []

    def node(text: str) -> list[Any]:
        seen.append(get_resume_data())
        stops: list[BaseException] = []
        answers: list[Any] = []
        for part in ("p0", "p1"):
            try:
                with address_segment("part", part):
                    seen.append(get_resume_data().is_target)
                    answers.append(interrupt(part))
            except InterruptSignal as signal:
                stops.append(signal)
        if stops:
            raise composite_interrupt("batch", None, stops)
        return answers

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    above = first.interrupts[0].parent
    assert above is not None
    seen.clear()
    second = stopped_again(runner, app, "1", {above.id: data})

    assert ids(second) == ids(first)
    assert seen == [ResumeData(True, data is not NO_DATA, None if data is NO_DATA else data), False, False]
    assert runner.resume(app, "1", {id: info for info, id in ids(first).items()}) == ["p0", "p1"]


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
@pytest.mark.parametrize("together", [False, True], ids=["graph first", "at once"])
def test_a_graph_above_a_question_is_named(runner: Runner, mode: dict[str, Any], nest: bool, together: bool) -> None:
    """B096, P2: data for the graph above a question replaces its state; the question waits on if it is not named."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("n")
        answer = interrupt("q")
        with use_state(Note) as note:
            return f"{text} {answer} {note.text}"

    graph = solo(node, state=Note)
    app = (solo(graph, key="s") if nest else graph).compile(store=MapStore(), **mode)
    (point,) = stopped(runner, app, "in", checkpoint_id="1").interrupts
    assert point.parent is not None
    answers: dict[str, Any] = {point.parent.id: Note("given")}
    if not together:
        (left,) = stopped_again(runner, app, "1", answers).interrupts
        assert (left.id, calls["n"]) == (point.id, 1)
        assert left.parent is not None
        assert left.parent.info == Note("given")
        answers = {}

    assert runner.resume(app, "1", {**answers, point.id: "yes"}) == "in yes given"
    assert calls["n"] == 2


def test_a_resume_that_fails(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """A resume whose node fails leaves the checkpoint as it was, so that the same answers can be given again."""
    healthy: list[bool] = []

    def node(text: str) -> str:
        answer = interrupt("q")
        if not healthy:
            raise ValueError("the service is down")
        return text + str(answer)

    app = solo(node).compile(store=store, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    before = store.get("1")
    with pytest.raises(NodeError, match="the service is down"):
        runner.resume(app, "1", {ids(stop)["q"]: "!"})

    assert store.get("1") == before
    assert ids(runner.pending(app, "1")) == ids(stop)
    healthy.append(True)
    assert runner.resume(app, "1", {ids(stop)["q"]: "!"}) == "in!"


def test_a_join_after_answers_one_by_one(runner: Runner, mode: dict[str, Any]) -> None:
    """F09, P2: a join waits for the branch that is still pending, and gets what the answered one gave before."""
    joined: list[dict[str, str]] = []

    def join(value: dict[str, str]) -> dict[str, str]:
        joined.append(value)
        return value

    graph = Graph(str, dict)
    for key in ("left", "right"):
        graph.add_node(key, lambda text, key=key: text + interrupt(key), output_key=key)
    graph.add_node("join", join)
    for key in ("left", "right"):
        graph.add_edge(START, key)
        graph.add_edge(key, "join")
    graph.add_edge("join", END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    assert asked(stopped_again(runner, app, "1", {ids(stop)["right"]: "R"})) == ["left"]

    assert joined == []
    assert runner.resume(app, "1", answer="L") == {"left": "xL", "right": "xR"}
    assert joined == [{"left": "xL", "right": "xR"}]


def test_a_nested_start_branch_asks(runner: Runner, mode: dict[str, Any]) -> None:
    """A branch on the START of a nested graph may ask; the point is at the node that holds the graph, or inside it."""
    inner = Graph(str, str)
    for key in ("a", "b"):
        inner.add_node(key, lambda text, key=key: text + key)
        inner.add_edge(key, END)
    inner.add_branch(START, lambda text: interrupt(f"where with {text}?"), ["a", "b"])
    app = solo(inner, key="s").compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert asked(stop) == asked(runner.pending(app, "1")) == ["where with x?"]
    assert places(stop)[0].startswith("runnable:root;node:s")
    assert runner.resume(app, "1", answer="b") == "xb"


@pytest.mark.parametrize("hosted", [False, True], ids=["root", "app in a node"])
def test_the_first_start_branch_asks(runner: Runner, mode: dict[str, Any], hosted: bool) -> None:
    """A branch on the START of a root graph can't ask, as there is nothing to resume: it fails, nothing is written."""
    store = MapStore()
    graph = Graph(str, str)
    graph.add_node("a", lambda text: text + "a")
    graph.add_branch(START, lambda text: interrupt("where?"), ["a"])
    graph.add_edge("a", END)
    if hosted:
        graph = solo(calling(runner, graph.compile(name="inner", **mode)))
    with pytest.raises(NodeError, match=r"'start' of graph '(root|inner)' asked a question"):
        runner.invoke(graph.compile(store=store, **mode), "x", checkpoint_id="1")

    assert store.get("1") is None


def test_an_app_that_calls_itself(runner: Runner) -> None:
    """B083 with one app at every level: the same graph, called from its own node, is told apart by its address."""
    calls = Calls()

    def node(number: int) -> int:
        calls.note(str(number))
        return int(interrupt("bottom")) if number == 0 else app.invoke(number - 1) + 1

    app = solo(node).compile(store=MapStore())
    stop = stopped(runner, app, 3, checkpoint_id="1")

    assert places(stop) == [";".join(["runnable:root;node:n"] * 4)]
    assert runner.resume(app, "1", answer=10) == 13
    assert dict(calls.count) == dict.fromkeys("3210", 2)


def test_a_fork_whose_inner_run_has_moved_on(runner: Runner, mode: dict[str, Any]) -> None:
    """F06, K19: an inner run under an id of its own is not forked with its host; a second answer to it is refused."""
    inner_store, store = MapStore(), MapStore()
    inner = solo(lambda text: text + interrupt("q")).compile(name="inner", store=inner_store, **mode)
    app = solo(calling(runner, inner, checkpoint_id="in")).compile(store=store, **mode)
    (point,) = stopped(runner, app, "x", checkpoint_id="A").interrupts
    assert runner.resume(app, "A", {point.id: "yes"}, write_to_checkpoint_id="B") == "xyes"
    before = store.get("A"), inner_store.get("in")
    with pytest.raises(NodeError, match="'in'") as caught:
        runner.resume(app, "A", {point.id: "no"}, write_to_checkpoint_id="C")

    assert isinstance(caught.value.__cause__, CheckpointDoneError)
    assert (store.get("A"), inner_store.get("in"), store.get("C")) == (*before, None)
