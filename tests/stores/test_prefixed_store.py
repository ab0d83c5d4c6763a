from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper
from blobcp.stores import MapStore
from blobcp.stores.sqlite import SQLiteStore
from blobcp.stores.wrappers.prefixed import PrefixedStore
from blobcp.stores.wrappers.retrying import RetryingStore


class BareStore:
    """A user's own store: two methods, and no checks of its own."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def get(self, checkpoint_id: str) -> bytes | None:
        return self.blobs.get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.blobs[checkpoint_id] = checkpoint


class OddStore(BareStore):
    """A user's own store that takes ids of 20 characters."""

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        if len(checkpoint_id) > 20:
            raise InvalidCheckpointIdError(f"{checkpoint_id!r} is too long for me", checkpoint_id=checkpoint_id)


def test_tenants_do_not_meet() -> None:
    """Each prefix has its own ids; the store inside has them all, with their prefixes."""
    shared = MapStore()
    ours, theirs = PrefixedStore(shared, "ours/"), PrefixedStore(shared, "theirs/")
    ours.set("a", b"1")
    theirs.set("a", b"2")
    theirs.set("b", bytearray(b"3"))

    assert (ours.get("a"), ours.get("b"), theirs.get("a"), theirs.get("b")) == (b"1", None, b"2", b"3")
    assert [*shared.list()] == ["ours/a", "theirs/a", "theirs/b"]
    theirs.delete("a")
    assert (ours.get("a"), theirs.get("a")) == (b"1", None)
    version = theirs.set_if("c", b"4", None)
    assert theirs.get_versioned("c") == (b"4", version)
    assert ours.get_versioned("c") is None
    theirs.set_expiring("d", b"5", timedelta(hours=1))
    assert (ours.get("d"), theirs.get("d")) == (None, b"5")


def test_lists_its_own_without_the_prefix() -> None:
    """A listing is lazy, in code-point order, without the prefix and without what others have, also under its very name."""
    shared = MapStore()
    for checkpoint_id in ("t/", "t/b", "t/a/2", "t/a/10", "t/😀", "t/\uffff", "t0", "s/a", "t", "t/t/a"):
        shared.set(checkpoint_id, b"")
    store = PrefixedStore(shared, "t/")

    assert [*store.list()] == ["a/10", "a/2", "b", "t/a", "\uffff", "😀"]
    assert [*store.list("a/")] == ["a/10", "a/2"]
    assert [*store.list("t/")] == ["t/a"]
    assert next(store.list()) == "a/10"


def test_nested_prefixes() -> None:
    """A tenant may have tenants; their errors and listings show the innermost names only."""
    shared = MapStore()
    store = PrefixedStore(PrefixedStore(shared, "a/"), "b/")
    version = store.set_if("c", b"1", None)

    assert [*shared.list()] == ["a/b/c"]
    assert [*store.list()] == ["c"]
    assert store.get_versioned("c") == (b"1", version)
    with pytest.raises(CheckpointConflictError, match="checkpoint 'c' was written") as caught:
        store.set_if("c", b"2", None)
    assert caught.value.checkpoint_id == "c"
    assert store.room == 508


@pytest.mark.parametrize(
    ("make", "room"),
    [
        (lambda: PrefixedStore(MapStore(), "é" * 5), 502),
        (lambda: PrefixedStore(PrefixedStore(MapStore(), "é" * 5), "ab"), 500),
    ],
    ids=["one", "nested"],
)
def test_an_id_has_to_fit_behind_the_prefix(make: Callable[[], PrefixedStore], room: int) -> None:
    """An id may take what the prefix leaves of 512 bytes; a longer one is refused with that number by every call."""
    store = make()
    store.set("n" * room, b"1")
    long = "n" * (room - 1) + "é"

    assert [*store.list()] == ["n" * room]
    for call in (
        lambda: store.get(long),
        lambda: store.set(long, b""),
        lambda: store.delete(long),
        lambda: store.get_versioned(long),
        lambda: store.set_if(long, b"", None),
        lambda: store.set_expiring(long, b"", timedelta(1)),
    ):
        with pytest.raises(InvalidCheckpointIdError) as caught:
            call()
        assert str(caught.value) == (
            f"checkpoint id {long[:80]!r} takes {room + 1} UTF-8 bytes; "
            f"behind the prefix {store.prefix!r} at most {room} are allowed"
        )
        assert caught.value.checkpoint_id == long


def test_refuses_what_is_no_id_or_no_blob() -> None:
    """A wrong id and a value that is not bytes are refused under the name that the caller gave, by any store inside."""
    store = PrefixedStore(BareStore(), "t/")

    with pytest.raises(InvalidCheckpointIdError, match="checkpoint id '' is empty"):
        store.get("")
    with pytest.raises(StoreError, match="can't store a str under checkpoint id 'a'"):
        store.set("a", "text")  # type: ignore[arg-type]


def test_a_refusal_inside_names_the_id_outside() -> None:
    """Where the store inside takes fewer ids, the error is about the id that the caller knows."""
    store = PrefixedStore(OddStore(), "t/")

    with pytest.raises(InvalidCheckpointIdError) as caught:
        store.set("n" * 19, b"")

    assert caught.value.checkpoint_id == "n" * 19
    assert str(caught.value) == (
        f"checkpoint id '{'n' * 19}' can't stand behind the prefix 't/': 't/{'n' * 19}' is too long for me"
    )


def test_a_prefix_through_another_wrapper() -> None:
    """A prefix further inside is counted, too, where another wrapper is between."""
    store = PrefixedStore(RetryingStore(PrefixedStore(MapStore(), "inner/")), "outer/")
    store.set("n" * 500, b"1")

    with pytest.raises(
        InvalidCheckpointIdError, match=r"can't stand behind the prefix 'outer/'.*at most 506"
    ) as caught:
        store.set("n" * 501, b"1")

    assert caught.value.checkpoint_id == "n" * 501


@pytest.mark.parametrize("prefix", ["", "a\0", "\ud800", "p" * 513, 7])
def test_refuses_prefixes_that_begin_no_id(prefix: str) -> None:
    """A prefix that is empty or can't begin an id is refused."""
    with pytest.raises(
        StoreError, match="can't be the prefix of a PrefixedStore, since it begins no id: checkpoint id"
    ):
        PrefixedStore(MapStore(), prefix)


def test_refuses_prefixes_that_leave_no_room() -> None:
    """A prefix has to leave a byte for the id, nested ones together."""
    with pytest.raises(StoreError, match="takes 512 UTF-8 bytes; of 512 it has to leave some for the ids"):
        PrefixedStore(MapStore(), "p" * 512)
    inner = PrefixedStore(MapStore(), "p" * 500)
    with pytest.raises(StoreError, match="takes 12 UTF-8 bytes; of 12 it has to leave some for the ids"):
        PrefixedStore(inner, "p" * 12)


@pytest.mark.parametrize(
    ("inner", "blocking", "expected"),
    [(BareStore(), True, [False] * 4), (MapStore(), False, [True] * 4)],
    ids=["bare", "map"],
)
def test_has_the_powers_of_the_store_inside(inner: CheckPointStore, blocking: bool, expected: list[bool]) -> None:
    """It can do what the store inside can do, no more and no less."""
    store = PrefixedStore(inner, "t/")
    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert [isinstance(store, power) for power in powers] == expected
    assert store.blocking is blocking


def test_pickles(tmp_path: Path) -> None:
    """A store in another process has the same prefix and powers."""
    with SQLiteStore(tmp_path / "runs.db") as inner:
        store = PrefixedStore(inner, "t/")
        store.set("a", b"1")
        other = pickle.loads(pickle.dumps(store))

        assert (other.get("a"), [*other.list()], other.room) == (b"1", ["a"], 510)
        other.store.close()
