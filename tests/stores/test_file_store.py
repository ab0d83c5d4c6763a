from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from io import FileIO
from pathlib import Path

import pytest
from saver import SCRIPT

from blobcp.errors import StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import FileStore
from blobcp.stores.file.lock import LOCK_FOLDER

NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A store in a fresh folder."""
    return FileStore(tmp_path / "store")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that belongs to an ordinary user, on a path that this user may walk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        Path(folder).chmod(0o755)
        path.mkdir()
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
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


def names_in(folder: Path) -> list[str]:
    """Return all names in a folder, leftovers too, but for the folder of the locks."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK_FOLDER)


def test_keeps_what_it_is_given(store: FileStore) -> None:
    """A blob comes back as it went in, the last one wins, and what was never stored is None."""
    store.set("a", b"1")
    store.set("b", b"\x00\xff\r\n")
    store.set("a", b"2")

    assert store.get("a") == b"2"
    assert store.get("b") == b"\x00\xff\r\n"
    assert store.get("c") is None


def test_another_store_object_sees_it(store: FileStore) -> None:
    """What is stored outlives the object that stored it."""
    store.set("a", b"1")

    assert FileStore(store.folder).get("a") == b"1"


def test_readable_ids_make_readable_names(store: FileStore) -> None:
    """The file of a plain id can be found by eye, and beside it are the locks only."""
    store.set("order-17", b"1")

    assert names_in(store.folder) == ["order-17.blob"]


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    """Files are made 0600 and folders 0700 whatever the umask allows, on every save."""
    before = os.umask(0)
    try:
        store = FileStore(tmp_path / "new" / "store")
        for _ in range(2):
            store.set("a", b"1")
            store.set("n" * 100, b"1")
    finally:
        os.umask(before)

    nested = store.folder / ("n" * 80 + ".more")
    files = [store.folder / "a.blob", nested / ("n" * 20 + ".blob")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (store.folder, nested)] == [0o700, 0o700]


def test_offers_every_power(store: FileStore) -> None:
    """The powers that it has can be found by looking at it."""
    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert [isinstance(store, power) for power in powers] == [True, True, True, True]


def test_a_chdir_does_not_move_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder means the one it meant when the store was opened."""
    monkeypatch.chdir(tmp_path)
    store = FileStore("store")
    store.set("a", b"1")
    (tmp_path / "elsewhere").mkdir()

    monkeypatch.chdir(tmp_path / "elsewhere")

    assert store.get("a") == b"1"
    assert names_in(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_later_change_of_the_buffer_does_not_reach_the_store(store: FileStore, kind: type[bytearray]) -> None:
    """F11: the store keeps a copy of a buffer that the caller goes on to change."""
    buffer = bytearray(b"blob")

    store.set("Z", kind(buffer))
    buffer[0] ^= 255

    assert store.get("Z") == b"blob"


@pytest.mark.parametrize("value", ["text", 7, None, [1, 2]])
def test_refuses_what_is_not_bytes(store: FileStore, value: object) -> None:
    """A value that is not bytes is refused before anything is written."""
    store.set("a", b"old")

    with pytest.raises(
        StoreError, match=f"can't store a {type(value).__name__} under checkpoint id 'a'; a store keeps"
    ):
        store.set("a", value)  # type: ignore[arg-type]

    assert store.get("a") == b"old"
    assert names_in(store.folder) == ["a.blob"]


def test_deletes(store: FileStore) -> None:
    """A deleted blob is gone, and deleting what is not there is no error, in nested folders too."""
    for checkpoint_id in ("a", "n" * 500):
        store.set(checkpoint_id, b"1")

        store.delete(checkpoint_id)
        store.delete(checkpoint_id)

        assert store.get(checkpoint_id) is None
    store.delete("m" * 500)
    assert [*store.list()] == []


def test_lists_in_code_point_order(store: FileStore) -> None:
    """Listing sorts by code point, filters by prefix, and passes over what is not the store's."""
    ids = ["b", "a/2", "a/10", "é", "a", "😀", "\uffff", "Z", "n" * 300]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"")
    (store.folder / "notes.txt").write_bytes(b"")
    (store.folder / "Order.blob").write_bytes(b"")
    (store.folder / "folder.blob").mkdir()
    (store.folder / "backup").mkdir()
    (store.folder / "backup" / "a.blob").write_bytes(b"")

    assert [*store.list()] == ["Z", "a", "a/10", "a/2", "b", "n" * 300, "é", "\uffff", "😀"]
    assert [*store.list("a/")] == ["a/10", "a/2"]
    assert [*store.list("none")] == []


@pytest.mark.parametrize("checkpoint_id", ["a", "n" * 200])
def test_flushes_file_then_swaps_then_flushes_folders(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, checkpoint_id: str
) -> None:
    """A save has reached the disk, and its name too, before set returns."""
    steps: list[str] = []
    flush, swap = os.fsync, os.replace

    def watched_fsync(file: FileIO | int) -> None:
        mode = os.fstat(file if isinstance(file, int) else file.fileno()).st_mode
        steps.append("flush folder" if stat.S_ISDIR(mode) else "flush file")
        flush(file)

    def watched_replace(source: Path, target: Path) -> None:
        steps.append(f"swap {Path(target).name}")
        swap(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    store.set(checkpoint_id, b"1")

    nesting = (len(checkpoint_id) - 1) // 80
    name = f"{checkpoint_id[nesting * 80 :]}.blob"
    assert steps == ["flush file", f"swap {name}", *["flush folder"] * (nesting + 1)]


def test_durable_false_never_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast variant for tests does without the disk and keeps the rest of the promises."""

    def refuse(file: int) -> None:
        raise AssertionError("flushed")

    monkeypatch.setattr(os, "fsync", refuse)
    store = FileStore(tmp_path / "new", durable=False)
    store.set("a", b"1")
    store.set("a", b"2")

    assert store.get("a") == b"2"
    assert names_in(store.folder) == ["a.blob"]
    store.delete("a")
    assert store.get("a") is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device; free some space or use another"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "the disk quota is used up; free some space"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "Read-only file system; mount the file system writable"),
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "the file server has lost the folder; mount it anew"),
        (OSError(errno.EOWNERDEAD, os.strerror(errno.EOWNERDEAD)), "; see the cause"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error; see that the disk, or the network"),
    ],
    ids=["full", "quota", "read-only", "stale", "odd", "broken"],
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_keeps_the_old_value(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, step: str, fault: OSError, said: str
) -> None:
    """F24: an error in any step is a StoreError with id, path, cause and advice; the old blob stays, nothing else does."""
    store.set("a", b"old")

    def fail(*args: object) -> None:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(StoreError) as caught:
            store.set("a", b"new")

    message = str(caught.value)
    assert message.startswith(f"can't save checkpoint 'a' (3 bytes) to {store.folder / 'a.blob'}: ")
    assert said in message
    assert caught.value.__cause__ is fault
    assert store.get("a") == b"old"
    assert names_in(store.folder) == ["a.blob"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_ctrl_c_keeps_the_old_value(store: FileStore, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A KeyboardInterrupt in the middle of a save passes, and leaves the old blob and nothing beside it."""
    store.set("a", b"old")

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.set("a", b"new")

    assert store.get("a") == b"old"
    assert names_in(store.folder) == ["a.blob"]


def test_a_limit_on_file_sizes_keeps_the_old_value(store: FileStore) -> None:
    """F24 (3): with RLIMIT_FSIZE at 1 MB a save of 5 MB fails with the path, and the old blob stays."""
    store.set("a", b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(StoreError) as caught:
            store.set("a", b"x" * 5_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(caught.value) == (
        f"can't save checkpoint 'a' (5000000 bytes) to {store.folder / 'a.blob'}: File too large; "
        "raise the limit on file sizes (ulimit -f, or the file system's own)"
    )
    assert store.get("a") == b"old"
    assert names_in(store.folder) == ["a.blob"]


def test_a_read_only_folder_keeps_the_old_value(open_folder: Path) -> None:
    """F24 (4): in a folder made read-only a save fails with the path, and the old blob stays."""
    with as_ordinary_user():
        store = FileStore(open_folder)
        store.set("a", b"old")
        open_folder.chmod(0o500)
        try:
            with pytest.raises(StoreError) as saving:
                store.set("a", b"new")
            with pytest.raises(StoreError, match="can't delete checkpoint 'a' at"):
                store.delete("a")
            kept = store.get("a")
        finally:
            open_folder.chmod(0o700)

    assert str(saving.value) == (
        f"can't save checkpoint 'a' (3 bytes) to {open_folder / 'a.blob'}: Permission denied; "
        "give the user that runs this the right to read and write there"
    )
    assert kept == b"old"


def test_a_store_on_a_read_only_folder_can_be_read(open_folder: Path) -> None:
    """Reading and listing need no right to write, no lock, and no folder for the locks."""
    with as_ordinary_user():
        (open_folder / "a.blob").write_bytes(b"1")
        open_folder.chmod(0o500)
        try:
            store = FileStore(open_folder)

            assert store.get("a") == b"1"
            assert store.get("b") is None
            assert store.get_versioned("a") is not None
            assert [*store.list()] == ["a"]
            assert (store.purge(), store.sweep()) == (0, 0)
            with pytest.raises(StoreError, match=r"can't lock checkpoint 'a' by .*: Permission denied; give the user"):
                store.delete("a")
        finally:
            open_folder.chmod(0o700)

    assert [path.name for path in open_folder.iterdir()] == ["a.blob"]


def test_a_file_that_may_not_be_read_is_not_absent(open_folder: Path) -> None:
    """F25: a missing right to read the file, or to enter the folder, is an error and not None."""
    with as_ordinary_user():
        store = FileStore(open_folder)
        store.set("a", b"old")
        (open_folder / "a.blob").chmod(0)
        with pytest.raises(StoreError, match=r"can't read checkpoint 'a' from .*a\.blob: Permission denied; give"):
            store.get("a")
        open_folder.chmod(0)
        try:
            for checkpoint_id in ("a", "b", "n" * 100):
                with pytest.raises(StoreError, match="Permission denied"):
                    store.get(checkpoint_id)
            with pytest.raises(StoreError, match="can't list the store in"):
                [*store.list()]
        finally:
            open_folder.chmod(0o700)


def test_a_folder_in_place_of_a_blob_is_not_absent(store: FileStore) -> None:
    """F25: where a folder has the blob's name, reading and saving fail with the path, and the folder stays."""
    (store.folder / "a.blob").mkdir()

    with pytest.raises(StoreError, match=r"can't read .*a\.blob: Is a directory; a folder stands where a blob belongs"):
        store.get("a")
    with pytest.raises(StoreError, match=r"can't save .*a\.blob: Is a directory; a folder stands where a blob belongs"):
        store.set("a", b"1")
    with pytest.raises(StoreError, match=r"can't delete .*a\.blob"):
        store.delete("a")
    assert names_in(store.folder) == ["a.blob"]


def test_a_file_in_place_of_a_nested_folder_is_not_absent(store: FileStore) -> None:
    """F25: where a file has the name of a long id's folder, reading and saving fail with the path."""
    (store.folder / ("n" * 80 + ".more")).write_bytes(b"")

    with pytest.raises(StoreError, match=r"can't read .*Not a directory; a file stands where a folder belongs"):
        store.get("n" * 81)
    with pytest.raises(StoreError, match=r"can't save .*; a file stands where a folder belongs"):
        store.set("n" * 81, b"1")


def test_an_empty_file_is_an_empty_blob(store: FileStore) -> None:
    """F25: an empty file is not absent; it is for the reader of the blob to say that it is corrupt."""
    (store.folder / "a.blob").touch()

    assert store.get("a") == b""


def test_a_lost_folder_is_not_an_empty_store(store: FileStore) -> None:
    """F25: a store whose folder was taken away can't say that a blob is absent, nor save into nothing."""
    store.folder.rmdir()

    for checkpoint_id in ("a", "n" * 81):
        for call in (
            lambda checkpoint_id=checkpoint_id: store.get(checkpoint_id),
            lambda checkpoint_id=checkpoint_id: store.set(checkpoint_id, b"1"),
            lambda checkpoint_id=checkpoint_id: store.delete(checkpoint_id),
            lambda: [*store.list()],
            store.sweep,
        ):
            with pytest.raises(StoreError, match="the store's folder was removed while the store was in use; put it"):
                call()
    assert not store.folder.exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Opening a store on a file, or below one, says so."""
    (tmp_path / "file").touch()

    for folder in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(StoreError, match=r"can't open the store in .*; a file stands where a folder belongs"):
            FileStore(folder)


def test_a_link_in_place_of_a_blob_is_not_followed(store: FileStore, tmp_path: Path) -> None:
    """A symbolic link under a blob's name is refused on reading and replaced on saving; its target stays as it was."""
    target = tmp_path / "outside"
    target.write_bytes(b"outside")
    link = store.folder / "a.blob"
    link.symlink_to(target)

    with pytest.raises(StoreError, match=r"can't read .*a\.blob: .*a symbolic link stands where a blob or"):
        store.get("a")
    store.set("a", b"1")

    assert store.get("a") == b"1"
    assert not link.is_symlink()
    assert target.read_bytes() == b"outside"
    assert names_in(tmp_path) == ["outside", "store"]


def test_leftovers_are_never_returned_and_can_be_swept(store: FileStore) -> None:
    """What a killed writer left is no blob; sweep removes it once it is old, here and in nested folders, and no more."""
    store.set("a", b"1")
    store.set("n" * 100, b"1")
    nested = store.folder / ("n" * 80 + ".more")
    old, young, deep = (
        folder / f".blobcp-{name}.tmp"
        for folder, name in ((store.folder, "old"), (store.folder, "young"), (nested, "deep"))
    )
    foreign = store.folder / "foreign.tmp"
    for path in (old, young, deep, foreign):
        path.write_bytes(b"half")
    for path in (old, deep, foreign, store.folder / "a.blob"):
        two_hours_ago = path.stat().st_mtime - 7200
        os.utime(path, (two_hours_ago, two_hours_ago))

    assert [*store.list()] == ["a", "n" * 100]
    assert store.sweep() == 2
    assert names_in(store.folder) == [".blobcp-young.tmp", "a.blob", "foreign.tmp", nested.name]
    assert names_in(nested) == ["n" * 20 + ".blob"]
    assert store.sweep(timedelta(0)) == 1
    assert store.sweep(timedelta(0)) == 0


def test_threads_write_one_id(store: FileStore) -> None:
    """F24 (2): eight threads with 200 saves each on one id, reading in between: no error, every value whole."""
    start = threading.Barrier(8)
    blobs = [bytes([65 + number]) * 5000 for number in range(8)]

    def work(blob: bytes) -> set[bytes | None]:
        start.wait(timeout=30)
        seen = set()
        for _ in range(200):
            store.set("K", blob)
            seen.add(store.get("K"))
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(work, blobs))

    assert seen <= set(blobs)
    assert names_in(store.folder) == ["%4b.blob"]


def test_processes_write_one_id(store: FileStore) -> None:
    """F24 (2): four processes with 200 saves each on one id: no error, the value is one of those written."""
    children = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "many", store.folder, letter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for letter in "ABCD"
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"!"  # all are up before any begins
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    ends = [child.communicate(timeout=100) for child in children]

    assert [(child.returncode, err) for child, (_, err) in zip(children, ends, strict=True)] == [(0, b"")] * 4
    assert store.get("K") in {letter.encode() * 5000 for letter in "ABCD"}
    assert names_in(store.folder) == ["%4b.blob"]


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """Where folder and id together are too long for the system, saving and then loading says so; nothing is stored."""
    store = FileStore(tmp_path.joinpath(*["d" * 200] * 14), durable=False)
    store.set("short", b"1")

    for call in (lambda: store.set("é" * 256, b"1"), lambda: store.get("é" * 256)):
        with pytest.raises(StoreError, match="the path is longer than the system allows; use a folder with a shorter"):
            call()

    assert [*store.list()] == ["short"]


def test_a_relative_folder_from_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the current folder was removed, a relative one is a StoreError."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(StoreError, match="can't open the store in blobs: No such file or directory"):
        FileStore("blobs")
