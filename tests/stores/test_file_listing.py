from __future__ import annotations

import builtins
import os
import tracemalloc
from datetime import timedelta
from pathlib import Path

import pytest

from blobcp.stores import FileStore
from blobcp.stores.file.names import parts_of

BLOB_BYTES = 1 << 30


@pytest.mark.parametrize("blobs", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_lists_many_blobs_without_opening_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: int) -> None:
    """Thousands of blobs of a gigabyte are listed in order, none opened, in the memory that their ids take."""
    store = FileStore(tmp_path)
    ids = [f"Tenant {number % 7}/order-{number}" for number in range(blobs)]
    for checkpoint_id in ids:
        descriptor = os.open(tmp_path / parts_of(checkpoint_id)[0], os.O_WRONLY | os.O_CREAT)
        os.truncate(descriptor, BLOB_BYTES)  # takes no space
        os.close(descriptor)

    def refuse(*args: object, **options: object) -> int:
        raise AssertionError("opened")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        patch.setattr(builtins, "open", refuse)
        tracemalloc.start()
        try:
            found = [*store.list()]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert next(store.list("Tenant 6/order-6")) == "Tenant 6/order-6"
        assert [*store.list("Tenant 3/")] == [one for one in found if one.startswith("Tenant 3/")]

    assert found == sorted(ids)
    assert peak < 500 * blobs


def test_a_listing_sees_the_folder_when_it_is_begun(tmp_path: Path) -> None:
    """Nothing is read before the first id is asked for; blobs that go and come while ids are taken do not disturb it."""
    store = FileStore(tmp_path, durable=False)
    listing = store.list()
    for checkpoint_id in "abc":
        store.set(checkpoint_id, b"")

    assert next(listing) == "a"
    store.delete("b")
    store.set("d", b"")

    assert [*listing] == ["b", "c"]


@pytest.mark.parametrize("prefix", ["%", "*", "?", "[a]", "_", "\\", "A", "%61", ".", "n" * 81, "n" * 600])
def test_a_prefix_is_text(tmp_path: Path, prefix: str) -> None:
    """What is a pattern or a quoted letter elsewhere is only itself in a prefix."""
    store = FileStore(tmp_path, durable=False)
    ids = ["%", "*", "?b", "[a]", "_", "\\", "A", "a", "ab", "%61", ".", "..", "n" * 80, "n" * 81, "n" * 512]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"")

    assert [*store.list(prefix)] == sorted(one for one in ids if one.startswith(prefix))


def test_passes_over_what_is_not_its_own(tmp_path: Path) -> None:
    """Names that are no text, links, pipes and folders are no blobs, to no housekeeping either."""
    store = FileStore(tmp_path, durable=False)
    store.set("a", b"1")
    (tmp_path / os.fsdecode(b"\xff.blob")).touch()
    (tmp_path / "b.blob").symlink_to(tmp_path / "a.blob")
    os.mkfifo(tmp_path / "c.blob")
    (tmp_path / "d.blob").mkdir()
    (tmp_path / ("n" * 80 + ".more")).mkdir()
    (tmp_path / ("n" * 80 + ".more") / "A.blob").touch()

    assert [*store.list()] == ["a"]
    assert store.purge() == 0
    assert store.sweep(timedelta(0)) == 0
