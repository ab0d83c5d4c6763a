"""What a job notes: how it goes on, what it refuses, and what it makes of a journal that a crash has damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_blobs import blob_of_run, chain, count_up, counted, fill, reason_for, state_in
from stored_runs import TwoMethodStore, refused
from watched_store import WatchedStore

from blobcp import InvalidCheckpointIdError, OptionError, StoreError
from blobcp.migrations import (
    HeaderFilter,
    JobReport,
    MigrationJob,
    Migrations,
    StoreJournal,
    copy_store,
    remove_node,
    rename_field,
)
from blobcp.migrations.journal import FileJournal
from blobcp.migrations.outcome import Outcome
from blobcp.stores import MapStore

Make = Callable[[], Any]


@pytest.fixture(params=["file", "store"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes the same journal again and again, as each run does."""
    if request.param == "file":
        return lambda: str(tmp_path / "journal")
    store = TwoMethodStore()
    return lambda: StoreJournal(store, "jobs/rename")


def counts(report: JobReport) -> tuple[int, int, int, int]:
    """Return changed, unchanged, failed and those of earlier runs."""
    return report.changed, report.unchanged, report.failed, report.earlier


class Boom(BaseException):
    """Ends a process, as far as a test can let it be ended without one."""


def die_after(store: WatchedStore, writes: int) -> None:
    """Let the process end right after so many writes, before anybody can note that they were made."""
    left = [writes]

    def after(method: str, checkpoint_id: str) -> None:
        if method == "set_if":
            left[0] -= 1
            if not left[0]:
                raise Boom

    store.after = after


class TestGoingOn:
    @pytest.mark.parametrize("died_after", [1, 4, 5, 6, 10, 19])
    def test_a_write_that_nobody_noted(self, journal: Make, died_after: int) -> None:
        """A blob that was written when the process ended is not migrated again, and counts as changed by the job."""
        store = WatchedStore()
        ids = fill(store, 20)
        die_after(store, died_after)
        with pytest.raises(Boom):
            MigrationJob(store, count_up, journal=journal(), batch_size=5).run()
        store.after = lambda *_: None

        report = MigrationJob(store, count_up, journal=journal(), batch_size=5).run()

        assert (report.changed, report.unchanged, report.looked_at) == (20, 0, 20)
        assert counted(store.quiet, ids) == {1: 20}

    def test_died_again_and_again(self, journal: Make) -> None:
        """Also where each run dies after its first write, before it has noted anything."""
        store = WatchedStore()
        ids = fill(store, 6)
        for _ in range(6):
            die_after(store, 1)
            with pytest.raises(Boom):
                MigrationJob(store, count_up, journal=journal()).run()
        store.after = lambda *_: None

        report = MigrationJob(store, count_up, journal=journal()).run()

        assert counts(report)[:3] == (6, 0, 0)
        assert counted(store.quiet, ids) == {1: 6}

    def test_what_was_dropped_is_known_all_the_same(self, journal: Make) -> None:
        """The report of a job that was killed has all that was dropped, bytes and counts, as one that was not."""

        def migrations() -> Migrations:
            made = Migrations(2)
            made.add(1, 2, remove_node("ask"))
            return made

        store, other = WatchedStore(), MapStore()
        fill(store, 9)
        fill(other, 9)
        die_after(store, 5)
        with pytest.raises(Boom):
            MigrationJob(store, migrations(), journal=journal(), batch_size=4).run()
        store.after = lambda *_: None

        report = MigrationJob(store, migrations(), journal=journal()).run()
        expected = MigrationJob(other, migrations()).run()

        assert report.dropped == expected.dropped
        assert report.dropped_blobs == 9
        assert (report.bytes_read, report.bytes_written) == (expected.bytes_read, expected.bytes_written)

    def test_done_is_done(self, journal: Make) -> None:
        """A finished job that is run again reads no blob, and its report is that of the first run."""
        store = WatchedStore()
        fill(store, 12)
        first = MigrationJob(store, chain(), journal=journal()).run()
        store.calls.clear()

        again = MigrationJob(store, chain(), journal=journal()).run()

        assert store.calls == [("list", "")]
        assert counts(again) == (12, 0, 0, 12)
        assert (again.bytes_read, again.bytes_written) == (first.bytes_read, first.bytes_written)

    def test_what_failed_is_tried_again(self, journal: Make) -> None:
        """Blobs that failed, or were not there, are looked at again, and nothing else is."""
        store = WatchedStore()
        ids = [*fill(store, 14), "late"]
        first = MigrationJob(store, reason_for, ids=ids, journal=journal()).run()
        assert (first.failed, first.missing) == (2, 1)
        for id in ("order-000003", "late"):
            store.set(id, blob_of_run(id, {"qty": 1, "entries": 0}))
        store.calls.clear()

        again = MigrationJob(store, reason_for, ids=ids, journal=journal()).run()

        assert {id for method, id in store.calls if method == "get_versioned"} == {
            "order-000003",
            "order-000013",
            "late",
        }
        assert (again.changed, again.failed, again.missing) == (first.changed + 2, 1, 0)

    def test_ids_in_any_order(self, journal: Make) -> None:
        """Which ids are done is known by their names, not by their places."""
        store = MapStore()
        ids = fill(store, 10)
        MigrationJob(store, count_up, ids=ids[5:], journal=journal()).run()

        report = MigrationJob(store, count_up, ids=reversed(ids), journal=journal()).run()

        assert counts(report) == (10, 0, 0, 5)
        assert counted(store, ids) == {1: 10}

    def test_a_run_that_has_moved_on_since(self, journal: Make) -> None:
        """An intent whose bytes are not there any more stands for nothing: what is there now is migrated."""
        store = WatchedStore()
        [id] = fill(store, 1)
        die_after(store, 1)
        with pytest.raises(Boom):
            MigrationJob(store, chain(), journal=journal()).run()
        store.after = lambda *_: None
        store.set(id, blob_of_run(id, {"qty": 5}))

        assert counts(MigrationJob(store, chain(), journal=journal()).run()) == (1, 0, 0, 0)
        assert state_in(store, id) == {"quantity": 5}

    def test_a_trial_leaves_no_trace(self, journal: Make) -> None:
        """A trial neither reads nor writes the journal."""
        store = MapStore()
        fill(store, 3)

        MigrationJob(store, count_up, journal=journal(), dry_run=True).run()

        assert counts(MigrationJob(store, count_up, journal=journal()).run()) == (3, 0, 0, 0)


def renamed() -> Migrations:
    """Return other migrations than `chain` has."""
    migrations = Migrations(2)
    migrations.add(1, 2, rename_field("shop.Order", "qty", "quantity"))
    return migrations


OTHERS: dict[str, Callable[[Any, Any], object]] = {
    "prefix": lambda store, journal: MigrationJob(store, chain(), journal=journal, prefix="order-").run(),
    "ids": lambda store, journal: MigrationJob(store, chain(), journal=journal, ids=["a"]).run(),
    "where": lambda store, journal: MigrationJob(
        store, chain(), journal=journal, where=HeaderFilter(graph="orders")
    ).run(),
    "migrate": lambda store, journal: MigrationJob(store, renamed(), journal=journal).run(),
    "kind": lambda store, journal: copy_store(store, MapStore(), journal=journal),
}


@pytest.mark.parametrize("differs", OTHERS)
def test_the_journal_of_another_job(journal: Make, differs: str) -> None:
    """A journal of another job is refused, with what differs, before anything is done."""
    store = WatchedStore()
    fill(store, 2)
    MigrationJob(store, chain(), journal=journal()).run()
    store.calls.clear()

    error = refused(OptionError, OTHERS[differs], store, journal())

    assert f"{differs}: " in str(error)
    assert store.calls in ([], [("list", "")], [("list", "order-")])


def test_a_function_by_its_name(journal: Make) -> None:
    """A function is known by module and name and by its version, so that a corrected one goes on."""
    store = MapStore()
    fill(store, 2)
    MigrationJob(store, count_up, state_version=2, journal=journal()).run()

    error = refused(OptionError, MigrationJob(store, count_up, state_version=3, journal=journal()).run)
    assert "job_blobs.count_up, state_version=2" in str(error)
    assert MigrationJob(store, count_up, state_version=2, journal=journal()).run().earlier == 2


def test_what_is_no_journal(tmp_path: Path) -> None:
    """A file or key that holds something else is refused and left as it is."""
    store = MapStore()
    store.set("key", b"something")
    path = tmp_path / "file"
    path.write_text("something\n")

    assert "no journal" in str(refused(OptionError, MigrationJob(store, count_up, journal=path).run))
    assert "no journal" in str(
        refused(OptionError, MigrationJob(store, count_up, journal=StoreJournal(store, "key")).run)
    )
    assert (path.read_text(), store.get("key")) == ("something\n", b"something")


def test_a_journal_of_a_later_format(tmp_path: Path) -> None:
    """A journal of a later release is refused with both numbers."""
    path = tmp_path / "journal"
    MigrationJob(MapStore(), count_up, journal=path).run()
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))

    assert "format 2 and this code writes 1" in str(
        refused(OptionError, MigrationJob(MapStore(), count_up, journal=path).run)
    )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A path that can't be written is an error that names it."""
    path = tmp_path / "none" / "journal"

    assert str(path) in str(refused(StoreError, MigrationJob(MapStore(), count_up, journal=path).run))


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 501])
def test_what_is_no_key(key: str) -> None:
    """A key is an id that leaves room for what is put behind it."""
    refused(InvalidCheckpointIdError, StoreJournal, MapStore(), key)


def test_parts_without_a_beginning() -> None:
    """Parts of a journal whose beginning somebody has removed are not taken for those of a new job."""
    store = MapStore()
    fill(store, 2)
    MigrationJob(store, count_up, prefix="order-", journal=StoreJournal(store, "journal")).run()
    store.delete("journal")

    job = MigrationJob(store, count_up, prefix="order-", journal=StoreJournal(store, "journal"))
    assert "no beginning" in str(refused(OptionError, job.run))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 6000))
def test_cut_off_anywhere(tmp_path: Path, cut: int) -> None:
    """A journal that is cut off at any byte is gone on with: each blob is the new one at the end, and none is lost or unread."""
    path = tmp_path / "journal"
    path.unlink(missing_ok=True)
    store = MapStore()
    fill(store, 12)
    MigrationJob(store, chain(), journal=path, batch_size=5).run()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])

    report = MigrationJob(store, chain(), journal=path).run()
    again = MigrationJob(store, chain(), journal=path).run()

    assert (report.changed + report.unchanged, report.failed, report.looked_at) == (12, 0, 12)
    assert (again.changed, again.unchanged, again.earlier) == (report.changed, report.unchanged, 12)


def test_flushed_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are in the file at once, and on the disk about once a second."""
    flushed: list[int] = []
    monkeypatch.setattr("os.fsync", flushed.append)
    now = [0.0]
    journal = FileJournal(tmp_path / "journal", clock=lambda: now[0])
    assert [*journal.begin({"kind": "test"})] == []
    begun = len(flushed)

    for seconds in (0.1, 0.5, 0.9, 1.1, 1.2, 2.2):
        now[0] = seconds
        journal.add([Outcome(id=str(seconds), became="changed")])
    assert len(flushed) - begun == 2
    assert (tmp_path / "journal").read_bytes().count(b"\n") == 7
    journal.close()

    assert len(flushed) - begun == 3
    again = FileJournal(tmp_path / "journal")
    assert [line.id for line in again.begin({"kind": "test"})] == ["0.1", "0.5", "0.9", "1.1", "1.2", "2.2"]
    again.close()


def test_many_portions_in_a_store() -> None:
    """A journal in a store is written in portions of 64 batches, not one for each blob, and all of them are read again."""
    store, where = MapStore(), WatchedStore()
    fill(store, 200)

    def run() -> JobReport:
        return MigrationJob(store, count_up, batch_size=1, journal=StoreJournal(where, "j", clock=lambda: 0.0)).run()

    run()
    portions = [id for method, id in where.calls if method == "set" and "writing" not in id]
    assert portions == ["j", "j/0000000001", "j/0000000002", "j/0000000003", "j/0000000004"]
    assert len(list(where.list("j/writing/"))) == 200
    assert run().earlier == 200
