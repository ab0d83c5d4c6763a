"""Apps that are compiled with migrations: new checkpoints get a version, older ones are brought up when they are loaded."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import chain
from stored_runs import TwoMethodStore, blob_of, header_of, paused, refused, sha
from two_programs import NEW, OLD, New, Old, body_of, nested, quantities, single, stamp

from blobcp import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointDoneError,
    CheckpointMismatchError,
    CheckpointSaveError,
    CheckpointVersionError,
    Envelope,
    Graph,
    GraphBuildError,
    KeyRing,
    MigrationError,
    OptionError,
    PickleSerializer,
    UnknownTypeError,
    interrupt,
    read_header,
)
from blobcp.migrations import Migrations, drop_field, rename_field


def old_app(graph: Any, store: Any, **options: Any) -> Any:
    """Return an app of the older release, which knows nothing of migrations."""
    return graph(Old).compile(store=store, serializer=OLD, **options)


def new_app(graph: Any, store: Any, **options: Any) -> Any:
    """Return an app of the newer release."""
    return graph(New).compile(store=store, serializer=NEW, **{"migrations": quantities(), **options})


class TestF23:
    """F23: ids m1 to m5 after a schema change, at the level of one blob."""

    @pytest.fixture
    def stored(self, runner: Runner, mode: dict[str, Any]) -> tuple[TwoMethodStore, dict[str, str]]:
        """A store with m1, m2 (schema 1), m3 (likewise, nested), m4 (schema 2), m5 (ten random bytes), and the question ids."""
        store, ids = TwoMethodStore(), {}
        for id, app in (
            ("m1", old_app(single, store, **mode)),
            ("m2", old_app(single, store, migrations=Migrations(1), **mode)),
            ("m3", old_app(nested, store, **mode)),
            ("m4", new_app(single, store, **mode)),
        ):
            ids[id] = paused(runner.invoke, app, "abc", checkpoint_id=id).interrupts[0].id
        store.blobs["m5"] = random.Random(5).randbytes(10)
        return store, ids

    def test_versions(self, stored: Any) -> None:
        """New blobs are stamped with the version of the migrations that the app was compiled with, or with 0."""
        store, _ = stored

        assert [header_of(store, id).state_version for id in ("m1", "m2", "m3", "m4")] == [0, 1, 0, 2]

    @pytest.mark.parametrize("job", [False, True], ids=["on load", "beforehand"])
    def test_each_resumes(self, runner: Runner, mode: dict[str, Any], stored: Any, job: bool) -> None:
        """Question ids are unchanged, and each of m1 to m4 resumes to the end with ``quantity`` set, m3 at both levels."""
        store, ids = stored
        if job:
            for id in ids:
                done = quantities().apply(store.blobs[id], checkpoint_id=id)
                assert done.changed is (id != "m4")
                store.blobs[id] = done.blob
        for id, graph, result in (
            ("m1", single, "y3"),
            ("m2", single, "y3"),
            ("m3", nested, "y3/30"),
            ("m4", single, "y3"),
        ):
            app = new_app(graph, store, **mode)
            assert [point.id for point in runner.pending(app, id)] == [ids[id]]
            assert runner.resume(app, id, {ids[id]: "y"}) == result
            assert (header_of(store, id).status, header_of(store, id).state_version) == ("done", 2)

    def test_without_the_migration(self, runner: Runner, mode: dict[str, Any], stored: Any) -> None:
        """A blob of schema 1 given to code of schema 2 without the step is refused with both numbers, and unchanged."""
        store, _ = stored
        for id, graph in (("m1", single), ("m2", single), ("m3", nested)):
            before = sha(store, id)
            app = new_app(graph, store, migrations=Migrations(2), **mode)
            for call in (runner.resume, runner.pending):
                error = refused(CheckpointVersionError, call, app, id)
                assert f"'{id}' has state version 1, which is older than version 2 of this code" in str(error)
                assert error.checkpoint_id == id
            refused(CheckpointVersionError, runner.invoke, app, "x", checkpoint_id=id)
            refused(CheckpointVersionError, runner.invoke, app, "x", checkpoint_id=id, write_to_checkpoint_id="B")
            assert sha(store, id) == before
        assert "B" not in store.blobs

    def test_newer(self, runner: Runner, mode: dict[str, Any], stored: Any) -> None:
        """A blob of schema 2 given to code of schema 1, or to code without migrations, is refused with both numbers."""
        store, _ = stored
        error = refused(
            CheckpointVersionError, runner.resume, old_app(single, store, migrations=Migrations(1), **mode), "m4"
        )
        assert "state version 2, which is newer than version 1 of this code" in str(error)
        error = refused(CheckpointVersionError, runner.resume, old_app(single, store, **mode), "m4")
        assert "state version 2 and this code declares none (version 0)" in str(error)
        assert "migrations=" in str(error)

    def test_m5(self, runner: Runner, mode: dict[str, Any], stored: Any) -> None:
        """What is no blob is corrupt, with or without migrations."""
        store, _ = stored
        refused(CheckpointCorruptError, runner.resume, new_app(single, store, **mode), "m5")
        refused(CheckpointCorruptError, quantities().apply, store.blobs["m5"], checkpoint_id="m5")

    def test_two_steps_in_one_go(self, runner: Runner, mode: dict[str, Any], stored: Any) -> None:
        """1 -> 2 -> 3 happens in one load, and starts at 2 for what is at 2."""
        store, ids = stored
        migrations = Migrations(3)
        migrations.add(1, 2, rename_field("shop.Order", "qty", "quantity"))

        @migrations.step(2, 3, state=New)
        def thousandfold(order: New) -> None:
            order.quantity *= 1000

        for id, graph, result in (("m1", single, "y3000"), ("m3", nested, "y3000/30000"), ("m4", single, "y3000")):
            app = new_app(graph, store, migrations=migrations, **mode)
            assert runner.resume(app, id, {ids[id]: "y"}) == result

    def test_a_failing_step(self, runner: Runner, mode: dict[str, Any], stored: Any) -> None:
        """A step that fails for m2 alone leaves it as it was, and the others resume."""
        store, ids = stored
        before = sha(store, "m2")
        migrations = Migrations(2)

        @migrations.checkpoint_step(1, 2)
        def step(tree: Any) -> None:
            if ids["m2"] in tree.interrupt_id_to_state:
                raise ValueError("not this one")
            tree.state.fields["quantity"] = tree.state.fields.pop("qty")

        app = new_app(single, store, migrations=migrations, **mode)
        error = refused(MigrationError, runner.resume, app, "m2", {ids["m2"]: "y"})
        assert "'m2'" in str(error)
        assert "not this one" in str(error)
        assert sha(store, "m2") == before
        assert runner.resume(app, "m1", {ids["m1"]: "y"}) == "y3"


class TestLoading:
    def test_nothing_is_written_by_a_load(self, runner: Runner) -> None:
        """Looking at what is pending, and a resume that stops again, load an old blob; only the save writes a new one."""
        store = TwoMethodStore()
        stop = paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        before = sha(store, "A")
        app = new_app(single, store)

        runner.pending(app, "A")
        assert sha(store, "A") == before
        assert [name for name, _ in store.calls if name == "set"] == ["set"]
        again = paused(runner.resume, app, "A")
        assert again.interrupts[0].id == stop.interrupts[0].id
        assert header_of(store, "A").state_version == 2
        assert body_of(store.blobs["A"], NEW).state == New(3)

    def test_a_fork(self, runner: Runner, store: Any) -> None:
        """A fork of an old blob is new, names the old one as its parent, and leaves it alone."""
        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        before = blob_of(store, "A")

        paused(runner.invoke, new_app(single, store), checkpoint_id="A", write_to_checkpoint_id="B")

        assert blob_of(store, "A") == before
        header = read_header(blob_of(store, "B"))
        assert (header.state_version, header.parent.id, header.parent.digest) == (2, "A", before[-32:].hex())

    def test_the_modifier_sees_the_new_state(self, runner: Runner) -> None:
        """Migrations run before the state modifier, which gets the states of today, in load and save."""
        store, seen = TwoMethodStore(), []
        stop = paused(runner.invoke, old_app(nested, store), "abc", checkpoint_id="A")

        def modifier(path: list[str], state: Any) -> None:
            seen.append((path, type(state)))
            state.quantity += 1

        app = new_app(nested, store)
        assert runner.resume(app, "A", {stop.interrupts[0].id: "y"}, state_modifier=modifier) == "y4/31"
        assert seen == [([], New), (["inner"], New)]

    def test_a_finished_run(self, runner: Runner, store: Any) -> None:
        """The mark of a finished run is of no version: it can be started anew by older and newer code, and not resumed."""
        paused(runner.invoke, new_app(single, store), "abc", checkpoint_id="A")
        runner.resume(new_app(single, store), "A", answer="y")
        app = old_app(single, store)

        refused(CheckpointDoneError, runner.resume, app, "A")
        assert runner.pending(app, "A") == []
        paused(runner.invoke, app, "abc", checkpoint_id="A")

    def test_a_new_run_does_not_read(self, runner: Runner, store: Any) -> None:
        """With force_new_run a blob of another version is in nobody's way."""
        paused(runner.invoke, new_app(single, store), "abc", checkpoint_id="A")

        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A", force_new_run=True)

        assert read_header(blob_of(store, "A")).state_version == 0

    def test_another_graph(self, runner: Runner) -> None:
        """Whether a blob is of this graph is asked before its version: versions are of a graph's migrations."""
        store = TwoMethodStore()
        paused(runner.invoke, new_app(single, store, name="shop"), "abc", checkpoint_id="A")

        error = refused(CheckpointMismatchError, runner.resume, old_app(single, store, name="bank"), "A")

        assert "'shop'" in str(error)

    def test_sealed_blobs(self, runner: Runner, store: Any) -> None:
        """Encrypted, signed and compressed blobs are brought up as plain ones are."""
        keys = KeyRing({"k": bytes(32)})
        envelope = Envelope(keys=keys, sign=keys, compression="zlib")
        stop = paused(runner.invoke, old_app(nested, store, envelope=envelope), "abc", checkpoint_id="A")

        assert runner.resume(new_app(nested, store, envelope=envelope), "A", {stop.interrupts[0].id: "y"}) == "y3/30"

    def test_a_migrated_run_that_was_overtaken(self, runner: Runner, store: Any) -> None:
        """F26: a run that goes on from an old blob is told of a conflict as ever, and can't overwrite the winner."""
        stop = paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        blob = blob_of(store, "A")

        def ask(text: str) -> str:
            answer = str(interrupt("q"))
            store.set("A", blob)
            return text + answer

        migrations = Migrations(2)
        migrations.add(1, 2)
        app = chain("fill", "ask", state=Old, ask=ask).compile(store=store, serializer=OLD, migrations=migrations)
        refused(CheckpointConflictError, runner.resume, app, "A", {stop.interrupts[0].id: "y"})
        assert blob_of(store, "A") == blob

    def test_a_save_that_is_completed_later(self, runner: Runner) -> None:
        """The blob of a save that failed is of the version of today too."""

        class Full(TwoMethodStore):
            full = False

            def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
                if self.full:
                    raise OSError("disk full")
                super().set(checkpoint_id, checkpoint)

        store = Full()
        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        app = new_app(single, store)
        store.full = True
        with pytest.raises(CheckpointSaveError) as caught:
            runner.resume(app, "A")
        store.full = False

        app.retry_save(caught.value)

        assert header_of(store, "A").state_version == 2

    def test_dropped_is_told(self, runner: Runner, store: Any) -> None:
        """``on_dropped`` hears of what a load has dropped, and of nothing where nothing was."""
        told: list[Any] = []
        migrations = Migrations(2, on_dropped=lambda id, dropped: told.append((id, [str(each) for each in dropped])))
        migrations.add(1, 2, drop_field("shop.Order", "qty"))
        paused(runner.invoke, old_app(nested, store), "abc", checkpoint_id="A")
        app = new_app(nested, store, migrations=migrations)
        runner.pending(app, "A")
        assert told == [
            ("A", ["field shop.Order.qty of the root graph", "field shop.Order.qty of graph inner"]),
        ]
        paused(runner.invoke, app, "abc", checkpoint_id="B")
        runner.pending(app, "B")
        assert len(told) == 1

        failing = Migrations(2, on_dropped=lambda id, dropped: {}[id])
        failing.add(1, 2, drop_field("shop.Order", "qty"))
        error = refused(MigrationError, runner.pending, new_app(nested, store, migrations=failing), "A")
        assert "on_dropped failed on what was dropped" in str(error)
        refused(OptionError, Migrations, 2, on_dropped="print")

    def test_a_state_of_another_class(self, runner: Runner, store: Any) -> None:
        """A typed step may give the state its new class, where both are registered."""

        @dataclass
        class Newest:
            quantity: int = 0

        migrations = Migrations(2)
        migrations.step(1, 2)(lambda old: Newest(old.qty * 2))
        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        app = single(Newest).compile(store=store, serializer=OLD, migrations=migrations)
        assert runner.resume(app, "A", answer="y") == "y6"

        migrations = Migrations(2)
        migrations.step(1, 2)(lambda old: {"quantity": 1})
        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A", force_new_run=True)
        app = single(Newest).compile(store=store, serializer=OLD, migrations=migrations)
        error = refused(CheckpointMismatchError, runner.resume, app, "A", answer="y")
        assert "state of class dict" in str(error)

    def test_pickles(self, runner: Runner, store: Any) -> None:
        """Typed steps do with pickles, whose classes have to be there."""
        serializer = PickleSerializer(key=bytes(32))
        paused(runner.invoke, single(Old).compile(store=store, serializer=serializer), "abc", checkpoint_id="A")
        migrations = Migrations(2)
        migrations.step(1, 2, state=Old)(lambda old: New(old.qty))

        app = single(New).compile(store=store, serializer=serializer, migrations=migrations)

        assert runner.resume(app, "A", answer="y") == "y3"

    def test_without_a_step_the_codec_speaks(self, runner: Runner, store: Any) -> None:
        """A step that forgets a class leaves the error to the codec, with the id and the name of the class."""
        migrations = Migrations(2)
        migrations.add(1, 2)
        paused(runner.invoke, old_app(single, store), "abc", checkpoint_id="A")
        app = single(Other).compile(store=store, migrations=migrations)

        error = refused(UnknownTypeError, runner.resume, app, "A")

        assert "'A' can't be loaded" in str(error)
        assert "'shop.Order'" in str(error)


@dataclass
class Other:
    """A state that is stored under another name."""

    quantity: int = 0


class TestCompile:
    @pytest.mark.parametrize(
        "wrong",
        [2, "m", Migrations, object(), {"version": 2}, lambda state: state],
        ids=["int", "str", "class", "object", "dict", "function"],
    )
    def test_what_is_no_migrations(self, wrong: Any) -> None:
        """Something else than migrations is refused at compile, in words."""
        error = refused(GraphBuildError, single(Old).compile, migrations=wrong)

        assert "give a blobcp.migrations.Migrations" in str(error)

    def test_holes(self) -> None:
        """A chain with a hole is refused at compile, not at the first old blob."""
        migrations = Migrations(3)
        migrations.add(1, 2)

        error = refused(GraphBuildError, single(Old).compile, migrations=migrations)

        assert "add the step 2 -> 3" in str(error)
        assert isinstance(error.__cause__, OptionError)

    def test_raw_steps_and_pickles(self) -> None:
        """Raw steps are refused at compile where the serializer can't read raw."""
        error = refused(
            GraphBuildError,
            single(Old).compile,
            migrations=quantities(),
            serializer=PickleSerializer(key=bytes(32)),
        )

        assert "PickleSerializer has no loads_raw" in str(error)

    def test_migrations_of_a_nested_app(self) -> None:
        """An app with migrations can't be nested: its graph is stored with the outer one, whose migrations count."""
        app = single(Old).compile(migrations=Migrations(2))

        error = refused(GraphBuildError, Graph(str, str).add_node, "inner", app)

        assert "path=('inner',)" in str(error)

    def test_a_users_own(self, runner: Runner, store: Any) -> None:
        """Anything with a version, a check and a way to bring a checkpoint up can be given."""

        class Own:
            version = 7

            def check(self, serializer: Any = None) -> None:
                self.checked = serializer

            def bring_up(self, header: Any, body: bytes, checkpointer: Any) -> Any:
                checkpoint = checkpointer.restore(header.checkpoint_id, body)
                checkpoint.state.qty += header.state_version
                return checkpoint

        own = Own()
        app = old_app(single, store, migrations=own)
        assert own.checked is OLD
        paused(runner.invoke, app, "abc", checkpoint_id="A")
        assert runner.resume(app, "A", answer="y") == "y10"


def test_a_version_is_what_the_header_says(runner: Runner) -> None:
    """The header decides, whatever the body looks like: a new body with an old number is brought up again."""
    store = TwoMethodStore()
    paused(runner.invoke, new_app(single, store), "abc", checkpoint_id="A")
    stamp(store, "A", 1)
    migrations = Migrations(2)
    migrations.step(1, 2)(lambda state: New(state.quantity + 1))

    assert runner.resume(new_app(single, store, migrations=migrations), "A", answer="y") == "y4"


def test_migrations_can_be_sent_to_other_processes() -> None:
    """Migrations of ready-made steps and of functions of modules are pickled, so that executors can take them."""
    migrations = quantities()
    migrations.step(1, 2, state=Old)(_step)

    again = pickle.loads(pickle.dumps(migrations))

    assert (repr(again), again.version) == ("<Migrations 1 -> 2>", 2)
    again.check(OLD)


def _step(state: Any) -> Any:
    return state
