"""Pre- and post-handlers: when they run, what they see, what becomes of their errors and interrupts."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending
from wiring import wire

from blobcp import Graph, Interrupted, NodeError, interrupt, serializable, use_state
from blobcp.stores import FileStore, MapStore

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


@serializable("tests.handlers.Text")
@dataclass
class Text:
    a: str = ""


def test_handlers_round_a_node(runner: Runner, mode: dict[str, Any]) -> None:
    """The pre-handler changes what the node is handed, the post-handler what travels on; both see the state."""
    graph = Graph(str, str, state=Text)

    def pre(text: str, state: Text) -> str:
        state.a += "pre,"
        return f"<{text}"

    def post(text: str, state: Text) -> str:
        return f"{text}>{state.a}"

    graph.add_node("1", appending("1"), pre=pre, post=post)
    app = wire(graph, "start 1 end").compile(**mode)

    assert runner.invoke(app, "x") == "<x1>pre,"


def test_handlers_and_keys(runner: Runner, mode: dict[str, Any]) -> None:
    """A pre-handler sees the value as it arrived and a post-handler as it travels on, keys included."""
    seen: list[Any] = []

    def note(value: Any, state: Any) -> Any:
        seen.append(value)
        return value

    graph = Graph(dict, dict, state=dict)
    graph.add_node("1", str.upper, pre=note, post=note, input_key="in", output_key="out")
    app = wire(graph, "start 1 end").compile(**mode)

    assert runner.invoke(app, {"in": "x", "more": 1}) == {"out": "X"}
    assert seen == [{"in": "x", "more": 1}, {"out": "X"}]


def test_pre_handlers_of_a_step_come_first(runner: Runner, mode: dict[str, Any]) -> None:
    """B036: of two nodes that are ready together, both pre-handlers run before either function."""
    events: list[str] = []
    both = threading.Barrier(2)

    def node(value: str) -> str:
        events.append("run")
        both.wait(LIMIT)
        return value

    graph = Graph(str, dict, state=dict)
    for key in ("a", "b"):
        graph.add_node(
            key, node, pre=lambda value, state, key=key: events.append(f"pre {key}") or value, output_key=key
        )
        wire(graph, f"start {key} end")

    runner.invoke(graph.compile(**mode), "x")

    assert events == ["pre a", "pre b", "run", "run"]


def test_handlers_of_a_graph_never_overlap(runner: Runner, mode: dict[str, Any]) -> None:
    """B036: handlers and use_state blocks of one graph are never inside at the same time."""
    lock = threading.Lock()
    overlaps: list[str] = []

    def alone(what: str) -> None:
        if not lock.acquire(blocking=False):
            overlaps.append(what)
            return
        threading.Event().wait(0.001)  # gives others the chance to come in; nothing depends on it
        lock.release()

    def handler(value: Any, state: Text) -> Any:
        alone("handler")
        return value

    def node(value: Any) -> Any:
        for _ in range(5):
            with use_state(Text):
                alone("node")
        return value

    graph = Graph(str, dict, state=Text)
    for index in range(6):
        graph.add_node(f"n{index}", node, pre=handler, post=handler, output_key=f"n{index}")
        wire(graph, f"start n{index} end")

    runner.invoke(graph.compile(**mode), "x")

    assert overlaps == []


def failing(error: Exception) -> Any:
    """Return a handler that raises."""

    def handle(value: Any, state: Any) -> Any:
        raise error

    return handle


def test_a_pre_handler_that_raises(runner: Runner) -> None:
    """B037: its node's function does not run, the other node of the step runs once, the run fails with the path."""
    calls = Calls()
    boom = ValueError("not today")
    graph = Graph(str, Any, state=dict)
    graph.add_node("a", appending("a", calls), pre=failing(boom))
    graph.add_node("b", appending("b", calls))
    app = wire(graph, "start a end", "start b end").compile()

    with pytest.raises(NodeError, match="node a failed: ValueError: not today") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["a"]
    assert caught.value.__cause__ is boom
    assert calls.order == ["b"]


def test_a_post_handler_that_raises(runner: Runner, mode: dict[str, Any]) -> None:
    """B037: its node's function has run once, what follows does not, the run fails with the path."""
    calls = Calls()
    boom = ValueError("not today")
    graph = Graph(str, str, state=dict)
    graph.add_node("a", appending("a", calls), post=failing(boom))
    graph.add_node("b", appending("b", calls))
    app = wire(graph, "start a b end").compile(**mode)

    with pytest.raises(NodeError, match="node a failed: ValueError: not today") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["a"]
    assert caught.value.__cause__ is boom
    assert calls.order == ["a"]


def once(info: str) -> Any:
    """Return a function that interrupts on its first call."""
    calls: list[int] = []

    def ask() -> None:
        calls.append(1)
        if len(calls) == 1:
            interrupt(info)

    return ask


def test_a_pre_handler_may_interrupt(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B038: its node is a rerun node; on a plain re-run it runs again, with the original input."""
    calls, seen, ask = Calls(), [], once("may I?")

    def pre(text: str, state: Text) -> str:
        seen.append(text)
        ask()
        return text

    graph = Graph(str, str, state=Text)
    graph.add_node("1", appending("1", calls), pre=pre)
    app = wire(graph, "start 1 end").compile(store=store, **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "a", checkpoint_id="run")
    info = caught.value.info
    assert info is not None
    assert (info.rerun_nodes, info.rerun_extra, info.before_nodes) == (["1"], {"1": "may I?"}, [])
    assert calls["1"] == 0

    assert runner.invoke(app, "other", checkpoint_id="run") == "a1"
    assert seen == ["a", "a"]


def test_a_rerun_repeats_the_pre_handler(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B039: what the pre-handler did to the state before the stop is kept, and it is done once more on the re-run."""
    calls, ask = Calls(), once("?")

    def pre(text: str, state: Text) -> str:
        state.a += f"|{text}"
        return state.a

    def node(text: str) -> str:
        calls.note("1", text)
        ask()
        return text

    graph = Graph(str, str, state=Text)
    graph.add_node("1", node, pre=pre)
    app = wire(graph, "start 1 end").compile(store=store, **mode)

    with pytest.raises(Interrupted):
        runner.invoke(app, "a", checkpoint_id="run")

    assert runner.invoke(app, checkpoint_id="run") == "|a|a"
    assert calls.inputs["1"] == ["|a", "|a|a"]


def test_a_post_handler_may_interrupt(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B040, K11: its node is a rerun node; the function is called again with the original input."""
    calls, ask = Calls(), once("keep it?")

    def post(text: str, state: Text) -> str:
        ask()
        return text + "p"

    graph = Graph(str, str, state=Text)
    graph.add_node("1", appending("1", calls), post=post)
    app = wire(graph, "start 1 end").compile(store=store, **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "a", checkpoint_id="run")
    assert caught.value.info is not None
    assert caught.value.info.rerun_nodes == ["1"]

    assert runner.invoke(app, checkpoint_id="run") == "a1p"
    assert calls.inputs["1"] == ["a", "a"]


@pytest.mark.parametrize("stops", ["pre", "node", "post"])
def test_inputs_are_kept_as_they_arrived(
    runner: Runner, mode: dict[str, Any], store: MapStore | FileStore, stops: str
) -> None:
    """K10, K11: handlers and nodes that change their input in place don't change what the node runs again with."""
    seen: list[Any] = []
    ask = once("?")

    def step(name: str) -> Any:
        def run(value: dict[str, str], *state: Any) -> dict[str, str]:
            if name == "pre":
                seen.append(dict(value))
            value["k"] += name[1]
            if name == stops:
                ask()
            return value

        return run

    def node(value: dict[str, str]) -> dict[str, str]:
        result: dict[str, str] = step("node")(value)
        return result

    graph = Graph(dict, dict, state=Text)
    graph.add_node("1", node, pre=step("pre"), post=step("post"))
    app = wire(graph, "start 1 end").compile(store=store, **mode)

    with pytest.raises(Interrupted):
        runner.invoke(app, {"k": "v"}, checkpoint_id="run")

    assert runner.invoke(app, checkpoint_id="run") == {"k": "vroo"}
    assert seen == [{"k": "v"}, {"k": "v"}]


def test_an_answer_to_a_handler(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B038, B040: a handler asks like a node does, and gets its answer; pre, node and post may each ask."""
    graph = Graph(str, str, state=Text)
    graph.add_node(
        "1",
        lambda text: text + interrupt("node?"),
        pre=lambda text, state: text + interrupt("pre?"),
        post=lambda text, state: text + interrupt("post?"),
    )
    app = wire(graph, "start 1 end").compile(store=store, **mode)

    asked = []
    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "a", checkpoint_id="run")
    asked.extend(point.info for point in caught.value.interrupts)
    for answer in ("1", "2"):
        with pytest.raises(Interrupted) as caught:
            runner.resume(app, "run", answer=answer)
        asked.extend(point.info for point in caught.value.interrupts)

    assert runner.resume(app, "run", answer="3") == "a123"
    assert asked == ["pre?", "node?", "post?"]


def test_handlers_of_a_nested_graph_node(runner: Runner, mode: dict[str, Any]) -> None:
    """Handlers round a nested graph run once each, with the outer state; those inside with the inner one."""
    inner = Graph(str, str, state=lambda: Text("inner"))
    inner.add_node("x", appending("x"), pre=lambda text, state: f"{text}({state.a}")
    wire(inner, "start x end")
    outer = Graph(str, str, state=lambda: Text("outer"))
    outer.add_node(
        "sub", inner, pre=lambda text, state: f"{text}[{state.a}", post=lambda text, state: f"{text}]{state.a}"
    )

    assert runner.invoke(wire(outer, "start sub end").compile(**mode), "a") == "a[outer(innerx]outer"


def test_handlers_of_a_nested_graph_run_once(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B108: a stop inside a nested graph repeats no handler round it: pre ran before, post runs when it finishes."""
    calls = Calls()
    inner = Graph(str, str)
    inner.add_node("x", lambda text: text + interrupt("?"))
    wire(inner, "start x end")
    outer = Graph(str, str, state=Text)
    outer.add_node(
        "sub",
        inner,
        pre=lambda text, state: (calls.note("pre"), f"{text}[")[1],
        post=lambda text, state: (calls.note("post"), f"{text}]")[1],
    )
    app = wire(outer, "start sub end").compile(store=store, **mode)
    with pytest.raises(Interrupted):
        runner.invoke(app, "a", checkpoint_id="run")
    assert calls.order == ["pre"]

    assert runner.resume(app, "run", answer="!") == "a[!]"
    assert calls.order == ["pre", "post"]
