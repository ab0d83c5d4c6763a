from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.stores import FileStore
from blobcp.stores.file.trailer import MAGIC, NEVER, TRAILER_BYTES, expiry_of, strip, trailer_of

NOON = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


class Clock:
    """What time it is, in nanoseconds."""

    now = NOON


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A store in a fresh folder."""
    return FileStore(tmp_path / "store")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The system's clock, moved by hand."""
    moved = Clock()
    monkeypatch.setattr(time, "time_ns", lambda: moved.now)
    return moved


def test_a_blob_is_there_until_its_time(store: FileStore, clock: Clock) -> None:
    """A blob that expires comes back whole to the last nanosecond of its time, and then by no call."""
    for checkpoint_id in ("a", "n" * 300):
        store.set_expiring(checkpoint_id, b"blob", timedelta(seconds=2))

        clock.now = NOON + 2 * SECOND - 1
        found = store.get_versioned(checkpoint_id)
        assert store.get(checkpoint_id) == b"blob"
        assert found is not None
        assert found[0] == b"blob"

        clock.now = NOON + 2 * SECOND
        assert store.get(checkpoint_id) is None
        assert store.get_versioned(checkpoint_id) is None
        clock.now = NOON


def test_expires_by_the_real_clock(store: FileStore) -> None:
    """Nobody has to call anything: after its time, and not before, the blob is gone for another store object too."""
    earliest = time.time_ns() + 50_000_000
    store.set_expiring("a", b"blob", timedelta(milliseconds=50))
    other = FileStore(store.folder)

    assert other.get("a") == b"blob"
    deadline = time.monotonic() + 60
    while other.get("a") is not None:
        assert time.monotonic() < deadline
    assert time.time_ns() >= earliest


def test_what_has_expired_is_absent_for_conditions(store: FileStore, clock: Clock) -> None:
    """After its time a blob conflicts with its own version and gives way to a write that expects nothing."""
    store.set_expiring("a", b"1", timedelta(seconds=1))
    found = store.get_versioned("a")
    assert found is not None
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", None)

    clock.now += SECOND

    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", found[1])
    version = store.set_if("a", b"3", None)
    assert store.get_versioned("a") == (b"3", version)


def test_other_writes_make_it_permanent(store: FileStore, clock: Clock) -> None:
    """A plain save and a conditional one over a blob that expires stay."""
    store.set_expiring("a", b"1", timedelta(seconds=1))
    store.set("a", b"2")
    store.set_expiring("b", b"1", timedelta(seconds=1))
    found = store.get_versioned("b")
    assert found is not None
    store.set_if("b", b"2", found[1])

    clock.now = NEVER - 1

    assert (store.get("a"), store.get("b")) == (b"2", b"2")
    assert store.purge() == 0


def test_the_file_of_a_plain_blob_is_the_blob(store: FileStore) -> None:
    """Any tool can read a blob that does not expire: there is nothing else in its file."""
    store.set("a", b"blob")
    store.set_if("b", b"", None)
    store.set_expiring("c", b"blob", timedelta(hours=1))

    assert [(store.folder / f"{name}.blob").read_bytes() for name in "ab"] == [b"blob", b""]
    assert len((store.folder / "c.blob").read_bytes()) == 4 + TRAILER_BYTES


@pytest.mark.parametrize(
    "blob",
    [
        MAGIC,
        b"x" + MAGIC,
        trailer_of(b"", 1),
        b"blob" + trailer_of(b"", 1),
        trailer_of(MAGIC, None) * 2,
        b"\0" + MAGIC[:-1],
    ],
)
def test_a_blob_that_ends_like_a_trailer_is_kept(store: FileStore, blob: bytes) -> None:
    """A blob that looks as if it had expired long ago does not expire, and comes back whole, by every kind of write."""
    store.set("a", blob)
    store.set_if("b", blob, None)
    store.set_expiring("c", blob, timedelta(hours=1))

    assert [store.get(name) for name in "abc"] == [blob] * 3
    assert store.purge() == 0


@given(
    st.binary(max_size=40) | st.builds(bytes.__add__, st.binary(max_size=40), st.sampled_from([MAGIC, MAGIC[1:]])),
    st.none() | st.integers(1, 2 * NEVER),
    st.integers(0, NEVER - 1),
)
@example(MAGIC, None, NEVER - 1)
def test_a_file_is_read_in_one_way_only(blob: bytes, expires: int | None, now: int) -> None:
    """Whatever the blob, its file gives it back until it expires, and says when that is."""
    data = blob + trailer_of(blob, expires)

    assert strip(data, now) == (blob if expires is None or now < expires else None)
    assert (expiry_of(data) or NEVER) == min(expires or NEVER, NEVER)


def test_a_very_long_time_is_for_ever(store: FileStore) -> None:
    """The longest timedelta is taken, though it ends after the last moment that a trailer can tell."""
    store.set_expiring("a", b"blob", timedelta.max)

    assert store.get("a") == b"blob"


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_refuses_what_is_no_time_to_live(store: FileStore, ttl: timedelta) -> None:
    """A time to live is a timedelta above zero; anything else is refused before anything is written."""
    with pytest.raises(StoreError, match="can't store checkpoint 'a' with the time to live"):
        store.set_expiring("a", b"blob", ttl)
    with pytest.raises(InvalidCheckpointIdError):
        store.set_expiring("", b"blob", timedelta(seconds=1))
    with pytest.raises(StoreError, match="can't store a str"):
        store.set_expiring("a", "text", timedelta(seconds=1))  # type: ignore[arg-type]

    assert [*store.folder.iterdir()] == []


def test_purge_removes_what_has_expired(store: FileStore, clock: Clock) -> None:
    """Until purged an expired blob is listed and takes space; purge removes it, and no other file."""
    for checkpoint_id, seconds in (("a", 1), ("b", 3), ("n" * 300, 1)):
        store.set_expiring(checkpoint_id, b"blob", timedelta(seconds=seconds))
    store.set("c", b"blob")
    foreign = store.folder / "notes.txt"
    foreign.write_bytes(trailer_of(b"", 1))

    clock.now += 2 * SECOND

    assert [*store.list()] == ["a", "b", "c", "n" * 300]
    assert store.purge() == 2
    assert [*store.list()] == ["b", "c"]
    assert foreign.exists()
    assert store.purge() == 0


def test_purge_spares_a_blob_that_is_stored_meanwhile(
    store: FileStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that comes between the look at an expired file and the lock is not purged."""
    store.set_expiring("a", b"old", timedelta(seconds=1))
    clock.now += SECOND
    real = store._locked

    def late(checkpoint_id: str) -> object:
        monkeypatch.setattr(store, "_locked", real)
        store.set("a", b"new")
        return real(checkpoint_id)

    monkeypatch.setattr(store, "_locked", late)

    assert store.purge() == 0
    assert store.get("a") == b"new"


def test_purge_and_saves_at_once(store: FileStore) -> None:
    """While one thread purges and another lets blobs expire and saves anew, no save is lost."""
    store.durable = False
    done = threading.Event()
    problems: list[BaseException] = []

    def keep_purging() -> None:
        try:
            while not done.is_set():
                store.purge()
        except StoreError as error:
            problems.append(error)

    purger = threading.Thread(target=keep_purging)
    purger.start()
    try:
        for number in range(300):
            store.set_expiring("a", b"gone", timedelta(microseconds=1))
            store.set("a", b"%d" % number)
            assert store.get("a") == b"%d" % number
    finally:
        done.set()
        purger.join(60)

    assert problems == []


def test_purge_says_what_it_can_t_read(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be looked at stops a purge with its id and path."""
    store.set("a", b"1")
    path = store.folder / "a.blob"

    def fail(*args: object) -> int:
        raise PermissionError(13, os.strerror(13))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        with pytest.raises(StoreError) as caught:
            store.purge()

    assert str(caught.value).startswith(f"can't purge checkpoint 'a' at {path}: Permission denied; give the user")
