"""Fan-in: how the values of several predecessors become one input."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import chain, echo
from wiring import wire

from blobcp import END, START, Graph, MergeError, RegistrationError, register_merge


def giving(*values: Any) -> Graph:
    """Return nodes a, b, c… side by side, each of which gives one of the values, all leading to END."""
    graph = Graph()
    for key, value in zip("abcdefgh", values, strict=False):
        graph.add_node(key, lambda _, value=value: value)
        wire(graph, f"start {key} end")
    return graph


def test_dicts_merge(runner: Runner, mode: dict[str, Any]) -> None:
    """B020: dicts of 4, 4 and 3 distinct keys give one of 11."""
    parts = [{f"{letter}{n}": n for n in range(count)} for letter, count in (("a", 4), ("b", 4), ("c", 3))]

    result = runner.invoke(giving(*parts).compile(**mode), "x")

    assert result == {**parts[0], **parts[1], **parts[2]}
    assert len(result) == 11


def test_merging_leaves_the_parts_alone(runner: Runner, mode: dict[str, Any]) -> None:
    """B020: a merged dict is a new one; what the nodes gave is not changed."""
    first, second = {"a": 1}, {"b": 2}

    assert runner.invoke(giving(first, second).compile(**mode), "x") == {"a": 1, "b": 2}
    assert (first, second) == ({"a": 1}, {"b": 2})


def test_a_key_twice(runner: Runner, mode: dict[str, Any]) -> None:
    """B020: the same key from two sources fails the run, naming the key, both sources and the node."""
    graph = Graph()
    for key in ("a", "b"):
        graph.add_node(key, lambda _: {"k": 1})
    graph.add_node("j", echo)
    wire(graph, "start a j end", "start b j")

    with pytest.raises(MergeError, match=r"^j: key 'k' comes from both a and b") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["j"]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (({"a": 1}, "text"), "a: dict, b: str"),
        (("text", {"a": 1}), "a: str, b: dict"),
        (({"a": 1}, {"b": 2}, 3), "a: dict, b: dict, c: int"),
        ((1, 1.0), "a: int, b: float"),
    ],
)
def test_values_of_different_classes(runner: Runner, mode: dict[str, Any], values: tuple[Any, ...], kinds: str) -> None:
    """B020: a value of another class among them is a type mismatch, naming each source and its class."""
    with pytest.raises(MergeError, match=rf"^end: type mismatch: .*{kinds}"):
        runner.invoke(giving(*values).compile(**mode), "x")


@dataclass
class Sum:
    """Merges by adding ``number`` and sorting all of ``texts``."""

    number: int = 0
    texts: list[str] = field(default_factory=list)


def add_up(sums: list[Sum]) -> Sum:
    """Merge sums."""
    return Sum(sum(part.number for part in sums), sorted(text for part in sums for text in part.texts))


register_merge(Sum, add_up)


def test_registered_function(runner: Runner, mode: dict[str, Any]) -> None:
    """B021: objects of a class that has a merge function merge by it."""
    parts = [Sum(), Sum(1, ["1"]), Sum(2, ["2", "22"]), Sum(3, ["3", "33", "333"])]

    result = runner.invoke(giving(*parts).compile(**mode), "x")

    assert result == Sum(6, ["1", "2", "22", "3", "33", "333"])


def test_subclasses_merge_by_the_function_of_their_base(runner: Runner) -> None:
    """B021: a subclass merges by the function of its base, alone and beside the base."""

    class Special(Sum):
        pass

    assert runner.invoke(giving(Special(1), Sum(2)).compile(), "x") == Sum(3)
    assert runner.invoke(giving(Sum(2), Special(1)).compile(), "x") == Sum(3)
    assert runner.invoke(giving(Special(2), Special(3)).compile(), "x") == Sum(5)


def test_a_function_of_ones_own_comes_before_the_base(runner: Runner) -> None:
    """B021: a class that has a function of its own merges by that one, a dict class by its function and not by keys."""

    class Special(Sum):
        pass

    class Latest(dict):  # type: ignore[type-arg]
        pass

    register_merge(Special, lambda parts: Special(-1))
    register_merge(Latest, lambda parts: parts[-1])

    assert runner.invoke(giving(Special(2), Special(3)).compile(), "x") == Special(-1)
    assert runner.invoke(giving(Latest(k=1), Latest(k=2)).compile(), "x") == {"k": 2}


def test_a_merge_function_that_fails(runner: Runner, mode: dict[str, Any]) -> None:
    """B021: an error of the merge function fails the run as a merge error with that error as the cause."""
    boom = ArithmeticError("overflow")

    class Broken:
        pass

    def fail(parts: list[Broken]) -> Broken:
        raise boom

    register_merge(Broken, fail)

    with pytest.raises(MergeError, match=r"the merge function failed on values from a, b: ArithmeticError") as caught:
        runner.invoke(giving(Broken(), Broken()).compile(**mode), "x")

    assert caught.value.__cause__ is boom


def test_no_merge_function(runner: Runner, mode: dict[str, Any]) -> None:
    """B022: two texts that reach END and that nothing merges fail the run as an unsupported type, with advice."""
    with pytest.raises(MergeError, match=r"^end: unsupported type: values of class str meet \(from a, b\)") as caught:
        runner.invoke(giving("x", "y").compile(**mode), "in")

    assert caught.value.path == ["end"]
    assert "register_merge" in str(caught.value)


@pytest.mark.parametrize("value", [None, "text", 3, [1], object()], ids=lambda value: type(value).__name__)
def test_one_value_is_not_merged(runner: Runner, mode: dict[str, Any], value: Any) -> None:
    """B022: one value alone passes through unmerged, whatever its class."""
    assert runner.invoke(giving(value).compile(**mode), "in") is value


@pytest.mark.parametrize(
    "values",
    [
        (None, "b"),
        ("a", None),
        (None, {"b": 1}),
        ({"a": 1}, None),
        ({"a": 1}, None, {"c": 1}),
        (None, Sum()),
        (Sum(), None),
    ],
    ids=str,
)
def test_none_among_the_values(runner: Runner, mode: dict[str, Any], values: tuple[Any, ...]) -> None:
    """B024, K42: None at a fan-in is an ordinary merge error, in whichever place it is."""
    with pytest.raises(MergeError, match=r"^end: type mismatch: .*NoneType"):
        runner.invoke(giving(*values).compile(**mode), "in")


def test_nothing_but_none(runner: Runner, mode: dict[str, Any]) -> None:
    """B024, K42: two None at a fan-in are an unsupported type like others without a merge function."""
    with pytest.raises(MergeError, match=r"^end: unsupported type: values of class NoneType"):
        runner.invoke(giving(None, None).compile(**mode), "in")


def test_merge_error_in_a_nested_graph(runner: Runner, mode: dict[str, Any]) -> None:
    """B133: a merge error inside a nested graph carries the whole path."""
    outer = Graph()
    outer.add_node("sub", giving("x", "y"))
    wire(outer, "start sub end")

    with pytest.raises(MergeError, match=r"^sub/end: unsupported type") as caught:
        runner.invoke(outer.compile(**mode), "in")

    assert caught.value.path == ["sub", "end"]


def test_loops_merge_what_came_since_the_last_visit(runner: Runner) -> None:
    """A node in a loop is handed what came since it last ran; older values are used up."""
    seen: list[Any] = []
    graph = Graph(dict, dict)
    graph.add_node("1", lambda value: seen.append(value) or {"n": len(seen)})
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda value: END if value["n"] == 3 else "1", ["1", END])

    assert runner.invoke(graph.compile(), {"in": 0}) == {"n": 3}
    assert seen == [{"in": 0}, {"n": 1}, {"n": 2}]


def test_another_function_for_a_class() -> None:
    """A class has one merge function: the same again is nothing new, another one is refused, naming the class."""

    class Once:
        pass

    def merge(parts: list[Once]) -> Once:
        return parts[0]

    register_merge(Once, merge)
    register_merge(Once, merge)

    with pytest.raises(RegistrationError, match="Once already merges by"):
        register_merge(Once, lambda parts: parts[1])


def test_merged_dict_is_a_plain_one(runner: Runner) -> None:
    """B020: dicts of different dict classes merge into a plain dict."""
    result = runner.invoke(giving(OrderedDict(a=1), {"b": 2}).compile(), "x")

    assert result == {"a": 1, "b": 2}
    assert type(result) is dict


def test_merge_of_start_and_a_node(runner: Runner, mode: dict[str, Any]) -> None:
    """START is a source like any other: its value merges first where its edge was added first."""
    graph = Graph(dict, dict)
    graph.add_node("1", lambda _: {"1": 1})
    graph.add_node("j", echo)
    graph.add_edge(START, "1")
    graph.add_edge(START, "j", control=False)
    wire(graph, "1 j end")

    assert list(runner.invoke(graph.compile(**mode), {"in": 0}).items()) == [("in", 0), ("1", 1)]
    assert runner.invoke(chain("1").compile(**mode), "x") == "x1"
