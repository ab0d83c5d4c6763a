"""The chain of versions: what can be defined, which steps run on what, in which order, and what becomes of a blob."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_runs import refused
from two_programs import NEW, OLD, New, Old, body_of, quantities, seal

from blobcp import (
    Checkpoint,
    CheckpointCorruptError,
    CheckpointMismatchError,
    CheckpointVersionError,
    Envelope,
    KeyRing,
    MigrationError,
    MsgpackSerializer,
    OptionError,
    PickleSerializer,
    RawValue,
    Registry,
    SerializationError,
    UnknownTypeError,
    read_header,
    register,
)
from blobcp.checkpoint import Address, InterruptState
from blobcp.codec import PendingInterrupt
from blobcp.migrations import (
    Dropped,
    Migrated,
    Migrations,
    add_field,
    drop_field,
    map_enum_value,
    migrate_checkpoint_state,
    rename_field,
    rename_type,
)


@dataclass
class Text:
    """A state that many steps append to."""

    text: str = ""


@dataclass
class Other:
    """A state of another class."""

    text: str = ""


TEXTS = MsgpackSerializer(Registry())
register(Text, name="tests.Text", registry=TEXTS.registry)
register(Other, name="tests.Other", aliases=["tests.Older"], registry=TEXTS.registry)

TREE = Checkpoint(
    state=Text("root"),
    sub_graphs={
        "g": Checkpoint(state=Other("g"), sub_graphs={"h": Checkpoint(state=Text("g/h"))}),
        "n": Checkpoint(),
    },
)


class TwoMethods:
    """A user's serializer: two methods, no name, nothing raw."""

    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


def appending(text: str) -> Callable[[Any], None]:
    """Return a typed step that appends to a state."""

    def step(state: Any) -> None:
        state.text += text

    return step


def appending_raw(text: str) -> Callable[[Any], None]:
    """Return a raw step that appends to a state."""

    def step(state: RawValue) -> None:
        state.fields["text"] += text

    return step


def texts(checkpoint: Checkpoint) -> list[str]:
    """Return the texts of the states in TREE."""
    g = checkpoint.sub_graphs["g"]
    return [checkpoint.state.text, g.state.text, g.sub_graphs["h"].state.text]


def apply(migrations: Migrations, tree: Checkpoint = TREE, **header: Any) -> Migrated:
    """Return what becomes of a tree."""
    return migrations.apply(seal(tree, TEXTS, **header), serializer=TEXTS)


class TestDefinition:
    @pytest.mark.parametrize(
        ("version", "options"),
        [(0, {}), (-1, {}), (True, {}), ("2", {}), (1.0, {}), (2, {"unversioned": 3}), (2, {"unversioned": -1})],
    )
    def test_versions(self, version: Any, options: dict[str, Any]) -> None:
        """A version is an int of at least 1, and that of blobs without one is not above it."""
        refused(OptionError, Migrations, version, **options)

    @pytest.mark.parametrize(
        ("start", "end", "said"),
        [
            (2, 2, "does not lead forward"),
            (3, 2, "does not lead forward"),
            (3, 5, "beyond version=4"),
            (True, 2, "no version"),
            (1, "2", "no version"),
            (1.0, 2, "no version"),
            (-1, 2, "no version"),
            (0, 1, "unversioned=0"),
            (1, 3, "1 -> 2 is there already"),
        ],
    )
    def test_steps(self, start: Any, end: Any, said: str) -> None:
        """A step leads forward, by ints, not beyond the version of today, and to one version from each; told at once."""
        for define in (
            lambda migrations: migrations.step(start, end)(appending("x")),
            lambda migrations: migrations.checkpoint_step(start, end)(appending("x")),
            lambda migrations: migrations.add(start, end, rename_field("X", "a", "b")),
        ):
            migrations = Migrations(4)
            migrations.add(1, 2)
            assert said in str(refused(OptionError, define, migrations))
            assert repr(migrations) == "<Migrations 1 -> 2 -> 4>"

    @pytest.mark.parametrize(
        "narrowing",
        [
            {},
            {"graph": "shop"},
            {"path": ()},
            {"path": ("a", "b")},
            {"state": Text},
            {"state": "tests.Text"},
            {"graph": "shop", "path": ["a"], "state": Text},
        ],
    )
    def test_duplicates(self, narrowing: dict[str, Any]) -> None:
        """Two steps for the very same are refused, raw or typed; otherwise narrowed ones stand beside them."""
        migrations = Migrations(2)
        migrations.step(1, 2, **narrowing)(appending("x"))
        migrations.step(1, 2, graph="another")(appending("x"))

        error = refused(OptionError, migrations.step(1, 2, raw=True, **narrowing), appending("x"))
        assert "there already" in str(error)
        migrations.checkpoint_step(1, 2, graph="shop")(appending("x"))
        refused(OptionError, migrations.checkpoint_step(1, 2, graph="shop"), appending("x"))

    @pytest.mark.parametrize(
        "define",
        [
            lambda migrations: migrations.step(1, 2, path="a"),
            lambda migrations: migrations.step(1, 2, path=[1]),
            lambda migrations: migrations.step(1, 2, path=7),
            lambda migrations: migrations.step(1, 2, graph=7),
            lambda migrations: migrations.step(1, 2, state=7),
            lambda migrations: migrations.step(1, 2)(None),
            lambda migrations: migrations.checkpoint_step(1, 2)("x"),
            lambda migrations: migrations.add(1, 2, "rename"),
            lambda migrations: migrations.add(1, 2, rename_field),
            lambda migrations: migrations.add(1, 2, graph=("x",)),
        ],
    )
    def test_narrowings_and_functions(self, define: Callable[[Migrations], Any]) -> None:
        """What is no path, graph, type, function or ready-made step is refused where it is written."""
        refused(OptionError, define, Migrations(2))

    def test_async_steps(self) -> None:
        """A step runs while a checkpoint is loaded, which awaits nothing; an async function is refused."""

        async def step(state: Any) -> Any:
            return state

        refused(OptionError, Migrations(2).step(1, 2), step)

    def test_holes(self) -> None:
        """A step that leads to where none leads on is found by `check`, which `apply` calls; with the step that is missing."""
        migrations = Migrations(4)
        migrations.step(1, 2)(appending("x"))
        assert "the step 1 -> 2 leads to version 2" in str(refused(OptionError, migrations.check))
        migrations.step(3, 4)(appending("x"))
        assert "add the step 2 -> 3" in str(refused(OptionError, migrations.check))
        refused(OptionError, migrations.apply, seal(TREE, TEXTS), serializer=TEXTS)
        migrations.step(2, 3)(appending("x"))

        migrations.check()

    def test_the_decorators_give_the_function_back(self) -> None:
        """A decorated function stays what it was, so that it can be tested, and pickled by name."""
        migrations = Migrations(2)
        step = appending("x")

        assert migrations.step(1, 2)(step) is step
        assert migrations.checkpoint_step(1, 2)(step) is step
        assert len(pickle.loads(pickle.dumps(quantities())).apply(seal(Checkpoint(state=Old(3)), OLD)).blob)

    def test_no_steps(self) -> None:
        """A version without any steps takes checkpoints of that version only, those without one count as the first."""
        assert apply(Migrations(1)).changed is False
        assert apply(Migrations(3), state_version=3).changed is False
        refused(CheckpointVersionError, apply, Migrations(3))


class TestVersions:
    def test_newer(self) -> None:
        """A blob that is newer than the code is refused with both numbers and its id, before its body is looked at."""
        migrations = Migrations(2)
        blob = Envelope().seal(read_header(seal(TREE, TEXTS, state_version=5)), b"of the future")

        error = refused(CheckpointVersionError, migrations.apply, blob, serializer=TEXTS)

        assert error.checkpoint_id == "A"
        assert "'A' has state version 5, which is newer than version 2 of this code" in str(error)

    @pytest.mark.parametrize(("stored", "shown"), [(0, 1), (1, 1), (2, 2), (4, 4)])
    def test_too_old(self, stored: int, shown: int) -> None:
        """A blob that no step starts from is refused with both numbers, also one between the ends of a step."""
        migrations = Migrations(5)
        migrations.step(3, 5)(appending("x"))

        error = refused(CheckpointVersionError, apply, migrations, state_version=stored)

        assert f"state version {shown}, which is older than version 5 of this code" in str(error)
        assert "steps start from [3]" in str(error)

    def test_unversioned(self) -> None:
        """A blob from before there were migrations counts as version 1, or as what `unversioned` says."""
        migrations = Migrations(3)
        migrations.step(1, 2)(appending("1"))
        migrations.step(2, 3)(appending("2"))
        done = apply(migrations)
        assert (done.from_version, done.to_version, texts(body_of(done.blob, TEXTS))[0]) == (1, 3, "root12")

        migrations = Migrations(3, unversioned=2)
        migrations.step(2, 3)(appending("2"))
        assert apply(migrations).from_version == 2

        migrations = Migrations(1, unversioned=0)
        migrations.step(0, 1)(appending("0"))
        done = apply(migrations)
        assert (done.from_version, texts(body_of(done.blob, TEXTS))[0]) == (0, "root0")
        assert migrations.version_of(done.header) == 1

    def test_converging_steps(self) -> None:
        """Steps may skip versions, and several may lead to one."""
        migrations = Migrations(4)
        migrations.step(1, 3)(appending("13"))
        migrations.step(2, 3)(appending("23"))
        migrations.step(3, 4)(appending("34"))

        for version, expected in ((1, "root1334"), (2, "root2334"), (3, "root34"), (4, "root")):
            done = apply(migrations, state_version=version)
            assert texts(body_of(done.blob, TEXTS))[0] == expected
            assert (done.from_version, done.to_version, done.changed) == (version, 4, version != 4)


class TestApply:
    def test_nothing_to_do(self) -> None:
        """A blob of today comes back as the very same object, without its body being read; and so does a finished run's."""
        header = read_header(seal(TREE, TEXTS, state_version=2))
        for blob in (
            Envelope().seal(header, b"not read"),
            Envelope().seal(msgspec.structs.replace(header, status="done", state_version=1, serializer="another"), b""),
            Envelope().seal(msgspec.structs.replace(header, status="done", state_version=9), b""),
        ):
            done = quantities().apply(blob)

            assert done.blob is blob
            assert (done.changed, done.dropped, done.header) == (False, (), read_header(blob))
            assert done.from_version == done.to_version == done.header.state_version

    def test_twice_is_once(self) -> None:
        """Migrating what was migrated gives the very same object back."""
        once = quantities().apply(seal(Checkpoint(state=Old(3)), OLD)).blob

        assert quantities().apply(once).blob is once
        assert body_of(once, NEW).state == New(3)

    def test_the_header(self) -> None:
        """The header is kept but for its version; parent, run, step, time, status and questions included."""
        points = {"i": InterruptState(info="q")}
        tree = Checkpoint(
            state=Old(3),
            interrupt_id_to_state=points,
            interrupt_id_to_address={"i": Address.of(("runnable", "root"), ("node", "n"))},
        )
        pending = [PendingInterrupt(id="i", address="runnable:root;node:n")]
        blob = seal(tree, OLD, run_id="r", step=7, pending=pending, parent={"id": "P", "digest": "00"})

        done = quantities().apply(blob)

        assert read_header(done.blob) == done.header
        assert done.header == msgspec.structs.replace(read_header(blob), state_version=2)

    def test_only_the_number(self) -> None:
        """A step without operations, or for another graph, changes the number alone; the body keeps its bytes, unread."""
        migrations = Migrations(3)
        migrations.add(1, 2)
        migrations.step(2, 3, graph="another")(appending("x"))
        migrations.checkpoint_step(2, 3, graph="another")(appending("x"))
        migrations.add(2, 3, rename_field("tests.Text", "text", "t"), graph="another")
        blob = Envelope().seal(read_header(seal(TREE, TEXTS)), b"not read")

        done = migrations.apply(blob, serializer=TEXTS)

        assert (done.changed, done.header.state_version) == (True, 3)
        assert Envelope().open(done.blob, checkpoint_id="A")[1] == b"not read"

    def test_broken_blobs(self) -> None:
        """F23: ten random bytes, another serializer's blob and one under another id are refused, whatever the steps are."""
        blob = seal(Checkpoint(state=Old(3)), OLD)

        refused(CheckpointCorruptError, quantities().apply, random.Random(1).randbytes(10))
        refused(CheckpointMismatchError, quantities().apply, blob, serializer=TwoMethods())
        refused(CheckpointCorruptError, quantities().apply, blob, checkpoint_id="B")
        refused(SerializationError, quantities().apply, Envelope().seal(read_header(blob), b"\xc1"))
        refused(
            CheckpointCorruptError,
            quantities().apply,
            Envelope().seal(read_header(blob), NEW.dumps({"no": "checkpoint"})),
        )

    def test_envelopes(self) -> None:
        """Blobs are opened and sealed by the envelope that is given: encrypted, signed and compressed."""
        keys = KeyRing({"k": bytes(32)})
        envelope = Envelope(keys=keys, sign=keys, compression="zlib")
        blob = envelope.seal(read_header(seal(Checkpoint(), OLD)), OLD.dumps(Checkpoint(state=Old(3))))

        done = quantities().apply(blob, envelope=envelope)

        assert NEW.loads(envelope.open(done.blob, checkpoint_id="A")[1]).state == New(3)

    def test_dropped(self) -> None:
        """What the steps dropped is told in order, across all of them; fields together, graph by graph."""
        migrations = Migrations(3)
        migrations.add(1, 2, drop_field("tests.Other", "text"))
        migrations.add(2, 3, drop_field("tests.Text", "text"))

        done = apply(migrations)

        assert done.dropped == [
            Dropped("field", "tests.Other.text", ("g",)),
            Dropped("field", "tests.Text.text"),
            Dropped("field", "tests.Text.text", ("g", "h")),
        ]
        assert str(done.dropped[0]) == "field tests.Other.text of graph g"


class TestWhichStates:
    @pytest.mark.parametrize("raw", [False, True], ids=["typed", "raw"])
    @pytest.mark.parametrize(
        ("narrowing", "expected"),
        [
            ({}, "x x x"),
            ({"graph": "root"}, "x x x"),
            ({"graph": "another"}, "- - -"),
            ({"path": ()}, "x - -"),
            ({"path": ("g",)}, "- x -"),
            ({"path": ["g", "h"]}, "- - x"),
            ({"path": ("h",)}, "- - -"),
            ({"path": ("n",)}, "- - -"),
            ({"state": Text}, "x - x"),
            ({"state": "tests.Text"}, "x - x"),
            ({"state": Other}, "- x -"),
            ({"state": "tests.Other"}, "- x -"),
            ({"state": "nothing"}, "- - -"),
            ({"graph": "root", "path": ("g", "h"), "state": Text}, "- - x"),
            ({"graph": "root", "path": ("g", "h"), "state": Other}, "- - -"),
        ],
    )
    def test_narrowing(self, raw: bool, narrowing: dict[str, Any], expected: str) -> None:
        """A step is for all states, or for those of a graph, at a path, of a class, by the class or its name."""
        migrations = Migrations(2)
        migrations.step(1, 2, raw=raw, **narrowing)((appending_raw if raw else appending)("!"))

        now = texts(body_of(apply(migrations).blob, TEXTS))

        marks = ["!" if mark == "x" else "" for mark in expected.split()]
        assert now == [text + mark for text, mark in zip(texts(TREE), marks, strict=True)]

    def test_states_without_a_class(self) -> None:
        """A dict as a state is a dict, raw or typed, and can be narrowed to."""
        migrations = Migrations(3)
        migrations.step(1, 2, raw=True, state=dict)(lambda state: {**state, "raw": True})
        migrations.step(2, 3, state=dict)(lambda state: {**state, "typed": True})
        tree = Checkpoint(state={"a": 1}, sub_graphs={"g": Checkpoint(state=[1])})

        now = body_of(apply(migrations, tree).blob, TEXTS)

        assert now.state == {"a": 1, "raw": True, "typed": True}
        assert now.sub_graphs["g"].state == [1]

    def test_all_that_fit_run_in_order(self) -> None:
        """Where several steps of one version are for a state, each runs on it, in the order in which they were added."""
        migrations = Migrations(2)
        migrations.step(1, 2, path=("g",))(appending("a"))
        migrations.step(1, 2, raw=True)(appending_raw("b"))
        migrations.checkpoint_step(1, 2)(lambda tree: appending_raw("c")(tree.sub_graphs["g"].state))
        migrations.step(1, 2, state=Other)(appending("d"))
        migrations.add(1, 2, rename_field("tests.Other", "text", "old"), rename_field("tests.Other", "old", "text"))
        migrations.step(1, 2, state="tests.Other", raw=True)(appending_raw("e"))

        assert texts(body_of(apply(migrations).blob, TEXTS)) == ["rootb", "gabcde", "g/hb"]

    def test_a_graph_before_its_nested_graphs(self) -> None:
        """Steps see the states of a graph before those nested in it, as `migrate_checkpoint_state` does."""
        seen: list[str] = []
        migrations = Migrations(2)
        migrations.step(1, 2)(lambda state: seen.append(state.text))

        apply(migrations)

        assert seen == ["root", "g", "g/h"]

    def test_another_class(self) -> None:
        """A step may give a state of another class, typed or raw; None keeps the object."""
        migrations = Migrations(3)
        migrations.step(1, 2, state=Text)(lambda state: Other(state.text + "!"))
        migrations.step(2, 3, raw=True, path=("g", "h"))(lambda state: RawValue("tests.Text", state.fields))

        now = body_of(apply(migrations).blob, TEXTS)

        assert (now.state, now.sub_graphs["g"].sub_graphs["h"].state) == (Other("root!"), Text("g/h!"))


class TestSteps:
    def test_whole_checkpoints(self) -> None:
        """A step for whole checkpoints gets one, raw unless it wants it typed, and changes it or gives another."""
        migrations = Migrations(3)

        @migrations.checkpoint_step(1, 2)
        def first(tree: Checkpoint) -> None:
            assert isinstance(tree.state, RawValue)
            tree.inputs["n"] = tree.state.fields["text"]

        @migrations.checkpoint_step(2, 3, raw=False)
        def second(tree: Checkpoint) -> Checkpoint:
            assert isinstance(tree.state, Text)
            return Checkpoint(state=tree.state, inputs={"m": tree.inputs["n"]})

        assert body_of(apply(migrations).blob, TEXTS) == Checkpoint(state=Text("root"), inputs={"m": "root"})

    def test_what_is_no_checkpoint(self) -> None:
        """A step that gives something else than a checkpoint, or one that can't be, is an error."""
        for wrong, said in (
            ({}, "a dict where a checkpoint belongs"),
            (Checkpoint(interrupt_id_to_address={"i": Address()}), "under different ids"),
        ):
            migrations = Migrations(2)
            migrations.checkpoint_step(1, 2)(lambda _, wrong=wrong: wrong)  # type: ignore[misc]  # binds the loop's value
            assert said in str(refused(MigrationError, apply, migrations))

    def test_the_questions_in_the_header(self) -> None:
        """A step for whole checkpoints may change the interrupts; the header tells of those that wait then."""
        migrations = Migrations(2)

        @migrations.checkpoint_step(1, 2)
        def ask(tree: Checkpoint) -> None:
            for id, status, root in (("a", "pending", True), ("b", "done", True), ("c", "pending", False)):
                tree.interrupt_id_to_address[id] = Address.of(("node", id))
                tree.interrupt_id_to_state[id] = InterruptState(status=status, is_root_cause=root)

        assert read_header(apply(migrations).blob).pending == [PendingInterrupt(id="a", address="node:a")]

    def test_a_typed_value_in_a_raw_state(self) -> None:
        """What a raw step puts in as a value of a class is a raw value for the ready-made steps behind it, in one version too."""
        migrations = Migrations(2)
        migrations.step(1, 2, raw=True)(lambda state: state.update(x=Text("inner")))
        migrations.add(1, 2, rename_type("tests.Text", "tests.Other"))

        assert body_of(apply(migrations, Checkpoint(state={})).blob, TEXTS).state == {"x": Other("inner")}

    @pytest.mark.parametrize("kind", ["typed", "raw", "checkpoint"])
    def test_a_failing_step(self, kind: str) -> None:
        """What a step raises is the cause of the error, which names checkpoint, versions and graph; later ones don't run."""
        ran: list[str] = []
        migrations = Migrations(4)
        migrations.step(1, 2)(lambda _: ran.append("1"))

        def fail(value: Any) -> None:
            ran.append("2")
            if kind == "checkpoint" or len(ran) == 5:
                raise KeyError("qty")

        if kind == "checkpoint":
            migrations.checkpoint_step(2, 3)(fail)
        else:
            migrations.step(2, 3, raw=kind == "raw")(fail)
        migrations.step(3, 4)(lambda _: ran.append("3"))

        error = refused(MigrationError, apply, migrations)

        where = "the checkpoint of the root graph" if kind == "checkpoint" else "the state of graph g"
        assert f"the step 2 -> 3 failed on {where}: KeyError: 'qty'" in str(error)
        assert "'A' was not migrated, and what is stored was not changed" in str(error)
        assert isinstance(error.__cause__, KeyError)
        assert (error.checkpoint_id, error.path) == ("A", [] if kind == "checkpoint" else ["g"])
        assert "3" not in ran

    @pytest.mark.parametrize("later", [False, True], ids=["last", "with steps behind"])
    def test_a_result_that_cannot_be_stored(self, later: bool) -> None:
        """A value that can't be stored is blamed on the step that made it, with the path to it."""
        migrations = Migrations(4 if later else 2)
        migrations.step(1, 2, raw=True, path=())(lambda state: state.fields.update(text=object()))
        if later:
            migrations.step(2, 3)(appending("x"))
            migrations.add(3, 4, rename_field("tests.Text", "text", "t"))

        error = refused(MigrationError, apply, migrations)

        assert "the step 1 -> 2 made what can't be stored" in str(error)
        assert "state.text" in str(error)

    def test_a_class_that_is_gone(self) -> None:
        """Typed steps need the classes; raw ones and ready-made ones do without, also where the classes can't be loaded."""
        migrations = Migrations(2)
        migrations.step(1, 2)(lambda _: None)
        blob = seal(TREE, TEXTS)
        tool = MsgpackSerializer(Registry())

        error = refused(UnknownTypeError, migrations.apply, blob, serializer=tool)
        assert "'A' can't be loaded" in str(error)
        migrations = Migrations(3)
        migrations.step(1, 2, raw=True)(appending_raw("!"))
        migrations.add(2, 3, rename_type("tests.Text", "tests.Other"))
        now = body_of(migrations.apply(blob, serializer=tool).blob, TEXTS)
        assert (now.state, now.sub_graphs["g"].state) == (Other("root!"), Other("g!"))


class TestSerializersThatAreNotRaw:
    BLOB = seal(TREE, TwoMethods())

    def test_typed_steps(self) -> None:
        """A user's serializer of two methods, and the one of pickles, work with typed steps."""
        signed = PickleSerializer(key=bytes(32))
        migrations = Migrations(3)
        migrations.step(1, 2, state=Text)(appending("!"))
        migrations.checkpoint_step(2, 3, raw=False)(lambda tree: appending("?")(tree.state))

        for serializer in (TwoMethods(), signed):
            migrations.check(serializer)
            done = migrations.apply(seal(TREE, serializer), serializer=serializer)
            assert texts(body_of(done.blob, serializer)) == ["root!?", "g", "g/h!"]

    @pytest.mark.parametrize(
        "define",
        [
            lambda migrations: migrations.step(1, 2, raw=True)(appending_raw("x")),
            lambda migrations: migrations.checkpoint_step(1, 2)(appending_raw("x")),
            lambda migrations: migrations.add(1, 2, rename_field("tests.Text", "text", "t")),
        ],
        ids=["state", "checkpoint", "operation"],
    )
    def test_raw_steps(self, define: Callable[[Migrations], Any]) -> None:
        """A raw step is refused by `check` with the serializer, and by `apply` where it is reached."""
        migrations = Migrations(2)
        define(migrations)

        assert "TwoMethods has no loads_raw" in str(refused(OptionError, migrations.check, TwoMethods()))
        error = refused(MigrationError, migrations.apply, self.BLOB, serializer=TwoMethods())
        assert "the step 1 -> 2 is raw" in str(error)


STEPS: dict[str, Callable[[Migrations, int, int], Any]] = {
    "typed": lambda chain, start, end: chain.step(start, end)(appending(f"t{end}")),
    "typed at a path": lambda chain, start, end: chain.step(start, end, path=("g", "h"))(appending(f"p{end}")),
    "typed, replaced": lambda chain, start, end: chain.step(start, end, path=())(lambda old: Other(old.text)),
    "typed, shared": lambda chain, start, end: chain.step(start, end, path=())(share),
    "typed, appends to what is shared": lambda chain, start, end: chain.step(start, end, path=())(append_shared),
    "raw": lambda chain, start, end: chain.step(start, end, raw=True)(appending_raw(f"r{end}")),
    "raw, with a typed value": lambda chain, start, end: chain.step(start, end, raw=True, path=())(put_typed),
    "checkpoint": lambda chain, start, end: chain.checkpoint_step(start, end)(put_input),
    "a field": lambda chain, start, end: chain.add(start, end, add_field("tests.Text", f"f{end}", Text("new"))),
    "fields": lambda chain, start, end: chain.add(
        start, end, rename_field("tests.Text", "more", "most"), rename_field("tests.Text", "most", "more")
    ),
    "a name": lambda chain, start, end: chain.add(
        start, end, rename_type("tests.Other", "tests.Text"), map_enum_value("x", {"a": "b"})
    ),
    "nothing": lambda chain, start, end: chain.add(start, end),
}
"""Steps that can follow each other in any order."""


def share(state: Any) -> None:
    """Let two attributes be one object."""
    state.more = state.less = ["x"]


def append_shared(state: Any) -> None:
    """Change one attribute, and with it the other where they are one object."""
    getattr(state, "more", []).append("y")


def put_typed(state: RawValue) -> None:
    """Put a value of a class where raw ones belong; it is stored as one."""
    state.fields["text"] += "v"
    state.parts[1:] = [{**(state.parts[1] if len(state.parts) > 1 else {}), "value": Text("typed")}]


def put_input(tree: Checkpoint) -> None:
    """Add something beside the states."""
    tree.inputs[f"n{len(tree.inputs)}"] = tree.state


@given(kinds=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5))
def test_a_chain_is_its_steps_one_by_one(kinds: list[str]) -> None:
    """A chain gives to the byte what its steps give one by one, whatever they are; and migrating again changes nothing."""
    last = len(kinds) + 1
    chain = Migrations(last)
    one_by_one = seal(TREE, TEXTS)
    for start, kind in enumerate(kinds, 1):
        STEPS[kind](chain, start, start + 1)
        single = Migrations(start + 1)
        STEPS[kind](single, start, start + 1)
        one_by_one = single.apply(one_by_one, serializer=TEXTS).blob

    done = chain.apply(seal(TREE, TEXTS), serializer=TEXTS)

    assert done.blob == one_by_one
    assert chain.apply(done.blob, serializer=TEXTS).blob is done.blob


def test_a_chain_and_a_function_agree() -> None:
    """A typed step does to a blob what `migrate_checkpoint_state` does with the same function and version."""
    migrations = Migrations(2)
    migrations.step(1, 2)(appending("!"))

    def migrate(state: Any) -> tuple[Any, bool]:
        appending("!")(state)
        return state, True

    blob = seal(TREE, TEXTS)
    assert (
        migrate_checkpoint_state(blob, migrate, serializer=TEXTS, state_version=2)
        == migrations.apply(blob, serializer=TEXTS).blob
    )
