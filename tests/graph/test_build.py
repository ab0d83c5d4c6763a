"""Building a graph: what is refused as it is added, each time naming the culprit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from drivers import AsyncRunner
from graphs import appending, chain, echo
from wiring import wire

from blobcp import END, START, BlobcpError, Graph, GraphBuildError, Node
from blobcp.stores import MapStore


def two() -> Graph:
    """Return a graph of nodes 1 and 2 without edges."""
    graph = Graph()
    graph.add_node("1", echo)
    graph.add_node("2", echo)
    return graph


@pytest.mark.parametrize("key", [START, END])
def test_reserved_key(key: str) -> None:
    """B011: a node can't be called "start" or "end"."""
    with pytest.raises(GraphBuildError, match=f"node key '{key}' is reserved"):
        Graph().add_node(key, echo)


@pytest.mark.parametrize("key", ["", None, 3])
def test_no_key(key: Any) -> None:
    """B011: a node key is non-empty text."""
    with pytest.raises(GraphBuildError, match=f"node key {key!r} is no key"):
        Graph().add_node(key, echo)


def test_same_key_twice() -> None:
    """B011: two nodes can't have one key."""
    with pytest.raises(GraphBuildError, match="node '1' is there already"):
        two().add_node("1", echo)


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        ("1", "nowhere", r"edge '1' -> 'nowhere': node 'nowhere' is not there.*\['1', '2'\]"),
        ("nowhere", "1", r"node 'nowhere' is not there.*\['1', '2'\]"),
        (END, "1", "'end' can't be a source"),
        ("1", START, "edge '1' -> 'start': 'start' can't be a target"),
        (START, START, "'start' can't be a target"),
    ],
)
def test_edge_that_leads_nowhere(src: str, dst: str, message: str) -> None:
    """B011: an edge joins two places that are there; END has no way out and START no way in."""
    with pytest.raises(GraphBuildError, match=message):
        two().add_edge(src, dst)


def test_same_edge_twice() -> None:
    """B011: an edge is added once, of whatever kind."""
    graph = two()
    graph.add_edge("1", "2", data=False)

    with pytest.raises(GraphBuildError, match="edge '1' -> '2' is there already"):
        graph.add_edge("1", "2", control=False)


def test_edge_that_does_nothing() -> None:
    """B011: an edge carries control, data or both."""
    with pytest.raises(GraphBuildError, match="edge '1' -> '2' has neither control nor data"):
        two().add_edge("1", "2", control=False, data=False)


@pytest.mark.parametrize(
    ("src", "choose", "ends", "message"),
    [
        ("1", echo, [], "a branch on '1' has no ends"),
        ("1", echo, ["2", "nowhere"], "branch '1' -> 'nowhere': node 'nowhere' is not there"),
        ("1", echo, [START], "branch '1' -> 'start': 'start' can't be a target"),
        ("nowhere", echo, ["1"], "node 'nowhere' is not there"),
        (END, echo, ["1"], "'end' can't be a source"),
        ("1", "2", ["2"], "a branch on '1' is '2'; give a function"),
        ("1", None, ["2"], "a branch on '1' is None; give a function"),
    ],
)
def test_branch_that_can_not_choose(src: str, choose: Any, ends: list[str], message: str) -> None:
    """B011: a branch needs a source, a function and ends that are there."""
    with pytest.raises(GraphBuildError, match=message):
        two().add_branch(src, choose, ends)


def test_a_single_end_may_be_text() -> None:
    """A branch with one end may name it as it is; its letters are not taken for ends."""
    graph = Graph()
    graph.add_node("node", echo)
    graph.add_branch(START, lambda _: "node", "node")
    graph.add_edge("node", END)

    assert graph.compile().invoke("x") == "x"


def test_a_failed_call_is_reported_from_then_on() -> None:
    """B011: after a failed build call, later build calls and compile report the first failure."""
    graph = two()
    with pytest.raises(GraphBuildError) as first:
        graph.add_edge("1", "nowhere")

    for call in (
        lambda: graph.add_node("3", echo),
        lambda: graph.add_edge("1", "2"),
        lambda: graph.add_branch("1", echo, ["2"]),
        graph.compile,
    ):
        with pytest.raises(GraphBuildError, match="node 'nowhere' is not there") as again:
            call()
        assert str(again.value) == str(first.value)


def test_a_failed_nested_graph_is_reported() -> None:
    """B011: a graph that nests one whose build failed reports that failure."""
    inner = two()
    with pytest.raises(GraphBuildError):
        inner.add_edge("1", "nowhere")
    outer = Graph()
    outer.add_node("sub", inner)
    wire(outer, "start sub end")

    with pytest.raises(GraphBuildError, match="node 'nowhere' is not there"):
        outer.compile()


def test_no_change_after_compile() -> None:
    """B011: after compile, adding a node, an edge or a branch is refused, to nested graphs too."""
    inner = chain("x")
    outer = Graph(str, str)
    outer.add_node("sub", inner)
    wire(outer, "start sub end")
    outer.compile()

    for graph in (inner, outer):
        for call in (
            lambda graph=graph: graph.add_node("new", echo),
            lambda graph=graph: graph.add_edge(START, END),
            lambda graph=graph: graph.add_branch(START, echo, [END]),
        ):
            with pytest.raises(GraphBuildError, match="already compiled"):
                call()


def test_compile_more_than_once() -> None:
    """A graph may be compiled several times, with other options each time."""
    graph = chain("1", "2")

    assert [graph.compile(mode=mode).invoke("x") for mode in ("pregel", "dag", "pregel")] == ["x12"] * 3


def generator(value: Any) -> Iterator[Any]:
    """Yield the value."""
    yield value


async def async_generator(value: Any) -> AsyncIterator[Any]:
    """Yield the value."""
    yield value


class Generates:
    def __call__(self, value: Any) -> Iterator[Any]:
        yield value


@pytest.mark.parametrize("node", [generator, async_generator, Generates(), partial(generator)], ids=repr)
def test_generator_nodes(node: Any) -> None:
    """A node that yields gives its chunks, joined, as its value."""
    graph = Graph()
    graph.add_node("g", node)
    graph.add_edge(START, "g")
    graph.add_edge("g", END)

    assert AsyncRunner().invoke(graph.compile(), "x") == "x"


def pieces(value: Iterator[str]) -> Iterator[str]:
    """Take what no value is."""
    yield from value


async def some_pieces(value: AsyncIterator[str]) -> str:
    """Take what no value is."""
    return "".join([piece async for piece in value])


@pytest.mark.parametrize("node", [pieces, some_pieces, Node(invoke=some_pieces)], ids=repr)
def test_node_that_takes_an_iterator(node: Any) -> None:
    """A node of values that is declared to take an iterator is refused, as it would never be given one."""
    with pytest.raises(GraphBuildError, match=r"node 'n' .* annotate the parameter as StreamReader to take chunks"):
        Graph().add_node("n", node)


def test_node_of_chunks_that_takes_an_iterator() -> None:
    """A function that is given as one of chunks may call its reader an iterator."""
    graph = Graph()
    graph.add_node("n", Node(transform=pieces))
    graph.add_edge(START, "n")
    graph.add_edge("n", END)

    assert list(graph.compile().transform(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("node", [None, "text", 3, {"a": 1}], ids=repr)
def test_node_that_is_no_function(node: Any) -> None:
    """A node that can't be called is refused, naming it and what it is."""
    with pytest.raises(GraphBuildError, match=r"node 'n' is .*; give a function"):
        Graph().add_node("n", node)


class Method:
    def none(self) -> None: ...

    def one(self, value: Any) -> Any:
        return value

    def two(self, value: Any, more: Any) -> Any: ...


@pytest.mark.parametrize(
    "node",
    [
        lambda: None,
        lambda a, b: None,
        lambda *, a: None,
        Method.one,
        Method().none,
        Method().two,
        partial(lambda a: a, 1),
    ],
    ids=["none", "two", "keyword", "unbound", "method-none", "method-two", "bound-partial"],
)
def test_wrong_number_of_parameters(node: Any) -> None:
    """A node function that can't be called with one value is refused, naming the node and its signature."""
    with pytest.raises(GraphBuildError, match=r"node 'n' can't be called with one value .*signature is \("):
        Graph().add_node("n", node)


@pytest.mark.parametrize(
    "node",
    [
        lambda value, more=1: value,
        lambda *values: values[0],
        lambda value, **more: value,
        Method().one,
        partial(lambda a, b: b, 1),
        str,
        str.strip,
        len,
    ],
    ids=["default", "star", "keywords", "method", "partial", "class", "unbound", "builtin"],
)
def test_anything_that_takes_one_value(node: Any) -> None:
    """Every callable that can be called with one value is a node."""
    graph = Graph()
    graph.add_node("n", node)
    wire(graph, "start n end")

    assert graph.compile().invoke(" x ") in (" x ", "x", 3)


@pytest.mark.parametrize("what", ["pre", "post"])
def test_handler_without_state(what: str) -> None:
    """B029: a state handler on a graph without a state is refused, naming the node."""
    with pytest.raises(GraphBuildError, match=f"node 'n' has a {what} handler and its graph has no state"):
        Graph().add_node("n", echo, **{what: lambda value, state: value})


def test_app_with_a_store_of_its_own() -> None:
    """An app that has a store can't be nested: its checkpoints would be its own; the node is named."""
    app = chain("1").compile(store=MapStore())

    with pytest.raises(GraphBuildError, match="node 'n' is an app with a store of its own"):
        Graph().add_node("n", app)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_graph_in_itself(levels: int) -> None:
    """A graph that nests itself, at once or further in, is refused, naming the node."""
    graphs = [Graph() for _ in range(levels)]
    for index, graph in enumerate(graphs[:-1]):
        graph.add_node(f"sub{index}", graphs[index + 1])
        wire(graph, f"start sub{index} end")

    with pytest.raises(GraphBuildError, match="node 'me' nests a graph in itself"):
        add_and_compile(graphs[-1], graphs[0])


def add_and_compile(inner: Graph, outer: Graph) -> None:
    """Nest the outer graph in the inner one, and compile."""
    inner.add_node("me", outer)
    wire(inner, "start me end")
    outer.compile()


def test_build_errors_are_value_errors_of_the_tree() -> None:
    """A build error is a BlobcpError and a ValueError."""
    with pytest.raises(GraphBuildError) as caught:
        Graph().add_node(START, appending("1"))

    assert isinstance(caught.value, BlobcpError)
    assert isinstance(caught.value, ValueError)
