"""B111 to B120: a run that is cancelled from outside stops with a checkpoint, and a resume runs what had not finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, LONG, Gate, Run, cancelled_in, each_way
from drivers import Runner
from graphs import Calls, appending, chain, echo
from pausing import Note, asked, ids, places, solo, stopped
from wiring import wire

from blobcp import END, START, App, CancelToken, Graph, Interrupted, InterruptInfo, NodeError, interrupt, serializable
from blobcp.stores import MapStore


def lists(stop: Interrupted) -> dict[str, list[str]]:
    """Return the lists of nodes that a stop names, without the empty ones."""
    assert stop.info is not None
    return lists_of(stop.info)


def lists_of(info: InterruptInfo) -> dict[str, list[str]]:
    """Return the lists of nodes of one graph, without the empty ones."""
    named = {"before": info.before_nodes, "after": info.after_nodes, "rerun": info.rerun_nodes}
    return {name: keys for name, keys in named.items() if keys}


def gated_chain(gate: Gate, kind: str, mode: dict[str, Any], **options: Any) -> App:
    """Return chain 1 to 2 whose node 1 is the gate."""
    return chain("1", "2", calls=gate.calls, **{"1": gate.node(kind)}).compile(store=MapStore(), **mode, **options)


@each_way
@pytest.mark.parametrize("grace", [None, LONG], ids=["unlimited", "long"])
def test_a_running_node_may_end(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """B111: without a time-out, or with a long one, the run waits for node 1 and stops after it; 2 runs on resume."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode)

    stop = cancelled_in(runner, app, gate, "input", grace, checkpoint_id="run")

    assert lists(stop) == {"after": ["1"]}
    assert gate.calls.order == ["1"]
    assert runner.invoke(app, "input", checkpoint_id="run") == "input12"
    assert gate.calls.order == ["1", "2"]


@each_way
def test_at_once(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B112: with zero the run stops while node 1 is inside its function; a resume calls it again with the same input."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode)

    stop = cancelled_in(runner, app, gate, "input", AT_ONCE, checkpoint_id="run")

    assert lists(stop) == {"rerun": ["1"]}
    assert stop.checkpoint_id == "run"
    assert runner.resume(app, "run") == "input12"
    assert gate.calls.inputs == {"1": ["input", "input"], "2": ["input1"]}


@each_way
def test_at_once_wins(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B112: a node that ends right after the cancel has lost, 200 times out of 200; what it returned is discarded."""
    for round in range(200):
        gate = Gate("1")
        app = gated_chain(gate, kind, mode)
        run = Run(runner, app, "input", checkpoint_id="run")
        assert gate.entered.wait(LIMIT)

        run.token.cancel(AT_ONCE)
        gate.let_go()

        assert lists(run.stopped()) == {"rerun": ["1"]}, f"round {round}"
        assert gate.calls["2"] == 0


@each_way
def test_a_node_that_cancels_its_own_run(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B112: a cancel at once by the node itself, which then returns, wins too; without a time-out the node has finished."""
    for grace, expected in ((AT_ONCE, {"rerun": ["1"]}), (None, {"after": ["1"]})):
        token = CancelToken()

        def plain(text: str, token: CancelToken = token, grace: timedelta | None = grace) -> str:
            token.cancel(grace)
            return text + "1"

        async def awaiting(text: str, plain: Callable[[str], str] = plain) -> str:
            return plain(text)

        app = chain("1", "2", **{"1": awaiting if kind == "async" else plain}).compile(store=MapStore(), **mode)

        assert lists(stopped(runner, app, "input", checkpoint_id="run", cancel=token)) == expected
        assert runner.resume(app, "run") == "input12"


def fan(two: Any, three: Any, mode: dict[str, Any]) -> App:
    """Return 1 to 2 and 3, whose outputs meet in 4."""
    graph = Graph(str, dict)
    graph.add_node("1", appending("1"))
    graph.add_node("2", two, output_key="2")
    graph.add_node("3", three, output_key="3")
    graph.add_node("4", echo)
    return wire(graph, "start 1 2 4 end", "1 3 4").compile(store=MapStore(), **mode)


@each_way
@pytest.mark.parametrize("grace", [None, LONG, AT_ONCE], ids=["unlimited", "long", "zero"])
def test_two_running_nodes(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """B113: two nodes that run side by side both finish, or both run again; the result is the same."""
    gates = [Gate("2"), Gate("3")]
    app = fan(*(gate.node(kind) for gate in gates), mode)
    run = Run(runner, app, "input", checkpoint_id="run")
    for gate in gates:
        assert gate.entered.wait(LIMIT)

    run.token.cancel(grace)
    if grace != AT_ONCE:
        for gate in gates:
            gate.let_go()
    found = lists(run.stopped())
    for gate in gates:
        gate.let_go()

    assert {name: sorted(keys) for name, keys in found.items()} == {
        "rerun" if grace == AT_ONCE else "after": ["2", "3"]
    }
    assert runner.resume(app, "run") == {"2": "input12", "3": "input13"}
    assert [gate.calls.count[gate.key] for gate in gates] == [2 if grace == AT_ONCE else 1] * 2


@each_way
def test_a_grace_that_runs_out(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B113: when the time-out ends, what has finished is in the channels, and what has not runs again with its input."""
    fast, slow = Gate("2"), Gate("3")
    app = fan(fast.node(kind), slow.node(kind), mode)
    run = Run(runner, app, "input", checkpoint_id="run")
    assert slow.entered.wait(LIMIT)
    assert fast.entered.wait(LIMIT)
    fast.let_go()
    assert fast.left.wait(LIMIT)

    run.token.cancel(timedelta(seconds=0.2))
    stop = run.stopped()
    slow.let_go()

    assert lists(stop) == {"after": ["2"], "rerun": ["3"]}
    assert runner.resume(app, "run") == {"2": "input12", "3": "input13"}
    assert (fast.calls["2"], slow.calls["3"]) == (1, 2)


@serializable("tests.cancel.Box")
@dataclass
class Box:
    """An input that can be changed in place."""

    text: str = ""


@each_way
def test_the_input_is_that_before_the_handler(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B115: what is stored is the input before the pre-handler, also where the handler changes it in place."""

    def prefix(box: Box, state: Note) -> Box:
        box.text = "prefix_" + box.text
        return box

    gate = Gate()
    seen: list[str] = []

    def plain(box: Box) -> str:
        seen.append(box.text)
        return str(gate(box.text)) + "_processed"

    async def awaiting(box: Box) -> str:
        seen.append(box.text)
        return str(await gate.awaiting(box.text)) + "_processed"

    graph = Graph(Box, str, state=Note)
    graph.add_node("1", awaiting if kind == "async" else plain, pre=prefix)
    app = wire(graph, "start 1 end").compile(store=MapStore(), **mode)

    cancelled_in(runner, app, gate, Box("test_input"), AT_ONCE, checkpoint_id="run")

    assert runner.resume(app, "run") == "prefix_test_input_processed"
    assert seen == ["prefix_test_input"] * 2


@each_way
def test_the_last_node_before_end(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B118: a run whose last node finishes during the grace returns its result, and leaves no checkpoint to resume."""
    gate = Gate("1")
    app = chain("1", **{"1": gate.node(kind)}).compile(store=(store := MapStore()), **mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)

    run.token.cancel()
    gate.let_go()

    assert run.result() == "a1"
    assert store.get("run") is None


@each_way
@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_what_is_asked(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """B119: a cancelled run has one point: the graph's own address, root cause, with a copy of the state for its info."""
    gate = Gate("1")
    made: list[Note] = []

    def fresh() -> Note:
        made.append(Note("state"))
        return made[-1]

    app = chain("1", "2", state=fresh, **{"1": gate.node(kind)}).compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "a", grace, checkpoint_id="run")

    assert [(str(p.address), p.info, p.is_root_cause, p.parent) for p in stop.interrupts] == [
        ("runnable:root", Note("state"), True, None)
    ]
    assert stop.interrupts[0].info is not made[-1]
    assert stop.info is not None
    assert stop.info.state == Note("state")
    where = "after ['1']" if grace is None else "in ['1']"
    assert str(stop) == f"cancelled: stopped {where}, at runnable:root; checkpoint 'run'"
    pending = runner.pending(app, "run")
    assert [(point.id, point.info) for point in pending] == [(stop.interrupts[0].id, Note("state"))]


@each_way
def test_the_graphs_point_may_be_answered(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B119: answering the point with a state replaces the state; what was given up runs again all the same."""
    gate = Gate("n")
    graph = solo(gate.node(kind), state=Note, post=lambda text, note: text + note.text)
    app = graph.compile(store=MapStore(), **mode)
    stop = cancelled_in(runner, app, gate, "a", AT_ONCE, checkpoint_id="run")

    assert runner.resume(app, "run", {stop.interrupts[0].id: Note("!")}) == "an!"
    assert gate.calls["n"] == 2


@each_way
def test_a_node_that_asks_during_the_grace(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B120: a node that interrupts itself during an unlimited grace is a rerun node only, and its question is what waits."""
    gate = Gate()

    def plain(text: str) -> str:
        gate(text)
        return text + str(interrupt("go on?"))

    async def awaiting(text: str) -> str:
        await gate.awaiting(text)
        return text + str(interrupt("go on?"))

    app = chain("1", "2", **{"1": awaiting if kind == "async" else plain}).compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "a", None, checkpoint_id="run")

    assert lists(stop) == {"rerun": ["1"]}
    assert (asked(stop), places(stop)) == (["go on?"], ["runnable:root;node:1"])
    assert runner.resume(app, "run", {ids(stop)["go on?"]: "!"}) == "a!2"


@each_way
def test_one_asks_and_one_is_given_up(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B120: where one node has asked and another is given up, an answer to the first runs both."""
    gate = Gate("2")
    asking = Gate()

    def asks(text: str) -> str:
        asking.entered.set()
        return text + str(interrupt("go on?"))

    app = fan(gate.node(kind), asks, mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    assert asking.entered.wait(LIMIT)
    run.token.cancel(timedelta(seconds=0.2))
    stop = run.stopped()
    gate.let_go()

    assert lists(stop) == {"rerun": ["2", "3"]}
    assert asked(stop) == ["go on?"]
    assert runner.resume(app, "run", {ids(stop)["go on?"]: "!"}) == {"2": "a12", "3": "a1!"}
    assert gate.calls["2"] == 2


@each_way
def test_interrupt_after_and_cancel(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B120: a node that finishes under the cancel and is one that the run stops after is listed once."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode, interrupt_after=["1"])

    stop = cancelled_in(runner, app, gate, "input", None, checkpoint_id="run")

    assert lists(stop) == {"after": ["1"]}
    assert runner.resume(app, "run") == "input12"


@each_way
def test_interrupt_before_and_cancel(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A run that stops before node 2 anyway is cancelled in node 1: one stop for both, and one resume goes on."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode, interrupt_before=["2"])

    stop = cancelled_in(runner, app, gate, "input", None, checkpoint_id="run")

    assert lists(stop) == {"before": ["2"], "after": ["1"]}
    assert runner.resume(app, "run") == "input12"


@each_way
def test_cancelling_twice(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B120, K26: cancelling again, during the run and after it, does no harm."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode)
    run = Run(runner, app, "input", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)

    for _ in range(3):
        run.token.cancel()
    gate.let_go()
    assert lists(run.stopped()) == {"after": ["1"]}
    run.token.cancel(AT_ONCE)

    assert runner.resume(app, "run") == "input12"


@each_way
def test_an_earlier_deadline_counts(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """K05: a later cancel shortens the grace of an earlier one; a longer one does not make it longer."""
    gate = Gate("1")
    app = gated_chain(gate, kind, mode)
    run = Run(runner, app, "input", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)

    run.token.cancel()
    run.token.cancel(LONG)
    assert not run.over
    run.token.cancel(AT_ONCE)
    run.token.cancel(LONG)

    assert lists(run.stopped()) == {"rerun": ["1"]}
    gate.let_go()


@each_way
def test_a_node_that_fails_during_the_grace(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A node that fails during the grace fails the run, which stores nothing."""
    gate = Gate("1")

    def plain(text: str) -> str:
        gate(text)
        raise ValueError("broken")

    async def awaiting(text: str) -> str:
        await gate.awaiting(text)
        raise ValueError("broken")

    app = chain("1", "2", **{"1": awaiting if kind == "async" else plain}).compile(store=(store := MapStore()), **mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    run.token.cancel()
    gate.let_go()

    with pytest.raises(NodeError, match="broken"):
        run.result()
    assert store.get("run") is None


@each_way
def test_a_failed_run_is_not_waited_for(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A run that has failed and waits for another node ends with its failure when it is cancelled at once."""
    gate = Gate("2")
    failing = Gate()

    def fails(text: str) -> str:
        failing.entered.set()
        raise ValueError("broken")

    app = fan(gate.node(kind), fails, mode)
    run = Run(runner, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    assert failing.entered.wait(LIMIT)

    run.token.cancel(timedelta(seconds=0.2))
    with pytest.raises(NodeError, match="broken"):
        run.result()

    assert not gate.left.is_set() or gate.cancelled
    gate.let_go()


@each_way
def test_without_a_checkpoint_id(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A run without a checkpoint id is stopped likewise, and nothing is stored."""
    gate = Gate("1")
    app = chain("1", "2", **{"1": gate.node(kind)}).compile(store=(store := MapStore()), **mode)

    stop = cancelled_in(runner, app, gate, "a", AT_ONCE)

    assert lists(stop) == {"rerun": ["1"]}
    assert stop.checkpoint_id is None
    assert list(store.list()) == []


@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_cancelled_before_the_start(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """A run whose token was cancelled before stops before its first node, with a checkpoint that holds the input."""
    calls = Calls()
    app = chain("1", "2", calls=calls, state=Note).compile(store=MapStore(), **mode)
    token = CancelToken()
    token.cancel(grace)

    stop = stopped(runner, app, "a", checkpoint_id="run", cancel=token)

    assert lists(stop) == {}
    assert str(stop) == "cancelled: stopped before any node ran, at runnable:root; checkpoint 'run'"
    assert calls.order == []
    assert runner.resume(app, "run") == "a12"


@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_a_resume_that_is_cancelled_before_it_starts(
    runner: Runner, mode: dict[str, Any], grace: timedelta | None
) -> None:
    """A resume whose token was cancelled before runs nothing and stores the run as it was."""
    calls = Calls()
    app = chain("1", "2", "3", calls=calls).compile(store=MapStore(), interrupt_before=["2"], **mode)
    stopped(runner, app, "a", checkpoint_id="run")
    for _ in range(3):
        token = CancelToken()
        token.cancel(grace)
        with pytest.raises(Interrupted):
            runner.resume(app, "run", cancel=token)

    assert runner.resume(app, "run") == "a123"
    assert calls.order == ["1", "2", "3"]


def test_a_loop(runner: Runner) -> None:
    """A loop is cancelled in each of its rounds: no round is lost, none is done twice."""
    tokens = [CancelToken()]
    seen: list[str] = []

    def grow(text: str) -> str:
        seen.append(text)
        tokens[-1].cancel()
        return text + "x"

    graph = Graph(str, str)
    graph.add_node("grow", grow)
    graph.add_edge(START, "grow")
    graph.add_branch("grow", lambda text: END if len(text) >= 4 else "grow", ["grow", END])
    app = graph.compile(store=MapStore())
    assert lists(stopped(runner, app, "", checkpoint_id="run", cancel=tokens[-1])) == {"after": ["grow"]}
    for _ in range(2):
        tokens.append(CancelToken())
        stopped(runner, app, checkpoint_id="run", cancel=tokens[-1])
    tokens.append(CancelToken())

    assert runner.invoke(app, checkpoint_id="run", cancel=tokens[-1]) == "xxxx"
    assert seen == ["", "x", "xx", "xxx"]


@each_way
@pytest.mark.parametrize("with_token", [False, True], ids=["without", "with"])
def test_the_stored_input_needs_no_token(runner: Runner, kind: str, mode: dict[str, Any], with_token: bool) -> None:
    """B053: with or without a token, a node that interrupts itself is stored with its input and gets it again."""
    calls = Calls()

    def plain(text: str) -> str:
        return interrupt("?") if calls.note("1", text) == 1 else text + "1"

    async def awaiting(text: str) -> str:
        return plain(text)

    app = chain("1", **{"1": awaiting if kind == "async" else plain}).compile(store=MapStore(), **mode)
    tokens = [CancelToken(), CancelToken()] if with_token else [None, None]

    stop = stopped(runner, app, "a", checkpoint_id="run", cancel=tokens[0])

    assert lists(stop) == {"rerun": ["1"]}
    assert runner.invoke(app, checkpoint_id="run", cancel=tokens[1]) == "a1"
    assert calls.inputs == {"1": ["a", "a"]}
