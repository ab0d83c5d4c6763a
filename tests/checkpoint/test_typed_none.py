"""Values that say "nothing" while not being ``None``: told apart, and stored as ``None`` where they would be an input."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest
import werkzeug.local
import wrapt
from drivers import Runner
from graphs import Calls, appending, chain
from stored_runs import checkpoint_of, paused

from blobcp import END, START, CheckpointSaveError, Graph, interrupt, is_typed_none, register, register_typed_none


class Proxy:
    """A transparent proxy as libraries write them: it gives the class of what it stands for."""

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "_target", target)

    @property
    def __class__(self) -> Any:
        """The class of the target."""
        return type(object.__getattribute__(self, "_target"))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_target"), name)

    def __eq__(self, other: object) -> bool:
        return bool(object.__getattribute__(self, "_target") == other)

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_target"))


class Target:
    """Something that a weak reference can point to."""

    def method(self) -> None:
        """Do nothing."""


class Wrapped(pydantic.RootModel[str | None]):
    """A model that is nothing but its root."""


class Nothing:
    """A user's own value for nothing."""


class NothingInParticular(Nothing):
    """A subclass of it."""


class Maybe:
    """A user's own value that may hold something."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Hostile:
    """A value on which nearly everything fails."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None

    def __bool__(self) -> bool:
        raise RuntimeError("asked for truth")


class Unbound:
    """A proxy outside of the context that it gets its target from."""

    @property
    def __class__(self) -> Any:
        """Nothing can be told."""
        raise RuntimeError("no context")


@dataclass
class Held:
    """A state that holds such values."""

    values: list[Any] = field(default_factory=list)
    empty: Any = None


register(Wrapped)
register_typed_none(Nothing, lambda value: True)
register_typed_none(Maybe, lambda value: value.value is None)


def dead_reference() -> Any:
    """Return a weak reference whose target is gone."""
    return weakref.ref(Target())


MAKERS: dict[str, Callable[[], Any]] = {
    "msgspec.UNSET": lambda: msgspec.UNSET,
    "a dead weakref": dead_reference,
    "a dead method reference": lambda: weakref.WeakMethod(Target().method),
    "a dead weak proxy": lambda: weakref.proxy(Target()),
    "a NULL function pointer": lambda: ctypes.CFUNCTYPE(None)(),
    "a NULL void pointer": lambda: ctypes.c_void_p(None),
    "a NULL char pointer": lambda: ctypes.c_char_p(None),
    "a NULL wchar pointer": lambda: ctypes.c_wchar_p(None),
    "a NULL pointer to int": lambda: ctypes.POINTER(ctypes.c_int)(),
    "a hand-written proxy": lambda: Proxy(None),
    "a wrapt proxy": lambda: wrapt.ObjectProxy(None),
    "a werkzeug proxy": lambda: werkzeug.local.LocalProxy(lambda: None),
    "a 0-d object array": lambda: np.array(None, dtype=object),
    "a root model": lambda: Wrapped(None),
    "a registered class": Nothing,
    "its subclass": NothingInParticular,
    "a predicate that holds": Maybe,
}
TARGET = Target()
SOMETHING: dict[str, Any] = {
    "None": None,
    "text": "",
    "zero": 0,
    "false": False,
    "a list": [],
    "a dict": {},
    "a list of None": [None],
    "an ordered dict": OrderedDict(),
    "a live weakref": weakref.ref(TARGET),
    "a void pointer": ctypes.c_void_p(1),
    "a NULL in an int": ctypes.c_int(0),
    "a pointer to int": ctypes.pointer(ctypes.c_int(0)),
    "an empty char pointer": ctypes.c_char_p(b""),
    "a proxy of text": Proxy("x"),
    "a wrapt proxy of an empty list": wrapt.ObjectProxy([]),
    "a werkzeug proxy of zero": werkzeug.local.LocalProxy(lambda: 0),
    "a 0-d object array of text": np.array("x", dtype=object),
    "a 1-d object array of None": np.array([None], dtype=object),
    "a 0-d array of a float": np.array(float("nan")),
    "a root model of text": Wrapped(""),
    "a predicate that does not hold": Maybe(0),
    "an object": object(),
    "a hostile object": Hostile(),
    "a proxy without its context": Unbound(),
    "a live method reference": weakref.WeakMethod(TARGET.method),
    "a live weak proxy": weakref.proxy(TARGET),
    "the class itself": Nothing,
    "NoneType": type(None),
}


@pytest.mark.parametrize("what", list(MAKERS))
def test_is_typed_none(what: str) -> None:
    """Each kind of typed None is recognised."""
    assert is_typed_none(MAKERS[what]()) is True


@pytest.mark.parametrize("what", list(SOMETHING))
def test_is_not_typed_none(what: str) -> None:
    """``None`` itself, empty values, and the same kinds of value holding something are not."""
    assert is_typed_none(SOMETHING[what]) is False


def test_no_library_is_imported_for_it() -> None:
    """Neither importing blobcp nor asking of any value imports the libraries whose types are recognised."""
    script = (
        "import sys, weakref, blobcp\n"
        "class Own: pass\n"
        "values = [blobcp.is_typed_none(value) for value in (None, object(), [], weakref.ref(Own()), Own())]\n"
        "loaded = sorted({'numpy', 'pydantic', 'wrapt', 'werkzeug'} & set(sys.modules))\n"
        "print(values, loaded)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert said.stdout == "[False, False, False, True, False] []\n"


def test_a_later_predicate_replaces_an_earlier_one() -> None:
    """``register_typed_none`` may be called again for a class."""

    class Moving:
        pass

    register_typed_none(Moving, lambda value: False)
    assert not is_typed_none(Moving())
    register_typed_none(Moving, lambda value: True)
    assert is_typed_none(Moving())


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
    assert ask.state is nothing
    assert caught.value.checkpoint.inputs == {"ask": None}
