"""Saves that fail: a pause is only told of when it is stored, and nothing is lost when it could not be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from stored_runs import TwoMethodStore, blob_of, checkpoint_of, header_of, paused, refused

from blobcp import (
    App,
    CheckpointDoneError,
    CheckpointSaveError,
    Graph,
    MsgpackSerializer,
    NodeError,
    OptionError,
    Registry,
    interrupt,
)
from blobcp.stores import MapStore


@dataclass
class Log:
    """A graph's state."""

    log: list[Any] = field(default_factory=list)


class FailingStore(TwoMethodStore):
    """A store whose next writes fail.

    Attributes:
        failures: the exceptions to raise, one per call of ``set``.
    """

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        if self.failures:
            self.calls.append(("set", checkpoint_id))
            raise self.failures.pop(0)
        super().set(checkpoint_id, checkpoint)


def ask(text: str) -> str:
    """Ask once, give the text with the answer."""
    return text + str(interrupt("q"))


def wrapped(graph: Graph, depth: int) -> Graph:
    """Return a graph nested that deep in others."""
    for _ in range(depth):
        graph = chain("s", s=graph)
    return graph


@pytest.mark.parametrize("depth", [0, 1])
def test_a_save_that_fails_is_no_pause(runner: Runner, mode: dict[str, Any], depth: int) -> None:
    """F18, K31: the error says "not saved" and the id, has the cause and the questions, and enough to complete the save."""
    store, calls = FailingStore(OSError("disk full")), Calls()
    app = wrapped(chain("before", "x", calls=calls, x=ask), depth).compile(store=store, **mode)
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")

    assert "not saved" in str(error)
    assert "'A'" in str(error)
    assert "disk full" in str(error)
    assert isinstance(error.__cause__, OSError)
    assert [point.info for point in error.interrupts] == ["q"]
    assert (error.info.subgraphs if depth else error.info.rerun_nodes) != []
    assert store.blobs == {}
    store.set(error.checkpoint_id, error.blob)
    assert [point.id for point in runner.pending(app, "A")] == [point.id for point in error.interrupts]
    assert runner.resume(app, "A", {error.interrupts[0].id: "!"}) == "abefore!"
    assert calls["before"] == 1


def test_a_save_that_fails_the_second_time(runner: Runner, mode: dict[str, Any]) -> None:
    """F18: where a later save fails, what was stored before is still there and can be answered again."""
    store, calls = FailingStore(), Calls()
    app = chain("1", "x", "y", calls=calls, x=ask, y=ask).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="A")
    before = blob_of(store, "A")
    store.failures.append(OSError("disk full"))
    error = refused(CheckpointSaveError, runner.resume, app, "A", {stop.interrupts[0].id: "1"})

    assert blob_of(store, "A") == before
    again = paused(runner.resume, app, "A", {stop.interrupts[0].id: "2"})
    assert checkpoint_of(store, "A").inputs == {"y": "a12"}
    store.set(error.checkpoint_id, error.blob)
    assert again.interrupts[0].id != error.interrupts[0].id
    assert runner.resume(app, "A", {error.interrupts[0].id: "!"}) == "a11!"
    assert calls["1"] == 1


def test_a_fork_whose_save_fails(runner: Runner, mode: dict[str, Any]) -> None:
    """F18: the error of a fork is about the id it writes to, and that is where its blob belongs."""
    store = FailingStore()
    app = chain("x", "y", x=ask, y=ask).compile(store=store, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    before = blob_of(store, "A")
    store.failures.append(PermissionError("no"))
    error = refused(CheckpointSaveError, runner.resume, app, "A", answer="1", write_to_checkpoint_id="B")

    assert error.checkpoint_id == "B"
    store.set(error.checkpoint_id, error.blob)
    assert runner.resume(app, "B", answer="2") == "a12"
    assert blob_of(store, "A") == before


def test_a_done_mark_that_fails(runner: Runner, mode: dict[str, Any]) -> None:
    """F18: a finished run whose mark can't be written is an error that has the result."""
    store = FailingStore()
    app = chain("x", x=ask).compile(store=store, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    before = blob_of(store, "A")
    store.failures.append(OSError("disk full"))
    error = refused(CheckpointSaveError, runner.resume, app, "A", answer="!")

    assert (error.result, error.checkpoint_id, error.interrupts) == ("a!", "A", [])
    assert isinstance(error.__cause__, OSError)
    assert blob_of(store, "A") == before


def test_a_deletion_that_fails(runner: Runner, mode: dict[str, Any]) -> None:
    """F18: with ``when_done="delete"`` it is told likewise, and retrying it keeps the finished run from being resumed."""

    class Keeping(MapStore):
        def delete(self, checkpoint_id: str) -> None:
            raise OSError("read only")

    store = Keeping()
    app = chain("x", x=ask).compile(store=store, when_done="delete", **mode)
    paused(runner.invoke, app, "a", checkpoint_id="A")
    error = refused(CheckpointSaveError, runner.resume, app, "A", answer="!")
    assert (error.result, error.checkpoint_id) == ("a!", "A")
    assert isinstance(error.__cause__, OSError)
    retry_save(runner, app, error)

    assert header_of(store, "A").status == "done"
    refused(CheckpointDoneError, runner.resume, app, "A", answer="!")


def retry_save(runner: Runner, app: App, error: CheckpointSaveError, **options: Any) -> None:
    """Complete a save by the driver under test."""
    if runner.name == "sync":
        app.retry_save(error, **options)
    else:
        asyncio.run(app.aretry_save(error, **options))


def test_completing_a_save_that_the_store_refused(runner: Runner, mode: dict[str, Any]) -> None:
    """F18: ``retry_save`` stores the blob that the error holds; failing again it raises the same error again."""
    store, calls = FailingStore(OSError("disk full"), OSError("still full")), Calls()
    app = chain("before", "x", calls=calls, x=ask).compile(store=store, **mode)
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")
    again = refused(CheckpointSaveError, retry_save, runner, app, error)
    assert "still full" in str(again) + "".join(getattr(again, "__notes__", ()))
    assert store.blobs == {}
    retry_save(runner, app, again)

    assert store.blobs == {"A": error.blob}
    assert runner.resume(app, "A", {error.interrupts[0].id: "!"}) == "abefore!"
    assert calls["before"] == 1


def test_completing_a_save_that_could_not_be_encoded(runner: Runner, mode: dict[str, Any]) -> None:
    """F17, F18: once its class is registered, ``retry_save`` stores the checkpoint that the error holds, modified as ever."""

    class Late:
        """A class that is registered too late; a new one for each run of this test."""

        def __init__(self) -> None:
            self.number = 7

    store, registry = TwoMethodStore(), Registry()
    registry.add(Log)
    app = chain("x", state=lambda: Log([Late()]), x=ask).compile(
        store=store, serializer=MsgpackSerializer(registry), **mode
    )
    error = refused(CheckpointSaveError, runner.invoke, app, "a", checkpoint_id="A")
    refused(CheckpointSaveError, retry_save, runner, app, error)
    assert store.blobs == {}
    registry.add(Late, name="late")
    retry_save(runner, app, error, state_modifier=lambda path, state: state.log.append("modified"))

    assert len(error.checkpoint.state.log) == 1
    assert [point.id for point in runner.pending(app, "A")] == [point.id for point in error.interrupts]
    seen: list[Log] = []
    assert runner.resume(app, "A", answer="!", state_modifier=noting(seen)) == "a!"
    [late, modified] = seen[0].log
    assert (late.number, modified) == (7, "modified")


def noting(seen: list[Any]) -> Any:
    """Return a state modifier that keeps what it is given."""

    def note(path: list[str], state: Any) -> None:
        seen.append(state)

    return note


def test_there_must_be_something_to_complete(runner: Runner) -> None:
    """F18: an error that holds nothing can't be retried."""
    app = chain("x", x=ask).compile(store=MapStore())

    refused(OptionError, retry_save, runner, app, CheckpointSaveError("empty", checkpoint_id="A"))


def test_a_resumed_run_that_fails(runner: Runner, mode: dict[str, Any]) -> None:
    """B081: a resumed run that fails leaves what is stored, so that the same question can be answered again."""
    store = TwoMethodStore()

    def picky(text: str) -> str:
        answer = interrupt("q")
        if answer != "right":
            raise ValueError("wrong answer")
        return text + answer

    app = chain("1", "x", x=picky).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="A")
    before = blob_of(store, "A")
    for _ in range(2):
        error = refused(NodeError, runner.resume, app, "A", {stop.interrupts[0].id: "left"})
        assert error.path == ["x"]
        assert blob_of(store, "A") == before
    assert store.calls.count(("set", "A")) == 1
    assert runner.resume(app, "A", {stop.interrupts[0].id: "right"}) == "a1right"
