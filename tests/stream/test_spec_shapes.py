"""Each written shape of a node, in each shape of a run: the node gets and gives what fits, whatever stands round it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from drivers import AsyncRunner, Runner
from shaped import fewer_modes, flowing, go
from wiring import wire

from blobcp import START, Graph, Node, StreamReader

__all__ = ["fewer_modes"]

RUNS = pytest.mark.parametrize("called", ["invoke", "stream", "collect", "transform"])


def value_to_value(number: int) -> str:
    """Give 10 and the option as one text."""
    return f"{number}+100"


def value_to_chunks(number: int) -> Iterator[str]:
    """Give them as three chunks."""
    yield from (str(number), "+", "100")


def chunks_to_value(numbers: StreamReader[int]) -> str:
    """Give one text."""
    [number] = numbers
    return f"{number}+100"


def chunks_to_chunks(numbers: StreamReader[int]) -> Iterator[str]:
    """Give three chunks."""
    yield from map(str, numbers)
    yield from ("+", "100")


async def avalue_to_value(number: int) -> str:
    """Do as the plain one does."""
    return value_to_value(number)


async def avalue_to_chunks(number: int) -> AsyncIterator[str]:
    """Do as the plain one does."""
    for chunk in value_to_chunks(number):
        yield chunk


async def achunks_to_value(numbers: StreamReader[int]) -> str:
    """Do as the plain one does."""
    [number] = [each async for each in numbers]
    return f"{number}+100"


async def achunks_to_chunks(numbers: StreamReader[int]) -> AsyncIterator[str]:
    """Do as the plain one does."""
    async for number in numbers:
        yield str(number)
    for chunk in ("+", "100"):
        yield chunk


PLAIN: dict[str, Callable[..., Any]] = {
    "invoke": value_to_value,
    "stream": value_to_chunks,
    "collect": chunks_to_value,
    "transform": chunks_to_chunks,
}
AWAITED: dict[str, Callable[..., Any]] = {
    "invoke": avalue_to_value,
    "stream": avalue_to_chunks,
    "collect": achunks_to_value,
    "transform": achunks_to_chunks,
}


def result(runner: Runner, called: str, node: Any, mode: dict[str, Any]) -> Any:
    """Run an app of one node in a shape, on 10."""
    graph = Graph()
    graph.add_node("n", node)
    given: Any = [10] if called in ("collect", "transform") else 10
    return getattr(runner, called)(wire(graph, "start n end").compile(**mode), given)


def expected(written: str, called: str) -> Any:
    """Return what comes out: chunks where both the node and the run give chunks."""
    if called in ("invoke", "collect"):
        return "10+100"
    return ["10", "+", "100"] if written in ("stream", "transform") else ["10+100"]


@RUNS
@pytest.mark.parametrize("written", PLAIN)
@pytest.mark.parametrize("form", ["function", "Node"])
def test_sixteen(runner: Runner, mode: dict[str, Any], form: str, written: str, called: str) -> None:
    """B041: a node written in any one shape gives 10+100 in a run of any shape, as chunks where both have chunks."""
    node = PLAIN[written] if form == "function" else Node(**{written: PLAIN[written]})

    assert result(runner, called, node, mode) == expected(written, called)


@RUNS
@pytest.mark.parametrize("written", AWAITED)
def test_sixteen_async(mode: dict[str, Any], written: str, called: str) -> None:
    """B041: the same for nodes of async functions, under the driver that can run them."""
    assert result(AsyncRunner(), called, Node(**{written: AWAITED[written]}), mode) == expected(written, called)


@RUNS
@pytest.mark.parametrize("first", PLAIN)
@pytest.mark.parametrize("second", ["invoke", "stream", "collect", "transform"])
def test_two_in_a_row(runner: Runner, first: str, second: str, called: str) -> None:
    """B041: nodes of any two shapes go together in a run of any shape."""

    def one(text: str) -> str:
        return f"<{text}>"

    def many(text: str) -> Iterator[str]:
        yield from ("<", text, ">")

    def joined(chunks: StreamReader[str]) -> str:
        return f"<{''.join(chunks)}>"

    def passed(chunks: StreamReader[str]) -> Iterator[str]:
        yield "<"
        yield from chunks
        yield ">"

    follow = {"invoke": one, "stream": many, "collect": joined, "transform": passed}
    graph = Graph()
    graph.add_node("1", PLAIN[first])
    graph.add_node("2", follow[second])

    assert go(runner, called, wire(graph, "start 1 2 end").compile(), 10) == "<10+100>"


@RUNS
@pytest.mark.parametrize("written", PLAIN)
def test_inside_a_nested_graph(runner: Runner, mode: dict[str, Any], written: str, called: str) -> None:
    """B041: one level down it is the same."""
    inner = Graph()
    inner.add_node("n", Node(**{written: PLAIN[written]}))
    graph = Graph()
    graph.add_node("sub", wire(inner, "start n end").compile(**mode))
    given: Any = [10] if called in ("collect", "transform") else 10

    app = wire(graph, "start sub end").compile(**mode)
    assert getattr(runner, called)(app, given) == expected(written, called)


@pytest.mark.parametrize("called", ["stream", "transform"])
def test_all_four_beside_each_other(runner: Runner, mode: dict[str, Any], called: str) -> None:
    """B041: nodes of all four shapes take copies of one stream and meet in one dict."""
    graph = Graph()
    graph.add_node("src", flowing("!"))
    for key, node in {
        "invoke": lambda text: text.upper(),
        "stream": lambda text: (letter for letter in text.upper()),
        "collect": lambda chunks: "".join(chunks).upper(),
        "transform": lambda chunks: (chunk.upper() for chunk in chunks),
    }.items():
        graph.add_node(key, Node(**{key: node}), output_key=key)
        wire(graph, f"src {key} end")
    graph.add_edge(START, "src")

    whole = dict.fromkeys(("invoke", "stream", "collect", "transform"), "AB!")
    assert go(runner, called, graph.compile(**mode), "ab") == whole
