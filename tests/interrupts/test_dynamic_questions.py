"""Several questions of one node: asked one after the other, again, in another order, in handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from drivers import AsyncRunner, Runner
from graphs import Calls, echo
from pausing import Note, answer_all, asked, ids, solo, stopped, stopped_again

from blobcp import (
    END,
    START,
    Graph,
    InterruptStateView,
    ResumeData,
    address_segment,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    serializable,
)
from blobcp.stores import FileStore, MapStore


@serializable("tests.interrupts.Odd")
@dataclass(eq=False)
class Odd:
    """A question that can't be compared, as an array can't."""

    text: str

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")

    __hash__ = object.__hash__


def test_one_after_the_other(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """Questions of one body are answered one by one, each under an id of its own, and earlier answers are kept."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("n", text)
        return "-".join([text, *(interrupt(question) for question in ("q1", "q2", "q3"))])

    app = solo(node).compile(store=store, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    seen = {stop.interrupts[0].id}
    for answer in ("a1", "a2"):
        assert asked(stop) == [f"q{len(seen)}"]
        stop = stopped_again(runner, app, "1", answer=answer)
        seen.add(stop.interrupts[0].id)

    assert asked(stop) == ["q3"]
    assert len(seen) == 3
    assert runner.resume(app, "1", answer="a3") == "in-a1-a2-a3"
    assert calls.inputs["n"] == ["in"] * 4


def test_earlier_answers_outlive_a_plain_run(runner: Runner, mode: dict[str, Any]) -> None:
    """P2: a plain re-run after the first of two answers still knows it, and the open question keeps its id."""
    app = solo(lambda text: [interrupt("q1"), interrupt("q2")]).compile(store=MapStore(), **mode)
    stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer=None)
    plain = stopped(runner, app, "in", checkpoint_id="1")

    assert asked(plain) == ["q2"]
    assert ids(plain) == ids(second)
    assert runner.resume(app, "1", answer=False) == [None, False]


def test_earlier_answers_outlive_a_parked_run(runner: Runner, mode: dict[str, Any]) -> None:
    """F03: what a node was answered is kept while the node stays pending and another one is answered."""
    graph = Graph(str, dict)
    graph.add_node("a", lambda text: [interrupt("qa1"), interrupt("qa2")], output_key="a")
    graph.add_node("b", lambda text: [interrupt("qb1"), interrupt("qb2")], output_key="b")
    for key in ("a", "b"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    for question, then in (("qa1", ["qa2", "qb1"]), ("qb1", ["qa2", "qb2"])):
        stop = stopped_again(runner, app, "1", {ids(stop)[question]: question.upper()})
        assert asked(stop) == then

    stop = stopped_again(runner, app, "1", {ids(stop)["qa2"]: "QA2"})
    assert asked(stop) == ["qb2"]
    assert runner.resume(app, "1", answer="QB2") == {"a": ["QA1", "QA2"], "b": ["QB1", "QB2"]}


def test_a_question_that_reads_differently_each_time(runner: Runner, mode: dict[str, Any]) -> None:
    """Questions that hold a time are known by their turn in a body that asks them one after the other."""
    clock = count()

    def node(text: str) -> str:
        return text + "".join(interrupt({"what": what, "at": next(clock)}) for what in "xy")

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    again = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer="1")

    assert asked(first) == [{"what": "x", "at": 0}]
    assert [point.id for point in again.interrupts] == [point.id for point in first.interrupts]
    assert asked(second) == [{"what": "y", "at": 3}]
    assert runner.resume(app, "1", answer="2") == "in12"


def test_a_question_that_can_not_be_compared(runner: Runner, mode: dict[str, Any]) -> None:
    """A question whose class has an odd comparison is known by its turn; the comparison does not fail the node."""
    app = solo(lambda text: [interrupt(Odd("x")), interrupt(Odd("y"))]).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer=1)

    assert [info.text for info in asked(first) + asked(second)] == ["x", "y"]
    assert runner.resume(app, "1", answer=2) == [1, 2]


@pytest.mark.parametrize("where", ["pre", "post"])
def test_a_handler_asks(runner: Runner, mode: dict[str, Any], where: str) -> None:
    """B038, B040: a handler's questions are answered one by one too, also where they read differently each time."""
    clock = count()
    calls = Calls()

    def handler(value: str, state: Note) -> str:
        state.text += where[0]
        return value + "".join(interrupt({"what": what, "at": next(clock)}) for what in "xy")

    def node(text: str) -> str:
        calls.note("n", text)
        return text + "n"

    app = solo(node, state=Note, **{where: handler}).compile(store=MapStore(), **mode)  # type: ignore[arg-type]
    stop = stopped(runner, app, "a", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer="1")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["n"]
    assert [info["what"] for info in asked(stop) + asked(second)] == ["x", "y"]
    assert runner.resume(app, "1", answer="2") == {"pre": "a12n", "post": "an12"}[where]
    assert calls.inputs["n"] == {"pre": ["a12"], "post": ["a", "a", "a"]}[where]


def test_handlers_and_body_ask(runner: Runner, mode: dict[str, Any]) -> None:
    """Questions of a pre-handler, the body and a post-handler of one node come one by one, and no answer is mixed up."""
    graph = solo(
        lambda text: text + interrupt("body"),
        state=Note,
        pre=lambda value, state: value + interrupt("pre"),
        post=lambda value, state: value + interrupt("post"),
    )
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "a", checkpoint_id="1")
    for question in ("pre", "body"):
        assert asked(stop) == [question]
        stop = stopped_again(runner, app, "1", answer=f"<{question}>")

    assert asked(stop) == ["post"]
    assert runner.resume(app, "1", answer="<post>") == "a<pre><body><post>"


def test_a_branch_asks(runner: Runner, mode: dict[str, Any]) -> None:
    """A branch may ask which way to go; its node is run again, and the answer is the way."""
    graph = Graph(str, str)
    for key in ("a", "l", "r"):
        graph.add_node(key, lambda text, key=key: text + key)
    graph.add_edge(START, "a")
    graph.add_branch("a", lambda text: interrupt(f"where with {text}?"), ["l", "r"])
    graph.add_edge("l", END)
    graph.add_edge("r", END)
    app = graph.compile(store=MapStore(), **mode)

    assert asked(stopped(runner, app, "x", checkpoint_id="1")) == ["where with xa?"]
    assert runner.resume(app, "1", answer="r") == "xar"


def test_reordered_questions(runner: Runner) -> None:
    """After a change of the code that swaps two questions, each still gets the answer that it was given."""

    def build(*questions: str) -> Graph:
        return solo(lambda text: {question: interrupt(question) for question in questions})

    store = MapStore()
    stopped(runner, build("q1", "q2").compile(store=store), "in", checkpoint_id="1")
    second = stopped_again(runner, build("q1", "q2").compile(store=store), "1", answer="a1")
    swapped = stopped(runner, build("q2", "q1").compile(store=store), "in", checkpoint_id="1")

    assert ids(swapped) == ids(second)
    assert runner.resume(build("q2", "q1").compile(store=store), "1", answer="a2") == {"q2": "a2", "q1": "a1"}


@pytest.mark.parametrize("segment", [False, True], ids=["body", "segment"])
def test_the_same_question_until_it_fits(runner: Runner, mode: dict[str, Any], segment: bool) -> None:
    """P2: a node that asks again after an answer which it can't use gets a new point each time, and then goes on."""
    calls = Calls()

    def node(text: str) -> list[Any]:
        tried: list[Any] = []
        while not (tried and isinstance(tried[-1], int)):
            assert calls.note("ask") < 20, "asked for ever"
            if segment:
                with address_segment("ask", "number"):
                    tried.append(interrupt("a number?"))
            else:
                tried.append(interrupt("a number?"))
        return tried

    app = solo(node).compile(store=MapStore(), **mode)
    points = [*stopped(runner, app, "in", checkpoint_id="1").interrupts]
    for answer in ("one", "one"):
        points += stopped_again(runner, app, "1", answer=answer).interrupts

    assert asked(points) == ["a number?"] * 3
    assert len({point.id for point in points}) == 3
    assert runner.resume(app, "1", answer=1) == ["one", "one", 1]
    assert calls["ask"] == 1 + 2 + 3 + 3


def test_reading_the_answer_and_asking(runner: Runner, mode: dict[str, Any]) -> None:
    """A node may read its answer before the `interrupt` that returns it, and then asks on without mixing them up."""
    seen: list[tuple[InterruptStateView, ResumeData]] = []

    def node(text: str) -> str:
        seen.append((get_interrupt_state(), get_resume_data()))
        return "-".join([text, interrupt("q1", state="s1"), interrupt("q2", state="s2")])

    app = solo(node).compile(store=MapStore(), **mode)
    stopped(runner, app, "in", checkpoint_id="1")
    stopped_again(runner, app, "1", answer="a1")

    assert runner.resume(app, "1", answer="a2") == "in-a1-a2"
    assert seen == [
        (InterruptStateView(False, False, None), ResumeData(False, False, None)),
        (InterruptStateView(True, True, "s1"), ResumeData(True, True, "a1")),
        (InterruptStateView(True, True, "s2"), ResumeData(True, True, "a2")),
    ]


def test_reading_the_answer_and_asking_something_else(runner: Runner, mode: dict[str, Any]) -> None:
    """A node that takes its answer by `get_resume_data` and asks another thing does not get that answer for it."""

    def node(text: str) -> str:
        _, has_data, data = get_resume_data()
        if not has_data:
            interrupt("q1")
        return interrupt("q2") if data == "a1" else f"{text} {data}"

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer="a1")

    assert (asked(first), asked(second)) == (["q1"], ["q2"])
    assert ids(first)["q1"] != ids(second)["q2"]
    assert runner.resume(app, "1", answer="a2") == "in a2"


def test_questions_of_an_async_node(mode: dict[str, Any]) -> None:
    """Questions that a coroutine asks one after the other, some through a helper it awaits, are answered in turn."""
    clock = count()

    async def helper(what: str) -> Any:
        return interrupt({"what": what, "at": next(clock)})

    async def node(text: str) -> str:
        return f"{text}{await helper('x')}{await helper('y')}"

    runner = AsyncRunner()
    app = solo(node).compile(store=MapStore(), **mode)
    stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", answer="1")

    assert [info["what"] for info in asked(second)] == ["y"]
    assert runner.resume(app, "1", answer="2") == "in12"


def test_a_choice_made_by_an_answer(runner: Runner, mode: dict[str, Any]) -> None:
    """What a node asks next may depend on an earlier answer; a fork that was answered otherwise asks otherwise."""
    follow_up: dict[str, Callable[[], Any]] = {
        "yes": lambda: interrupt("how much?"),
        "no": lambda: interrupt("why not?"),
    }
    app = solo(lambda text: (text, follow_up[interrupt("refund?")]())).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="A")
    for fork, answer, then in (("B", "yes", "how much?"), ("C", "no", "why not?")):
        answers = answer_all(stop, lambda info, answer=answer: answer)
        assert asked(stopped_again(runner, app, "A", answers, write_to_checkpoint_id=fork)) == [then]

    assert runner.resume(app, "C", answer="late") == ("in", "late")
    assert runner.resume(app, "B", answer=5) == ("in", 5)


def test_a_second_visit_asks_anew(runner: Runner) -> None:
    """B095, P2: in a loop each visit's question is a new point, and an answer is given to one visit only."""
    graph = Graph(str, str)
    graph.add_node("n", lambda text: text + interrupt("more?"))
    graph.add_edge(START, "n")
    graph.add_branch("n", lambda text: END if len(text) >= 3 else "n", [END, "n"])
    app = graph.compile(store=MapStore())
    points = [*stopped(runner, app, "", checkpoint_id="1").interrupts]
    for answer in "ab":
        points += stopped_again(runner, app, "1", answer=answer).interrupts

    assert len({point.id for point in points}) == 3
    assert runner.resume(app, "1", answer="c") == "abc"
    assert echo(points[0].info) == "more?"
