"""Stream runs that are cancelled from outside: the same stops, the same records, the same resumes as in value runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, LONG, Gate, each_way
from drivers import Runner
from graphs import Calls, appending, chain, echo
from pausing import Note, asked, ids, places
from shaped import fewer_modes, flowing, go, shapes, ways
from streaming import Background, record_of
from wiring import wire

from blobcp import END, START, App, CancelToken, Graph, Interrupted, OptionError, interrupt, use_state
from blobcp.stores import MapStore

__all__ = ["fewer_modes"]

graces = pytest.mark.parametrize("grace", [None, LONG, AT_ONCE], ids=["unlimited", "long", "zero"])


class Running:
    """A stream run in a thread of its own, with a token."""

    def __init__(self, runner: Runner, shape: str, app: App, input: Any = None, **options: Any) -> None:
        self.token = CancelToken()
        self.results: list[Any] = []
        self._call = Background(
            lambda: self.results.append(go(runner, shape, app, input, cancel=self.token, **options))
        )

    def stopped(self) -> Interrupted:
        """Return what it stopped with."""
        error = self._call.error(LIMIT)
        assert isinstance(error, Interrupted), f"it did not stop: {error!r}, {self.results}"
        assert error.info is not None
        return error

    def result(self) -> Any:
        """Return what it returned."""
        error = self._call.error(LIMIT)
        assert error is None, f"it failed: {error!r}"
        return self.results[0]


def cancelled_in(running: Running, gates: list[Gate], grace: timedelta | None) -> Interrupted:
    """Cancel a run that is inside all the gates; unless at once, they are let go then."""
    for gate in gates:
        assert gate.entered.wait(LIMIT)
    running.token.cancel(grace)
    if grace != AT_ONCE:
        for gate in gates:
            gate.let_go()
    stop = running.stopped()
    for gate in gates:
        gate.let_go()
    return stop


def late(gate: Gate, kind: str) -> Callable[[Any], Any]:
    """Return a node that gives its input on as a chunk and is inside the gate then, in the middle of its stream."""

    def plain(text: str) -> Iterator[str]:
        yield text
        yield str(gate(text))[len(text) :]

    async def awaiting(text: str) -> AsyncIterator[str]:
        yield text
        yield str(await gate.awaiting(text))[len(text) :]

    return awaiting if kind == "async" else plain


def node_of(gate: Gate, kind: str, form: str) -> Callable[[Any], Any]:
    """Return a node that is inside the gate before it returns, or in the middle of its stream."""
    return gate.node(kind) if form == "function" else late(gate, kind)


forms = pytest.mark.parametrize("form", ["function", "stream"])


@ways
@forms
@pytest.mark.parametrize("grace", [None, LONG], ids=["unlimited", "long"])
def test_a_running_node_may_end(
    runner: Runner, kind: str, mode: dict[str, Any], shape: str, form: str, grace: timedelta | None
) -> None:
    """B111: without a time-out, or with a long one, the run waits for what runs, readers of its stream too, and stops."""
    gate, store = Gate("1"), MapStore()
    app = chain("1", "2", "3", calls=gate.calls, **{"1": node_of(gate, kind, form)}).compile(store=store, **mode)
    running = Running(runner, shape, app, "input", checkpoint_id="run")
    stop = cancelled_in(running, [gate], grace)

    assert stop.info is not None
    assert stop.info.after_nodes == (["1"] if form == "function" else ["2"])
    assert stop.info.rerun_nodes == []
    assert go(runner, shape, app, "input", checkpoint_id="run") == "input123"
    assert gate.calls.order == ["1", "2", "3"]


@ways
def test_at_once_wins(runner: Runner, kind: str, mode: dict[str, Any], shape: str) -> None:
    """B112: a function that ends right after a cancel at once has lost; its result is discarded, its input is stored."""
    for round in range(3):
        gate, store = Gate("1"), MapStore()
        app = chain("1", "2", calls=gate.calls, **{"1": gate.node(kind)}).compile(store=store, **mode)
        running = Running(runner, shape, app, "input", checkpoint_id="run")
        assert gate.entered.wait(LIMIT)
        running.token.cancel(AT_ONCE)
        gate.let_go()
        stop = running.stopped()

        assert stop.info is not None
        assert (stop.info.rerun_nodes, stop.info.after_nodes) == (["1"], []), f"round {round}"
        assert record_of(store, "run").inputs == {"1": "input"}
        assert gate.calls["2"] == 0
        assert go(runner, shape, app, checkpoint_id="run") == "input12"
        assert gate.calls.inputs == {"1": ["input", "input"], "2": ["input1"]}


@ways
def test_at_once_inside_a_stream(runner: Runner, kind: str, mode: dict[str, Any], shape: str) -> None:
    """B112: a node that is given up in the middle of its stream runs again from its input, and its reader has not begun."""
    gate, store = Gate("1"), MapStore()
    app = chain("1", "2", calls=gate.calls, **{"1": late(gate, kind)}).compile(store=store, **mode)
    stop = cancelled_in(Running(runner, shape, app, "input", checkpoint_id="run"), [gate], AT_ONCE)

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.after_nodes) == (["1"], [])
    assert record_of(store, "run").inputs == {"1": "input"}
    assert go(runner, shape, app, checkpoint_id="run") == "input12"
    assert gate.calls.inputs == {"1": ["input", "input"], "2": ["input1"]}


@shapes
def test_a_stream_that_cancels_its_own_run(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B112: a stream that ends after a cancel at once has lost too, always, and the node of values behind it does not start."""
    for _ in range(10):
        calls, token = Calls(), CancelToken()

        def src(text: str, token: CancelToken = token) -> Iterator[str]:
            yield text
            token.cancel(AT_ONCE)
            yield "1"

        app = chain("1", "2", "3", calls=calls, **{"1": src}).compile(store=MapStore(), **mode)
        with pytest.raises(Interrupted) as caught:
            go(runner, shape, app, "input", checkpoint_id="run", cancel=token)
        assert caught.value.info is not None
        assert caught.value.info.rerun_nodes == ["1"]
        assert calls.order == []


@each_way
@graces
def test_two_running_nodes(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """B113: two nodes side by side both finish, or both run again; the result is the same."""
    gates = [Gate("2"), Gate("3")]
    graph = Graph(str, dict)
    graph.add_node("1", flowing("1"))
    for gate in gates:
        graph.add_node(gate.key, gate.node(kind), output_key=gate.key)
    graph.add_node("4", echo)
    app = wire(graph, "start 1 2 4 end", "1 3 4").compile(store=MapStore(), **mode)
    stop = cancelled_in(Running(runner, "stream", app, "input", checkpoint_id="run"), gates, grace)

    assert stop.info is not None
    found = stop.info.rerun_nodes if grace == AT_ONCE else stop.info.after_nodes
    assert sorted(found) == ["2", "3"]
    assert go(runner, "collect", app, checkpoint_id="run") == {"2": "input12", "3": "input13"}
    assert [gate.calls[gate.key] for gate in gates] == [2 if grace == AT_ONCE else 1] * 2


@each_way
def test_a_grace_that_runs_out(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B113: when the time-out ends, what has finished is kept, and what has not runs again with its input."""
    fast, slow, store = Gate("2"), Gate("3"), MapStore()
    graph = Graph(str, dict)
    graph.add_node("1", flowing("1"))
    graph.add_node("2", fast.node(kind), output_key="2")
    graph.add_node("3", slow.node(kind), output_key="3")
    graph.add_node("4", echo)
    app = wire(graph, "start 1 2 4 end", "1 3 4").compile(store=store, **mode)
    running = Running(runner, "stream", app, "input", checkpoint_id="run")
    assert slow.entered.wait(LIMIT)
    assert fast.entered.wait(LIMIT)
    fast.let_go()
    assert fast.left.wait(LIMIT)
    running.token.cancel(timedelta(seconds=0.2))
    stop = running.stopped()
    slow.let_go()

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.rerun_nodes) == (["2"], ["3"])
    record = record_of(store, "run")
    assert (record.inputs, record.channels["4"].values) == ({"3": "input1"}, {"2": {"2": "input12"}})
    assert go(runner, "stream", app, checkpoint_id="run") == {"2": "input12", "3": "input13"}
    assert (fast.calls["2"], slow.calls["3"]) == (1, 2)


@each_way
@forms
def test_chunks_of_the_caller(runner: Runner, kind: str, mode: dict[str, Any], form: str) -> None:
    """B114: given up at once, a node whose input came in three chunks gets them as one on resume, of an empty stream."""
    gate = Gate("_processed")
    app = chain("1", **{"1": node_of(gate, kind, form)}).compile(store=MapStore(), **mode)
    token = CancelToken()
    call = Background(lambda: runner.transform(app, ["chunk1", "chunk2", "chunk3"], checkpoint_id="run", cancel=token))
    assert gate.entered.wait(LIMIT)
    token.cancel(AT_ONCE)
    assert isinstance(call.error(), Interrupted)
    gate.let_go()

    assert "".join(runner.transform(app, [], checkpoint_id="run")) == "chunk1chunk2chunk3_processed"
    assert gate.calls.inputs["_processed"] == ["chunk1chunk2chunk3"] * 2


@ways
@forms
def test_the_input_is_that_before_the_handler(
    runner: Runner, kind: str, mode: dict[str, Any], shape: str, form: str
) -> None:
    """B115: what is stored is the input before the pre-handler, so that the re-run has one prefix."""
    gate, store = Gate("_processed"), MapStore()
    graph = Graph(str, str, state=Note)
    graph.add_node("1", node_of(gate, kind, form), pre=lambda text, state: f"prefix_{text}")
    app = wire(graph, "start 1 end").compile(store=store, **mode)
    cancelled_in(Running(runner, shape, app, "test_input", checkpoint_id="run"), [gate], AT_ONCE)

    assert record_of(store, "run").inputs == {"1": "test_input"}
    assert go(runner, shape, app, checkpoint_id="run") == "prefix_test_input_processed"


@ways
@forms
def test_nested_progress_is_kept(runner: Runner, kind: str, mode: dict[str, Any], shape: str, form: str) -> None:
    """B116, K06: given up at once inside a nested graph, only the node that was running there is called again."""
    gate = Gate("_sub_processed")
    done = appending("", gate.calls)
    inner = chain("done", "sub1", done=done, sub1=node_of(gate, kind, form))
    app = chain("1", "sub", **{"1": appending("_main", gate.calls), "sub": inner}).compile(store=MapStore(), **mode)
    stop = cancelled_in(Running(runner, shape, app, "test", checkpoint_id="run"), [gate], AT_ONCE)

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.subgraphs["sub"].rerun_nodes) == ([], ["sub1"])
    assert places(stop) == ["runnable:root"]
    assert go(runner, shape, app, "test", checkpoint_id="run") == "test_main_sub_processed"
    assert dict(gate.calls.count) == {"_main": 1, "": 1, "_sub_processed": 2}


@ways
def test_no_limit_means_no_limit_inside(runner: Runner, kind: str, mode: dict[str, Any], shape: str) -> None:
    """B117, K05: without a time-out a node of a nested graph is let end, once; the stop is inside, after it."""
    gate = Gate("s1")
    inner = chain("s1", "s2", calls=gate.calls, s1=gate.node(kind))
    app = chain("sub", "after", calls=gate.calls, sub=inner).compile(store=MapStore(), **mode)
    stop = cancelled_in(Running(runner, shape, app, "in", checkpoint_id="run"), [gate], None)

    assert stop.info is not None
    assert stop.info.subgraphs["sub"].after_nodes == ["s1"]
    assert (stop.info.after_nodes, stop.info.rerun_nodes) == ([], [])
    assert go(runner, shape, app, "in", checkpoint_id="run") == "ins1s2after"
    assert gate.calls.order == ["s1", "s2", "after"]


@ways
@forms
def test_the_last_node_before_end(runner: Runner, kind: str, mode: dict[str, Any], shape: str, form: str) -> None:
    """B118: a run whose last node finishes during the grace returns its result, and leaves nothing to resume."""
    gate, store = Gate("1"), MapStore()
    app = chain("1", **{"1": node_of(gate, kind, form)}).compile(store=store, **mode)
    running = Running(runner, shape, app, "a", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    running.token.cancel()
    gate.let_go()

    assert running.result() == "a1"
    assert store.get("run") is None


@ways
@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_what_is_asked(runner: Runner, kind: str, mode: dict[str, Any], shape: str, grace: timedelta | None) -> None:
    """B119: a cancelled run has one point: the graph's own address, root cause, with a copy of the state for its info."""
    gate = Gate("1")
    made: list[Note] = []

    def fresh() -> Note:
        made.append(Note("state"))
        return made[-1]

    app = chain("1", "2", state=fresh, **{"1": gate.node(kind)}).compile(store=MapStore(), **mode)
    stop = cancelled_in(Running(runner, shape, app, "a", checkpoint_id="run"), [gate], grace)

    assert [(str(p.address), p.info, p.is_root_cause, p.parent) for p in stop.interrupts] == [
        ("runnable:root", Note("state"), True, None)
    ]
    assert stop.interrupts[0].info is not made[-1]
    where = "after ['1']" if grace is None else "in ['1']"
    assert str(stop) == f"cancelled: stopped {where}, at runnable:root; checkpoint 'run'"
    assert [point.id for point in runner.pending(app, "run")] == [stop.interrupts[0].id]


@ways
@forms
def test_a_node_that_asks_during_the_grace(
    runner: Runner, kind: str, mode: dict[str, Any], shape: str, form: str
) -> None:
    """B120: a node that interrupts itself during an unlimited grace is a rerun node only; its question is what waits."""
    gate = Gate()

    def plain(text: str) -> str:
        gate(text)
        return text + str(interrupt("go on?"))

    async def awaiting(text: str) -> str:
        await gate.awaiting(text)
        return text + str(interrupt("go on?"))

    def plain_late(text: str) -> Iterator[str]:
        yield plain(text)

    async def awaiting_late(text: str) -> AsyncIterator[str]:
        yield await awaiting(text)

    node: Any = {"function": (plain, awaiting), "stream": (plain_late, awaiting_late)}[form][kind == "async"]
    app = chain("1", "2", **{"1": node}).compile(store=MapStore(), **mode)
    stop = cancelled_in(Running(runner, shape, app, "a", checkpoint_id="run"), [gate], None)

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.after_nodes) == (["1"], [])
    assert (asked(stop), places(stop)) == (["go on?"], ["runnable:root;node:1"])
    answers = {ids(stop)["go on?"]: "!"}
    assert go(runner, shape, app, checkpoint_id="run", answers=answers) == "a!2"


@ways
def test_interrupt_after_and_cancel(runner: Runner, kind: str, mode: dict[str, Any], shape: str) -> None:
    """B120, K25: a node that finishes under the cancel and that the run stops after is listed once."""
    gate = Gate("1")
    app = chain("1", "2", **{"1": gate.node(kind)}).compile(store=MapStore(), interrupt_after=["1"], **mode)
    running = Running(runner, shape, app, "input", checkpoint_id="run")
    stop = cancelled_in(running, [gate], None)

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.rerun_nodes, stop.info.before_nodes) == (["1"], [], [])
    running.token.cancel(AT_ONCE)
    assert go(runner, shape, app, checkpoint_id="run") == "input12"


@shapes
def test_a_token_is_for_one_run(runner: Runner, shape: str) -> None:
    """B120, K26: a token that a stream run has had is refused for another, before anything runs."""
    calls = Calls()
    app = chain("1", calls=calls).compile()
    token = CancelToken()
    assert go(runner, shape, app, "a", cancel=token) == "a1"

    with pytest.raises(OptionError, match="belongs to another run already"):
        go(runner, shape, app, "a", cancel=token)
    assert calls["1"] == 1


@shapes
@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_cancelled_before_it_starts(runner: Runner, mode: dict[str, Any], shape: str, grace: timedelta | None) -> None:
    """A token that was cancelled before stops a stream run before its first node, with the caller's chunks stored."""
    calls, store = Calls(), MapStore()
    app = chain("1", **{"1": flowing("1", calls)}).compile(store=store, **mode)
    token = CancelToken()
    token.cancel(grace)
    with pytest.raises(Interrupted):
        go(runner, shape, app, "a", checkpoint_id="run", cancel=token)

    assert calls.order == []
    assert go(runner, shape, app, "ignored", checkpoint_id="run") == "a1"


@each_way
@forms
def test_what_is_left_behind_changes_nothing(runner: Runner, kind: str, mode: dict[str, Any], form: str) -> None:
    """K12: a node that is given up inside a `use_state` block leaves the state as it was before the block."""
    gate, store = Gate("1"), MapStore()

    def plain(text: str) -> str:
        with use_state(Note) as note:
            note.text += "x"
            gate(text)
            note.text += "y"
        return text + "1"

    async def awaiting(text: str) -> str:
        async with use_state(Note) as note:
            note.text += "x"
            await gate.awaiting(text)
            note.text += "y"
        return text + "1"

    def plain_late(text: str) -> Iterator[str]:
        yield plain(text)

    async def awaiting_late(text: str) -> AsyncIterator[str]:
        yield await awaiting(text)

    node: Any = {"function": (plain, awaiting), "stream": (plain_late, awaiting_late)}[form][kind == "async"]
    app = chain("1", "2", state=Note, **{"1": node}).compile(store=store, **mode)
    cancelled_in(Running(runner, "stream", app, "a", checkpoint_id="run"), [gate], AT_ONCE)

    assert record_of(store, "run").state == Note("")
    seen: list[str] = []
    again = go(runner, "stream", app, checkpoint_id="run", state_modifier=lambda path, state: seen.append(state.text))
    assert again == "a12"
    assert seen == [""]


@each_way
def test_a_loop_that_is_cancelled_in_each_round(runner: Runner, kind: str) -> None:
    """A loop of a streaming node is cancelled in each of its rounds: no round is lost, none is done twice."""
    tokens = [CancelToken()]
    seen: list[str] = []

    def plain(text: str) -> Iterator[str]:
        seen.append(text)
        tokens[-1].cancel()
        yield text + "x"

    async def awaiting(text: str) -> AsyncIterator[str]:
        for chunk in plain(text):
            yield chunk

    graph = Graph(str, str)
    graph.add_node("grow", awaiting if kind == "async" else plain)
    graph.add_edge(START, "grow")
    graph.add_branch("grow", lambda text: END if len(text) >= 3 else "grow", ["grow", END])
    app = graph.compile(store=MapStore())
    for _ in range(2):
        with pytest.raises(Interrupted):
            go(runner, "stream", app, "", checkpoint_id="run", cancel=tokens[-1])
        tokens.append(CancelToken())

    assert go(runner, "collect", app, checkpoint_id="run", cancel=tokens[-1]) == "xxx"
    assert seen == ["", "x", "xx"]
