from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from file_rival import SCRIPT

from blobcp.errors import MissingExtraError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import FileStore
from blobcp.stores.file.lock import LOCK_FOLDER, STRIPES, locked

LONGEST_WAIT = 60


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A store in a fresh folder."""
    return FileStore(tmp_path / "store")


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has stopped in the middle of a set_if on K; killed at the end at the latest."""
    with subprocess.Popen([sys.executable, SCRIPT, "hold", folder], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.read(1) == b"!"
            yield child
        finally:
            child.kill()


def test_a_killed_writer_takes_its_lock_along(store: FileStore) -> None:
    """SIGKILL in the middle of a set_if leaves the old blob and its version, and nobody is locked out."""
    version = store.set_if("K", b"old", None)
    impatient = FileStore(store.folder, lock_timeout=0.01)

    with holder(store.folder) as child:
        with pytest.raises(StoreError, match="somebody else held"):
            impatient.set_if("K", b"new", version)
        assert store.get_versioned("K") == (b"old", version)  # reading waits for nobody
        child.kill()
        child.wait(LONGEST_WAIT)

        after = impatient.set_if("K", b"new", version)

    assert store.get_versioned("K") == (b"new", after)
    assert store.sweep(timedelta(0)) == 1
    assert [*store.list()] == ["K"]


def test_every_write_waits_for_the_lock(store: FileStore) -> None:
    """No kind of write can slip between the comparison and the rename of another; each gives up after its time."""
    store.set("K", b"old")
    store.set_expiring("gone", b"", timedelta(microseconds=1))
    impatient = FileStore(store.folder, lock_timeout=0.01)
    writes = (
        lambda: impatient.set("K", b"new"),
        lambda: impatient.set_expiring("K", b"new", timedelta(hours=1)),
        lambda: impatient.set_if("K", b"new", None),
        lambda: impatient.delete("K"),
    )

    with locked(store.folder, "K", 1):
        for write in writes:
            with pytest.raises(StoreError) as caught:
                write()
            [path] = [path for path in (store.folder / LOCK_FOLDER).iterdir() if str(path) in str(caught.value)]
            assert str(caught.value) == (
                f"can't lock checkpoint 'K': somebody else held {path} for 0.01 seconds; "
                "see whether a process that uses the store hangs, or give a longer lock_timeout"
            )
        assert store.get("K") == b"old"
    with locked(store.folder, "gone", 1), pytest.raises(StoreError, match="can't lock checkpoint 'gone'"):
        impatient.purge()

    assert [*store.folder.glob("*.tmp")] == []
    impatient.set("K", b"new")
    assert store.get("K") == b"new"


def test_a_lock_is_let_go_after_an_error(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails under the lock does not keep it."""

    def fail(*args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    impatient = FileStore(store.folder, lock_timeout=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            impatient.set("a", b"1")

    impatient.set("a", b"2")

    assert store.get("a") == b"2"


def test_a_forked_child_works_and_keeps_no_lock(store: FileStore) -> None:
    """A child that was forked while a lock was held can use the store, and does not hold the lock for its life."""
    version = store.set_if("K", b"0", None)
    come, go = os.pipe()
    with locked(store.folder, "K", 1):
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                os.read(come, 1)
                store.set_if("K", b"child", store.set_if("K", b"1", version))
                os._exit(0)
            finally:
                os._exit(1)
    try:
        FileStore(store.folder, lock_timeout=1).set("other", b"")
        with locked(store.folder, "K", 1):
            pass
    finally:
        os.write(go, b"!")
        _, status = os.waitpid(child, 0)
        os.close(come)
        os.close(go)

    assert os.waitstatus_to_exitcode(status) == 0
    assert store.get("K") == b"child"


def test_the_lock_files_stay_few(tmp_path: Path) -> None:
    """However many ids there are, there is a fixed number of lock files, for their owner only, and none is listed."""
    store = FileStore(tmp_path, durable=False)
    for number in range(1000):
        store.set(f"order-{number}", b"")

    locks = [*(tmp_path / LOCK_FOLDER).iterdir()]
    assert len(locks) == STRIPES == 64
    assert {path.stat().st_mode & 0o777 for path in locks} == {0o600}
    assert (tmp_path / LOCK_FOLDER).stat().st_mode & 0o777 == 0o700
    assert len([*store.list()]) == 1000
    assert store.sweep(timedelta(0)) == 0


def test_releases_agree_on_the_lock_of_an_id(store: FileStore) -> None:
    """The lock of an id has a name that does not change from one release to the next."""
    store.set("order-17", b"")

    assert [path.name for path in (store.folder / LOCK_FOLDER).iterdir()] == ["14.lock"]


def test_a_link_in_place_of_the_locks_is_not_followed(store: FileStore, tmp_path: Path) -> None:
    """A symbolic link in place of the folder of the locks, or of a lock, is refused, and nothing is made behind it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    locks = store.folder / LOCK_FOLDER
    locks.symlink_to(outside)
    with pytest.raises(StoreError, match=r"can't lock checkpoint 'a' by .*: .*a symbolic link stands where"):
        store.set("a", b"1")
    locks.unlink()
    store.set("a", b"1")
    [lock] = locks.iterdir()
    lock.unlink()
    lock.symlink_to(outside / "made")

    with pytest.raises(StoreError, match=r"can't lock checkpoint 'a' by .*: .*a symbolic link stands where"):
        store.delete("a")

    assert [*outside.iterdir()] == []
    assert store.get("a") == b"1"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(store: FileStore, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Where the file system has no locks, a write fails with advice instead of going on without."""
    store.set("a", b"old")

    def fail(*args: object, **options: object) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("filelock.lock_descriptor", fail)
    with pytest.raises(
        StoreError, match=r"can't lock checkpoint 'a' by .*; the file system can't lock files; mount it"
    ):
        store.set("a", b"new")

    assert store.get("a") == b"old"


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "5", None])
def test_a_wait_has_a_limit(tmp_path: Path, seconds: float) -> None:
    """A time-out that is none is refused when the store is opened."""
    with pytest.raises(StoreError, match="is no time to wait; give seconds above zero"):
        FileStore(tmp_path, lock_timeout=seconds)


WITHOUT = """
import sys, types
from datetime import timedelta
sys.modules["filelock"] = {library}
from blobcp.errors import MissingExtraError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import FileStore

store = FileStore(sys.argv[1])
print([isinstance(store, power) for power in (CheckPointDeleter, CheckPointLister, CheckPointExpirer, CheckPointSwapper)])
store.set("a", b"1")
store.set_expiring("b", b"2", timedelta(hours=1))
store.set_expiring("c", b"3", timedelta(microseconds=1))
while store.get("c") is not None:
    pass
store.delete("a")
print(store.get("a"), store.get("b"), [*store.list()], store.sweep())
for name in ("get_versioned", "set_if", "set_of"):
    try:
        getattr(store, name)
    except AttributeError as error:
        print(error)
try:
    store.purge()
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize("library", ["None", "types.ModuleType('filelock')"], ids=["absent", "too old"])
def test_without_the_library_it_does_the_rest(tmp_path: Path, library: str) -> None:
    """Where filelock is absent or too old, compare-and-set is not offered and says why; all but purge works."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(library=library), tmp_path],
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    needs = "needs the library filelock 3.30 or newer; pip install 'blobcp[file]'"
    assert done.stdout.splitlines() == [
        "[True, True, True, False]",
        "None b'2' ['b', 'c'] 0",
        f"FileStore has no 'get_versioned', which {needs}",
        f"FileStore has no 'set_if', which {needs}",
        "FileStore has no 'set_of'",
        f"FileStore.purge {needs}",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.blob", "c.blob"]


def test_a_pickle_finds_the_powers_where_it_arrives(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store can do is found out anew where it is unpickled."""
    pickled = pickle.dumps(store)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "filelock", types.ModuleType("filelock"))
        poor = pickle.loads(pickled)

        assert not isinstance(poor, CheckPointSwapper)
        with pytest.raises(MissingExtraError):
            poor.purge()
        assert all(isinstance(poor, power) for power in (CheckPointDeleter, CheckPointLister, CheckPointExpirer))
    assert isinstance(pickle.loads(pickle.dumps(poor)), CheckPointSwapper)


def test_a_subclass_may_have_its_own(tmp_path: Path) -> None:
    """A method that a subclass defines is not covered by the store's."""

    class Counting(FileStore):
        calls = 0

        def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
            self.calls += 1
            return self._set_if(checkpoint_id, checkpoint, version)

    store = Counting(tmp_path)
    store.set_if("a", b"1", None)

    assert store.calls == 1
    assert store.get("a") == b"1"
