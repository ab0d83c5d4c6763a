"""Every combination of the options of a run, judged by an oracle that knows the rules and not the code."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, NamedTuple

import pytest
from drivers import Runner
from graphs import Calls
from stored_runs import TwoMethodStore, checkpoint_of, header_of

from blobcp import (
    END,
    START,
    CheckpointDoneError,
    CheckpointNotFoundError,
    Graph,
    Interrupted,
    OptionError,
    UnknownInterruptError,
    interrupt,
)
from blobcp.codec import digest_of


@dataclass
class Text:
    """A graph's state."""

    a: str = ""


class Case(NamedTuple):
    """One call of ``invoke``.

    Attributes:
        read: whether ``checkpoint_id`` is given.
        write: whether ``write_to_checkpoint_id`` is given.
        force: ``force_new_run``.
        modify: whether a state modifier is given.
        answers: no answers, those to what is pending, or one to nothing.
        stored: what is under the id to read from.
        ends: whether the run goes to its end, instead of stopping (again).
    """

    read: bool
    write: bool
    force: bool
    modify: bool
    answers: str
    stored: str
    ends: bool


CASES = [
    Case(*values)
    for values in product(
        (False, True), (False, True), (False, True), (False, True), ("none", "right", "wrong"),
        ("nothing", "paused", "done"), (False, True),
    )
]  # fmt: skip


class Expected(NamedTuple):
    """What the rules say of a case."""

    error: type[Exception] | None
    calls: list[tuple[str, str]]
    continues: bool
    stops: bool
    written: str | None


def oracle(case: Case) -> Expected:
    """Tell what must come of a case.

    An id is read unless a new run is forced. Answers need something to be read that is pending, and a fork needs
    something to be read. A run is written where it stops, under the id to write to, else under the one to read from.
    Where one that was read, and only such a one, comes to its end, a mark is written there.
    """
    loads = case.read and not case.force
    target = "B" if case.write else "A" if case.read else None
    reading = [("get", "A")] if loads else []
    if case.answers != "none" and not loads:
        return Expected(OptionError, [], False, False, None)
    if loads and (case.write or case.answers != "none") and case.stored != "paused":
        kind = CheckpointNotFoundError if case.stored == "nothing" else CheckpointDoneError
        return Expected(kind, reading, False, False, None)
    continues = loads and case.stored == "paused"
    if continues and case.answers == "wrong":
        return Expected(UnknownInterruptError, reading, False, False, None)
    stops = not case.ends
    if continues and case.answers == "none":
        stops = True
    marks = not stops and loads and case.stored != "nothing"
    written = target if stops or marks else None
    return Expected(None, [*reading, *([("set", written)] if written else [])], continues, stops, written)


def build(calls: Calls, store: TwoMethodStore, mode: dict[str, Any], *, asks: list[str]) -> Any:
    """Return the app first -> second, where second asks what ``asks`` holds at that time."""

    def first(text: str) -> str:
        calls.note("first", text)
        return text + "1"

    def second(text: str) -> str:
        calls.note("second", text)
        return text + "".join(str(interrupt(question)) for question in list(asks))

    graph = Graph(str, str, state=lambda: Text("S"))
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    return graph.compile(store=store, **mode)


def prepare(runner: Runner, case: Case, app: Any, asks: list[str]) -> str:
    """Put under A what the case wants there; return the id of the pending point."""
    asks[:] = ["q"]
    pending = "none"
    if case.stored == "nothing":
        return pending
    try:
        runner.invoke(app, "old", checkpoint_id="A")
    except Interrupted as stop:
        pending = stop.interrupts[0].id
    if case.stored == "done":
        runner.resume(app, "A", answer="!")
    return pending


def test_every_combination(runner: Runner, mode: dict[str, Any]) -> None:
    """K01, B128, B129, P4, P7: what is read, written, run and refused follows from the rules, for all 288 combinations."""
    for case in CASES:
        calls, store, asks = Calls(), TwoMethodStore(), [""]
        app = build(calls, store, mode, asks=asks)
        check(runner, case, app, calls, store, asks)


def check(runner: Runner, case: Case, app: Any, calls: Calls, store: TwoMethodStore, asks: list[str]) -> None:
    """Run one case and compare."""
    pending = prepare(runner, case, app, asks)
    expected = oracle(case)
    # A run that goes on with the stored question and its answer stops again only where there is a second one.
    asks[:] = ["q"] if expected.continues else []
    if expected.stops and (not expected.continues or case.answers == "right"):
        asks.append("more")
    before, source = (len(store.calls), len(calls.order)), store.blobs.get("A")
    seen: list[list[str]] = []
    outcome = run(runner, app, options_of(case, pending, seen))

    assert store.calls_since(before[0]) == expected.calls, case
    assert (outcome == "stopped") == expected.stops, case
    if expected.error is not None:
        assert outcome is expected.error, case
        assert calls.order[before[1] :] == [], case
        # Answers are compared with what was loaded, and loading includes the modifier.
        assert seen == [[]] * (case.modify and expected.error is UnknownInterruptError), case
    else:
        entered = ["second"] if expected.continues else ["first", "second"]
        assert calls.order[before[1] :] == entered, case
        assert calls.inputs["second"][-1] == ("old1" if expected.continues else "new1"), case
        if not expected.stops:
            assert outcome == ("old1!" if expected.continues else "new1"), case
        assert seen == [[]] * (case.modify * (expected.continues + (expected.stops and expected.written is not None)))
    if expected.written != "A":
        assert store.blobs.get("A") == source, case
    if expected.written is not None:
        check_written(case, expected, store, source)


def check_written(case: Case, expected: Expected, store: TwoMethodStore, source: bytes | None) -> None:
    """Compare what was written, and what it says of where it comes from."""
    assert expected.written is not None
    header = header_of(store, expected.written)
    assert header.status == ("interrupted" if expected.stops else "done"), case
    forked = expected.continues and case.write
    parent = (header.parent.id, header.parent.digest) if header.parent else None
    assert parent == (("A", digest_of(source)) if forked and source else None), case
    if expected.stops:
        marks = "m" * case.modify * (1 + expected.continues)
        stored = checkpoint_of(store, expected.written)
        assert stored.state == Text("S" + marks), case
        assert stored.inputs == {"second": "old1" if expected.continues else "new1"}, case


def options_of(case: Case, pending: str, seen: list[list[str]]) -> dict[str, Any]:
    """Return the keyword arguments of a case."""

    def modify(path: list[str], state: Text) -> Text:
        seen.append(path)
        return Text(state.a + "m")

    given = {
        "checkpoint_id": (case.read, "A"),
        "write_to_checkpoint_id": (case.write, "B"),
        "force_new_run": (case.force, True),
        "state_modifier": (case.modify, modify),
        "answers": (case.answers != "none", {pending if case.answers == "right" else "unknown": "!"}),
    }
    return {name: value for name, (there, value) in given.items() if there}


def run(runner: Runner, app: Any, options: dict[str, Any]) -> Any:
    """Return what came of a call: the class of the refusal, ``"stopped"``, or the result."""
    try:
        return runner.invoke(app, "new", **options)
    except Interrupted:
        return "stopped"
    except (OptionError, CheckpointNotFoundError, CheckpointDoneError) as error:
        return type(error)


def test_the_order_of_options_does_not_matter(runner: Runner) -> None:
    """K01: whatever the order in which the options are written, a forced new run is one, and goes to the id to write to."""
    names = ["checkpoint_id", "write_to_checkpoint_id", "force_new_run", "state_modifier"]
    for order in permutations(names):
        calls, store, asks = Calls(), TwoMethodStore(), ["q"]
        app = build(calls, store, {"mode": "pregel"}, asks=asks)
        case = Case(True, True, True, True, "none", "paused", False)
        prepare(runner, case, app, asks)
        before = len(store.calls)
        options = options_of(case, "", [])
        outcome = run(runner, app, {name: options[name] for name in order})

        assert outcome == "stopped"
        assert store.calls_since(before) == [("set", "B")]
        assert checkpoint_of(store, "B").inputs == {"second": "new1"}


@pytest.mark.parametrize("force", [False, True])
def test_a_flag_that_is_false_changes_nothing(runner: Runner, mode: dict[str, Any], force: bool) -> None:
    """K01: options given with their defaults are options not given."""
    calls, store, asks = Calls(), TwoMethodStore(), ["q"]
    app = build(calls, store, mode, asks=asks)
    case = Case(True, False, False, False, "none", "paused", False)
    prepare(runner, case, app, asks)
    before = len(store.calls)
    options: dict[str, Any] = {
        "checkpoint_id": "A",
        "write_to_checkpoint_id": None,
        "state_modifier": None,
        "answers": {},
        "max_steps": None,
        "concurrency": None,
        "force_new_run": force,
    }

    assert run(runner, app, options) == "stopped"
    assert store.calls_since(before) == [("set", "A")] if force else [("get", "A"), ("set", "A")]
    assert calls["first"] == (2 if force else 1)
