"""Field reports in stream runs: what people lost elsewhere, with nodes that ask out of streams and a resume in a new process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls, chain
from pausing import ids, solo
from shaped import fewer_modes, flowing, go, halted, shapes
from streaming_program import build, entries, goes_on

from blobcp import BlobcpError, CheckpointDoneError, CheckpointNotFoundError, interrupt
from blobcp.stores import MapStore

__all__ = ["fewer_modes"]

elsewhere = pytest.mark.parametrize(
    ("runner", "shape"), [(SyncRunner(), "stream"), (AsyncRunner(), "collect")], ids=["sync-stream", "async-collect"]
)


def sha(store: Any, checkpoint_id: str) -> str:
    """Return what tells one blob from another."""
    return hashlib.sha256(store.get(checkpoint_id)).hexdigest()


def stopped_in(folder: Path, name: str, runner: Runner, shape: str) -> str:
    """Start a run of the program here and return the id of its one question."""
    (point,) = halted(runner, shape, build(folder, name), "", checkpoint_id="A").interrupts
    return point.id


def elsewhere_done(folder: Path, name: str, runner: Runner, shape: str, question: str, answer: Any) -> Any:
    """Answer in a new process and return the result."""
    done = goes_on(folder, name, runner.name, shape, {question: answer})
    assert done["waiting"] == {}
    return done["result"]


@elsewhere
@pytest.mark.parametrize("depth", [pytest.param(2, marks=pytest.mark.soak), 3])
def test_a_place_in_a_nested_graph(runner: Runner, shape: str, tmp_path: Path, depth: int) -> None:
    """F07: a question out of a stream two or three levels down is answered elsewhere; no step before it runs again."""
    question = stopped_in(tmp_path, f"levels-{depth}", runner, shape)

    result = elsewhere_done(tmp_path, f"levels-{depth}", runner, shape, question, "yes")
    assert result == "o1p1p2yesp3o2"
    assert entries(tmp_path) == ["ask", "ask", "o1", "o2", "p1", "p2", "p3"]


@elsewhere
def test_an_input_as_it_was(runner: Runner, shape: str, tmp_path: Path) -> None:
    """F08: a streaming node that had changed its input sees it elsewhere as it was on its first entry."""
    question = stopped_in(tmp_path, "input", runner, shape)

    assert elsewhere_done(tmp_path, "input", runner, shape, question, 4) == [1, 2, 3, 4]
    assert entries(tmp_path) == ["src", "w[1, 2]", "w[1, 2]"]


@elsewhere
@pytest.mark.parametrize("name", ["left-third", "right", pytest.param("left", marks=pytest.mark.soak)])
def test_a_join(runner: Runner, shape: str, tmp_path: Path, name: str) -> None:
    """F09: a join whose one parent asks out of its stream runs once, with both; the parent that ended runs once."""
    asker = name.partition("-")[0]
    question = stopped_in(tmp_path, name, runner, shape)

    result = elsewhere_done(tmp_path, name, runner, shape, question, "?")
    other = "right" if asker == "left" else "left"
    assert result == {asker: f"{asker}?", other: f"{other}!"}
    assert entries(tmp_path) == sorted([asker, asker, other, "join"])


@shapes
def test_one_pause_two_answers(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """F06, F12: what becomes of a stored pause depends on the answer alone; forks see neither their source nor each other."""

    def ask(text: str) -> Iterator[str]:
        yield text
        yield interrupt("q")

    calls, store = Calls(), MapStore()
    app = chain("a", "ask", "again", "b", a=flowing("a", calls), ask=ask, again=ask).compile(store=store, **mode)
    question = halted(runner, shape, app, "", checkpoint_id="A").interrupts[0].id
    before = sha(store, "A")
    for fork, answer in (("B", "x"), ("C", "y"), ("D", "x")):
        stop = halted(runner, shape, app, checkpoint_id="A", write_to_checkpoint_id=fork, answers={question: answer})
        assert stop.interrupts[0].id != question
        assert sha(store, "A") == before
    in_c = sha(store, "C")
    for fork, expected in (("B", "ax!b"), ("D", "ax!b")):
        (point,) = runner.pending(app, fork)
        assert go(runner, shape, app, checkpoint_id=fork, answers={point.id: "!"}) == expected
    assert (sha(store, "A"), sha(store, "C")) == (before, in_c)
    halted(runner, shape, app, checkpoint_id="A", answers={question: "z"})
    (last,) = runner.pending(app, "A")
    assert go(runner, shape, app, checkpoint_id="A", answers={last.id: "?"}) == "az?b"
    assert calls["a"] == 1


@shapes
def test_a_finished_run_is_not_begun_again(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """F10, F13: answers to a stream run that has finished, or that never was, are refused, and nothing runs."""
    calls = Calls()

    def ask(text: str) -> Iterator[str]:
        calls.note("ask")
        yield text
        yield interrupt("q")

    app = chain("a", "ask", "b", a=flowing("a", calls), ask=ask, b=flowing("b", calls)).compile(
        store=MapStore(), **mode
    )
    question = halted(runner, shape, app, "", checkpoint_id="A").interrupts[0].id
    assert go(runner, shape, app, checkpoint_id="A", answers={question: "!"}) == "a!b"
    for answers in ({question: "again"}, {"never": "was"}):
        with pytest.raises(CheckpointDoneError, match=r"A.*finished"):
            go(runner, shape, app, checkpoint_id="A", answers=answers)
    with pytest.raises(CheckpointNotFoundError, match="not found"):
        go(runner, shape, app, checkpoint_id="never", answers={question: "x"})
    assert dict(calls.count) == {"a": 1, "ask": 2, "b": 1}


@shapes
def test_a_renamed_node(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """F22: a stream run whose waiting node is gone from the graph is refused by name, and its blob stays."""

    def ask(text: str) -> Iterator[str]:
        yield text
        yield interrupt("q")

    store = MapStore()
    halted(runner, shape, chain("a", "approve", approve=ask).compile(store=store, **mode), "", checkpoint_id="A")
    before = sha(store, "A")
    renamed = chain("a", "approval", approval=ask).compile(store=store, **mode)

    with pytest.raises(BlobcpError, match=r"approve.*approval"):
        go(runner, shape, renamed, checkpoint_id="A")
    assert sha(store, "A") == before


COLOURS = {"circle": "red", "square": "green", "triangle": "blue"}


async def gathered(_: Any) -> AsyncIterator[list[str]]:
    """Ask for three colours side by side out of a stream, each after some turns of the loop."""

    async def ask(name: str, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"{name}:{interrupt(name)}"

    yield []
    yield await asyncio.gather(*(ask(name, turns) for turns, name in enumerate(COLOURS)))


@pytest.mark.parametrize("shape", ["invoke", "stream", "collect"])
def test_gathered_questions_are_told_apart(mode: dict[str, Any], shape: str) -> None:
    """F01: questions that one streaming body asks side by side have ids of their own; each answer finds its asker."""
    runner, found = AsyncRunner(), {}
    app = solo(gathered).compile(store=MapStore(), **mode)
    stop = halted(runner, shape, app, "", checkpoint_id="A")
    for _ in COLOURS:
        found.update(ids(stop))
        answers = {point.id: COLOURS[point.info] for point in stop.interrupts}
        if len(found) == len(COLOURS):
            break
        stop = halted(runner, shape, app, checkpoint_id="A", answers=answers)

    assert set(found) == set(COLOURS)
    assert len(set(found.values())) == 3
    expected = [f"{name}:{colour}" for name, colour in COLOURS.items()]
    assert go(runner, shape, app, checkpoint_id="A", answers=answers) == expected


async def asked_together(_: Any) -> AsyncIterator[list[str]]:
    """Ask for three colours side by side out of a stream, all at once."""

    async def ask(name: str) -> str:
        return f"{name}:{interrupt(name)}"

    yield []
    yield await asyncio.gather(*map(ask, COLOURS))


@pytest.mark.parametrize("shape", ["invoke", "stream", "collect"])
def test_questions_asked_together_are_told_together(mode: dict[str, Any], shape: str) -> None:
    """F01: a stop tells all the questions that a streaming body asked side by side."""
    app = solo(asked_together).compile(store=MapStore(), **mode)

    assert set(ids(halted(AsyncRunner(), shape, app, "", checkpoint_id="A"))) == set(COLOURS)
