"""Ready-made steps for nodes that were renamed or removed: what they change, what they report, and that runs go on."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls, appending, chain
from pausing import calling
from stored_runs import TwoMethodStore, checkpoint_of, header_of, paused, refused, sha
from two_programs import body_of, seal

from blobcp import (
    END,
    START,
    Checkpoint,
    CheckpointMismatchError,
    Graph,
    MigrationError,
    MsgpackSerializer,
    NothingToRunError,
    OptionError,
    address_segment,
    interrupt,
    serializable,
)
from blobcp.checkpoint import Address, DagChannelState, InterruptState, PregelChannelState
from blobcp.migrations import Dropped, Migrated, Migrations, Operation, map_enum_value, remove_node, rename_node

PLAIN = MsgpackSerializer()


class Pickles:
    """A user's serializer that can't read raw."""

    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


@serializable("tests.nodes.Colour")
class Colour(Enum):
    """Something of a user's."""

    RED = 1
    BLUE = 2


def to_2(*operations: Operation) -> Migrations:
    """Return the migration 1 -> 2 of some operations."""
    migrations = Migrations(2)
    migrations.add(1, 2, *operations)
    return migrations


def asks(text: str) -> str:
    """Ask, from the node itself and from a place inside it."""
    with address_segment("tool", "t", "c"):
        return text + str(interrupt("q"))


def within(inner: Graph, key: str = "s") -> Graph:
    """Return START -> before -> inner -> END."""
    return chain("before", key, **{key: inner})


class TestRenamed:
    def test_resumes(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """F22 (1): a run that waits at a renamed node is refused without a rename declared, and goes on with it."""
        calls = Calls()
        app = chain("a", "approve", "z", calls=calls, approve=asks).compile(store=store, **mode)
        stop = paused(runner.invoke, app, "", checkpoint_id="A")
        before = sha(store, "A")
        graph = lambda: chain("a", "approval", "z", calls=calls, approval=asks)  # noqa: E731 - a graph compiles once

        refused(CheckpointMismatchError, runner.resume, graph().compile(store=store, **mode), "A", answer="!")
        renamed = graph().compile(store=store, migrations=to_2(rename_node("approve", "approval")), **mode)
        (point,) = runner.pending(renamed, "A")

        assert str(point.address) == "runnable:root;node:approval;tool:t:c"
        assert point.id == stop.interrupts[0].id
        assert sha(store, "A") == before
        assert runner.resume(renamed, "A", {point.id: "!"}) == "a!z"
        assert calls.order == ["a", "z"]
        assert header_of(store, "A").status == "done"

    def test_nested(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """F22 (1): the same one level down, and for the node that the nested graph is; in either order with its path."""
        stop = paused(
            runner.invoke, within(chain("p", "ask", ask=asks)).compile(store=store, **mode), "", checkpoint_id="A"
        )
        for operations in (
            [rename_node("ask", "question", ["s"]), rename_node("s", "inner")],
            [rename_node("s", "inner"), rename_node("ask", "question", ("inner",))],
        ):
            app = within(chain("p", "question", question=asks), "inner").compile(
                store=store, migrations=to_2(*operations), **mode
            )
            (point,) = runner.pending(app, "A")
            assert str(point.address) == "runnable:root;node:inner;node:question;tool:t:c"
            assert [str(at.address) for at in (point.parent.parent, point.parent.parent.parent)] == [
                "runnable:root;node:inner",
                "runnable:root",
            ]
            assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}, write_to_checkpoint_id="B") == "beforep!"

    def test_a_node_that_waits_behind(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """What a renamed node has sent, and what waits for one that has not run yet, goes on under the new names."""

        def build(first: str, join: str) -> Graph:
            graph = Graph(str, dict)
            graph.add_node(first, appending("1"), output_key="first")
            graph.add_node("ask", asks, output_key="ask")
            graph.add_node(join, lambda parts: dict(parts))
            for key in (first, "ask"):
                graph.add_edge(START, key)
                graph.add_edge(key, join)
            graph.add_edge(join, END)
            return graph

        stop = paused(runner.invoke, build("x", "y").compile(store=store, **mode), "", checkpoint_id="A")
        migrations = to_2(rename_node("x", "first"), rename_node("y", "join"))
        app = build("first", "join").compile(store=store, migrations=migrations, **mode)

        assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}) == {"first": "1", "ask": "!"}

    @pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
    def test_stops_around_a_node(self, runner: Runner, mode: dict[str, Any], store: Any, option: str) -> None:
        """A run that stopped before or after a renamed node goes on, without running a node twice."""
        calls = Calls()
        paused(
            runner.invoke,
            chain("a", "b", "c", calls=calls).compile(store=store, **{option: ["b"]}, **mode),
            "",
            checkpoint_id="A",
        )
        app = chain("a", "B", "c", calls=calls).compile(
            store=store, migrations=to_2(rename_node("b", "B")), **{option: ["B"]}, **mode
        )

        assert runner.resume(app, "A") == ("abc" if option == "interrupt_after" else "aBc")
        assert len(calls.order) == 3

    def test_an_app_inside_a_renamed_node(self, runner: Runner) -> None:
        """The points of an app that a node calls move with the node; a node of that name inside the app is another one."""
        store, inner_store = TwoMethodStore(), TwoMethodStore()
        inner = chain("ask", ask=asks).compile(store=inner_store)
        stop = paused(
            runner.invoke,
            chain("ask", ask=calling(runner, inner, checkpoint_id="I")).compile(store=store),
            "x",
            checkpoint_id="A",
        )
        app = chain("host", host=calling(runner, inner, checkpoint_id="I")).compile(
            store=store, migrations=to_2(rename_node("ask", "host"))
        )

        (point,) = runner.pending(app, "A")
        assert str(point.address) == "runnable:root;node:host;runnable:root;node:ask;tool:t:c"
        assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}) == "x!"

    @pytest.mark.parametrize("kind", ["pregel", "dag"])
    def test_everything_that_names_it(self, kind: str) -> None:
        """Each part of a checkpoint that names the node names it anew, in the same place; nothing else is changed."""
        now = body_of(to_2(rename_node("n", "new", ("g",))).apply(seal(_full("n", kind), PLAIN)).blob, PLAIN)

        assert now == _full("new", kind)
        for path in (("g", "h"), ("missing",), ("m",)):
            again = to_2(rename_node("n", "new", path)).apply(seal(_full("n", kind), PLAIN))
            assert body_of(again.blob, PLAIN) == _full("n", kind)

    def test_pending_in_the_header(self) -> None:
        """The header tells the new address of what waits; ids stay."""
        done = to_2(rename_node("n", "new", ("g",))).apply(seal(_full("n", "dag"), PLAIN))

        assert [(point.id, point.address) for point in done.header.pending] == [
            ("q", "runnable:r;node:g;node:new;tool:t:c"),
            ("other", "runnable:r;node:n"),
        ]
        assert done.dropped == []

    def test_without_channels(self) -> None:
        """A record that has no channels, which somebody else has written, names its nodes all the same."""
        blob = seal(Checkpoint(inputs={"n": 1}, rerun_nodes=["n"]), PLAIN)

        now = body_of(to_2(rename_node("n", "new")).apply(blob).blob, PLAIN)
        assert now == Checkpoint(inputs={"new": 1}, rerun_nodes=["new"])
        now = body_of(to_2(remove_node("n", hand_to={"m": "start"})).apply(blob).blob, PLAIN)
        assert now == Checkpoint(channels={"m": PregelChannelState(values={"start": 1}, triggers=["start"])})

    def test_a_taken_name(self) -> None:
        """A node can't be renamed to a key that the graph has already; two can swap by a third."""
        tree = Checkpoint(sub_graphs={"g": Checkpoint(channels={"a": PregelChannelState(), "b": PregelChannelState()})})

        error = refused(MigrationError, to_2(rename_node("a", "b", ["g"])).apply, seal(tree, PLAIN))
        assert "'a' to 'b', which graph g has already" in str(error)
        assert error.path == ["g"]
        swapped = to_2(rename_node("a", "x", ["g"]), rename_node("b", "a", ["g"]), rename_node("x", "b", ["g"]))
        now = body_of(swapped.apply(seal(tree, PLAIN)).blob, PLAIN)
        assert list(now.sub_graphs["g"].channels) == ["b", "a"]

    def test_without_loads_raw(self, runner: Runner) -> None:
        """Nodes can be renamed and removed whatever the serializer is."""
        store = TwoMethodStore()
        paused(
            runner.invoke,
            chain("a", "approve", "z", approve=asks).compile(store=store, serializer=Pickles()),
            "",
            checkpoint_id="A",
        )
        migrations = to_2(rename_node("approve", "ok"), remove_node("z", hand_to={"end": "ok"}))
        app = chain("a", "ok", ok=asks).compile(store=store, serializer=Pickles(), migrations=migrations)

        assert runner.resume(app, "A", answer="!") == "a!"


def _channels(kind: str, *keys: str, source: str) -> dict[str, Any]:
    def channel() -> Any:
        if kind == "pregel":
            return PregelChannelState(values={"m": 1, source: 2}, triggers=[source, "m"])
        return DagChannelState(
            values={source: 1, "m": 2}, control={"m": "waiting", source: "ready"}, data={source: True, "m": False}
        )

    return {key: channel() for key in keys}


def _full(key: str, kind: str) -> Checkpoint:
    """Return a checkpoint that names a node of its nested graph g in every way there is, and others of similar names."""
    below = Checkpoint(channels=_channels(kind, "n", "end", source="n"))
    inner = Checkpoint(
        channels=_channels(kind, "m", key, "end", source=key),
        inputs={"m": 1, key: 2},
        state={"n": "new"},
        skip_pre_handler={key: True, "m": True},
        rerun_nodes=["m", key],
        before_nodes=[key],
        after_nodes=["m", key],
        sub_graphs={key: below, "h": Checkpoint()},
    )
    root = (("runnable", "r"),)
    addresses = {
        "root": Address.of(*root),
        "g": Address.of(*root, ("node", "g")),
        "q": Address.of(*root, ("node", "g"), ("node", key), ("tool", "t", "c")),
        "other": Address.of(*root, ("node", "n")),
    }
    states = {
        "root": InterruptState(of_graph=True, is_root_cause=False),
        "g": InterruptState(of_graph=True, is_root_cause=False, parent="root"),
        "q": InterruptState(info="n", parent="g"),
        "other": InterruptState(info="n", parent="root"),
    }
    return Checkpoint(
        channels=_channels(kind, "n", "g", "end", source="n"),
        inputs={"n": 1},
        rerun_nodes=["g", "n"],
        sub_graphs={"g": inner},
        interrupt_id_to_address=addresses,
        interrupt_id_to_state=states,
    )


class TestRemoved:
    def test_a_node_behind(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """A node that the run has not reached, or has passed, can be removed without any loss."""
        graph = chain("a", "b", "ask", "c", ask=asks)
        stop = paused(runner.invoke, graph.compile(store=store, **mode), "", checkpoint_id="A")
        migrations = to_2(remove_node("a"), remove_node("c", hand_to={"end": "ask"}))
        app = chain("b", "ask", ask=asks).compile(store=store, migrations=migrations, **mode)

        assert migrations.apply(store.get("A")).dropped == []
        assert runner.resume(app, "A", {stop.interrupts[0].id: "!"}) == "ab!"

    def test_where_it_waits(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """F22 (2): a run that waits at a removed node hands its input on; the question is gone, which is told."""
        calls = Calls()
        app = chain("a", "approve", "z", calls=calls, approve=asks).compile(store=store, **mode)
        stop = paused(runner.invoke, app, "", checkpoint_id="A")
        told: list[Any] = []
        migrations = Migrations(2, on_dropped=lambda id, dropped: told.append((id, dropped)))
        migrations.add(1, 2, remove_node("approve", hand_to={"z": "a"}))
        app = chain("a", "z", calls=calls).compile(store=store, migrations=migrations, **mode)

        (point,) = runner.pending(app, "A")
        assert (str(point.address), point.is_root_cause) == ("runnable:root", True)
        id = stop.interrupts[0].id
        dropped = Dropped("interrupt", id, (), "at runnable:root;node:approve;tool:t:c")
        assert dropped in told[0][1]
        assert told[0][0] == "A"
        assert f"interrupt {id} of the root graph, at runnable:root;node:approve;tool:t:c" in map(str, told[0][1])
        assert runner.resume(app, "A") == "az"
        assert calls.order == ["a", "z"]

    def test_without_a_heir(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """F22 (2): without a node that takes over, the run is not taken for finished: nothing is left to run."""
        calls = Calls()
        app = chain("a", "approve", "z", calls=calls, approve=asks).compile(store=store, **mode)
        stop = paused(runner.invoke, app, "", checkpoint_id="A")
        before = sha(store, "A")
        migrations = to_2(remove_node("approve"))
        app = chain("a", "z", calls=calls).compile(store=store, migrations=migrations, **mode)

        dropped = migrations.apply(store.get("A")).dropped
        assert [(each.what, each.name) for each in dropped] == [
            ("input", "approve"),
            ("interrupt", stop.interrupts[0].parent.id),
            ("interrupt", stop.interrupts[0].id),
        ]
        refused(NothingToRunError, runner.resume, app, "A")
        assert calls.order == ["a"]
        assert sha(store, "A") == before

    def test_nested(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """The same one level down; the nested graph waits at itself then, and both graphs go on."""
        app = within(chain("p", "ask", "x", ask=asks)).compile(store=store, **mode)
        paused(runner.invoke, app, "", checkpoint_id="A")
        migrations = to_2(remove_node("ask", ("s",), hand_to={"x": "p"}))
        app = within(chain("p", "x")).compile(store=store, migrations=migrations, **mode)

        (point,) = runner.pending(app, "A")
        assert str(point.address) == "runnable:root;node:s"
        assert runner.resume(app, "A") == "beforepx"

    def test_a_nested_graph(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """A node that is a nested graph is removed with all that is in it; its input is not kept, so it can't be handed on."""
        app = chain("before", "s", "z", s=chain("p", "ask", ask=asks)).compile(store=store, **mode)
        paused(runner.invoke, app, "", checkpoint_id="A")

        done = to_2(remove_node("s")).apply(store.get("A"))
        assert [each.what for each in done.dropped] == ["nested graph", "interrupt", "interrupt", "interrupt"]
        tree = checkpoint_of(store, "A", done.blob)
        assert (tree.sub_graphs, tree.rerun_nodes, tree.skip_pre_handler) == ({}, [], {})
        assert next(iter(tree.interrupt_id_to_state.values())).is_root_cause
        error = refused(MigrationError, to_2(remove_node("s", hand_to={"z": "before"})).apply, store.get("A"))
        assert "'s'" in str(error)

    def test_one_of_two_that_wait(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """Another node that waits beside it keeps its question, and what the removed one would have sent is not owed."""

        def build(*keys: str) -> Graph:
            graph = Graph(str, Any)
            graph.add_node("join", lambda parts: parts)
            for key in keys:
                graph.add_node(key, lambda text, key=key: text + str(interrupt(key)), output_key=key)
                graph.add_edge(START, key)
                graph.add_edge(key, "join")
            graph.add_edge("join", END)
            return graph

        stop = paused(runner.invoke, build("x", "y").compile(store=store, **mode), "", checkpoint_id="A")
        app = build("y").compile(store=store, migrations=to_2(remove_node("x")), **mode)

        (point,) = runner.pending(app, "A")
        assert point.info == "y"
        assert point.id in {each.id for each in stop.interrupts}
        assert runner.resume(app, "A", {point.id: "!"}) == {"y": "!"}

    def test_a_value_on_its_way(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """A value that a removed node had sent counts as sent by its heir's new source, or is dropped and told."""

        def build(*keys: str, source: str) -> Graph:
            graph = Graph(str, dict)
            graph.add_node("join", lambda parts: dict(parts))
            graph.add_node("ask", asks, output_key="ask")
            for key in keys:
                graph.add_node(key, appending(key), output_key="k")
            graph.add_edge(START, "ask")
            for before, after in zip((START, *keys), keys, strict=False):
                graph.add_edge(before, after)
            graph.add_edge(source, "join")
            graph.add_edge("ask", "join")
            graph.add_edge("join", END)
            return graph

        paused(runner.invoke, build("x", source="x").compile(store=store, **mode), "", checkpoint_id="A")
        blob = store.get("A")

        lost = to_2(remove_node("x")).apply(blob)
        assert lost.dropped == [Dropped("value", "x", (), "which waited for node join")]
        migrations = to_2(rename_node("x", "y"))
        assert migrations.apply(blob).dropped == []
        kept = to_2(remove_node("x", hand_to={"join": "w"})).apply(blob)
        assert kept.dropped == []
        channel = checkpoint_of(store, "A", kept.blob).channels["join"]
        assert channel.values == {"w": {"k": "x"}}

    def test_two_heirs(self, runner: Runner, mode: dict[str, Any], store: Any) -> None:
        """Several nodes can take over; each gets its own copy, from the node that comes before it now."""

        def build(*, old: bool) -> Graph:
            graph = Graph(str, dict)
            graph.add_node("a", lambda text: [text])
            before = "a"
            if old:
                graph.add_node("approve", lambda value: interrupt("q"))
                graph.add_edge("a", "approve")
                before = "approve"
            for key in ("l", "r"):
                graph.add_node(key, lambda value, key=key: value.append(key) or value, output_key=key)
                graph.add_edge(before, key)
                graph.add_edge(key, END)
            graph.add_edge(START, "a")
            return graph

        paused(runner.invoke, build(old=True).compile(store=store, **mode), "x", checkpoint_id="A")
        migrations = to_2(remove_node("approve", hand_to={"l": "a", "r": "a"}))
        app = build(old=False).compile(store=store, migrations=migrations, **mode)

        assert runner.resume(app, "A") == {"l": ["x", "l"], "r": ["x", "r"]}

    def test_what_waits_in_its_channel(self) -> None:
        """What has not been taken out of its channel yet goes to the heirs, from the same sources; else it is told."""
        tree = Checkpoint(
            channels={
                "n": PregelChannelState(values={"a": [1]}, triggers=["a", "b"]),
                "t": PregelChannelState(values={"b": 2}, triggers=["b"]),
            }
        )
        blob = seal(tree, PLAIN)

        handed = to_2(remove_node("n", hand_to={"t": "a", "end": "a"})).apply(blob)
        assert handed.dropped == []
        now = body_of(handed.blob, PLAIN).channels
        assert now["t"] == PregelChannelState(values={"a": [1], "b": 2}, triggers=["b", "a"])
        assert now["end"] == PregelChannelState(values={"a": [1]}, triggers=["a", "b"])
        assert to_2(remove_node("n")).apply(blob).dropped == [Dropped("channel", "n")]

    def test_each_heir_has_a_copy(self) -> None:
        """What two nodes take over is two values, each of which later steps change once."""
        tree = Checkpoint(channels={"n": DagChannelState(values={"a": [Colour.RED]})}, inputs={"n": Colour.RED})
        migrations = to_2(
            remove_node("n", hand_to={"t": "b", "u": "b"}),
            map_enum_value("tests.nodes.Colour", {"RED": "BLUE", "BLUE": "RED"}),
        )

        now = body_of(migrations.apply(seal(tree, PLAIN)).blob, PLAIN)

        for key in ("t", "u"):
            assert now.channels[key].values == {"a": [Colour.BLUE], "b": Colour.BLUE}

    @pytest.mark.parametrize("kind", ["pregel", "dag"])
    def test_a_source_that_has_sent_too(self, kind: str) -> None:
        """Where the node that comes before now has sent something itself, that stands, and the other value is told."""
        tree = Checkpoint(channels={"n": _channels(kind, "n", source="x")["n"], **_channels(kind, "t", source="n")})

        done = to_2(remove_node("n", hand_to={"t": "m"})).apply(seal(tree, PLAIN))

        before = tree.channels["t"].values
        assert body_of(done.blob, PLAIN).channels["t"].values == {"m": before["m"], "x": tree.channels["n"].values["x"]}
        assert done.dropped == [Dropped("value", "n", (), "which waited for node t")]

    @pytest.mark.parametrize("kind", ["pregel", "dag"])
    def test_everything_that_names_it(self, kind: str) -> None:
        """No part of a checkpoint names a removed node any more, and each loss is told; other graphs keep theirs."""
        done = to_2(remove_node("n", ("g",))).apply(seal(_full("n", kind), PLAIN))

        now, full = body_of(done.blob, PLAIN), _full("n", kind)
        g = now.sub_graphs["g"]
        assert list(g.channels) == ["m", "end"]
        assert all(list(channel.values) == ["m"] for channel in g.channels.values())
        if kind == "dag":
            assert all((list(channel.control), list(channel.data)) == (["m"], ["m"]) for channel in g.channels.values())
        else:
            assert all(channel.triggers == ["m"] for channel in g.channels.values())
        assert (g.inputs, g.skip_pre_handler, list(g.sub_graphs)) == ({"m": 1}, {"m": True}, ["h"])
        assert (g.rerun_nodes, g.before_nodes, g.after_nodes) == (["m"], [], ["m"])
        assert list(now.interrupt_id_to_address) == list(now.interrupt_id_to_state) == ["root", "g", "other"]
        assert [record.is_root_cause for record in now.interrupt_id_to_state.values()] == [False, True, True]
        assert (now.channels, now.inputs, now.rerun_nodes) == (full.channels, full.inputs, full.rerun_nodes)
        assert [(each.what, each.path) for each in done.dropped] == [
            (what, ("g",)) for what in ("channel", "value", "value", "input", "nested graph", "interrupt")
        ]
        assert [point.id for point in done.header.pending] == ["g", "other"]

    def test_a_node_that_is_not_there(self) -> None:
        """A checkpoint that does not name the node stays as it is; only its version is new."""
        for operation in (
            remove_node("x"),
            remove_node("n", ("x",)),
            rename_node("x", "y"),
            rename_node("x", "y", ("x",)),
        ):
            done: Migrated = to_2(operation).apply(seal(_full("n", "dag"), PLAIN))
            assert body_of(done.blob, PLAIN) == _full("n", "dag")
            assert done.dropped == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: rename_node("a", "a"),
        lambda: rename_node("", "a"),
        lambda: rename_node("a", ""),
        lambda: rename_node("a", 7),  # type: ignore[arg-type]  # what is refused
        lambda: rename_node(START, "a"),
        lambda: rename_node("a", END),
        lambda: rename_node("a", "b", "path"),
        lambda: rename_node("a", "b", [END]),
        lambda: remove_node(END),
        lambda: remove_node(START),
        lambda: remove_node("a", "path"),
        lambda: remove_node("a", hand_to="b"),  # type: ignore[arg-type]  # likewise
        lambda: remove_node("a", hand_to={"": "b"}),
        lambda: remove_node("a", hand_to={START: "b"}),
        lambda: remove_node("a", hand_to={"b": END}),
        lambda: remove_node("a", hand_to={"b": "a"}),
        lambda: remove_node("a", hand_to={"a": "b"}),
    ],
)
def test_what_is_no_operation(make: Callable[[], Operation]) -> None:
    """An operation that can't be meant is refused where it is written; START and END are no nodes."""
    refused(OptionError, make)
