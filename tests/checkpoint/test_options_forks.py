"""Forks: a stored pause is a value. And apps inside apps that want one id."""

from __future__ import annotations

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
    CheckpointNotFoundError,
    Graph,
    NodeError,
    OptionError,
    interrupt,
    use_state,
)
from blobcp.codec import digest_of
from blobcp.stores import MapStore


@dataclass
class Log:
    """A graph's state."""

    log: list[str] = field(default_factory=list)


def ask(text: str) -> str:
    """Ask once, give the text with the answer."""
    return text + str(interrupt("q"))


def wrapped(graph: Graph, depth: int) -> Graph:
    """Return a graph nested that deep in others."""
    for _ in range(depth):
        graph = chain("s", s=graph)
    return graph


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("order", [("B", "C"), ("C", "B")], ids="".join)
def test_two_answers_to_one_pause(runner: Runner, mode: dict[str, Any], store: Any, order: Any, depth: int) -> None:
    """F06: what a stored pause becomes depends on the answer given this time alone, in either order; it stays as it is."""
    app = wrapped(chain("1", "x", x=ask), depth).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="A")
    before, question = sha(store, "A"), stop.interrupts[0].id
    answers = {"B": "yes", "C": "no"}

    for fork in order:
        result = runner.invoke(
            app, "", checkpoint_id="A", write_to_checkpoint_id=fork, answers={question: answers[fork]}
        )
        assert result == f"a1{answers[fork]}"
        assert sha(store, "A") == before
    assert [point.id for point in runner.pending(app, "A")] == [question]


def logging_and_asking(depth: int) -> Graph:
    """Return a graph whose node logs, whose next node logs two answers, asked by two nodes, nested that deep."""

    def note(text: str) -> str:
        with use_state(Log) as state:
            state.log.append("a")
        return text

    def asking(text: str) -> str:
        answer = interrupt("q")
        with use_state(Log) as state:
            state.log.append(answer)
        return text

    def tell(text: str) -> str:
        with use_state(Log) as state:
            return ",".join(state.log)

    graph = chain("note", "first", "second", "tell", state=Log, note=note, first=asking, second=asking, tell=tell)
    return wrapped(graph, depth)


def log_of(store: Any, id: str, depth: int) -> list[str]:
    """Return the log that is stored under an id."""
    stored = checkpoint_of(store, id)
    for _ in range(depth):
        stored = stored.sub_graphs["s"]
    log: list[str] = stored.state.log
    return log


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_forks_never_see_each_other(runner: Runner, mode: dict[str, Any], store: Any, depth: int) -> None:
    """F12: going on in one fork changes neither its source nor another fork, one pause later as well."""
    app = logging_and_asking(depth).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "", checkpoint_id="A")
    source, question = sha(store, "A"), stop.interrupts[0].id

    in_b = paused(runner.resume, app, "A", {question: "x"}, write_to_checkpoint_id="B")
    in_c = paused(runner.resume, app, "A", {question: "y"}, write_to_checkpoint_id="C")
    assert (log_of(store, "B", depth), log_of(store, "C", depth)) == (["a", "x"], ["a", "y"])
    assert in_b.interrupts[0].id != in_c.interrupts[0].id
    assert sha(store, "A") == source
    other = sha(store, "C")
    assert runner.resume(app, "B", {in_b.interrupts[0].id: "x2"}) == "a,x,x2"
    assert (sha(store, "A"), sha(store, "C")) == (source, other)
    in_a = paused(runner.resume, app, "A", {question: "z"})
    assert log_of(store, "A", depth) == ["a", "z"]
    assert sha(store, "C") == other
    assert runner.resume(app, "C", {in_c.interrupts[0].id: "y2"}) == "a,y,y2"
    assert runner.resume(app, "A", {in_a.interrupts[0].id: "z2"}) == "a,z,z2"


def test_a_fork_of_a_fork(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F12: each fork names as parent the id it was read from and its digest then; going on with it keeps that."""
    app = chain("1", "2", "3", "4").compile(store=store, interrupt_before=["2", "3", "4"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    first = digest_of(blob_of(store, "A"))
    paused(runner.resume, app, "A", write_to_checkpoint_id="B")
    second = digest_of(blob_of(store, "B"))
    paused(runner.resume, app, "B", write_to_checkpoint_id="C")
    paused(runner.resume, app, "B")

    parents = {id: header_of(store, id).parent for id in ("B", "C")}
    assert {id: (parent.id, parent.digest) for id, parent in parents.items() if parent} == {
        "B": ("A", first),
        "C": ("B", second),
    }
    assert len({header_of(store, id).run_id for id in ("A", "B", "C")}) == 3


def test_forking_over_what_is_there(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F12: a fork is written over whatever was under its id, without reading that."""
    app = chain("1", "2", "3").compile(store=store, interrupt_before=["2", "3"], **mode)
    store.set("B", b"something else")
    paused(runner.invoke, app, "a", checkpoint_id="A")
    paused(runner.resume, app, "A", write_to_checkpoint_id="B")

    assert runner.resume(app, "B") == "a123"


@pytest.mark.parametrize("depth", [0, 1])
def test_forking_from_what_is_not_there(runner: Runner, mode: dict[str, Any], depth: int) -> None:
    """F13, P7: continuing or forking an id that is not stored is refused; nothing runs, nothing is written."""
    store, calls = TwoMethodStore(), Calls()
    app = wrapped(chain("1", "x", calls=calls, x=ask), depth).compile(store=store, **mode)

    for call, arguments, options in (
        (runner.invoke, ("a",), {"answers": {"q": "x"}, "checkpoint_id": "missing", "write_to_checkpoint_id": "B"}),
        (runner.invoke, (None,), {"checkpoint_id": "missing", "write_to_checkpoint_id": "B"}),
        (runner.invoke, ("a",), {"checkpoint_id": "missing", "answers": {"q": None}}),
        (runner.resume, ("missing", {"q": "x"}), {"write_to_checkpoint_id": "B"}),
        (runner.resume, ("missing",), {"answer": None}),
    ):
        error = refused(CheckpointNotFoundError, call, app, *arguments, **options)
        assert "'missing'" in str(error)
        assert "not found" in str(error)
        assert error.checkpoint_id == "missing"
    assert calls.order == []
    assert store.blobs == {}
    assert {method for method, _ in store.calls} == {"get"}


@pytest.mark.parametrize("other", [False, True], ids=["the same id", "another id"])
@pytest.mark.parametrize("where", ["node", "nested node", "pre-handler"])
def test_an_app_in_a_node_with_the_host_s_id(runner: Runner, mode: dict[str, Any], where: str, other: bool) -> None:
    """K15: an app called from a node may not use an id that the run round it holds, at any depth; another one it may."""
    store = MapStore()
    entered: list[str] = []
    inner = chain("1", **{"1": lambda text: entered.append(text) or ask(text)}).compile(store=store, name="inner")
    inner_id = "inner" if other else "B"

    def host(text: str, state: Any = None) -> str:
        return inner.invoke(text, checkpoint_id=inner_id)

    graph = Graph(str, str, state=Log)
    graph.add_node("h", ask if where == "pre-handler" else host, pre=host if where == "pre-handler" else None)
    graph.add_edge(START, "h")
    graph.add_edge("h", END)
    app = wrapped(graph, 1 if where == "nested node" else 0).compile(store=store, **mode)
    if other:
        stop = paused(runner.invoke, app, "a", write_to_checkpoint_id="B")
        assert stop.checkpoint_id == "B"
        assert sorted(store.list()) == ["B", "inner"]
        return
    error = refused(NodeError, runner.invoke, app, "a", write_to_checkpoint_id="B")
    assert isinstance(error.__cause__, OptionError)
    assert "'B'" in str(error)
    assert entered == []
    assert [*store.list()] == []


def test_the_host_s_ids_are_free_afterwards(runner: Runner, mode: dict[str, Any]) -> None:
    """K15: the refusal is about runs inside each other: the same two ids in another store, or one after the other, are fine."""
    inner = chain("1").compile(store=MapStore(), name="inner")
    app = chain("h", h=lambda text: inner.invoke(text, checkpoint_id="A")).compile(store=MapStore(), **mode)
    assert runner.invoke(app, "a", checkpoint_id="A") == "a1"

    store = MapStore()
    for _ in range(2):
        again = chain("1").compile(store=store, **mode)
        assert runner.invoke(again, "a", checkpoint_id="A") == "a1"


def test_an_app_without_an_id_that_stops_at_a_listed_node(runner: Runner, mode: dict[str, Any]) -> None:
    """P6: called from a stored run, it would start over and stop there for ever, so it is refused before it begins."""
    store, calls = TwoMethodStore(), Calls()
    inner = chain("i", calls=calls).compile(interrupt_after=["i"], name="inner")
    app = chain("h", h=inner.invoke).compile(store=store, **mode)
    error = refused(NodeError, runner.invoke, app, "a", checkpoint_id="A")

    assert isinstance(error.__cause__, OptionError)
    assert "'inner'" in str(error)
    assert calls.order == []
    assert store.blobs == {}
    assert str(paused(runner.invoke, app, "a").interrupts[0].address) == "runnable:root;node:h;runnable:inner"


def test_forks_of_a_run_round_an_app_with_its_own_id(runner: Runner, mode: dict[str, Any]) -> None:
    """F06: an app in a node keeps its own record, which is not forked with its host: a second answer is refused, not lost."""
    store, calls = MapStore(), Calls()
    inner = chain("x", "y", calls=calls, x=ask).compile(store=store, name="inner")
    app = chain("h", h=lambda text: inner.invoke(text, checkpoint_id="in")).compile(store=store, **mode)
    question = paused(runner.invoke, app, "a", checkpoint_id="A").interrupts[0].id
    before = sha(store, "A")
    assert runner.resume(app, "A", {question: "yes"}, write_to_checkpoint_id="B") == "ayesy"
    error = refused(NodeError, runner.resume, app, "A", {question: "no"}, write_to_checkpoint_id="C")

    assert isinstance(error.__cause__, CheckpointDoneError)
    assert "'in'" in str(error)
    assert calls["y"] == 1
    assert sha(store, "A") == before
    assert store.get("C") is None


def test_a_stored_run_goes_on_inside_another(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P2, B064: a run that stopped on its own and is gone on with from a node keeps its question's id, at its new address."""
    calls = Calls()
    inner = chain("1", "x", calls=calls, x=ask).compile(store=store, name="inner", **mode)
    alone = paused(runner.invoke, inner, "a", checkpoint_id="in").interrupts[0]
    app = chain("h", h=lambda text: inner.invoke(text, checkpoint_id="in")).compile(store=store, **mode)
    hosted = paused(runner.invoke, app, "b", checkpoint_id="A").interrupts[0]

    assert str(alone.address) == "runnable:inner;node:x"
    assert str(hosted.address) == "runnable:root;node:h;runnable:inner;node:x"
    assert hosted.id == alone.id
    assert runner.resume(app, "A", {hosted.id: "!"}) == "a1!"
    assert calls["1"] == 1
