"""Stops inside nested graphs: what they say, how they are resumed, what is run once."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain
from pausing import Note, asked, places, solo, stopped, stopped_again

from blobcp import END, START, Graph, get_interrupt_state, get_resume_data, interrupt
from blobcp.stores import FileStore, MapStore

MODES = [
    pytest.param({"mode": "pregel"}, {"mode": "dag"}, id="dag in pregel"),
    pytest.param({"mode": "dag"}, {"mode": "pregel"}, id="pregel in dag"),
    pytest.param({"mode": "dag", "eager": False}, {"mode": "dag"}, id="dag in dag-in-steps"),
    pytest.param({"mode": "pregel"}, {"mode": "pregel"}, id="pregel in pregel"),
]


def add_state(value: str, state: Note) -> str:
    """Append the state, as a pre-handler."""
    return value + state.text


def keeping(key: str, calls: Calls, form: str = "{saved}[{data}]") -> Any:
    """Return a node that saves its input when it stops, and on resume gives the saved input and the data."""

    def node(text: str) -> str:
        calls.note(key, text)
        was_interrupted, _, saved = get_interrupt_state(str)
        if not was_interrupted:
            interrupt(f"ask {key}", state=text)
        return form.format(saved=saved, data=get_resume_data().data)

    return node


def nested_chain(*keys: str, pre: str = "", **nodes: Any) -> Graph:
    """Return a chain with a state, whose node ``pre`` has a pre-handler that appends that state."""
    graph = Graph(str, str, state=Note)
    before = START
    for key in keys:
        graph.add_node(key, nodes.get(key, appending(key)), pre=add_state if key == pre else None)
        graph.add_edge(before, key)
        before = key
    graph.add_edge(before, END)
    return graph


@pytest.mark.parametrize(("outer", "inner"), MODES)
def test_stopped_after_an_inner_node(runner: Runner, outer: dict[str, Any], inner: dict[str, Any]) -> None:
    """B105: the inner graph's own point has its state as info, and takes a state as its answer."""
    nested = nested_chain("1", "2", pre="2").compile(interrupt_after=["1"], **inner)
    app = chain("1", "2", "3", **{"2": nested}).compile(store=MapStore(), **outer)
    stop = stopped(runner, app, "start", checkpoint_id="1")
    assert stop.info is not None
    below = stop.info.subgraphs["2"]
    (point,) = stop.interrupts

    assert (below.state, below.after_nodes, below.before_nodes) == (Note(""), ["1"], [])
    assert (below.rerun_nodes, below.rerun_extra, below.subgraphs) == ([], {}, {})
    assert (stop.info.rerun_nodes, stop.info.after_nodes, list(stop.info.subgraphs)) == ([], [], ["2"])
    assert (str(point.address), point.info, point.is_root_cause) == ("runnable:root;node:2", Note(""), True)
    assert point.parent is not None
    assert str(point.parent.address) == "runnable:root"
    assert runner.resume(app, "1", {point.id: Note("state")}) == "start11state23"


def two_levels(outer: dict[str, Any], inner: dict[str, Any], store: MapStore) -> Any:
    """Return B106's app: outer 1, M, 3; M has a branching middle with S inside."""
    deepest = nested_chain("1", "2", pre="2").compile(interrupt_after=["1"], **outer)
    middle = Graph(str, str, state=Note)
    middle.add_node("1", appending("1"))
    middle.add_node("2", deepest, pre=add_state, output_key="2")
    middle.add_node("3", appending("3"), output_key="3")
    middle.add_node(
        "4",
        lambda values: "".join(values[key] + "4\n" for key in ("2", "3", "state")),
        pre=lambda value, state: {**value, "state": state.text},
    )
    for source, target in ((START, "1"), ("1", "2"), ("1", "3"), ("2", "4"), ("3", "4"), ("4", END)):
        middle.add_edge(source, target)
    nested = middle.compile(interrupt_after=["1", "3"], interrupt_before=["4"], **inner)
    return chain("1", "2", "3", **{"2": nested}).compile(store=store, **outer)


@pytest.mark.parametrize(("outer", "inner"), MODES)
def test_stopped_at_two_levels(runner: Runner, outer: dict[str, Any], inner: dict[str, Any]) -> None:
    """B106: a graph in a graph stops after and before nodes at both levels; each point takes its own graph's state."""
    app = two_levels(outer, inner, MapStore())
    first = stopped(runner, app, "start", checkpoint_id="1")
    assert first.info is not None
    assert (places(first), first.info.subgraphs["2"].after_nodes) == (["runnable:root;node:2"], ["1"])

    second = stopped_again(runner, app, "1", answer=Note("state"))
    assert second.info is not None
    assert places(second) == ["runnable:root;node:2;node:2"]
    assert second.info.subgraphs["2"].after_nodes == ["3"]
    assert second.info.subgraphs["2"].subgraphs["2"].after_nodes == ["1"]
    assert second.interrupts[0].parent is not None
    assert second.interrupts[0].parent.info == Note("state")

    third = stopped_again(runner, app, "1", answer=Note("state"))
    assert third.info is not None
    assert (places(third), third.info.subgraphs["2"].before_nodes) == (["runnable:root;node:2"], ["4"])
    assert runner.resume(app, "1", answer=Note("state2")) == "start11state1state24\nstart1134\nstate24\n3"


@pytest.mark.parametrize(("outer", "inner"), MODES)
def test_stopped_before_the_first_inner_node(runner: Runner, outer: dict[str, Any], inner: dict[str, Any]) -> None:
    """B107: a nested graph that is stopped before its first node goes on from there in a plain re-run."""
    calls = Calls()
    nested = solo(lambda text: text + "sub" + str(calls.note("sub")), key="1").compile(interrupt_before=["1"], **inner)
    app = chain("1", "2", calls=calls, **{"2": nested}).compile(store=MapStore(), **outer)
    stop = stopped(runner, app, "input", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.subgraphs["2"].before_nodes == ["1"]
    assert runner.invoke(app, "", checkpoint_id="1") == "input1sub1"
    assert dict(calls.count) == {"1": 1, "sub": 1}


@pytest.mark.parametrize(("outer", "inner"), MODES)
def test_three_levels(runner: Runner, outer: dict[str, Any], inner: dict[str, Any]) -> None:
    """B108: a stop three levels down is resumed in place; its parents are the graphs above, with their states."""
    calls = Calls()
    third = chain("c1", "x", "c2", calls=calls, state=lambda: Note("third"), x=keeping("x", calls))
    second = Graph(str, str, state=lambda: Note("second"))
    second.add_node("b1", appending("b1", calls))
    second.add_node(
        "s2",
        third.compile(**inner),
        pre=lambda value, state: calls.note("pre") and value,
        post=lambda value, state: calls.note("post") and value,
    )
    second.add_node("b2", appending("b2", calls))
    for source, target in ((START, "b1"), ("b1", "s2"), ("s2", "b2"), ("b2", END)):
        second.add_edge(source, target)
    graph = chain("a1", "s1", "a2", calls=calls, state=lambda: Note("first"), s1=second.compile(**outer))
    app = graph.compile(store=MapStore(), **inner)
    (point,) = stopped(runner, app, "in", checkpoint_id="1").interrupts
    above = []
    at = point.parent
    while at is not None:
        above.append((str(at.address), at.info, at.is_root_cause))
        at = at.parent

    assert str(point.address) == "runnable:root;node:s1;node:s2;node:x"
    assert above == [
        ("runnable:root;node:s1;node:s2", Note("third"), False),
        ("runnable:root;node:s1", Note("second"), False),
        ("runnable:root", Note("first"), False),
    ]
    assert runner.resume(app, "1", {point.id: "D"}) == "ina1b1c1[D]c2b2a2"
    once = dict.fromkeys(("a1", "b1", "c1", "c2", "b2", "a2", "pre", "post"), 1)
    assert dict(calls.count) == {**once, "x": 2}


@pytest.mark.parametrize("plain", [False, True], ids=["two nested", "one nested"])
def test_stopped_side_by_side(runner: Runner, mode: dict[str, Any], plain: bool) -> None:
    """B109, K02: of nested graphs that stop in one step each is resumed where it was, every time."""
    for _ in range(5):
        calls = Calls()
        form = "resumed({saved})"
        graph = Graph(str, dict)
        for key in ("A", "B"):
            ask = keeping(f"x{key}", calls, form)
            is_plain = plain and key == "B"
            inner = chain(f"{key}pre", "x", calls=calls, x=ask)
            graph.add_node(key, ask if is_plain else inner, output_key=key)
            graph.add_edge(START, key)
            graph.add_edge(key, END)
        app = graph.compile(store=MapStore(), **mode)
        stopped(runner, app, "in", checkpoint_id="1")

        second = "resumed(in)" if plain else "resumed(inBpre)"
        assert runner.invoke(app, "", checkpoint_id="1") == {"A": "resumed(inApre)", "B": second}
        assert (calls["Apre"], calls["Bpre"]) == (1, 0 if plain else 1)
        assert (calls["xA"], calls["xB"]) == (2, 2)


def test_a_loop_over_a_nested_graph(runner: Runner, store: MapStore | FileStore) -> None:
    """B110: the stored inner run is used for one visit; the next visit of the nested graph begins afresh."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("s", chain("p", "x", calls=calls, x=keeping("x", calls, "{saved}x")))
    graph.add_edge(START, "s")
    graph.add_branch("s", lambda text: END if len(text) >= 5 else "s", [END, "s"])
    app = graph.compile(store=store)
    first = stopped(runner, app, "a", checkpoint_id="1")
    second = stopped(runner, app, "", checkpoint_id="1")

    assert (asked(first), asked(second)) == (["ask x"], ["ask x"])
    assert first.interrupts[0].id != second.interrupts[0].id
    assert runner.invoke(app, "", checkpoint_id="1") == "apxpx"
    assert calls.inputs == {"p": ["a", "apx"], "x": ["ap", "ap", "apxp", "apxp"]}


def test_a_loop_answered_by_id(runner: Runner) -> None:
    """B110, P2: an answer for one visit of a nested graph in a loop is no answer for the next visit."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("s", chain("p", "x", calls=calls, x=lambda text: text + interrupt("letter?")))
    graph.add_edge(START, "s")
    graph.add_branch("s", lambda text: END if len(text) >= 5 else "s", [END, "s"])
    app = graph.compile(store=MapStore())
    first = stopped(runner, app, "a", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer="1")

    assert first.interrupts[0].id != second.interrupts[0].id
    assert runner.resume(app, "1", {second.interrupts[0].id: "2"}) == "ap1p2"
    assert calls["p"] == 2


def test_a_loop_inside_a_nested_graph(runner: Runner) -> None:
    """B110 one level down: a nested graph that loops over its asking node asks once per visit and keeps its place."""
    calls = Calls()
    inner = Graph(str, str)
    inner.add_node("x", lambda text: calls.note("x") and text + interrupt("letter?"))
    inner.add_edge(START, "x")
    inner.add_branch("x", lambda text: END if len(text) >= 4 else "x", [END, "x"])
    app = chain("o", "s", "p", calls=calls, s=inner).compile(store=MapStore())
    points = [*stopped(runner, app, "a", checkpoint_id="1").interrupts]
    points += stopped_again(runner, app, "1", answer="1").interrupts

    assert len({point.id for point in points}) == 2
    assert runner.resume(app, "1", answer="2") == "ao12p"
    assert dict(calls.count) == {"o": 1, "x": 4, "p": 1}
