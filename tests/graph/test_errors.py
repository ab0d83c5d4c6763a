"""Runs that fail: the node's path, the cause, which of several errors, and what may not be caught."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain, echo
from wiring import wire

from blobcp import END, START, BlobcpError, Graph, NodeError, RunError, ValueMismatchError

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


def raising(error: BaseException) -> Any:
    """Return a node function that raises."""

    def node(value: Any) -> Any:
        raise error

    return node


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        StopIteration("over"),
        RecursionError("deep"),
        MemoryError(),
        KeyError("k"),
        AssertionError(),
        TimeoutError("late"),
        ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_node_that_raises(runner: Runner, mode: dict[str, Any], error: Exception) -> None:
    """B010: whatever Exception a node raises, the run fails with the node's path, naming it, and that cause."""
    calls = Calls()
    app = chain("p", "after", calls=calls, p=raising(error)).compile(**mode)

    with pytest.raises(NodeError, match=rf"^node p failed: {type(error).__name__}") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["p"]
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, RunError)
    assert isinstance(caught.value, BlobcpError)
    assert calls["after"] == 0


def test_pregel_waits_for_the_others_of_the_step(runner: Runner) -> None:
    """B010: in pregel mode the other nodes of the step end before the run fails; the next step does not begin."""
    calls = Calls()
    failed = threading.Event()

    def fails(value: str) -> str:
        failed.set()
        raise ValueError("bad")

    def slow(value: str) -> str:
        assert failed.wait(LIMIT)
        calls.note("slow")
        return value

    graph = Graph(str, Any)
    graph.add_node("p", fails)
    graph.add_node("slow", slow)
    graph.add_node("next", appending("next", calls))
    app = wire(graph, "start p end", "start slow next end").compile()

    with pytest.raises(NodeError, match="node p failed"):
        runner.invoke(app, "x")

    assert calls.order == ["slow"]


@pytest.mark.parametrize("first_to_fail", ["a", "c"])
def test_several_nodes_fail(runner: Runner, mode: dict[str, Any], first_to_fail: str) -> None:
    """The first node in declaration order is the one reported, whichever failed first; the others are in the notes."""
    failed = threading.Event()
    over = threading.Barrier(2)

    def node(key: str) -> Any:
        def run(value: str) -> str:
            over.wait(LIMIT)
            if key == first_to_fail:
                failed.set()
            else:
                assert failed.wait(LIMIT)
            raise ValueError(f"from {key}")

        return run

    graph = Graph(str, Any)
    graph.add_node("a", node("a"))
    graph.add_node("b", echo)
    graph.add_node("c", node("c"))
    wire(graph, "start c end", "start b end", "start a end")

    with pytest.raises(NodeError, match="node a failed: ValueError: from a") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["a"]
    assert caught.value.__notes__ == ["also failed: node c failed: ValueError: from c"]


def test_several_nodes_fail_at_several_levels(runner: Runner, mode: dict[str, Any]) -> None:
    """Errors of nested graphs take their place in the declaration order of the whole tree."""
    both = threading.Barrier(3)

    def node(key: str) -> Any:
        def run(value: str) -> str:
            both.wait(LIMIT)
            raise ValueError(key)

        return run

    inner = Graph(str, Any)
    for key in ("x", "y"):
        inner.add_node(key, node(key))
        wire(inner, f"start {key} end")
    outer = Graph(str, Any)
    outer.add_node("sub", inner)
    outer.add_node("z", node("z"))
    wire(outer, "start z end", "start sub end")

    with pytest.raises(NodeError) as caught:
        runner.invoke(outer.compile(**mode), "x")

    assert caught.value.path == ["sub", "x"]
    assert caught.value.__notes__ == [
        "also failed: node sub/y failed: ValueError: y",
        "also failed: node z failed: ValueError: z",
    ]


def test_nested_errors_carry_the_whole_path(runner: Runner, mode: dict[str, Any]) -> None:
    """B133: an error two graphs down has the keys of all levels in its path."""
    error = RuntimeError("my error")
    inner = chain("1", **{"1": raising(error)})
    graph = Graph(str, str)
    graph.add_node("a", inner)
    wire(graph, "start a end")

    with pytest.raises(NodeError, match="node a/1 failed: RuntimeError: my error") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["a", "1"]
    assert caught.value.__cause__ is error


def test_an_app_that_fails_inside_a_node(runner: Runner, mode: dict[str, Any]) -> None:
    """B133: an app called from a node's function is a run of its own; its error is the cause of the node's."""
    inner = chain("1", **{"1": raising(RuntimeError("my error"))}).compile(**mode)
    app = chain("a", a=lambda text: runner.invoke(inner, text)).compile(**mode)

    with pytest.raises(NodeError, match="node a failed: NodeError: node 1 failed: RuntimeError: my error") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["a"]
    assert isinstance(caught.value.__cause__, NodeError)
    assert caught.value.__cause__.path == ["1"]


def test_a_state_factory_that_raises(runner: Runner, mode: dict[str, Any]) -> None:
    """B010: an error of a state factory fails the run as one of the graph, root or nested."""
    error = OSError("no disk")

    def make() -> dict[str, Any]:
        raise error

    inner = chain("x", state=make)
    with pytest.raises(NodeError, match="the root graph failed: OSError: no disk") as caught:
        runner.invoke(inner.compile(**mode), "x")
    assert caught.value.path == []
    assert caught.value.__cause__ is error

    outer = Graph(str, str)
    outer.add_node("sub", inner)
    wire(outer, "start sub end")
    with pytest.raises(NodeError, match="node sub failed: OSError: no disk") as caught:
        runner.invoke(outer.compile(**mode), "x")
    assert caught.value.path == ["sub"]


def bad_result(text: str) -> str:
    """Return nothing although text is promised."""
    return None  # type: ignore[return-value]


def length(text: str) -> int:
    """Return a number."""
    return len(text)


@pytest.mark.parametrize(("value", "name"), [(3, "int"), (None, "NoneType"), (b"x", "bytes")])
def test_input_of_the_wrong_type(runner: Runner, mode: dict[str, Any], value: Any, name: str) -> None:
    """An input that is not of the declared type fails the run before any node, naming both types."""
    calls = Calls()

    with pytest.raises(ValueMismatchError, match=rf"^graph 'root' takes str and got {name}$") as caught:
        runner.invoke(chain("1", calls=calls).compile(**mode), value)

    assert caught.value.path == []
    assert isinstance(caught.value, TypeError)
    assert calls["1"] == 0


def test_input_of_a_nested_graph(runner: Runner, mode: dict[str, Any]) -> None:
    """A value that a nested graph can't take fails the run with the nested graph's path."""
    outer = Graph()
    outer.add_node("1", lambda value: 3)
    outer.add_node("sub", chain("x"))
    wire(outer, "start 1 sub end")

    with pytest.raises(ValueMismatchError, match="sub takes str and got int") as caught:
        runner.invoke(outer.compile(**mode), "x")

    assert caught.value.path == ["sub"]


def test_a_node_that_returns_nothing(runner: Runner, mode: dict[str, Any]) -> None:
    """A node that returns None where it promises text fails the run, naming node and types; what follows is not run."""
    calls = Calls()
    app = chain("1", "2", calls=calls, **{"1": bad_result}).compile(**mode)

    with pytest.raises(ValueMismatchError, match=r"^node 1 is declared to return str and got NoneType$") as caught:
        runner.invoke(app, "x")

    assert caught.value.path == ["1"]
    assert calls["2"] == 0


def test_a_node_that_is_handed_the_wrong_type(runner: Runner, mode: dict[str, Any]) -> None:
    """A node without annotations that gives what the next one does not take fails the run at that next one."""
    graph = Graph()
    graph.add_node("1", lambda value: None)
    graph.add_node("2", length)
    wire(graph, "start 1 2 end")

    with pytest.raises(ValueMismatchError, match=r"^node 2 takes str and got NoneType$") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["2"]


def test_output_of_the_wrong_type(runner: Runner, mode: dict[str, Any]) -> None:
    """An output that is not of the declared type fails the run, naming graph, types and the node it came from."""
    app = chain("1", **{"1": lambda text: 3}).compile(**mode)

    with pytest.raises(ValueMismatchError, match="graph 'root' is declared to return str and got int from 1"):
        runner.invoke(app, "x")


def test_a_failed_run_leaves_the_app_as_it_was(runner: Runner, mode: dict[str, Any]) -> None:
    """After a run that failed the app runs again as if nothing had been."""
    calls = Calls()

    def node(text: str) -> str:
        if calls.note("1") == 1:
            raise ValueError("first time")
        return text

    app = chain("1", "2", **{"1": node, "2": appending("2")}).compile(**mode)
    with pytest.raises(NodeError):
        runner.invoke(app, "x")

    assert runner.invoke(app, "x") == "x2"


def test_a_coroutine_that_nobody_awaits(runner: Runner, mode: dict[str, Any]) -> None:
    """A plain function that returns a coroutine fails its node, saying what to write instead."""

    async def work(text: str) -> str:
        return text

    app = chain("1", **{"1": lambda text: work(text)}).compile(**mode)

    with pytest.raises(NodeError, match="node 1 failed: TypeError: returned a coroutine although it is no `async def`"):
        runner.invoke(app, "x")


def test_branch_on_start_fails_before_any_node(runner: Runner, mode: dict[str, Any]) -> None:
    """B010: an error of a branch on START fails the run with "start" in its path, and no node runs."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_branch(START, raising(LookupError("which?")), ["1", END])
    graph.add_edge("1", END)

    with pytest.raises(NodeError, match="node start failed: LookupError") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["start"]
    assert calls["1"] == 0


def test_failures_leave_no_thread(runner: Runner) -> None:
    """K41: after a run, failed or not, the threads it started end."""
    graph = Graph(str, Any)
    for key in ("a", "b", "c"):
        graph.add_node(key, raising(ValueError(key)) if key == "b" else echo)
        wire(graph, f"start {key} end")
    before = set(threading.enumerate())

    with pytest.raises(NodeError):
        runner.invoke(graph.compile(), "x")

    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert asyncio.run(asyncio.sleep(0, "loop still works")) == "loop still works"
