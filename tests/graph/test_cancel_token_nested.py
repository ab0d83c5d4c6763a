"""B116, B117, K05, K06: a cancel reaches nested graphs, whose progress is kept; apps in nodes are part of their nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE, LIMIT, Gate, Run, cancelled_in, each_way
from drivers import AsyncRunner, Runner
from graphs import Calls, appending, chain, echo
from pausing import Note, asked, calling, ids, places, solo, stopped
from wiring import wire

from blobcp import App, CancelToken, Graph, interrupt
from blobcp.stores import MapStore


def around(inner: Graph | App, calls: Calls, mode: dict[str, Any]) -> App:
    """Return the outer graph: sub, then after."""
    graph = Graph(str, str)
    graph.add_node("sub", inner)
    graph.add_node("after", appending("after", calls))
    return wire(graph, "start sub after end").compile(store=MapStore(), **mode)


@each_way
def test_no_limit_means_no_limit_inside(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B117: without a time-out a node of a nested graph is let end, once; the stop is inside, after it."""
    gate = Gate("s1")
    inner = chain("s1", "s2", calls=gate.calls, s1=gate.node(kind))
    app = around(inner, gate.calls, mode)

    stop = cancelled_in(runner, app, gate, "in", None, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.subgraphs["sub"].after_nodes == ["s1"]
    assert (stop.info.after_nodes, stop.info.rerun_nodes) == ([], [])
    assert places(stop) == ["runnable:root"]
    assert runner.invoke(app, "in", checkpoint_id="run") == "ins1s2after"
    assert gate.calls.order == ["s1", "s2", "after"]


@each_way
def test_nested_progress_is_kept(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B116: given up at once inside a nested graph, only the node that was running there is called again."""
    gate = Gate("_sub_processed")
    inner = chain("done", "sub1", calls=gate.calls, done=appending("", gate.calls), sub1=gate.node(kind))
    graph = Graph(str, str)
    graph.add_node("1", appending("_main", gate.calls))
    graph.add_node("sub", inner)
    app = wire(graph, "start 1 sub end").compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "test", AT_ONCE, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == []
    assert stop.info.subgraphs["sub"].rerun_nodes == ["sub1"]
    assert places(stop) == ["runnable:root"]
    assert runner.invoke(app, "test", checkpoint_id="run") == "test_main_sub_processed"
    assert dict(gate.calls.count) == {"_main": 1, "": 1, "_sub_processed": 2}


@each_way
@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_three_levels_side_by_side(runner: Runner, kind: str, mode: dict[str, Any], grace: timedelta | None) -> None:
    """K05, K06: two nested graphs, one three levels deep, and a plain node stop in one cut, and go on from there."""
    gates = {key: Gate(key) for key in ("x", "y", "z")}
    calls = Calls()
    deep = chain("d1", "x", "d2", calls=calls, state=Note, x=gates["x"].node(kind))
    middle = Graph(str, str, state=Note)
    middle.add_node("m1", appending("m1", calls))
    middle.add_node("deep", deep)
    graph = Graph(str, dict, state=Note)
    graph.add_node("A", wire(middle, "start m1 deep end"), output_key="A")
    graph.add_node("B", chain("y", "b2", calls=calls, y=gates["y"].node(kind)), output_key="B")
    graph.add_node("z", gates["z"].node(kind), output_key="z")
    graph.add_node("join", echo)
    app = wire(graph, "start A join end", "start B join", "start z join").compile(store=MapStore(), **mode)
    run = Run(runner, app, "in", checkpoint_id="run")
    for gate in gates.values():
        assert gate.entered.wait(LIMIT)

    run.token.cancel(grace)
    if grace is None:
        for gate in gates.values():
            gate.let_go()
    stop = run.stopped()
    for gate in gates.values():
        gate.let_go()

    assert stop.info is not None
    kept = "after_nodes" if grace is None else "rerun_nodes"
    assert getattr(stop.info, kept) == ["z"]
    assert getattr(stop.info.subgraphs["B"], kept) == ["y"]
    assert getattr(stop.info.subgraphs["A"].subgraphs["deep"], kept) == ["x"]
    assert [(str(point.address), point.is_root_cause) for point in stop.interrupts] == [("runnable:root", True)]
    assert runner.resume(app, "run") == {"A": "inm1d1xd2", "B": "inyb2", "z": "inz"}
    assert calls.count == {"m1": 1, "d1": 1, "d2": 1, "b2": 1}
    assert [gate.calls[key] for key, gate in gates.items()] == [1 if grace is None else 2] * 3


@each_way
def test_the_last_node_of_a_nested_graph(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A nested graph whose last node finishes during the grace is finished, its post-handler run; the run stops after it."""
    gate = Gate("s1")
    posted: list[str] = []

    def post(text: str, state: Note) -> str:
        posted.append(text)
        return text

    graph = Graph(str, str, state=Note)
    graph.add_node("sub", chain("s1", s1=gate.node(kind)), post=post)
    graph.add_node("after", appending("after", gate.calls))
    app = wire(graph, "start sub after end").compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "in", None, checkpoint_id="run")

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.subgraphs) == (["sub"], {})
    assert posted == ["ins1"]
    assert runner.resume(app, "run") == "ins1after"
    assert posted == ["ins1"]


@each_way
def test_a_question_beside_a_nested_graph(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """P2: where a node has asked and a nested graph is given up, an answer also lets the nested graph go on."""
    gate, asking = Gate("s2"), Gate()

    def asks(text: str) -> str:
        asking.entered.set()
        return text + str(interrupt("go on?"))

    graph = Graph(str, dict)
    graph.add_node("sub", chain("s1", "s2", calls=gate.calls, s2=gate.node(kind)), output_key="sub")
    graph.add_node("ask", asks, output_key="ask")
    app = wire(graph, "start sub end", "start ask end").compile(store=MapStore(), **mode)
    run = Run(runner, app, "in", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    assert asking.entered.wait(LIMIT)
    run.token.cancel(AT_ONCE)
    stop = run.stopped()
    gate.let_go()
    if asked(stop) != ["go on?"]:  # the cancel came before the question was told
        stop = stopped(runner, app, checkpoint_id="run")
        assert asked(stop) == ["go on?"]

    assert runner.resume(app, "run", {ids(stop)["go on?"]: "!"}) == {"sub": "ins1s2", "ask": "in!"}
    assert gate.calls["s1"] == 1


@each_way
def test_a_nested_graph_that_stops_by_itself(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """A nested graph that stops after a node by `interrupt_after` still has its own point when the run is cancelled."""
    gate = Gate("s1")
    inner = chain("s1", "s2", calls=gate.calls, state=Note, s1=gate.node(kind))
    app = around(inner.compile(interrupt_after=["s1"], **mode), gate.calls, mode)

    stop = cancelled_in(runner, app, gate, "in", None, checkpoint_id="run")

    assert places(stop) == ["runnable:root;node:sub"]
    assert stop.info is not None
    assert stop.info.subgraphs["sub"].after_nodes == ["s1"]
    assert runner.resume(app, "run") == "ins1s2after"
    assert gate.calls.order == ["s1", "s2", "after"]


@each_way
def test_an_app_in_a_node_is_part_of_the_node(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """Without a time-out, an app that a node calls runs to its end: it does not see the token of the run round it."""
    gate = Gate("s1")
    inner = chain("s1", "s2", calls=gate.calls, s1=gate.node(kind)).compile(name="inner", **mode)
    app = chain("call", "after", calls=gate.calls, call=calling(runner, inner)).compile(store=MapStore(), **mode)

    stop = cancelled_in(runner, app, gate, "in", None, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.after_nodes == ["call"]
    assert runner.resume(app, "run") == "ins1s2after"
    assert gate.calls.order == ["s1", "s2", "after"]


@each_way
def test_an_app_with_a_token_of_its_own(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """An app that a node calls with a token and a checkpoint of its own stops there, and both runs go on together."""
    store = MapStore()
    gate = Gate("s1")
    tokens: list[CancelToken] = []

    def token() -> CancelToken:
        tokens.append(CancelToken())
        return tokens[-1]

    inner = chain("s1", "s2", calls=gate.calls, s1=gate.node(kind)).compile(store=store, name="inner", **mode)

    def plain(text: str) -> str:
        return str(inner.invoke(text, checkpoint_id="inner", cancel=token()))

    async def awaiting(text: str) -> str:
        return str(await inner.ainvoke(text, checkpoint_id="inner", cancel=token()))

    app = chain("call", "after", calls=gate.calls, call=awaiting if kind == "async" else plain).compile(
        store=store, **mode
    )
    run = Run(runner, app, "in", checkpoint_id="run")
    assert gate.entered.wait(LIMIT)
    tokens[0].cancel()
    run.token.cancel()
    gate.let_go()
    stop = run.stopped()

    assert places(stop) == ["runnable:root;node:call;runnable:inner"]
    assert stop.info is not None
    assert stop.info.rerun_nodes == ["call"]
    assert runner.resume(app, "run") == "ins1s2after"
    assert gate.calls.order == ["s1", "s2", "after"]


def test_an_async_app_is_cancelled_with_its_node() -> None:
    """Given up at once, an async node is cancelled and awaited, and so is the app that it awaits."""
    runner = AsyncRunner()
    gate = Gate("s1")
    inner = chain("s1", "s2", calls=gate.calls, s1=gate.awaiting).compile(name="inner")
    app = chain("call", "after", calls=gate.calls, call=calling(runner, inner)).compile(store=MapStore())

    stop = cancelled_in(runner, app, gate, "in", AT_ONCE, checkpoint_id="run")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["call"]
    assert gate.cancelled == 1
    assert runner.resume(app, "run") == "ins1s2after"


@pytest.mark.parametrize("grace", [None, AT_ONCE], ids=["unlimited", "zero"])
def test_cancelled_while_a_nested_graph_begins(runner: Runner, mode: dict[str, Any], grace: timedelta | None) -> None:
    """A cancel that comes while a nested graph's state is made stops before the first node there."""
    calls = Calls()
    token = CancelToken()

    def fresh() -> Note:
        token.cancel(grace)
        return Note()

    app = around(chain("s1", calls=calls, state=fresh), calls, mode)

    stop = stopped(runner, app, "in", checkpoint_id="run", cancel=token)

    assert calls.order == []
    assert places(stop) == ["runnable:root"]
    assert runner.resume(app, "run") == "ins1after"


def test_a_solo_node_may_be_cancelled_again_and_again(runner: Runner, mode: dict[str, Any]) -> None:
    """A run that is given up in the same node many times keeps the input, and the point stays one."""
    gate = Gate("n")
    app = solo(gate, state=Note).compile(store=MapStore(), **mode)
    cancelled_in(runner, app, gate, "a", AT_ONCE, checkpoint_id="run")
    for _ in range(5):
        gate.entered.clear()
        gate.go.clear()
        run = Run(runner, app, resume="run")
        assert gate.entered.wait(LIMIT)
        run.token.cancel(AT_ONCE)
        assert len(run.stopped().interrupts) == 1
        gate.let_go()
    gate.let_go()

    assert runner.resume(app, "run") == "an"
    assert set(gate.calls.inputs["n"]) == {"a"}
