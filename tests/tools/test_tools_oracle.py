"""Random batches, cut at every stop and answered in random order, against what the calls must come to.

Every step is made by a freshly built app from the bytes in the store, as a new process would, by a value run or a stream run.
Each tool body is to reach its end exactly once, what is not answered is not to be entered, and the messages are to be in the
order of the calls.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from graphs import Calls
from hypothesis import given, settings
from hypothesis import strategies as st
from pausing import solo
from tool_calls import asking, call

from blobcp import NO_DATA, App, Interrupted, InterruptPoint, ToolsNode, concat, get_interrupt_state, interrupt
from blobcp.stores import MapStore
from blobcp.tools import ToolMessages

RUNNERS = [pytest.param(SyncRunner(), id="sync"), pytest.param(AsyncRunner(), id="async")]


TOOLS = ["plain", "awaited", "boom", "spell", "aspell", "snap", "nope"]


@dataclass(frozen=True)
class Spec:
    """One call: what it is named by, which tool it names, and how many things it asks, one after the other."""

    id: str | None
    tool: str
    questions: int


SPECS = st.builds(
    Spec,
    id=st.sampled_from(["a", "b", "c", "d", "e", "", None, "a#2", "#1"]),
    tool=st.sampled_from(TOOLS),
    questions=st.sampled_from([0, 0, 1, 1, 1, 2, 3]),
)
OPTIONS = st.sampled_from([{}, {"parallel": False}, {"max_parallel": 2}, {"max_parallel": 3}])


def build(store: MapStore, calls: Calls, options: dict[str, Any]) -> App:
    """Return the app, whose tools note that they are entered and that they come to their ends."""

    def work(number: int, questions: int) -> str:
        state = get_interrupt_state(str)
        calls.note(f"enter {number}")
        assert state.state in (None, *(f"state of {number}.{turn}" for turn in range(questions)))
        answers = [interrupt(f"{number}.{turn}", state=f"state of {number}.{turn}") for turn in range(questions)]
        calls.note(f"end {number}")
        return f"{number}: {answers}"

    def plain(number: int, questions: int) -> str:
        return work(number, questions)

    async def awaited(number: int, questions: int) -> str:
        return work(number, questions)

    def boom(number: int, questions: int) -> str:
        raise ValueError(work(number, questions))

    def spell(number: int, questions: int) -> Iterator[str]:
        yield "so: "
        yield from work(number, questions)

    async def aspell(number: int, questions: int) -> AsyncIterator[str]:
        yield "so: "
        for letter in work(number, questions):
            yield letter

    def snap(number: int, questions: int) -> Iterator[str]:
        yield "so: "
        raise ValueError(work(number, questions))

    node = ToolsNode([plain, awaited, boom, spell, aspell, snap], on_error="message", on_unknown="message", **options)
    return solo(node, key="tools").compile(store=store)


def expected(number: int, spec: Spec) -> str:
    """Return what a call must come to."""
    if spec.tool == "nope":
        return f"Error: there is no tool 'nope'; the tools are {', '.join(TOOLS[:-1])}"
    text = f"{number}: {[f'<{number}.{turn}>' for turn in range(spec.questions)]}"
    if spec.tool.endswith("spell"):
        return f"so: {text}"
    return f"Error: ValueError: {text}" if spec.tool in ("boom", "snap") else text


def streamed(runner: Runner, app: App, size: int, input: Any = None, **options: Any) -> list[Any]:
    """Run by a stream run, and return the joined messages; each chunk is to have a place for each call."""
    chunks = runner.stream(app, input, **options)
    assert {(type(chunk), len(chunk)) for chunk in chunks} == {(ToolMessages, size)}
    joined = concat(chunks)
    assert type(joined) is list
    return joined


def number_of(point: InterruptPoint) -> int:
    """Return the position of the call that asks."""
    return int(point.info.partition(".")[0])


def answer_until_done(runner: Runner, specs: list[Spec], choices: dict[str, Any], random: Random) -> tuple[Any, Calls]:
    """Take a batch from stop to stop."""
    store, calls = MapStore(), Calls()
    message = asking(*(call(at.id, at.tool, number=n, questions=at.questions) for n, at in enumerate(specs)))
    points: list[InterruptPoint] = []
    plain_runs = 0
    for _ in range(100):
        app = build(store, calls, choices)
        before = Counter(calls.count)
        answers: dict[str, Any] = {}
        if points and (plain_runs >= 2 or random.random() >= 0.1):
            for point in random.sample(points, random.randint(1, min(2, len(points)))):
                answers[point.id] = NO_DATA if random.random() < 0.1 else f"<{point.info}>"
        elif points:
            plain_runs += 1
        options = {"checkpoint_id": "1", "answers": answers or None}
        given = None if points else message
        try:
            if random.random() < 0.5:
                return runner.invoke(app, given, **options), calls
            return streamed(runner, app, len(specs), given, **options), calls
        except Interrupted as stop:
            now = stop.interrupts
        check_stop(points, answers, now, {int(key.split()[1]) for key in calls.count - before if "enter" in key})
        assert [(at.id, at.info) for at in runner.pending(app, "1")] == [(at.id, at.info) for at in now]
        points = now
    raise AssertionError("the run does not come to an end")


def check_stop(
    before: list[InterruptPoint], answers: dict[str, Any], now: list[InterruptPoint], entered: set[int]
) -> None:
    """See that what was not answered waits as it did and was not entered, and that what was answered is over."""
    known = {(point.id, point.info) for point in before}
    left = {(id, info) for id, info in known if answers.get(id, NO_DATA) is NO_DATA}
    assert left <= {(point.id, point.info) for point in now}
    assert not {id for id, _ in known - left} & {point.id for point in now}
    if answers:
        assert entered == {number_of(point) for point in before if point.id in answers}
    assert len({str(point.address) for point in now}) == len(now)
    assert [number_of(point) for point in now] == sorted(number_of(point) for point in now)


def compare(runner: Runner, specs: list[Spec], options: dict[str, Any], seed: int) -> None:
    """Run a batch to its end, and look at what it came to."""
    messages, calls = answer_until_done(runner, specs, options, Random(seed))

    assert messages == [
        {"role": "tool", "tool_call_id": spec.id or "", "name": spec.tool, "content": expected(number, spec)}
        for number, spec in enumerate(specs)
    ]
    ends = {key: count for key, count in calls.count.items() if key.startswith("end")}
    assert ends == {f"end {number}": 1 for number, spec in enumerate(specs) if spec.tool != "nope"}


@pytest.mark.timeout(600)  # a failure takes a while to be made small
@pytest.mark.parametrize("runner", RUNNERS)
@given(specs=st.lists(SPECS, min_size=1, max_size=6), options=OPTIONS, seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_random_batches(runner: Runner, specs: list[Spec], options: dict[str, Any], seed: int) -> None:
    """Each body ends exactly once, results are in order, and only what is answered is entered."""
    compare(runner, specs, options, seed)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runner", RUNNERS)
@given(specs=st.lists(SPECS, min_size=1, max_size=12), options=OPTIONS, seed=st.integers(0, 2**32))
@settings(max_examples=1500)
def test_random_batches_for_long(runner: Runner, specs: list[Spec], options: dict[str, Any], seed: int) -> None:
    """The same with many more and longer batches."""
    compare(runner, specs, options, seed)
