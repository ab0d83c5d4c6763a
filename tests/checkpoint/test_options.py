"""The options of a run, one by one: state modifiers, forks, new runs, what a finished run leaves behind."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from stored_runs import TwoMethodStore, blob_of, checkpoint_of, header_of, paused, refused, sha

from blobcp import (
    END,
    START,
    CheckpointDoneError,
    CheckpointError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    Graph,
    GraphBuildError,
    InvalidCheckpointIdError,
    OptionError,
    interrupt,
    use_state,
)
from blobcp.stores import MapStore


@dataclass
class Text:
    """A graph's state."""

    a: str = ""


@dataclass
class Log:
    """A graph's state."""

    log: list[str] = field(default_factory=list)
    secret: str = ""


def ask(text: str) -> str:
    """Ask once, give the text with the answer."""
    return text + str(interrupt("q"))


def nested(inner: Graph, *, key: str = "s", state: Any = None) -> Graph:
    """Return START -> inner -> END."""
    graph = Graph(str, str, state=state)
    graph.add_node(key, inner)
    graph.add_edge(START, key)
    graph.add_edge(key, END)
    return graph


def test_the_modifier_changes_a_nested_state_on_load(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B127: the modifier runs once on load for the nested state, with its node path; a stateless root is left out."""
    inner = Graph(str, str, state=lambda: Text("S"))
    inner.add_node("p", lambda text: text + "p")
    inner.add_node("x", lambda text: text + "x", pre=lambda text, state: text + state.a)
    inner.add_edge(START, "p")
    inner.add_edge("p", "x")
    inner.add_edge("x", END)
    app = nested(inner.compile(interrupt_before=["x"], **mode)).compile(store=store, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")
    seen: list[list[str]] = []

    def modify(path: list[str], state: Text) -> None:
        seen.append(path)
        state.a += "m"

    assert runner.invoke(app, "", checkpoint_id="1", state_modifier=modify) == "apSmx"
    assert seen == [["s"]]


def test_the_modifier_sees_every_state_and_its_path(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B127, P3: on load and on save alike: each state once, a graph before those in it, siblings as declared."""
    leaf = chain("x", state=Text, x=ask)
    graph = Graph(str, dict, state=Text)
    for key, node in (("b", nested(leaf, key="t")), ("a", nested(leaf, key="u", state=Text))):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)
    seen: list[list[str]] = []

    def note(path: list[str], state: Any) -> None:
        assert type(state) is Text
        seen.append(path.copy())
        path.append("changing it must not matter")

    once = [[], ["b", "t"], ["a"], ["a", "u"]]
    stop = paused(runner.invoke, app, "i", checkpoint_id="1", state_modifier=note)
    assert seen == once
    paused(runner.resume, app, "1", {stop.interrupts[0].id: "!"}, state_modifier=note)
    assert seen == once + once + [[], ["a"], ["a", "u"]]
    assert runner.resume(app, "1", {stop.interrupts[1].id: "?"}, state_modifier=note) == {"b": "i!", "a": "i?"}
    assert len(seen) == 3 * len(once) - 1 + 3


@pytest.mark.parametrize("returns", [False, True], ids=["in place", "a new object"])
def test_redaction_stays_in_what_is_stored(runner: Runner, mode: dict[str, Any], store: Any, returns: bool) -> None:
    """B127, K47: redacting on save changes neither the live state, nor what the caller is told, nor the stored question."""
    live: list[Log] = []

    def asking(text: str) -> str:
        with use_state(Log) as state:
            live.append(state)
            question = copy.deepcopy(state)
        return text + str(interrupt(question, state=state))

    def redact(path: list[str], state: Log) -> Any:
        if returns:
            return Log(state.log, "***")
        state.secret = "***"
        return None

    inner = chain("x", state=lambda: Log(["in"], "key"), x=asking)
    app = nested(inner, state=lambda: Log(["out"], "password")).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1", state_modifier=redact)

    assert live[0] == Log(["in"], "key")
    assert stop.info.state == Log(["out"], "password")
    assert stop.info.subgraphs["s"].state == Log(["in"], "key")
    assert stop.interrupts[0].info == Log(["in"], "key")
    assert stop.interrupts[0].parent.info == Log(["in"], "key")
    stored = checkpoint_of(store, "1")
    assert stored.state == Log(["out"], "***")
    assert stored.sub_graphs["s"].state == Log(["in"], "***")
    asked = stored.interrupt_id_to_state[stop.interrupts[0].id]
    assert asked.info == Log(["in"], "key")
    assert asked.state == Log(["in"], "key")
    assert runner.pending(app, "1")[0].info == Log(["in"], "key")


def test_what_a_modifier_returns(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P3: what it returns takes the state's place, on load and on save; ``None`` keeps the object it was given."""
    graph = Graph(str, str, state=lambda: Text("init"))
    graph.add_node("1", lambda text: text)
    graph.add_node("2", lambda text: text, pre=lambda text, state: text + state.a)
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_edge("2", END)
    app = graph.compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1", state_modifier=lambda path, state: Text(state.a + "_saved"))

    assert checkpoint_of(store, "1").state == Text("init_saved")
    result = runner.resume(app, "1", state_modifier=lambda path, state: Text(state.a + "_loaded"))
    assert result == "ainit_saved_loaded"


@pytest.mark.parametrize("when", ["save", "load"])
def test_a_modifier_that_raises(runner: Runner, mode: dict[str, Any], when: str) -> None:
    """B127: its error fails the run, naming the graph; nothing is written, and a stop on its way is not lost."""
    store, calls = TwoMethodStore(), Calls()
    inner = chain("x", state=Text, x=ask)
    app = nested(inner).compile(store=store, **mode)

    def fail(path: list[str], state: Any) -> None:
        raise ValueError("modifier")

    if when == "save":
        error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="1", state_modifier=fail)
        assert [point.info for point in error.interrupts] == ["q"]
        assert store.calls == [("get", "1")]
    else:
        paused(runner.invoke, app, "a", checkpoint_id="1")
        before = sha(store, "1")
        error = refused(CheckpointError, runner.resume, app, "1", state_modifier=fail)
        assert store.calls.count(("set", "1")) == 1
        assert sha(store, "1") == before
    assert "modifier" in str(error)
    assert "state of s" in str(error)
    assert calls.order == []


def test_a_fork_leaves_its_source(runner: Runner, mode: dict[str, Any]) -> None:
    """B128: with an id to write to, the run is read from one id and written to the other; the first keeps its bytes."""
    store = TwoMethodStore()
    app = chain("1", "2", "3").compile(store=store, interrupt_before=["2", "3"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")
    before, traffic = blob_of(store, "1"), len(store.calls)
    stop = paused(runner.invoke, app, "", checkpoint_id="1", write_to_checkpoint_id="2")

    assert stop.checkpoint_id == "2"
    assert store.calls_since(traffic) == [("get", "1"), ("set", "2")]
    assert blob_of(store, "1") == before
    assert checkpoint_of(store, "2").inputs == {"3": "a12"}
    assert runner.resume(app, "2") == "a123"
    assert blob_of(store, "1") == before


def test_an_id_to_write_to_alone(runner: Runner, mode: dict[str, Any]) -> None:
    """B128: alone, it starts a fresh run that is written there, without reading."""
    store = TwoMethodStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], **mode)
    for value in ("a", "b"):
        before = len(store.calls)
        paused(runner.invoke, app, value, write_to_checkpoint_id="2")
        assert store.calls_since(before) == [("set", "2")]
        assert checkpoint_of(store, "2").inputs == {"2": f"{value}1"}
        assert header_of(store, "2").parent is None


def test_a_fork_onto_itself_is_no_fork(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B128: writing to the id that is read is going on with it; the run keeps its name and has no parent."""
    app = chain("1", "2", "3").compile(store=store, interrupt_before=["2", "3"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1", write_to_checkpoint_id="1")
    run = header_of(store, "1").run_id
    paused(runner.invoke, app, "", checkpoint_id="1", write_to_checkpoint_id="1")

    assert (header_of(store, "1").run_id, header_of(store, "1").parent) == (run, None)


def test_a_new_run_does_not_read(runner: Runner, mode: dict[str, Any]) -> None:
    """B129: ``force_new_run`` reads nothing and starts on its input; where it stops it overwrites the id."""
    store = TwoMethodStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "old", checkpoint_id="1")
    run = header_of(store, "1").run_id
    before = len(store.calls)
    paused(runner.invoke, app, "input", checkpoint_id="1", force_new_run=True)

    assert store.calls_since(before) == [("set", "1")]
    assert checkpoint_of(store, "1").inputs == {"2": "input1"}
    assert (header_of(store, "1").run_id != run, header_of(store, "1").parent) == (True, None)
    plain = chain("1").compile(store=store, **mode)
    assert runner.invoke(plain, "input", checkpoint_id="1", force_new_run=True) == "input1"


def test_a_new_run_passes_over_a_broken_blob(runner: Runner, mode: dict[str, Any]) -> None:
    """B129: what can't be read is no obstacle to a new run, since it is not read."""
    store = TwoMethodStore()
    store.blobs["1"] = b"not ours"
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1", force_new_run=True)

    assert runner.resume(app, "1") == "a12"


@pytest.mark.parametrize("depth", [0, 1])
def test_a_done_mark(runner: Runner, mode: dict[str, Any], store: Any, depth: int) -> None:
    """P4: a finished run leaves a mark without a body; ``invoke`` starts anew on it, ``resume`` refuses, as does a fork."""
    graph = chain("1", **{"1": ask})
    app = (nested(graph) if depth else graph).compile(store=store, **mode)
    first = paused(runner.invoke, app, "a", checkpoint_id="1")
    assert runner.resume(app, "1", answer="!") == "a!"

    mark = blob_of(store, "1")
    assert header_of(store, "1").status == "done"
    assert len(mark) < 400
    assert b"a!" not in mark
    for call, options in (
        (runner.resume, {}),
        (runner.resume, {"answers": {first.interrupts[0].id: "x"}}),
        (runner.resume, {"answer": None}),
        (runner.resume, {"write_to_checkpoint_id": "2"}),
    ):
        refused(CheckpointDoneError, call, app, "1", **options)
    refused(CheckpointDoneError, runner.invoke, app, "b", checkpoint_id="1", write_to_checkpoint_id="2")
    assert store.get("2") is None
    assert blob_of(store, "1") == mark
    again = paused(runner.invoke, app, "b", checkpoint_id="1")
    assert again.interrupts[0].id != first.interrupts[0].id
    assert header_of(store, "1").status == "interrupted"
    assert runner.resume(app, "1", answer="?") == "b?"


def test_deleting_what_is_done(runner: Runner, mode: dict[str, Any]) -> None:
    """P4: with ``when_done="delete"`` nothing is left, so that a resume finds nothing; a fork's source stays."""
    store = MapStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], when_done="delete", **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")
    before = blob_of(store, "1")
    assert runner.resume(app, "1", write_to_checkpoint_id="2") == "a12"
    assert (store.get("1"), store.get("2")) == (before, None)
    assert runner.resume(app, "1") == "a12"

    assert [*store.list()] == []
    refused(CheckpointNotFoundError, runner.resume, app, "1")


def test_how_a_finished_run_can_not_be_kept(mode: dict[str, Any]) -> None:
    """P4, P6: an unknown ``when_done``, or deleting in a store that can't, is refused when compiling."""
    with pytest.raises(GraphBuildError, match="when_done"):
        chain("1").compile(store=MapStore(), when_done="forget", **mode)
    with pytest.raises(GraphBuildError, match="TwoMethodStore"):
        chain("1").compile(store=TwoMethodStore(), when_done="delete", **mode)


@pytest.mark.parametrize("when_done", ["mark", "keep"])
def test_a_fork_that_finishes(runner: Runner, mode: dict[str, Any], store: Any, when_done: str) -> None:
    """P4: a fork that finishes is marked under its own id, with its parent; the source can be gone on with."""
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], when_done=when_done, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")
    before = blob_of(store, "1")
    assert runner.resume(app, "1", write_to_checkpoint_id="2") == "a12"

    assert blob_of(store, "1") == before
    if when_done == "mark":
        assert header_of(store, "2").status == "done"
        assert header_of(store, "2").parent.id == "1"
    else:
        assert store.get("2") is None
    assert runner.resume(app, "1") == "a12"


LIMITS = [("max_steps", 0), ("max_steps", -1), ("concurrency", 0), ("concurrency", -3), ("max_steps", "2")]


@pytest.mark.parametrize(("option", "value"), LIMITS)
def test_limits_below_one(runner: Runner, option: str, value: Any) -> None:
    """P6: a limit below 1, or one that is no number, is refused before anything runs or is read."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", calls=calls).compile(store=store)

    assert option in str(refused(OptionError, runner.invoke, app, "a", checkpoint_id="1", **{option: value}))
    refused(OptionError, runner.resume, app, "1", **{option: value})
    assert (calls.order, store.calls) == ([], [])


@pytest.mark.parametrize(
    "id", ["", "a\0b", "\ud800", "x" * 513, 7, b"A"], ids=["empty", "NUL", "half", "long", "int", "bytes"]
)
def test_what_is_no_id(runner: Runner, id: Any) -> None:
    """P6: what is no id is refused before anything runs, by every call that takes one, with any other options."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", calls=calls).compile(store=store)

    for options in (
        {"checkpoint_id": id},
        {"write_to_checkpoint_id": id},
        {"checkpoint_id": "A", "write_to_checkpoint_id": id},
        {"checkpoint_id": id, "write_to_checkpoint_id": "A"},
        {"checkpoint_id": id, "force_new_run": True},
        {"checkpoint_id": id, "force_new_run": True, "write_to_checkpoint_id": "A"},
    ):
        refused(InvalidCheckpointIdError, runner.invoke, app, "a", **options)
    refused(InvalidCheckpointIdError, runner.resume, app, id)
    refused(InvalidCheckpointIdError, runner.resume, app, "A", write_to_checkpoint_id=id)
    refused(InvalidCheckpointIdError, runner.pending, app, id)
    assert (calls.order, store.calls) == ([], [])
