"""Stores and serializers that behave oddly: nothing passes for stored that is not, nothing hangs, nothing comes out bare."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from drivers import Runner
from graphs import chain
from stored_runs import TwoMethodStore, refused

from blobcp import CheckpointError, CheckpointSaveError, Graph, Interrupted, StoreError, interrupt
from blobcp.stores import MapStore


def asking() -> Graph:
    """Return a graph whose one node asks."""
    return chain("ask", ask=lambda text: text + interrupt("q"))


class AsyncStore:
    """A store whose methods are to be awaited."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def get(self, checkpoint_id: str) -> bytes | None:
        return self.blobs.get(checkpoint_id)

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.blobs[checkpoint_id] = checkpoint


def traced(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method as tracing libraries do; that it is async can't be seen any more."""

    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        return method(*arguments)

    return call


class Traced(AsyncStore):
    get = traced(AsyncStore.get)
    set = traced(AsyncStore.set)


@pytest.mark.parametrize("options", [{"force_new_run": True}, {}], ids=["force_new_run", "plain"])
def test_a_store_that_hides_that_it_is_async(runner: Runner, options: dict[str, Any]) -> None:
    """F18: what a store gives to await is awaited, or refused; a run never says that it is stored when it is not."""
    store = Traced()
    app = asking().compile(store=store)
    if runner.name == "async":
        with pytest.raises(Interrupted):
            runner.invoke(app, "x", checkpoint_id="1", **options)
        assert list(store.blobs) == ["1"]
    else:
        error = refused(
            CheckpointSaveError if options else StoreError, runner.invoke, app, "x", checkpoint_id="1", **options
        )
        assert "ainvoke" in str(error)
        assert store.blobs == {}


class Raising(TwoMethodStore):
    """A store of which one method raises what it is given."""

    def __init__(self, method: str, error: BaseException) -> None:
        super().__init__()
        self.method = method
        self.error = error

    def get(self, checkpoint_id: str) -> bytes | None:
        if self.method == "get":
            raise self.error
        return super().get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        if self.method == "set":
            raise self.error
        super().set(checkpoint_id, checkpoint)


@pytest.mark.parametrize("error", [StopIteration(), asyncio.CancelledError()], ids=["StopIteration", "CancelledError"])
@pytest.mark.parametrize("method", ["get", "set"])
def test_exceptions_that_mean_something_to_a_driver(runner: Runner, method: str, error: BaseException) -> None:
    """F18, F25: a StopIteration or a cancellation that a store itself brought about is an ordinary failure of the store."""
    app = asking().compile(store=Raising(method, error))
    wanted = StoreError if method == "get" else CheckpointSaveError
    caught = refused(wanted, runner.invoke, app, "x", checkpoint_id="1")

    assert caught.__cause__ is error or caught.__cause__.__cause__ is error
    if method == "set":
        assert [point.info for point in caught.interrupts] == ["q"]


@pytest.mark.parametrize("changed", [{"n": 1}, False, 5], ids=repr)
def test_a_state_modifier_that_gives_another_class(runner: Runner, changed: Any) -> None:
    """F21, P3: a modified state of another class is not saved, since it could not be loaded; the last good blob stays."""
    store = MapStore()
    graph = Graph(str, str, state=list)
    graph.add_node("ask", lambda text: text + interrupt("q") + interrupt("r"))
    graph.add_edge("start", "ask")
    graph.add_edge("ask", "end")
    app = graph.compile(store=store)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="1")
    before = store.get("1")
    seen: list[Any] = []

    def modifier(path: list[str], state: Any) -> Any:
        seen.append(state)
        return None if len(seen) == 1 else changed

    error = refused(CheckpointSaveError, runner.resume, app, "1", answer="y", state_modifier=modifier)
    assert isinstance(error.__cause__, CheckpointError)
    assert f"gave {type(changed).__qualname__}" in str(error)
    assert store.get("1") == before


def test_a_serializer_that_does_not_give_bytes(runner: Runner) -> None:
    """B126: a serializer whose `dumps` gives text is told so, by the early check as well."""

    class Text:
        name = "text"

        def dumps(self, value: Any) -> Any:
            return "text"

        def loads(self, data: Any) -> Any:
            return data

    app = asking().compile(store=TwoMethodStore(), serializer=Text())
    error = refused(CheckpointSaveError, runner.invoke, app, "x", checkpoint_id="1")

    assert "gave str; dumps must return bytes" in str(error)
    with pytest.raises(Exception, match="gave str; dumps must return bytes"):
        app.check("x")


def test_a_kept_input_that_can_not_be_read_back(runner: Runner) -> None:
    """F18: where an input that was kept can't be read back, the error still holds the checkpoint, the info and the points."""

    class Forgetful:
        name = "forgetful"

        def dumps(self, value: Any) -> bytes:
            return b"something"

        def loads(self, data: Any) -> Any:
            raise ValueError("no")

    graph = Graph(list, str)
    graph.add_node("ask", lambda value: interrupt("q"))
    graph.add_edge("start", "ask")
    graph.add_edge("ask", "end")
    error = refused(
        CheckpointSaveError,
        runner.invoke,
        graph.compile(store=TwoMethodStore(), serializer=Forgetful()),
        [1],
        checkpoint_id="1",
    )

    assert error.checkpoint is not None
    assert error.checkpoint.inputs == {"ask": [1]}
    assert error.info is not None
    assert error.info.rerun_nodes == ["ask"]
    assert [point.info for point in error.interrupts] == ["q"]


def test_completing_a_save_twice() -> None:
    """F27: a save that was completed already is not a conflict with itself."""

    class Full(MapStore):
        full = True

        def set(self, checkpoint_id: str, checkpoint: Any) -> None:
            if self.full:
                raise OSError("disk full")
            super().set(checkpoint_id, checkpoint)

    store = Full()
    app = asking().compile(store=store)
    with pytest.raises(CheckpointSaveError) as caught:
        app.invoke("x", checkpoint_id="1")
    store.full = False
    app.retry_save(caught.value)
    app.retry_save(caught.value)

    assert app.resume("1", answer="y") == "xy"
