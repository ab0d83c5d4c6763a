"""The serializer an app is compiled with: what it is used for, what can't be stored, what the user is told of it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from stored_runs import TwoMethodStore, header_of, paused, refused, sha

from blobcp import (
    END,
    START,
    CheckpointMismatchError,
    CheckpointSaveError,
    Graph,
    MsgpackSerializer,
    OptionError,
    RegistrationError,
    Registry,
    SerializationError,
    UnregisteredTypeError,
    interrupt,
    serializable,
)


class Stranger:
    """A class that nobody registered and no annotation mentions."""


@serializable("tests.checkpoint.Plain")
@dataclass
class Plain:
    """A state."""

    a: str = ""


@dataclass
class Other:
    """A state of another class."""

    a: str = ""


@dataclass
class Jobs:
    """A state whose field says nothing of what is in it."""

    jobs: Any = None


class Noting:
    """A serializer of the user's: the default one in other words, which notes what it is used for."""

    name = "noting"

    def __init__(self) -> None:
        self._inner = MsgpackSerializer()
        self.calls: list[str] = []

    def dumps(self, value: Any) -> bytes:
        self.calls.append("dumps")
        return b"noted:" + self._inner.dumps(value)

    def loads(self, data: bytes | memoryview) -> Any:
        self.calls.append("loads")
        assert bytes(data[:6]) == b"noted:"
        return self._inner.loads(data[6:])


class Broken(Noting):
    """A serializer that fails in one of its methods from some moment on."""

    name = "broken"

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method: str | None = method

    def dumps(self, value: Any) -> bytes:
        if self.method == "dumps":
            raise KeyError("no such thing")
        return super().dumps(value)

    def loads(self, data: bytes | memoryview) -> Any:
        if self.method == "loads":
            raise KeyError("no such thing")
        return super().loads(data)


def ask(text: str) -> str:
    """Ask once, give the text with the answer."""
    return text + str(interrupt("q"))


def test_a_class_nobody_registered(runner: Runner, mode: dict[str, Any]) -> None:
    """B124: it can't be stored: the error names class and path, nothing is written, and the stop is not lost."""
    store = TwoMethodStore()
    app = chain("1", "2", state=lambda: Jobs([Stranger()])).compile(store=store, interrupt_before=["2"], **mode)
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")

    assert "state.jobs[0]" in str(error)
    assert "Stranger" in str(error)
    assert isinstance(error.__cause__, UnregisteredTypeError)
    assert (error.__cause__.path, error.__cause__.type) == ("state.jobs[0]", Stranger)
    assert (error.checkpoint_id, error.blob) == ("A", None)
    assert error.checkpoint is not None
    assert error.checkpoint.inputs == {"2": "a1"}
    assert [str(point.address) for point in error.interrupts] == ["runnable:root"]
    assert error.info.before_nodes == ["2"]
    assert store.calls == [("get", "A")]


def test_the_same_class_without_an_id(runner: Runner, mode: dict[str, Any]) -> None:
    """B124, B126, K28: without a checkpoint id the same run stops normally, and shows the state."""
    state = Jobs([Stranger()])
    app = chain("1", "2", state=lambda: state).compile(store=TwoMethodStore(), interrupt_before=["2"], **mode)
    stop = paused(runner.invoke, app, "a")

    assert stop.checkpoint_id is None
    assert type(stop.info.state.jobs[0]) is Stranger
    assert stop.info.state is not state
    assert stop.interrupts[0].info is stop.info.state


def test_a_state_that_can_not_be_copied(runner: Runner, mode: dict[str, Any]) -> None:
    """K28: a state that can't even be copied (it holds a lock) stops the run as well, where nothing is to be stored."""
    state = Jobs(threading.Lock())
    app = chain("1", "2", state=lambda: state).compile(interrupt_before=["2"], **mode)

    assert paused(runner.invoke, app, "a").info.before_nodes == ["2"]


def test_a_class_registered_twice() -> None:
    """B124: one name for two classes, or two names for one class, is an error."""
    registry = Registry()
    registry.add(Plain, name="one")

    with pytest.raises(RegistrationError, match="one"):
        registry.add(Other, name="one")
    with pytest.raises(RegistrationError, match="two"):
        registry.add(Plain, name="two")


def test_the_given_serializer_saves_and_loads(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B126: a serializer given to compile writes the blob and reads it, for a listed and for a rerun node."""
    serializer = Noting()
    before = chain("1", "2").compile(store=store, serializer=serializer, interrupt_before=["1"], **mode)
    paused(runner.invoke, before, "a", checkpoint_id="A")
    assert serializer.calls == ["dumps"]
    assert header_of(store, "A").serializer == "noting"
    assert runner.resume(before, "A") == "a12"
    assert serializer.calls == ["dumps", "loads"]

    rerun = chain("1", "2", **{"1": ask}).compile(store=store, serializer=serializer, **mode)
    paused(runner.invoke, rerun, "", checkpoint_id="B")
    assert runner.resume(rerun, "B", answer="1") == "12"


def test_a_blob_of_another_serializer(runner: Runner, mode: dict[str, Any]) -> None:
    """B126: a blob that another serializer wrote is refused, whichever way round, with both names and the id."""
    store, calls = TwoMethodStore(), Calls()

    def app(serializer: Any) -> Any:
        return chain("1", "2", calls=calls).compile(store=store, serializer=serializer, interrupt_before=["2"], **mode)

    for writer, reader, names in ((Noting(), None, ("noting", "msgpack")), (None, Noting(), ("msgpack", "noting"))):
        paused(runner.invoke, app(writer), "a", checkpoint_id="A", force_new_run=True)
        before, entered = sha(store, "A"), len(calls.order)
        for call in (runner.resume, runner.pending):
            error = refused(CheckpointMismatchError, call, app(reader), "A")
            assert all(repr(name) in str(error) for name in names)
            assert error.checkpoint_id == "A"
        assert sha(store, "A") == before
        assert len(calls.order) == entered


@pytest.mark.parametrize("value", ["a", {"text": ["a"]}], ids=["text", "a dict"])
@pytest.mark.parametrize("method", ["dumps", "loads"])
@pytest.mark.parametrize("modified", [False, True], ids=["", "state_modifier"])
def test_a_serializer_that_fails_at_a_save(
    runner: Runner, mode: dict[str, Any], method: str, value: Any, modified: bool
) -> None:
    """K31: whatever a serializer raises while a stop is stored, the stop is not lost, and no bare exception comes out."""
    store = TwoMethodStore()
    graph = Graph(Any, Any, state=Plain)
    graph.add_node("1", lambda value: interrupt("q"))
    graph.add_edge(START, "1")
    graph.add_edge("1", END)
    app = graph.compile(store=store, serializer=Broken(method), **mode)
    options = {"state_modifier": lambda path, state: state} if modified else {}
    if method == "loads" and value == "a" and not modified:
        assert paused(runner.invoke, app, value, checkpoint_id="A").checkpoint_id == "A"
        return
    error = refused(CheckpointSaveError, runner.invoke, app, value, checkpoint_id="A", **options)

    assert [point.info for point in error.interrupts] == ["q"]
    assert str(error.interrupts[0].address) == "runnable:root;node:1"
    assert error.checkpoint_id == "A"
    assert "KeyError" in str(error)
    assert store.calls == [("get", "A")]


def test_a_serializer_that_fails_at_a_load(runner: Runner, mode: dict[str, Any]) -> None:
    """B126: whatever a serializer raises while loading is an error of ours with the id; the blob stays."""
    store, serializer = TwoMethodStore(), Broken("none")
    calls = Calls()
    app = chain("1", "2", calls=calls).compile(store=store, serializer=serializer, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    before = sha(store, "A")
    serializer.method = "loads"

    for call in (runner.resume, runner.pending):
        error = refused(SerializationError, call, app, "A")
        assert "'A'" in str(error) + "".join(getattr(error, "__notes__", ()))
        assert isinstance(error.__cause__, KeyError)
    assert calls.order == ["1"]
    assert sha(store, "A") == before
    serializer.method = None
    assert runner.resume(app, "A") == "a12"


@pytest.mark.parametrize("loaded", [{"a": 1}, None, [], "text"], ids=["a dict", "None", "a list", "text"])
def test_a_serializer_that_gives_something_else(runner: Runner, loaded: Any) -> None:
    """B125: bytes that decode to something else than a checkpoint are refused, not taken for an empty one."""

    class Json:
        name = "json"

        def dumps(self, value: Any) -> bytes:
            return json.dumps(loaded).encode()

        def loads(self, data: bytes | memoryview) -> Any:
            return json.loads(bytes(data))

    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2", calls=calls).compile(store=store, serializer=Json(), interrupt_before=["2"])
    paused(runner.invoke, app, "a", checkpoint_id="A")

    with pytest.raises(Exception, match="'A' is corrupt"):
        runner.resume(app, "A")
    assert calls.order == ["1"]


def test_data_of_another_class_for_a_graph(runner: Runner, mode: dict[str, Any]) -> None:
    """K22: data for a graph's own point must be of its state's class; else it is refused before anything runs."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2", calls=calls, state=Plain).compile(store=store, interrupt_before=["2"], **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="A")
    before = sha(store, "A")

    for data in (Other("x"), "text", None, {"a": "x"}, Plain):
        error = refused(OptionError, runner.resume, app, "A", {stop.interrupts[0].id: data})
        assert "Plain" in str(error)
    assert calls.order == ["1"]
    assert sha(store, "A") == before
    assert store.calls.count(("set", "A")) == 1
    assert runner.resume(app, "A", {stop.interrupts[0].id: Plain("x")}) == "a12"
