"""Two runs that go on from one stop: where the store can compare and set, one wins and the other is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from drivers import Runner
from graphs import chain
from stored_runs import TwoMethodStore, header_of, sha

from blobcp import END, START, CheckpointConflictError, CheckpointSaveError, Graph, Interrupted, interrupt
from blobcp.stores import MapStore

LIMIT = 30
"""Seconds that a run waits for its rival."""


class AsyncMapStore:
    """An async store that can compare and set."""

    def __init__(self) -> None:
        self.inner = MapStore()

    async def get(self, checkpoint_id: str) -> bytes | None:
        return self.inner.get(checkpoint_id)

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.inner.set(checkpoint_id, checkpoint)

    async def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        return self.inner.get_versioned(checkpoint_id)

    async def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        return self.inner.set_if(checkpoint_id, checkpoint, version)


def asking(meet: Callable[[], Any], *, again: bool = False) -> Graph:
    """Return a graph that asks, meets its rival once it is answered, and then finishes or asks again."""

    def ask(text: str) -> str:
        answer = interrupt("q")
        meet()
        return text + answer + (interrupt("more?") if again else "")

    return chain("ask", ask=ask)


def rivals(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls at the same time and return what each gave or raised."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Interrupted, CheckpointConflictError) as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


@pytest.mark.parametrize("again", [False, True], ids=["finish", "stop again"])
@pytest.mark.parametrize("same", [False, True], ids=["different answers", "equal answers"])
def test_one_of_two_answers_wins(runner: Runner, mode: dict[str, Any], again: bool, same: bool) -> None:
    """F26: of two that answer one stop at the same time, one wins, and the other is refused with `conflict`, 20 times."""
    store = MapStore()
    meeting = threading.Barrier(2)
    app = asking(lambda: meeting.wait(LIMIT), again=again).compile(store=store, **mode)
    names = ["yes", "yes"] if same else ["yes", "no"]
    for _ in range(20):
        with pytest.raises(Interrupted):
            runner.invoke(app, "x", checkpoint_id="A", force_new_run=True)
        got = rivals(*(partial(runner.resume, app, "A", answer=name) for name in names))

        lost = [outcome for outcome in got if isinstance(outcome, CheckpointConflictError)]
        [won] = [outcome for outcome in got if outcome not in lost]
        assert len(lost) == 1
        assert "conflict: checkpoint 'A'" in str(lost[0])
        assert lost[0].checkpoint_id == "A"
        if again:
            assert [point.info for point in won.interrupts] == ["more?"]
            assert [point.id for point in runner.pending(app, "A")] == [point.id for point in won.interrupts]
        else:
            assert won in ("xyes", "xno")
            assert header_of(store, "A").status == "done"


def test_an_async_store_that_can_compare_and_set() -> None:
    """F26: the same holds for an async store."""
    store = AsyncMapStore()
    meeting = asyncio.Barrier(2)

    async def ask(text: str) -> str:
        answer = interrupt("q")
        await asyncio.wait_for(meeting.wait(), LIMIT)
        return text + answer

    app = chain("ask", ask=ask).compile(store=store)

    async def both() -> list[Any]:
        with pytest.raises(Interrupted):
            await app.ainvoke("x", checkpoint_id="A")
        answers = (app.aresume("A", answer=answer) for answer in ("1", "2"))
        return await asyncio.gather(*answers, return_exceptions=True)

    got = asyncio.run(both())
    assert sorted(type(outcome).__name__ for outcome in got) == ["CheckpointConflictError", "str"]


def test_a_first_stop_that_somebody_else_made_meanwhile(runner: Runner, mode: dict[str, Any]) -> None:
    """A fresh run that found nothing does not replace a stop that another run has stored under the id since."""
    store = MapStore()

    def node(text: str) -> str:
        store.set("A", b"of somebody else")
        return interrupt("q")

    app = chain("node", node=node).compile(store=store, **mode)
    with pytest.raises(CheckpointConflictError, match="conflict"):
        runner.invoke(app, "x", checkpoint_id="A")

    assert store.get("A") == b"of somebody else"


@pytest.mark.parametrize(
    "options",
    [{"checkpoint_id": "A", "force_new_run": True}, {"write_to_checkpoint_id": "A"}],
    ids=["force_new_run", "write_to alone"],
)
def test_what_is_meant_to_replace_replaces(runner: Runner, options: dict[str, Any]) -> None:
    """B129, B128: a run that was not to read what is stored replaces it, whoever wrote it."""
    store = MapStore()

    def node(text: str) -> str:
        store.set("A", b"of somebody else")
        return interrupt("q")

    app = chain("node", node=node).compile(store=store)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", **options)

    assert header_of(store, "A").status == "interrupted"


def test_forks_do_not_conflict_with_their_source(runner: Runner) -> None:
    """F06: a fork goes its way whatever happens to its source meanwhile."""
    store = MapStore()
    moved: list[str] = []

    def ask(text: str) -> str:
        answer = interrupt("q")
        if answer == "fork":
            moved.append(sha(store, "A"))
            store.set("A", store.get("A") or b"")
        return text + answer

    app = chain("ask", ask=ask).compile(store=store)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="A")

    assert runner.resume(app, "A", answer="fork", write_to_checkpoint_id="B") == "xfork"
    assert runner.resume(app, "A", answer="late") == "xlate"
    assert len(moved) == 1


def test_a_conflict_before_a_delete_deletes_nothing(runner: Runner) -> None:
    """F26 with `when_done="delete"`: the loser does not delete what the winner has stored."""
    store = MapStore()

    def ask(text: str) -> str:
        answer = interrupt("q")
        store.set("A", b"the winner's")
        return text + answer

    app = chain("ask", ask=ask).compile(store=store, when_done="delete")
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="A")
    with pytest.raises(CheckpointConflictError):
        runner.resume(app, "A", answer="y")

    assert store.get("A") == b"the winner's"


@pytest.mark.parametrize("encoding", [False, True], ids=["the store fails", "encoding fails"])
def test_a_save_that_is_completed_too_late(encoding: bool) -> None:
    """A failed save that is tried again does not replace what somebody else has stored since."""

    class Failing(MapStore):
        broken = True

        def set(self, checkpoint_id: str, checkpoint: Any) -> None:
            if self.broken and not encoding:
                raise OSError("disk full")
            super().set(checkpoint_id, checkpoint)

    store = Failing()
    graph = Graph(Any, Any)
    graph.add_node("ask", lambda value: interrupt(threading.Lock() if encoding else "q"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    app = graph.compile(store=store)
    with pytest.raises(CheckpointSaveError) as caught:
        app.invoke("x", checkpoint_id="A")
    store.broken = False
    store.set("A", b"of somebody else")
    if encoding:
        assert caught.value.checkpoint is not None
        for record in caught.value.checkpoint.interrupt_id_to_state.values():
            record.info = None
    with pytest.raises(CheckpointConflictError):
        app.retry_save(caught.value)

    assert store.get("A") == b"of somebody else"


def test_a_store_with_two_methods_takes_the_last_writer(runner: Runner) -> None:
    """F26: a user's own store with `get` and `set` works as before; keeping rivals apart is then the user's duty."""
    store = TwoMethodStore()
    meeting = threading.Barrier(2)
    app = asking(lambda: meeting.wait(LIMIT)).compile(store=store)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="A")
    got = rivals(*(partial(runner.resume, app, "A", answer=name) for name in ("1", "2")))

    assert sorted(got) == ["x1", "x2"]
