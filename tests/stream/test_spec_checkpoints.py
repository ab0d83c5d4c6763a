"""What stream runs store, when they store it, and how they go on: the record and the traffic are those of value runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from drivers import Runner
from graphs import Calls, chain, echo
from shaped import appender, fewer_modes, flowing, go, halted, kinds, shapes
from streaming import emitting, record_of
from watched_store import WatchedStore
from wiring import wire

from blobcp import (
    END,
    START,
    CancelToken,
    CheckpointMismatchError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    Graph,
    MaxStepsError,
    MsgpackSerializer,
    NodeError,
    OptionError,
    StoreError,
    StreamReader,
    get_interrupt_state,
    interrupt,
    read_header,
    serializable,
    use_state,
)
from blobcp.checkpoint import DagChannelState
from blobcp.stores import MapStore

__all__ = ["fewer_modes"]


@serializable("tests.test_spec_checkpoints.Notes")
@dataclass
class Notes:
    """A state with a text."""

    a: str = ""


def streaming_chain(kind: str, *keys: str, calls: Calls | None = None, **nodes: Any) -> Graph:
    """Return a chain of appending nodes of a kind."""
    return chain(*keys, **{key: nodes.get(key, appender(kind, key, calls)) for key in keys})


def status(store: Any, checkpoint_id: str) -> str:
    """Return what the header says of the run."""
    return str(read_header(store.get(checkpoint_id)).status)


@shapes
@pytest.mark.parametrize("kind", ["values", "late"])
def test_a_run_stopped_before_a_node(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B050: the record has the next node's input, the state that the stream's end left, empty channels and one point."""

    def values(text: str) -> str:
        with use_state(Notes) as state:
            state.a = "s1"
        return text + "1"

    def late(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        yield "1"
        with use_state(Notes) as state:
            state.a = "s1"

    store = MapStore()
    graph = chain("1", "2", state=Notes, **{"1": values if kind == "values" else late})
    stop = halted(runner, shape, graph.compile(store=store, interrupt_before=["2"], **mode), "a", checkpoint_id="1")

    record = record_of(store, "1")
    assert list(record.channels) == ["1", "2", "end"]
    assert [channel.values for channel in record.channels.values()] == [{}, {}, {}]
    assert (record.inputs, record.state) == ({"2": "a1"}, Notes("s1"))
    assert (record.rerun_nodes, record.sub_graphs, record.skip_pre_handler) == ([], {}, {})
    assert list(map(str, record.interrupt_id_to_address.values())) == ["runnable:root"]
    assert [each.state for each in record.interrupt_id_to_state.values()] == [None]
    assert stop.info is not None
    assert stop.info.state == Notes("s1")


def asks_late(text: str) -> Iterator[str]:
    """Ask in the middle of a stream."""
    yield text
    yield interrupt("q")


@shapes
@pytest.mark.parametrize("kind", ["values", "late"])
def test_a_stopped_nested_graph(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B052, K34: a stopped nested graph has its own record in the outer one, and its node no stored input."""
    store = MapStore()
    x = asks_late if kind == "late" else lambda text: text + interrupt("q")
    inner = streaming_chain("chunks", "p", "x", x=x)
    app = chain("s", s=inner).compile(store=store, **mode)
    halted(runner, shape, app, "a", checkpoint_id="1")

    outer = record_of(store, "1")
    assert (outer.inputs, outer.rerun_nodes, outer.skip_pre_handler) == ({}, ["s"], {"s": True})
    assert [str(address) for address in outer.interrupt_id_to_address.values()] == [
        "runnable:root",
        "runnable:root;node:s",
        "runnable:root;node:s;node:x",
    ]
    inside = outer.sub_graphs["s"]
    assert (inside.inputs, inside.rerun_nodes, inside.skip_pre_handler) == ({"x": "ap"}, ["x"], {})
    assert inside.interrupt_id_to_address == {}


@shapes
@pytest.mark.parametrize("kind", ["values", "late"])
@pytest.mark.parametrize("with_token", [False, True])
def test_a_node_that_asks_keeps_its_input(
    runner: Runner, mode: dict[str, Any], shape: str, kind: str, with_token: bool
) -> None:
    """B053: with a token or without, a node that stops by itself is stored with its input, and gets it again."""
    calls, store = Calls(), MapStore()

    def values(text: str) -> str:
        if calls.note("1", text) == 1:
            interrupt("q")
        return text + "1"

    def late(text: str) -> Iterator[str]:
        yield text
        if calls.note("1", text) == 1:
            interrupt("q")
        yield "1"

    app = chain("1", **{"1": values if kind == "values" else late}).compile(store=store, **mode)
    tokens = [CancelToken(), CancelToken()] if with_token else [None, None]
    halted(runner, shape, app, "a", checkpoint_id="1", cancel=tokens[0])

    assert record_of(store, "1").inputs == {"1": "a"}
    assert go(runner, shape, app, "ignored", checkpoint_id="1", cancel=tokens[1]) == "a1"
    assert calls.inputs["1"] == ["a", "a"]


@shapes
@pytest.mark.parametrize("place", ["root", "nested"])
def test_a_stream_that_fails_while_it_waits(runner: Runner, mode: dict[str, Any], shape: str, place: str) -> None:
    """B055, K32: a stream in a channel, beside a node that asks, fails the run when it is stored; the pause is told of."""
    store = MapStore()

    def bad(text: str) -> Iterator[str]:
        yield text
        raise ValueError("broken")

    graph = Graph(str, dict)
    graph.add_node("bad", bad, output_key="bad")
    graph.add_node("ask", lambda text: interrupt("q"), output_key="ask")
    graph.add_node("join", echo)
    wire(graph, "start bad join end", "start ask join")
    if place == "nested":
        outer = Graph(str, dict)
        outer.add_node("sub", graph)
        graph = wire(outer, "start sub end")
    app = graph.compile(store=store, **mode)

    with pytest.raises(NodeError, match="broken") as caught:
        go(runner, shape, app, "a", checkpoint_id="1")
    assert caught.value.path == (["bad"] if place == "root" else ["sub", "bad"])
    assert isinstance(caught.value.__cause__, ValueError)
    assert store.get("1") is None


@shapes
@kinds
@pytest.mark.parametrize("eager", [True, False])
def test_a_branch_not_taken_is_stored_as_skipped(runner: Runner, shape: str, kind: str, eager: bool) -> None:
    """B056: the record says which nodes and predecessors are passed over, and which are still owed."""
    store = MapStore()
    graph = Graph(str, dict)
    graph.add_node("1", appender(kind, "1"))
    graph.add_node("2", appender(kind, "2"), output_key="2")
    graph.add_node("3", appender(kind, "3"), output_key="3")
    graph.add_branch("1", lambda _: "3", ["2", "3"])
    app = wire(graph, "start 1", "2 end", "3 end").compile(store=store, mode="dag", eager=eager, interrupt_before=["3"])
    halted(runner, shape, app, "a", checkpoint_id="1")

    channels = record_of(store, "1").channels
    assert channels["2"].skipped is True
    end = channels["end"]
    assert isinstance(end, DagChannelState)
    assert end.control == {"2": "skipped", "3": "waiting"}
    assert go(runner, shape, app, checkpoint_id="1") == {"3": "a13"}


@shapes
@kinds
def test_a_run_without_an_id_writes_nothing(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B057: without an id the stop is told in full and nothing is written, with a store or without; the next starts over."""
    store, calls = WatchedStore(), Calls()
    for with_store in (store, None):
        app = streaming_chain(kind, "1", "2", calls=calls).compile(store=with_store, interrupt_before=["2"], **mode)
        for _ in range(2):
            stop = halted(runner, shape, app, "a")
            assert stop.checkpoint_id is None
            assert stop.info is not None
            assert stop.info.before_nodes == ["2"]

    assert store.calls == []
    assert calls["2"] == 0


@shapes
@kinds
def test_traffic_with_the_store(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B058, B064, K37: one get per run, one set per stop, one more for the mark of what went on and finished."""
    store, calls = WatchedStore(powers=frozenset()), Calls()
    get, put = ("get", "1"), ("set", "1")
    assert go(runner, shape, streaming_chain(kind, "1").compile(store=store, **mode), "a", checkpoint_id="1") == "a1"
    assert store.calls == [get]
    app = streaming_chain(kind, "1", "2", calls=calls).compile(store=store, interrupt_before=["2"], **mode)
    for value in ("a", "b"):
        store.calls.clear()
        halted(runner, shape, app, value, checkpoint_id="1")
        assert store.calls == [get, put]
        assert status(store.quiet, "1") == "interrupted"
        assert go(runner, shape, app, "ignored", checkpoint_id="1") == f"{value}12"
        assert store.calls == [get, put, get, put]
        assert status(store.quiet, "1") == "done"
    keeping = streaming_chain(kind, "1", "2").compile(store=store, interrupt_before=["2"], when_done="keep", **mode)
    halted(runner, shape, keeping, "k", checkpoint_id="kept")
    store.calls.clear()
    assert [go(runner, shape, keeping, "b", checkpoint_id="kept") for _ in range(2)] == ["k12", "k12"]
    assert store.calls == [("get", "kept")] * 2


@shapes
def test_interrupted_after_both(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B060: what two nodes streamed before the stop is what the resumed run merges; its own input is ignored."""
    graph = Graph(str, dict)
    for key in ("1", "2"):
        graph.add_node(key, flowing(""), output_key=key)
        graph.add_edge(START, key)
    graph.add_node("pass", echo)
    wire(graph, "1 pass end", "2 pass")
    app = graph.compile(store=MapStore(), interrupt_after=["1", "2"], **mode)
    stop = halted(runner, shape, app, "input", checkpoint_id="1")

    assert stop.info is not None
    assert sorted(stop.info.after_nodes) == ["1", "2"]
    assert go(runner, shape, app, "", checkpoint_id="1") == {"1": "input", "2": "input"}


@shapes
def test_ids_that_are_not_there(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B063, B128, K29: an unknown id is a fresh run; an id without a store is refused before anything runs."""
    calls = Calls()
    graph = streaming_chain("chunks", "1", calls=calls)

    assert go(runner, shape, graph.compile(store=MapStore(), **mode), "a", checkpoint_id="x") == "a1"
    for options in ({"checkpoint_id": "x"}, {"write_to_checkpoint_id": "x"}):
        with pytest.raises(OptionError, match="store"):
            go(runner, shape, graph.compile(**mode), "a", **options)
    assert calls["1"] == 1


@shapes
@pytest.mark.parametrize("modes", ["pregel", "dag"])
def test_a_graph_that_grew(runner: Runner, shape: str, modes: str) -> None:
    """B066, K08: a run stopped before 2 of 1 to 3 goes on in 1, 2, 4, 3."""
    store = MapStore()
    old = streaming_chain("chunks", "1", "2", "3").compile(store=store, interrupt_before=["2"], mode=modes)
    new = streaming_chain("chunks", "1", "2", "4", "3").compile(store=store, mode=modes)
    halted(runner, shape, old, "a", checkpoint_id="1")

    assert go(runner, shape, new, checkpoint_id="1") == "a1243"


def parallel(kind: str, calls: Calls, *ways: str) -> Graph:
    """Return rows of nodes side by side, whose last have output keys."""
    graph = Graph(str, dict)
    for way in ways:
        keys = way.split()
        for key in keys:
            graph.add_node(key, appender(kind, key, calls), output_key=key if key == keys[-1] else None)
        wire(graph, f"start {way} end")
    return graph


@shapes
@kinds
def test_one_of_two_ready_nodes_is_listed(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B068: stopping before one of two ready nodes starts neither; the resumed run starts both once."""
    calls, store = Calls(), MapStore()
    app = parallel(kind, calls, "A", "B").compile(store=store, interrupt_before=["A"], **mode)
    stop = halted(runner, shape, app, "x", checkpoint_id="1")

    assert calls.order == []
    assert stop.info is not None
    assert (stop.info.before_nodes, stop.info.after_nodes) == (["A"], [])
    assert record_of(store, "1").inputs == {"A": "x", "B": "x"}
    assert go(runner, shape, app, checkpoint_id="1") == {"A": "xA", "B": "xB"}
    assert (calls["A"], calls["B"]) == (1, 1)


@shapes
@kinds
@pytest.mark.parametrize("eager", [True, False])
def test_a_stop_waits_for_what_is_under_way(runner: Runner, shape: str, kind: str, eager: bool) -> None:
    """B069, B070: a stop after one node takes in what the others beside it give; nobody runs twice."""
    calls, store = Calls(), MapStore()
    app = parallel(kind, calls, "A A2", "B B2").compile(store=store, mode="dag", eager=eager, interrupt_after=["A"])
    stop = halted(runner, shape, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.before_nodes) == (["A"], [])
    assert record_of(store, "1").inputs == {"A2": "xA", "B2": "xB"}
    assert go(runner, shape, app, checkpoint_id="1") == {"A2": "xAA2", "B2": "xBB2"}
    assert dict(calls.count) == {"A": 1, "B": 1, "A2": 1, "B2": 1}


@shapes
def test_before_a_nested_graph(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B071: stopping before a nested graph runs neither its pre-handler nor anything in it; the resume each once."""
    calls = Calls()

    def pre(text: str, state: Notes) -> str:
        calls.note("pre", text)
        return text + state.a

    graph = Graph(str, str, state=lambda: Notes("P"))
    graph.add_node("sub", streaming_chain("chunks", "s", calls=calls), pre=pre)
    app = wire(graph, "start sub end").compile(store=MapStore(), interrupt_before=["sub"], **mode)
    stop = halted(runner, shape, app, "x", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.subgraphs, stop.info.before_nodes, calls.order) == ({}, ["sub"], [])
    assert go(runner, shape, app, checkpoint_id="1") == "xPs"
    assert calls.inputs == {"pre": ["x"], "s": ["xP"]}


@shapes
@kinds
def test_a_listed_node_in_a_loop(runner: Runner, shape: str, kind: str) -> None:
    """B072: the option does not fire for what a checkpoint brings back, and does for every later visit."""
    calls = Calls()
    graph = Graph(str, str)
    graph.add_node("1", appender(kind, "1", calls))
    graph.add_edge(START, "1")
    graph.add_branch("1", lambda text: END if len(text) >= 3 else "1", ["1", END])
    app = graph.compile(store=MapStore(), interrupt_before=["1"])
    ids = [halted(runner, shape, app, "", checkpoint_id="1").interrupts[0].id for _ in range(3)]

    assert go(runner, shape, app, "", checkpoint_id="1") == "111"
    assert (calls["1"], len(set(ids))) == (3, 3)


@shapes
@kinds
@pytest.mark.parametrize("place", ["root", "nested"])
def test_after_the_last_node(runner: Runner, mode: dict[str, Any], shape: str, kind: str, place: str) -> None:
    """B073, K23: stopping after the node that leads to END keeps its result, which the resumed run returns."""
    calls = Calls()
    graph = streaming_chain(kind, "1", calls=calls)
    if place == "nested":
        inner = graph.compile(interrupt_after=["1"], **mode)
        app = chain("sub", sub=inner).compile(store=MapStore(), **mode)
    else:
        app = graph.compile(store=MapStore(), interrupt_after=["1"], **mode)
    stop = halted(runner, shape, app, "a", checkpoint_id="1")

    assert stop.info is not None
    info = stop.info if place == "root" else stop.info.subgraphs["sub"]
    assert info.after_nodes == ["1"]
    assert go(runner, shape, app, "b", checkpoint_id="1") == "a1"
    assert calls.inputs == {"1": ["a"]}


@shapes
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("kind", ["values", "late"])
def test_a_question_beside_a_listed_node(runner: Runner, shape: str, eager: bool, kind: str) -> None:
    """B074, K03: a node that asks beside one that was stopped after is one stop; what was sent is joined once."""
    calls = Calls()

    def answered() -> str | None:
        found = get_interrupt_state(str)
        return f"B({found.state})" if found.has_state else None

    def values(text: str) -> str:
        calls.note("B", text)
        return answered() or interrupt("q", state=text)

    def late(text: str) -> Iterator[str]:
        calls.note("B", text)
        yield ""
        yield answered() or interrupt("q", state=text)

    def join(value: dict[str, str]) -> str:
        calls.note("C", dict(value))
        return "+".join(sorted(value))

    graph = Graph(str, dict)
    graph.add_node("Z", flowing("Z", calls), output_key="Z")
    graph.add_node("A", flowing("A", calls), output_key="A")
    graph.add_node("B", values if kind == "values" else late, output_key="B")
    graph.add_node("C", join, output_key="C")
    wire(graph, "start Z C end", "start A C", "start B end")
    app = graph.compile(store=MapStore(), mode="dag", eager=eager, interrupt_after=["A"])
    stop = halted(runner, shape, app, "in", checkpoint_id="1")

    assert stop.info is not None
    assert (stop.info.after_nodes, stop.info.rerun_nodes) == (["A"], ["B"])
    assert go(runner, shape, app, "", checkpoint_id="1") == {"B": "B(in)", "C": "A+Z"}
    assert dict(calls.count) == {"Z": 1, "A": 1, "B": 2, "C": 1}
    assert calls.inputs["C"] == [{"Z": "inZ", "A": "inA"}]


@shapes
@pytest.mark.parametrize("chunks", [[msgspec.UNSET], [None, msgspec.UNSET]], ids=["alone", "after None"])
def test_a_typed_none_that_waits(runner: Runner, mode: dict[str, Any], shape: str, chunks: list[Any]) -> None:
    """B121, B122: a stream that says nothing is stored as ``None`` under its node, and as that it is given on."""
    calls, store = Calls(), MapStore()
    graph = Graph()
    graph.add_node("1", emitting(*chunks))
    graph.add_node("2", lambda value: calls.note("2", value) and "done")
    app = wire(graph, "start 1 2 end").compile(store=store, interrupt_before=["2"], **mode)
    halted(runner, shape, app, "", checkpoint_id="1")

    assert record_of(store, "1").inputs == {"2": None}
    assert go(runner, shape, app, checkpoint_id="1") == "done"
    assert calls.inputs["2"] == [None]


@shapes
def test_a_state_modifier(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B127, K47: the modifier runs on load and on save for each state with its path; what it redacts stays in the store."""
    inner = Graph(str, str, state=lambda: Notes("S"))
    inner.add_node("p", flowing("p"))
    inner.add_node("x", flowing("x"), pre=lambda text, state: text + state.a)
    wire(inner, "start p x end")
    store = MapStore()
    app = chain("s", s=inner.compile(interrupt_before=["x"], **mode)).compile(store=store, **mode)
    seen: list[list[str]] = []

    def redact(path: list[str], state: Notes) -> Notes:
        seen.append(path)
        return Notes("redacted")

    def modify(path: list[str], state: Notes) -> None:
        seen.append(path)
        state.a += "m"

    stop = halted(runner, shape, app, "a", checkpoint_id="1", state_modifier=redact)
    assert stop.info is not None
    assert stop.info.subgraphs["s"].state == Notes("S")
    assert record_of(store, "1").sub_graphs["s"].state == Notes("redacted")
    assert go(runner, shape, app, checkpoint_id="1", state_modifier=modify) == "apredactedmx"
    assert seen == [["s"], ["s"]]

    def refuse(path: list[str], state: Notes) -> None:
        raise LookupError("not today")

    with pytest.raises(Exception, match="not today"):
        go(runner, shape, app, "a", checkpoint_id="2", state_modifier=refuse)


@shapes
def test_forks_and_new_runs(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B128, B129, K01, F12, F13: a fork leaves its source alone and must have one; a new run reads nothing that is stored."""
    calls, store = Calls(), MapStore()
    app = streaming_chain("chunks", "1", "2", "3", calls=calls).compile(
        store=store, interrupt_before=["2", "3"], **mode
    )
    halted(runner, shape, app, "a", checkpoint_id="1")
    before = store.get("1")
    halted(runner, shape, app, checkpoint_id="1", write_to_checkpoint_id="2")

    assert store.get("1") == before
    assert (record_of(store, "1").inputs, record_of(store, "2").inputs) == ({"2": "a1"}, {"3": "a12"})
    for given in ({"write_to_checkpoint_id": "3"}, {"write_to_checkpoint_id": "3", "answers": {"x": 1}}):
        with pytest.raises(CheckpointNotFoundError, match=r"missing.*not found"):
            go(runner, shape, app, None, checkpoint_id="missing", **given)
    assert store.get("3") is None
    assert calls["1"] == 1
    halted(runner, shape, app, "b", write_to_checkpoint_id="3")
    assert record_of(store, "3").inputs == {"2": "b1"}
    halted(runner, shape, app, "c", force_new_run=True, checkpoint_id="1")
    assert record_of(store, "1").inputs == {"2": "c1"}
    assert go(runner, shape, app, checkpoint_id="2") == "a123"


@shapes
@kinds
def test_limits_of_steps(runner: Runner, shape: str, kind: str) -> None:
    """B131, B132: the loop of B006 takes three steps; a limit below 1, or for a dag, is refused; each run has the whole."""
    calls = Calls()

    def loop() -> Graph:
        graph = Graph(str, str)
        graph.add_node("1", appender(kind, "1", calls))
        graph.add_edge(START, "1")
        graph.add_branch("1", lambda text: END if len(text) >= 3 else "1", ["1", END])
        return graph

    assert go(runner, shape, loop().compile(), "", max_steps=3) == "111"
    with pytest.raises(MaxStepsError, match="max_steps=2"):
        go(runner, shape, loop().compile(), "", max_steps=2)
    before = calls["1"]
    with pytest.raises(OptionError, match="at least 1"):
        go(runner, shape, loop().compile(), "", max_steps=0)
    with pytest.raises(OptionError, match="max_steps is for pregel mode"):
        go(runner, shape, streaming_chain(kind, "1", calls=calls).compile(mode="dag"), "", max_steps=5)
    assert calls["1"] == before
    app = streaming_chain(kind, "1", "2", "3").compile(store=MapStore(), interrupt_before=["3"], max_steps=2)
    halted(runner, shape, app, "a", checkpoint_id="run")
    assert go(runner, shape, app, checkpoint_id="run") == "a123"


@shapes
@kinds
def test_errors_carry_the_whole_path(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B133: a node that fails two graphs deep, in its function or in its stream, is named with the way to it."""
    boom = ValueError("my error")

    def values(text: str) -> str:
        raise boom

    def chunks(text: str) -> Iterator[str]:
        yield text
        raise boom

    inner = chain("1", **{"1": values if kind == "values" else chunks})
    app = chain("a", "b", a=chain("m", m=inner), b=flowing("b")).compile(**mode)

    with pytest.raises(NodeError, match="my error") as caught:
        go(runner, shape, app, "x")
    assert caught.value.path == ["a", "m", "1"]
    assert caught.value.__cause__ is boom


@shapes
@pytest.mark.parametrize("kind", ["values", "late"])
def test_a_store_that_fails(runner: Runner, mode: dict[str, Any], shape: str, kind: str) -> None:
    """B134, K31, F18: a store that can't read fails the run before any node; one that can't write keeps all in the error."""
    calls, boom, store = Calls(), OSError("disk full"), WatchedStore(powers=frozenset())

    def fail_in(method: str) -> None:
        def before(called: str, checkpoint_id: str) -> None:
            if called == method:
                raise boom

        store.before = before

    def late(text: str) -> Iterator[str]:
        calls.note("ask")
        yield text
        yield interrupt("go on?")

    ask = late if kind == "late" else lambda text: (calls.note("ask"), text + interrupt("go on?"))[1]
    app = chain("ask", ask=ask).compile(store=store, **mode)
    fail_in("get")
    with pytest.raises(StoreError, match=r"could not read checkpoint '7'.*disk full") as unread:
        go(runner, shape, app, "x", checkpoint_id="7")
    assert (unread.value.__cause__, calls["ask"]) == (boom, 0)
    fail_in("set")
    with pytest.raises(CheckpointSaveError, match=r"checkpoint '7' was not saved.*disk full") as unsaved:
        go(runner, shape, app, "x", checkpoint_id="7")
    error = unsaved.value
    assert (error.__cause__, [point.info for point in error.interrupts]) == (boom, ["go on?"])
    assert error.info is not None
    assert error.info.rerun_nodes == ["ask"]
    fail_in("")
    app.retry_save(error)
    assert go(runner, shape, app, checkpoint_id="7", answers={error.interrupts[0].id: "!"}) == "x!"
    assert calls["ask"] == 2


class Noting(MsgpackSerializer):
    """A serializer of another name that notes its calls."""

    name = "noting"

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def dumps(self, value: Any) -> bytes:
        self.calls.append("dumps")
        return super().dumps(value)

    def loads(self, data: bytes) -> Any:
        self.calls.append("loads")
        return super().loads(data)


@shapes
def test_the_given_serializer(runner: Runner, mode: dict[str, Any], shape: str) -> None:
    """B126: a serializer given to compile writes the blob of a stream run and reads it, for a listed and a rerun node."""
    store = MapStore()
    listed = streaming_chain("chunks", "1", "2").compile(
        store=store, serializer=(noting := Noting()), interrupt_before=["1"], **mode
    )
    halted(runner, shape, listed, "a", checkpoint_id="A")
    assert (noting.calls, read_header(store.get("A") or b"").serializer) == (["dumps"], "noting")
    assert go(runner, shape, listed, checkpoint_id="A") == "a12"
    assert noting.calls == ["dumps", "loads"]
    rerun = streaming_chain("chunks", "1", "2", **{"1": asks_late}).compile(store=store, serializer=Noting(), **mode)
    stop = halted(runner, shape, rerun, "", checkpoint_id="B")
    assert go(runner, shape, rerun, checkpoint_id="B", answers={stop.interrupts[0].id: "1"}) == "12"


@shapes
@pytest.mark.parametrize(("written", "loaded"), [("pregel", "dag"), ("dag", "pregel")])
def test_a_record_that_does_not_fit(runner: Runner, shape: str, written: str, loaded: str) -> None:
    """B065: a record of another mode, or of a node that the graph lacks, is refused by name before anything runs."""
    store, calls = MapStore(), Calls()
    app = streaming_chain("chunks", "1", "2").compile(store=store, interrupt_before=["2"], mode=written)
    halted(runner, shape, app, "a", checkpoint_id="A")
    before = store.get("A")
    other = streaming_chain("chunks", "1", "2", calls=calls).compile(store=store, mode=loaded)
    fewer = streaming_chain("chunks", "1", "3", calls=calls).compile(store=store, mode=written)

    for wrong, text in ((other, "channel '1'"), (fewer, "'2'")):
        with pytest.raises(CheckpointMismatchError, match=text):
            go(runner, shape, wrong, checkpoint_id="A")
    assert calls.order == []
    assert store.get("A") == before
