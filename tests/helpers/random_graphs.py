"""Small random graphs without loops, whose nodes ask: drawn as plain data, built anew for each process that runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from graphs import Calls
from hypothesis import strategies as st

from blobcp import (
    END,
    START,
    App,
    Graph,
    InterruptSignal,
    StreamReader,
    address_segment,
    composite_interrupt,
    concat,
    serializable,
    use_state,
)

__all__ = ["Builder", "GraphSpec", "graph_specs"]

MODES: dict[str, dict[str, Any]] = {
    "pregel": {"mode": "pregel"},
    "dag": {"mode": "dag"},
    "dag-in-steps": {"mode": "dag", "eager": False},
}
LAST = "z"
"""The last node of each graph: it gives what arrived and the graph's state."""


@serializable("tests.random_graphs.Trace")
@dataclass
class Trace:
    """A state that says what nodes and handlers did, whatever the order."""

    seen: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def finish(self, what: str) -> None:
        """Count something that is to happen once."""
        self.done[what] = self.done.get(what, 0) + 1


@dataclass(frozen=True)
class NodeSpec:
    """A node: how often and how it asks, its handlers, the graph inside it, whose output it takes, and in which shape."""

    follows: frozenset[int]
    questions: int = 0
    style: str = "in turn"
    pre: str = ""
    post: str = ""
    chooses: bool = False
    is_async: bool = False
    inner: GraphSpec | None = None
    shape: str = "invoke"


@dataclass(frozen=True)
class GraphSpec:
    """A graph: layers of nodes; ``own`` says that it is compiled by itself where it is nested."""

    layers: tuple[tuple[NodeSpec, ...], ...]
    mode: str
    own: bool
    stateful: bool
    before: frozenset[str]
    after: frozenset[str]


@st.composite
def graph_specs(
    draw: st.DrawFn, depth: int = 2, max_width: int = 3, shapes: tuple[str, ...] = ("invoke",)
) -> GraphSpec:
    """Draw a graph, whose nodes are of these shapes."""
    widths = draw(st.lists(st.integers(1, max_width), min_size=1, max_size=3 if depth == 2 else 2))
    stateful = draw(st.booleans())
    layers: list[tuple[NodeSpec, ...]] = []
    for number, width in enumerate(widths):
        below = widths[number - 1] if number else 1
        follows = [draw(st.sets(st.integers(0, below - 1), min_size=1)) for _ in range(width)]
        follows[0] |= set(range(below)) - set().union(*follows)
        layers.append(tuple(draw(_node(frozenset(each), depth, stateful, shapes)) for each in follows))
    keys = [f"n{number}{index}" for number, width in enumerate(widths) for index in range(width)] + [LAST]
    stops = st.frozensets(st.sampled_from(keys), max_size=1)
    mode = draw(st.sampled_from(list(MODES)))
    return GraphSpec(tuple(layers), mode, draw(st.booleans()), stateful, draw(stops), draw(stops))


@st.composite
def _node(draw: st.DrawFn, follows: frozenset[int], depth: int, stateful: bool, shapes: tuple[str, ...]) -> NodeSpec:
    inner = draw(graph_specs(depth - 1, 2, shapes)) if depth and draw(st.integers(0, 3)) == 0 else None
    handler = st.sampled_from(["", "plain", "asks"]) if stateful else st.just("")
    return NodeSpec(
        follows,
        questions=draw(st.sampled_from([0, 0, 1, 2])),
        style=draw(st.sampled_from(["in turn", "parts", "app"])),
        pre=draw(handler),
        post=draw(handler),
        chooses=draw(st.integers(0, 3)) == 0,
        is_async=draw(st.booleans()),
        inner=inner,
        shape=draw(st.sampled_from(shapes)) if len(shapes) > 1 else shapes[0],
    )


@dataclass
class Builder:
    """Builds the graphs of one process.

    Args:
        ask: what nodes ask by; a function that knows the answers makes an uncut run.
        calls: entries of bodies under their paths, finished ones under ``done`` and their paths; under ``made`` and
            their paths those of streaming nodes in steps, which run again where a stream of an earlier step stops late.
        asynchronous: whether nodes may be async functions.
        stops: whether the options to stop before and after nodes are used.
    """

    ask: Callable[[str], str]
    calls: Calls
    asynchronous: bool
    stops: bool

    def app(self, spec: GraphSpec, store: Any = None, rounds: int = 0) -> App:
        """Return the app of a root graph, or of one that visits it, nested, so many times."""
        if rounds:
            return self._looping(spec, rounds).compile(store=store)
        return self._graph(spec, "", spec.stateful, in_steps=spec.mode == "pregel").compile(
            store=store, **self._options(spec)
        )

    def _looping(self, spec: GraphSpec, rounds: int) -> Graph:
        def count(value: Any, state: Trace) -> Any:
            state.finish("rounds")
            return value

        def choose(value: Any) -> str:
            with use_state(Trace) as trace:
                return END if trace.done["rounds"] == rounds else "loop"

        graph = Graph(dict, dict, state=Trace)
        inner = self._graph(spec, "", True, in_steps=not spec.own or spec.mode == "pregel")
        graph.add_node("loop", inner.compile(**self._options(spec)) if spec.own else inner, post=count)
        graph.add_edge(START, "loop")
        graph.add_branch("loop", choose, ["loop", END])
        return graph

    def _options(self, spec: GraphSpec) -> dict[str, Any]:
        stops = {"interrupt_before": spec.before, "interrupt_after": spec.after} if self.stops else {}
        return {**MODES[spec.mode], **stops}

    def _graph(self, spec: GraphSpec, path: str, has_state: bool, *, in_steps: bool) -> Graph:
        graph = Graph(dict, dict, state=Trace if spec.stateful else None)
        for number, layer in enumerate(spec.layers):
            for index, node in enumerate(layer):
                key = f"n{number}{index}"
                self._add_node(graph, key, node, f"{path}/{key}", has_state, in_steps=in_steps)
        graph.add_node(LAST, self._last(f"{path}/{LAST}", spec.stateful))
        for key in range(len(spec.layers[0])):
            graph.add_edge(START, f"n0{key}")
        for number, layer in enumerate(spec.layers):
            following = spec.layers[number + 1] if number + 1 < len(spec.layers) else ()
            for index, node in enumerate(layer):
                ends = [f"n{number + 1}{at}" for at, after in enumerate(following) if index in after.follows] or [LAST]
                self._connect(graph, f"n{number}{index}", ends, chooses=node.chooses)
        graph.add_edge(LAST, END)
        return graph

    def _connect(self, graph: Graph, key: str, ends: list[str], *, chooses: bool) -> None:
        if not chooses:
            for end in ends:
                graph.add_edge(key, end)
            return

        def choose(value: Any) -> list[str]:
            first = checksum(value) % len(ends)
            return ends[first : first + 2]

        graph.add_branch(key, choose, ends)

    def _add_node(self, graph: Graph, key: str, spec: NodeSpec, path: str, has_state: bool, *, in_steps: bool) -> None:
        pre = self._pre(path, asks=spec.pre == "asks") if spec.pre else None
        asks_after = spec.post == "asks" and spec.inner is not None
        post = self._post(key, path, asks=asks_after) if spec.post else None
        node: Any = self._body(key, spec, path, has_state)
        if spec.shape != "invoke":
            node = self._streaming(key, spec, path, has_state, in_steps=in_steps)
        if spec.inner is not None:
            in_steps = in_steps or (spec.inner.own and spec.inner.mode == "pregel")
            node = self._graph(spec.inner, path, has_state or spec.inner.stateful, in_steps=in_steps)
            if spec.inner.own:
                node = node.compile(**self._options(spec.inner))
        graph.add_node(key, node, pre=pre, post=post, output_key=key)

    def _pre(self, path: str, *, asks: bool) -> Callable[[Any, Trace], Any]:
        def pre(value: dict[str, Any], state: Trace) -> dict[str, Any]:
            changed = {**value, "pre": self.ask(f"{path}#pre") if asks else "plain"}
            state.seen[path] = checksum(changed)
            return changed

        return pre

    def _post(self, key: str, path: str, *, asks: bool) -> Callable[[Any, Trace], Any]:
        def post(value: dict[str, Any], state: Trace) -> dict[str, Any]:
            answer = self.ask(f"{path}#post") if asks else "plain"
            state.finish(f"{path}#post")
            return {key: [value[key], answer]}

        return post

    def _streaming(
        self, key: str, spec: NodeSpec, path: str, has_state: bool, *, in_steps: bool
    ) -> Callable[[Any], Any]:
        """Return a node that gives its text in parts, and asks in between."""
        styles = {"in turn": self._in_turn, "parts": _in_parts, "app": _in_an_app}

        def body(value: dict[str, Any]) -> Iterator[str]:
            self.calls.note(path)
            yield f"{key}:"
            questions = [f"{path}#{number}" for number in range(spec.questions)]
            answers = styles[spec.style](self.ask, questions) if questions else []
            yield f"{checksum(value)}:"
            yield ",".join(answers)
            if has_state and not in_steps:
                with use_state(Trace) as trace:
                    trace.finish(path)
            self.calls.note(f"made {path}" if in_steps else f"done {path}")

        def through(chunks: StreamReader[Any]) -> Iterator[str]:
            yield from body(concat(chunks))

        async def async_body(value: dict[str, Any]) -> AsyncIterator[str]:
            for chunk in body(value):
                await asyncio.sleep(0)
                yield chunk

        async def async_through(chunks: StreamReader[Any]) -> AsyncIterator[str]:
            value = concat([chunk async for chunk in chunks])
            async for chunk in async_body(value):
                yield chunk

        if spec.is_async and self.asynchronous:
            return async_body if spec.shape == "stream" else async_through
        return body if spec.shape == "stream" else through

    def _body(self, key: str, spec: NodeSpec, path: str, has_state: bool) -> Callable[[Any], Any]:
        styles = {"in turn": self._in_turn, "parts": _in_parts, "app": _in_an_app}

        def body(value: dict[str, Any]) -> str:
            self.calls.note(path)
            questions = [f"{path}#{number}" for number in range(spec.questions)]
            answers = styles[spec.style](self.ask, questions) if questions else []
            if has_state:
                with use_state(Trace) as trace:
                    trace.finish(path)
            self.calls.note(f"done {path}")
            return f"{key}:{checksum(value)}:{','.join(answers)}"

        async def async_body(value: dict[str, Any]) -> str:
            await asyncio.sleep(0)
            return body(value)

        return async_body if spec.is_async and self.asynchronous else body

    @staticmethod
    def _in_turn(ask: Callable[[str], str], questions: list[str]) -> list[str]:
        return [ask(question) for question in questions]

    def _last(self, path: str, stateful: bool) -> Callable[[Any], Any]:
        def last(value: dict[str, Any]) -> dict[str, Any]:
            self.calls.note(path)
            self.calls.note(f"done {path}")
            if not stateful:
                return {"values": value}
            with use_state(Trace) as trace:
                return {"values": value, "seen": dict(trace.seen), "done": dict(trace.done)}

        return last


def _in_parts(ask: Callable[[str], str], questions: list[str]) -> list[str]:
    """Ask under child addresses, and stop at all that are open."""
    answers: list[str] = []
    stops: list[BaseException] = []
    for number, question in enumerate(questions):
        try:
            with address_segment("part", str(number)):
                answers.append(ask(question))
        except InterruptSignal as signal:
            stops.append(signal)
    if stops:
        raise composite_interrupt(None, None, stops)
    return answers


def _in_an_app(ask: Callable[[str], str], questions: list[str]) -> list[str]:
    """Ask in the nodes of an app that has no checkpoint of its own."""
    graph = Graph(list, list)
    before = START
    for number, question in enumerate(questions):
        graph.add_node(f"q{number}", lambda answers, question=question: [*answers, ask(question)])
        graph.add_edge(before, f"q{number}")
        before = f"q{number}"
    graph.add_edge(before, END)
    answers: list[str] = graph.compile(name="inner").invoke([])
    return answers


def checksum(value: Any) -> int:
    """Return a number that depends on the whole value."""
    return crc32(json.dumps(value, sort_keys=True).encode())
