"""Tools that run an app of their own, with its own stops."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, chain
from pausing import asked, ids, places, solo, stopped, stopped_again
from tool_calls import KINDS, asking, call, contents, tools_app

from blobcp import (
    END,
    START,
    App,
    Graph,
    Interrupted,
    NodeError,
    OptionError,
    ToolsNode,
    composite_interrupt,
    current_address,
    get_interrupt_state,
    get_resume_data,
    interrupt,
)
from blobcp.stores import FileStore, MapStore


def running(kind: str, inner: App, name: str = "wrapper", **options: Any) -> Any:
    """Return a tool that runs an app on its text."""

    def plain(text: str) -> Any:
        return inner.invoke(text, **_filled(options, text))

    async def awaited(text: str) -> Any:
        return await inner.ainvoke(text, **_filled(options, text))

    tool: Any = plain if kind == "plain" else awaited
    tool.__name__ = name
    return tool


def _filled(options: dict[str, Any], text: str) -> dict[str, Any]:
    return {option: value.format(text) for option, value in options.items()}


def app_of(calls: Calls, **options: Any) -> App:
    """Return the app of two nested graphs."""
    inner = Graph(str, str)
    deepest = chain("first", "ask", calls=calls, ask=asking_node(calls))
    inner.add_node("before", lambda text: calls.note("before") and text)
    inner.add_node("sub", deepest)
    inner.add_edge(START, "before")
    inner.add_edge("before", "sub")
    inner.add_edge("sub", END)
    return inner.compile(name="inner", **options)


def asking_node(calls: Calls) -> Any:
    """Return the node that asks."""

    def ask(text: str) -> str:
        calls.note("ask", (get_interrupt_state().state, get_resume_data().is_target))
        return f"{text}!{interrupt('sub-sub graph interrupt info', state=text)}"

    return ask


@KINDS
def test_an_app_without_a_store(runner: Runner, store: MapStore | FileStore, kind: str) -> None:
    """B084, B086, K14: the tool runs twice in all; the inner app starts over, and its node has its state and its answer."""
    calls = Calls()
    targets: list[bool] = []
    inner = app_of(calls)

    def wrapper(text: str) -> str:
        targets.append(get_resume_data().is_target)
        try:
            return str(inner.invoke(text))
        except Interrupted as stop:
            raise composite_interrupt("wrapper tool interrupt", None, [stop]) from None

    async def awaited_wrapper(text: str) -> str:
        targets.append(get_resume_data().is_target)
        try:
            return str(await inner.ainvoke(text))
        except Interrupted as stop:
            raise composite_interrupt("wrapper tool interrupt", None, [stop]) from None

    awaited_wrapper.__name__ = "wrapper"
    app = tools_app(wrapper if kind == "plain" else awaited_wrapper, store=store)
    stop = stopped(runner, app, asking(call("c1", "wrapper", text="x")), checkpoint_id="1")

    place = "runnable:root;node:tools;tool:wrapper:c1"
    assert places(stop) == [f"{place};runnable:inner;node:sub;node:ask"]
    above = []
    point = stop.interrupts[0].parent
    while point is not None:
        above.append((str(point.address), point.info if point.address[-1].type != "node" else "…"))
        point = point.parent
    assert above == [
        (f"{place};runnable:inner;node:sub", "…"),
        (f"{place};runnable:inner", None),
        (place, "wrapper tool interrupt"),
        ("runnable:root;node:tools", "…"),
        ("runnable:root", None),
    ]
    assert contents(runner.resume(app, "1", answer="go")) == {"c1": "xfirst!go"}
    assert targets == [False, True]
    assert calls.inputs["ask"] == [(None, False), ("xfirst", True)]
    assert (calls["before"], calls["first"]) == (2, 2)


@KINDS
@pytest.mark.parametrize("saved", [True, False], ids=["own store", "no store"])
def test_apps_side_by_side(runner: Runner, store: MapStore | FileStore, kind: str, saved: bool) -> None:
    """B083, B085: stops that tools let escape as they are belong to their calls; what is not answered is not entered."""
    calls = Calls()
    inner = app_of(calls, store=MapStore() if saved else None)
    options = {"checkpoint_id": "inner {}"} if saved else {}
    app = tools_app(running(kind, inner, **options), store=store)
    batch = asking(*(call(f"c{text}", "wrapper", text=text) for text in "xyz"))
    stop = stopped(runner, app, batch, checkpoint_id="1")

    assert places(stop) == [
        f"runnable:root;node:tools;tool:wrapper:c{text};runnable:inner;node:sub;node:ask" for text in "xyz"
    ]
    point = {at.address[2].sub_id: at.id for at in stop.interrupts}
    assert len(set(point.values())) == 3
    second = stopped_again(runner, app, "1", {point["cy"]: "Y"})
    assert {at.address[2].sub_id: at.id for at in second.interrupts} == {"cx": point["cx"], "cz": point["cz"]}
    assert calls["ask"] == 4
    assert contents(runner.resume(app, "1", {point["cx"]: "X", point["cz"]: "Z"})) == {
        f"c{text}": f"{text}first!{text.upper()}" for text in "xyz"
    }
    assert calls["ask"] == 6
    assert calls["first"] == (3 if saved else 6)


@KINDS
def test_an_inner_run_is_answered_directly(runner: Runner, kind: str) -> None:
    """An inner run under an id of its own may be finished by itself; the outer one goes on with a plain run."""
    calls = Calls()
    inner = app_of(calls, store=MapStore(), when_done="keep")
    app = tools_app(running(kind, inner, checkpoint_id="in"), store=MapStore())
    stop = stopped(runner, app, asking(call("c1", "wrapper", text="x")), checkpoint_id="1")

    assert ids(runner.pending(inner, "in")) == ids(stop)
    second = stopped(runner, app, None, checkpoint_id="1")
    assert ids(second) == ids(stop)
    assert contents(runner.resume(app, "1", answer="go")) == {"c1": "xfirst!go"}


@KINDS
def test_an_app_with_tools_in_a_tool(runner: Runner, store: MapStore | FileStore, kind: str) -> None:
    """A tool whose app has a tools node itself: finished calls of both levels are kept, if the inner app is stored."""
    calls = Calls()

    def leaf(text: str) -> str:
        calls.note(text)
        return f"{text} {interrupt(str(current_address()))}" if text == "ask" else text

    def request(text: str) -> Any:
        return asking(call("l1", "leaf", text="free"), call("l2", "leaf", text="ask"))

    inner = Graph(str)
    inner.add_node("model", request)
    inner.add_node("tools", ToolsNode([leaf]))
    for source, target in ((START, "model"), ("model", "tools"), ("tools", END)):
        inner.add_edge(source, target)
    app = tools_app(running(kind, inner.compile(name="inner", store=MapStore()), checkpoint_id="in {}"), store=store)
    stop = stopped(runner, app, asking(call("c1", "wrapper", text="x")), checkpoint_id="1")

    place = "runnable:root;node:tools;tool:wrapper:c1;runnable:inner;node:tools;tool:leaf:l2"
    assert (places(stop), asked(stop)) == ([place], [place])
    (message,) = runner.resume(app, "1", answer="go")
    assert json.loads(message["content"]) == [
        {"role": "tool", "tool_call_id": "l1", "name": "leaf", "content": "free"},
        {"role": "tool", "tool_call_id": "l2", "name": "leaf", "content": "ask go"},
    ]
    assert (calls["free"], calls["ask"]) == (1, 2)


@pytest.mark.parametrize("on_error", ["raise", "message"])
def test_a_failure_of_the_run_is_no_result(runner: Runner, on_error: str) -> None:
    """A clash of checkpoint ids, and the like, fails the run whatever the model is told of failures of tools."""
    store = MapStore()
    inner = solo(lambda text: text + interrupt("q")).compile(name="inner", store=store)
    app = tools_app(running("plain", inner, checkpoint_id="1"), store=store, on_error=on_error)
    with pytest.raises(NodeError, match="'1' belongs to the run that this app is called from") as caught:
        runner.invoke(app, asking(call("c1", "wrapper", text="x")), checkpoint_id="1")

    error = caught.value.__cause__
    assert error is not None
    assert isinstance(error.__cause__, OptionError)
    assert store.get("1") is None


def test_a_failing_app_is_a_failing_tool(runner: Runner) -> None:
    """An inner run that fails is a failure of the tool, which the model may be told of."""

    def boom(text: str) -> str:
        raise ValueError(text)

    app = tools_app(running("plain", solo(boom).compile()), on_error="message")

    assert contents(runner.invoke(app, asking(call("c1", "wrapper", text="bad")))) == {
        "c1": "Error: NodeError: node n failed: ValueError: bad"
    }
