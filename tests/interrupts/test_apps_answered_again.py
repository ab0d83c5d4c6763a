"""Apps called from a node, the second time: further questions, several apps, one app several times, their own points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from pausing import answer_all, asked, calling, ids, places, solo, stopped, stopped_again

from blobcp import (
    App,
    Interrupted,
    OptionError,
    UnknownInterruptError,
    address_segment,
    composite_interrupt,
    get_resume_data,
    interrupt,
    serializable,
    use_state,
)
from blobcp.stores import MapStore


@serializable("tests.interrupts.Mood")
@dataclass
class Mood:
    """The state of an inner graph."""

    text: str = "calm"


def asking(question: str, calls: Calls | None = None, key: str = "") -> Any:
    """Return a node that appends an answer to its input."""

    def node(text: str) -> str:
        if calls is not None:
            calls.note(key or question, text)
        return text + str(interrupt(question))

    return node


def collecting(apps: list[tuple[App, dict[str, Any]]], calls: Calls | None = None) -> Any:
    """Return a node that runs several apps on items of its input, and passes on all their stops at once."""

    def node(items: list[str]) -> list[str]:
        if calls is not None:
            calls.note("host")
        results: list[str] = []
        stops: list[BaseException] = []
        for item, (app, options) in zip(items, apps, strict=True):
            try:
                results.append(app.invoke(item, **options))
            except Interrupted as stop:
                stops.append(stop)
        if stops:
            raise composite_interrupt("several", None, stops)
        return results

    return node


def test_two_nodes_of_an_unsaved_app_ask(runner: Runner, mode: dict[str, Any]) -> None:
    """F03 one level down: an unsaved app starts over, and what its first node was answered is still known."""
    calls = Calls()
    graph = chain("a", "b", a=asking("q1", calls, "a"), b=asking("q2", calls, "b"))
    app = solo(calling(runner, graph.compile(name="inner", **mode))).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(stop)["q1"]: "1"})

    assert asked(second) == ["q2"]
    assert runner.resume(app, "1", {ids(second)["q2"]: "2"}) == "x12"
    assert dict(calls.count) == {"a": 3, "b": 2}


def test_one_app_per_item_one_after_the_other(runner: Runner, mode: dict[str, Any]) -> None:
    """F03: a node that runs an unsaved app per item is asked once per item, and keeps the earlier answers."""
    inner = solo(lambda text: text + interrupt(f"{text}?")).compile(name="inner", **mode)
    node = lambda items: [inner.invoke(item) for item in items]  # noqa: E731
    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, ["i", "j", "k"], checkpoint_id="1")
    for question, then in (("i?", "j?"), ("j?", "k?")):
        stop = stopped_again(runner, app, "1", {ids(stop)[question]: question.upper()})
        assert asked(stop) == [then]

    assert runner.resume(app, "1", answer="K?") == ["iI?", "jJ?", "kK?"]


@pytest.mark.parametrize("together", [True, False], ids=["at once", "one by one"])
def test_one_app_per_item_collected(runner: Runner, mode: dict[str, Any], together: bool) -> None:
    """F01, F03: an app that a node runs once per item has several questions at one place; each answer finds its asker."""
    inner = solo(lambda text: text + interrupt(f"{text}?")).compile(name="inner", **mode)
    app = solo(collecting([(inner, {})] * 3)).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, ["i", "j", "k"], checkpoint_id="1")
    before = ids(stop)

    assert asked(stop) == ["i?", "j?", "k?"]
    if together:
        assert runner.resume(app, "1", answer_all(stop, str.upper)) == ["iI?", "jJ?", "kK?"]
        return
    for question, then in (("j?", ["i?", "k?"]), ("i?", ["k?"])):
        stop = stopped_again(runner, app, "1", {before[question]: question.upper()})
        assert asked(stop) == then
        assert ids(stop) == {question: before[question] for question in then}
    assert runner.resume(app, "1", answer="K?") == ["iI?", "jJ?", "kK?"]


def test_segments_tell_calls_of_one_app_apart(runner: Runner, mode: dict[str, Any]) -> None:
    """Calls of one app under child addresses of their own get their own answers, also where the questions are equal."""
    inner = solo(asking("ok?")).compile(name="inner", **mode)

    def node(items: list[str]) -> list[str]:
        results: list[str] = []
        stops: list[BaseException] = []
        for item in items:
            try:
                with address_segment("item", item):
                    results.append(inner.invoke(item))
            except Interrupted as stop:
                stops.append(stop)
        if stops:
            raise composite_interrupt(None, None, stops)
        return results

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, ["i", "j"], checkpoint_id="1")

    assert places(stop) == [f"runnable:root;node:n;item:{item};runnable:inner;node:n" for item in "ij"]
    second = stopped_again(runner, app, "1", {stop.interrupts[1].id: "J"})
    assert [point.id for point in second.interrupts] == [stop.interrupts[0].id]
    assert runner.resume(app, "1", {stop.interrupts[0].id: "I"}) == ["iI", "jJ"]


def test_only_the_named_app_goes_on(runner: Runner, mode: dict[str, Any]) -> None:
    """P2, F03: of two saved apps under one node, the one that no answer names is not entered and keeps its id."""
    calls = Calls()
    apps = [
        (solo(asking(name, calls)).compile(name=name, store=MapStore(), **mode), {"checkpoint_id": "in"})
        for name in ("one", "two")
    ]
    app = solo(collecting(apps, calls)).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, ["x", "y"], checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(stop)["one"]: "1"})

    assert ids(second) == {"two": ids(stop)["two"]}
    assert dict(calls.count) == {"host": 2, "one": 2, "two": 1}


def reading_mood(text: str) -> str:
    """Append the graph's state to the input."""
    with use_state(Mood) as mood:
        return f"{text} {mood.text}"


def test_an_apps_own_point(runner: Runner, mode: dict[str, Any]) -> None:
    """B096 through a host: an app that stopped before a node shows its state, and data for its point replaces that."""
    inner = solo(reading_mood, state=Mood).compile(name="inner", store=MapStore(), interrupt_before=["n"], **mode)
    app = solo(calling(runner, inner, checkpoint_id="in"), key="host").compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:host;runnable:inner"]
    assert asked(stop) == [Mood("calm")]
    assert runner.resume(app, "1", {stop.interrupts[0].id: Mood("merry")}) == "x merry"


def test_an_apps_own_point_is_stored_with_its_state(runner: Runner) -> None:
    """P5: who opens the outer run later sees the state that the inner app stopped with."""
    inner = solo(reading_mood, state=Mood).compile(name="inner", store=MapStore(), interrupt_before=["n"])
    app = solo(calling(runner, inner, checkpoint_id="in"), key="host").compile(store=MapStore())
    stopped(runner, app, "x", checkpoint_id="1")

    assert asked(runner.pending(app, "1")) == [Mood("calm")]


def test_data_of_the_wrong_class_for_an_apps_own_point(runner: Runner) -> None:
    """K22 through a host: data that is no state of the inner graph is refused, and both runs stay as they are."""
    outer_store, inner_store = MapStore(), MapStore()
    inner = solo(reading_mood, state=Mood).compile(name="inner", store=inner_store, interrupt_before=["n"])
    app = solo(calling(runner, inner, checkpoint_id="in"), key="host").compile(store=outer_store)
    stop = stopped(runner, app, "x", checkpoint_id="1")
    before = outer_store.get("1"), inner_store.get("in")
    with pytest.raises(Exception, match="Mood") as caught:
        runner.resume(app, "1", {stop.interrupts[0].id: "merry"})

    assert isinstance(caught.value, OptionError) or isinstance(caught.value.__cause__, OptionError)
    assert (outer_store.get("1"), inner_store.get("in")) == before
    assert runner.resume(app, "1", {stop.interrupts[0].id: Mood("merry")}) == "x merry"


def test_target_before_and_after_the_call(runner: Runner) -> None:
    """B092: a node that an answer names something inside of is a target for its whole visit."""
    seen: list[tuple[bool, bool]] = []
    inner = solo(asking("q")).compile(name="inner")

    def node(text: str) -> str:
        before = get_resume_data().is_target
        result = str(inner.invoke(text))
        seen.append((before, get_resume_data().is_target))
        return result

    app = solo(node).compile(store=MapStore())
    stopped(runner, app, "x", checkpoint_id="1")

    assert runner.resume(app, "1", answer="!") == "x!"
    assert seen == [(True, True)]


def test_a_question_that_the_inner_run_no_longer_asks(runner: Runner) -> None:
    """K19 one level down: an answer to what was answered meanwhile in the inner run itself is not lost in silence."""
    inner_store = MapStore()
    inner = solo(lambda text: text + interrupt("q1") + interrupt("q2")).compile(name="inner", store=inner_store)
    app = solo(calling(runner, inner, checkpoint_id="in"), key="host").compile(store=MapStore())
    stop = stopped(runner, app, "x", checkpoint_id="1")
    stopped_again(runner, inner, "in", {ids(stop)["q1"]: "direct"})
    before = inner_store.get("in")
    with pytest.raises(Exception, match="no pending interrupt") as caught:
        runner.resume(app, "1", {ids(stop)["q1"]: "through the host"})

    assert isinstance(caught.value, UnknownInterruptError) or isinstance(caught.value.__cause__, UnknownInterruptError)
    assert inner_store.get("in") == before


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_a_stop_that_could_never_be_passed(runner: Runner, option: str) -> None:
    """An app without a checkpoint of its own that stops before or after a node is refused: it would stop there for ever."""
    calls = Calls()
    inner = chain("a", "b", calls=calls).compile(name="inner", **{option: ["a"]})
    app = solo(calling(runner, inner), key="host").compile(store=MapStore())
    with pytest.raises(Exception, match=r"'inner'.*node a.*runnable:root;node:host.*checkpoint_id") as caught:
        runner.invoke(app, "x", checkpoint_id="1")

    assert isinstance(caught.value.__cause__, OptionError)
    assert dict(calls.count) == {}
    assert asked(stopped(runner, app, "x")) == [None]


@pytest.mark.parametrize("saved", [True, False], ids=["own store", "no store"])
def test_the_host_asks_after_its_app_is_done(runner: Runner, mode: dict[str, Any], saved: bool) -> None:
    """F03: what an app was answered is kept when the app has finished and its host stops at a question of its own."""
    inner = solo(asking("q1")).compile(name="inner", store=MapStore() if saved else None, **mode)
    options = {"checkpoint_id": "in"} if saved else {}
    app = solo(lambda text: inner.invoke(text, **options) + interrupt("host?")).compile(store=MapStore(), **mode)
    stopped(runner, app, "x", checkpoint_id="1")

    assert asked(stopped_again(runner, app, "1", answer="1")) == ["host?"]
    assert runner.resume(app, "1", answer="2") == "x12"


def test_saved_apps_answered_one_by_one(runner: Runner, mode: dict[str, Any]) -> None:
    """F03: of two saved apps under one node, the one that has finished is not asked again when the other is answered."""
    apps = [
        (solo(asking(name)).compile(name=name, store=MapStore(), **mode), {"checkpoint_id": "in"})
        for name in ("one", "two")
    ]
    app = solo(collecting(apps)).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, ["x", "y"], checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(stop)["one"]: "1"})

    assert asked(second) == ["two"]
    assert runner.resume(app, "1", {ids(second)["two"]: "2"}) == ["x1", "y2"]
