"""Typed states: declared classes come back, what can't be stored is found early or with its path, bad values stay out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from drivers import Runner
from graphs import Calls, chain
from stored_runs import TwoMethodStore, checkpoint_of, paused, refused, sha

from blobcp import (
    END,
    START,
    CheckpointMismatchError,
    CheckpointSaveError,
    Graph,
    SerializationError,
    UnregisteredTypeError,
    interrupt,
    serializable,
    use_state,
)


class Order(pydantic.BaseModel):
    """A typed state, as a model."""

    id: int
    total: Decimal
    tags: set[str]


@dataclass
class OrderRecord:
    """A typed state, as a dataclass."""

    id: int
    total: Decimal
    tags: set[str]


@dataclass
class Jobs:
    """A state whose field says nothing of what is in it."""

    jobs: Any = None


@dataclass
class Locked:
    """A state that declares what can't be stored."""

    name: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Outer:
    """A state that declares it one level down."""

    parts: list[Locked] = field(default_factory=list)


@dataclass
class Items:
    """A state with a typed list."""

    items: list[str] = field(default_factory=list)


@serializable("tests.checkpoint.Part")
@dataclass
class Part:
    """A registered class; lists of it are registered nowhere."""

    number: int


def make_order() -> Order:
    """Return a fresh state."""
    return Order(id=7, total=Decimal("9.90"), tags={"x", "y"})


def make_record() -> OrderRecord:
    """Return a fresh state."""
    return OrderRecord(id=7, total=Decimal("9.90"), tags={"x", "y"})


def make_locked() -> Locked:
    """Return a fresh state."""
    return Locked()


@pytest.mark.parametrize("make", [make_order, make_record], ids=["pydantic", "dataclass"])
def test_each_way_of_loading_gives_the_declared_class(
    runner: Runner, mode: dict[str, Any], store: Any, make: Callable[[], Any]
) -> None:
    """F14: after a resume, a fork, and a resume of the fork, the nodes get the state in its class."""
    seen: list[Any] = []
    cls = type(make())

    def look(text: str) -> str:
        with use_state(cls) as state:
            seen.append((type(state).__name__, state.total, type(state.total), state.tags, type(state.tags)))
        return text

    app = chain("1", "2", "3", state=make, **{"2": look, "3": look}).compile(
        store=store, interrupt_before=["2", "3"], **mode
    )
    paused(runner.invoke, app, "a", checkpoint_id="A")
    paused(runner.invoke, app, "", checkpoint_id="A", write_to_checkpoint_id="B")
    assert type(runner.pending(app, "B")[0].info) is cls
    runner.resume(app, "B")
    paused(runner.resume, app, "A")

    assert seen == [(cls.__name__, Decimal("9.90"), Decimal, {"x", "y"}, set)] * 3


LEAVES: dict[str, tuple[Callable[[], Any], str]] = {
    "a lock": (lambda: [{"ok": 1}, {"lock": threading.Lock()}], "state.jobs[1].lock"),
    "a lambda": (lambda: {"deep": ({"f": lambda: 1},)}, "state.jobs.deep[0].f"),
    "a generator": (lambda: [(number for number in range(3))], "state.jobs[0]"),
    "an object": (lambda: {1: [object()]}, "state.jobs[1][0]"),
    "a class": (lambda: [Part], "state.jobs[0]"),
}


@pytest.mark.parametrize("what", list(LEAVES))
def test_a_save_that_fails_tells_the_path(runner: Runner, mode: dict[str, Any], what: str) -> None:
    """F17 (2): the error has the whole path to the leaf and its class; an older blob under the id stays as it was."""
    store = TwoMethodStore()
    make, path = LEAVES[what]

    def spoil(text: str) -> str:
        with use_state(Jobs) as state:
            state.jobs = make()
        return text

    app = chain("a", "b", "c", state=Jobs, b=spoil).compile(store=store, interrupt_after=["a", "b"], **mode)
    paused(runner.invoke, app, "", checkpoint_id="A")
    before = sha(store, "A")
    error = refused(CheckpointSaveError, runner.resume, app, "A")

    assert path in str(error)
    assert isinstance(error.__cause__, UnregisteredTypeError)
    assert error.__cause__.path == path
    assert error.__cause__.type is not None
    assert error.__cause__.type.__name__ in str(error)
    assert "'b'" in str(error)
    assert sha(store, "A") == before
    assert error.checkpoint.channels["end"].values == {}


def test_a_state_that_holds_itself(runner: Runner, mode: dict[str, Any]) -> None:
    """K35: a cycle in the state fails the save with the path, and does not recurse for ever."""
    store = TwoMethodStore()

    def tie(text: str) -> str:
        with use_state(Jobs) as state:
            state.jobs = [1, {"again": None}]
            state.jobs[1]["again"] = state.jobs
        return text

    app = chain("1", state=Jobs, **{"1": tie}).compile(store=store, interrupt_after=["1"], **mode)
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")

    assert isinstance(error.__cause__, SerializationError)
    assert error.__cause__.path == "state.jobs[1].again"
    assert store.blobs == {}


def test_a_list_of_a_registered_class(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """F17: where a class is registered, containers of it need no word of their own."""
    app = chain("1", "2", state=lambda: Jobs([Part(1), {"x": (Part(2),)}])).compile(
        store=store, interrupt_before=["2"], **mode
    )
    paused(runner.invoke, app, "a", checkpoint_id="A")

    assert checkpoint_of(store, "A").state == Jobs([Part(1), {"x": (Part(2),)}])


@pytest.mark.parametrize("state", [Locked, make_locked, Outer], ids=["a class", "a factory", "one level down"])
@pytest.mark.parametrize("nested", [0, 1, 2])
def test_a_declared_field_that_can_not_be_stored(mode: dict[str, Any], state: Any, nested: int) -> None:
    """F17 (1): a state that declares a lock is refused when compiling with a store, at any depth of graphs."""
    graph = chain("1", state=state)
    for _ in range(nested):
        graph = chain("s", s=graph)
    path = "state.parts[].lock" if state is Outer else "state.lock"

    with pytest.raises(UnregisteredTypeError) as caught:
        graph.compile(store=TwoMethodStore(), **mode)
    assert path in str(caught.value)


def test_checking_before_the_first_node(mode: dict[str, Any]) -> None:
    """F17 (1): ``app.check`` tells before a run that its input, or the state of some graph, could not be stored."""
    calls = Calls()
    graph = Graph(Any, Any)
    graph.add_node("s", chain("1", calls=calls, state=lambda: Jobs([object()])))
    graph.add_edge(START, "s")
    graph.add_edge("s", END)
    app = graph.compile(store=TwoMethodStore(), **mode)

    with pytest.raises(SerializationError) as caught:
        app.check({"a": [threading.Lock()]})
    assert caught.value.path == "input.a[0]"
    with pytest.raises(SerializationError) as caught:
        app.check("fine")
    assert "state.jobs[0]" in caught.value.path
    assert calls.order == []
    chain("1", state=Items).compile(store=TwoMethodStore(), **mode).check("fine")


@pytest.mark.parametrize("stop", ["after", "before", "asking"])
def test_a_bad_value_is_not_saved(runner: Runner, mode: dict[str, Any], stop: str) -> None:
    """F21: a state that breaks its declaration is refused at the save, naming the node; the last good blob can be gone on with."""
    store = TwoMethodStore()

    def bad(text: str) -> str:
        with use_state(Items) as state:
            state.items = None
        return text

    def good(text: str) -> str:
        with use_state(Items) as state:
            state.items.append("b")
        return text + "+".join(state.items)

    def ask(text: str) -> str:
        return text + str(interrupt("q") if stop == "asking" else "!")

    lists = {"interrupt_before": ["ask"]} if stop == "before" else {}
    after = ["a", "bad"] if stop == "after" else ["a"]

    def app(node: Callable[[str], str]) -> Any:
        return chain("a", "bad", "ask", state=Items, bad=node, ask=ask).compile(
            store=store, interrupt_after=after, **lists, **mode
        )

    paused(runner.invoke, app(bad), "", checkpoint_id="A")
    before = sha(store, "A")
    for _ in range(2):
        error = refused(CheckpointSaveError, runner.resume, app(bad), "A")
        assert "'bad'" in str(error)
        assert "state.items" in str(error)
        assert sha(store, "A") == before
    paused(runner.resume, app(good), "A")
    assert checkpoint_of(store, "A").state == Items(["b"])
    assert runner.resume(app(good), "A", **({"answer": "!"} if stop == "asking" else {})) == "ab!"


@pytest.mark.parametrize("factory", [False, True], ids=["a class", "a factory"])
def test_a_state_of_another_class(runner: Runner, mode: dict[str, Any], factory: bool) -> None:
    """F14: a blob whose state is of another class than the graph's is refused with both names, before any node runs."""
    store, calls = TwoMethodStore(), Calls()
    paused(
        runner.invoke,
        chain("1", "2", state=Items).compile(store=store, interrupt_before=["2"], **mode),
        "a",
        checkpoint_id="A",
    )
    before = sha(store, "A")
    other = chain("1", "2", calls=calls, state=(lambda: Jobs()) if factory else Jobs).compile(store=store, **mode)

    error = refused(CheckpointMismatchError, runner.resume, other, "A")
    assert "Items" in str(error)
    assert "Jobs" in str(error)
    assert calls.order == []
    assert sha(store, "A") == before


def test_a_state_where_there_is_none_and_none_where_there_is_one(runner: Runner, mode: dict[str, Any]) -> None:
    """F14: a graph that has lost its state, or has got one, can't take up the blob; the error says which."""
    calls = Calls()
    for written, loaded, words in ((Items, None, "which has none"), (None, Items, "holds no state")):
        store = TwoMethodStore()
        paused(
            runner.invoke,
            chain("1", "2", state=written).compile(store=store, interrupt_before=["2"], **mode),
            "a",
            checkpoint_id="A",
        )
        app = chain("1", "2", calls=calls, state=loaded).compile(store=store, **mode)
        assert words in str(refused(CheckpointMismatchError, runner.resume, app, "A"))
    assert calls.order == []


def test_a_question_with_state_of_an_unregistered_class(runner: Runner, mode: dict[str, Any]) -> None:
    """B124: what an interrupt keeps is refused like any value, with the question still told."""
    store = TwoMethodStore()
    app = chain("1", **{"1": lambda text: interrupt("q", object())}).compile(store=store, **mode)
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")

    assert [point.info for point in error.interrupts] == ["q"]
    assert isinstance(error.__cause__, UnregisteredTypeError)
    assert store.calls == [("get", "A")]
    assert paused(runner.invoke, app, "a").interrupts[0].info == "q"
