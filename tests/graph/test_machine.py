"""The machine alone, driven by hand: what it starts, when it is over, and going on from a checkpoint of any moment."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from by_hand import ByHand
from graphs import appending, chain, echo
from hypothesis import given
from hypothesis import strategies as st
from wiring import wire

import blobcp.graph.run
from blobcp import END, START, App, Graph, NodeError, NothingToRunError
from blobcp.graph.run import Failed, Finished, Paused
from blobcp.points import Signal

MODES: list[dict[str, Any]] = [{}, {"mode": "dag"}, {"mode": "dag", "eager": False}]


def diamond(**options: Any) -> App:
    """Return a to b and c, b to b2, all of which meet in d."""
    graph = Graph(str, Any)
    graph.add_node("a", appending("a"))
    for key in ("b", "b2", "c"):
        graph.add_node(key, appending(key), output_key=None if key == "b" else key)
    graph.add_node("d", echo)
    return wire(graph, "start a b b2 d end", "a c d").compile(**options)


def keys(run: ByHand) -> list[str]:
    """Return the keys of the tasks under way."""
    return [task.node.key for task in run.under_way]


def end(run: ByHand, key: str) -> list[str]:
    """End a task and return what is under way then."""
    run.end(next(task for task in run.under_way if task.node.key == key))
    run.take()
    return keys(run)


def test_pregel_goes_in_steps() -> None:
    """A pregel machine starts the next nodes when all of the step have ended, and ends when END was reached."""
    run = ByHand(diamond()).begin("x")
    run.take()
    assert keys(run) == ["a"]
    assert end(run, "a") == ["b", "c"]
    assert end(run, "c") == ["b"]
    assert end(run, "b") == ["b2", "d"]
    assert end(run, "d") == ["b2"]
    assert run.machine.outcome is None
    assert end(run, "b2") == []
    assert run.machine.outcome == Finished({"c": "xac"})


def test_eager_dag_starts_what_is_ready() -> None:
    """A dag machine starts a node the moment nothing is owed to it."""
    run = ByHand(diamond(mode="dag")).begin("x")
    run.take()
    assert end(run, "a") == ["b", "c"]
    assert end(run, "b") == ["c", "b2"]
    assert end(run, "b2") == ["c"]
    assert end(run, "c") == ["d"]
    assert end(run, "d") == []
    assert run.machine.outcome == Finished({"b2": "xabb2", "c": "xac"})


def test_dag_in_steps_waits_for_the_step() -> None:
    """A dag machine without eager holds back what is ready until the step is over."""
    run = ByHand(diamond(mode="dag", eager=False)).begin("x")
    run.take()
    assert end(run, "a") == ["b", "c"]
    assert end(run, "b") == ["c"]
    assert end(run, "c") == ["b2"]
    assert end(run, "b2") == ["d"]
    end(run, "d")
    assert run.machine.outcome == Finished({"b2": "xabb2", "c": "xac"})


def test_a_task_is_given_out_once() -> None:
    """Each task is handed out by exactly one take."""
    run = ByHand(diamond()).begin("x")

    assert [task.node.key for task in run.machine.take()] == ["a"]
    assert run.machine.take() == []


def test_a_failure_waits_for_what_is_under_way() -> None:
    """After a failure nothing more starts; the outcome comes when the last task under way has ended."""
    run = ByHand(diamond()).begin("x")
    run.take()
    end(run, "a")
    b, c = run.under_way
    error = NodeError("node b failed", path=["b"])

    run.machine.failed(b, error)
    assert run.machine.outcome is None
    run.machine.finished(c, "late", ())

    assert run.machine.outcome == Failed([error])
    assert run.machine.take() == []


def test_failures_in_declaration_order() -> None:
    """Of several failures the first in declaration order comes first, whichever came first in time."""
    run = ByHand(diamond()).begin("x")
    run.take()
    end(run, "a")
    b, c = run.under_way
    late, early = NodeError("b", path=["b"]), NodeError("c", path=["c"])

    run.machine.failed(c, early)
    run.machine.failed(b, late)

    assert run.machine.outcome == Failed([late, early])


def test_a_stop_waits_for_what_is_under_way() -> None:
    """A task that stops lets the others of its step end, then the run pauses; its checkpoint holds what both left."""
    run = ByHand(diamond()).begin("x")
    run.take()
    end(run, "a")
    b, c = run.under_way
    signal = Signal(id="q", address=run.machine.root.frame.address.child("node", "b"), info="?")

    run.machine.interrupted(b, [signal])
    assert run.machine.outcome is None
    run.machine.finished(c, {"c": "xac"}, ())

    outcome = run.machine.outcome
    assert isinstance(outcome, Paused)
    assert outcome.signal.children == [signal]
    stored = run.machine.checkpoint()
    assert stored.rerun_nodes == ["b"]
    assert stored.inputs == {"b": "xa"}
    assert stored.channels["d"].values == {"c": {"c": "xac"}}


def test_nothing_left_to_run() -> None:
    """A graph in which nothing is left fails with that, naming what completed last."""
    graph = Graph(str, str)
    graph.add_node("1", echo)
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda _: [], [END])
    run = ByHand(graph.compile()).begin("x")
    run.take()

    end(run, "1")

    outcome = run.machine.outcome
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.errors[0], NothingToRunError)
    assert outcome.errors[0].last_completed == ["1"]


def test_a_checkpoint_changes_nothing() -> None:
    """Taking a checkpoint at every moment leaves the run as it would be."""
    run = ByHand(looping()).begin("")
    for _ in run.steps(lambda tasks: -1):
        first, second = run.machine.checkpoint(), run.machine.checkpoint()
        assert first == second

    assert run.machine.outcome == Finished(ByHand(looping()).begin("").result())


def nested(**options: Any) -> App:
    """Return a graph with two nested graphs side by side, one of them with a graph inside, and states."""
    inner = Graph(str, Any, state=list)
    inner.add_node("x", appending("x"))
    inner.add_node("deep", chain("p", "q", state=list))
    inner.add_node("y", appending("y"))
    wire(inner, "start x deep y end")
    graph = Graph(str, Any, state=dict)
    graph.add_node("a", appending("a"))
    graph.add_node("one", inner, output_key="one")
    graph.add_node("two", chain("u", "v"), output_key="two")
    graph.add_node("side", appending("s"), output_key="side")
    graph.add_node("join", echo)
    return wire(graph, "start a one join end", "a two join", "a side join").compile(**options)


def branching(**options: Any) -> App:
    """Return a graph with branches, ends not chosen, data-only and control-only edges."""
    graph = Graph(str, Any)
    for key in ("a", "b", "c", "d", "e"):
        graph.add_node(key, appending(key), output_key=None if key in "ac" else key)
    graph.add_node("join", echo)
    graph.add_edge(START, "a")
    graph.add_branch("a", lambda _: ["b", "d"], ["b", "c", "d"])
    graph.add_edge("c", "e")
    graph.add_edge("b", "join", data=False)
    graph.add_edge("d", "join", control=False)
    wire(graph, "e join end")
    return graph.compile(**options)


def looping(**options: Any) -> App:
    """Return a loop of three nodes, two of them side by side."""
    graph = Graph(str, Any)
    graph.add_node("a", appending("a"))
    graph.add_node("b", appending("b"), output_key="b")
    graph.add_node("c", appending("c"), output_key="c")
    graph.add_node("d", lambda both: both["b"] + both["c"])
    wire(graph, "start a b d", "a c d")
    graph.add_branch("d", lambda text: END if len(text) > 20 else "a", ["a", END])
    return graph.compile(**options)


GRAPHS = [
    *((make, mode) for make in (diamond, nested, branching) for mode in MODES),
    (looping, {}),
]


@pytest.mark.parametrize(("make", "mode"), GRAPHS, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.parametrize("pick", [0, -1], ids=["first", "last"])
def test_going_on_from_any_moment(make: Any, mode: dict[str, Any], pick: int) -> None:
    """A checkpoint of the moment after any finished task goes on to the same result; only what was under way is repeated."""
    app = make(**mode)
    whole = ByHand(app).begin("")
    expected = whole.result(lambda _: pick)
    moments = sum(1 for _ in ByHand(app).begin("").steps(lambda _: pick))

    for moment in range(moments - 1):
        run = ByHand(app).begin("")
        steps = run.steps(lambda _: pick)
        for _ in range(moment + 1):
            next(steps)
        repeated = Counter("/".join(task.path) for task in run.under_way)
        again = ByHand(app, Counter(run.entered)).restore(run.machine.checkpoint())

        assert again.result(lambda _: pick) == expected, f"cut after {moment} tasks"
        assert again.entered == whole.entered + repeated, f"cut after {moment} tasks"


@pytest.mark.parametrize(("make", "mode"), GRAPHS, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.parametrize("pick", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("at_once", [False, True], ids=["cancel", "abandon"])
def test_cancelled_at_any_moment(make: Any, mode: dict[str, Any], pick: int, at_once: bool) -> None:
    """B111, B112: cancelled after any finished task, a run goes on to the same result; only what was given up is repeated."""
    app = make(**mode)
    whole = ByHand(app).begin("")
    expected = whole.result(lambda _: pick)
    moments = sum(1 for _ in ByHand(app).begin("").steps(lambda _: pick))

    for moment in range(moments - 1):
        run = ByHand(app).begin("")
        steps = run.steps(lambda _: pick)
        for _ in range(moment + 1):
            next(steps)
        given_up: Counter[str] = Counter()
        if at_once:
            given_up.update("/".join(task.path) for task in run.under_way)
            run.machine.abandon()
        else:
            run.machine.cancel()
            for _ in steps:
                pass
        if isinstance(run.machine.outcome, Finished):
            assert run.machine.outcome.value == expected
            continue
        assert isinstance(run.machine.outcome, Paused)
        assert run.machine.outcome.signal.is_root_cause
        assert run.machine.take() == []
        again = ByHand(app, Counter(run.entered)).restore(run.machine.checkpoint())

        assert again.result(lambda _: pick) == expected, f"cancelled after {moment} tasks"
        assert again.entered == whole.entered + given_up, f"cancelled after {moment} tasks"


@pytest.mark.parametrize(("make", "mode"), GRAPHS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_cancelled_before_anything_was_taken(make: Any, mode: dict[str, Any]) -> None:
    """A run that is cancelled before its tasks are taken, or started, hands none of them out, and goes on with them later."""
    app = make(**mode)
    for take in (False, True):
        run = ByHand(app).begin("")
        if take:
            run.machine.take()
        run.machine.cancel()
        assert isinstance(run.machine.outcome, Paused)
        assert run.machine.take() == []
        assert run.machine.checkpoint().rerun_nodes == []

        assert ByHand(app).restore(run.machine.checkpoint()).result() == ByHand(app).begin("").result()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_cancelled_between_two_steps(mode: dict[str, Any]) -> None:
    """B111: cancelled when the next tasks are known and not started, a run stops after the nodes that ended before them."""
    run = ByHand(diamond(**mode)).begin("x")
    run.take()
    run.end(run.under_way[0])

    run.machine.cancel()

    stored = run.machine.checkpoint()
    assert (stored.after_nodes, stored.rerun_nodes, list(stored.inputs)) == (["a"], [], ["b", "c"])


@st.composite
def dags(draw: st.DrawFn) -> tuple[Graph, list[int]]:
    """Draw a dag with branches and edges of all kinds, and an order in which tasks end."""
    size = draw(st.integers(1, 6))
    names = [f"n{index}" for index in range(size)]
    graph = Graph(Any, Any)
    for name in names:
        graph.add_node(name, lambda value, name=name: f"{name}({sorted(value) if value else value})", output_key=name)
    for index, name in enumerate(names):
        sources = [START, *names[:index]]
        first = draw(st.sampled_from(sources))
        graph.add_edge(first, name)
        for source in draw(st.lists(st.sampled_from(sources), unique=True, max_size=2)):
            if source != first:
                kind = draw(st.sampled_from(["both", "control", "data"]))
                graph.add_edge(source, name, control=kind != "data", data=kind != "control")
    for index, name in enumerate(names[:-1]):
        ends = draw(st.lists(st.sampled_from(names[index + 1 :]), unique=True, max_size=2))
        chosen = draw(st.lists(st.sampled_from(ends), unique=True)) if ends else []
        if ends:
            graph.add_branch(name, lambda _, chosen=chosen: chosen, ends)
    for name in names:
        graph.add_edge(name, END)
    return graph, draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))


@given(dags(), st.booleans(), st.integers(0, 5))
def test_any_dag_in_any_order_cut_anywhere(drawn: tuple[Graph, list[int]], eager: bool, moment: int) -> None:
    """Whatever the dag, whatever the order in which tasks end, wherever it is cut: the result is the same, each node once."""
    graph, order = drawn
    app = graph.compile(mode="dag", eager=eager)
    start = {"in": 0}
    whole = ByHand(app).begin(start)
    expected = whole.result()
    assert set(whole.entered.values()) == {1}

    turn = iter(order * 50)
    run = ByHand(app).begin(start)
    steps = run.steps(lambda tasks: next(turn) % len(tasks))
    for _ in range(moment + 1):
        next(steps, None)
    if run.machine.outcome is not None:
        assert run.machine.outcome == Finished(expected)
        return
    repeated = Counter("/".join(task.path) for task in run.under_way)
    again = ByHand(app, Counter(run.entered)).restore(run.machine.checkpoint())

    assert again.result(lambda tasks: next(turn) % len(tasks)) == expected
    assert again.entered == whole.entered + repeated


def test_the_machine_is_pure() -> None:
    """The modules that decide import nothing that does I/O, runs threads, reads a clock or makes random values."""
    folder = Path(blobcp.graph.run.__file__).parent
    forbidden = {
        "asyncio",
        "threading",
        "time",
        "datetime",
        "random",
        "uuid",
        "os",
        "io",
        "pathlib",
        "queue",
        "logging",
    }
    for name in ("run.py", "instance.py", "channel.py", "plan.py"):
        tree = ast.parse((folder / name).read_text(encoding="utf-8"))
        imported = {
            module.split(".")[0]
            for node in ast.walk(tree)
            for module in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & forbidden, f"{name} imports {imported & forbidden}"
