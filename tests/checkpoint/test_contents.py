"""What a checkpoint holds, and when the store is read and written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drivers import Runner
from graphs import Calls, appending, chain, echo
from stored_runs import TwoMethodStore, blob_of, checkpoint_of, header_of, paused

from blobcp import END, START, Checkpoint, Graph, interrupt, use_state
from blobcp.checkpoint import DagChannelState, PregelChannelState
from blobcp.codec import digest_of


@dataclass
class Notes:
    """A graph's state."""

    a: str = ""


def addresses(checkpoint: Checkpoint) -> list[str]:
    """Return where the stored points are."""
    return [str(address) for address in checkpoint.interrupt_id_to_address.values()]


def states(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the stored states of the points, by address."""
    by_id = checkpoint.interrupt_id_to_state
    return {str(address): by_id[id].state for id, address in checkpoint.interrupt_id_to_address.items()}


def test_a_run_stopped_before_a_node(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B050: a record holds the next node's input, the state, empty channels, and one point of the root graph."""

    def one(text: str) -> str:
        with use_state(Notes) as state:
            state.a = "s1"
        return text + "1"

    app = chain("1", "2", state=Notes, **{"1": one}).compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")

    stored = checkpoint_of(store, "1")
    assert list(stored.channels) == ["1", "2", "end"]
    assert [channel.values for channel in stored.channels.values()] == [{}, {}, {}]
    assert stored.inputs == {"2": "a1"}
    assert stored.state == Notes("s1")
    assert (stored.rerun_nodes, stored.sub_graphs, stored.skip_pre_handler) == ([], {}, {})
    assert (stored.before_nodes, stored.after_nodes) == (["2"], [])
    assert states(stored) == {"runnable:root": None}


def finished_and_stopped(calls: Calls) -> Graph:
    """START -> f -> j and START -> i -> j, where i asks once and j echoes."""

    def ask(text: str) -> str:
        calls.note("i", text)
        return text + str(interrupt("need", state="a"))

    graph = Graph(str, dict)
    graph.add_node("f", appending("f", calls), output_key="f")
    graph.add_node("i", ask, output_key="i")
    graph.add_node("j", echo)
    for key in ("f", "i"):
        graph.add_edge(START, key)
        graph.add_edge(key, "j")
    graph.add_edge("j", END)
    return graph


def test_a_finished_and_a_stopped_predecessor(runner: Runner, mode: dict[str, Any]) -> None:
    """B051: the finished one's value waits in the channel and is used later; only the stopped one runs again."""
    store, calls = TwoMethodStore(), Calls()
    app = finished_and_stopped(calls).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1")

    stored = checkpoint_of(store, "1")
    assert stored.inputs == {"i": "a"}
    assert stored.rerun_nodes == ["i"]
    waiting = stored.channels["j"]
    assert waiting.values == {"f": {"f": "af"}}
    if mode["mode"] == "dag":
        assert isinstance(waiting, DagChannelState)
        assert waiting.control == {"f": "ready", "i": "waiting"}
        assert waiting.data == {"f": True, "i": False}
        assert (waiting.skipped, waiting.taken) == (False, False)
    else:
        assert isinstance(waiting, PregelChannelState)
        assert waiting.triggers == ["f"]
    assert states(stored) == {"runnable:root": None, "runnable:root;node:i": "a"}

    assert runner.resume(app, "1", {stop.interrupts[0].id: "!"}) == {"f": "af", "i": "a!"}
    assert (calls["f"], calls["i"]) == (1, 2)


def asking_in(*keys: str, state: Any = None) -> Graph:
    """Return a graph whose node x asks, nested in a chain of graphs at nodes with these keys."""
    inner = chain("p", "x", state=state, x=lambda text: text + str(interrupt("q")))
    for key in reversed(keys):
        outer = Graph(str, str, state=state)
        outer.add_node(key, inner)
        outer.add_edge(START, key)
        outer.add_edge(key, END)
        inner = outer
    return inner


def test_a_stopped_nested_graph(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B052: a stopped nested graph has its own record in the outer one, and no stored input of its node."""
    app = asking_in("s").compile(store=store, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")

    outer = checkpoint_of(store, "1")
    assert outer.inputs == {}
    assert outer.rerun_nodes == ["s"]
    assert outer.skip_pre_handler == {"s": True}
    assert list(outer.sub_graphs) == ["s"]
    assert addresses(outer) == ["runnable:root", "runnable:root;node:s", "runnable:root;node:s;node:x"]
    inner = outer.sub_graphs["s"]
    assert (inner.inputs, inner.rerun_nodes, inner.skip_pre_handler) == ({"x": "ap"}, ["x"], {})
    assert list(inner.channels) == ["p", "x", "end"]


def test_only_the_root_keeps_the_points(runner: Runner, store: Any) -> None:
    """K34: the maps of interrupts stand at the root and nowhere below, also after a resume that left them waiting."""
    inner = asking_in("t", state=Notes)
    graph = Graph(str, dict)
    for key in ("left", "right"):
        graph.add_node(key, inner, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1")
    first = checkpoint_of(store, "1")
    again = paused(runner.resume, app, "1", {stop.interrupts[0].id: "!"})
    second = checkpoint_of(store, "1")

    assert len(first.interrupt_id_to_address) == len(first.interrupt_id_to_state) == 7
    assert len(second.interrupt_id_to_address) == len(second.interrupt_id_to_state) == 4
    assert [point.id for point in again.interrupts] == [stop.interrupts[1].id]
    below = [nested for top in (first, second) for nested in everything_below(top)]
    assert len(below) == 6
    assert all(nested.interrupt_id_to_address == nested.interrupt_id_to_state == {} for nested in below)


def everything_below(checkpoint: Checkpoint) -> list[Checkpoint]:
    """Return the records of nested graphs, at any depth."""
    return [at for nested in checkpoint.sub_graphs.values() for at in (nested, *everything_below(nested))]


def test_a_node_that_asks_keeps_its_input(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B053: the input of a node that stopped by itself is stored, and the node sees it again."""
    calls = Calls()

    def once(text: str) -> str:
        if calls.note("1", text) == 1:
            interrupt("q")
        return text + "1"

    app = chain("1", **{"1": once}).compile(store=store, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")

    assert checkpoint_of(store, "1").inputs == {"1": "a"}
    assert runner.invoke(app, "ignored", checkpoint_id="1") == "a1"
    assert calls.inputs["1"] == ["a", "a"]


def test_a_branch_not_taken_is_stored_as_skipped(runner: Runner, store: Any) -> None:
    """B056: in dag mode the record says which nodes and which predecessors are passed over, and which are still owed."""
    graph = Graph(str, dict)
    graph.add_node("1", appending("1"))
    graph.add_node("2", appending("2"), output_key="2")
    graph.add_node("3", appending("3"), output_key="3")
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda _: "3", ["2", "3"])
    graph.add_edge("2", END)
    graph.add_edge("3", END)
    app = graph.compile(store=store, mode="dag", interrupt_before=["3"])
    paused(runner.invoke, app, "a", checkpoint_id="1")

    channels = checkpoint_of(store, "1").channels
    assert channels["2"].skipped is True
    assert channels["3"].skipped is False
    assert channels["end"].control == {"2": "skipped", "3": "waiting"}
    assert runner.invoke(app, "", checkpoint_id="1") == {"3": "a13"}


def test_a_run_without_an_id_writes_nothing(runner: Runner, mode: dict[str, Any]) -> None:
    """B057: without an id the stop is told in full and nothing is written, with a store or without; the next starts over."""
    store, calls = TwoMethodStore(), Calls()
    for with_store in (store, None):
        app = chain("1", "2", calls=calls, state=Notes).compile(store=with_store, interrupt_before=["2"], **mode)
        for _ in range(2):
            stop = paused(runner.invoke, app, "a")
            assert stop.checkpoint_id is None
            assert stop.info is not None
            assert (stop.info.before_nodes, stop.info.state) == (["2"], Notes())
            assert [(str(point.address), point.info) for point in stop.interrupts] == [("runnable:root", Notes())]

    assert calls.inputs == {"1": ["a"] * 4}
    assert store.calls == []


def test_traffic_of_a_run_that_finishes(runner: Runner, mode: dict[str, Any]) -> None:
    """B058: a run that finishes without having loaded or saved reads once and writes nothing."""
    store = TwoMethodStore()

    assert runner.invoke(chain("1").compile(store=store, **mode), "a", checkpoint_id="1") == "a1"
    assert store.calls == [("get", "1")]


def test_traffic_of_a_run_that_stops_and_is_resumed(runner: Runner, mode: dict[str, Any]) -> None:
    """B058: one get per run, one set per stop, one more for the done mark; then the id starts anew, for ever."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2", calls=calls).compile(store=store, interrupt_before=["2"], **mode)
    get, put = ("get", "1"), ("set", "1")

    for value in ("a", "b", "c"):
        before = len(store.calls)
        paused(runner.invoke, app, value, checkpoint_id="1")
        assert store.calls_since(before) == [get, put]
        assert header_of(store, "1").status == "interrupted"
        assert runner.invoke(app, "ignored", checkpoint_id="1") == f"{value}12"
        assert store.calls_since(before) == [get, put, get, put]
        assert header_of(store, "1").status == "done"
    assert calls.inputs == {"1": ["a", "b", "c"], "2": ["a1", "b1", "c1"]}


def test_traffic_with_keep(runner: Runner, mode: dict[str, Any]) -> None:
    """B058: with ``when_done="keep"`` a finished run writes nothing, so that its id replays its tail."""
    store, calls = TwoMethodStore(), Calls()
    app = chain("1", "2", calls=calls).compile(store=store, interrupt_before=["2"], when_done="keep", **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")
    blob = blob_of(store, "1")

    for _ in range(2):
        before = len(store.calls)
        assert runner.invoke(app, "b", checkpoint_id="1") == "a12"
        assert store.calls_since(before) == [("get", "1")]
    assert calls["1"] == 1
    assert blob_of(store, "1") == blob


def test_what_a_header_says(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """A header tells id, graph, run, step, status and pending points, over two stops, a fork and the end of the run."""
    graph = chain("1", "2", "3", "4")
    app = graph.compile(store=store, interrupt_before=["3", "4"], name="orders", **mode)
    started = datetime.now(UTC)
    stop = paused(runner.invoke, app, "a", checkpoint_id="A")

    first = header_of(store, "A")
    assert (first.checkpoint_id, first.graph, first.serializer) == ("A", "orders", "msgpack")
    assert (first.status, first.step, first.parent) == ("interrupted", 2, None)
    assert [(point.id, point.address) for point in first.pending] == [(stop.interrupts[0].id, "runnable:orders")]
    assert started <= first.created_at <= datetime.now(UTC)
    assert first.run_id

    digest = digest_of(blob_of(store, "A"))
    paused(runner.invoke, app, "", checkpoint_id="A", write_to_checkpoint_id="B")
    fork = header_of(store, "B")
    assert (fork.checkpoint_id, fork.status, fork.step) == ("B", "interrupted", 3)
    assert fork.parent is not None
    assert (fork.parent.id, fork.parent.digest) == ("A", digest)
    assert fork.run_id not in ("", first.run_id)

    paused(runner.resume, app, "A")
    second = header_of(store, "A")
    assert (second.run_id, second.step, second.parent, second.status) == (first.run_id, 3, None, "interrupted")

    assert runner.resume(app, "B") == "a1234"
    done = header_of(store, "B")
    assert (done.status, done.pending, done.step, done.run_id) == ("done", [], 4, fork.run_id)
    assert done.parent == fork.parent
    assert header_of(store, "A") == second


def test_what_a_stopped_nested_graph_tells_elsewhere(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P5: what is pending shows each graph's own state as its info, at any depth, though no state is stored twice."""
    inner = chain("x", state=lambda: Notes("inner")).compile(interrupt_before=["x"], **mode)
    middle = chain("t", state=lambda: Notes("middle"), t=inner)
    app = chain("s", state=lambda: Notes("outer"), s=middle).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "a", checkpoint_id="1")

    assert all(record.info is None for record in checkpoint_of(store, "1").interrupt_id_to_state.values())
    assert blob_of(store, "1").count(b"middle") == 1
    for points in (stop.interrupts, runner.pending(app, "1")):
        [point] = points
        told = []
        while point is not None:
            told.append((str(point.address), point.info, point.is_root_cause))
            point = point.parent
        assert told == [
            ("runnable:root;node:s;node:t", Notes("inner"), True),
            ("runnable:root;node:s", Notes("middle"), False),
            ("runnable:root", Notes("outer"), False),
        ]
