"""Values and exceptions whose own methods misbehave: text, equality, hashing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import chain, echo
from wiring import wire

from blobcp import (
    Graph,
    Interrupted,
    MergeError,
    NodeError,
    ValueMismatchError,
    interrupt,
    register_merge,
    serializable,
)
from blobcp.stores import MapStore


class Mute(Exception):
    """An exception whose text can't be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Unequal:
    """A value that can be neither compared nor hashed nor asked whether it is true."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __len__(self) -> int:
        raise RuntimeError("no length")


def mute(value: Any) -> Any:
    """Fail without text."""
    raise Mute


def test_an_exception_without_text(runner: Runner, mode: dict[str, Any]) -> None:
    """B010: an exception whose own __str__ fails is reported like any other, with its class and as the cause."""
    with pytest.raises(NodeError, match="node p failed: Mute") as caught:
        runner.invoke(chain("p", p=mute).compile(**mode), "x")

    assert isinstance(caught.value.__cause__, Mute)


def test_a_merge_function_that_fails_without_text(runner: Runner) -> None:
    """B021: an exception of a merge function whose own __repr__ fails is reported like any other."""

    class Broken:
        pass

    register_merge(Broken, mute)
    graph = Graph()
    for key in ("a", "b"):
        graph.add_node(key, lambda _: Broken())
        wire(graph, f"start {key} end")

    with pytest.raises(MergeError, match="the merge function failed on values from a, b: Mute"):
        runner.invoke(graph.compile(), "x")


def test_values_are_not_looked_at(runner: Runner, mode: dict[str, Any]) -> None:
    """A value that can't be compared, hashed or tested for truth travels like any other."""
    value = Unequal()
    graph = Graph()
    graph.add_node("1", echo)
    graph.add_node("2", echo, output_key="k")
    graph.add_node("3", echo, input_key="k")
    wire(graph, "start 1 2 3 end")

    assert runner.invoke(graph.compile(**mode), value) is value


@serializable("tests.strange.Scores")
@dataclass(eq=False)
class Scores:
    """Compared item by item, like an array: the result is no plain yes or no."""

    items: list[int]

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return Comparison()


class Comparison:
    def __bool__(self) -> bool:
        raise ValueError("the truth of many comparisons is ambiguous")


def test_questions_without_plain_equality(runner: Runner, mode: dict[str, Any]) -> None:
    """A question whose info has no plain equality, as arrays have none, is asked and answered in its turn."""

    def ask(value: Any) -> Any:
        return [interrupt(Scores([1])), interrupt({"scores": Scores([2])}), interrupt([Scores([3])])]

    graph = Graph()
    graph.add_node("ask", ask)
    app = wire(graph, "start ask end").compile(store=MapStore(), **mode)

    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="run")
    for answer in ("first", "second"):
        with pytest.raises(Interrupted):
            runner.resume(app, "run", answer=answer)

    assert runner.resume(app, "run", answer="third") == ["first", "second", "third"]


def test_a_resumed_run_holds_values_against_types(runner: Runner, mode: dict[str, Any]) -> None:
    """A value that a resumed run makes is held against the types as in a first run: None is no text."""

    def text(value: str) -> str:
        return value

    graph = Graph()
    graph.add_node("0", echo)
    graph.add_node("1", lambda _: None)
    graph.add_node("2", text)
    app = wire(graph, "start 0 1 2 end").compile(store=MapStore(), interrupt_before=["1"], **mode)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="run")

    with pytest.raises(ValueMismatchError, match="node 2 takes str and got NoneType"):
        runner.resume(app, "run")
