"""Stream runs leave nothing behind, however they end, and can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE
from drivers import Runner
from graphs import Calls, appending, chain
from stream_runs import LIMIT, run
from streaming import Background, passing, record_of
from wiring import wire

from blobcp import (
    CancelToken,
    CheckpointSaveError,
    Graph,
    Interrupted,
    NodeError,
    OutsideNodeError,
    StreamReader,
    current_address,
    interrupt,
    use_state,
)
from blobcp.stores import MapStore


class Watched:
    """Nodes that note when they are entered and left."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.closed: list[str] = []

    def source(self, value: str) -> Iterator[str]:
        self.open.append("source")
        try:
            for number in range(1000):
                yield f"{value}{number}"
        finally:
            self.closed.append("source")

    def passing(self, chunks: StreamReader[str]) -> Iterator[str]:
        self.open.append("passing")
        try:
            yield from chunks
        finally:
            self.closed.append("passing")

    async def asource(self, value: str) -> AsyncIterator[str]:
        self.open.append("source")
        try:
            for number in range(1000):
                yield f"{value}{number}"
        finally:
            await asyncio.sleep(0)
            self.closed.append("source")

    async def apassing(self, chunks: StreamReader[str]) -> AsyncIterator[str]:
        self.open.append("passing")
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await asyncio.sleep(0)
            self.closed.append("passing")


@pytest.mark.parametrize("stored", [False, True])
def test_a_run_that_is_closed_early(mode: dict[str, Any], stored: bool) -> None:
    """Closing the output closes all that is open, and stores nothing."""
    watched, store = Watched(), MapStore()
    app = chain("1", "2", "3", **{"1": watched.source, "2": watched.passing, "3": watched.passing}).compile(
        store=store, **mode
    )

    reader = app.stream("x", **({"checkpoint_id": "run"} if stored else {}))
    assert next(reader) == "x0"
    reader.close()

    assert sorted(watched.closed) == ["passing", "passing", "source"]
    assert store.get("run") is None


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("stored", [False, True])
def test_an_async_run_that_is_closed_early(mode: dict[str, Any], kind: str, stored: bool) -> None:
    """The same under the asyncio driver."""
    watched, store = Watched(), MapStore()
    source, middle = (watched.asource, watched.apassing) if kind == "async" else (watched.source, watched.passing)
    app = chain("1", "2", "3", **{"1": source, "2": middle, "3": middle}).compile(store=store, **mode)

    async def main() -> None:
        async with app.astream("x", **({"checkpoint_id": "run"} if stored else {})) as reader:
            assert await anext(reader) == "x0"

    run(main())
    assert sorted(watched.closed) == ["passing", "passing", "source"]
    assert store.get("run") is None


def test_a_run_that_fails_beside_an_open_stream(runner: Runner, mode: dict[str, Any]) -> None:
    """Where a node fails, the streams of the others are closed."""
    watched = Watched()

    def bad(value: str) -> str:
        raise ValueError("bad")

    graph = Graph(str, dict)
    graph.add_node("1", watched.source, output_key="1")
    graph.add_node("2", bad, output_key="2")
    graph.add_node("3", passing)

    def choose(chunks: StreamReader[Any]) -> str:
        next(chunks)
        return "3"

    graph.add_branch("1", choose, ["3"])
    app = wire(graph, "start 1", "start 2 3 end").compile(**mode)

    with pytest.raises(NodeError, match="bad"):
        runner.stream(app, "x")
    assert watched.closed == watched.open == ["source"]


def test_a_run_that_stops_beside_an_open_stream(runner: Runner, mode: dict[str, Any]) -> None:
    """Where a node stops, what the others stream is stored, so that they end."""
    watched, store = Watched(), MapStore()

    def short(value: str) -> Iterator[str]:
        watched.open.append("short")
        try:
            yield from ("a", "b")
        finally:
            watched.closed.append("short")

    graph = Graph(str, dict)
    graph.add_node("1", short, output_key="1")
    graph.add_node("2", lambda value: interrupt("?"), output_key="2")
    graph.add_node("3", passing)
    app = wire(graph, "start 1 3 end", "start 2 3").compile(store=store, **mode)

    with pytest.raises(Interrupted):
        runner.stream(app, "x", checkpoint_id="run")

    assert watched.closed == ["short"]
    assert record_of(store, "run").channels["3"].values == {"1": {"1": "ab"}}


def test_a_body_is_in_its_node(runner: Runner) -> None:
    """A streaming body sees its own address and state while it is read, and can't ask when it is over."""
    seen: list[str] = []
    late: list[Any] = []

    def source(value: str) -> Iterator[str]:
        with use_state(dict) as state:
            state["source"] = True
        seen.append(str(current_address()))
        yield value
        seen.append(str(current_address()))

    def second(chunks: StreamReader[str]) -> Iterator[str]:
        for chunk in chunks:
            seen.append(str(current_address()))
            with use_state(dict) as state:
                assert state == {"source": True}
            yield chunk
        late.append(interrupt)

    app = chain("1", "2", state=dict, **{"1": source, "2": second}).compile()

    assert runner.stream(app, "x") == ["x"]
    at = "runnable:root;node:"
    assert seen == [f"{at}1", f"{at}2", f"{at}1"]
    with pytest.raises(OutsideNodeError):
        late[0]()


class Blocked:
    """A streaming node that gives a chunk and then waits to be let go."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.go = threading.Event()
        self.calls = Calls()

    def __call__(self, value: str) -> Iterator[str]:
        self.calls.note("source", value)
        yield f"{value}1"
        self.waits.set()
        assert self.go.wait(LIMIT), "it was never let go"
        yield "2"


def test_a_stream_that_does_not_end_in_time(runner: Runner, mode: dict[str, Any]) -> None:
    """With flatten_timeout, a save that waits too long for a stream fails with its place, and loses nothing."""
    blocked, calls, store = Blocked(), Calls(), MapStore()
    app = chain("1", "2", "3", **{"1": appending("1", calls), "2": blocked}).compile(
        store=store, interrupt_before=["3"], flatten_timeout=timedelta(seconds=0.05), **mode
    )

    with pytest.raises(CheckpointSaveError, match="the stream at node 3 did not end within") as caught:
        runner.stream(app, "x", checkpoint_id="run")
    blocked.go.set()

    error = caught.value
    assert error.checkpoint is not None
    assert error.checkpoint.inputs == {"2": "x1"}
    assert store.get("run") is None
    app.retry_save(error)
    with pytest.raises(Interrupted):
        runner.stream(app, checkpoint_id="run")
    assert runner.stream(app, checkpoint_id="run") == ["x1123"]
    assert (calls["1"], blocked.calls["source"]) == (1, 2)


def test_cancelling_at_once_keeps_the_input_chunks(runner: Runner, mode: dict[str, Any]) -> None:
    """B114: a run on chunks that is cancelled at once is stored with the joined input, and its node runs again."""
    calls, store = Calls(), MapStore()
    waits, go = threading.Event(), threading.Event()

    def node(text: str) -> str:
        if calls.note("1", text) == 1:
            waits.set()
            assert go.wait(LIMIT)
        return f"{text}_processed"

    app = chain("1", **{"1": node}).compile(store=store, **mode)
    token = CancelToken()
    under_way = Background(
        lambda: runner.transform(app, ["chunk1", "chunk2", "chunk3"], checkpoint_id="run", cancel=token)
    )
    assert waits.wait(LIMIT)
    token.cancel(AT_ONCE)
    stop = under_way.error()
    go.set()

    assert isinstance(stop, Interrupted)
    assert stop.info.rerun_nodes == ["1"]
    assert record_of(store, "run").inputs == {"1": "chunk1chunk2chunk3"}
    assert runner.transform(app, [], checkpoint_id="run") == ["chunk1chunk2chunk3_processed"]
    assert calls["1"] == 2


@pytest.mark.parametrize("consumer", ["value", "chunks"])
def test_cancelling_at_once_while_a_stream_is_read(runner: Runner, mode: dict[str, Any], consumer: str) -> None:
    """A node whose stream is in the making runs again from its input; who reads it has not begun."""
    blocked, calls, store = Blocked(), Calls(), MapStore()
    reader = appending("3", calls) if consumer == "value" else passing
    app = chain("1", "2", "3", **{"1": appending("1", calls), "2": blocked, "3": reader}).compile(store=store, **mode)
    token = CancelToken()
    under_way = Background(lambda: runner.stream(app, "x", checkpoint_id="run", cancel=token))
    assert blocked.waits.wait(LIMIT)
    token.cancel(AT_ONCE)
    stop = under_way.error()
    blocked.go.set()

    assert isinstance(stop, Interrupted)
    assert stop.info.rerun_nodes == ["2"]
    record = record_of(store, "run")
    assert record.inputs == {"2": "x1"}
    assert all(not channel.values for channel in record.channels.values())
    ending = "3" if consumer == "value" else ""
    assert "".join(runner.stream(app, checkpoint_id="run")) == f"x112{ending}"
    assert (calls["1"], calls["3"]) == (1, len(ending))


def test_cancelling_without_a_limit_lets_streams_end(runner: Runner, mode: dict[str, Any]) -> None:
    """A cancel without a time-out waits for the node that reads, and with it for the stream."""
    blocked, calls, store = Blocked(), Calls(), MapStore()
    app = chain("1", "2", "3", **{"1": blocked, "2": appending("2", calls), "3": appending("3", calls)}).compile(
        store=store, **mode
    )
    token = CancelToken()
    under_way = Background(lambda: runner.stream(app, "x", checkpoint_id="run", cancel=token))
    assert blocked.waits.wait(LIMIT)
    token.cancel()
    blocked.go.set()

    assert isinstance(under_way.error(), Interrupted)
    assert record_of(store, "run").inputs == {"3": "x122"}
    assert runner.stream(app, checkpoint_id="run") == ["x1223"]
    assert (blocked.calls["source"], calls["2"], calls["3"]) == (1, 1, 1)
