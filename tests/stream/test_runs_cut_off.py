"""Cancelling a stream run at once, or when its time is up: it ends then, whatever its sources do, and nothing is lost."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from cancelling import AT_ONCE
from drivers import Runner
from graphs import Calls, appending, chain
from stream_runs import LIMIT
from streaming import Background, emitting, passing, record_of
from wiring import wire

from blobcp import CancelToken, CheckpointSaveError, Graph, Interrupted, NodeError, StreamReader, interrupt
from blobcp.graph import flattening
from blobcp.stores import MapStore

SOON = timedelta(seconds=0.05)


class Queue:
    """A source of the caller that gives what is put into a queue, and waits for ever for more."""

    def __init__(self, *chunks: str) -> None:
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.waits = threading.Event()
        for chunk in chunks:
            self._queue.put(chunk)

    def __iter__(self) -> Iterator[str]:
        while True:
            if self._queue.empty():
                self.waits.set()
            chunk = self._queue.get()
            if chunk is None:
                return
            yield chunk

    def end(self) -> None:
        self._queue.put(None)


def cut_off(runner: Runner, app: Any, shape: str, grace: timedelta, **options: Any) -> BaseException | None:
    """Cancel a run whose source delivers nothing more, and return what it raises while that waits."""
    source, token = Queue("a", "b"), CancelToken()
    call = getattr(runner, shape)
    under_way = Background(lambda: call(app, iter(source), cancel=token, **options))
    assert source.waits.wait(LIMIT)
    token.cancel(grace)
    try:
        return under_way.error()
    finally:
        source.end()


NODES = [pytest.param(passing, id="chunks"), pytest.param(appending("!"), id="value")]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("shape", ["collect", "transform"])
@pytest.mark.parametrize("grace", [AT_ONCE, SOON], ids=["at once", "soon"])
def test_a_source_that_delivers_nothing(
    runner: Runner, mode: dict[str, Any], node: Callable[..., Any], shape: str, grace: timedelta
) -> None:
    """A run without an id ends when it is due although the caller's source waits for ever."""
    app = chain("1", **{"1": node}).compile(**mode)

    stop = cut_off(runner, app, shape, grace)

    assert isinstance(stop, Interrupted)
    assert stop.info.rerun_nodes == ["1"]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("shape", ["collect", "transform"])
def test_a_source_that_delivers_nothing_to_store(
    runner: Runner, mode: dict[str, Any], node: Callable[..., Any], shape: str
) -> None:
    """With an id the input can't be whole: the run says so within flatten_timeout, and holds what had come of it."""
    store = MapStore()
    app = chain("1", **{"1": node}).compile(store=store, flatten_timeout=SOON, **mode)

    error = cut_off(runner, app, shape, AT_ONCE, checkpoint_id="run")

    assert isinstance(error, CheckpointSaveError)
    assert "the stream at node 1 did not end within flatten_timeout=0:00:00.050000" in str(error)
    assert "it is the input of the run" in str(error)
    assert error.checkpoint is not None
    assert (error.checkpoint.inputs, error.checkpoint.rerun_nodes) == ({"1": "ab"}, ["1"])
    assert store.get("run") is None
    app.retry_save(error)
    expected = "ab" if node is passing else "ab!"
    assert runner.collect(app, [], checkpoint_id="run") == expected


def test_a_source_that_delivers_nothing_without_a_limit(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without flatten_timeout a run that is due does not wait long for its input either, and not for each of its readers."""
    monkeypatch.setattr(flattening, "LAST_CALL", SOON)
    graph = Graph(str, dict)
    for key in "123":
        graph.add_node(key, passing, output_key=key)
    app = wire(graph, "start 1 end", "start 2 end", "start 3 end").compile(store=MapStore())

    error = cut_off(runner, app, "collect", AT_ONCE, checkpoint_id="run")

    assert isinstance(error, CheckpointSaveError)
    assert "did not end soon after the cancel" in str(error)
    assert error.checkpoint is not None
    assert error.checkpoint.inputs == {"1": "ab", "2": "ab", "3": "ab"}


def test_a_source_that_ends_after_the_cancel(runner: Runner, mode: dict[str, Any]) -> None:
    """B114: what the source has at hand when the run is cancelled at once is stored, to its end."""
    store, token = MapStore(), CancelToken()

    def source() -> Iterator[str]:
        yield "chunk1"
        token.cancel(AT_ONCE)
        yield "chunk2"
        yield "chunk3"

    app = chain("1", **{"1": appending("_processed")}).compile(store=store, **mode)

    with pytest.raises(Interrupted):
        runner.collect(app, source(), checkpoint_id="run", cancel=token)
    assert record_of(store, "run").inputs == {"1": "chunk1chunk2chunk3"}
    assert runner.transform(app, [], checkpoint_id="run") == ["chunk1chunk2chunk3_processed"]


@pytest.mark.parametrize("shape", ["collect", "transform"])
def test_at_once_wins_over_the_end_of_the_output(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B112: cancelled at once when its last node ends, each of 200 stream runs (on a driver) stops, and goes on to the whole output."""
    for number in range(34):
        store, token = MapStore(), CancelToken()

        def last(chunks: StreamReader[str], token: CancelToken = token, number: int = number) -> Iterator[str]:
            yield from chunks
            if number % 2:
                yield "!"
            token.cancel(AT_ONCE)

        app = chain("1", "2", **{"1": passing, "2": last}).compile(store=store, **mode)
        call = getattr(runner, shape)
        with pytest.raises(Interrupted):
            call(app, ["a", "b"], checkpoint_id="run", cancel=token)
        assert "".join(call(app, [], checkpoint_id="run")) == ("ab!" if number % 2 else "ab")


def test_a_slow_stream_beside_a_question(runner: Runner, mode: dict[str, Any]) -> None:
    """With flatten_timeout, a node whose stream is slow runs again, also where it is another node that stops the run."""
    calls, go = Calls(), threading.Event()

    def slow(value: str) -> Iterator[str]:
        yield "a"
        if calls.note("slow") == 1:
            go.wait(LIMIT)
        yield "b"

    graph = Graph(str, dict)
    graph.add_node("slow", slow, output_key="slow")
    graph.add_node("asks", lambda value: interrupt("?"), output_key="asks")
    graph.add_node("join", lambda value: value)
    store = MapStore()
    app = wire(graph, "start slow join end", "start asks join").compile(store=store, flatten_timeout=SOON, **mode)

    with pytest.raises(CheckpointSaveError, match="did not end within") as caught:
        runner.stream(app, "x", checkpoint_id="run")
    go.set()

    assert caught.value.checkpoint is not None
    assert sorted(caught.value.checkpoint.rerun_nodes) == ["asks", "slow"]
    app.retry_save(caught.value)
    (question,) = runner.pending(app, "run")
    assert runner.collect(app, [], checkpoint_id="run", answers={question.id: "!"}) == {"slow": "ab", "asks": "!"}


def test_a_cancel_while_a_question_is_stored(runner: Runner, mode: dict[str, Any]) -> None:
    """Cancelled at once while a stream is read for a stop, its node runs again, and the question is asked as ever."""
    calls, inside, go = Calls(), threading.Event(), threading.Event()

    def slow(value: str) -> Iterator[str]:
        yield "a"
        if calls.note("slow") == 1:
            inside.set()
            go.wait(LIMIT)
        yield "b"

    graph = Graph(str, dict)
    graph.add_node("slow", slow, output_key="slow")
    graph.add_node("asks", lambda value: interrupt("?"), output_key="asks")
    graph.add_node("join", lambda value: value)
    store, token = MapStore(), CancelToken()
    app = wire(graph, "start slow join end", "start asks join").compile(store=store, **mode)

    under_way = Background(lambda: runner.stream(app, "x", checkpoint_id="run", cancel=token))
    assert inside.wait(LIMIT)
    token.cancel(AT_ONCE)
    stop = under_way.error()
    go.set()

    assert isinstance(stop, Interrupted)
    assert sorted(stop.info.rerun_nodes) == ["asks", "slow"]
    (question,) = stop.interrupts
    assert runner.collect(app, [], checkpoint_id="run", answers={question.id: "!"}) == {"slow": "ab", "asks": "!"}


def test_a_cancel_while_an_input_is_stored(runner: Runner, mode: dict[str, Any]) -> None:
    """Cancelled at once while the input is read for a stop, a run stores all of it, what had been read by then included."""
    store, token, go = MapStore(), CancelToken(), threading.Event()

    def source() -> Iterator[str]:
        yield "a"
        token.cancel(AT_ONCE)
        threading.Timer(0.02, go.set).start()  # the first read is given up meanwhile
        assert go.wait(LIMIT)
        yield "b"

    app = chain("1", **{"1": passing}).compile(store=store, interrupt_before=["1"], **mode)

    with pytest.raises(Interrupted):
        runner.transform(app, source(), checkpoint_id="run", cancel=token)
    assert record_of(store, "run").inputs == {"1": "ab"}


def test_an_input_that_fails_while_it_is_stored(runner: Runner, mode: dict[str, Any]) -> None:
    """K32: a source of the caller that fails while a stop is stored fails the run, which tells where it was about to stop."""

    def source() -> Iterator[str]:
        yield "a"
        raise ValueError("the line is dead")

    store = MapStore()
    app = chain("1", **{"1": emitting("x")}).compile(store=store, interrupt_before=["1"], **mode)

    with pytest.raises(NodeError, match="the line is dead") as caught:
        runner.transform(app, source(), checkpoint_id="run")

    assert caught.value.stopping is not None
    assert caught.value.stopping.before_nodes == ["1"]
    assert store.get("run") is None
