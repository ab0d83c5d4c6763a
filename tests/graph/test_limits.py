"""Step limits, and a store that fails."""

from __future__ import annotations

from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain
from wiring import wire

from blobcp import (
    END,
    START,
    CheckpointSaveError,
    Graph,
    Interrupted,
    MaxStepsError,
    OptionError,
    StoreError,
    interrupt,
    read_header,
)
from blobcp.stores import MapStore


def loop(calls: Calls, until: int) -> Graph:
    """Return one node that appends "1" until the text has this length."""
    graph = Graph(str, str)
    graph.add_node("1", appending("1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda text: END if len(text) >= until else "1", ["1", END])
    return graph


@pytest.mark.parametrize("way", ["compile", "invoke"])
def test_max_steps(runner: Runner, way: str) -> None:
    """B131: three steps suffice for the loop of B006, two fail, naming graph and limit."""
    calls = Calls()

    def run(limit: int) -> Any:
        graph = loop(calls, until=3)
        if way == "compile":
            return runner.invoke(graph.compile(max_steps=limit), "")
        return runner.invoke(graph.compile(), "", max_steps=limit)

    assert run(3) == "111"
    with pytest.raises(MaxStepsError, match="graph 'root' was not finished after max_steps=2 super-steps") as caught:
        run(2)

    assert caught.value.path == []
    assert calls["1"] == 3 + 2


def test_default_limit(runner: Runner) -> None:
    """B131: without a limit an endless loop runs as many steps as there are nodes, and ten."""
    calls = Calls()
    with pytest.raises(MaxStepsError, match="max_steps=11"):
        runner.invoke(loop(calls, until=10**9).compile(), "")
    assert calls["1"] == 11

    calls = Calls()
    graph = Graph(str, str)
    for key in ("1", "2", "3"):
        graph.add_node(key, appending(key, calls))
    wire(graph, "start 1 2 3")
    graph.add_branch("3", lambda _: "1", ["1", END])
    with pytest.raises(MaxStepsError, match="max_steps=13"):
        runner.invoke(graph.compile(), "")
    assert len(calls.order) == 13


def test_the_option_overrides_what_was_compiled(runner: Runner) -> None:
    """B131: a limit given to the run takes the place of the compiled one, larger or smaller."""
    app = loop(Calls(), until=5).compile(max_steps=3)

    assert runner.invoke(app, "", max_steps=5) == "11111"
    with pytest.raises(MaxStepsError, match="max_steps=2"):
        runner.invoke(app, "", max_steps=2)


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one(runner: Runner, limit: int) -> None:
    """B131, P6: a limit below 1 is refused before anything runs or is read, at invoke and at resume."""
    calls = Calls()
    app = chain("1", calls=calls).compile(store=MapStore())

    with pytest.raises(OptionError, match=rf"max_steps={limit} .*at least 1"):
        runner.invoke(app, "x", max_steps=limit)
    with pytest.raises(OptionError, match=rf"max_steps={limit} .*at least 1"):
        runner.resume(app, "not there", max_steps=limit)

    assert calls["1"] == 0


@pytest.mark.parametrize("eager", [True, False])
def test_a_dag_has_no_limit(runner: Runner, eager: bool) -> None:
    """B131: in dag mode a step limit is refused as a run option too."""
    calls = Calls()
    app = chain("1", calls=calls).compile(mode="dag", eager=eager)

    with pytest.raises(OptionError, match="max_steps is for pregel mode"):
        runner.invoke(app, "x", max_steps=100)

    assert calls["1"] == 0


def test_each_run_counts_from_zero(runner: Runner) -> None:
    """B132, K50: a resumed run has the whole budget again."""
    app = chain("1", "2", "3").compile(store=MapStore(), interrupt_before=["3"], max_steps=2)

    with pytest.raises(Interrupted):
        runner.invoke(app, "a", checkpoint_id="run")

    assert runner.invoke(app, checkpoint_id="run") == "a123"


def test_limits_of_nested_graphs(runner: Runner) -> None:
    """B133, K46: a limit given to the run is the root's; a nested graph keeps its own, and fails with its path."""
    outer = Graph(str, str)
    outer.add_node("sub", loop(Calls(), until=5))
    wire(outer, "start sub end")
    assert runner.invoke(outer.compile(), "", max_steps=1) == "11111"

    outer = Graph(str, str)
    outer.add_node("sub", loop(Calls(), until=5).compile(max_steps=4))
    wire(outer, "start sub end")
    with pytest.raises(MaxStepsError, match="graph sub was not finished after max_steps=4") as caught:
        runner.invoke(outer.compile(), "", max_steps=50)
    assert caught.value.path == ["sub"]


def test_each_visit_of_a_nested_graph_counts_from_zero(runner: Runner) -> None:
    """B133: a nested graph that a loop visits again has its whole budget each time."""
    outer = Graph(str, str)
    outer.add_node("sub", chain("x", "y").compile(max_steps=2))
    outer.add_edge(START, "sub")
    outer.add_branch("sub", lambda text: END if len(text) >= 6 else "sub", ["sub", END])

    assert runner.invoke(outer.compile(), "") == "xyxyxy"


class Broken:
    """A store that fails in one of its methods."""

    def __init__(self, method: str, error: Exception) -> None:
        self.blobs: dict[str, bytes] = {}
        self.method = method
        self.error = error

    def get(self, checkpoint_id: str) -> bytes | None:
        if self.method == "get":
            raise self.error
        return self.blobs.get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        if self.method == "set":
            raise self.error
        self.blobs[checkpoint_id] = checkpoint


def asking(calls: Calls) -> Graph:
    """Return a graph of one node that asks."""
    return chain("ask", ask=lambda text: (calls.note("ask"), text + interrupt("go on?"))[1])


def test_a_store_that_can_not_read(runner: Runner, mode: dict[str, Any]) -> None:
    """B134: an error of the store's get fails the call before any node, naming the id, with that error as the cause."""
    calls, error = Calls(), OSError("disk on fire")
    app = asking(calls).compile(store=Broken("get", error), **mode)

    for call in (
        lambda: runner.invoke(app, "x", checkpoint_id="run-7"),
        lambda: runner.resume(app, "run-7"),
        lambda: runner.pending(app, "run-7"),
    ):
        with pytest.raises(StoreError, match=r"could not read checkpoint 'run-7'.*disk on fire") as caught:
            call()
        assert caught.value.__cause__ is error

    assert calls["ask"] == 0


def test_a_store_that_can_not_write(runner: Runner, mode: dict[str, Any]) -> None:
    """B134, K31: an error of the store's set names the id and keeps cause, interrupts, info and blob; nothing is lost."""
    calls, error = Calls(), OSError("disk full")
    store = Broken("set", error)
    app = asking(calls).compile(store=store, **mode)

    with pytest.raises(CheckpointSaveError, match=r"checkpoint 'run-7' was not saved.*disk full") as caught:
        runner.invoke(app, "x", checkpoint_id="run-7")

    failed = caught.value
    assert failed.__cause__ is error
    assert failed.checkpoint_id == "run-7"
    assert [point.info for point in failed.interrupts] == ["go on?"]
    assert failed.info is not None
    assert failed.info.rerun_nodes == ["ask"]
    assert failed.blob is not None
    assert read_header(failed.blob).checkpoint_id == "run-7"

    store.method = ""
    store.set("run-7", failed.blob)
    assert runner.resume(app, "run-7", {failed.interrupts[0].id: "!"}) == "x!"
    assert calls["ask"] == 2


def test_a_store_that_can_not_mark(runner: Runner, mode: dict[str, Any]) -> None:
    """B134: when only the mark of a finished run can't be stored, its result is in the error."""
    error = OSError("disk full")
    store = Broken("", error)
    app = asking(Calls()).compile(store=store, **mode)
    with pytest.raises(Interrupted):
        runner.invoke(app, "x", checkpoint_id="run-7")
    store.method = "set"

    with pytest.raises(CheckpointSaveError, match=r"the run finished.*checkpoint 'run-7'.*disk full") as caught:
        runner.resume(app, "run-7", answer="!")

    assert caught.value.result == "x!"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("junk", ["text", 3, [b"x"]], ids=repr)
def test_a_store_that_gives_no_bytes(runner: Runner, junk: Any) -> None:
    """B134: a store whose get returns something else than bytes is told so, with the id."""
    store = Broken("", OSError())
    store.blobs["run-7"] = junk
    app = asking(Calls()).compile(store=store)

    with pytest.raises(StoreError, match=f"the store gave {type(junk).__name__} for checkpoint 'run-7'"):
        runner.invoke(app, "x", checkpoint_id="run-7")
