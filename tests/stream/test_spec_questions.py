"""Questions in stream runs, asked by functions and out of streams: what is told, what is kept, who runs again with what."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain, echo
from pausing import Note, answer_all, asked, ids, places, solo
from shaped import fewer_modes, flowing, go, halted, shapes
from streaming import record_of
from wiring import wire

from blobcp import (
    END,
    NO_DATA,
    START,
    AmbiguousAnswerError,
    App,
    CheckpointDoneError,
    Graph,
    Interrupted,
    InterruptSignal,
    InterruptStateView,
    NodeError,
    OptionError,
    ResumeData,
    StreamReader,
    UnknownInterruptError,
    address_segment,
    composite_interrupt,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    serializable,
)
from blobcp.stores import MapStore

__all__ = ["fewer_modes"]

forms = pytest.mark.parametrize("form", ["function", "stream"])
"""Whether a node does its work before it returns, or while its stream is read."""


@serializable("tests.test_spec_questions.Step")
@dataclass
class Step:
    """What a part of a batch keeps."""

    number: int


def formed(form: str, node: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the node as it is, or as one that does the same out of a stream."""
    if form == "function":
        return node

    def streaming(value: Any) -> Iterator[Any]:
        yield node(value)

    return streaming


def again(runner: Runner, shape: str, app: App, answers: Any = None, **options: Any) -> Any:
    """Go on with what is stored under 1."""
    return go(runner, shape, app, checkpoint_id="1", answers=answers, **options)


def halted_again(runner: Runner, shape: str, app: App, answers: Any = None, **options: Any) -> Interrupted:
    """Go on with what is stored under 1, to the next stop."""
    return halted(runner, shape, app, checkpoint_id="1", answers=answers, **options)


@shapes
@forms
def test_state_and_data_come_back(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B077: after an answer the node knows that it was interrupted, and has its state and the data."""
    seen: list[tuple[InterruptStateView, ResumeData]] = []

    def node(text: str) -> str:
        seen.append((get_interrupt_state(Note), get_resume_data(str)))
        if not get_interrupt_state().was_interrupted:
            raise interrupt({"reason": "scheduled maintenance"}, Note("initial input"))
        return f"{text} {get_resume_data().data}"

    app = solo(formed(form, node), key="lambda").compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "in", checkpoint_id="1")
    (point,) = stop.interrupts

    assert (str(point.address), point.info) == ("runnable:root;node:lambda", {"reason": "scheduled maintenance"})
    assert (point.is_root_cause, point.parent is not None and str(point.parent.address)) == (True, "runnable:root")
    assert again(runner, shape, app, {point.id: "let's continue"}) == "in let's continue"
    assert seen == [
        (InterruptStateView(False, False, None), ResumeData(False, False, None)),
        (InterruptStateView(True, True, Note("initial input")), ResumeData(True, True, "let's continue")),
    ]


@shapes
@forms
def test_state_without_info(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B078, B079: without info there are no extras; a state of another class than asked for is none; the input is back."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("n", text)
        if get_interrupt_state().was_interrupted:
            assert get_interrupt_state(int) == InterruptStateView(True, False, None)
            assert get_resume_data() == ResumeData(False, False, None)
            return f"{get_interrupt_state(str).state}_processed"
        return str(interrupt(None, state=text))

    app = solo(formed(form, node)).compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "test_input", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.rerun_nodes, stop.info.rerun_extra) == (["n"], {})
    assert go(runner, shape, app, "", checkpoint_id="1") == "test_input_processed"
    assert calls.inputs["n"] == ["test_input"] * 2


def asking(key: str, form: str, calls: Calls) -> Callable[[Any], Any]:
    """Return a node that asks ``q`` and its key, and appends the answer."""

    def node(text: str) -> str:
        calls.note(key)
        return text + str(interrupt(f"q{key}"))

    return formed(form, node)


def side_by_side(store: Any, form: str, calls: Calls, mode: dict[str, Any]) -> App:
    """Return an app of A and B, which ask, and C, which does not."""
    graph = Graph(str, dict)
    graph.add_node("A", asking("A", form, calls), output_key="A")
    graph.add_node("B", asking("B", form, calls), output_key="B")
    graph.add_node("C", flowing("c", calls), output_key="C")
    graph.add_node("join", echo)
    return wire(graph, "start A join end", "start B join", "start C join").compile(store=store, **mode)


def all_of(runner: Runner, shape: str, app: App, input: Any) -> Interrupted:
    """Run until both questions wait: a stop out of one stream may come before the other stream is read."""
    stop = halted(runner, shape, app, input, checkpoint_id="1")
    return stop if len(stop.interrupts) == 2 else halted(runner, shape, app, checkpoint_id="1")


@shapes
@forms
def test_questions_side_by_side(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B080, F01: two nodes ask in one step and a third finishes: two root causes, its output waits, it runs once."""
    calls, store = Calls(), MapStore()
    app = side_by_side(store, form, calls, mode)
    stop = halted(runner, shape, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert sorted(stop.info.rerun_nodes) == ["A", "B"]
    assert sorted((point.info, point.is_root_cause) for point in stop.interrupts) == [("qA", True), ("qB", True)]
    assert record_of(store, "1").channels["join"].values == {"C": {"C": "xc"}}
    assert [point.id for point in runner.pending(app, "1")] == [point.id for point in stop.interrupts]
    assert again(runner, shape, app, answer_all(stop, str.lower)) == {"A": "xqa", "B": "xqb", "C": "xc"}
    assert dict(calls.count) == {"A": 2, "B": 2, "c": 1}


@shapes
@forms
def test_an_answered_one_is_not_asked_again(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B091, B064, P2, F03: of two only the answered one runs; the other keeps its id and is entered for its own answer."""
    calls = Calls()
    app = side_by_side(MapStore(), form, calls, mode)
    point = ids(all_of(runner, shape, app, "x"))
    before = dict(calls.count)
    second = halted_again(runner, shape, app, {point["qA"]: "a"})

    assert ids(second) == {"qB": point["qB"]}
    assert {key: calls[key] - before[key] for key in "AB"} == {"A": 1, "B": 0}
    assert again(runner, shape, app, {point["qB"]: "b"}) == {"A": "xa", "B": "xb", "C": "xc"}
    assert {key: calls[key] - before[key] for key in "ABc"} == {"A": 1, "B": 1, "c": 0}


@shapes
@forms
@pytest.mark.parametrize("first", ["ask", "bad"])
def test_an_error_beats_a_question(runner: Runner, mode: dict[str, Any], shape: str, form: str, first: str) -> None:
    """B081: where one node asks and another fails, the run fails whichever came first, and nothing is written."""

    def bad(text: str) -> str:
        raise ValueError("broken")

    graph = Graph(str, dict)
    nodes = {"ask": formed(form, lambda text: interrupt("q")), "bad": formed(form, bad)}
    for key in (first, "bad" if first == "ask" else "ask"):
        graph.add_node(key, nodes[key], output_key=key)
        wire(graph, f"start {key} end")
    store = MapStore()

    with pytest.raises(NodeError, match="broken") as caught:
        go(runner, shape, graph.compile(store=store, **mode), "x", checkpoint_id="1")
    assert caught.value.path == ["bad"]
    assert store.get("1") is None


@shapes
@forms
def test_composites(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B082: of a composite only the children are told, with one parent that is no root cause; without any it is one."""

    def node(text: str) -> str:
        if get_interrupt_state().was_interrupted and get_interrupt_state().state == "s":
            return text
        stops: list[BaseException] = []
        for part in ("p0", "p1") if text == "several" else ():
            try:
                with address_segment("part", part):
                    interrupt(f"ask {part}")
            except InterruptSignal as signal:
                stops.append(signal)
        raise composite_interrupt("the node", "s", stops)

    app = solo(formed(form, node)).compile(store=MapStore(), **mode)
    several = halted(runner, shape, app, "several", checkpoint_id="2")
    none = halted(runner, shape, app, "none", checkpoint_id="1")

    assert places(several) == ["runnable:root;node:n;part:p0", "runnable:root;node:n;part:p1"]
    above = several.interrupts[0].parent
    assert above is several.interrupts[1].parent is not None
    assert (str(above.address), above.info, above.is_root_cause) == ("runnable:root;node:n", "the node", False)
    assert [(str(point.address), point.info, point.is_root_cause) for point in none.interrupts] == [
        ("runnable:root;node:n", "the node", True)
    ]
    assert again(runner, shape, app) == "none"


def batch(form: str, parts: tuple[str, ...], calls: Calls) -> Callable[[Any], Any]:
    """Return B090's node, which runs parts under child addresses and keeps what has finished."""

    def process(part: str) -> str:
        is_target, has_data, data = get_resume_data(str)
        calls.note(part, (is_target, has_data))
        if not is_target:
            interrupt(f"process {part} needs instruction", Step(1))
        assert get_interrupt_state(Step).state == Step(1)
        return f"process {part} done" + (f" with instruction: {data}" if has_data else "")

    def node(text: str) -> dict[str, str]:
        _, has_state, done = get_interrupt_state(dict)
        results: dict[str, str] = dict(done) if has_state else {}
        stops: list[BaseException] = []
        for part in parts:
            if part not in results:
                try:
                    with address_segment("process", part):
                        results[part] = process(part)
                except InterruptSignal as signal:
                    stops.append(signal)
        if stops:
            raise composite_interrupt(None, results, stops)
        return {part: results[part] for part in parts}

    return formed(form, node)


@shapes
@forms
def test_a_batch(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B090, B091: of three processes one is answered with data, one without, one later; what finished stays."""
    calls = Calls()
    app = solo(batch(form, ("p0", "p1", "p2"), calls), key="batch").compile(store=MapStore(), **mode)
    first = halted(runner, shape, app, "in", checkpoint_id="1")
    point = {info.split()[1]: id for info, id in ids(first).items()}

    assert places(first) == [f"runnable:root;node:batch;process:p{number}" for number in range(3)]
    second = halted_again(runner, shape, app, {point["p0"]: "do it", point["p2"]: NO_DATA})
    assert ids(second) == {"process p1 needs instruction": point["p1"]}
    assert again(runner, shape, app, {point["p1"]: NO_DATA}) == {
        "p0": "process p0 done with instruction: do it",
        "p1": "process p1 done",
        "p2": "process p2 done",
    }
    assert calls.inputs == {
        "p0": [(False, False), (True, True)],
        "p1": [(False, False), (False, False), (True, False)],
        "p2": [(False, False), (True, False)],
    }


@shapes
@forms
def test_who_is_a_target(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B092, B093, K16, K18: a node is a target where something below it is named; one plan serves two runs alike."""
    seen: list[tuple[str, bool]] = []

    def composite(key: str) -> Callable[[Any], Any]:
        run = batch("function", ("p",), Calls())

        def node(text: str) -> Any:
            seen.append((key, get_resume_data().is_target))
            return run(text)

        return formed(form, node)

    graph = Graph(str, dict)
    for key in ("A", "B"):
        graph.add_node(key, composite(key), output_key=key)
        wire(graph, f"start {key} end")
    app = graph.compile(store=MapStore(), **mode)
    stop = all_of(runner, shape, app, "x")
    point = {str(each.address).split(";")[1]: each.id for each in stop.interrupts}
    seen.clear()
    halted_again(runner, shape, app, write_to_checkpoint_id="plain")
    assert set(seen) == {("A", False), ("B", False)}
    seen.clear()
    plan = {point["node:A"]: "go"}
    for fork in ("f1", "f2"):
        halted_again(runner, shape, app, plan, write_to_checkpoint_id=fork)
    assert seen == [("A", True)] * 2
    assert plan == {point["node:A"]: "go"}


@shapes
@forms
def test_ids_that_are_not_pending(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B094, K19, F10: an id of an earlier pause, or none at all, is refused before any node runs; so are answers too late."""
    calls = Calls()

    def node(text: str) -> list[Any]:
        calls.note("n")
        return [interrupt("q1"), interrupt("q2")]

    store = MapStore()
    app = solo(formed(form, node)).compile(store=store, **mode)
    older = halted(runner, shape, app, "in", checkpoint_id="1").interrupts[0].id
    second = halted_again(runner, shape, app, {older: "first"}).interrupts[0].id
    blob = store.get("1")
    for answers in ({"nope": 1}, {older: 1}, {second: 1, "nope": 2}):
        with pytest.raises(UnknownInterruptError, match=second) as caught:
            again(runner, shape, app, answers)
        assert caught.value.pending == [second]
    assert (store.get("1"), calls["n"]) == (blob, 2)
    assert again(runner, shape, app, {second: "second"}) == ["first", "second"]
    with pytest.raises(CheckpointDoneError):
        again(runner, shape, app, {second: "again"})
    assert calls["n"] == 3


@shapes
@forms
def test_a_late_question_is_resumed_by_resume(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """F02, F04, F10: what a stream run left is resumed by a bare answer, false ones too, where one question waits."""
    for answer in (None, False, 0, "", [], {}, b""):
        app = solo(formed(form, lambda _: interrupt("q"))).compile(store=MapStore(), **mode)
        halted(runner, shape, app, "in", checkpoint_id="1")
        result = runner.resume(app, "1", answer=answer)
        assert (result, type(result)) == (answer, type(answer))

        point = halted(runner, shape, app, "in", checkpoint_id="2").interrupts[0].id
        given = go(runner, shape, app, checkpoint_id="2", answers={point: answer})
        assert (given, type(given)) == (answer, type(answer))

    both = side_by_side(MapStore(), form, Calls(), mode)
    stop = all_of(runner, shape, both, "x")
    with pytest.raises(AmbiguousAnswerError, match="ambiguous") as caught:
        runner.resume(both, "1", answer="yes")
    assert caught.value.pending == [point.id for point in stop.interrupts]
    assert again(runner, shape, both, answer_all(stop, str.upper)) == {"A": "xQA", "B": "xQB", "C": "xc"}


@shapes
def test_delivered_once_in_a_run(runner: Runner, shape: str) -> None:
    """B095: in a later visit of the same run nothing is left of an answer: no state, no target, no interrupt."""
    seen: list[tuple[InterruptStateView, ResumeData]] = []

    def node(text: str) -> Iterator[str]:
        seen.append((get_interrupt_state(), get_resume_data()))
        yield text
        yield str(interrupt("letter?", state=text)) if len(text) < 2 else "z"

    graph = Graph(str, str)
    graph.add_node("n", node)
    graph.add_edge(START, "n")
    graph.add_branch("n", lambda text: END if len(text) >= 3 else "n", ["n", END])
    app = graph.compile(store=MapStore())
    stop = halted(runner, shape, app, "a", checkpoint_id="1")

    assert again(runner, shape, app, {stop.interrupts[0].id: "b"}) == "abz"
    assert seen == [
        (InterruptStateView(False, False, None), ResumeData(False, False, None)),
        (InterruptStateView(True, True, "a"), ResumeData(True, True, "b")),
        (InterruptStateView(False, False, None), ResumeData(False, False, None)),
    ]


@shapes
@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
def test_data_for_a_graph_is_its_state(runner: Runner, mode: dict[str, Any], shape: str, nest: bool) -> None:
    """B096, K22: data for a graph's own point replaces its state, after the modifier; another class is refused."""
    inner = Graph(str, str, state=lambda: Note("init"))
    inner.add_node("1", flowing("1"))
    inner.add_node("2", flowing("2"), pre=lambda text, state: f"{text}[{state.text}]")
    wire(inner, "start 1 2 end")
    store = MapStore()
    if nest:
        app = chain("s", s=inner.compile(interrupt_after=["1"], **mode)).compile(store=store, **mode)
    else:
        app = inner.compile(store=store, interrupt_after=["1"], **mode)
    seen: list[list[str]] = []

    def modify(path: list[str], state: Note) -> Note:
        seen.append(path)
        return Note(state.text + "_mod")

    for answers, text in (("data", "data"), (None, "init_mod")):
        point = halted(runner, shape, app, "x", checkpoint_id="1").interrupts[0].id
        with pytest.raises(OptionError, match="Note"):
            again(runner, shape, app, {point: "text"})
        seen.clear()
        given = {point: Note(answers)} if answers else None
        assert again(runner, shape, app, given, state_modifier=modify) == f"x1[{text}]2"
        assert seen == [["s"] if nest else []]


@shapes
@pytest.mark.parametrize("named", [0, 1])
def test_two_points_at_one_address(runner: Runner, mode: dict[str, Any], shape: str, named: int) -> None:
    """B097, K20: where a composite's children have its own address, a named point wins, else the outer one."""
    seen: list[tuple[Any, Any]] = []

    def node(text: str) -> Iterator[str]:
        yield text
        seen.append((get_interrupt_state().state, get_resume_data().data))
        if get_resume_data().has_data:
            return
        stops: list[BaseException] = []
        for part in ("x", "y"):
            try:
                interrupt(part, state=f"state {part}")
            except InterruptSignal as signal:
                stops.append(signal)
        raise composite_interrupt("both", "composite state", stops)

    app = solo(node).compile(store=MapStore(), **mode)
    halted(runner, shape, app, "in", checkpoint_id="1")
    stop = halted(runner, shape, app, checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:n"] * 2
    assert again(runner, shape, app, {stop.interrupts[named].id: "data"}) == "in"
    assert seen == [(None, None), ("composite state", None), (f"state {'xy'[named]}", "data")]


def stateful(calls: Calls) -> Callable[[Any], Iterator[str]]:
    """Return a streaming node that asks with its input as state, and gives state and answer on."""

    def node(text: str) -> Iterator[str]:
        calls.note("inner", text)
        yield text
        found, given = get_interrupt_state(Note), get_resume_data(str)
        if not given.has_data:
            interrupt("inner interrupt", Note(f"kept {text}"))
        assert found.state is not None
        yield f"/{found.state.text}/{given.data}"

    return node


@pytest.mark.parametrize("wraps", [False, True], ids=["as it is", "composite"])
@pytest.mark.parametrize("saved", [False, True], ids=["no store", "own store"])
@pytest.mark.parametrize("form", ["function", "stream"])
def test_apps_whose_streams_ask(mode: dict[str, Any], form: str, saved: bool, wraps: bool) -> None:
    """B083 to B086, K13, K14: a late question of an app that a node reads is the node's; state and data reach it."""
    calls = Calls()
    inner = solo(stateful(calls), key="inner_lambda").compile(name="inner", store=MapStore() if saved else None, **mode)
    options = {"checkpoint_id": "in"} if saved else {}

    def read(text: str) -> Iterator[str]:
        try:
            yield from inner.stream(text, **options)
        except Interrupted as stop:
            if not wraps:
                raise
            raise composite_interrupt("wrapped", None, [stop]) from None

    node = read if form == "stream" else lambda text: "".join(read(text))
    app = solo(node, key="host").compile(store=MapStore(), **mode)
    with pytest.raises(Interrupted) as caught:
        list(app.stream("x", checkpoint_id="1"))
    (point,) = caught.value.interrupts

    told = []
    at = point.parent
    while at is not None:
        told.append((str(at.address), at.info, at.is_root_cause))
        at = at.parent
    assert str(point.address) == "runnable:root;node:host;runnable:inner;node:inner_lambda"
    assert told == [
        ("runnable:root;node:host;runnable:inner", None, False),
        ("runnable:root;node:host", "wrapped" if wraps else None, False),
        ("runnable:root", None, False),
    ]
    assert ids(app.pending("1")) == ids(caught.value)
    assert "".join(app.stream(checkpoint_id="1", answers={point.id: "go"})) == "x/kept x/go"
    assert calls.inputs["inner"] == ["x", "x"]


@shapes
def test_stopped_before_the_first_inner_node(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B107: a nested graph that is stopped before its first node goes on from there, with the chunks joined."""
    calls = Calls()
    nested = solo(flowing("sub1", calls), key="1").compile(interrupt_before=["1"], **mode)
    app = chain("1", "2", **{"1": flowing("1", calls), "2": nested}).compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "input", checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.subgraphs["2"].before_nodes == ["1"]
    assert go(runner, shape, app, "", checkpoint_id="1") == "input1sub1"
    assert dict(calls.count) == {"1": 1, "sub1": 1}


@shapes
@forms
def test_three_levels(runner: Runner, mode: dict[str, Any], shape: str, form: str) -> None:
    """B108, F07: a question three levels down is answered in place: the graphs above are its parents, all else ran once."""
    calls = Calls()

    def x(text: str) -> str:
        calls.note("x")
        found = get_interrupt_state(str)
        return f"{found.state}[{get_resume_data().data}]" if found.has_state else interrupt("q", state=text)

    def level(name: str, before: str, key: str, node: Any, after: str) -> Graph:
        graph = Graph(str, str, state=lambda: Note(name))
        graph.add_node(before, flowing(before, calls))
        graph.add_node(key, node)
        graph.add_node(after, flowing(after, calls))
        return wire(graph, f"start {before} {key} {after} end")

    third = level("third", "c1", "x", formed(form, x), "c2")
    second = level("second", "b1", "s2", third.compile(**mode), "b2")
    app = level("first", "a1", "s1", second, "a2").compile(store=MapStore(), **mode)
    (point,) = halted(runner, shape, app, "in", checkpoint_id="1").interrupts
    told = []
    at = point.parent
    while at is not None:
        told.append((str(at.address), at.info, at.is_root_cause))
        at = at.parent

    assert str(point.address) == "runnable:root;node:s1;node:s2;node:x"
    assert told == [
        ("runnable:root;node:s1;node:s2", Note("third"), False),
        ("runnable:root;node:s1", Note("second"), False),
        ("runnable:root", Note("first"), False),
    ]
    assert again(runner, shape, app, {point.id: "D"}) == "ina1b1c1[D]c2b2a2"
    assert dict(calls.count) == {**dict.fromkeys(("a1", "b1", "c1", "c2", "b2", "a2"), 1), "x": 2}


@shapes
@forms
@pytest.mark.parametrize("plain", [False, True], ids=["two nested", "one nested"])
def test_nested_graphs_side_by_side(runner: Runner, mode: dict[str, Any], shape: str, form: str, plain: bool) -> None:
    """B109, K02: of nested graphs that stop side by side each goes on where it was."""
    calls = Calls()

    def keeping(text: str) -> str:
        calls.note("x")
        found = get_interrupt_state(str)
        return f"resumed({found.state})" if found.has_state else interrupt("q", state=text)

    graph = Graph(str, dict)
    for key in ("A", "B"):
        nested = chain(f"{key}pre", "x", x=formed(form, keeping), **{f"{key}pre": flowing(f"{key}pre", calls)})
        graph.add_node(key, formed(form, keeping) if plain and key == "B" else nested, output_key=key)
        wire(graph, f"start {key} end")
    app = graph.compile(store=MapStore(), **mode)
    halted(runner, shape, app, "in", checkpoint_id="1")
    try:
        result = again(runner, shape, app)
    except Interrupted:  # a question out of a stream may come before the other stream is read
        result = again(runner, shape, app)

    assert result == {"A": "resumed(inApre)", "B": "resumed(in)" if plain else "resumed(inBpre)"}
    assert (calls["Apre"], calls["Bpre"]) == (1, 0 if plain else 1)


@shapes
@forms
def test_a_loop_over_a_nested_graph(runner: Runner, shape: str, form: str) -> None:
    """B110: the stored inner run is used for one visit; the next visit of the nested graph begins afresh."""
    calls = Calls()

    def keeping(text: str) -> str:
        calls.note("x", text)
        found = get_interrupt_state(str)
        return f"{found.state}x" if found.has_state else interrupt("ask x", state=text)

    graph = Graph(str, str)
    graph.add_node("s", chain("p", "x", p=flowing("p", calls), x=formed(form, keeping)))
    graph.add_edge(START, "s")
    graph.add_branch("s", lambda text: END if len(text) >= 5 else "s", [END, "s"])
    app = graph.compile(store=MapStore())
    first = halted(runner, shape, app, "a", checkpoint_id="1")
    second = halted(runner, shape, app, "", checkpoint_id="1")

    assert (asked(first), asked(second)) == (["ask x"], ["ask x"])
    assert first.interrupts[0].id != second.interrupts[0].id
    assert go(runner, shape, app, "", checkpoint_id="1") == "apxpx"
    assert calls.inputs == {"p": ["a", "apx"], "x": ["ap", "ap", "apxp", "apxp"]}


@shapes
@pytest.mark.parametrize("kind", [Exception, BaseException])
@forms
def test_a_question_that_is_swallowed(runner: Runner, mode: dict[str, Any], shape: str, form: str, kind: Any) -> None:
    """F05: a node that catches its own question, in its function or in its stream, stops all the same."""
    calls = Calls()

    def node(text: str) -> str:
        try:
            return str(interrupt("q"))
        except kind:
            return "swallowed"

    app = chain("n", "after", n=formed(form, node), after=flowing("after", calls)).compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "in", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:n"]
    assert "swallowedafter" not in calls.inputs.get("after", [])
    assert again(runner, shape, app, {stop.interrupts[0].id: "yes"}) == "yesafter"


@pytest.mark.parametrize("shape", ["stream", "collect"])
@pytest.mark.parametrize("kind", [Exception, BaseException])
def test_a_late_question_that_its_reader_swallows(runner: Runner, mode: dict[str, Any], shape: str, kind: Any) -> None:
    """F05, B089: a node that catches the question of the stream which it reads has not run; the maker stops."""

    def src(text: str) -> Iterator[str]:
        yield text
        yield interrupt("q")

    def catching(chunks: StreamReader[str]) -> Iterator[str]:
        try:
            yield from chunks
        except kind:
            yield "swallowed"

    store = MapStore()
    app = chain("src", "dst", src=src, dst=catching).compile(store=store, **mode)
    stop = halted(runner, shape, app, "in", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:src"]
    assert record_of(store, "1").inputs == {"src": "in"}
    assert again(runner, shape, app, {stop.interrupts[0].id: "!"}) == "in!"


@shapes
def test_a_question_of_a_thread_of_the_body(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """F05: a question that a thread of a streaming body asks, while the body waits for it, is the node's."""

    def node(text: str) -> Iterator[str]:
        yield text
        found: list[Any] = []

        def work() -> None:
            try:
                found.append(interrupt("q"))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
        thread.start()
        thread.join(20)
        if isinstance(found[0], BaseException):
            yield "swallowed"
        else:
            yield found[0]

    app = solo(node).compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "in", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:n"]
    assert again(runner, shape, app, {stop.interrupts[0].id: "!"}) == "in!"


@pytest.mark.parametrize("shape", ["invoke", "stream"])
@pytest.mark.parametrize("named", [False, True], ids=["sibling", "itself"])
def test_a_restored_graph_is_no_target(runner: Runner, mode: dict[str, Any], shape: str, named: bool) -> None:
    """K17: where a restored graph's own point is not named, nothing in it is a target, and its siblings' answers are theirs."""
    seen: list[tuple[bool, bool]] = []

    def look(text: str) -> str:
        seen.append((get_resume_data().is_target, get_interrupt_state().was_interrupted))
        return text

    graph = Graph(str, dict)
    graph.add_node("sub", solo(look, key="s", state=Note).compile(interrupt_before=["s"], **mode), output_key="sub")
    graph.add_node("ask", lambda text: interrupt("q"), output_key="ask")
    app = wire(graph, "start sub end", "start ask end").compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "x", checkpoint_id="1")
    point = {str(each.address): each.id for each in stop.interrupts}
    answers: dict[str, Any] = {point["runnable:root;node:ask"]: "!"}
    if named:
        answers[point["runnable:root;node:sub"]] = Note("new")
        assert again(runner, shape, app, answers) == {"sub": "x", "ask": "!"}
    else:
        left = halted_again(runner, shape, app, answers)
        assert [each.id for each in left.interrupts] == [point["runnable:root;node:sub"]]
        assert seen == []
        assert again(runner, shape, app) == {"sub": "x", "ask": "!"}
    assert seen == [(False, False)]
