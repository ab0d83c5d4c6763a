"""Node keys: any text that a checkpoint can hold, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import echo
from wiring import wire

from blobcp import END, START, Graph, GraphBuildError, Interrupted, NodeError, interrupt
from blobcp.stores import FileStore, MapStore

KEYS = ["a b", "a/b", "a;node:b", "node:a", "Überprüfung", "批准", "🙂", ".", "..", "start2", "x" * 300]


@pytest.mark.parametrize("key", KEYS)
def test_any_text_is_a_key(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore, key: str) -> None:
    """A node may be called anything that is text: it stops, is told, stored and resumed under its key."""
    graph = Graph(str, str)
    graph.add_node(key, lambda text: text + interrupt("?"))
    graph.add_edge(START, key)
    graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)

    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "x", checkpoint_id="run")

    assert caught.value.info is not None
    assert caught.value.info.rerun_nodes == [key]
    assert [(segment.type, segment.id) for segment in runner.pending(app, "run")[0].address] == [
        ("runnable", "root"),
        ("node", key),
    ]
    assert runner.resume(app, "run", answer="!") == "x!"


def test_keys_that_read_alike_are_told_apart(runner: Runner, mode: dict[str, Any]) -> None:
    """Nodes whose addresses would read alike as text get their own answers."""
    inner = Graph(str, str)
    inner.add_node("b", lambda _: interrupt("?"))
    wire(inner, "start b end")
    graph = Graph(str, dict)
    graph.add_node("a", inner, output_key="nested")
    graph.add_node("a;node:b", lambda _: interrupt("?"), output_key="flat")
    for key in ("a", "a;node:b"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    with pytest.raises(Interrupted) as caught:
        runner.invoke(app, "x", checkpoint_id="run")
    nested, flat = caught.value.interrupts
    assert str(nested.address) == str(flat.address)
    assert nested.address != flat.address

    with pytest.raises(Interrupted) as caught:
        runner.resume(app, "run", {flat.id: "F"})
    assert [point.id for point in caught.value.interrupts] == [nested.id]

    assert runner.resume(app, "run", {nested.id: "N"}) == {"nested": "N", "flat": "F"}


@pytest.mark.parametrize("key", ["\ud800", "a\udfffb"])
def test_keys_that_can_not_be_stored(key: str) -> None:
    """A key with a lone surrogate, which no blob can hold, is refused when the node is added."""
    with pytest.raises(GraphBuildError, match="node key"):
        Graph().add_node(key, echo)


def test_paths_are_lists_of_keys(runner: Runner, mode: dict[str, Any]) -> None:
    """B133: the path of an error holds the keys as they are, whatever separators are in them."""

    def fail(_: str) -> str:
        raise ValueError("bad")

    inner = Graph(str, str)
    inner.add_node("b/c", fail)
    inner.add_edge(START, "b/c")
    inner.add_edge("b/c", END)
    graph = Graph(str, str)
    graph.add_node("a/b", inner)
    graph.add_edge(START, "a/b")
    graph.add_edge("a/b", END)

    with pytest.raises(NodeError) as caught:
        runner.invoke(graph.compile(**mode), "x")

    assert caught.value.path == ["a/b", "b/c"]
