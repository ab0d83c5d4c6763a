"""The same run twice is the same run: order of starts, content of the checkpoint, whatever the timing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from drivers import Runner
from graphs import chain, echo
from wiring import wire

from blobcp import END, START, Checkpoint, Envelope, Graph, Interrupted, MsgpackSerializer, NothingToRunError, interrupt
from blobcp.checkpointer import Checkpointer
from blobcp.stores import MapStore

LIMIT = 10.0
"""Seconds that a node waits for another one before the test fails."""

ORDERS = [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")]


class Finish:
    """Makes nodes that run side by side finish in a chosen order, seen from the run: post-handlers included."""

    def __init__(self, order: tuple[str, ...]) -> None:
        self._order = order
        self._over = {key: threading.Event() for key in order}

    def node(self, key: str) -> Any:
        def run(value: Any) -> Any:
            for before in self._order[: self._order.index(key)]:
                assert self._over[before].wait(LIMIT), f"{before} has not finished"
            return value

        return run

    def post(self, key: str) -> Any:
        def handle(value: Any, state: Any) -> Any:
            self._over[key].set()
            return value

        return handle


def starts(log: list[str], key: str) -> Any:
    """Return a pre-handler that notes the start of a node."""

    def handle(value: Any, state: Any) -> Any:
        log.append(key)
        return value

    return handle


def three(finish: Finish, log: list[str]) -> Graph:
    """Return a, b, c side by side, each followed by one of d, e, f."""
    graph = Graph(str, dict, state=dict)
    for key in "abc":
        graph.add_node(key, finish.node(key), pre=starts(log, key), post=finish.post(key))
    for key in "def":
        graph.add_node(key, echo, pre=starts(log, key), output_key=key)
    return wire(graph, "start c f end", "start b e end", "start a d end")


@pytest.mark.parametrize("order", ORDERS, ids="".join)
@pytest.mark.parametrize("options", [{}, {"mode": "dag", "eager": False}], ids=["pregel", "dag-in-steps"])
def test_nodes_of_a_step_start_in_declaration_order(
    runner: Runner, options: dict[str, Any], order: tuple[str, ...]
) -> None:
    """K27: the nodes of a step start in the order in which they were added, however the step before it ended."""
    log: list[str] = []
    app = three(Finish(order), log).compile(**options)

    assert runner.invoke(app, "x") == {"d": "x", "e": "x", "f": "x"}
    assert log == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_before_nodes_in_declaration_order(runner: Runner, mode: dict[str, Any], order: tuple[str, ...]) -> None:
    """K27: the nodes that a run stops before are told in the order in which they were added."""
    graph = three(Finish(order), [])
    app = graph.compile(interrupt_before=["f", "d", "e"], **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "x")

    assert caught.value.info is not None
    assert caught.value.info.before_nodes == ["d", "e", "f"]


def stored(store: MapStore, checkpoint_id: str) -> tuple[bytes, list[str]]:
    """Return the bytes of a stored checkpoint without what is different in each run, and the addresses it waits at."""
    blob = store.get(checkpoint_id)
    assert blob is not None
    serializer = MsgpackSerializer()
    checkpoint = Checkpointer(serializer, Envelope()).decode(checkpoint_id, blob).checkpoint
    assert isinstance(checkpoint, Checkpoint)
    addresses = [str(address) for address in checkpoint.interrupt_id_to_address.values()]
    checkpoint.interrupt_id_to_address = {}
    checkpoint.interrupt_id_to_state = {}
    return serializer.dumps(checkpoint), addresses


@pytest.mark.parametrize("order", ORDERS[1:], ids="".join)
def test_same_checkpoint_whatever_the_timing(runner: Runner, mode: dict[str, Any], order: tuple[str, ...]) -> None:
    """K27: a run that stops leaves the same bytes (ids and times apart) in whichever order its nodes finished."""

    def run(finish: Finish) -> tuple[bytes, list[str]]:
        graph = Graph(str, Any, state=dict)
        for key in "abc":
            graph.add_node(key, finish.node(key), post=finish.post(key), output_key=key)
        graph.add_node("ask", lambda _: interrupt("go on?"), output_key="ask")
        graph.add_node("join", echo)
        wire(graph, "start ask join end", "start a join", "start b join", "start c join")
        store = MapStore()
        with pytest.raises(Interrupted):
            runner.invoke(graph.compile(store=store, **mode), "x", checkpoint_id="run")
        return stored(store, "run")

    first = run(Finish(("a", "b", "c")))

    assert first[1] == ["runnable:root", "runnable:root;node:ask"]
    assert run(Finish(order)) == first


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_last_completed_nodes_in_declaration_order(
    runner: Runner, mode: dict[str, Any], order: tuple[str, ...]
) -> None:
    """B015, K27: the nodes that completed last are told in the order in which they were added."""
    finish = Finish(order)
    graph = Graph(str, Any, state=dict)
    for key in "abc":
        graph.add_node(key, finish.node(key), post=finish.post(key))
    graph.add_node("d", echo)
    for key in "abc":
        graph.add_edge(START, key)
        graph.add_branch(key, lambda _: [], ["d"])
    wire(graph, "d end")

    with pytest.raises(NothingToRunError, match=r"last completed nodes: \['a', 'b', 'c'\]") as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.last_completed == ["a", "b", "c"]


def test_the_same_run_twice(runner: Runner, mode: dict[str, Any]) -> None:
    """Run twice, a graph with nested graphs starts its nodes in the same order and stores the same checkpoint."""

    def run() -> tuple[list[str], tuple[bytes, list[str]]]:
        log: list[str] = []
        inner = Graph(str, str, state=list)
        inner.add_node("x", echo, pre=starts(log, "sub/x"))
        inner.add_node("ask", lambda text: interrupt({"ask": text}), pre=starts(log, "sub/ask"))
        wire(inner, "start x ask end")
        graph = Graph(str, dict, state=list)
        for key in "dcba":
            taken = "a" if key == "c" else None
            graph.add_node(key, echo, pre=starts(log, key), input_key=taken, output_key=key)
        graph.add_node("sub", inner, pre=starts(log, "sub"), output_key="sub")
        graph.add_node("join", echo, pre=starts(log, "join"))
        wire(graph, "start a c join end", "start b join", "start d join", "start sub join")
        store = MapStore()
        with pytest.raises(Interrupted):
            runner.invoke(graph.compile(store=store, **mode), "x", checkpoint_id="run", concurrency=1)
        return log, stored(store, "run")

    first = run()

    assert [run() for _ in range(3)] == [first] * 3
    assert first[0][:4] == ["d", "b", "a", "sub"]


def test_answers_do_not_change_the_order(runner: Runner, mode: dict[str, Any]) -> None:
    """K27: nodes that run again start in the order in which they were added, whatever the order of the answers."""
    log: list[str] = []
    graph = Graph(str, dict, state=dict)
    for key in "abc":
        graph.add_node(key, lambda _: interrupt("?"), pre=starts(log, key), output_key=key)
        wire(graph, f"start {key} end")
    app = graph.compile(store=MapStore(), **mode)
    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "x", checkpoint_id="run")
    ids = [point.id for point in caught.value.interrupts]

    result = runner.resume(app, "run", {id: index for index, id in reversed(list(enumerate(ids)))})

    assert result == {"a": 0, "b": 1, "c": 2}
    assert list(result) == ["a", "b", "c"]
    assert log == ["a", "b", "c"] * 2


def test_long_chains_need_no_stack(runner: Runner, mode: dict[str, Any]) -> None:
    """A chain of more nodes than Python's stack is deep runs."""
    app = chain(*(f"n{index}" for index in range(1500))).compile(**mode)

    assert len(runner.invoke(app, "")) == sum(len(f"n{index}") for index in range(1500))


def test_merge_in_declared_edge_order(runner: Runner, mode: dict[str, Any]) -> None:
    """K27: values merge in the order in which the edges were added, whatever the order of the nodes."""
    graph = Graph()
    for key in ("a", "b", "c"):
        graph.add_node(key, echo, output_key=key)
        graph.add_edge(START, key)
    for key in ("c", "a", "b"):
        graph.add_edge(key, END)

    assert list(runner.invoke(graph.compile(**mode), "x")) == ["c", "a", "b"]


def test_merge_order_counts_branches(runner: Runner, mode: dict[str, Any]) -> None:
    """K27: an end of a branch has the place in which its branch was added."""
    graph = Graph()
    for key in ("a", "b", "c"):
        graph.add_node(key, echo, output_key=key)
        graph.add_edge(START, key)
    graph.add_branch("c", lambda _: END, [END])
    graph.add_edge("b", END)
    graph.add_branch("a", lambda _: END, [END])

    assert list(runner.invoke(graph.compile(**mode), "x")) == ["c", "b", "a"]
