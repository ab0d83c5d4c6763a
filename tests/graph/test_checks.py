"""What can be seen to go wrong before a run: states that are none, handlers and branches that can't be called."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import chain, echo
from wiring import wire

from blobcp import END, START, Graph, GraphBuildError, OptionError, RunError


def nodes(*keys: str) -> Graph:
    """Return a graph of echo nodes without edges."""
    graph = Graph()
    for key in keys:
        graph.add_node(key, echo)
    return graph


def compiled(graph: Graph, **options: Any) -> None:
    """Compile a graph that may be refused while it is made as well."""
    wire(graph, "start 1 end")
    graph.compile(**options)


def test_unreachable_by_control_in_pregel_mode() -> None:
    """In pregel mode a node that only data reaches would never run; it is refused by name. A dag runs it."""

    def graph() -> Graph:
        made = nodes("1", "2")
        made.add_edge(START, "1")
        made.add_edge("1", "2", control=False)
        made.add_edge("2", END)
        return made

    with pytest.raises(GraphBuildError, match="'2'"):
        graph().compile()
    assert graph().compile(mode="dag").invoke("x") == "x"


@pytest.mark.parametrize("state", [{"a": 1}, "text", 3], ids=repr)
def test_a_state_that_is_no_factory(state: Any) -> None:
    """A state that can't be called is refused before a run, saying what a state is."""
    with pytest.raises(GraphBuildError, match="state"):
        compiled_with_state(state)


def compiled_with_state(state: Any) -> None:
    """Make and compile a graph with this state."""
    graph = Graph(state=state)
    graph.add_node("1", echo)
    compiled(graph)


async def async_factory() -> dict[str, Any]:
    """Return a state."""
    return {}


def test_an_async_state_factory() -> None:
    """A state factory that has to be awaited is refused, naming it."""
    with pytest.raises(GraphBuildError, match=r"state=<function async_factory at .*plain function"):
        compiled_with_state(async_factory)


def test_a_state_factory_that_makes_nothing(runner: Runner) -> None:
    """A state factory that returns None fails the run before any node, naming the graph."""
    graph = Graph(state=lambda: None)
    graph.add_node("1", lambda _: pytest.fail("the node ran"))
    wire(graph, "start 1 end")

    with pytest.raises(RunError, match=r"root.*state"):
        runner.invoke(graph.compile(), "x")


@pytest.mark.parametrize("what", ["pre", "post"])
@pytest.mark.parametrize("handler", ["text", lambda value: value, lambda value, state, more: value])
def test_a_handler_that_can_not_be_called(what: str, handler: Any) -> None:
    """A handler that can't be called with a value and a state is refused, naming the node."""
    with pytest.raises(GraphBuildError, match=rf"{what} handler of node 'n' .*a value and the state"):
        Graph(state=dict).add_node("n", echo, **{what: handler})


@pytest.mark.parametrize("choose", [lambda: END, lambda value, more: END], ids=["none", "two"])
def test_a_branch_that_can_not_be_called(choose: Any) -> None:
    """A branch that can't be called with one value is refused, naming the node."""
    with pytest.raises(GraphBuildError, match="branch on '1'"):
        nodes("1").add_branch("1", choose, [END])


def test_swapped_arguments_of_a_branch() -> None:
    """Ends that are no collection of keys are refused, naming the node."""
    with pytest.raises(GraphBuildError, match="branch on '1'"):
        nodes("1").add_branch("1", [END], lambda _: END)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", ["3", 2.5])
def test_a_limit_that_is_no_number(runner: Runner, limit: Any) -> None:
    """P6: a limit that is no whole number is refused, naming option and value."""
    with pytest.raises(GraphBuildError, match=f"max_steps={limit!r}"):
        chain("1").compile(max_steps=limit)
    for option in ("max_steps", "concurrency"):
        with pytest.raises(OptionError, match=f"{option}={limit!r}"):
            runner.invoke(chain("1").compile(), "x", **{option: limit})


def test_an_annotation_that_does_not_parse() -> None:
    """An annotation that can't be read stands for anything; it does not fail with an error of Python's own."""

    def node(value: Any) -> Any:
        return value

    node.__annotations__ = {"value": "int |"}
    graph = Graph()
    graph.add_node("1", node)
    wire(graph, "start 1 end")

    assert graph.compile().invoke("x") == "x"
