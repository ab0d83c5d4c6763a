"""Stops that a node's own code catches, groups, wraps or loses in a task: the run stops all the same, or fails by name."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from drivers import AsyncRunner, Runner
from graphs import Calls, chain
from pausing import asked, ids, on_a_loop, places, solo, stopped, stopped_again

from blobcp import END, START, Graph, InterruptSignal, NodeError, OutsideNodeError, address_segment, interrupt
from blobcp.stores import MapStore


def test_except_exception(runner: Runner, mode: dict[str, Any]) -> None:
    """F05 (a): a catch-all for exceptions does not catch the question."""

    def node(text: str) -> str:
        try:
            return str(interrupt("q"))
        except Exception:
            return "swallowed"

    app = solo(node).compile(store=MapStore(), **mode)

    assert asked(stopped(runner, app, "in", checkpoint_id="1")) == ["q"]
    assert runner.resume(app, "1", answer="yes") == "yes"


def bare_except(ask: Callable[[], Any]) -> Any:
    """Return the answer, or a word that must not come out."""
    try:
        return ask()
    except BaseException:
        return "swallowed"


def suppressed(ask: Callable[[], Any]) -> Any:
    """Do as `bare_except`, another way."""
    with suppress(BaseException):
        return ask()
    return "swallowed"


@pytest.mark.parametrize("swallow", [bare_except, suppressed])
def test_except_base_exception(runner: Runner, mode: dict[str, Any], swallow: Callable[[Any], Any]) -> None:
    """F05 (b): a question that the node swallowed stops the run after the node; what it returned is not passed on."""
    calls = Calls()
    graph = chain("n", "after", calls=calls, n=lambda text: swallow(lambda: interrupt("q")))
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert (asked(stop), places(stop)) == (["q"], ["runnable:root;node:n"])
    assert calls["after"] == 0
    assert runner.resume(app, "1", answer="yes") == "yesafter"


def test_what_comes_after_a_swallowed_question(runner: Runner, mode: dict[str, Any]) -> None:
    """F05 (b): neither the post-handler nor a branch sees what a node made of a question that it swallowed."""
    calls = Calls()
    graph = Graph(str, str, state=dict)
    graph.add_node(
        "n", lambda text: bare_except(lambda: interrupt("q")), post=lambda value, _: calls.note(value) and value
    )
    graph.add_node("m", lambda text: text + "m")
    graph.add_edge(START, "n")
    graph.add_branch("n", lambda text: calls.note(f"choose {text}") and "m", ["m"])
    graph.add_edge("m", END)
    app = graph.compile(store=MapStore(), **mode)
    stopped(runner, app, "in", checkpoint_id="1")

    assert runner.resume(app, "1", answer="yes") == "yesm"
    assert calls.order == ["yes", "choose yes"]


def test_several_swallowed(runner: Runner, mode: dict[str, Any]) -> None:
    """F05 (b), the second time: all questions that were swallowed in one visit are asked, and each gets its answer."""

    def node(text: str) -> dict[str, Any]:
        answers = {question: bare_except(lambda question=question: interrupt(question)) for question in ("q1", "q2")}
        with suppress(BaseException), address_segment("part", "p"):
            answers["q3"] = interrupt("q3")
        return answers

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(stop)["q2"]: 2})

    assert asked(stop) == ["q1", "q2", "q3"]
    assert stop.info is not None
    assert stop.info.rerun_extra == {"n": ["q1", "q2"]}
    assert ids(second) == {question: ids(stop)[question] for question in ("q1", "q3")}
    assert runner.resume(app, "1", {ids(stop)["q1"]: 1, ids(stop)["q3"]: 3}) == {"q1": 1, "q2": 2, "q3": 3}


@pytest.mark.parametrize("where", ["pre", "post"])
def test_swallowed_in_a_handler(runner: Runner, mode: dict[str, Any], where: str) -> None:
    """F05 (b) in handlers: a question that a handler swallowed stops the run too."""

    def handler(value: str, state: Any) -> str:
        return value + str(bare_except(lambda: interrupt("q")))

    app = solo(lambda text: text + "n", state=dict, **{where: handler}).compile(store=MapStore(), **mode)  # type: ignore[arg-type]

    assert asked(stopped(runner, app, "a", checkpoint_id="1")) == ["q"]
    assert runner.resume(app, "1", answer="!") == {"pre": "a!n", "post": "an!"}[where]


def test_swallowed_one_level_down(runner: Runner, mode: dict[str, Any]) -> None:
    """F05 (b) one level down: a swallowed question inside a nested graph stops the whole run at its own place."""
    inner = solo(lambda text: text + bare_except(lambda: interrupt("q")))
    app = solo(inner, key="s").compile(store=MapStore(), **mode)

    assert places(stopped(runner, app, "a", checkpoint_id="1")) == ["runnable:root;node:s;node:n"]
    assert runner.resume(app, "1", answer="!") == "a!"


def test_gathered_with_return_exceptions(runner: Runner, mode: dict[str, Any]) -> None:
    """F05 (c): a question in a task whose exception `gather` returns stops the run; it is not taken for a result."""

    async def ask() -> Any:
        return interrupt("q")

    async def work(text: str) -> str:
        (answer,) = await asyncio.gather(ask(), return_exceptions=True)
        return "swallowed" if isinstance(answer, BaseException) else answer

    app = solo(on_a_loop(runner, work)).compile(store=MapStore(), **mode)

    assert asked(stopped(runner, app, "in", checkpoint_id="1")) == ["q"]
    assert runner.resume(app, "1", answer="yes") == "yes"


def test_a_group_of_stops(runner: Runner, mode: dict[str, Any]) -> None:
    """An exception group of stops alone counts as these stops, at any depth of groups."""

    def node(text: str) -> str:
        signals: list[BaseException] = []
        answers = []
        for part in ("p", "q", "r"):
            try:
                with address_segment("part", part):
                    answers.append(interrupt(part))
            except InterruptSignal as signal:
                signals.append(signal)
        if signals:
            raise BaseExceptionGroup("stops", [signals[0], BaseExceptionGroup("more", signals[1:])])
        return text + "".join(answers)

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert asked(stop) == ["p", "q", "r"]
    assert runner.resume(app, "1", {point.id: point.info.upper() for point in stop.interrupts}) == "inPQR"


def test_a_group_with_a_failure(runner: Runner, mode: dict[str, Any]) -> None:
    """B081 inside one node: a group that holds a stop and an ordinary error is an ordinary error; nothing is written."""
    store = MapStore()

    def node(text: str) -> str:
        try:
            return str(interrupt("q"))
        except InterruptSignal as signal:
            raise BaseExceptionGroup("mixed", [signal, ValueError("broken")]) from None

    with pytest.raises(NodeError, match="node n failed") as caught:
        runner.invoke(solo(node).compile(store=store, **mode), "in", checkpoint_id="1")

    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert store.get("1") is None


def test_raised_from_a_stop(runner: Runner, mode: dict[str, Any]) -> None:
    """B079: an exception that names a stop as its cause counts as that stop, also over several steps."""

    def node(text: str) -> str:
        try:
            try:
                return str(interrupt("q"))
            except InterruptSignal as signal:
                raise RuntimeError("the tool stopped") from signal
        except RuntimeError as error:
            raise ValueError("the agent stopped") from error

    app = solo(node).compile(store=MapStore(), **mode)

    assert asked(stopped(runner, app, "in", checkpoint_id="1")) == ["q"]
    assert runner.resume(app, "1", answer="yes") == "yes"


def test_raised_while_handling_a_stop(runner: Runner, mode: dict[str, Any]) -> None:
    """An error that comes up while a stop is being handled is an ordinary error: the run fails, nothing is written."""
    store = MapStore()

    def node(text: str) -> str:
        try:
            return str(interrupt("q"))
        except BaseException:
            raise ValueError("broken clean-up")  # noqa: B904 - without a cause on purpose

    with pytest.raises(NodeError, match="broken clean-up") as caught:
        runner.invoke(solo(node).compile(store=store, **mode), "in", checkpoint_id="1")

    assert caught.value.path == ["n"]
    assert store.get("1") is None


def test_asked_in_a_thread_with_the_context(runner: Runner, mode: dict[str, Any]) -> None:
    """A thread that runs in a copy of the node's context may ask, whatever becomes of the exception there."""

    def node(text: str) -> str:
        answers: list[Any] = []

        def work() -> None:
            with suppress(InterruptSignal):
                answers.append(interrupt("q"))

        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
        thread.start()
        thread.join()
        return text + "".join(answers)

    app = solo(node).compile(store=MapStore(), **mode)

    assert asked(stopped(runner, app, "in", checkpoint_id="1")) == ["q"]
    assert runner.resume(app, "1", answer="!") == "in!"


def test_asked_by_to_thread(runner: Runner, mode: dict[str, Any]) -> None:
    """Several questions asked by `asyncio.to_thread` are asked, and the answers come back into those threads."""

    async def work(text: str) -> list[Any]:
        return list(await asyncio.gather(*(asyncio.to_thread(interrupt, question) for question in ("q1", "q2"))))

    app = solo(on_a_loop(runner, work)).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    answers: dict[Any, str] = {}
    while not {"q1", "q2"} <= answers.keys():
        answers |= {info: f"{info}!" for info in asked(stop)}
        given = {id: answers[info] for info, id in ids(stop).items()}
        if {"q1", "q2"} <= answers.keys():
            assert runner.resume(app, "1", given) == ["q1!", "q2!"]
        else:
            stop = stopped_again(runner, app, "1", given)


def test_equal_questions_in_several_threads(runner: Runner) -> None:
    """F01: threads that ask the same at the same moment have a point each, and no answer is given twice."""

    async def work(text: str) -> list[Any]:
        barrier = threading.Barrier(4)

        def ask() -> Any:
            barrier.wait(10)
            return interrupt("same")

        return await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(4)), return_exceptions=True)

    for _ in range(5):
        app = solo(on_a_loop(runner, work)).compile(store=MapStore())
        points = stopped(runner, app, "in", checkpoint_id="1").interrupts

        assert len({point.id for point in points}) == len(points) == 4
        result = runner.resume(app, "1", {point.id: number for number, point in enumerate(points)})
        assert sorted(result) == list(range(4))


def test_asked_in_a_thread_without_the_context(runner: Runner, mode: dict[str, Any]) -> None:
    """A bare thread knows of no node: a question there is refused, and the message says how to start the thread."""
    errors: list[BaseException] = []

    def node(text: str) -> str:
        def work() -> None:
            try:
                interrupt("q")
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return text

    assert runner.invoke(solo(node).compile(**mode), "in") == "in"
    (error,) = errors
    assert isinstance(error, OutsideNodeError)
    assert "copy_context" in str(error)


@pytest.mark.parametrize("ending", ["returned", "stopped"])
def test_asked_after_the_end(mode: dict[str, Any], ending: str) -> None:
    """A task that outlives its node asks in vain: it gets an error that says so, and the run is not changed by it."""
    errors: list[BaseException] = []
    late: list[asyncio.Task[None]] = []

    async def asks_late(over: asyncio.Event) -> None:
        await over.wait()
        try:
            interrupt("late")
        except BaseException as error:
            errors.append(error)

    over = asyncio.Event()

    async def node(text: str) -> str:
        late.append(asyncio.create_task(asks_late(over)))
        await asyncio.sleep(0)
        return text + (interrupt("q") if ending == "stopped" else "")

    async def after(text: str) -> str:
        over.set()
        await late[0]
        return text + "after"

    async def run() -> Any:
        app = chain("n", "after", n=node, after=after).compile(store=MapStore(), **mode)
        try:
            return await app.ainvoke("in", checkpoint_id="1")
        finally:
            over.set()
            await late[0]

    runner = AsyncRunner()
    if ending == "returned":
        assert runner._run(run()) == "inafter"
    else:
        with pytest.raises(BaseException, match="runnable:root;node:n") as caught:
            runner._run(run())
        assert asked(caught.value.interrupts) == ["q"]  # type: ignore[attr-defined]
    (error,) = errors
    assert isinstance(error, OutsideNodeError)
    assert "after its node had ended" in str(error)
