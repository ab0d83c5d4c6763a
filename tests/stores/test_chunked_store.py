from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from forked import run_in_child
from watched_store import ALL_POWERS, WatchedStore, with_powers

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointLister
from blobcp.stores import FileStore, MapStore
from blobcp.stores.blobs import Blob
from blobcp.stores.wrappers.chunked import LONGEST_SAVE, PARTS_OUTLIVE, READS, ChunkedStore
from blobcp.stores.wrappers.parts import PART_PREFIX, manifest_in

CHUNK = 1024
BIG = bytes(range(256)) * 20
"""A blob of 5120 bytes: six parts, the id in front included."""

PARTS = 6
NO_TIME = timedelta(0)


@pytest.fixture
def inside() -> WatchedStore:
    """The store inside."""
    return WatchedStore()


@pytest.fixture
def store(inside: WatchedStore) -> ChunkedStore:
    """A store over values of a kilobyte."""
    return ChunkedStore(inside, CHUNK)


def parts_in(inside: WatchedStore | MapStore | FileStore) -> list[str]:
    """Return the ids of all parts."""
    return [*getattr(inside, "quiet", inside).list(PART_PREFIX)]


def is_part(checkpoint_id: str) -> bool:
    """Tell whether an inner id is a part's."""
    return checkpoint_id.startswith(PART_PREFIX)


def test_a_blob_that_fits_is_one_value_as_it_is(store: ChunkedStore, inside: WatchedStore) -> None:
    """Small blobs cost one value and can be read without this store."""
    for blob in (b"", b"blob", bytes(CHUNK)):
        store.set("A", blob)

        assert store.get("A") == blob
        assert inside.quiet.get("A") == blob
    assert [*inside.quiet.list()] == ["A"]


def test_a_larger_blob_is_cut(store: ChunkedStore, inside: WatchedStore) -> None:
    """A blob that is one byte too large is cut, no value is above the limit, and parts are no ids."""
    for size in (CHUNK + 1, 2 * CHUNK - 3, 2 * CHUNK - 2, 5 * CHUNK, 100_000):
        blob = BIG[:size] if size <= len(BIG) else os.urandom(size)
        store.set("A", blob)

        assert store.get("A") == blob
        assert [*store.list()] == ["A"]
        sizes = [len(inside.quiet.get(inner_id) or b"") for inner_id in parts_in(inside)]
        assert sum(sizes) == size + 3  # the id and its length stand in front
        assert max(sizes) <= CHUNK
        assert len(sizes) == -(-(size + 3) // CHUNK)


@pytest.mark.parametrize("size", [0, 2 * CHUNK])
def test_blobs_that_look_like_values_of_ours(store: ChunkedStore, inside: WatchedStore, size: int) -> None:
    """A blob that begins as a manifest does, or is one, comes back as it went in."""
    store.set("A", BIG)
    manifest = inside.quiet.get("A")
    assert manifest
    assert manifest_in("A", manifest)

    for blob in (manifest, manifest[:-1], manifest[:16], manifest[:16] + b"b", manifest[:3]):
        store.set("B", blob + bytes(size))
        assert store.get("B") == blob + bytes(size)
        found = store.get_versioned("B")
        assert found
        assert found[0] == blob + bytes(size)


def test_parts_come_first_and_the_manifest_last(store: ChunkedStore, inside: WatchedStore) -> None:
    """The manifest makes the new blob count when all of it is there, and the old parts go after that."""
    store.set("A", BIG)
    old = parts_in(inside)
    inside.calls.clear()

    store.set("A", BIG[::-1])

    methods = [(method, "part" if is_part(inner_id) else inner_id) for method, inner_id in inside.calls]
    assert methods == [("get", "A"), *[("set", "part")] * PARTS, ("set", "A"), *[("delete", "part")] * PARTS]
    assert not set(old) & set(parts_in(inside))
    assert len(parts_in(inside)) == PARTS


def test_a_comparing_save_reads_nothing(store: ChunkedStore, inside: WatchedStore) -> None:
    """The version knows the parts of the blob that was seen, so that they go without being looked for."""
    first = store.set_if("A", BIG, None)
    inside.calls.clear()

    second = store.set_if("A", BIG[::-1], first)

    assert {method for method, _ in inside.calls} == {"set", "set_if", "delete"}
    assert len(parts_in(inside)) == PARTS
    assert store.get_versioned("A") == (BIG[::-1], second)
    third = store.set_if("A", b"small", second)
    assert parts_in(inside) == []
    assert store.get_versioned("A") == (b"small", third)


def test_a_conflict_leaves_nothing(store: ChunkedStore, inside: WatchedStore) -> None:
    """Who comes too late takes the parts along, and changes nothing."""
    first = store.set_if("A", BIG, None)
    store.set("A", BIG[::-1])
    before = parts_in(inside)

    for version in (None, first, "", "strange", "a/b c"):
        with pytest.raises(CheckpointConflictError, match="'A'"):
            store.set_if("A", BIG, version)

    assert store.get("A") == BIG[::-1]
    assert parts_in(inside) == before


@pytest.mark.parametrize("failing", range(PARTS))
def test_a_part_that_fails_changes_nothing(store: ChunkedStore, inside: WatchedStore, failing: int) -> None:
    """Where a part can't be written the old blob stays, and the parts that were go."""
    store.set("A", BIG)
    before = parts_in(inside)

    def fail(method: str, inner_id: str) -> None:
        if method == "set" and inner_id.endswith(f"/{failing}"):
            raise StoreError("the disk is full")

    inside.before = fail

    with pytest.raises(StoreError, match="the disk is full"):
        store.set("A", BIG[::-1])
    assert store.get("A") == BIG
    assert parts_in(inside) == before


def test_a_manifest_that_may_be_there_keeps_its_parts(store: ChunkedStore, inside: WatchedStore) -> None:
    """Where the manifest's write fails and took place all the same, the new blob is whole."""
    store.set("A", BIG)

    def lose_answer(method: str, inner_id: str) -> None:
        if method == "set" and inner_id == "A":
            raise StoreError("timed out")

    inside.after = lose_answer

    with pytest.raises(StoreError, match="timed out"):
        store.set("A", BIG[::-1])
    assert store.get("A") == BIG[::-1]
    assert store.sweep(NO_TIME) == PARTS
    assert store.get("A") == BIG[::-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("last", ["part", "manifest"])
def test_a_killed_writer_changes_nothing(tmp_path: Path, last: str) -> None:
    """A process that ends in the middle of a save leaves the old blob, and parts that a sweep finds."""
    inside = WatchedStore(FileStore(tmp_path / "store", durable=False))
    store = ChunkedStore(inside, CHUNK)
    store.set("A", BIG)

    def die(method: str, inner_id: str) -> None:
        if method == "set" and (inner_id == "A" if last == "manifest" else inner_id.endswith("/3")):
            os._exit(9)

    def save() -> None:
        inside.before = die
        store.set("A", BIG[::-1])

    assert run_in_child(save) == 9
    assert store.get("A") == BIG
    assert store.sweep() == 0
    assert store.sweep(NO_TIME) == (PARTS if last == "manifest" else 3)
    assert store.get("A") == BIG
    assert len(parts_in(inside)) == PARTS


def test_a_reader_whose_parts_go_reads_anew(store: ChunkedStore, inside: WatchedStore) -> None:
    """A blob that is replaced or deleted while it is read is read anew, never in halves."""
    other = ChunkedStore(inside.quiet, CHUNK)
    new = iter([BIG[::-1], b"small", None])
    for expected in (BIG[::-1], b"small", None):
        other.set("A", BIG)

        def disturb(method: str, inner_id: str) -> None:
            if inner_id.endswith("/2"):
                inside.before = lambda method, inner_id: None
                blob = next(new)
                other.delete("A") if blob is None else other.set("A", blob)

        inside.before = disturb

        assert store.get("A") == expected


def test_a_reader_gives_up_in_the_end(store: ChunkedStore, inside: WatchedStore) -> None:
    """A blob that is replaced again and again while it is read is an error, not an endless wait."""
    other = ChunkedStore(inside.quiet, CHUNK)
    other.set("A", BIG)

    def disturb(method: str, inner_id: str) -> None:
        if inner_id.endswith("/2"):
            other.set("A", BIG)

    inside.before = disturb

    with pytest.raises(StoreError, match=f"'A' was replaced {READS} times while it was read"):
        store.get("A")


@pytest.mark.parametrize("method", ["get", "get_versioned"])
def test_a_missing_part_is_an_error(store: ChunkedStore, inside: WatchedStore, method: str) -> None:
    """F25: a blob that lacks a part is not absent; the message names the id and the part. A new save mends it."""
    store.set("A", BIG)
    lost = parts_in(inside)[3]
    inside.quiet.delete(lost)

    with pytest.raises(StoreError) as caught:
        getattr(store, method)("A")

    assert str(caught.value).startswith(f"checkpoint 'A' can't be read: part {lost!r} is missing")
    store.set("A", BIG)
    assert store.get("A") == BIG
    assert len(parts_in(inside)) == PARTS


@pytest.mark.parametrize("change", [lambda part: part[:-1], lambda part: part + b"x", lambda part: b"x" + part[1:]])
def test_a_damaged_part_is_an_error(store: ChunkedStore, inside: WatchedStore, change: object) -> None:
    """A part that is not what was written is found out."""
    assert callable(change)
    store.set("A", BIG)
    part = parts_in(inside)[2]
    inside.quiet.set(part, change(inside.quiet.get(part)))

    with pytest.raises(StoreError, match="the parts of checkpoint 'A' in the store underneath are damaged"):
        store.get("A")


@pytest.mark.parametrize("damaged", [b"\0\1\xff" + BIG[: CHUNK - 3], b"", b"\0\1\0" + BIG[: CHUNK - 3]])
def test_parts_of_nobody_known_stay(store: ChunkedStore, inside: WatchedStore, damaged: bytes) -> None:
    """A sweep leaves parts alone whose owner can't be read, since somebody may want what is left of them."""
    store.set("A", BIG)
    first = parts_in(inside)[0]
    inside.quiet.set(first, damaged)

    assert store.sweep(NO_TIME) == 0
    assert len(parts_in(inside)) == PARTS


@pytest.mark.parametrize("left", [17, 30])
def test_a_damaged_manifest_is_an_error(store: ChunkedStore, inside: WatchedStore, left: int) -> None:
    """A manifest that can't be read is not absent; its parts stay, and a new save or a deletion takes its place."""
    store.set("A", BIG)
    inside.quiet.set("A", (inside.quiet.get("A") or b"")[:left])

    with pytest.raises(StoreError, match="the manifest of checkpoint 'A' in the store underneath is damaged"):
        store.get("A")
    assert store.sweep(NO_TIME) == 0
    store.set("A", b"new")
    assert store.get("A") == b"new"
    assert store.sweep(NO_TIME) == PARTS


def test_deleting_takes_the_parts_along(store: ChunkedStore, inside: WatchedStore) -> None:
    """A deleted blob leaves nothing."""
    store.set("A", BIG)
    store.set("B", b"small")

    for checkpoint_id in ("A", "B", "C"):
        store.delete(checkpoint_id)

    assert [*inside.quiet.list()] == []


def test_parts_stay_where_the_store_inside_keeps_everything() -> None:
    """A medium that can't delete keeps old parts, and is asked for nothing more."""
    inside = WatchedStore(powers=ALL_POWERS - {CheckPointDeleter})
    store = ChunkedStore(inside, CHUNK)

    store.set("A", BIG)
    store.set("A", BIG[::-1])

    assert store.get("A") == BIG[::-1]
    assert len(parts_in(inside)) == 2 * PARTS
    assert ("get", "A") not in inside.calls[: 2 * PARTS + 2]


def test_ids_that_look_like_parts(store: ChunkedStore, inside: WatchedStore) -> None:
    """No id meets a part, order and prefixes are those of the ids, and one in 512 bytes is too long by one."""
    ids = ["~", "~part/", "~part/1", "~~", "}", "a", "\x7f", "n" * 512, "~" + "n" * 510]
    store.set("big", BIG)
    ids += [part[:500] for part in parts_in(inside)]
    for checkpoint_id in ids:
        store.set(checkpoint_id, checkpoint_id.encode())

    assert [*store.list()] == sorted([*ids, "big"])
    assert [*store.list("~p")] == sorted(found for found in ids if found.startswith("~p"))
    assert {checkpoint_id: store.get(checkpoint_id) for checkpoint_id in ids} == {each: each.encode() for each in ids}
    assert store.get("big") == BIG
    with pytest.raises(InvalidCheckpointIdError, match="at most 511"):
        store.set("~" + "n" * 511, b"blob")


def test_a_sweep_takes_what_no_manifest_names(store: ChunkedStore, inside: WatchedStore) -> None:
    """A sweep removes parts without a manifest, whole or not, and nothing else."""
    store.set("A", BIG)
    store.set("B", BIG)
    store.set("C", BIG)
    inside.quiet.delete("B")
    inside.quiet.set("C", b"small")
    [first, *_] = [part for part in parts_in(inside) if (inside.quiet.get(part) or b"").startswith(b"\0\1C")]
    inside.quiet.delete(first)
    inside.quiet.set(f"{PART_PREFIX}notes", b"not ours")

    assert store.sweep() == 0
    assert store.sweep(NO_TIME) == PARTS + PARTS - 1
    assert [*store.list()] == ["A", "C"]
    assert store.get("A") == BIG
    assert inside.quiet.get(f"{PART_PREFIX}notes") == b"not ours"


@pytest.mark.parametrize("lacks", [CheckPointLister, CheckPointDeleter])
def test_a_sweep_needs_to_list_and_to_delete(lacks: type) -> None:
    """Where the store inside can't do what a sweep needs, the message says so."""
    store = ChunkedStore(with_powers(ALL_POWERS - {lacks}), CHUNK)

    with pytest.raises(StoreError, match="can't sweep: StoreWrapper can't both list and delete"):
        store.sweep()


def test_a_save_that_takes_too_long_gives_up(
    store: ChunkedStore, inside: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that a sweep could take for a killed one ends before its manifest."""
    monkeypatch.setattr("blobcp.stores.wrappers.chunked.LONGEST_SAVE", -1.0)

    with pytest.raises(StoreError, match="'A' was not stored: writing its 6 parts took more than"):
        store.set("A", BIG)

    assert timedelta(seconds=LONGEST_SAVE) < timedelta(hours=1)
    assert [*inside.quiet.list()] == []


@pytest.mark.parametrize("ttl", [timedelta(days=1), timedelta.max])
def test_parts_outlive_their_manifest(ttl: timedelta) -> None:
    """Where blobs expire the manifest goes first, so that a reader finds all or nothing."""
    kept: dict[str, timedelta] = {}

    class Noting(MapStore):
        def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
            super().set_expiring(checkpoint_id, checkpoint, ttl)
            kept[checkpoint_id] = ttl

    store = ChunkedStore(Noting(), CHUNK)

    store.set_expiring("A", BIG, ttl)

    manifest = kept.pop("A")
    assert manifest == ttl
    assert set(kept.values()) == {min(ttl, timedelta.max - PARTS_OUTLIVE) + PARTS_OUTLIVE}
    assert len(kept) == PARTS
    assert store.get("A") == BIG


def test_readers_and_writers_at_once() -> None:
    """Four writers and four readers of one id: every read is one of the blobs that were written, whole."""
    inside = MapStore()
    store = ChunkedStore(inside, CHUNK)
    blobs = [bytes([number]) * (CHUNK * 3 * (number % 2) + 100) for number in range(4)]
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait(30)
        for _ in range(50):
            store.set("A", blobs[number])

    def read(number: int) -> set[bytes | None]:
        start.wait(30)
        return {store.get("A") for _ in range(50)}

    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, number) for number in range(4)]
        readers = [pool.submit(read, number) for number in range(4)]
        seen = set().union(*(reader.result(60) for reader in readers))
        for writer in writers:
            writer.result(60)

    last = store.get("A")
    assert seen <= {*blobs, None}
    assert last in blobs
    store.sweep(NO_TIME)
    assert len(parts_in(inside)) == (-(-(len(last) + 3) // CHUNK) if len(last) > CHUNK else 0)
    assert store.get("A") == last


def test_a_pickled_store_is_the_same_store(tmp_path: Path) -> None:
    """A copy reads and writes the same values."""
    store = ChunkedStore(FileStore(tmp_path, durable=False), CHUNK)
    store.set("A", BIG)

    copy = pickle.loads(pickle.dumps(store))
    copy.set("B", BIG)

    assert (copy.get("A"), store.get("B")) == (BIG, BIG)


@pytest.mark.parametrize("size", [0, 1023, -5, 2048.0, None, True])
def test_refuses_parts_that_are_too_small(size: object) -> None:
    """The size of parts is a number of bytes, with room for an id."""
    with pytest.raises(StoreError, match="give at least 1024"):
        ChunkedStore(MapStore(), size)  # type: ignore[arg-type]
