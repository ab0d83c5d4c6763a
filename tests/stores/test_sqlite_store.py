from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError, StoreUrlError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import open_store
from blobcp.stores.sqlite import SQLiteStore

HOUR = timedelta(hours=1)


class Clock:
    """A clock that a test turns forward; what the store reads instead of the machine's."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A store in a fresh file."""
    with SQLiteStore(tmp_path / "runs.db", durable=False) as store:
        yield store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the stores of a test take for the time."""
    clock = Clock()
    monkeypatch.setattr("blobcp.stores.sqlite.tables.time", clock)
    return clock


def test_keeps_what_it_is_given(store: SQLiteStore) -> None:
    """A blob comes back as bytes as it went in, the empty one too, the last one wins, and what was never stored is None."""
    store.set("a", b"1")
    store.set("b", b"\x00\xff\r\n")
    store.set("c", b"")
    store.set("a", memoryview(b"2"))

    assert [store.get(checkpoint_id) for checkpoint_id in "abcd"] == [b"2", b"\x00\xff\r\n", b"", None]


def test_has_all_powers(store: SQLiteStore) -> None:
    """The powers that it has can be found by looking at it."""
    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert all(isinstance(store, power) for power in powers)


def test_another_store_object_sees_it(store: SQLiteStore) -> None:
    """What is stored outlives the object that stored it, and its file needs no other one beside it."""
    store.set("a", b"1")
    store.close()

    assert [path.name for path in store.path.parent.iterdir()] == ["runs.db"]
    with SQLiteStore(store.path) as other:
        assert other.get("a") == b"1"


def test_refuses_what_is_no_id_or_no_blob(store: SQLiteStore) -> None:
    """A wrong id and a value that is not bytes are refused by every call that takes one."""
    for call in (
        lambda: store.get(""),
        lambda: store.set("", b""),
        lambda: store.delete(""),
        lambda: store.get_versioned(""),
        lambda: store.set_if("", b"", None),
        lambda: store.set_if("", b"", "é"),
        lambda: store.set_expiring("", b"", HOUR),
    ):
        with pytest.raises(InvalidCheckpointIdError):
            call()
    for call in (
        lambda: store.set("a", "text"),  # type: ignore[arg-type]
        lambda: store.set_if("a", None, None),  # type: ignore[arg-type]
        lambda: store.set_expiring("a", 7, HOUR),  # type: ignore[arg-type]
    ):
        with pytest.raises(StoreError, match="under checkpoint id 'a'; a store keeps bytes"):
            call()


def test_a_conditional_write_replaces_only_what_was_seen(store: SQLiteStore) -> None:
    """Every write moves the version, equal bytes too, and a version that moved changes nothing."""
    first = store.set_if("a", b"1", None)
    second = store.set_if("a", b"2", first)

    for version in (None, first, "", "é", "\ud800"):
        with pytest.raises(CheckpointConflictError, match="'a' was written by somebody else") as caught:
            store.set_if("a", b"3", version)
        assert caught.value.checkpoint_id == "a"
    assert store.get_versioned("a") == (b"2", second)
    store.set("a", b"2")
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"3", second)


def test_a_version_does_not_come_back(store: SQLiteStore) -> None:
    """What was deleted and stored again is something else, and nothing is there in between."""
    seen = store.set_if("a", b"1", None)
    store.delete("a")

    assert store.get_versioned("a") is None
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", seen)
    assert store.get("a") is None
    again = store.set_if("a", b"1", None)
    assert again != seen
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", seen)


def test_a_blob_expires_on_time_and_not_earlier(store: SQLiteStore, clock: Clock) -> None:
    """Until its time is over a blob is there, and from then on it is gone for every call."""
    store.set_expiring("a", b"1", HOUR)
    seen = store.get_versioned("a")
    assert seen is not None

    clock.now += 3599.9
    assert (store.get("a"), [*store.list()]) == (b"1", ["a"])
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", None)
    clock.now += 0.1

    assert (store.get("a"), store.get_versioned("a"), [*store.list()]) == (None, None, [])
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", seen[1])
    assert store.get("a") is None
    store.set_if("a", b"2", None)
    clock.now += 1e9
    assert store.get("a") == b"2"


@pytest.mark.parametrize("conditional", [False, True], ids=["set", "set_if"])
def test_a_plain_write_makes_it_permanent(store: SQLiteStore, clock: Clock, conditional: bool) -> None:
    """A blob that was to expire does not any more once it was written without a time."""
    store.set_expiring("a", b"1", HOUR)
    seen = store.get_versioned("a")
    assert seen is not None

    if conditional:
        store.set_if("a", b"2", seen[1])
    else:
        store.set("a", b"2")
    clock.now += 7200

    assert store.get("a") == b"2"


def test_the_time_to_live_begins_with_the_write(store: SQLiteStore, clock: Clock) -> None:
    """A save that has to wait for another writer keeps its blob no shorter than it was asked to."""
    holding, go_on = threading.Event(), threading.Event()

    def hold(connection: object) -> None:
        holding.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(store._pool.write, hold)
        assert holding.wait(30)
        saver = pool.submit(store.set_expiring, "a", b"1", HOUR)
        clock.now += 3000  # while it waits, or before it began to
        go_on.set()
        holder.result(30)
        saver.result(30)
    clock.now += 3599

    assert store.get("a") == b"1"


def test_purge_removes_what_has_expired(store: SQLiteStore, clock: Clock) -> None:
    """Purging counts and removes blobs whose time is over, and no others."""
    for number in range(250):
        store.set_expiring(f"old-{number}", b"1", HOUR)
    store.set_expiring("later", b"2", 3 * HOUR)
    store.set("always", b"3")
    clock.now += 7200

    assert store.purge() == 250
    assert store.purge() == 0
    clock.now -= 7200
    assert [*store.list()] == ["always", "later"]


def test_the_file_shrinks(store: SQLiteStore, clock: Clock) -> None:
    """Purging gives space back to the file system, up to a megabyte that is kept for what comes."""
    for number in range(40):
        store.set_expiring(str(number), os.urandom(200_000), HOUR)
    store.set("stays", b"1")
    clock.now += 7200

    store.purge()

    assert store.path.stat().st_size < 1_200_000
    assert store.get("stays") == b"1"


def test_deleting_gives_back_a_portion(store: SQLiteStore) -> None:
    """A deletion returns at most 4 MB to the file system, so that it does not last; further ones return the rest."""
    store.set("large", os.urandom(10_000_000))
    store.set("small", b"1")

    sizes = []
    for checkpoint_id in ("large", "small", "not there", "not there"):
        store.delete(checkpoint_id)
        store._pool.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
        sizes.append(store.path.stat().st_size // 1_000_000)

    assert sizes == [5, 1, 1, 1]


def test_lists_in_code_point_order(store: SQLiteStore) -> None:
    """Listing sorts by code point, also where UTF-16 would differ, and wildcards in a prefix mean themselves."""
    ids = ["Z", "a", "a%", "a%b", "a/10", "a/2", "a_", "b", "é", "\uffff", "😀", "\U0010ffff", "\U0010ffff" * 128]
    for checkpoint_id in reversed(ids):
        store.set(checkpoint_id, b"")

    assert [*store.list()] == sorted(ids)
    for prefix in ("a", "a%", "a_", "a/", "%", "_", "none", "\U0010ffff", "\U0010ffff" * 128, "\0", "a\0", "\ud800"):
        assert [*store.list(prefix)] == [each for each in sorted(ids) if each.startswith(prefix)]


def test_a_long_listing_keeps_nothing_open(store: SQLiteStore) -> None:
    """Ids come in pages; between two of them others write, and the log of the file can be taken in."""
    ids = [f"run-{number:04}" for number in range(1203)]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"1")
    listing = store.list("run-")

    first = next(listing)
    store.set("run-9999", b"new")
    store.delete("run-1000")
    busy, *_ = store._pool.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())

    assert busy == 0
    assert [first, *listing] == sorted({*ids, "run-9999"} - {"run-1000"})


def test_a_copy_opens_the_same_file(store: SQLiteStore) -> None:
    """A store that was pickled or copied has the same file, options and blobs, and connections of its own."""
    store.set("a", b"1")

    for other in (pickle.loads(pickle.dumps(store)), copy.deepcopy(store)):
        with other:
            assert (other.path, other.durable, other.timeout) == (store.path, False, 30.0)
            assert other.get("a") == b"1"
    assert store.get("a") == b"1"


def test_a_chdir_does_not_move_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the one it meant when the store was opened."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with SQLiteStore("runs.db") as store:
        store.set("a", b"1")
        monkeypatch.chdir(tmp_path / "elsewhere")

        assert store.get("a") == b"1"
    assert [*Path().iterdir()] == []


def test_opens_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes begin a relative path, four an absolute one, reserved characters are quoted, options are taken."""
    monkeypatch.chdir(tmp_path)
    urls = {
        "sqlite:///runs.db": ("runs.db", True, 30.0),
        "sqlite:///below/runs.db?durable=false&timeout=1.5": ("below/runs.db", False, 1.5),
        f"sqlite:///{tmp_path}/odd%3F%23%20name.db?timeout=0": ("odd?# name.db", True, 0.0),
        "sqlite:///runs%ff.db": (os.fsdecode(b"runs\xff.db"), True, 30.0),
    }

    for url, expected in urls.items():
        opened = open_store(url)
        assert isinstance(opened, SQLiteStore)
        with opened:
            assert (str(opened.path.relative_to(tmp_path)), opened.durable, opened.timeout) == expected
            opened.set("a", b"1")
            assert opened.path.stat().st_size > 0


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:runs.db", "names no file"),
        ("sqlite://runs.db", "names no file"),
        ("sqlite:///runs.db#1", "names no file"),
        ("sqlite:///runs.db#", "names no file"),
        ("sqlite:///runs%00.db", "names no file"),
        ("sqlite:///runs.db?durable=maybe", "durable='maybe' can't be taken: say true or false"),
        ("sqlite:///runs.db?timeout=soon", "timeout='soon' can't be taken"),
        ("sqlite:///runs.db?mode=ro", "unknown option 'mode'; known are: durable, timeout"),
        ("sqlite:///:memory:", "use MapStore to keep blobs in memory"),
        ("sqlite:///runs.db?timeout=-1", "give 0 to 86,400 seconds"),
        ("sqlite:///runs.db?timeout=nan", "give 0 to 86,400 seconds"),
    ],
)
def test_refuses_urls(url: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that names no file, or an option that can't be taken, is refused and nothing is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StoreError, match=r"(?i)sqlite") as caught:
        open_store(url)

    assert problem in str(caught.value)
    assert isinstance(caught.value, StoreUrlError) or "can't open SQLite file" in str(caught.value)
    assert [*tmp_path.iterdir()] == []


def test_threads_share_it(store: SQLiteStore) -> None:
    """Eight threads that write, read, list and delete at once meet no error and see whole blobs only."""
    start = threading.Barrier(8)

    def work(number: int) -> set[bytes | None]:
        start.wait(30)
        seen = set()
        for turn in range(50):
            store.set("shared", bytes([number]) * 5000)
            store.set(f"own-{number}-{turn}", b"x")
            seen.add(store.get("shared"))
            assert [*store.list(f"own-{number}-")] == [f"own-{number}-{turn}"]
            store.delete(f"own-{number}-{turn}")
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(work, range(8)))

    assert seen <= {bytes([number]) * 5000 for number in range(8)}
    assert [*store.list()] == ["shared"]


def test_real_time_passes(store: SQLiteStore) -> None:
    """Without any clock of a test, a blob is there at first, and gone at the latest when its time is over."""
    store.set_expiring("a", b"1", timedelta(seconds=30))
    store.set_expiring("b", b"1", timedelta(microseconds=1))
    end = time.monotonic() + 30

    while store.get("b") is not None:
        assert time.monotonic() < end

    assert store.get("a") == b"1"
