from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import time
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import pytest
from file_rival import SCRIPT

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import CheckPointSwapper
from blobcp.stores import FileStore
from blobcp.stores.file.lock import LOCK_FOLDER

NESTED = "n" * 300


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A store in a fresh folder."""
    return FileStore(tmp_path / "store")


def names_in(folder: Path) -> list[str]:
    """Return all names in a folder but for the folder of the locks."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK_FOLDER)


@pytest.mark.parametrize("checkpoint_id", ["a", NESTED], ids=["plain", "nested"])
def test_replaces_only_what_was_seen(store: FileStore, checkpoint_id: str) -> None:
    """A conditional write replaces what the caller has seen; otherwise it conflicts, changes nothing, leaves nothing."""
    first = store.set_if(checkpoint_id, b"1", None)
    second = store.set_if(checkpoint_id, b"2", first)

    for version in (None, first, "", "else"):
        with pytest.raises(CheckpointConflictError, match="conflict: checkpoint") as caught:
            store.set_if(checkpoint_id, b"3", version)
        assert caught.value.checkpoint_id == checkpoint_id

    assert store.get_versioned(checkpoint_id) == (b"2", second)
    assert [*store.folder.rglob("*.tmp")] == []


def test_what_is_absent_has_no_version(store: FileStore) -> None:
    """Where nothing is stored, get_versioned is None, and a write that expects something conflicts."""
    version = store.set_if("a", b"1", None)
    store.delete("a")

    assert store.get_versioned("a") is None
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", version)
    assert store.get("a") is None


def test_every_kind_of_write_moves_the_version(store: FileStore) -> None:
    """A plain save, one that expires, and a deletion with a save after it are all seen, even of the very same bytes."""

    def recreate() -> None:
        store.delete("a")
        store.set("a", b"same")

    writes = (
        lambda: store.set("a", b"same"),
        lambda: store.set_expiring("a", b"same", timedelta(hours=1)),
        recreate,
    )
    for write in writes:
        store.set("a", b"same")
        found = store.get_versioned("a")
        assert found is not None

        write()

        with pytest.raises(CheckpointConflictError):
            store.set_if("a", b"mine", found[1])
        assert store.get("a") == b"same"


def test_no_two_writes_share_a_version(tmp_path: Path) -> None:
    """A thousand writes of equal bytes as fast as they go, half of them to the same place on the disk, all differ."""
    store = FileStore(tmp_path, durable=False)
    seen = set()
    for _ in range(500):
        seen.add(store.set_if("a", b"same", None))
        found = store.get_versioned("a")
        assert found is not None
        seen.add(store.set_if("a", b"same", found[1]))
        store.delete("a")

    assert len(seen) == 1000


def test_a_write_is_stamped_by_the_exact_clock(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a file is the moment of the write to 10 microseconds, not the tick that the file system keeps."""
    moment = 1_700_000_000_123_456_789
    monkeypatch.setattr(time, "time_ns", lambda: moment)

    for _ in range(20):
        store.set("a", b"1")
        stamp = (store.folder / "a.blob").stat().st_mtime_ns

        assert stamp // 10_000 == moment // 10_000


def test_reading_does_not_move_the_version(store: FileStore) -> None:
    """Reads, listings, and changes of rights leave the version as it was."""
    version = store.set_if("a", b"1", None)

    store.get("a")
    assert [*store.list()] == ["a"]
    (store.folder / "a.blob").chmod(0o400)

    assert store.get_versioned("a") == (b"1", version)
    assert FileStore(store.folder).set_if("a", b"2", version) != version


def test_refuses_what_every_call_refuses(store: FileStore) -> None:
    """Both methods check the id, and set_if the blob."""
    with pytest.raises(InvalidCheckpointIdError):
        store.get_versioned("")
    with pytest.raises(InvalidCheckpointIdError):
        store.set_if("x\0y", b"1", None)
    with pytest.raises(StoreError, match="can't store a str under checkpoint id 'a'"):
        store.set_if("a", "text", None)  # type: ignore[arg-type]
    assert names_in(store.folder) == []


def test_what_can_t_be_read_is_not_absent(store: FileStore) -> None:
    """F25: where a folder stands in the place of the blob, neither method takes it for nothing."""
    (store.folder / "a.blob").mkdir()

    with pytest.raises(StoreError, match=r"can't read .*a\.blob: Is a directory; a folder stands"):
        store.get_versioned("a")
    with pytest.raises(StoreError, match=r"can't save .*a\.blob: Is a directory; a folder stands"):
        store.set_if("a", b"1", None)
    assert names_in(store.folder) == ["a.blob"]


def test_a_full_disk_keeps_blob_and_version(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """F24: a conditional write that fails half-way leaves the old blob with its old version, and nothing beside it."""
    version = store.set_if("a", b"old", None)

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="No space left on device; free some space"):
            store.set_if("a", b"new", version)

    assert store.get_versioned("a") == (b"old", version)
    assert names_in(store.folder) == ["a.blob"]


@pytest.mark.parametrize("copied", [deepcopy, lambda store: pickle.loads(pickle.dumps(store))], ids=["copy", "pickle"])
def test_a_copy_stands_on_its_own(store: FileStore, copied: object) -> None:
    """A copy or a pickle is a store on the same folder with the same arguments and powers, bound to itself."""
    assert callable(copied)
    store.durable = False
    store.lock_timeout = 7.0
    other = copied(store)

    assert isinstance(other, CheckPointSwapper)
    assert (other.folder, other.durable, other.lock_timeout) == (store.folder, False, 7.0)
    assert other.set_if.__self__ is other
    other.set("a", b"1")
    assert store.get("a") == b"1"


def test_four_processes_count_together(store: FileStore) -> None:
    """Four processes that read, add one and write under conditions, 50 times each, arrive at exactly 200."""
    children = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "count", store.folder, "50"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
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
    assert store.get("N") == b"200"
    assert names_in(store.folder) == ["%4e.blob"]
