from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from absent import absent

from blobcp.errors import StoreError
from blobcp.stores import FileStore
from blobcp.stores.file import io
from blobcp.stores.file.names import parts_of

NESTED = "n" * 200
OTHER_DEVICE = "/dev/shm"

CALLS: dict[str, Callable[[FileStore, str], object]] = {
    "get": lambda store, checkpoint_id: store.get(checkpoint_id),
    "get_versioned": lambda store, checkpoint_id: store.get_versioned(checkpoint_id),
    "set": lambda store, checkpoint_id: store.set(checkpoint_id, b"mine"),
    "set_if": lambda store, checkpoint_id: store.set_if(checkpoint_id, b"mine", None),
    "set_expiring": lambda store, checkpoint_id: store.set_expiring(checkpoint_id, b"mine", timedelta(hours=1)),
    "delete": lambda store, checkpoint_id: store.delete(checkpoint_id),
}


def contents_of(folder: Path) -> dict[str, bytes]:
    """Return what is in the files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_linked_nested_folder_is_not_entered(tmp_path: Path, call: Callable[..., object], depth: int) -> None:
    """A symbolic link in place of a nested folder is refused by every call; nothing behind it is read or changed."""
    store = FileStore(tmp_path / "store")
    outside = FileStore(tmp_path / "outside")
    outside.set(NESTED, b"outside")
    folders = parts_of(NESTED)[:-1]
    link = store.folder.joinpath(*folders[: depth + 1])
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside.folder.joinpath(*folders[: depth + 1]), target_is_directory=True)
    before = contents_of(outside.folder)

    with pytest.raises(StoreError, match="a symbolic link stands where a blob or a folder of the store belongs"):
        call(store, NESTED)

    assert contents_of(outside.folder) == before
    assert [*store.list()] == []
    assert store.purge() == 0


def test_a_sweep_stays_inside(tmp_path: Path) -> None:
    """Leftovers behind a linked folder are not swept."""
    store = FileStore(tmp_path / "store")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".blobcp-0.tmp").touch()
    (store.folder / parts_of(NESTED)[0]).symlink_to(outside)

    assert store.sweep(timedelta(0)) == 0
    assert (outside / ".blobcp-0.tmp").exists()


@pytest.mark.parametrize(
    "checkpoint_id", ["../outside", "/etc/passwd", "..", "a/../../b", "C:\\x", "\\\\host\\share", "~/x"]
)
def test_no_id_leads_out(tmp_path: Path, checkpoint_id: str) -> None:
    """Whatever an id looks like, every call stays in the folder."""
    store = FileStore(tmp_path / "in" / "store", durable=False)

    for call in CALLS.values():
        store.set(checkpoint_id, b"1")
        if call is CALLS["set_if"]:
            store.delete(checkpoint_id)
        call(store, checkpoint_id)

    assert {path.name for path in tmp_path.rglob("*") if store.folder not in path.parents} == {"in", "store"}


def test_a_linked_store_is_the_users_choice(tmp_path: Path) -> None:
    """The folder that a user names may be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    store = FileStore(tmp_path / "link")
    store.set(NESTED, b"1")

    assert FileStore(tmp_path / "real").get(NESTED) == b"1"


def test_links_are_seen_without_the_systems_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the operating system can't refuse links by itself, a link in place of a blob is refused all the same."""
    store = FileStore(tmp_path / "store")
    (tmp_path / "outside").write_bytes(b"outside")
    (store.folder / "a.blob").symlink_to(tmp_path / "outside")
    monkeypatch.setattr(io, "_READ", io._READ & ~os.O_NOFOLLOW)
    monkeypatch.setattr(io, "_NO_FOLLOW", 0)

    with pytest.raises(StoreError, match="a symbolic link stands where a blob or a folder of the store belongs"):
        store.get("a")
    assert store.get("b") is None


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_blob_is_not_waited_for(tmp_path: Path) -> None:
    """A named pipe under a blob's name is refused at once, without waiting for its other end."""
    store = FileStore(tmp_path)
    os.mkfifo(tmp_path / "a.blob")

    with pytest.raises(StoreError, match=r"a\.blob is a pipe, a socket or a device where a blob belongs; move it away"):
        store.get("a")


def test_a_leased_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file server has lent a file out, reading waits for the operating system to take it back."""
    store = FileStore(tmp_path)
    store.set("a", b"1")
    real = os.open

    def leased(path: str, flags: int, *args: int) -> int:
        if flags & os.O_NONBLOCK:
            raise BlockingIOError
        return real(path, flags, *args)

    monkeypatch.setattr(os, "open", leased)

    assert store.get("a") == b"1"


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_folder_that_is_none_is_refused(folder: str) -> None:
    """A path that the operating system can't be asked for is a StoreError."""
    with pytest.raises(StoreError, match=r"is no path of a folder: .*; give another"):
        FileStore(folder)


def test_an_unmounted_disk_is_not_an_empty_store(tmp_path: Path) -> None:
    """F25: where the folder leads to another device than at the opening, no call says that a blob is absent, or saves there."""
    with TemporaryDirectory(dir=OTHER_DEVICE) as other:
        if Path(other).stat().st_dev == tmp_path.stat().st_dev:
            absent(f"{OTHER_DEVICE} is no device of its own")
        mounted, place = tmp_path / "mounted", tmp_path / "place"
        mounted.mkdir()
        place.symlink_to(mounted)
        store = FileStore(place)
        store.set("a", b"1")
        place.unlink()
        place.symlink_to(other)

        for call in (*CALLS.values(), lambda store, _: [*store.list()]):
            with pytest.raises(StoreError, match="is on another device than when the store was opened; mount the disk"):
                call(store, "b")
        assert contents_of(Path(other)) == {}
        place.unlink()
        place.symlink_to(mounted)
        assert store.get("a") == b"1"
