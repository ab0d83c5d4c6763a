from __future__ import annotations

import gc
import os
import resource
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import SupportsIndex

import pytest

from blobcp.errors import StoreError
from blobcp.stores.sqlite import SQLiteStore
from blobcp.stores.sqlite.file import Connection

NOBODY = 65534


@pytest.fixture
def file() -> Iterator[Path]:
    """A path, in a fresh folder of an ordinary user, where there is no file yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store", "runs.db")
        Path(folder).chmod(0o755)
        path.parent.mkdir()
        if os.geteuid() == 0:
            os.chown(path.parent, NOBODY, NOBODY)
        yield path


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Drop the rights of root, for which no file is closed, for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def raw(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a file past the store."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def ask(store: SQLiteStore, query: str) -> object:
    """Return the only value that a connection of the store gives for a query."""
    [value] = store._pool.read(lambda connection: connection.execute(query).fetchone())
    return value


def test_how_the_file_is_set_up(tmp_path: Path) -> None:
    """A file has a write-ahead log, can be vacuumed in portions, says whose it is, and is flushed at each save or not."""
    for durable, synchronous in ((True, 2), (False, 1)):
        with SQLiteStore(tmp_path / f"{durable}.db", durable=durable) as store:
            found = [
                ask(store, f"PRAGMA {name}")
                for name in ("journal_mode", "auto_vacuum", "application_id", "user_version", "synchronous")
            ]
            assert found == ["wal", 2, 0x42435031, 1, synchronous]


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    """The files are made 0600 and folders 0700 whatever the umask allows; the rights of a file that is there stay."""
    before = os.umask(0)
    try:
        with SQLiteStore(tmp_path / "new" / "folder" / "runs.db") as store:
            store.set("a", b"1")
            files = sorted(store.path.parent.iterdir())
            assert [path.name for path in files] == ["runs.db", "runs.db-shm", "runs.db-wal"]
            assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600] * 3
            folders = (store.path.parent, store.path.parent.parent)
            assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700] * 2
        (tmp_path / "shared.db").touch(mode=0o660)
        with SQLiteStore(tmp_path / "shared.db") as store:
            store.set("a", b"1")
            assert stat.S_IMODE(store.path.stat().st_mode) == 0o660
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 3", "PRAGMA application_id = 7"]
)
def test_leaves_the_database_of_others_alone(tmp_path: Path, statement: str) -> None:
    """A database that is not a store's is refused, and not a byte of it is changed."""
    file = tmp_path / "theirs.db"
    with raw(file) as connection:
        connection.execute(statement)
    before = file.read_bytes()

    with pytest.raises(StoreError) as caught:
        SQLiteStore(file)

    assert str(caught.value) == (
        f"can't open SQLite file {file}: it is the database of something else, and was left as it is; "
        "give the store a file of its own"
    )
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.db"]


def test_leaves_what_is_no_database_alone(tmp_path: Path) -> None:
    """A file with something else in it is refused, and not a byte of it is changed."""
    file = tmp_path / "notes.txt"
    file.write_bytes(b"my notes\n" * 1000)

    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database; something else is in the file"):
        SQLiteStore(file)

    assert file.read_bytes() == b"my notes\n" * 1000


def test_refuses_newer_tables(tmp_path: Path) -> None:
    """A file that was made by a newer version is refused with both numbers, and stays as it is."""
    SQLiteStore(tmp_path / "runs.db").close()
    with raw(tmp_path / "runs.db") as connection:
        connection.execute("PRAGMA user_version = 9")

    with pytest.raises(StoreError, match="it has version 9 of the tables, this code knows version 1; update blobcp"):
        SQLiteStore(tmp_path / "runs.db")

    with raw(tmp_path / "runs.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (9,)


def test_takes_an_empty_database(tmp_path: Path) -> None:
    """An empty file, and a database without anything in it, become a store; purging ends where the file can't shrink."""
    (tmp_path / "empty.db").touch()
    with raw(tmp_path / "bare.db") as connection:
        connection.execute("CREATE TABLE passing (x)")
        connection.execute("DROP TABLE passing")

    for name in ("empty.db", "bare.db"):
        with SQLiteStore(tmp_path / name, durable=False) as store:
            store.set("a", b"1" * 5_000_000)
            store.delete("a")
            assert store.purge() == 0
            assert ask(store, "PRAGMA journal_mode") == "wal"


def test_switches_the_log_on_again(tmp_path: Path) -> None:
    """A file that somebody took out of its mode is put back into it."""
    SQLiteStore(tmp_path / "runs.db").close()
    with raw(tmp_path / "runs.db") as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)

    with SQLiteStore(tmp_path / "runs.db") as store:
        assert ask(store, "PRAGMA journal_mode") == "wal"


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    """A save waits for a writer of another kind; one that outlasts the time-out is reported, and reads go on meanwhile."""
    with SQLiteStore(tmp_path / "runs.db") as store, SQLiteStore(tmp_path / "runs.db", timeout=0.02) as hasty:
        store.set("a", b"1")
        with ThreadPoolExecutor(1) as pool, raw(store.path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError) as caught:
                hasty.set("a", b"2")
            saving = pool.submit(store.set, "a", b"3")
            assert hasty.get("a") == b"1"
            other.execute("COMMIT")
            saving.result(30)

        assert str(caught.value) == (
            f"can't save checkpoint 'a' (1 bytes) to SQLite file {store.path}: database is locked; others kept it locked for "
            "as long as the store may wait; let them finish, or give a longer timeout"
        )
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert store.get("a") == b"3"


def test_threads_of_one_store_wait_no_longer_than_they_may(tmp_path: Path) -> None:
    """The time-out also holds for the queue of threads that want to write."""
    with SQLiteStore(tmp_path / "runs.db", timeout=0.02) as store, ThreadPoolExecutor(1) as pool:
        holding, go_on = threading.Event(), threading.Event()

        def hold(connection: sqlite3.Connection) -> None:
            holding.set()
            assert go_on.wait(30)

        holder = pool.submit(store._pool.write, hold)
        assert holding.wait(30)
        with pytest.raises(
            StoreError, match=r"can't save checkpoint 'a' \(1 bytes\) to .*: other threads kept it locked"
        ):
            store.set("a", b"1")
        go_on.set()
        holder.result(30)
        store.set("a", b"1")


CALLS: dict[str, Callable[[SQLiteStore], object]] = {
    "get": lambda store: store.get("b"),
    "get_versioned": lambda store: store.get_versioned("b"),
    "set": lambda store: store.set("b", b"2"),
    "set_if": lambda store: store.set_if("b", b"2", None),
    "set_expiring": lambda store: store.set_expiring("b", b"2", timedelta(hours=1)),
    "delete": lambda store: store.delete("a"),
    "list": lambda store: [*store.list("b")],
    "purge": lambda store: store.purge(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_gone_is_not_an_empty_one(
    tmp_path: Path, call: Callable[[SQLiteStore], object], replaced: bool
) -> None:
    """F25: where the file was removed or replaced, nothing is said to be absent, saved or listed, and no file is made."""
    SQLiteStore(tmp_path / "other.db").close()
    with SQLiteStore(tmp_path / "runs.db") as store:
        store.set("a", b"1")
        if replaced:
            (tmp_path / "other.db").rename(store.path)
        else:
            store.path.unlink()

        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                call(store)

            what = "replaced by another" if replaced else "removed"
            assert str(caught.value).endswith(
                f"SQLite file {store.path}: it was {what} while the store was in use; put it back, or open the store anew"
            )
        assert store.path.exists() == replaced


def test_a_missing_file_is_not_made_again(tmp_path: Path) -> None:
    """A store that has to open its file anew does not make one where the old one is gone."""
    store = SQLiteStore(tmp_path / "runs.db")
    store._pool._close_idle()
    store.path.unlink()

    with pytest.raises(StoreError, match="it was removed while the store was in use; put it back, or open"):
        store.get("a")

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("method", ["get", "get_versioned", "list"])
def test_a_missing_table_is_not_an_empty_one(tmp_path: Path, method: str) -> None:
    """F25: where somebody dropped the table, nothing is said to be absent."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        with raw(store.path) as connection:
            connection.execute("DROP TABLE checkpoints")

        with pytest.raises(StoreError) as caught:
            list(getattr(store, method)("a"))

    doing = "list ids with the prefix 'a' in" if method == "list" else "read checkpoint 'a' from"
    assert str(caught.value) == (
        f"can't {doing} SQLite file {store.path}: no such table: checkpoints; somebody has changed the tables of the store; "
        "put back a copy, or use another file"
    )


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    """A file that was overwritten in part gives an error that says so, not absence."""
    with SQLiteStore(tmp_path / "runs.db", durable=False) as store:
        for number in range(100):
            store.set(f"run-{number:03}", os.urandom(10_000))
    with store.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 1_000_000)

    with SQLiteStore(tmp_path / "runs.db") as store, pytest.raises(StoreError, match=r"malformed; the file is damaged"):
        store.get("run-050")


def test_a_limit_on_file_sizes_leaves_the_old_blob(tmp_path: Path) -> None:
    """F24: a save that the file system cuts off is an error with the path, what was there stays, and saving goes on later."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        store.set("a", b"old")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            with pytest.raises(StoreError) as caught:
                store.set("a", b"n" * 5_000_000)
            assert store.get("a") == b"old"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        store.set("b", b"n" * 5_000_000)

        assert (
            f"can't save checkpoint 'a' (5000000 bytes) to SQLite file {store.path}: disk I/O error; see that"
            in str(caught.value)
        )
        assert (store.get("a"), store.get("b")) == (b"old", b"n" * 5_000_000)


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """A database that may not grow any more is an error that says what to do, and what was there stays."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        store.set("a", b"old")
        store._pool.read(lambda connection: connection.execute("PRAGMA max_page_count = 20").fetchall())

        with pytest.raises(StoreError, match="database or disk is full; free some space or use another folder"):
            store.set("a", b"n" * 1_000_000)

        assert store.get("a") == b"old"


def test_a_blob_can_be_too_long(tmp_path: Path) -> None:
    """A blob of more than 10^9 bytes is refused with the limit, before it is copied."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        for size in (1_000_000_001, 2**31):
            with pytest.raises(StoreError, match="SQLite takes at most 1,000,000,000 bytes"):
                store.set("a", bytes(size))

        assert store.get("a") is None


def test_a_read_only_file_can_be_read(file: Path) -> None:
    """Where only writing is forbidden, reading works, and a save is an error that says what is missing."""
    with SQLiteStore(file) as store:
        store.set("a", b"1")
    os.chown(file, os.getuid(), os.getgid())
    file.chmod(0o444)

    with as_ordinary_user(), SQLiteStore(file) as store:
        assert store.get("a") == b"1"
        with pytest.raises(StoreError, match="attempt to write a readonly database; give the user that runs this the"):
            store.set("a", b"2")


def test_missing_rights_are_reported(file: Path) -> None:
    """A folder that may not be written to, or not be entered, is an error with the path."""
    file.parent.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError) as caught:
        SQLiteStore(file)
    file.parent.chmod(0o000)
    with (
        as_ordinary_user(),
        pytest.raises(StoreError, match="Permission denied; see that the folder is there, and give"),
    ):
        SQLiteStore(file)
    file.parent.chmod(0o755)

    assert str(caught.value) == (
        f"can't open SQLite file {file}: Permission denied; see that the folder is there, and give the user that runs this "
        "the right to read and write the file and its folder"
    )


def test_a_file_in_the_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    """A path that leads through a file, or to a folder, is an error with the path."""
    (tmp_path / "plain").touch()

    with pytest.raises(StoreError, match=r"can't open SQLite file .*plain/runs\.db: "):
        SQLiteStore(tmp_path / "plain" / "runs.db")
    with pytest.raises(StoreError, match="unable to open database file; see that"):
        SQLiteStore(tmp_path)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """After closing, which can be done twice, calls are refused, and nothing is said to be absent."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        store.set("a", b"1")
    store.close()

    for call in (lambda: store.get("a"), lambda: store.set("a", b"2"), lambda: [*store.list()]):
        with pytest.raises(StoreError, match=r"runs\.db: the store is closed; open it anew"):
            call()


def test_a_call_under_way_is_finished_by_closing(tmp_path: Path) -> None:
    """A call that another thread has begun before the store is closed ends well, and its connection is closed then."""
    store = SQLiteStore(tmp_path / "runs.db")
    reading, go_on = threading.Event(), threading.Event()

    def linger(connection: sqlite3.Connection) -> sqlite3.Connection:
        reading.set()
        assert go_on.wait(30)
        return connection

    with ThreadPoolExecutor(1) as pool:
        lingering = pool.submit(store._pool.read, linger)
        assert reading.wait(30)
        store.close()
        go_on.set()
        connection = lingering.result(30)

    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connection.execute("SELECT 1")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_few_connections_are_kept(tmp_path: Path) -> None:
    """Of the connections of 20 calls at once, 8 stay open for the next ones."""
    with SQLiteStore(tmp_path / "runs.db") as store, ThreadPoolExecutor(20) as pool:
        together = threading.Barrier(20)

        list(pool.map(lambda _: store._pool.read(lambda connection: together.wait(30)), range(20)))

        assert len(store._pool._open) == 8


@pytest.mark.parametrize("path", ["runs\0.db", "below\0/runs.db", "runs\ud800.db"])
def test_a_path_that_is_none_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that the operating system can't be asked for is a StoreError, and nothing is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StoreError, match=r"is no path of an SQLite file: .*; give another"):
        SQLiteStore(path)

    assert [*tmp_path.iterdir()] == []


def test_a_relative_path_from_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the current folder was removed, a relative path is a StoreError."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(StoreError, match=r"can't open SQLite file runs\.db: No such file or directory"):
        SQLiteStore("runs.db")


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    """An empty database that keeps text as UTF-16, where ids would be listed out of order, is refused and left alone."""
    path = tmp_path / "runs.db"
    with raw(path) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.execute("CREATE TABLE passing (x)")
        connection.execute("DROP TABLE passing")
    before = path.read_bytes()

    with pytest.raises(StoreError, match="it holds text as UTF-16le, in which ids are out of order; give the store a"):
        SQLiteStore(path)

    assert path.read_bytes() == before


class TakenAndInterrupted:
    """A lock to which an interrupt comes just when it was taken."""

    def __init__(self, lock: threading._RLock) -> None:
        self._lock = lock

    def acquire(self, timeout: float) -> bool:
        self._lock.acquire(timeout=timeout)
        raise KeyboardInterrupt

    def release(self) -> None:
        self._lock.release()


@pytest.mark.parametrize("lock", ["_writing", "_opening"])
def test_an_interrupt_leaves_no_lock_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str) -> None:
    """A KeyboardInterrupt at the worst moment passes, and other threads can use the store afterwards."""
    with SQLiteStore(tmp_path / "runs.db", timeout=0.02) as store, ThreadPoolExecutor(1) as pool:
        store._pool._close_idle()
        with monkeypatch.context() as patch:
            patch.setattr(store._pool, lock, TakenAndInterrupted(getattr(store._pool, lock)))
            with pytest.raises(KeyboardInterrupt):
                store.set("a", b"1")

        pool.submit(store.set, "a", b"2").result(30)

        assert store.get("a") == b"2"


class PoppedAndInterrupted(list[Connection]):
    """A list whose last item gets lost by an interrupt."""

    def pop(self, index: SupportsIndex = -1) -> Connection:
        super().pop(index)
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_an_interrupt_leaves_no_connection_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that a KeyboardInterrupt takes from a call is collected, so that no fork waits for its return."""
    with SQLiteStore(tmp_path / "runs.db") as store:
        with monkeypatch.context() as patch:
            patch.setattr(store._pool, "_idle", PoppedAndInterrupted(store._pool._idle))
            with pytest.raises(KeyboardInterrupt):
                store.get("a")
        store._pool._idle.clear()  # it was restored with the connection
        gc.collect()

        assert len(store._pool._open) == 0
        assert store.get("a") is None


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_refuses_a_database_without_a_file(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be shared by connections is refused, with the store that keeps blobs in memory."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StoreError, match="use MapStore to keep blobs in memory"):
        SQLiteStore(path)

    assert [*tmp_path.iterdir()] == []
