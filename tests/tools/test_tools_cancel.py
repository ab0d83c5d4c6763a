"""A tools node in a run that is cancelled from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cancelling import AT_ONCE, Gate, Run, cancelled_in
from drivers import Runner
from tool_calls import asking, call, contents, tools_graph

from blobcp import interrupt
from blobcp.stores import MapStore

KINDS = pytest.mark.parametrize("kind", ["plain", "async"])


def waiting_tool(gate: Gate, kind: str) -> Any:
    """Return a tool that is inside the gate until it is let go."""

    def test_tool(text: str) -> str:
        return str(gate(text)) + "_result"

    async def awaiting_tool(text: str) -> str:
        return str(await gate.awaiting(text)) + "_result"

    awaiting_tool.__name__ = test_tool.__name__
    return awaiting_tool if kind == "async" else test_tool


@KINDS
def test_a_tool_that_is_given_up_runs_again(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B103: cancelled at once inside the only tool, the node runs again with the request it had, whatever it is given then."""
    gate = Gate("")
    app = tools_graph(waiting_tool(gate, kind)).compile(store=MapStore(), **mode)
    request = asking(call("c1", "test_tool", text="test"))

    stop = cancelled_in(runner, app, gate, request, AT_ONCE, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["tools"]
    assert [str(point.address) for point in stop.interrupts] == ["runnable:root"]
    assert contents(runner.invoke(app, {"role": "assistant"}, checkpoint_id="run")) == {"c1": "test_result"}
    assert gate.calls.inputs == {"": ["test", "test"]}


@KINDS
def test_tools_that_may_finish_are_not_repeated(runner: Runner, kind: str) -> None:
    """B111 with a tools node: without a time-out its calls end, and the run goes on after it."""
    gate = Gate("")
    graph = tools_graph(waiting_tool(gate, kind))
    app = graph.compile(store=MapStore())

    run = Run(runner, app, asking(call("c1", "test_tool", text="test")), checkpoint_id="run")
    assert gate.entered.wait(20)
    run.token.cancel()
    gate.let_go()

    assert contents(run.result()) == {"c1": "test_result"}  # B118: it was the last node
    assert gate.calls[""] == 1


def test_what_had_finished_in_the_visit_runs_again(runner: Runner) -> None:
    """A node that is given up keeps nothing of its visit: calls that had finished in it run again as well."""
    gate, told = Gate(""), []

    def note(text: str) -> str:
        told.append(text)
        return text

    app = tools_graph(note, waiting_tool(gate, "plain"), parallel=False).compile(store=MapStore())
    request = asking(call("c1", "note", text="a"), call("c2", "test_tool", text="b"))
    cancelled_in(runner, app, gate, request, AT_ONCE, checkpoint_id="run")

    assert contents(runner.resume(app, "run")) == {"c1": "a", "c2": "b_result"}
    assert told == ["a", "a"]


def test_what_had_been_kept_is_still_kept(runner: Runner) -> None:
    """A run that is cancelled while one call is answered keeps the calls that finished before, and the answer."""
    gate, told = Gate(""), []

    def note(text: str) -> str:
        told.append(text)
        return text

    def ask(text: str) -> str:
        return str(gate(text)) + str(interrupt("sure?"))

    app = tools_graph(note, ask).compile(store=MapStore())
    gate.let_go()
    run = Run(runner, app, asking(call("c1", "note", text="a"), call("c2", "ask", text="b")), checkpoint_id="run")
    question = run.stopped().interrupts[0]
    gate.go.clear()
    gate.entered.clear()

    again = Run(runner, app, resume="run", answers={question.id: "!"})
    assert gate.entered.wait(20)
    again.token.cancel(AT_ONCE)
    again.stopped()
    gate.let_go()

    assert contents(runner.resume(app, "run")) == {"c1": "a", "c2": "b!"}
    assert told == ["a"]
    assert gate.calls.inputs == {"": ["b", "b", "b"]}


def test_async_tools_of_a_cancelled_run_are_cancelled(runner: Runner) -> None:
    """Where the run's own loop runs them, tools that are given up see their cancellation; none is left behind."""
    gate = Gate("")
    app = tools_graph(waiting_tool(gate, "async")).compile(store=MapStore())

    cancelled_in(runner, app, gate, asking(call("c1", "test_tool", text="test")), AT_ONCE, checkpoint_id="run")

    assert gate.left.wait(20)
    assert gate.cancelled == (1 if runner.name == "async" else 0)
    assert asyncio.run(_tasks()) == 1


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def test_questions_that_nobody_has_answered_keep_their_ids(runner: Runner) -> None:
    """P2: a run that is cancelled while one of two questions is answered leaves the other open, under its id."""
    gate = Gate("")

    def ask(text: str) -> str:
        return text + str(interrupt(text))

    def work(text: str) -> str:
        return str(gate(text)) + str(interrupt(text))

    app = tools_graph(ask, work).compile(store=MapStore())
    gate.let_go()
    run = Run(runner, app, asking(call("c1", "ask", text="a"), call("c2", "work", text="b")), checkpoint_id="run")
    ids = {point.info: point.id for point in run.stopped().interrupts}
    gate.go.clear()
    gate.entered.clear()
    again = Run(runner, app, resume="run", answers={ids["b"]: "2"})
    assert gate.entered.wait(20)
    again.token.cancel(AT_ONCE)
    again.stopped()
    gate.let_go()

    assert ids["a"] in [point.id for point in runner.pending(app, "run")]
    stop = Run(runner, app, resume="run").stopped()
    assert [(point.info, point.id) for point in stop.interrupts] == [("a", ids["a"])]
    assert contents(runner.resume(app, "run", {ids["a"]: "1"})) == {"c1": "a1", "c2": "b2"}
    assert gate.calls.inputs == {"": ["b", "b", "b"]}
