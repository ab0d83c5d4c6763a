"""A cancel loses no answer and no open question: what somebody has said, and what somebody is asked, outlive it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, Gate, Run, each_way
from drivers import Runner
from graphs import Calls, chain
from pausing import asked, ids, solo, stopped, stopped_again
from wiring import wire

from blobcp import CancelToken, Graph, InterruptSignal, address_segment, composite_interrupt, interrupt
from blobcp.stores import MapStore

graces = pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])


def cancelled(grace: timedelta | None) -> CancelToken:
    """Return a token that was cancelled already."""
    token = CancelToken()
    token.cancel(grace)
    return token


@graces
def test_an_answer_that_was_not_used_yet(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """A resume with an answer, cancelled before its node runs, keeps the answer: a plain resume finds it."""
    app = solo(lambda text: text + interrupt("q?")).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "a", checkpoint_id="run")

    second = stopped_again(runner, app, "run", {ids(first)["q?"]: "!"}, cancel=cancelled(grace))

    assert asked(second) == [None]
    assert runner.resume(app, "run") == "a!"


@each_way
def test_an_answer_that_was_used(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A node that was given up after it got its answer gets the answer again, without asking."""
    gate = Gate("1")

    def plain(text: str) -> str:
        answer = interrupt("q?")
        return str(gate(text)) + str(answer)

    async def awaiting(text: str) -> str:
        answer = interrupt("q?")
        return str(await gate.awaiting(text)) + str(answer)

    app = solo(awaiting if kind == "async" else plain).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "a", checkpoint_id="run")
    run = Run(runner, app, resume="run", answers={ids(first)["q?"]: "!"})
    assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    assert asked(run.stopped()) == [None]
    gate.let_go()

    assert runner.resume(app, "run") == "a1!"


@graces
def test_an_open_question_keeps_its_id(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """A plain re-run that is cancelled before its node asks again leaves the question open, under the id it had."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("n", text)
        return text + str(interrupt("q?"))

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "a", checkpoint_id="run")

    second = stopped(runner, app, checkpoint_id="run", cancel=cancelled(grace))

    assert ids(second) == ids(first)
    assert second.interrupts[0].created_at == first.interrupts[0].created_at
    assert [point.id for point in runner.pending(app, "run")] == [ids(first)["q?"]]
    assert calls["n"] == 1
    assert runner.resume(app, "run", {ids(first)["q?"]: "!"}) == "a!"


@each_way
def test_a_node_given_up_before_it_asks_again(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A plain re-run that is given up inside the node, before it asks again, leaves the question open under its id."""
    gate = Gate()
    gate.let_go()

    def plain(text: str) -> str:
        return str(gate(text)) + str(interrupt("q?"))

    async def awaiting(text: str) -> str:
        return str(await gate.awaiting(text)) + str(interrupt("q?"))

    app = solo(awaiting if kind == "async" else plain).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "a", checkpoint_id="run")
    gate.entered.clear()
    gate.go.clear()
    run = Run(runner, app, resume="run")
    assert gate.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    second = run.stopped()
    gate.let_go()

    assert ids(second) == ids(first)
    assert runner.resume(app, "run", {ids(first)["q?"]: "!"}) == "a!"


@graces
def test_one_of_two_questions_of_a_node(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """Of a node's two questions one is answered, then the run is cancelled: the other keeps its id, the answer is kept."""

    def node(text: str) -> str:
        answers: list[str] = []
        signals: list[BaseException] = []
        for part in ("a", "b"):
            try:
                with address_segment("part", part):
                    answers.append(interrupt(f"{part}?"))
            except InterruptSignal as signal:
                signals.append(signal)
        if signals:
            raise composite_interrupt("parts", None, signals)
        return text + "".join(answers)

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="run")

    second = stopped_again(runner, app, "run", {ids(first)["a?"]: "A"}, cancel=cancelled(grace))

    assert ids(second) == {"b?": ids(first)["b?"]}
    assert second.interrupts[0].parent is not None
    assert second.interrupts[0].parent.info == "parts"
    assert runner.resume(app, "run", {ids(first)["b?"]: "B"}) == "xAB"


@graces
def test_what_was_not_named_stays_parked(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """P2: of two nodes that ask one is answered and cancelled; the other's question stays, and each runs as it should."""
    calls = Calls()

    def asking(key: str) -> Any:
        def node(text: str) -> str:
            calls.note(key, text)
            return text + str(interrupt(f"{key}?"))

        return node

    graph = Graph(str, dict)
    for key in ("A", "B"):
        graph.add_node(key, asking(key), output_key=key)
        wire(graph, f"start {key} end")
    app = graph.compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="run")

    second = stopped_again(runner, app, "run", {ids(first)["A?"]: "a"}, cancel=cancelled(grace))
    assert ids(second) == {"B?": ids(first)["B?"]}
    assert calls.count == {"A": 1, "B": 1}

    assert runner.resume(app, "run", {ids(first)["B?"]: "b"}) == {"A": "xa", "B": "xb"}
    assert calls.count == {"A": 2, "B": 2}


@graces
def test_inside_a_nested_graph(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """An answer to a node of a nested graph outlives a cancel before the node runs, and so does the graph's progress."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("ask", text)
        return text + str(interrupt("q?"))

    inner = chain("s1", "ask", "s3", calls=calls, ask=node)
    app = chain("sub", "after", calls=calls, sub=inner).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="run")
    for answers in ({ids(first)["q?"]: "!"}, None):
        stop = stopped_again(runner, app, "run", answers, cancel=cancelled(grace))
        assert stop.info is not None
        assert list(stop.info.subgraphs) == ["sub"]

    assert runner.resume(app, "run") == "xs1!s3after"
    assert calls.count == {"s1": 1, "ask": 2, "s3": 1, "after": 1}
