from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls
from pausing import answer_all, asked, ids, places, solo, stopped, stopped_again
from tool_calls import KINDS, ORDERS, asking, call, contents, failure, of_kind, tools_app, tools_graph

from blobcp import (
    END,
    NO_DATA,
    START,
    CheckpointSaveError,
    CheckpointVersionError,
    Graph,
    InterruptSignal,
    InterruptStateView,
    NodeError,
    ResumeData,
    Tool,
    ToolError,
    ToolsNode,
    composite_interrupt,
    current_address,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    read_header,
    serializable,
    use_state,
)
from blobcp.stores import FileStore, MapStore
from blobcp.tools.kept import find_kept


@dataclass
class Refund:
    """What a tool takes and asks about; its name is known by the signature alone."""

    order: str
    cents: int


@serializable("tests.tools.Told")
@dataclass
class Told:
    """A message of a class of one's own."""

    id: str
    text: str


@dataclass
class Basket:
    """A graph's state."""

    items: list[str]


def fours(calls: Calls, kind: str) -> list[Any]:
    """Return B099's tools: 1 and 2 interrupt on their first call, 3 and 4 do not."""

    def make(number: int) -> Any:
        def tool(text: str) -> str:
            if calls.note(f"{number}") == 1 and number < 3:
                interrupt(f"tool{number} rerun extra")
            return f"tool{number} input: {text}"

        tool.__name__ = f"tool{number}"
        return of_kind(kind, tool)

    return [make(number) for number in (1, 2, 3, 4)]


@KINDS
@ORDERS
def test_finished_calls_do_not_run_again(
    runner: Runner, mode: dict[str, Any], store: MapStore | FileStore, kind: str, parallel: bool
) -> None:
    """B099: of four calls two wait; the results of the others are kept, and what the re-run passes in is not used."""
    calls = Calls()
    graph = Graph()
    graph.add_node("tool node", ToolsNode(fours(calls, kind), parallel=parallel))
    graph.add_edge(START, "tool node")
    graph.add_edge("tool node", END)
    app = graph.compile(store=store, **mode)
    message = asking(*(call(number, f"tool{number}", text="input") for number in "3412"))
    stop = stopped(runner, app, message, checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.rerun_nodes == ["tool node"]
    assert stop.info.rerun_extra["tool node"] == {
        "calls": [
            {"id": number, "name": f"tool{number}", "arguments": '{"text": "input"}', "key": number}
            for number in "3412"
        ],
        "executed": {"3": "tool3 input: input", "4": "tool4 input: input"},
        "rerun": ["1", "2"],
        "extra": {"1": "tool1 rerun extra", "2": "tool2 rerun extra"},
    }
    again = runner.invoke(app, asking(call("9", "tool3", text="else")), checkpoint_id="1")
    assert [message["tool_call_id"] for message in again] == list("3412")
    assert contents(again) == {number: f"tool{number} input: input" for number in "1234"}
    assert dict(calls.count) == {"1": 2, "2": 2, "3": 1, "4": 1}


def approving(calls: Calls, kind: str) -> Any:
    """Return a tool that asks, and notes that it was entered and that it came to its end."""

    def approve(what: str) -> str:
        calls.note(f"enter {what}")
        answer = interrupt(f"approve {what}?", state=what)
        calls.note(f"end {what}")
        return f"{what}: {answer}"

    return of_kind(kind, approve)


def three(*ids: str | None) -> Any:
    """Return a request of three calls of that tool."""
    return asking(*(call(id, "approve", what=what) for id, what in zip(ids, "abc", strict=True)))


@KINDS
@ORDERS
def test_each_call_has_its_own_answer(runner: Runner, store: MapStore | FileStore, kind: str, parallel: bool) -> None:
    """P2, B091: parallel calls of one tool have addresses and answers of their own; what is not named is not entered."""
    calls = Calls()
    app = tools_app(approving(calls, kind), store=store, parallel=parallel)
    stop = stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")

    assert places(stop) == [f"runnable:root;node:tools;tool:approve:c{number}" for number in (1, 2, 3)]
    point = ids(stop)
    second = stopped_again(runner, app, "1", {point["approve b?"]: "yes"})
    assert ids(second) == {"approve a?": point["approve a?"], "approve c?": point["approve c?"]}
    assert [at.created_at for at in second.interrupts] == [stop.interrupts[0].created_at, stop.interrupts[2].created_at]
    assert second.interrupts[0].parent is second.interrupts[1].parent
    assert (second.interrupts[0].parent.id) == stop.interrupts[0].parent.id  # type: ignore[union-attr]
    assert (calls["enter a"], calls["enter b"], calls["enter c"]) == (1, 2, 1)
    assert ids(runner.pending(app, "1")) == ids(second)
    third = stopped_again(runner, app, "1", {point["approve c?"]: None})
    assert ids(third) == {"approve a?": point["approve a?"]}
    assert contents(runner.resume(app, "1", answer=False)) == {"c1": "a: False", "c2": "b: yes", "c3": "c: None"}
    assert {key: calls[key] for key in calls.count} == {
        **{f"enter {what}": 2 for what in "abc"},
        **{f"end {what}": 1 for what in "abc"},
    }


@KINDS
def test_all_answers_at_once(runner: Runner, kind: str) -> None:
    """All waiting calls can be answered in one resume."""
    app = tools_app(approving(Calls(), kind), store=MapStore())
    stop = stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")
    messages = runner.resume(app, "1", answer_all(stop, lambda info: info.upper()))

    assert contents(messages) == {"c1": "a: APPROVE A?", "c2": "b: APPROVE B?", "c3": "c: APPROVE C?"}


def test_a_plain_run_enters_all_that_wait(runner: Runner) -> None:
    """In a plain re-run all waiting calls run again, and those that stop again keep their ids."""
    calls = Calls()
    app = tools_app(approving(calls, "plain"), store=MapStore())
    first = stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")
    second = stopped(runner, app, None, checkpoint_id="1")

    assert ids(second) == ids(first)
    assert [calls[f"enter {what}"] for what in "abc"] == [2, 2, 2]


def test_the_node_itself_is_named(runner: Runner) -> None:
    """An answer that names the node's own point runs all its waiting calls again."""
    calls = Calls()
    app = tools_app(approving(calls, "plain"), store=MapStore())
    first = stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")
    above = first.interrupts[0].parent
    assert above is not None
    second = stopped_again(runner, app, "1", {above.id: NO_DATA})

    assert ids(second) == ids(first)
    assert [calls[f"enter {what}"] for what in "abc"] == [2, 2, 2]


def test_the_node_itself_is_given_data(runner: Runner) -> None:
    """Data for the node's own point is of no use and does no harm: what has finished since is still not run again."""
    calls = Calls()

    def work(what: str) -> str:
        if calls.note(what) < (3 if what == "b" else 2):
            interrupt(what)
        return what

    app = tools_app(work, store=MapStore())
    first = stopped(runner, app, asking(call("1", "work", what="a"), call("2", "work", what="b")), checkpoint_id="1")
    above = first.interrupts[0].parent
    assert above is not None
    assert asked(stopped_again(runner, app, "1", {above.id: "data"})) == ["b"]

    assert contents(runner.resume(app, "1", answer="go")) == {"1": "a", "2": "b"}
    assert dict(calls.count) == {"a": 2, "b": 3}


def test_a_call_named_without_data(runner: Runner) -> None:
    """A call that is named without data runs again, sees that it is meant, and asks under its id."""
    seen: list[Any] = []

    def ask(what: str) -> str:
        seen.append((what, get_interrupt_state(), get_resume_data()))
        return str(interrupt(what, state=what))

    app = tools_app(ask, store=MapStore())
    first = stopped(runner, app, asking(call("1", "ask", what="a"), call("2", "ask", what="b")), checkpoint_id="1")
    seen.clear()
    second = stopped_again(runner, app, "1", {ids(first)["a"]: NO_DATA})

    assert ids(second) == ids(first)
    assert seen == [("a", InterruptStateView(True, True, "a"), ResumeData(True, False, None))]
    assert contents(runner.resume(app, "1", {ids(first)["a"]: 1, ids(first)["b"]: 2})) == {"1": "1", "2": "2"}
    assert sorted(seen[1:]) == [
        (what, InterruptStateView(True, True, what), ResumeData(True, True, data))
        for what, data in (("a", 1), ("b", 2))
    ]


@KINDS
@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (("", "", ""), ["#1", "#2", "#3"]),
        ((None, "x", None), ["#1", "x", "#3"]),
        (("x", "x", "x"), ["x", "x#2", "x#3"]),
        (("x", "x", "x#2"), ["x", "x#2#", "x#2"]),
    ],
)
def test_ids_that_do_not_tell_calls_apart(runner: Runner, kind: str, given: Any, keys: list[str]) -> None:
    """B104, K09: calls with one id, or none, are told apart by their positions; the messages have the ids as they were."""
    calls = Calls()
    app = tools_app(approving(calls, kind), store=MapStore())
    stop = stopped(runner, app, three(*given), checkpoint_id="1")

    assert places(stop) == [f"runnable:root;node:tools;tool:approve:{key}" for key in keys]
    point = ids(stop)
    stopped_again(runner, app, "1", {point["approve c?"]: 3})
    messages = runner.resume(app, "1", {point["approve a?"]: 1, point["approve b?"]: 2})
    assert [message["tool_call_id"] for message in messages] == [id or "" for id in given]
    assert [message["content"] for message in messages] == ["a: 1", "b: 2", "c: 3"]
    assert [calls[f"enter {what}"] for what in "abc"] == [2, 2, 2]


@pytest.mark.parametrize("id", ["", "same"])
def test_one_of_two_of_one_id_finishes(runner: Runner, id: str) -> None:
    """B104: the first finishes, the second waits; after the resume each has its own result."""
    calls = Calls()

    def work(text: str) -> str:
        if calls.note(text) == 1 and text == "second":
            interrupt("wait")
        return f"out:{text}"

    app = tools_app(work, store=MapStore())
    message = asking(call(id, "work", text="first"), call(id, "work", text="second"))
    assert asked(stopped(runner, app, message, checkpoint_id="1")) == ["wait"]

    messages = runner.resume(app, "1", answer="go")
    assert [message["content"] for message in messages] == ["out:first", "out:second"]
    assert dict(calls.count) == {"first": 1, "second": 2}


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_in_nested_graphs(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore, depth: int) -> None:
    """B100: a tool that waits in nested graphs has the whole address, and gets its answer there."""

    def interrupt_tool(text: str) -> str:
        return f"{text} {interrupt('ok?')}"

    graph, path = tools_graph(interrupt_tool), "node:tools"
    for key in ("sub_graph_b", "sub_graph_a")[:depth]:
        graph, path = solo(graph, key=key), f"node:{key};{path}"
    app = graph.compile(store=store, **mode)
    stop = stopped(runner, app, asking(call("tool_call_123", "interrupt_tool", text="x")), checkpoint_id="1")

    assert places(stop) == [f"runnable:root;{path};tool:interrupt_tool:tool_call_123"]
    (point,) = stop.interrupts
    assert point.is_root_cause
    assert point.parent is not None
    assert (str(point.parent.address), point.parent.is_root_cause) == (f"runnable:root;{path}", False)
    assert contents(runner.resume(app, "1", {point.id: "yes"})) == {"tool_call_123": "x yes"}


@KINDS
@ORDERS
@pytest.mark.parametrize("order", ["stop first", "error first"])
def test_an_error_and_a_stop(runner: Runner, kind: str, parallel: bool, order: str) -> None:
    """B101: an ordinary error wins over a stop; it names tool and call, and nothing is written."""
    calls = Calls()

    def fail(what: str) -> str:
        raise ValueError(what)

    app = tools_app(approving(calls, kind), of_kind(kind, fail), store=(store := MapStore()), parallel=parallel)
    batch = [call("c1", "approve", what="a"), call("c2", "fail", what="b")]
    error = failure(runner, app, asking(*batch[:: -1 if order == "error first" else 1]), checkpoint_id="1")

    assert isinstance(error, ToolError)
    assert str(error) == "tool 'fail' (call 'c2') failed: ValueError: b"
    assert list(store.list()) == []
    assert calls["enter a"] == (0 if order == "error first" and not parallel else 1)


def test_a_stop_is_no_error(runner: Runner) -> None:
    """With ``on_error="message"`` a failure is a result that is kept, and a stop is still a stop."""
    calls = Calls()

    def fail(what: str) -> str:
        calls.note("fail")
        raise ValueError(what)

    app = tools_app(approving(calls, "plain"), fail, store=MapStore(), on_error="message")
    stop = stopped(runner, app, asking(call("1", "approve", what="a"), call("2", "fail", what="b")), checkpoint_id="1")

    assert asked(stop) == ["approve a?"]
    assert contents(runner.resume(app, "1", answer="yes")) == {"1": "a: yes", "2": "Error: ValueError: b"}
    assert calls["fail"] == 1


@KINDS
def test_in_order_a_stop_keeps_nothing_from_running(runner: Runner, kind: str) -> None:
    """B101: one after the other, a call that stops does not keep later ones from running."""
    calls = Calls()
    app = tools_app(*fours(calls, kind), store=MapStore(), parallel=False)
    stop = stopped(runner, app, asking(*(call(n, f"tool{n}", text="x") for n in "1324")), checkpoint_id="1")

    assert calls.order == ["1", "3", "2", "4"]
    assert asked(stop) == ["tool1 rerun extra", "tool2 rerun extra"]


def test_several_questions_of_one_call(runner: Runner) -> None:
    """A tool may ask several things; each call remembers its own answers, whatever the order they come in."""
    calls = Calls()

    def book(city: str) -> str:
        calls.note(city)
        return f"{city} {interrupt('day?')} {interrupt('seat?')}"

    app = tools_app(book, store=MapStore())
    stop = stopped(
        runner, app, asking(call("1", "book", city="Oslo"), call("2", "book", city="Rome")), checkpoint_id="1"
    )
    oslo, rome = (point.id for point in stop.interrupts)
    stop = stopped_again(runner, app, "1", {rome: "Monday"})
    assert [(at.info, at.address[-1].sub_id) for at in stop.interrupts] == [("day?", "1"), ("seat?", "2")]
    stop = stopped_again(runner, app, "1", {oslo: "Friday"})
    assert [(at.info, at.address[-1].sub_id) for at in stop.interrupts] == [("seat?", "1"), ("seat?", "2")]
    seats = {point.address[-1].sub_id: point.id for point in stop.interrupts}
    stopped_again(runner, app, "1", {seats["2"]: "aisle"})

    assert contents(runner.resume(app, "1", answer="window")) == {"1": "Oslo Friday window", "2": "Rome Monday aisle"}
    assert dict(calls.count) == {"Oslo": 3, "Rome": 3}


def test_a_tool_that_is_a_composite(runner: Runner) -> None:
    """A tool may run several things itself and pass their stops on; its own info is what the node tells of it."""

    def both(text: str) -> str:
        kept = dict(get_interrupt_state(dict).state or {})
        stops: list[BaseException] = []
        for part in ("p", "q"):
            try:
                kept[part] = kept.get(part) or interrupt(part)
            except InterruptSignal as signal:
                stops.append(signal)
        if stops:
            raise composite_interrupt("two parts", kept, stops)
        return f"{text}{kept['p']}{kept['q']}"

    app = tools_app(both, store=MapStore())
    stop = stopped(runner, app, asking(call("1", "both", text="x"), call("2", "both", text="y")), checkpoint_id="1")

    assert [(at.info, at.parent.info, at.address[-1].sub_id) for at in stop.interrupts if at.parent] == [
        ("p", "two parts", "1"),
        ("q", "two parts", "1"),
        ("p", "two parts", "2"),
        ("q", "two parts", "2"),
    ]
    assert stop.info is not None
    assert stop.info.rerun_extra["tools"]["extra"] == {"1": "two parts", "2": "two parts"}
    answers = {point.id: point.info.upper() for point in stop.interrupts}
    assert contents(runner.resume(app, "1", answers)) == {"1": "xPQ", "2": "yPQ"}


def test_a_swallowed_question_still_stops(runner: Runner) -> None:
    """A question that a tool swallows stops the call all the same, and that call alone."""

    def swallow(text: str) -> str:
        try:
            return f"{text} {interrupt(text)}"
        except BaseException:
            return "swallowed"

    app = tools_app(swallow, store=MapStore())
    stop = stopped(runner, app, asking(*(call(n, "swallow", text=n) for n in "12")), checkpoint_id="1")

    assert asked(stop) == ["1", "2"]
    stop = stopped_again(runner, app, "1", {ids(stop)["1"]: "a"})
    assert asked(stop) == ["2"]
    assert contents(runner.resume(app, "1", answer="b")) == {"1": "1 a", "2": "2 b"}


def test_a_handler_may_ask(runner: Runner) -> None:
    """What stands in for a failing or unknown tool may ask a person; it has the call's own address."""
    calls = Calls()

    def fail(text: str) -> str:
        calls.note("fail")
        raise ValueError(text)

    app = tools_app(
        fail,
        store=MapStore(),
        on_unknown=lambda call: f"{interrupt('unknown')} {current_address()}",
        on_error=lambda call, error: interrupt(str(error)),
    )
    stop = stopped(runner, app, asking(call("1", "fail", text="bad"), call("2", "nope")), checkpoint_id="1")

    assert places(stop) == ["runnable:root;node:tools;tool:fail:1", "runnable:root;node:tools;tool:nope:2"]
    answers = {ids(stop)["bad"]: "skip it", ids(stop)["unknown"]: "well"}
    assert contents(runner.resume(app, "1", answers)) == {
        "1": "skip it",
        "2": "well runnable:root;node:tools;tool:nope:2",
    }
    assert calls["fail"] == 2


def test_the_next_visit_is_a_new_one(runner: Runner) -> None:
    """B095, K18: in a later visit of the same run nothing is left of an answer, also for a call with the same id."""
    seen: list[Any] = []

    def ask(what: str) -> str:
        seen.append((what, get_interrupt_state().was_interrupted, get_resume_data().is_target))
        return str(interrupt(what)) if what != "third" else "free"

    graph = Graph(state=lambda: Basket([]))

    def model(value: Any) -> Any:
        with use_state(Basket) as basket:
            if not isinstance(value, str):
                basket.items.extend(message["content"] for message in value)
            rounds = len(basket.items)
        if rounds == 0:
            return asking(call("call_1", "ask", what="first"), call("call_2", "ask", what="second"))
        return asking(call("call_1", "ask", what="third")) if rounds == 2 else "done"

    graph.add_node("model", model)
    graph.add_node("tools", ToolsNode([ask]))
    graph.add_edge(START, "model")
    graph.add_branch("model", lambda message: END if message == "done" else "tools", [END, "tools"])
    graph.add_edge("tools", "model")
    app = graph.compile(store=MapStore())
    point = ids(stopped(runner, app, "go", checkpoint_id="1"))
    stopped_again(runner, app, "1", {point["first"]: "yes"})
    assert runner.resume(app, "1", {point["second"]: "no"}) == "done"

    assert sorted(seen[:2]) == [("first", False, False), ("second", False, False)]
    assert seen[2:] == [("first", True, True), ("second", True, True), ("third", False, False)]


@KINDS
def test_classes_of_the_signature_can_be_asked_about(runner: Runner, store: MapStore | FileStore, kind: str) -> None:
    """The classes that a tool's signature names are registered with the graph, like those of nodes."""

    def refund(what: Refund) -> Refund:
        return Refund(what.order, int(interrupt(what)))

    app = tools_app(of_kind(kind, refund), store=store)
    stop = stopped(runner, app, asking(call("1", "refund", what={"order": "a", "cents": 5})), checkpoint_id="1")

    assert asked(runner.pending(app, "1")) == asked(stop) == [Refund("a", 5)]
    assert contents(runner.resume(app, "1", answer=3)) == {"1": '{"order":"a","cents":3}'}


def test_messages_of_a_registered_class_are_kept(runner: Runner, store: MapStore | FileStore) -> None:
    """Messages of a class of one's own are kept as such."""
    calls = Calls()
    app = tools_app(*fours(calls, "plain"), store=store, to_message=lambda call, result: Told(call.id, result))
    message = asking(call("1", "tool1", text="x"), call("3", "tool3", text="x"))
    stop = stopped(runner, app, message, checkpoint_id="1")

    assert stop.info is not None
    assert stop.info.rerun_extra["tools"]["executed"] == {"3": Told("3", "tool3 input: x")}
    assert runner.resume(app, "1", answer="go") == [Told("1", "tool1 input: x"), Told("3", "tool3 input: x")]
    assert calls["3"] == 1


def test_a_message_that_can_not_be_kept(runner: Runner) -> None:
    """A message whose class nobody registered fails the save, with the way to it."""

    class Unknown:
        pass

    app = tools_app(*fours(Calls(), "plain"), store=MapStore(), to_message=lambda call, result: Unknown())
    with pytest.raises(CheckpointSaveError, match="Unknown"):
        runner.invoke(app, asking(call("1", "tool1", text="x"), call("3", "tool3", text="x")), checkpoint_id="1")


def test_a_tool_that_is_gone(runner: Runner) -> None:
    """Where a waiting call's tool is gone by the time of the resume, it is treated as unknown; what is stored stays."""
    store = MapStore()
    app = tools_app(approving(Calls(), "plain"), Tool(lambda: "other", name="other"), store=store)
    stopped(runner, app, asking(call("c1", "approve", what="a"), call("c2", "other")), checkpoint_id="1")
    blob = store.get("1")
    without = tools_app(Tool(lambda: "other", name="other"), store=store)
    with pytest.raises(NodeError, match="there is no tool 'approve'"):
        runner.resume(without, "1", answer="yes")

    assert store.get("1") == blob
    telling = tools_app(store=store, on_unknown="message")
    assert contents(runner.resume(telling, "1", answer="yes")) == {
        "c1": "Error: there is no tool 'approve'; the tools are none",
        "c2": "other",
    }


def test_what_a_newer_release_has_kept(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept results of a newer release are refused, since running finished calls again would be worse."""
    app = tools_app(*fours(calls := Calls(), "plain"), store=MapStore())
    message = asking(call("1", "tool1", text="x"), call("3", "tool3", text="x"))
    with monkeypatch.context() as patch:
        patch.setattr(f"{find_kept.__module__}._VERSION", 2)
        stopped(runner, app, message, checkpoint_id="1")
    with pytest.raises(NodeError, match="stopped by a newer release") as caught:
        runner.resume(app, "1", answer="go")

    assert isinstance(caught.value.__cause__, CheckpointVersionError)
    assert calls["3"] == 1


def test_the_state_of_the_graph(runner: Runner) -> None:
    """Tools reach the graph's state, from threads and tasks, and what they put there is stored with the stop."""

    def put(item: str) -> str:
        with use_state(Basket) as basket:
            basket.items.append(item)
        return item

    async def put_awaited(item: str) -> str:
        async with use_state(Basket) as basket:
            basket.items.append(item)
        return item

    def ask() -> str:
        answer = interrupt("more?")
        with use_state(Basket) as basket:
            return json.dumps([*sorted(basket.items), answer])

    node = ToolsNode([put, put_awaited, ask])
    app = solo(node, key="tools", state=lambda: Basket([])).compile(store=MapStore())
    puts = [call(f"p{n}", "put" if n % 2 else "put_awaited", item=str(n)) for n in range(6)]
    stop = stopped(runner, app, asking(*puts, call("a", "ask")), checkpoint_id="1")

    assert stop.info is not None
    assert sorted(stop.info.state.items) == ["0", "1", "2", "3", "4", "5"]
    assert contents(runner.resume(app, "1", answer="no"))["a"] == '["0", "1", "2", "3", "4", "5", "no"]'


def test_a_fork_of_each_decision(runner: Runner) -> None:
    """One stop can be forked: each fork keeps what was finished, and its own answers."""
    calls = Calls()
    store = MapStore()
    app = tools_app(approving(calls, "plain"), store=store)
    first = stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")
    stopped_again(runner, app, "1", {ids(first)["approve a?"]: "A"})
    rest = {ids(first)["approve b?"], ids(first)["approve c?"]}
    blob = store.get("1")

    for fork in ("yes", "no"):
        messages = runner.resume(app, "1", dict.fromkeys(rest, fork), write_to_checkpoint_id=fork)
        assert contents(messages) == {"c1": "a: A", "c2": f"b: {fork}", "c3": f"c: {fork}"}
    assert store.get("1") == blob
    assert blob is not None
    assert {waiting.id for waiting in read_header(blob).pending} == rest
    assert calls["end a"] == 1


def test_pre_handlers_may_ask_too(runner: Runner) -> None:
    """A question of the node's handler, at the node's own address, is not mixed up with what the node keeps."""
    calls = Calls()
    node = ToolsNode([approving(calls, "plain")])

    def pre(value: Any, state: Basket) -> Any:
        interrupt("run the tools?", state={"calls": "a state of the handler"})
        return value

    app = solo(node, key="tools", state=lambda: Basket([]), pre=pre).compile(store=MapStore())
    assert asked(stopped(runner, app, three("c1", "c2", "c3"), checkpoint_id="1")) == ["run the tools?"]
    stop = stopped_again(runner, app, "1", answer="yes")
    stopped_again(runner, app, "1", {ids(stop)["approve b?"]: "B"})
    answers = {ids(stop)["approve a?"]: "A", ids(stop)["approve c?"]: "C"}

    assert contents(runner.resume(app, "1", answers)) == {"c1": "a: A", "c2": "b: B", "c3": "c: C"}
    assert [calls[f"enter {what}"] for what in "abc"] == [2, 2, 2]
