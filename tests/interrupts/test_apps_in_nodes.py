"""Apps that a node calls and that stop: passed on as a composite or as they are, with and without a store of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain
from pausing import Note, asked, calling, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    START,
    Graph,
    Interrupted,
    OptionError,
    composite_interrupt,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    use_state,
)
from blobcp.stores import MapStore


@dataclass
class Inner:
    """The state of an inner graph."""

    text: str = "inner"


@dataclass
class Outer:
    """The state of an outer graph."""

    text: str = "outer"
    counter: int = 100


def stateful(calls: Calls, info: Any = "inner interrupt") -> Any:
    """Return a node that stops with a state, and after an answer returns its input, the state and the data."""

    def node(text: str) -> str:
        calls.note("inner_lambda", text)
        was_interrupted, has_state, state = get_interrupt_state(Note)
        is_target, has_data, data = get_resume_data(str)
        if not was_interrupted:
            interrupt(info, Note(f"kept {text}"))
        assert (has_state, is_target, has_data) == (True, True, True)
        return f"{text}/{state.text}/{data}"

    return node


@pytest.mark.parametrize("saved", [True, False], ids=["own store", "no store"])
def test_passed_on_as_a_composite(runner: Runner, mode: dict[str, Any], saved: bool) -> None:
    """B083, B086, K14: the stop's place and parents are told, and its state and the data reach the inner node."""
    calls = Calls()
    inner = solo(stateful(calls), key="inner_lambda").compile(name="inner", store=MapStore() if saved else None, **mode)
    catch = lambda stop: composite_interrupt("composite interrupt from lambda", None, [stop])  # noqa: E731
    node = calling(runner, inner, catch, **({"checkpoint_id": "in"} if saved else {}))
    app = solo(node, key="composite_lambda").compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:composite_lambda;runnable:inner;node:inner_lambda"]
    chain_up = []
    point = stop.interrupts[0].parent
    while point is not None:
        chain_up.append((str(point.address), point.info, point.is_root_cause))
        point = point.parent
    assert chain_up == [
        ("runnable:root;node:composite_lambda;runnable:inner", None, False),
        ("runnable:root;node:composite_lambda", "composite interrupt from lambda", False),
        ("runnable:root", None, False),
    ]
    assert ids(runner.pending(app, "1")) == ids(stop)
    assert runner.resume(app, "1", {stop.interrupts[0].id: "go"}) == "x/kept x/go"
    assert calls.inputs["inner_lambda"] == ["x", "x"]


def test_two_graphs_deep_without_a_store(runner: Runner, mode: dict[str, Any]) -> None:
    """B084: the inner app starts over, and the node two graphs down knows that it was interrupted and is meant."""
    calls = Calls()
    targets: list[bool] = []
    deepest = chain("first", "ask", calls=calls, ask=stateful(calls, "sub-sub graph interrupt info"))
    middle = Graph(str, str)
    middle.add_node("before", appending("-b", calls))
    middle.add_node("sub", deepest)
    middle.add_edge(START, "before")
    middle.add_edge("before", "sub")
    middle.add_edge("sub", END)

    def note_target(value: str, state: Note) -> str:
        targets.append(get_resume_data().is_target)
        return value

    wrap = lambda stop: composite_interrupt("wrapper tool interrupt", None, [stop])  # noqa: E731
    node = calling(runner, middle.compile(name="middle", **mode), wrap)
    app = solo(node, key="tool", state=Note, pre=note_target).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert asked(stop) == ["sub-sub graph interrupt info"]
    assert places(stop) == ["runnable:root;node:tool;runnable:middle;node:sub;node:ask"]
    assert runner.resume(app, "1", answer="go") == "x-bfirst/kept x-bfirst/go"
    assert targets == [False, True]
    assert dict(calls.count) == {"-b": 2, "first": 2, "inner_lambda": 2}


def test_escaping_as_it_is(runner: Runner, mode: dict[str, Any]) -> None:
    """B085, K13: a stop that a node lets escape counts as a composite without info; it is stored and can be resumed."""
    calls = Calls()
    inner = solo(stateful(calls)).compile(name="inner", **mode)
    store = MapStore()
    app = solo(calling(runner, inner), key="host").compile(store=store, **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    above = stop.interrupts[0].parent
    assert above is not None
    host = above.parent

    assert stop.checkpoint_id == "1"
    assert store.get("1") is not None
    assert host is not None
    assert (str(host.address), host.info, host.is_root_cause) == ("runnable:root;node:host", None, False)
    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.rerun_extra) == (["host"], {})
    assert runner.resume(app, "1", {stop.interrupts[0].id: "go"}) == "x/kept x/go"


def test_a_cause_counts(runner: Runner, mode: dict[str, Any]) -> None:
    """B079: an exception that was raised from an inner app's stop counts as that stop."""
    inner = solo(lambda text: text + interrupt("q")).compile(name="inner", **mode)

    def node(text: str) -> str:
        try:
            return str(inner.invoke(text))
        except Interrupted as stop:
            raise RuntimeError("the tool stopped") from stop

    app = solo(node).compile(store=MapStore(), **mode)

    assert places(stopped(runner, app, "x", checkpoint_id="1")) == ["runnable:root;node:n;runnable:inner;node:n"]
    assert runner.resume(app, "1", answer="!") == "x!"


def test_the_state_of_the_graph_outside(runner: Runner) -> None:
    """B027: a node of an app called from a node reads both states by class, and counts in the outer one."""

    def node(text: str) -> str:
        with use_state(Inner) as inner, use_state(Outer) as outer:
            outer.counter += 1
            return f"{text}_inner={inner.text}_outer={outer.text}_{outer.counter - 1}"

    inner_app = solo(node, state=Inner).compile(name="inner")
    counted: list[int] = []

    def post(value: str, state: Outer) -> str:
        counted.append(state.counter)
        return value

    app = solo(calling(runner, inner_app), state=Outer, post=post).compile()

    assert runner.invoke(app, "start") == "start_inner=inner_outer=outer_100"
    assert counted == [101]


def test_a_checkpoint_of_the_host_is_refused(runner: Runner) -> None:
    """K15: an inner app that wants its host's checkpoint in the same store is refused; another store or id is fine."""
    store = MapStore()
    inner = solo(lambda text: text + interrupt("q")).compile(name="inner", store=store)
    clash = solo(calling(runner, inner, checkpoint_id="1")).compile(store=store)
    with pytest.raises(Exception, match="'1' belongs to the run that this app is called from") as caught:
        runner.invoke(clash, "x", checkpoint_id="1")

    assert isinstance(caught.value.__cause__, OptionError)
    assert store.get("1") is None
    assert asked(stopped(runner, clash, "x", checkpoint_id="2")) == ["q"]
    assert runner.resume(clash, "2", answer="!") == "x!"


def test_answered_through_the_host_and_directly(runner: Runner, mode: dict[str, Any]) -> None:
    """An inner app under its own id is answered through the run outside, then by itself: addresses follow the caller."""
    own = MapStore()
    inner = solo(lambda text: text + interrupt("q1") + interrupt("q2")).compile(name="inner", store=own, **mode)
    node = calling(runner, inner, checkpoint_id="in")
    app = solo(node, key="host").compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(first)["q1"]: "1"})
    direct = runner.pending(inner, "in")

    assert places(second) == ["runnable:root;node:host;runnable:inner;node:n"]
    assert ids(direct) == ids(second)
    assert runner.resume(inner, "in", {ids(second)["q2"]: "2"}) == "x12"


def test_answered_directly_and_through_the_host(runner: Runner, mode: dict[str, Any]) -> None:
    """An inner run that was moved on by itself is found where it is by the run outside, at its place there."""
    inner = solo(lambda text: text + interrupt("q1") + interrupt("q2")).compile(name="inner", store=MapStore(), **mode)
    node = calling(runner, inner, checkpoint_id="in")
    app = solo(node, key="host").compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped_again(runner, inner, "in", {ids(first)["q1"]: "1"})
    outside = stopped(runner, app, "ignored", checkpoint_id="1")

    assert places(second) == ["runnable:inner;node:n"]
    assert places(outside) == ["runnable:root;node:host;runnable:inner;node:n"]
    assert ids(outside) == ids(second)
    assert runner.resume(app, "1", {ids(outside)["q2"]: "2"}) == "x12"


@pytest.mark.parametrize("saved", [True, False], ids=["own store", "no store"])
def test_swallowed_by_the_host(runner: Runner, mode: dict[str, Any], saved: bool) -> None:
    """A stop that is stored under an id of its own may be caught; one that is stored nowhere else stops the host."""
    inner = solo(lambda text: text + interrupt("q")).compile(name="inner", store=MapStore() if saved else None, **mode)

    def node(text: str) -> str:
        try:
            return str(inner.invoke(text, checkpoint_id="in") if saved else inner.invoke(text))
        except Exception:
            return "later"

    app = solo(node).compile(store=MapStore(), **mode)
    if saved:
        assert runner.invoke(app, "x", checkpoint_id="1") == "later"
        assert runner.resume(inner, "in", answer="!") == "x!"
    else:
        assert asked(stopped(runner, app, "x", checkpoint_id="1")) == ["q"]
        assert runner.resume(app, "1", answer="!") == "x!"


@pytest.mark.parametrize("saved", [True, False], ids=["own store", "no store"])
def test_three_apps_deep(runner: Runner, mode: dict[str, Any], saved: bool) -> None:
    """An app in an app in an app: two questions at the bottom are answered from the top, each once."""
    calls = Calls()

    def bottom(text: str) -> str:
        calls.note("bottom", text)
        return text + interrupt("q1") + interrupt("q2")

    app = solo(bottom, key="c").compile(name="three", store=MapStore() if saved else None, **mode)
    for key, name in (("b", "two"), ("a", "one")):
        store = MapStore() if saved or name == "one" else None
        app = solo(calling(runner, app, **({"checkpoint_id": "in"} if saved else {})), key=key).compile(
            name=name, store=store, **mode
        )
    first = stopped(runner, app, "x", checkpoint_id="top")
    second = stopped_again(runner, app, "top", {ids(first)["q1"]: "1"})

    assert places(first) == ["runnable:one;node:a;runnable:two;node:b;runnable:three;node:c"]
    assert (asked(second), places(second)) == (["q2"], places(first))
    assert runner.resume(app, "top", {ids(second)["q2"]: "2"}) == "x12"
    assert calls.inputs["bottom"] == ["x", "x", "x"]
