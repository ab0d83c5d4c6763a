"""Going on with what is stored: inputs, joins, answers, finished and missing runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls, appending, chain, echo
from stored_runs import TwoMethodStore, blob_of, checkpoint_of, paused, refused, sha

from blobcp import (
    END,
    START,
    App,
    CheckpointDoneError,
    CheckpointNotFoundError,
    Graph,
    OptionError,
    UnknownInterruptError,
    interrupt,
    use_state,
)


@dataclass
class Log:
    """A graph's state."""

    log: list[str] = field(default_factory=list)


def test_the_input_of_a_resuming_run_is_ignored(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B060: two nodes stopped after; what the resuming call passes in is not used."""
    graph = Graph(str, dict)
    for key in ("1", "2"):
        graph.add_node(key, echo, output_key=key)
        graph.add_edge(START, key)
    graph.add_node("passthrough", echo)
    for key in ("1", "2"):
        graph.add_edge(key, "passthrough")
    graph.add_edge("passthrough", END)
    app = graph.compile(store=store, interrupt_after=["1", "2"], **mode)
    stop = paused(runner.invoke, app, "input", checkpoint_id="1")

    assert sorted(stop.info.after_nodes) == ["1", "2"]
    assert runner.invoke(app, "", checkpoint_id="1") == {"1": "input", "2": "input"}


def test_an_id_that_is_not_stored_starts_a_run(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B063: with an id under which nothing is stored, a run starts on its input."""
    assert runner.invoke(chain("1", "2").compile(store=store, **mode), "a", checkpoint_id="new") == "a12"
    assert store.get("new") is None


@pytest.mark.parametrize(
    "options",
    [{"checkpoint_id": "1"}, {"write_to_checkpoint_id": "1"}, {"checkpoint_id": "1", "force_new_run": True}],
    ids=lambda options: "+".join(options),
)
def test_an_id_without_a_store(runner: Runner, mode: dict[str, Any], options: dict[str, Any]) -> None:
    """B063: an id given to an app without a store is refused before anything runs."""
    calls = Calls()
    app = chain("1", "2", calls=calls).compile(interrupt_before=["2"], **mode)

    assert "store" in str(refused(OptionError, runner.invoke, app, "a", **options))
    assert calls.order == []


def test_resume_and_pending_without_a_store(runner: Runner) -> None:
    """B063: so are ``resume`` and ``pending``."""
    app = chain("1").compile()

    refused(OptionError, runner.resume, app, "1")
    refused(OptionError, runner.pending, app, "1")


def test_a_second_stop_overwrites_the_id(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B064: a resumed run that stops again is stored under the same id; new points get new ids, open ones keep theirs."""

    def asks_twice(text: str) -> str:
        return text + str(interrupt("first")) + str(interrupt("second"))

    def asks_once(text: str) -> str:
        return text + str(interrupt("other"))

    graph = Graph(str, dict)
    for key, node in (("a", asks_twice), ("b", asks_once)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)
    one = paused(runner.invoke, app, "x", checkpoint_id="1")
    two = paused(runner.resume, app, "1", {one.interrupts[0].id: "1"})

    assert [point.info for point in one.interrupts] == ["first", "other"]
    assert [point.info for point in two.interrupts] == ["second", "other"]
    assert two.interrupts[0].address == one.interrupts[0].address
    assert two.interrupts[0].id not in {point.id for point in one.interrupts}
    assert two.interrupts[1].id == one.interrupts[1].id
    assert two.interrupts[1].created_at == one.interrupts[1].created_at
    assert two.interrupts[0].created_at > one.interrupts[0].created_at
    assert [point.id for point in runner.pending(app, "1")] == [point.id for point in two.interrupts]
    again = paused(runner.invoke, app, "y", checkpoint_id="1")
    assert [point.id for point in again.interrupts] == [point.id for point in two.interrupts]
    answers = {again.interrupts[0].id: "2", again.interrupts[1].id: "o"}
    assert runner.resume(app, "1", answers) == {"a": "x12", "b": "xo"}


def test_a_node_that_changes_its_input(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F08: a node that changes its input in place and then asks sees the input as it was, however often it stops."""
    calls, seen = Calls(), []

    def w(value: dict[str, list[int]]) -> list[int]:
        seen.append({"items": list(value["items"])})
        value["items"].append(3)
        return [*value["items"], interrupt("first"), interrupt("second")]

    def src(_: str) -> dict[str, list[int]]:
        calls.note("src")
        return {"items": [1, 2]}

    graph = Graph(str, list)
    graph.add_node("src", src)
    graph.add_node("w", w)
    graph.add_edge(START, "src")
    graph.add_edge("src", "w")
    graph.add_edge("w", END)
    app = graph.compile(store=store, **mode)
    paused(runner.invoke, app, "", checkpoint_id="1")
    assert checkpoint_of(store, "1").inputs == {"w": {"items": [1, 2]}}
    second = paused(runner.resume, app, "1", {runner.pending(app, "1")[0].id: 4})
    assert checkpoint_of(store, "1").inputs == {"w": {"items": [1, 2]}}

    assert runner.resume(app, "1", {second.interrupts[0].id: 5}) == [1, 2, 3, 4, 5]
    assert seen == [{"items": [1, 2]}] * 3
    assert calls["src"] == 1


def joining(left: Callable[[str], str], right: Callable[[str], str], calls: Calls, *, branch: bool) -> Graph:
    """START -> left, right -> join -> END; with a branch, a third parent that is never chosen."""

    def join(value: dict[str, str]) -> dict[str, str]:
        calls.note("join", dict(value))
        return value

    graph = Graph(str, dict)
    graph.add_node("left", left, output_key="left")
    graph.add_node("right", right, output_key="right")
    graph.add_node("join", join)
    for key in ("left", "right"):
        graph.add_edge(START, key)
        graph.add_edge(key, "join")
    if branch:
        graph.add_node("third", appending("third", calls), output_key="third")
        graph.add_branch(START, lambda _: [], ["third"])
        graph.add_edge("third", "join")
    graph.add_edge("join", END)
    return graph


@pytest.mark.parametrize("branch", [False, True], ids=["", "a third parent not chosen"])
@pytest.mark.parametrize("asker", ["left", "right"])
def test_a_join_runs_once(runner: Runner, mode: dict[str, Any], store: Any, asker: str, branch: bool) -> None:
    """F09: a join whose one parent asks while the other is busy, or done, runs once, on both values."""
    calls, asked = Calls(), threading.Event()
    answers = {"left": "L", "right": "R"}

    def node(key: str) -> Callable[[str], str]:
        def ask(_: str) -> str:
            calls.note(key)
            asked.set()
            return str(interrupt(key))

        def wait(_: str) -> str:
            calls.note(key)
            assert asked.wait(30)
            return answers[key]

        return ask if key == asker else wait

    app = joining(node("left"), node("right"), calls, branch=branch).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "x", checkpoint_id="A")
    assert calls["join"] == 0
    other = "left" if asker == "right" else "right"

    assert runner.resume(app, "A", {stop.interrupts[0].id: answers[asker]}) == answers
    assert calls.inputs["join"] == [answers]
    assert (calls[asker], calls[other], calls["join"], calls["third"]) == (2, 1, 1, 0)


def test_what_was_ready_beside_a_question_goes_on(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F09: a node that a finished one had made ready when another asked runs once after the answer, on the stored value."""
    calls = Calls()

    def ask(text: str) -> str:
        calls.note("B", text)
        return text + str(interrupt("q"))

    graph = Graph(str, dict)
    for way in (("A", "A2"), ("B", "B2")):
        graph.add_node(way[0], ask if way[0] == "B" else appending(way[0], calls))
        graph.add_node(way[1], appending(way[1], calls), output_key=way[1])
    graph.add_node("join", echo)
    for way in (("A", "A2"), ("B", "B2")):
        graph.add_edge(START, way[0])
        graph.add_edge(way[0], way[1])
        graph.add_edge(way[1], "join")
    graph.add_edge("join", END)
    app = graph.compile(store=store, **mode)
    stop = paused(runner.invoke, app, "x", checkpoint_id="A")

    assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}) == {"A2": "xAA2", "B2": "x!B2"}
    assert dict(calls.count) == {"A": 1, "A2": 1, "B": 2, "B2": 1}


@pytest.mark.parametrize(
    "order", [(SyncRunner, AsyncRunner), (AsyncRunner, SyncRunner)], ids=["to asyncio", "to threads"]
)
@pytest.mark.parametrize("eager", [(True, False), (False, True)], ids=["to steps", "to eager"])
def test_a_run_changes_drivers(store: Any, order: tuple[Any, Any], eager: tuple[bool, bool]) -> None:
    """A run that one driver stopped goes on under the other, and an eager dag in steps or the reverse; twice."""
    calls = Calls()

    def asking(text: str) -> str:
        calls.note("x", text)
        return text + str(interrupt("first")) + str(interrupt("second"))

    def build(eager: bool) -> App:
        graph = Graph(str, dict)
        graph.add_node("s", chain("p", "x", calls=calls, x=asking), output_key="s")
        graph.add_node("f", appending("f", calls), output_key="f")
        for key in ("s", "f"):
            graph.add_edge(START, key)
            graph.add_edge(key, END)
        return graph.compile(store=store, mode="dag", eager=eager)

    one, two = order[0](), order[1]()
    first = paused(one.invoke, build(eager[0]), "a", checkpoint_id="1")
    second = paused(two.resume, build(eager[1]), "1", {first.interrupts[0].id: "1"})

    assert one.resume(build(eager[0]), "1", {second.interrupts[0].id: "2"}) == {"s": "ap12", "f": "af"}
    assert dict(calls.count) == {"p": 1, "x": 3, "f": 1}


def test_a_finished_run_is_not_started_over(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F10: a finished run, or one never stored, can't be resumed; the message tells which, and nothing runs."""
    calls = Calls()

    def ask(text: str) -> str:
        calls.note("ask")
        return text + str(interrupt("q"))

    app = chain("a", "ask", "b", calls=calls, ask=ask).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "", checkpoint_id="A")
    assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}) == "a!b"
    mark = blob_of(store, "A")

    for answers in ({stop.interrupts[0].id: "again"}, {"never-was": "again"}, None):
        error = refused(CheckpointDoneError, runner.resume, app, "A", answers)
        assert "finished" in str(error)
        assert "'A'" in str(error)
    refused(CheckpointDoneError, runner.invoke, app, "", checkpoint_id="A", answers={stop.interrupts[0].id: "again"})
    for answers in ({stop.interrupts[0].id: "again"}, None):
        error = refused(CheckpointNotFoundError, runner.resume, app, "B", answers)
        assert "not found" in str(error)
        assert "'B'" in str(error)
        assert isinstance(error, LookupError)
    assert runner.pending(app, "A") == []
    assert "not found" in str(refused(CheckpointNotFoundError, runner.pending, app, "B"))
    assert (calls["a"], calls["ask"], calls["b"]) == (1, 2, 1)
    assert blob_of(store, "A") == mark
    assert store.get("B") is None


def test_each_save_is_a_snapshot(runner: Runner, mode: dict[str, Any]) -> None:
    """F11: later steps that change the state in place do not reach an earlier save, nor does what the caller is given."""
    store = TwoMethodStore()

    def logging(key: str) -> Callable[[str], str]:
        def node(text: str) -> str:
            with use_state(Log) as state:
                state.log.append(key)
            return text + key

        return node

    keys = ("a", "b", "c")
    app = chain(*keys, state=Log, **{key: logging(key) for key in keys}).compile(
        store=store, interrupt_after=keys, **mode
    )
    stop = paused(runner.invoke, app, "", checkpoint_id="A")
    for _ in keys[1:]:
        stop.info.state.log.append("leak")
        stop.interrupts[0].info.log.append("leak")
        runner.pending(app, "A")[0].info.log.append("leak")
        stop = paused(runner.resume, app, "A")

    versions = [checkpoint_of(store, "A", blob).state.log for blob in store.versions]
    assert versions == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert runner.pending(app, "A")[0].info == Log(["a", "b", "c"])
    assert runner.resume(app, "A") == "abc"


def test_answers_that_name_nothing_pending(runner: Runner, mode: dict[str, Any]) -> None:
    """P6: an id that is not pending, from an earlier stop for instance, is refused with those that are; nothing runs."""
    store, calls = TwoMethodStore(), Calls()

    def ask(text: str) -> str:
        calls.note("1")
        return text + str(interrupt("first")) + str(interrupt("second"))

    app = chain("1", **{"1": ask}).compile(store=store, **mode)
    one = paused(runner.invoke, app, "", checkpoint_id="A")
    old = one.interrupts[0].id
    two = paused(runner.resume, app, "A", {old: "x"})
    now = two.interrupts[0].id
    before, traffic = sha(store, "A"), len(store.calls)

    for answers in ({old: "y"}, {"nothing": 1}, {now: "y", "nothing": 1}):
        error = refused(UnknownInterruptError, runner.resume, app, "A", answers)
        assert error.unknown == [id for id in answers if id != now]
        assert error.pending == [now]
        assert now in str(error)
    assert calls["1"] == 2
    assert sha(store, "A") == before
    assert store.calls_since(traffic) == [("get", "A")] * 3
