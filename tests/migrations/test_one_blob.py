"""One blob and one function for its states."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from drivers import Runner
from stored_runs import TwoMethodStore, header_of, paused, refused
from two_programs import NEW, OLD, New, Old, body_of, nested, seal, single

from blobcp import (
    Checkpoint,
    CheckpointCorruptError,
    CheckpointKeyError,
    CheckpointMismatchError,
    Envelope,
    KeyRing,
    MigrationError,
    OptionError,
    SerializationError,
    read_header,
    register,
)
from blobcp.checkpoint import Address, InterruptState
from blobcp.codec import Parent
from blobcp.migrations import migrate_checkpoint_state


@dataclass
class Note:
    """A state with a text."""

    text: str = ""
    seen: list[str] = field(default_factory=list)


register(Note, name="tests.one_blob.Note", registry=OLD.registry)


class Counting:
    """A user's serializer with two methods, which counts its calls."""

    def __init__(self) -> None:
        self.dumped = 0

    def dumps(self, value: Any) -> bytes:
        self.dumped += 1
        return pickle.dumps(value)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


TREE = Checkpoint(
    state=Note("root"),
    sub_graphs={
        "b": Checkpoint(state=Note("b"), sub_graphs={"x": Checkpoint(state=Note("b/x"))}),
        "none": Checkpoint(sub_graphs={"y": Checkpoint(state=Note("none/y"))}),
        "a": Checkpoint(state=Note("a")),
    },
)


def unchanged(state: Any) -> tuple[Any, bool]:
    """Say that nothing has changed."""
    return state, False


class TestB130:
    def test_undecodable_bytes(self) -> None:
        """B130: bytes that are no blob, or no checkpoint, are an error, and the function is not called."""
        calls: list[Any] = []

        def migrate(state: Any) -> tuple[Any, bool]:
            calls.append(state)
            return state, False

        for data in (b"", b"ten bytes!", seal(TREE, OLD)[:-1]):
            refused(CheckpointCorruptError, migrate_checkpoint_state, data, migrate)
        for body, kind in ((b"\xc1", SerializationError), (OLD.dumps([1]), CheckpointCorruptError)):
            blob = Envelope().seal(read_header(seal(TREE, OLD)), body)
            assert "'A'" in str(refused(kind, migrate_checkpoint_state, blob, migrate, serializer=OLD))
        assert calls == []

    def test_unchanged_is_the_very_same_object(self) -> None:
        """B130: where the function says for all states that nothing has changed, the given bytes come back, nothing encoded."""
        blob, serializer = seal(TREE, Counting()), Counting()

        assert migrate_checkpoint_state(blob, unchanged, serializer=serializer) is blob
        assert migrate_checkpoint_state(blob, lambda state: (None, False), serializer=serializer) is blob
        assert serializer.dumped == 0

    def test_changed_states_are_encoded(self) -> None:
        """B130: where it says so for one state, the new one is stored, and the others as they were."""

        def migrate(state: Note) -> tuple[Note, bool]:
            return (Note("new"), True) if state.text == "b/x" else (Note("ignored"), False)

        blob = migrate_checkpoint_state(seal(TREE, OLD), migrate, serializer=OLD)

        now = body_of(blob, OLD)
        assert now.sub_graphs["b"].sub_graphs["x"].state == Note("new")
        assert (now.state, now.sub_graphs["b"].state, now.sub_graphs["a"].state) == (Note("root"), Note("b"), Note("a"))

    def test_a_change_in_place(self) -> None:
        """A state that was changed in place and given back as changed is stored as it is now."""

        def migrate(state: Note) -> tuple[Note, bool]:
            state.text += "!"
            return state, True

        blob = migrate_checkpoint_state(seal(TREE, OLD), migrate, serializer=OLD)

        assert body_of(blob, OLD).sub_graphs["none"].sub_graphs["y"].state == Note("none/y!")

    def test_order(self) -> None:
        """B130: it is called for each state that is not None, a graph before its nested graphs, in declaration order."""
        seen: list[str] = []

        def migrate(state: Note) -> tuple[Note, bool]:
            seen.append(state.text)
            return state, False

        migrate_checkpoint_state(seal(TREE, OLD), migrate, serializer=OLD)

        assert seen == ["root", "b", "b/x", "none/y", "a"]

    def test_its_error_stops_everything(self) -> None:
        """B130: its error ends the migration at once; it is the cause of ours, which has the id and the way to the graph."""
        seen: list[str] = []

        def migrate(state: Note) -> tuple[Note, bool]:
            seen.append(state.text)
            if state.text == "b/x":
                raise KeyError("qty")
            return state, True

        error = refused(MigrationError, migrate_checkpoint_state, seal(TREE, OLD), migrate, serializer=OLD)

        assert seen == ["root", "b", "b/x"]
        assert isinstance(error.__cause__, KeyError)
        assert (error.checkpoint_id, error.path) == ("A", ["b", "x"])
        assert "'A'" in str(error)
        assert "graph b/x: KeyError: 'qty'" in str(error)
        assert "what is stored was not changed" in str(error)


@pytest.mark.parametrize("answer", [None, True, Note(), (Note(),), (None, True), [Note(), True]])
def test_what_is_no_answer(answer: Any) -> None:
    """A function that gives something else than a state and whether it has changed is told what to give."""
    error = refused(MigrationError, migrate_checkpoint_state, seal(TREE, OLD), lambda _: answer, serializer=OLD)

    assert "return" in str(error)


def test_a_state_that_cannot_be_stored() -> None:
    """A new state that can't be stored is an error of the migration, with the path to the value."""
    error = refused(
        MigrationError,
        migrate_checkpoint_state,
        seal(TREE, OLD),
        lambda _: (Note(seen=[object()]), True),
        serializer=OLD,
    )

    assert "state.seen" in str(error)
    assert isinstance(error.__cause__, SerializationError)


def test_the_header_is_kept(runner: Runner) -> None:
    """Id, parent, run, step, time, status and questions stay; a given version is stamped, and only that differs."""
    store = TwoMethodStore()
    app = single(Old).compile(store=store, serializer=OLD)
    paused(runner.invoke, app, "abc", checkpoint_id="A")
    paused(runner.invoke, app, checkpoint_id="A", write_to_checkpoint_id="B")
    before = header_of(store, "B")
    assert isinstance(before.parent, Parent)

    blob = migrate_checkpoint_state(store.blobs["B"], lambda _: (Old(7), True), serializer=OLD)
    assert read_header(blob) == before
    assert blob != store.blobs["B"]
    blob = migrate_checkpoint_state(store.blobs["B"], lambda _: (Old(7), True), serializer=OLD, state_version=3)
    assert read_header(blob).state_version == 3
    assert msgspec.structs.replace(read_header(blob), state_version=0) == before


def test_a_version_without_a_change() -> None:
    """A version that differs is stamped though no state has changed, without encoding anything; an equal one is no change."""
    blob, serializer = seal(TREE, Counting(), state_version=2), Counting()

    assert migrate_checkpoint_state(blob, unchanged, serializer=serializer, state_version=2) is blob
    stamped = migrate_checkpoint_state(blob, unchanged, serializer=serializer, state_version=3)
    assert read_header(stamped).state_version == 3
    assert Envelope().open(stamped, checkpoint_id="A")[1] == Envelope().open(blob, checkpoint_id="A")[1]
    assert serializer.dumped == 0
    for version in (-1, True, "2"):
        refused(OptionError, migrate_checkpoint_state, blob, unchanged, serializer=serializer, state_version=version)


def test_a_finished_run(runner: Runner) -> None:
    """The mark of a finished run has no state; it comes back as the very same object, whoever asks."""
    store = TwoMethodStore()
    app = single(Old).compile(store=store, serializer=OLD)
    paused(runner.invoke, app, "abc", checkpoint_id="A")
    runner.resume(app, "A", answer="y")
    mark = store.blobs["A"]

    assert header_of(store, "A").status == "done"
    assert migrate_checkpoint_state(mark, lambda _: (New(), True), serializer=NEW, state_version=9) is mark


def test_interrupt_states() -> None:
    """K36: what the nodes that stopped keep for themselves is reached by a function of its own."""
    points = {
        "1": InterruptState(state=Note("one"), info="q"),
        "2": InterruptState(info="q"),
        "3": InterruptState(state=Note("three"), info=Note("q")),
    }
    tree = Checkpoint(
        state=Note("root"),
        interrupt_id_to_state=points,
        interrupt_id_to_address=dict.fromkeys(points, Address.of("ab")),
    )
    seen: list[str] = []

    def migrate(state: Note) -> tuple[Note, bool]:
        seen.append(state.text)
        return Note(state.text + "!"), state.text != "one"

    blob = migrate_checkpoint_state(seal(tree, OLD), unchanged, serializer=OLD, interrupt_states=migrate)

    states = body_of(blob, OLD).interrupt_id_to_state
    assert seen == ["one", "three"]
    assert [states[id].state for id in "123"] == [Note("one"), None, Note("three!")]
    assert states["3"].info == Note("q")

    def fail(state: Note) -> tuple[Note, bool]:
        raise ValueError(state.text)

    error = refused(
        MigrationError, migrate_checkpoint_state, seal(tree, OLD), unchanged, serializer=OLD, interrupt_states=fail
    )
    assert "the state of interrupt 1 at a:b" in str(error)


def test_raw(runner: Runner) -> None:
    """With raw=True no class is needed: the states are raw values, and the new class loads what was made of them."""
    store = TwoMethodStore()
    stop = paused(runner.invoke, nested(Old).compile(store=store, serializer=OLD), "abc", checkpoint_id="A")

    def migrate(order: Any) -> tuple[Any, bool]:
        order.fields["quantity"] = order.fields.pop("qty")
        return order, True

    store.blobs["A"] = migrate_checkpoint_state(store.blobs["A"], migrate, raw=True)

    app = nested(New).compile(store=store, serializer=NEW)
    assert runner.resume(app, "A", {stop.interrupts[0].id: "y"}) == "y3/30"


def test_raw_needs_a_serializer_that_can() -> None:
    """A serializer without `loads_raw` is told so, in words."""
    blob = seal(TREE, Counting())

    error = refused(MigrationError, migrate_checkpoint_state, blob, unchanged, serializer=Counting(), raw=True)

    assert "'Counting' has no loads_raw" in str(error)


def test_another_serializer_is_refused() -> None:
    """A blob that another serializer wrote is not given to this one."""
    refused(CheckpointMismatchError, migrate_checkpoint_state, seal(TREE, OLD, serializer="pickle"), unchanged)


def test_sealed_blobs() -> None:
    """An envelope with keys opens and seals; one without is refused; compression and signature are kept up as well."""
    keys = KeyRing({"k": bytes(32)})
    envelope = Envelope(keys=keys, sign=keys, compression="zlib")
    blob = envelope.seal(read_header(seal(TREE, OLD)), OLD.dumps(TREE))

    assert migrate_checkpoint_state(blob, unchanged, serializer=OLD, envelope=envelope) is blob
    now = migrate_checkpoint_state(blob, lambda state: (Note("x"), True), serializer=OLD, envelope=envelope)
    assert OLD.loads(envelope.open(now, checkpoint_id="A")[1]).sub_graphs["a"].state == Note("x")
    refused(CheckpointKeyError, migrate_checkpoint_state, blob, unchanged, serializer=OLD)


def test_the_id_is_compared_where_it_is_given() -> None:
    """A blob that was copied to another id by hand is found out by whoever says what id it is stored under."""
    blob = seal(TREE, OLD)

    assert migrate_checkpoint_state(blob, unchanged, serializer=OLD, checkpoint_id="A") is blob
    error = refused(
        CheckpointCorruptError, migrate_checkpoint_state, blob, unchanged, serializer=OLD, checkpoint_id="B"
    )
    assert "copied by hand from 'A'" in str(error)


def test_a_run_goes_on_with_its_new_state(runner: Runner, mode: dict[str, Any]) -> None:
    """B130: what was migrated resumes under the old question ids, with the new state."""
    store = TwoMethodStore()
    app = single(Old).compile(store=store, serializer=OLD, **mode)
    stop = paused(runner.invoke, app, "abc", checkpoint_id="A")
    store.blobs["A"] = migrate_checkpoint_state(
        store.blobs["A"], lambda old: (Old(old.qty * 100), True), serializer=OLD
    )

    assert [point.id for point in runner.pending(app, "A")] == [stop.interrupts[0].id]
    assert runner.resume(app, "A", {stop.interrupts[0].id: "y"}) == "y300"
