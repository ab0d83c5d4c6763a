"""Values that say "nothing": stored as ``None`` where they would be taken for an input, left alone elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import wrapt
from drivers import Runner
from graphs import Calls, appending, chain
from nothings import MAKERS, Nothing, Proxy, Wrapped
from stored_runs import checkpoint_of, paused

from blobcp import END, START, CheckpointSaveError, Graph, interrupt


@dataclass
class Held:
    """A state that holds such values."""

    values: list[Any] = field(default_factory=list)
    empty: Any = None


@pytest.mark.parametrize("what", list(MAKERS))
def test_a_typed_none_as_input(runner: Runner, what: str, store: Any) -> None:
    """B121: an input that is a typed None is stored as ``None`` under its key, and that is what the resumed node gets."""
    calls = Calls()

    def second(value: Any) -> str:
        calls.note("2", value)
        return "done"

    app = chain("1", "2", **{"1": lambda _: MAKERS[what](), "2": second}).compile(store=store, interrupt_before=["2"])
    paused(runner.invoke, app, "", checkpoint_id="1")

    assert checkpoint_of(store, "1").inputs == {"2": None}
    assert runner.resume(app, "1") == "done"
    assert calls.inputs["2"] == [None]


def anything(*keys: str, **nodes: Any) -> Graph:
    """Return a chain of these nodes that takes and gives any value."""
    graph = Graph()
    for before, key in zip((START, *keys), keys, strict=False):
        graph.add_node(key, nodes[key])
        graph.add_edge(before, key)
    graph.add_edge(keys[-1], END)
    return graph


def test_a_typed_none_as_input_in_every_mode(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B121: at the top, in a rerun node and in nested records alike, whatever the mode; the key stays."""
    calls = Calls()

    def ask(value: Any) -> str:
        calls.note("x", value)
        return str(interrupt("q"))

    inner = anything("p", "x", p=lambda _: msgspec.UNSET, x=ask)
    middle = anything("t", t=inner)
    graph = Graph(Any, dict)
    graph.add_node("deep", middle, output_key="deep")
    graph.add_node("x", ask, output_key="x")
    for key in ("deep", "x"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)
    stop = paused(runner.invoke, app, Proxy(None), checkpoint_id="1")

    stored = checkpoint_of(store, "1")
    assert stored.inputs == {"x": None}
    assert stored.sub_graphs["deep"].sub_graphs["t"].inputs == {"x": None}
    answers = {point.id: "!" for point in stop.interrupts}
    assert len(answers) == 2
    assert runner.resume(app, "1", answers) == {"deep": "!", "x": "!"}
    assert calls.inputs["x"][2:] == [None, None]


def test_a_typed_none_that_stays_pending(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """B121: it is still ``None`` under its key after a resume that left its node waiting."""
    graph = Graph(Any, dict)
    for key in ("a", "b"):
        graph.add_node(key, lambda value: str(interrupt("q")), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=store, **mode)
    stop = paused(runner.invoke, app, msgspec.UNSET, checkpoint_id="1")
    paused(runner.resume, app, "1", {stop.interrupts[0].id: "A"})

    assert checkpoint_of(store, "1").inputs == {"b": None}
    assert runner.resume(app, "1", {stop.interrupts[1].id: "B"}) == {"a": "A", "b": "B"}


@pytest.mark.parametrize("what", list(MAKERS))
def test_a_typed_none_waiting_in_a_channel(runner: Runner, mode: dict[str, Any], what: str, store: Any) -> None:
    """B122, K30: a value that waits in a channel is normalised too, in nested graphs as well."""
    inner = Graph(str, Any)
    inner.add_node("quick", lambda _: MAKERS[what]())
    inner.add_node("slow", lambda text: str(interrupt("q")))
    inner.add_edge(START, "quick")
    inner.add_edge(START, "slow")
    inner.add_node("join", lambda value: "joined:" + repr(value))
    inner.add_edge("quick", "join")
    inner.add_edge("slow", "join", data=False)
    inner.add_edge("join", END)
    app = chain("s", s=inner).compile(store=store, **mode)
    stop = paused(runner.invoke, app, "", checkpoint_id="1")

    assert checkpoint_of(store, "1").sub_graphs["s"].channels["join"].values == {"quick": None}
    assert runner.resume(app, "1", {stop.interrupts[0].id: "!"}) == "joined:None"


@pytest.mark.parametrize(
    "first", [Wrapped(None), msgspec.UNSET, wrapt.ObjectProxy(None)], ids=["model", "UNSET", "proxy"]
)
def test_a_node_that_declares_such_a_type_gets_none(
    runner: Runner, mode: dict[str, Any], store: Any, first: Any
) -> None:
    """B121: a node which declares the class of the typed None is run with ``None`` on resume, and not refused for it."""
    calls = Calls()

    def ask(value: Wrapped | msgspec.UnsetType | wrapt.ObjectProxy) -> str:
        calls.note("ask", value)
        return str(interrupt("q"))

    app = anything("ask", ask=ask).compile(store=store, **mode)
    paused(runner.invoke, app, first, checkpoint_id="1")

    assert runner.resume(app, "1", answer="!") == "!"
    assert calls.inputs["ask"][1] is None


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_nested_graph_that_declares_such_a_type_gets_none(
    runner: Runner, mode: dict[str, Any], store: Any, before: bool
) -> None:
    """B121: the same for a nested graph, stopped before or with the value waiting in its channel."""
    inner = Graph(Wrapped, str)
    inner.add_node("x", repr)
    inner.add_edge(START, "x")
    inner.add_edge("x", END)
    graph = Graph(str, str)
    graph.add_node("first", lambda _: Wrapped(None))
    graph.add_node("s", inner)
    graph.add_edge(START, "first")
    graph.add_edge("first", "s")
    graph.add_edge("s", END)
    lists = {"interrupt_before": ["s"]} if before else {"interrupt_after": ["first"]}
    app = graph.compile(store=store, **lists, **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")

    assert runner.resume(app, "1") == "None"


def test_an_output_that_waits_at_the_end(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P8: the value that waits for END is normalised like that of any channel, and fits the declared output all the same."""
    graph = Graph(str, Wrapped)
    graph.add_node("1", lambda _: Wrapped(None))
    graph.add_edge(START, "1")
    graph.add_edge("1", END)
    app = graph.compile(store=store, interrupt_after=["1"], **mode)
    paused(runner.invoke, app, "a", checkpoint_id="1")

    assert runner.resume(app, "1") is None


def test_state_and_containers_come_back_as_they_were(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P8, B122: a typed None in the state, or inside a container, is the user's own and is left as it is."""
    state = Held([Wrapped(None), msgspec.UNSET], Wrapped(None))
    seen: list[Any] = []
    graph = Graph(Any, str, state=lambda: Held(list(state.values), state.empty))
    graph.add_node("1", lambda _: {"in": [Wrapped(None)]})
    graph.add_node("2", appending("2"), pre=lambda value, held: seen.append((value, held)) or "x")
    graph.add_edge(START, "1")
    graph.add_edge("1", "2")
    graph.add_edge("2", END)
    app = graph.compile(store=store, interrupt_before=["2"], **mode)
    paused(runner.invoke, app, "", checkpoint_id="1")

    assert runner.resume(app, "1") == "x2"
    [(value, held)] = seen
    assert value == {"in": [Wrapped(None)]}
    assert type(value["in"][0]) is Wrapped
    assert held == state
    assert (type(held.empty), type(held.values[0])) == (Wrapped, Wrapped)
    assert held.values[1] is msgspec.UNSET


def test_a_kept_interrupt_state_is_left_as_it_is(runner: Runner, mode: dict[str, Any], store: Any) -> None:
    """P8: the state of an interrupt is the user's own too: a typed None in it is not replaced, but refused like any value."""
    nothing = Nothing()
    app = anything("ask", ask=lambda value: interrupt("q", value)).compile(store=store, **mode)

    with pytest.raises(CheckpointSaveError) as caught:
        runner.invoke(app, nothing, checkpoint_id="1")
    [ask] = [state for state in caught.value.checkpoint.interrupt_id_to_state.values() if state.is_root_cause]
    assert type(ask.state) is Nothing
    assert caught.value.checkpoint.inputs == {"ask": None}
