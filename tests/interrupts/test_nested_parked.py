"""Nested graphs that are answered in part, asked in handlers, forked: ids stay, finished work is not repeated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from pausing import Note, asked, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    START,
    Graph,
    InterruptPoint,
    InterruptSignal,
    address_segment,
    composite_interrupt,
    interrupt,
    use_state,
)
from blobcp.stores import FileStore, MapStore


@dataclass
class Log:
    """A state that nodes at all levels write to."""

    entries: list[str] = field(default_factory=list)


def asking(key: str, calls: Calls) -> Any:
    """Return a node that appends an answer to its input."""

    def node(text: str) -> str:
        calls.note(key, text)
        return text + str(interrupt(f"q{key}"))

    return node


def trail(points: Iterable[InterruptPoint], below: str) -> list[list[str]]:
    """Return, per point inside a place, the ids from it up to that place."""
    trails: list[list[str]] = []
    for point in points:
        ids: list[str] = []
        at: InterruptPoint | None = point
        while at is not None and str(at.address).startswith(below):
            ids.append(at.id)
            at = at.parent
        if ids:
            trails.append(ids)
    return trails


def test_one_of_two_nested_graphs(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """P2 one level down: the nested graph that no answer names stays as it is, with the ids of all its points."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in ("A", "B"):
        inner = chain(f"{key}1", f"{key}2", calls=calls, **{f"{key}2": asking(f"{key}2", calls)})
        graph.add_node(key, inner, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)
    first = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(first)["qA2"]: "a"})

    assert asked(second) == ["qB2"]
    for points in (second.interrupts, runner.pending(app, "1")):
        assert trail(points, "runnable:root;node:B") == trail(first.interrupts, "runnable:root;node:B")
    assert second.info is not None
    assert (second.info.rerun_nodes, list(second.info.subgraphs)) == ([], ["B"])
    assert second.info.subgraphs["B"].rerun_nodes == ["B2"]
    assert runner.resume(app, "1", {ids(first)["qB2"]: "b"}) == {"A": "xA1a", "B": "xB1b"}
    assert dict(calls.count) == {"A1": 1, "A2": 2, "B1": 1, "B2": 2}


def test_one_of_two_nodes_of_a_nested_graph(runner: Runner, mode: dict[str, Any]) -> None:
    """P2 inside a nested graph: one of two asking nodes is answered, the other is not entered and keeps its id."""
    calls = Calls()
    inner = Graph(str, dict, state=Note)
    for key in ("a", "b"):
        inner.add_node(key, asking(key, calls), output_key=key, pre=lambda value, state, key=key: value + f"<{key}>")
        inner.add_edge(START, key)
        inner.add_edge(key, END)
    app = solo(solo(inner, key="t"), key="s").compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="0")
    second = stopped_again(runner, app, "0", {ids(first)["qb"]: "B"}, write_to_checkpoint_id="1")
    other = stopped_again(runner, app, "0", {ids(first)["qa"]: "A"}, write_to_checkpoint_id="2")

    assert ids(second) == {"qa": ids(first)["qa"]}
    assert ids(other) == {"qb": ids(first)["qb"]}
    assert dict(calls.count) == {"a": 2, "b": 2}
    assert runner.resume(app, "1", answer="A") == runner.resume(app, "2", answer="B") == {"a": "x<a>A", "b": "x<b>B"}
    assert calls.inputs["a"] == ["x<a>"] * 3


def test_the_points_above_keep_their_ids(runner: Runner, mode: dict[str, Any]) -> None:
    """P2: graphs and nodes that only pass on what is asked inside them keep their ids while something is open there."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, asking(key, calls), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    inner = graph.compile(name="inner", **mode)
    app = solo(solo(lambda text: inner.invoke(text)), key="s").compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="1")
    plain = stopped(runner, app, "x", checkpoint_id="1")
    (left,) = trail(stopped_again(runner, app, "1", {ids(first)["qa"]: "A"}).interrupts, "runnable:root")

    assert [len(each) for each in trail(first.interrupts, "runnable:root")] == [5, 5]
    assert trail(plain.interrupts, "runnable:root") == trail(first.interrupts, "runnable:root")
    assert left == trail(first.interrupts, "runnable:root")[1]
    assert trail(runner.pending(app, "1"), "runnable:root") == [left]


def test_parked_beside_a_graph_that_goes_on(runner: Runner, mode: dict[str, Any]) -> None:
    """P2, the second time: a parked nested graph keeps its ids while its neighbour stops again and again."""
    calls = Calls()
    graph = Graph(str, dict)
    busy = solo(lambda text: [calls.note("busy"), interrupt("q1"), interrupt("q2"), interrupt("q3")][1:])
    graph.add_node("busy", busy, output_key="busy")
    graph.add_node("calm", chain("c", "ask", calls=calls, ask=asking("calm", calls)), output_key="calm")
    for key in ("busy", "calm"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    before = trail(stop.interrupts, "runnable:root;node:calm")
    for number in (1, 2, 3):
        stop = stopped_again(runner, app, "1", {ids(stop)[f"q{number}"]: number})
        assert trail(stop.interrupts, "runnable:root;node:calm") == before

    assert asked(stop) == ["qcalm"]
    assert dict(calls.count) == {"busy": 4, "c": 1, "calm": 1}
    assert runner.resume(app, "1", answer="!") == {"busy": [1, 2, 3], "calm": "xc!"}


def test_a_composite_inside_a_nested_graph(runner: Runner, mode: dict[str, Any]) -> None:
    """B090 one level down: a nested composite that is answered in part asks the rest under the same ids."""

    def node(text: str) -> str:
        stops: list[BaseException] = []
        answers: list[str] = []
        for part in ("p0", "p1"):
            try:
                with address_segment("part", part):
                    answers.append(interrupt(part))
            except InterruptSignal as signal:
                stops.append(signal)
        if stops:
            raise composite_interrupt("batch", None, stops)
        return text + "".join(answers)

    app = chain("o", "s", s=solo(node)).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(first)["p1"]: "b"})

    assert places(second) == ["runnable:root;node:s;node:n;part:p0"]
    assert ids(second) == {"p0": ids(first)["p0"]}
    assert runner.resume(app, "1", {ids(first)["p0"]: "a"}) == "xoab"


@pytest.mark.parametrize("where", ["pre", "post"])
def test_a_handler_of_a_nested_graph_asks(runner: Runner, mode: dict[str, Any], where: str) -> None:
    """B040 for nested graphs: a handler on one may ask; after a post-handler's question the inner nodes don't run again."""
    calls = Calls()

    def handler(value: str, state: Note) -> str:
        calls.note(where)
        return value + "".join(interrupt(f"{where}{number}") for number in (1, 2))

    graph = Graph(str, str, state=Note)
    inner = chain("i1", "i2", calls=calls, i2=asking("i2", calls))
    graph.add_node("s", inner, **{where: handler})
    graph.add_edge(START, "s")
    graph.add_edge("s", END)
    app = graph.compile(store=MapStore(), **mode)
    order = {"pre": ["pre1", "pre2", "qi2"], "post": ["qi2", "post1", "post2"]}[where]
    stop = stopped(runner, app, "x", checkpoint_id="1")
    for number, question in enumerate(order):
        assert asked(stop) == asked(runner.pending(app, "1")) == [question]
        if number < 2:
            stop = stopped_again(runner, app, "1", answer=str(number))

    assert runner.resume(app, "1", answer="2") == {"pre": "x01i12", "post": "xi1012"}[where]
    assert dict(calls.count) == {"i1": 1, "i2": 2, where: 3}


def test_asked_inside_and_after_side_by_side(runner: Runner, mode: dict[str, Any]) -> None:
    """P2: a post-handler of one nested graph and a node of another wait together; each is answered by itself."""
    calls = Calls()
    graph = Graph(str, dict, state=Note)
    graph.add_node(
        "A", chain("a", calls=calls), post=lambda value, state: {"A": value["A"] + interrupt("qpost")}, output_key="A"
    )
    graph.add_node("B", chain("b", "ask", calls=calls, ask=asking("ask", calls)), output_key="B")
    for key in ("A", "B"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    first = stopped(runner, app, "x", checkpoint_id="0")

    assert asked(first) == ["qpost", "qask"]
    for question, rest in (("qpost", "qask"), ("qask", "qpost")):
        fork = stopped_again(runner, app, "0", {ids(first)[question]: question}, write_to_checkpoint_id=rest)
        assert ids(fork) == {rest: ids(first)[rest]}
        assert runner.resume(app, rest, answer=rest) == {"A": "xaqpost", "B": "xbqask"}
    assert (calls["a"], calls["b"]) == (1, 1)


def nested_log(calls: Calls, levels: int) -> Graph:
    """Return F07's graph: o1, a nested p1, p2, ask, p3, then o2; with more levels it is wrapped in further graphs."""

    def logging(key: str) -> Any:
        def node(value: Any) -> Any:
            calls.note(key)
            answer = interrupt("go on?") if key == "ask" else key
            with use_state(Log) as log:
                log.entries.append(answer)
                return list(log.entries)

        return node

    inner: Graph = _logging_chain(["p1", "p2", "ask", "p3"], logging)
    for _ in range(levels - 2):
        inner = solo(inner, key="wrap")
    outer = Graph(state=Log)
    outer.add_node("o1", logging("o1"))
    outer.add_node("inner", inner)
    outer.add_node("o2", logging("o2"))
    for source, target in ((START, "o1"), ("o1", "inner"), ("inner", "o2"), ("o2", END)):
        outer.add_edge(source, target)
    return outer


def _logging_chain(keys: list[str], node: Any) -> Graph:
    graph = Graph()
    for before, key in zip([START, *keys], keys, strict=False):
        graph.add_node(key, node(key))
        graph.add_edge(before, key)
    graph.add_edge(keys[-1], END)
    return graph


@pytest.mark.parametrize("levels", [2, 3])
def test_finished_steps_are_not_repeated(
    runner: Runner, mode: dict[str, Any], store: MapStore | FileStore, levels: int
) -> None:
    """F07: one question is pending, and steps before it, at every level, run once; the log shows each once."""
    calls = Calls()
    stopped(runner, nested_log(calls, levels).compile(store=store, **mode), None, checkpoint_id="A")
    app = nested_log(calls, levels).compile(store=store, **mode)

    assert asked(runner.pending(app, "A")) == ["go on?"]
    assert runner.resume(app, "A", answer="yes") == ["o1", "p1", "p2", "yes", "p3", "o2"]
    assert dict(calls.count) == {"o1": 1, "p1": 1, "p2": 1, "ask": 2, "p3": 1, "o2": 1}


def test_forks_of_a_nested_pause(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """F12 nested: forks of a pause inside a nested graph, answered differently and again, never see each other."""

    def build() -> Any:
        def begin(value: Any) -> Any:
            with use_state(Log) as log:
                log.entries.append("a")

        def ask(value: Any) -> Any:
            for question in ("q1", "q2"):
                answer = interrupt(question)
                with use_state(Log) as log:
                    if answer not in log.entries:
                        log.entries.append(answer)
            with use_state(Log) as log:
                return list(log.entries)

        inner = Graph(state=Log)
        for key, node in (("begin", begin), ("ask", ask)):
            inner.add_node(key, node)
        for source, target in ((START, "begin"), ("begin", "ask"), ("ask", END)):
            inner.add_edge(source, target)
        return solo(inner, key="s").compile(store=store, **mode)

    def entries(checkpoint_id: str) -> list[str]:
        (point,) = runner.pending(build(), checkpoint_id)
        assert point.parent is not None
        found: list[str] = point.parent.info.entries
        return found

    stopped(runner, build(), None, checkpoint_id="A")
    source = store.get("A")
    stopped_again(runner, build(), "A", answer="x", write_to_checkpoint_id="B")
    stopped_again(runner, build(), "A", answer="y", write_to_checkpoint_id="C")
    fork = store.get("C")

    assert (entries("A"), entries("B"), entries("C")) == (["a"], ["a", "x"], ["a", "y"])
    assert runner.resume(build(), "B", answer="x2") == ["a", "x", "x2"]
    assert (store.get("A"), store.get("C")) == (source, fork)
    stopped_again(runner, build(), "A", answer="z")
    assert (entries("A"), entries("C")) == (["a", "z"], ["a", "y"])
    assert store.get("C") == fork
