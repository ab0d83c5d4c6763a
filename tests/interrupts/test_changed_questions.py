"""Code that asks other questions than the code that stopped, and signals that travel oddly."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from drivers import Runner
from pausing import asked, solo, stopped, stopped_again

from blobcp import InterruptSignal, NodeError, OptionError, address_segment, composite_interrupt, interrupt
from blobcp.stores import MapStore


def test_an_answer_is_not_given_to_another_question(runner: Runner, mode: dict[str, Any]) -> None:
    """F06: where a new question took an answer by its turn and the one it belongs to comes too, the run is refused."""
    release = [1]

    def pay(text: str) -> str:
        fee = interrupt("waive the fee?") if release[0] == 2 else "-"
        return f"{fee} {interrupt('wire 1,000,000?')} {interrupt('report tax?')}"

    store = MapStore()
    app = solo(pay).compile(store=store, **mode)
    stopped(runner, app, "x", checkpoint_id="1")
    stopped_again(runner, app, "1", answer="NO")
    before = store.get("1")
    release[0] = 2
    with pytest.raises(NodeError, match="questions of runnable:root;node:n have changed") as caught:
        runner.resume(app, "1", answer="YES")

    assert isinstance(caught.value.__cause__, OptionError)
    assert store.get("1") == before
    release[0] = 1
    assert runner.resume(app, "1", answer="YES") == "- NO YES"


def test_one_signal_passed_on_twice(runner: Runner) -> None:
    """B082: a signal that is passed on twice is one point."""

    def node(text: str) -> str:
        signals = []
        try:
            with address_segment("job", "a"):
                return text + interrupt("q")
        except InterruptSignal as signal:
            signals = [signal, signal]
        raise composite_interrupt("c", None, signals)

    app = solo(node).compile(store=MapStore())
    stop = stopped(runner, app, "x", checkpoint_id="1")

    assert asked(stop) == asked(runner.pending(app, "1")) == ["q"]


def test_a_signal_survives_pickle(runner: Runner) -> None:
    """A signal that leaves a worker process arrives as it was."""
    got: list[InterruptSignal] = []

    def node(text: str) -> str:
        try:
            return interrupt({"q": 1}, state=[2])
        except InterruptSignal as signal:
            got.append(pickle.loads(pickle.dumps(signal)))
            raise got[0] from None

    stop = stopped(runner, solo(node).compile(store=MapStore()), "x", checkpoint_id="1")

    assert got[0].signal.state == [2]
    assert [point.id for point in stop.interrupts] == [got[0].signal.id]
