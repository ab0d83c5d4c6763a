"""Runs that save while a job has their blobs in hand, and originals that are put back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from job_blobs import blob_of_run, chain, count_up, fill, state_in
from stored_runs import TwoMethodStore, header_of, refused
from two_programs import NEW, OLD, New, Old, quantities, single
from watched_store import WatchedStore, with_powers

from blobcp import Interrupted, OptionError, StoreError
from blobcp.migrations import JobReport, MigrationJob, StoreJournal, restore
from blobcp.store import CheckPointExpirer, CheckPointSwapper
from blobcp.stores import MapStore

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def interfere(store: WatchedStore, id: str, qty: int, times: int = 1) -> None:
    """Let another writer save a run, so many times, each between the job's reading of it and its writing."""
    left = [times]

    def after(method: str, checkpoint_id: str) -> None:
        if method in ("get", "get_versioned") and checkpoint_id == id and left[0]:
            left[0] -= 1
            store.quiet.set(id, blob_of_run(id, {"qty": qty, "entries": 0}, created_at=LATER))

    store.after = after


class TestLiveRuns:
    def test_a_run_that_saves_meanwhile_wins(self) -> None:
        """A run that saves between read and write loses nothing: its new blob is migrated instead."""
        store = WatchedStore()
        fill(store, 3)
        interfere(store, "order-000001", qty=77)

        report = MigrationJob(store, chain()).run()

        assert (report.changed, report.failed, report.conflicts) == (3, 0, 1)
        assert state_in(store.quiet, "order-000001") == {"entries": 0, "quantity": 77}
        assert "1 times a live run moved on meanwhile" in str(report)

    def test_a_run_that_goes_on_under_the_new_code(self) -> None:
        """A real run, resumed by new code between the job's read and write: its next stop is what stays."""
        store = WatchedStore()
        with pytest.raises(Interrupted):
            single(Old).compile(store=store, serializer=OLD).invoke("abc", checkpoint_id="A")
        app = single(New).compile(store=store.quiet, serializer=NEW, migrations=quantities())
        results: list[str] = []

        def after(method: str, checkpoint_id: str) -> None:
            if method == "get_versioned" and not results:
                results.append(app.resume("A", answer="y"))

        store.after = after
        report = MigrationJob(store, quantities()).run()

        assert results == ["y3"]
        assert (report.changed, report.unchanged, report.conflicts) == (0, 1, 1)
        assert header_of(store.quiet, "A").status == "done"

    def test_one_that_never_rests(self) -> None:
        """After so many tries the blob fails with the reason, as its run has left it."""
        store = WatchedStore()
        fill(store, 2)
        interfere(store, "order-000001", qty=9, times=50)

        report = MigrationJob(store, chain(), tries=3).run()

        assert (report.changed, report.failed, report.conflicts) == (1, 1, 3)
        [failure] = report.failures
        assert (failure.id, failure.error) == ("order-000001", "CheckpointConflictError")
        assert failure.reason == "it was written by others 3 times while it was in hand; run the job again"
        assert state_in(store.quiet, "order-000001") == {"qty": 9, "entries": 0}

    def test_one_that_is_deleted(self) -> None:
        """A run that is deleted between read and write is not brought back."""
        store = WatchedStore()
        [id] = fill(store, 1)
        store.after = lambda method, _: store.quiet.delete(id) if method == "get_versioned" else None

        report = MigrationJob(store, chain()).run()

        assert (report.changed, report.missing, report.conflicts) == (0, 1, 1)
        assert store.quiet.get(id) is None

    def test_without_compare_and_set(self) -> None:
        """Where the store can't compare, what is written last stays; the docs say so."""
        store = WatchedStore(powers=frozenset())
        [id] = fill(store, 1)
        interfere(store, id, qty=77)

        report = MigrationJob(store, chain(), ids=[id]).run()

        assert (report.changed, report.conflicts) == (1, 0)
        assert state_in(store.quiet, id) == {"entries": 0, "quantity": 0}

    def test_writes_that_wait_are_read_again(self) -> None:
        """With a journal in a store writes wait for each other; a store that can't compare is read again just before."""
        store = WatchedStore(powers=frozenset())
        ids = fill(store, 3)
        interfere(store, ids[0], qty=77)

        report = MigrationJob(store, chain(), ids=ids, journal=StoreJournal(MapStore(), "journal")).run()

        assert (report.changed, report.conflicts) == (3, 1)
        assert state_in(store.quiet, ids[0]) == {"entries": 0, "quantity": 77}


BACKUPS: dict[str, Any] = {"suffix": ".before-3", "store": None}


@pytest.fixture(params=BACKUPS)
def backup(request: pytest.FixtureRequest) -> Any:
    """A suffix, or another store."""
    return BACKUPS[str(request.param)] or MapStore()


class TestBackups:
    def test_originals_are_put_back(self, backup: Any) -> None:
        """Each blob that is changed is kept as it was, and `restore` puts them all back, byte for byte."""
        store = MapStore()
        ids = fill(store, 20)
        store.set("foreign", b"foreign")
        before = {id: store.get(id) for id in [*ids, "foreign"]}
        job = MigrationJob(store, chain(), backup=backup)

        assert job.run().changed == 20
        report = job.restore()

        assert (report.changed, report.unchanged, report.failed) == (20, 0, 0)
        assert {id: store.get(id) for id in before} == before
        assert str(report).startswith("20 restored, 0 as in the backup, 0 failed\n")

    def test_a_job_passes_its_backups_over(self, backup: Any) -> None:
        """Originals under a suffix are not taken for checkpoints, by no later run of the job."""
        store = MapStore()
        fill(store, 5)

        reports = [MigrationJob(store, chain(), backup=backup).run() for _ in range(2)]

        assert [(report.changed, report.unchanged, report.failed) for report in reports] == [(5, 0, 0), (0, 5, 0)]

    def test_not_over_a_run_that_has_moved_on(self, backup: Any) -> None:
        """A run that has saved since, or was deleted, stays as it is unless that is forced."""
        store = MapStore()
        ids = fill(store, 4)
        before = {id: store.get(id) for id in ids}
        MigrationJob(store, chain(), backup=backup).run()
        moved = blob_of_run(ids[1], {"quantity": 5}, created_at=LATER, state_version=3)
        store.set(ids[1], moved)
        store.delete(ids[2])
        store.set(ids[3], b"foreign")

        report = restore(store, backup)
        assert (report.changed, report.failed) == (1, 3)
        assert [failure.error for failure in report.failures] == ["CheckpointConflictError"] * 3
        assert "has moved on since" in report.failures[0].reason
        assert "was deleted since" in report.failures[1].reason
        assert "is no blob any more" in report.failures[2].reason
        assert [store.get(id) for id in ids] == [before[ids[0]], moved, None, b"foreign"]

        forced = restore(store, backup, force=True)
        assert (forced.changed, forced.unchanged, forced.failed) == (3, 1, 0)
        assert {id: store.get(id) for id in ids} == before

    def test_a_run_that_saves_while_it_is_restored(self, backup: Any) -> None:
        """A run that saves between the look at it and the writing wins here too."""
        store = WatchedStore()
        ids = fill(store, 2)
        MigrationJob(store, chain(), backup=backup).run()
        interfere(store, ids[0], qty=77)

        report = restore(store, backup)

        assert (report.changed, report.failed, report.conflicts) == (1, 1, 1)
        assert state_in(store.quiet, ids[0]) == {"qty": 77, "entries": 0}

    def test_the_original_of_a_run_that_moved_on_meanwhile(self, backup: Any) -> None:
        """After a conflict the original is what the run has saved, not what the job read first."""
        store = WatchedStore()
        [id] = fill(store, 1)
        interfere(store, id, qty=77)

        MigrationJob(store, chain(), backup=backup).run()
        restore(store, backup)

        assert state_in(store.quiet, id) == {"qty": 77, "entries": 0}

    def test_a_trial(self, backup: Any) -> None:
        """A trial of a restore says what it would do and writes nothing."""
        store = MapStore()
        ids = fill(store, 3)
        MigrationJob(store, chain(), backup=backup).run()
        after = [store.get(id) for id in ids]

        report = restore(store, backup, dry_run=True)

        assert (report.changed, report.bytes_written) == (3, 0)
        assert [store.get(id) for id in ids] == after

    def test_a_run_whose_id_ends_with_the_suffix(self) -> None:
        """What is no original is never put over another run, not even by force."""
        store = MapStore()
        [id] = fill(store, 1)
        before = store.get(id)
        store.set(f"{id}.old", blob_of_run(f"{id}.old", {"qty": 1, "entries": 0}))

        reports = [restore(store, ".old", force=force) for force in (False, True)]

        assert [(report.changed, report.failures[0].error) for report in reports] == [
            (0, "CheckpointMismatchError")
        ] * 2
        assert store.get(id) == before

    def test_a_backup_that_fails(self) -> None:
        """A blob whose original can't be kept is not changed."""
        store, backup = MapStore(), WatchedStore()
        ids = fill(store, 2)

        def before(method: str, checkpoint_id: str) -> None:
            if checkpoint_id == ids[0]:
                raise StoreError("no room")

        backup.before = before
        report = MigrationJob(store, chain(), backup=backup).run()

        assert [(failure.id, failure.reason) for failure in report.failures] == [(ids[0], "no room")]
        assert state_in(store, ids[0]) == {"qty": 0, "entries": 0}

    def test_prefix_and_ids(self) -> None:
        """A restore takes the blobs' own ids, or a prefix of them; a backup that can't list needs ids."""
        store = MapStore()
        ids = fill(store, 3)
        other = fill(store, 2, prefix="trip-")
        MigrationJob(store, chain(), backup=".old").run()

        assert restore(store, ".old", prefix="trip-").changed == 2
        assert restore(store, ".old", ids=[ids[1], "nothing"]).looked_at == 2
        assert [sorted(state_in(store, id)) for id in (*ids, *other)].count(["entries", "qty"]) == 3
        error = refused(OptionError, restore, store, TwoMethodStore())
        assert "can't list" in str(error)

    @pytest.mark.parametrize("what", ["", "itself", "none"])
    def test_what_is_no_backup(self, what: str) -> None:
        """An empty suffix, the store itself and no backup at all are refused in words."""
        store = MapStore()
        if what == "none":
            assert "backup=" in str(refused(OptionError, MigrationJob(store, count_up).restore))
        else:
            refused(OptionError, MigrationJob, store, count_up, backup=what and store)


def test_any_powers() -> None:
    """A job works with a store of any powers, as long as it is told the ids where it can't list."""
    for hidden in (frozenset(), frozenset({CheckPointExpirer}), frozenset({CheckPointSwapper})):
        store = with_powers(hidden)
        ids = fill(store, 2)
        report: JobReport = MigrationJob(store, chain(), ids=ids).run()
        assert report.changed == 2
