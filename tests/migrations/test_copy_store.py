"""All blobs of one store into another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from job_blobs import blob_of_run, fill
from job_program import lines_in
from stored_runs import TwoMethodStore, refused
from watched_store import WatchedStore

from blobcp import OptionError, StoreError
from blobcp.migrations import HeaderFilter, StoreJournal, copy_store
from blobcp.stores import FileStore, MapStore, open_store


def contents(store: Any) -> dict[str, bytes]:
    """Return all that a store holds."""
    return {id: store.get(id) for id in store.list()}


def test_from_files_to_every_store_and_back(shared_url: str, tmp_path: Path) -> None:
    """Blobs and foreign bytes are the same bytes in the target, whatever it is, and in the store that it is copied to."""
    source, back = FileStore(tmp_path / "source", durable=False), MapStore()
    fill(source, 20)
    for id, blob in {"../odd id ☕": b"x", "empty": b"", "big": bytes(300_000)}.items():
        source.set(id, blob)
    target: Any = open_store(shared_url)

    there, home = copy_store(source, target, workers=3), copy_store(target, back)

    assert (there.changed, there.failed, home.changed, home.failed) == (23, 0, 23, 0)
    assert contents(back) == contents(source)
    assert there.bytes_written == sum(map(len, contents(source).values()))
    if hasattr(target, "close"):
        target.close()


def test_again(tmp_path: Path) -> None:
    """A copy that is done again finds all there already and writes nothing."""
    source, target = MapStore(), WatchedStore()
    fill(source, 5)
    copy_store(source, target)
    target.calls.clear()

    report = copy_store(source, target)

    assert (report.changed, report.unchanged) == (0, 5)
    assert {method for method, _ in target.calls} == {"get_versioned"}
    assert str(report).startswith("0 copied, 5 there already, 0 failed\n")


def test_other_bytes_are_not_replaced() -> None:
    """What the target has under an id stays, as a failure, unless it is to be overwritten."""
    source, target = MapStore(), MapStore()
    ids = fill(source, 3)
    target.set(ids[1], b"other")

    report = copy_store(source, target)
    assert (report.changed, report.failed) == (2, 1)
    assert (report.failures[0].id, report.failures[0].error) == (ids[1], "CheckpointConflictError")
    assert "overwrite=True" in report.failures[0].reason
    assert target.get(ids[1]) == b"other"

    report = copy_store(source, target, overwrite=True)
    assert (report.changed, report.unchanged) == (1, 2)
    assert contents(target) == contents(source)


@pytest.mark.parametrize("overwrite", [False, True])
def test_somebody_else_writes_to_the_target(overwrite: bool) -> None:
    """What somebody else writes to the target meanwhile is not replaced unasked."""
    source, target = MapStore(), WatchedStore()
    [id] = fill(source, 1)
    left = [1]

    def after(method: str, checkpoint_id: str) -> None:
        if method == "get_versioned" and left[0]:
            left[0] = 0
            target.quiet.set(id, b"other")

    target.after = after
    report = copy_store(source, target, overwrite=overwrite)

    assert report.conflicts == 1
    assert (report.changed, report.failed) == ((1, 0) if overwrite else (0, 1))
    assert target.quiet.get(id) == (source.get(id) if overwrite else b"other")


class Lossy(MapStore):
    """A store that keeps less than it is given."""

    def set_if(self, checkpoint_id: str, checkpoint: Any, version: str | None) -> str:
        return super().set_if(checkpoint_id, bytes(checkpoint)[:-1], version)


def test_copies_are_verified() -> None:
    """Each copy is read back and compared; one that differs is a failure. Without verifying nobody knows."""
    source, target = MapStore(), Lossy()
    fill(source, 2)

    report = copy_store(source, target)
    assert (report.changed, report.failed) == (0, 2)
    assert "the copy of 'order-000000' is not what was written" in report.failures[0].reason

    assert copy_store(source, Lossy(), verify=False).changed == 2


def test_a_trial() -> None:
    """A trial says what would be copied and writes nothing."""
    source, target = MapStore(), WatchedStore()
    ids = fill(source, 4)
    target.set(ids[0], source.get(ids[0]) or b"")
    target.calls.clear()

    report = copy_store(source, target, dry_run=True)

    assert (report.changed, report.unchanged, report.bytes_written) == (3, 1, 0)
    assert str(report).startswith("3 to copy, 1 there already, 0 failed\n")
    assert {method for method, _ in target.calls} == {"get_versioned"}


def test_selection() -> None:
    """A prefix, ids or a filter pick what is copied; foreign bytes have no header to be picked by."""
    source = MapStore()
    fill(source, 3)
    fill(source, 2, prefix="trip-")
    source.set("order-x", blob_of_run("order-x", {}, status="done"))
    source.set("foreign", b"foreign")

    def copied(**options: Any) -> list[str]:
        target = MapStore()
        copy_store(source, target, **options)
        return list(target.list())

    assert copied(prefix="trip-") == ["trip-000000", "trip-000001"]
    assert copied(ids=iter(["trip-000001", "gone"])) == ["trip-000001"]
    assert copied(where=HeaderFilter(status="done")) == ["order-x"]


def test_two_methods_are_enough() -> None:
    """Stores with two methods can be copied where the ids are given."""
    source, target = TwoMethodStore(), TwoMethodStore()
    ids = fill(source, 3)

    report = copy_store(source, target, ids=ids)

    assert report.changed == 3
    assert target.blobs == source.blobs
    assert "can't list" in str(refused(OptionError, copy_store, source, target))
    refused(OptionError, copy_store, source, source, ids=ids)


@pytest.mark.parametrize("kind", ["file", "store"])
def test_continued(kind: str, tmp_path: Path) -> None:
    """A copy that was ended in the middle goes on from its journal: nothing is copied twice, all is counted."""
    source, target, place = WatchedStore(), WatchedStore(), MapStore()
    ids = fill(source, 20)

    def journal() -> Any:
        return tmp_path / "journal" if kind == "file" else StoreJournal(place, "journal")

    def after(method: str, checkpoint_id: str) -> None:
        if (method, checkpoint_id) == ("set_if", ids[12]):
            raise KeyboardInterrupt

    target.after = after
    with pytest.raises(KeyboardInterrupt):
        copy_store(source, target, journal=journal(), batch_size=4)
    target.after = lambda *_: None

    report = copy_store(source, target, journal=journal(), batch_size=4)

    assert (report.changed, report.unchanged, report.looked_at) == (20, 0, 20)
    assert report.earlier == 12
    assert contents(target.quiet) == contents(source.quiet)
    assert sorted(id for method, id in target.calls if method == "set_if") == ids
    if kind == "file":
        assert lines_in(tmp_path / "journal") == 1 + 20 + 20  # what the job is; before and after each copy


def test_a_source_that_fails_for_one() -> None:
    """A blob that can't be read is a failure, and the others are copied."""
    source, target = WatchedStore(), MapStore()
    ids = fill(source, 3)

    def before(method: str, checkpoint_id: str) -> None:
        if (method, checkpoint_id) == ("get", ids[1]):
            raise StoreError("the disk is gone")

    source.before = before
    report = copy_store(source, target)

    assert [(failure.id, failure.reason) for failure in report.failures] == [(ids[1], "the disk is gone")]
    assert list(target.list()) == [ids[0], ids[2]]
