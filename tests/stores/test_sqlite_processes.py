from __future__ import annotations

import os
import select
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlite_program import LONGEST_WAIT, blob_of, go, run_together, running

from blobcp.errors import StoreError
from blobcp.stores.sqlite import SQLiteStore

# A child that is forked by these tests ends by os._exit, and the other threads of the tests are idle meanwhile.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def assert_sound(file: Path) -> None:
    """Let SQLite look through a file."""
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def in_child(work: Callable[[], object]) -> tuple[int, str]:
    """Call something in a forked child; return its exit code and what it returned or raised, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said, code = str(work()), 0
        except StoreError as error:
            said, code = str(error), 1
        except BaseException:
            said, code = traceback.format_exc(), 2
        os.write(writing, said.encode())
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        assert select.select([file], [], [], LONGEST_WAIT)[0], "the child is stuck"
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def test_four_processes_and_a_long_reader(tmp_path: Path) -> None:
    """F28: 4 processes save 200 times 20 kB beside a reader that holds on for 2 of 3 seconds: no error, all is there."""
    file = tmp_path / "runs.db"
    names = ["a", "b", "c", "d"]

    with SQLiteStore(file) as store, running("read_long", file) as reader:
        go(reader)
        run_together(*(("save_apart", file, name, 200) for name in names))

        assert len([*store.list()]) == 800
        for name in names:
            assert all(store.get(f"{name}-{number}") == blob_of(name, number) for number in range(200))
    assert_sound(file)


def test_four_processes_on_one_id(tmp_path: Path) -> None:
    """F28: 4 processes save and read one id, into a file that is not there before: no error, only whole blobs."""
    file = tmp_path / "runs.db"

    run_together(*(("save_same", file, name, 100) for name in ("a", "b", "c", "d")))

    with SQLiteStore(file) as store:
        assert store.get("shared") in [blob_of(name, 99) for name in ("a", "b", "c", "d")]
    assert_sound(file)


def test_four_processes_count(tmp_path: Path) -> None:
    """4 processes add one 50 times each by compare-and-set: none is lost."""
    file = tmp_path / "runs.db"

    run_together(*[("increment", file, 50)] * 4)

    with SQLiteStore(file) as store:
        assert store.get("counter") == b"200"


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_rounds_of_several_processes(tmp_path: Path) -> None:
    """The three experiments, 20 times."""
    for turn in range(20):
        folder = tmp_path / str(turn)
        folder.mkdir()
        test_four_processes_and_a_long_reader(folder)
        (folder / "runs.db").unlink()
        test_four_processes_on_one_id(folder)
        (folder / "runs.db").unlink()
        test_four_processes_count(folder)


def test_many_threads_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Of 8 threads that open and save into a file that is not there, none hears that it is locked, 20 times."""
    for turn in range(20):
        file = tmp_path / f"{turn}.db"
        start = threading.Barrier(8)

        def work(name: int, file: Path = file, start: threading.Barrier = start) -> None:
            start.wait(LONGEST_WAIT)
            with SQLiteStore(file, durable=False) as store:
                store.set(str(name), b"blob")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        with SQLiteStore(file) as store:
            assert [*store.list()] == [str(name) for name in range(8)]


def test_a_fork_leaves_both_sides_usable(tmp_path: Path) -> None:
    """F28: parent and child use a store that was opened before the fork, at once and one after the other."""
    file = tmp_path / "runs.db"
    store = SQLiteStore(file, durable=False)
    store.set("before", b"blob")

    def use(name: str) -> None:
        for number in range(200):
            store.set(f"{name}-{number}", blob_of(name, number))
        assert store.get("before") == b"blob"

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            use("child")
            code = 0
        finally:
            os._exit(code)
    os.close(reading)
    os.close(writing)
    use("parent")

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for name in ("parent", "child"):
        assert all(store.get(f"{name}-{number}") == blob_of(name, number) for number in range(200))
    assert in_child(lambda: store.get("child-7") == blob_of("child", 7)) == (0, "True")
    store.close()
    assert_sound(file)


def test_nothing_is_open_at_a_fork(tmp_path: Path) -> None:
    """No connection is carried into the child: SQLite's files are closed before, and opened anew by both."""
    store = SQLiteStore(tmp_path / "runs.db")
    store.set("a", b"1")

    def count_open() -> int:
        descriptors = [*Path("/proc/self/fd").iterdir()]  # that of the listing is gone by then
        return sum("runs.db" in path.readlink().name for path in descriptors if path.is_symlink())

    assert count_open() > 0
    assert in_child(count_open) == (0, "0")
    assert store.get("a") == b"1"


def test_a_fork_waits_for_calls_of_other_threads(tmp_path: Path) -> None:
    """Threads that save all the time do not disturb a fork, nor the child."""
    store = SQLiteStore(tmp_path / "runs.db", durable=False)
    store.set("a", b"1")
    done = threading.Event()

    def save(name: int) -> int:
        count = 0
        while not done.is_set():
            store.set(f"thread-{name}", b"%d" % count)
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        saving = [pool.submit(save, name) for name in range(3)]
        try:
            answers = [in_child(lambda: store.set("child", b"1") or store.get("a")) for _ in range(10)]
        finally:
            done.set()
        assert all(thread.result(LONGEST_WAIT) > 0 for thread in saving)

    assert answers == [(0, "b'1'")] * 10
    store.close()
    assert_sound(store.path)


def test_a_child_is_refused_where_a_call_was_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a call of another thread outlasts the fork's patience, the child is told so, and the parent goes on."""
    monkeypatch.setattr("blobcp.stores.sqlite.pool.GRACE", 0.0)
    store = SQLiteStore(tmp_path / "runs.db", timeout=0.05)
    store.set("a", b"1")
    working, go_on = threading.Event(), threading.Event()

    def linger(connection: sqlite3.Connection) -> None:
        working.set()
        assert go_on.wait(LONGEST_WAIT)

    with ThreadPoolExecutor(1) as pool:
        lingering = pool.submit(store._pool.read, linger)
        assert working.wait(LONGEST_WAIT)
        code, said = in_child(lambda: store.get("a"))
        go_on.set()
        lingering.result(LONGEST_WAIT)

    assert code == 1
    assert said == (
        f"can't read checkpoint 'a' from SQLite file {store.path}: it was in use when this process was forked off, and can't "
        "be used here; open the store anew"
    )
    assert store.get("a") == b"1"
    assert in_child(lambda: store.get("a")) == (0, "b'1'")


def test_no_connection_is_left_behind(tmp_path: Path) -> None:
    """Stores that are closed, forgotten or used by threads that are gone leave no open file and no ResourceWarning."""
    script = """
import gc, os, sys, threading
from blobcp.stores.sqlite import SQLiteStore

def count():
    return sum("runs.db" in os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))

store = SQLiteStore(sys.argv[1])
threads = [threading.Thread(target=store.set, args=("a", b"1")) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(count() > 0)
with SQLiteStore(sys.argv[1]) as other:
    other.get("a")
del store
gc.collect()
print(count())
last = SQLiteStore(sys.argv[1])
last.set("b", b"1")
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script, tmp_path / "runs.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n0\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]  # the log was taken in by the last one
