"""What counts as an answer and to which point: any value, no unknown id, no guess; a graph's own point takes a state."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from pausing import Note, answer_all, asked, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    NO_DATA,
    START,
    AmbiguousAnswerError,
    App,
    CheckpointDoneError,
    Graph,
    InterruptSignal,
    OptionError,
    UnknownInterruptError,
    composite_interrupt,
    get_interrupt_state,
    get_resume_data,
    interrupt,
)
from blobcp.stores import FileStore, MapStore

FALSE_VALUES = [None, False, 0, 0.0, "", [], {}, b""]


def sha(store: MapStore | FileStore, checkpoint_id: str) -> str:
    """Return the digest of what is stored."""
    blob = store.get(checkpoint_id)
    assert blob is not None
    return sha256(blob).hexdigest()


def pair(calls: Calls, *, nest: bool = False) -> Graph:
    """Return a graph of two nodes side by side that ask ``qa`` and ``qb``; b may be inside a nested graph."""

    def asking(key: str) -> Any:
        def node(text: str) -> Any:
            calls.note(key)
            return interrupt(f"q{key}")

        return node

    graph = Graph(str, dict)
    graph.add_node("a", asking("a"), output_key="a")
    graph.add_node("b", solo(asking("b")) if nest else asking("b"), output_key="b")
    for key in ("a", "b"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph


@pytest.mark.parametrize("bare", [False, True], ids=["by id", "bare"])
@pytest.mark.parametrize("value", FALSE_VALUES, ids=repr)
def test_no_is_not_nothing(runner: Runner, store: MapStore | FileStore, value: Any, bare: bool) -> None:
    """F04: every value that is false in Python is an answer like any other, by id and bare."""
    app = solo(lambda text: interrupt("q")).compile(store=store)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    options = {"answer": value} if bare else {"answers": {stop.interrupts[0].id: value}}
    result = runner.resume(app, "1", **options)

    assert (type(result), result) == (type(value), value)


@pytest.mark.parametrize("value", FALSE_VALUES, ids=repr)
def test_no_is_remembered(runner: Runner, value: Any) -> None:
    """F04, the second time: a false answer is still known after the node has stopped at its next question."""
    app = solo(lambda text: [interrupt("q1"), interrupt("q2")]).compile(store=MapStore())
    stopped(runner, app, "in", checkpoint_id="1")

    assert asked(stopped_again(runner, app, "1", answer=value)) == ["q2"]
    result = runner.resume(app, "1", answer="end")
    assert (type(result[0]), result) == (type(value), [value, "end"])


@pytest.mark.parametrize("nest", [False, True], ids=["side by side", "one nested"])
def test_a_bare_answer_to_several(
    runner: Runner, store: MapStore | FileStore, mode: dict[str, Any], nest: bool
) -> None:
    """F02: a bare answer while two questions wait is refused with both ids; nothing runs and nothing is written."""
    calls = Calls()
    app = pair(calls, nest=nest).compile(store=store, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="A")
    before = sha(store, "A")
    with pytest.raises(AmbiguousAnswerError, match="ambiguous") as caught:
        runner.resume(app, "A", answer="yes")

    assert all(point.id in str(caught.value) for point in stop.interrupts)
    assert caught.value.pending == [point.id for point in stop.interrupts]
    assert sha(store, "A") == before
    assert dict(calls.count) == {"a": 1, "b": 1}
    assert runner.resume(app, "A", answer_all(stop, str.upper)) == {"a": "QA", "b": "QB"}


@pytest.mark.parametrize("nest", [False, True], ids=["side by side", "one nested"])
def test_a_bare_answer_to_the_last(runner: Runner, mode: dict[str, Any], nest: bool) -> None:
    """F02: once a single question is left, a bare answer is that question's, wherever it is asked."""
    app = pair(Calls(), nest=nest).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="A")
    stopped_again(runner, app, "A", {ids(stop)["qa"]: 1})

    assert runner.resume(app, "A", answer="yes") == {"a": 1, "b": "yes"}


def unknown_of(stop: Any, older: str) -> dict[str, dict[str, Any]]:
    """Return bad answers by what is wrong with them."""
    return {
        "made up": {"nope": 1},
        "one of two": {stop.interrupts[0].id: 1, "nope": 2},
        "answered already": {older: 1},
        "by address": {str(stop.interrupts[0].address): 1},
    }


@pytest.mark.parametrize("what", ["made up", "one of two", "answered already", "by address"])
def test_unknown_ids(runner: Runner, store: MapStore | FileStore, mode: dict[str, Any], what: str) -> None:
    """B094, K19, P6: an id that is not pending is refused before any node runs, with those that are."""
    calls = Calls()

    def node(text: str) -> list[Any]:
        calls.note("n")
        return [interrupt("q1"), interrupt("q2")]

    app = solo(node).compile(store=store, **mode)
    older = stopped(runner, app, "in", checkpoint_id="A").interrupts[0].id
    stop = stopped_again(runner, app, "A", answer="first")
    before = sha(store, "A")
    for ask in (
        lambda answers: runner.resume(app, "A", answers),
        lambda answers: runner.invoke(app, "in", checkpoint_id="A", answers=answers),
        lambda answers: runner.resume(app, "A", answers, write_to_checkpoint_id="B"),
    ):
        with pytest.raises(UnknownInterruptError) as caught:
            ask(unknown_of(stop, older)[what])
        assert caught.value.pending == [stop.interrupts[0].id]
        assert stop.interrupts[0].id in str(caught.value)

    assert (sha(store, "A"), store.get("B"), calls["n"]) == (before, None, 2)
    assert runner.resume(app, "A", answer="second") == ["first", "second"]


def test_answers_to_a_finished_run(runner: Runner, store: MapStore | FileStore) -> None:
    """B094, P4: answers and bare answers to a run that has finished are refused, and nothing runs again."""
    calls = Calls()
    app = pair(calls).compile(store=store)
    stop = stopped(runner, app, "in", checkpoint_id="A")
    answers = answer_all(stop, str.upper)
    runner.resume(app, "A", answers)
    for again in (
        lambda: runner.resume(app, "A", answers),
        lambda: runner.resume(app, "A", {"nope": 1}),
        lambda: runner.resume(app, "A", answer="yes"),
        lambda: runner.invoke(app, "in", checkpoint_id="A", answers=answers),
    ):
        with pytest.raises(CheckpointDoneError, match="'A' is finished"):
            again()

    assert dict(calls.count) == {"a": 2, "b": 2}


def state_app(store: MapStore, mode: dict[str, Any], *, state: Callable[[], Any] | None = Note, nest: bool) -> App:
    """Return an app that stops before its node 2, whose pre-handler appends the state, at the top or one level down."""
    graph = Graph(str, str, state=state)
    graph.add_node("1", lambda text: text + "1")
    append = lambda value, state: f"{value}[{state.text}]"  # noqa: E731
    graph.add_node("2", lambda text: text + "2", pre=None if state is None else append)
    for source, target in ((START, "1"), ("1", "2"), ("2", END)):
        graph.add_edge(source, target)
    if not nest:
        return graph.compile(store=store, interrupt_before=["2"], **mode)
    inner = graph.compile(interrupt_before=["2"], **mode)
    return chain("o", "s", "p", s=inner).compile(store=store, **mode)


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
def test_data_for_a_graph_is_its_state(runner: Runner, mode: dict[str, Any], nest: bool) -> None:
    """B096: data for a graph's own point replaces that graph's state, by id and bare, and NO_DATA leaves it."""
    around = ("o", "p") if nest else ("", "")
    for bare, data, text in ((False, Note("data"), "data"), (True, Note("bare"), "bare"), (False, NO_DATA, "")):
        app = state_app(MapStore(), mode, nest=nest)
        stop = stopped(runner, app, "x", checkpoint_id="1")

        assert places(stop) == ["runnable:root;node:s" if nest else "runnable:root"]
        assert asked(stop) == asked(runner.pending(app, "1")) == [Note("")]
        options = {"answer": data} if bare else {"answers": {stop.interrupts[0].id: data}}
        assert runner.resume(app, "1", **options) == f"x{around[0]}1[{text}]2{around[1]}"


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
def test_data_wins_over_the_modifier(runner: Runner, mode: dict[str, Any], nest: bool) -> None:
    """B096: a state modifier runs first and once on load, and data for the graph's point then takes the state's place."""
    around = ("o", "p") if nest else ("", "")
    for data, text in ((Note("data"), "data"), (None, "init_mod")):
        app = state_app(MapStore(), mode, state=lambda: Note("init"), nest=nest)
        stop = stopped(runner, app, "x", checkpoint_id="1")
        seen: list[tuple[list[str], str]] = []

        def modify(path: list[str], state: Note, seen: list[tuple[list[str], str]] = seen) -> Note:
            seen.append((path, state.text))
            return Note(state.text + "_mod")

        answers = None if data is None else {stop.interrupts[0].id: data}
        assert runner.resume(app, "1", answers, state_modifier=modify) == f"x{around[0]}1[{text}]2{around[1]}"
        assert seen == [(["s"] if nest else [], "init")]


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
@pytest.mark.parametrize("bare", [False, True], ids=["by id", "bare"])
@pytest.mark.parametrize("data", ["text", None, {"text": "data"}], ids=repr)
def test_data_of_another_class_for_a_graph(
    runner: Runner, mode: dict[str, Any], data: Any, bare: bool, nest: bool
) -> None:
    """K22: data that is not of the state's class is refused before anything runs; the checkpoint stays as it is."""
    store = MapStore()
    app = state_app(store, mode, nest=nest)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    before = sha(store, "1")
    with pytest.raises(OptionError, match="Note"):
        runner.resume(app, "1", **({"answer": data} if bare else {"answers": {stop.interrupts[0].id: data}}))

    assert sha(store, "1") == before
    assert runner.resume(app, "1") == ("xo1[]2p" if nest else "x1[]2")


@pytest.mark.parametrize("nest", [False, True], ids=["root", "nested"])
def test_data_for_a_graph_without_state(runner: Runner, mode: dict[str, Any], nest: bool) -> None:
    """K22: a graph that has no state takes no data for its own point; it goes on with NO_DATA or without answers."""
    store = MapStore()
    app = state_app(store, mode, state=None, nest=nest)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    with pytest.raises(OptionError, match="no state"):
        runner.resume(app, "1", answer="yes")

    assert runner.resume(app, "1", {stop.interrupts[0].id: NO_DATA}) == ("xo12p" if nest else "x12")


@pytest.mark.parametrize("named", [0, 1])
def test_two_points_at_one_address(runner: Runner, mode: dict[str, Any], named: int) -> None:
    """B097, K20: where a composite's child has the composite's own address, a named point wins, else the outer one."""
    seen: list[tuple[Any, Any]] = []

    def node(text: str) -> str:
        seen.append((get_interrupt_state().state, get_resume_data().data))
        if get_resume_data().has_data:
            return text
        stops: list[BaseException] = []
        for part in ("x", "y"):
            try:
                interrupt(part, state=f"state {part}")
            except InterruptSignal as signal:
                stops.append(signal)
        raise composite_interrupt("both", "composite state", stops)

    app = solo(node).compile(store=MapStore(), **mode)
    stopped(runner, app, "in", checkpoint_id="1")
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:n"] * 2
    assert runner.resume(app, "1", {stop.interrupts[named].id: "data"}) == "in"
    assert seen == [(None, None), ("composite state", None), (f"state {'xy'[named]}", "data")]
