"""Graphs, branches and fan-in in stream runs: the same results, the same nodes run, the same errors as in value runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, echo, race
from shaped import appender, fewer_modes, go, kinds, shapes
from wiring import wire

from blobcp import (
    END,
    START,
    BranchError,
    Graph,
    MergeError,
    NodeError,
    NothingToRunError,
    StreamReader,
    ValueMismatchError,
    register_merge,
)

__all__ = ["fewer_modes"]

DAGS = pytest.mark.parametrize("eager", [True, False])


def noting(kind: str, calls: Calls, *keys: str, output: bool = False) -> Graph:
    """Return a graph of appending nodes without edges; with ``output`` each gives ``{its key: its result}``."""
    graph = Graph(str, Any)
    for key in keys:
        graph.add_node(key, appender(kind, key, calls), output_key=key if output else None)
    return graph


@shapes
@DAGS
def test_paths_of_any_length(runner: Runner, shape: str, eager: bool) -> None:
    """B002: a node of a dag runs once with all its predecessors gave; a node that leads nowhere runs too."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", echo, output_key="1")
    graph.add_node("2", echo, output_key="2")
    graph.add_node("3", lambda both: both["1"] + both["2"])
    graph.add_node("4", echo)
    graph.add_node("5", lambda text: calls.note("5", text))
    graph.add_node("6", echo, output_key="6")
    graph.add_node("7", lambda both: calls.note("7") and both["1"] + both["6"])
    wire(graph, "start 1 3 4 5", "start 2 3", "4 6 7 end", "1 7")

    assert go(runner, shape, graph.compile(mode="dag", eager=eager), "hello") == "hellohellohello"
    assert calls.inputs["5"] == ["hellohello"]
    assert calls["7"] == 1


@shapes
@kinds
def test_unequal_paths(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B003: where paths of unequal length meet, pregel goes on with what came first, a dag with everything; once each."""
    calls = Calls()
    graph = Graph(str, dict)
    for key, output in (("a", "a"), ("b1", None), ("b2", "b2")):
        graph.add_node(key, appender(kind, key), output_key=output)
    graph.add_node("c", lambda met: calls.note("c") and met)
    app = wire(graph, "start a c end", "start b1 b2 c").compile(**mode)

    expected = {"a": "xa"} if mode["mode"] == "pregel" else {"a": "xa", "b2": "xb1b2"}
    assert go(runner, shape, app, "x") == expected
    assert calls["c"] == 1


@shapes
@kinds
def test_what_became_ready_together_with_end(runner: Runner, shape: str, kind: str) -> None:
    """B004: in pregel mode, what is ready together with END does not run, however nodes give their results."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appender(kind, "node1"))
    graph.add_node("2", appender(kind, "node2", calls))

    assert go(runner, shape, wire(graph, "start 1 end", "1 2 end").compile(), "") == "node1"
    assert calls["node2"] == 0


@shapes
@pytest.mark.parametrize(
    ("options", "slow_after", "order", "result"),
    [
        ({"mode": "dag"}, "fast2", ["fast", "fast2", "slow"], {"f": "xfastfast2", "s": "xslow"}),
        ({"mode": "dag", "eager": False}, "fast", ["fast", "slow", "fast2"], {"f": "xfastfast2", "s": "xslow"}),
        ({}, "fast", ["fast", "slow"], {"s": "xslow"}),
    ],
    ids=["dag", "dag-in-steps", "pregel"],
)
def test_order_of_ending(
    runner: Runner, shape: str, options: dict[str, Any], slow_after: str, order: list[str], result: dict[str, str]
) -> None:
    """B005: an eager dag starts what is ready at once, steps wait for the slowest, pregel ends with the first at END."""
    calls = Calls()

    assert go(runner, shape, race(calls, slow_after).compile(**options), "x") == result
    assert calls.order == order


@shapes
@kinds
def test_a_loop(runner: Runner, shape: str, kind: str) -> None:
    """B006: a branch leads back to a node until its condition holds."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appender(kind, "1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda text: END if len(text) >= 3 else "1", ["1", END])

    assert go(runner, shape, graph.compile(), "") == "111"
    assert calls.inputs["1"] == ["", "1", "11"]


@shapes
@pytest.mark.parametrize("error", [ValueError("broken"), RecursionError("deep")], ids=repr)
def test_a_node_that_raises(runner: Runner, mode: dict[str, Any], shape: str, error: BaseException) -> None:
    """B010: a node that raises fails the run with its path and that exception; in steps the others have run."""
    calls = Calls()

    def bad(text: str) -> str:
        raise error

    graph = Graph(str, dict)
    graph.add_node("p", bad, output_key="p")
    graph.add_node("q", appender("values", "q", calls), output_key="q")
    app = wire(graph, "start p end", "start q end").compile(**mode)

    with pytest.raises(NodeError, match="node p failed") as caught:
        go(runner, shape, app, "x")
    assert caught.value.path == ["p"]
    assert caught.value.__cause__ is error
    assert mode == {"mode": "dag"} or calls["q"] == 1


@shapes
@kinds
@DAGS
@pytest.mark.parametrize(
    ("text", "result", "ran"),
    [("hi", "hi1", "1"), ("hello", "hello23", "23"), ("hellohello", "hellohello24", "24")],
)
def test_branch_after_branch(
    runner: Runner, shape: str, kind: str, eager: bool, text: str, result: str, ran: str
) -> None:
    """B012: only the chosen way runs, and END is reached by it alone."""
    calls = Calls()
    graph = noting(kind, calls, "1", "2", "3", "4")
    graph.add_branch(START, lambda text: "2" if len(text) > 3 else "1", ["1", "2"])
    graph.add_branch("2", lambda text: "4" if len(text) > 10 else "3", ["3", "4"])
    wire(graph, "1 end", "3 end", "4 end")

    assert go(runner, shape, graph.compile(mode="dag", eager=eager), text) == result
    assert sorted(calls.order) == list(ran)


@shapes
@DAGS
@pytest.mark.parametrize(
    ("second_ends", "second", "result"),
    [(["3", "4"], "3", {"1": "1", "3": "3"}), (["2", "3"], "2", {"1": "1", "2": "2"})],
    ids=["apart", "sharing-an-end"],
)
def test_two_branches_on_one_node(
    runner: Runner, shape: str, eager: bool, second_ends: list[str], second: str, result: dict[str, str]
) -> None:
    """B013: a node that any branch of a source chose runs, although another branch of that source rejected it."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in sorted({"1", "2", *second_ends}):
        graph.add_node(key, lambda _, key=key: calls.note(key) and key, output_key=key)
        graph.add_edge(key, END)
    graph.add_branch(START, lambda _: "1", ["1", "2"])
    graph.add_branch(START, lambda _: second, second_ends)

    assert go(runner, shape, graph.compile(mode="dag", eager=eager), "x") == result
    assert sorted(calls.order) == sorted(result)


@shapes
@kinds
def test_choosing_nothing(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B015: where a branch chooses nothing and nothing else is left, the run fails and names what completed last."""
    graph = noting(kind, Calls(), "1", "2")
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda _: [], ["2"])
    graph.add_edge("2", END)

    with pytest.raises(NothingToRunError, match=r"nothing left to run .*last completed nodes: \['1'\]") as caught:
        go(runner, shape, graph.compile(**mode), "input")
    assert caught.value.last_completed == ["1"]


@shapes
@DAGS
def test_one_live_predecessor_is_enough(runner: Runner, shape: str, eager: bool) -> None:
    """B015: a node runs when one predecessor was passed over and another one has finished."""
    graph = Graph(str, str)
    for key in ("1", "2"):
        graph.add_node(key, echo)
    wire(graph, "start 1", "start 2")
    graph.add_branch("1", lambda _: [], ["2"])
    graph.add_edge("2", END)

    assert go(runner, shape, graph.compile(mode="dag", eager=eager), "input") == "input"


@shapes
@kinds
@pytest.mark.parametrize(
    ("text", "picked", "result", "ran"),
    [("x", "3", {"6": "x136"}, ["1", "3", "6"]), ("y", "2", {"5": "y1245"}, ["1", "2", "4", "5"])],
)
def test_skips_travel_down(
    runner: Runner,
    mode: dict[str, Any],
    shape: str,
    kind: str,
    text: str,
    picked: str,
    result: dict[str, str],
    ran: list[str],
) -> None:
    """B016: what only a rejected node could have reached is passed over too, until another live predecessor."""
    calls = Calls()
    graph = Graph(str, dict)
    for key in ("1", "2", "3", "4", "5", "6"):
        graph.add_node(key, appender(kind, key, calls), output_key=key if key in ("5", "6") else None)
    graph.add_branch("1", lambda _: picked, ["2", "3"])
    wire(graph, "start 1", "2 4 5 end", "3 6 end")

    assert go(runner, shape, graph.compile(**mode), text) == result
    assert sorted(calls.order) == ran


def by_value(text: str) -> str:
    """Choose by the whole text."""
    return text


def by_chunk(chunks: StreamReader[str]) -> str:
    """Choose by the first chunk."""
    return next(chunks)


@shapes
@kinds
@pytest.mark.parametrize("choose", [by_value, by_chunk])
def test_join_after_a_branch(runner: Runner, mode: dict[str, Any], shape: str, kind: str, choose: Any) -> None:
    """B017: a node behind both ends of a branch receives what the chosen one gave, and nothing else."""
    seen: list[Any] = []
    graph = Graph(str, dict)
    for key in ("2", "3"):
        graph.add_node(key, appender(kind, key), output_key=key)
    graph.add_node("J", lambda value: seen.append(value) or value)
    graph.add_branch(START, choose, ["2", "3"])
    wire(graph, "2 J end", "3 J")

    assert go(runner, shape, graph.compile(**mode), "3") == {"3": "33"}
    assert seen == [{"3": "33"}]


@shapes
@kinds
@pytest.mark.parametrize("source", [START, "1"])
def test_an_undeclared_end(runner: Runner, mode: dict[str, Any], shape: str, kind: str, source: str) -> None:
    """B017: a branch that returns what is not among its ends fails the run, naming it and its node."""
    calls = Calls()
    graph = noting(kind, calls, "1", "2")
    graph.add_branch(source, lambda _: "nowhere", ["2"])
    wire(graph, "start 1 end", "2 end")

    with pytest.raises(BranchError, match="'nowhere', which is not among its ends") as caught:
        go(runner, shape, graph.compile(**mode), "x")
    assert caught.value.path == [source]
    assert calls["2"] == 0


@shapes
@kinds
def test_direct_edge_beside_a_rejecting_branch(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B018, K39: a direct edge counts although a branch of the same source rejected its target."""
    graph = noting(kind, Calls(), "2", "3", output=True)
    graph.add_node("1", appender(kind, "1"))
    wire(graph, "start 1 2 end", "3 end")
    graph.add_branch("1", lambda _: "3", ["2", "3"])

    assert go(runner, shape, graph.compile(**mode), "a") == {"2": "a12", "3": "a13"}


def giving(*values: Any, end: str = END) -> Graph:
    """Return streaming nodes a, b, c… side by side, each of which gives a value as one chunk, all leading to END."""
    graph = Graph()
    for key, value in zip("abcdefgh", values, strict=False):

        def node(_: Any, value: Any = value) -> Iterator[Any]:
            yield value

        graph.add_node(key, node)
        wire(graph, f"start {key} {end}")
    return graph


@shapes
def test_dicts_merge(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B020: dicts of 4, 4 and 3 distinct keys that meet give one of 11, and are left as they were."""
    parts = [{f"{letter}{n}": n for n in range(count)} for letter, count in (("a", 4), ("b", 4), ("c", 3))]
    before = [dict(part) for part in parts]

    result = go(runner, shape, giving(*parts).compile(**mode), "x")

    assert result == {**parts[0], **parts[1], **parts[2]}
    assert len(result) == 11
    assert parts == before


@shapes
@pytest.mark.parametrize(
    ("values", "kinds_named"),
    [
        (({"a": 1}, "text"), "a: dict, b: str"),
        (("text", {"a": 1}), "a: str, b: dict"),
        (({"a": 1}, {"b": 2}, 3), "a: dict, b: dict, c: int"),
        ((1, 1.0), "a: int, b: float"),
        ((None, "b"), "a: NoneType, b: str"),
        (("a", None), "a: str, b: NoneType"),
        ((None, {"b": 1}), "a: NoneType, b: dict"),
        (({"a": 1}, None, {"c": 1}), "b: NoneType"),
    ],
)
def test_values_that_do_not_merge(
    runner: Runner, mode: dict[str, Any], shape: str, values: tuple[Any, ...], kinds_named: str
) -> None:
    """B020, B024, K42: values of different classes, None included, are a type mismatch at the node where they meet."""
    for shape_of_run in (shape, "invoke"):
        with pytest.raises(MergeError, match=rf"^end: type mismatch: .*{kinds_named}") as caught:
            go(runner, shape_of_run, giving(*values).compile(**mode), "x")
        assert caught.value.path == [END]


@dataclass
class Sum:
    """Merges by adding ``number`` and sorting all of ``texts``."""

    number: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass
class Broken:
    """Merges by a function that fails."""


def add_up(sums: list[Sum]) -> Sum:
    """Merge sums."""
    return Sum(sum(part.number for part in sums), sorted(text for part in sums for text in part.texts))


def fail(parts: list[Broken]) -> Broken:
    """Merge nothing."""
    raise ArithmeticError("overflow")


register_merge(Sum, add_up)
register_merge(Broken, fail)


@shapes
def test_a_merge_function(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B021: objects of a class that has a merge function merge by it, in stream runs too."""
    parts = [Sum(), Sum(1, ["1"]), Sum(2, ["2", "22"]), Sum(3, ["3", "33", "333"])]

    assert go(runner, shape, giving(*parts).compile(**mode), "x") == Sum(6, ["1", "2", "22", "3", "33", "333"])


@shapes
def test_a_merge_function_that_fails(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B021: an error of the merge function fails the run and is the cause."""
    with pytest.raises(MergeError, match=r"the merge function failed on values from a, b: ArithmeticError") as caught:
        go(runner, shape, giving(Broken(), Broken()).compile(**mode), "x")
    assert isinstance(caught.value.__cause__, ArithmeticError)


@shapes
@DAGS
@pytest.mark.parametrize(("picked", "result"), [("a", {"a": "xa"}), ("c", {"c": "xc"})])
def test_a_node_with_data_but_no_control(
    runner: Runner, shape: str, eager: bool, picked: str, result: dict[str, str]
) -> None:
    """K40: a node that only data leads to is passed over with all its sources, and not with one of them."""
    graph = Graph(str, dict)
    for key in ("a", "b", "c"):
        graph.add_node(key, appender("chunks", key), output_key=key)
    calls = Calls()
    graph.add_node("d", lambda value: calls.note("d") and value)
    graph.add_branch(START, lambda _: picked, ["a", "b", "c"])
    graph.add_edge("a", "d", control=False)
    graph.add_edge("b", "d", control=False)
    wire(graph, "d end", "c end")

    assert go(runner, shape, graph.compile(mode="dag", eager=eager), "x") == result
    assert calls["d"] == (1 if picked == "a" else 0)


@shapes
@pytest.mark.parametrize("fails", [False, True])
def test_a_node_beside_the_way_to_end(runner: Runner, shape: str, fails: bool) -> None:
    """K41: a side node of a dag has ended before the run has; what it raises in its stream fails the run."""
    done: list[str] = []

    def side(text: str) -> Iterator[str]:
        yield text
        if fails:
            raise ValueError("side trouble")
        done.append(text)

    graph = Graph(str, str)
    graph.add_node("side", side)
    graph.add_node("1", echo)
    app = wire(graph, "start 1 end", "start side").compile(mode="dag")

    if fails:
        with pytest.raises(NodeError, match="side trouble") as caught:
            go(runner, shape, app, "x")
        assert caught.value.path == ["side"]
    else:
        assert go(runner, shape, app, "x") == "x"
        assert done == ["x"]


@shapes
def test_items_that_are_false(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B009: an item of a chunk that is None or false is an item all the same."""
    graph = Graph(dict, dict)
    graph.add_node("1", lambda value: [value], input_key="k", output_key="k")
    app = wire(graph, "start 1 end").compile(**mode)

    assert [go(runner, shape, app, {"k": value}) for value in (None, False, 0, "")] == [
        {"k": [None]},
        {"k": [False]},
        {"k": [0]},
        {"k": [""]},
    ]


@shapes
def test_an_input_key_of_something_else(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B009: a chunk that is no dict fails the node that takes a key of it, naming both."""
    graph = Graph()
    graph.add_node("1", echo, input_key="k")

    with pytest.raises(ValueMismatchError, match="node 1 takes key 'k' of a dict and got str") as caught:
        go(runner, shape, wire(graph, "start 1 end").compile(**mode), "text")
    assert caught.value.path == ["1"]


@shapes
def test_control_without_data(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B137: a node that waits for one node and reads from another runs after the first with the second's chunks."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("0", appender("chunks", "0", calls))
    graph.add_node("1", appender("chunks", "_done", calls))
    wire(graph, "start 0", "1 end")
    graph.add_edge("0", "1", data=False)
    graph.add_edge(START, "1", control=False)

    assert go(runner, shape, graph.compile(**mode), "hello") == "hello_done"
    assert calls.inputs == {"0": ["hello"], "_done": ["hello"]}


@shapes
def test_data_without_control(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B137: chunks that travel past a node by data-only edges arrive together with what triggers it."""
    graph = Graph(dict, dict)
    graph.add_node("1", lambda text: f"{text}_{text}", input_key="q", output_key="1")
    graph.add_node("2", lambda both: f"{both['1']}_{both['q']}", output_key="2")
    wire(graph, "start 1 2 end")
    graph.add_edge(START, "2", control=False)
    graph.add_edge("1", END, control=False)

    expected = {"1": "query_query", "2": "query_query_query"}
    assert go(runner, shape, graph.compile(**mode), {"q": "query"}) == expected


@shapes
@pytest.mark.parametrize(("takes", "zero"), [(str, ""), (int, 0), (bool, False), (Any, None)])
def test_control_only_gives_the_zero_value(
    runner: Runner, mode: dict[str, Any], shape: str, takes: Any, zero: Any
) -> None:
    """B137: a node that nothing is sent to is handed the zero value of its type."""
    seen: list[Any] = []

    def node(value):  # type: ignore[no-untyped-def]
        seen.append(value)
        return value

    node.__annotations__ = {"value": takes}
    graph = Graph()
    graph.add_node("0", echo)
    graph.add_node("1", node)
    wire(graph, "start 0")
    graph.add_edge("0", "1", data=False)
    graph.add_edge("1", END)

    assert go(runner, shape, graph.compile(**mode), "x") == zero
    assert seen == [zero]
    assert type(seen[0]) is type(zero)


@shapes
@pytest.mark.parametrize("output", [Any, str])
def test_end_with_control_only(runner: Runner, mode: dict[str, Any], shape: str, output: Any) -> None:
    """B137: a graph whose END is sent nothing gives None, a stream without chunks."""
    graph = Graph(str, output)
    graph.add_node("1", echo)
    graph.add_edge(START, "1")
    graph.add_edge("1", END, data=False)

    assert go(runner, shape, graph.compile(**mode), "x") is None
