"""What a job is told, what it refuses, and what it reports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_blobs import SERIALIZER, blob_of_run, chain, count_up, counted, fill, reason_for, state_in
from stored_runs import TwoMethodStore, header_of, refused
from watched_store import WatchedStore

from blobcp import Checkpoint, Envelope, MissingExtraError, OptionError, StoreError
from blobcp.codec import Header, RawValue
from blobcp.migrations import Change, HeaderFilter, JobReport, MigrationJob, Migrations, differences
from blobcp.migrations.pace import Pace, Stop
from blobcp.stores import MapStore


class TestSelection:
    def test_by_header(self) -> None:
        """Status, graph, age and version select; what is not selected is counted, and its body is not decoded."""
        now = datetime.now(UTC)
        store = MapStore()
        for id, header in {
            "a": {},
            "b": {"status": "failed"},
            "c": {"graph": "other"},
            "d": {"state_version": 2},
            "e": {"created_at": now - timedelta(days=1)},
        }.items():
            store.set(id, blob_of_run(id, {"entries": 0}, **{"created_at": now - timedelta(days=40), **header}))

        def picked(where: Any) -> list[str]:
            report = MigrationJob(store, count_up, where=where, dry_run=True, samples=9).run()
            assert report.skipped == 5 - report.changed
            return [sample.id for sample in report.samples]

        month = timedelta(days=30)
        assert picked(HeaderFilter(status="failed")) == ["b"]
        assert picked(HeaderFilter(status=("failed", "interrupted"), graph="orders")) == ["a", "b", "d", "e"]
        assert picked(HeaderFilter(graph={"other"})) == ["c"]
        assert picked(HeaderFilter(state_version=range(2))) == ["a", "b", "c", "e"]
        assert picked(HeaderFilter(older=month)) == ["a", "b", "c", "d"]
        assert picked(HeaderFilter(newer=month)) == ["e"]
        assert picked(lambda header: header.checkpoint_id > "c") == ["d", "e"]

    def test_bodies_stay_shut(self) -> None:
        """A body that nobody can read is no trouble where its header is not selected."""
        store = MapStore()
        store.set("a", Envelope().seal(Header(checkpoint_id="a", graph="other"), b"\xc1"))

        assert MigrationJob(store, count_up, where=HeaderFilter(graph="orders")).run().skipped == 1
        assert MigrationJob(store, count_up).run().failed == 1

    def test_a_filter_that_fails(self) -> None:
        """A filter that raises makes its blob a failure, with its own error as the reason."""
        store = MapStore()
        fill(store, 2)

        report = MigrationJob(store, count_up, where=lambda header: 1 / 0).run()

        assert [failure.reason for failure in report.failures] == ["ZeroDivisionError: division by zero"] * 2

    def test_prefix_and_ids(self) -> None:
        """A prefix is given to the listing; ids are any iterable, and those that nothing is under are counted."""
        store = WatchedStore()
        fill(store, 3)
        fill(store, 2, prefix="trip-")
        store.calls.clear()

        assert MigrationJob(store, count_up, prefix="trip-").run().changed == 2
        assert store.calls[0] == ("list", "trip-")
        report = MigrationJob(store, count_up, ids=iter(["order-000001", "gone", "order-000002"])).run()
        assert (report.changed, report.missing) == (2, 1)

    @pytest.mark.parametrize("id", ["", "a\0b", "\ud800", "x" * 513])
    def test_what_is_no_id(self, id: str, tmp_path: Path) -> None:
        """An id that none can have is a failure with the reason, and the others go on; also where there is a journal."""
        store = MapStore()
        ids = fill(store, 1)

        reports = [MigrationJob(store, count_up, ids=[id, *ids], journal=tmp_path / "journal").run() for _ in range(2)]

        assert [(report.changed, report.earlier, report.failed) for report in reports] == [(1, 0, 1), (1, 1, 1)]
        assert {report.failures[0].error for report in reports} == {"InvalidCheckpointIdError"}

    def test_ids_that_can_be_read_once(self) -> None:
        """A job whose ids were an iterator is refused a second run, and a restore, instead of finding nothing to do."""
        store = MapStore()
        ids = fill(store, 3)
        once, often = (MigrationJob(store, count_up, ids=each, backup=".old") for each in (iter(ids), ids))

        assert once.run().changed == 3
        for again in (once.run, once.restore):
            assert "the ids were an iterator" in str(refused(OptionError, again))
        assert counted(store, ids) == {1: 3}
        assert (often.run().changed, often.run().changed, often.restore().changed) == (3, 3, 3)
        assert MigrationJob(store, count_up, ids=iter(ids), backup=".old").restore().unchanged == 3

    def test_ids_that_are_no_text(self) -> None:
        """Something else than text among the ids ends the job in words, after what came before is done."""
        store = MapStore()
        ids = fill(store, 1)
        mixed: Any = [*ids, 7]

        error = refused(OptionError, MigrationJob(store, count_up, ids=mixed, batch_size=1).run)

        assert "7 among the ids" in str(error)
        assert counted(store, ids) == {1: 1}


WRONG: dict[str, Any] = {
    "ids": "order-17",
    "prefix": 7,
    "workers": 0,
    "batch_size": 0,
    "tries": True,
    "samples": -1,
    "on_error": "ignore",
    "rate": 0,
    "progress": "yes",
    "executor": 4,
    "journal": 7,
    "state_version": -1,
    "backup": "",
}


@pytest.mark.parametrize("option", WRONG)
def test_options_that_cannot_be(option: str) -> None:
    """An option that can't be carried out is refused when the job is made, by its name or its value."""
    error = refused(OptionError, MigrationJob, MapStore(), count_up, **{option: WRONG[option], "dry_run": True})

    assert repr(WRONG[option]) in str(error)


def test_what_does_not_go_together() -> None:
    """So are ids with a prefix, options of a function with a chain, a chain with a hole, and what is no store or function."""
    refused(OptionError, MigrationJob, MapStore(), count_up, ids=["a"], prefix="a")
    refused(OptionError, MigrationJob, MapStore(), chain(), raw=True)
    holed = Migrations(3)
    holed.add(1, 2)
    refused(OptionError, MigrationJob, MapStore(), holed)
    nothing: Any = object()
    refused(OptionError, MigrationJob, nothing, count_up)
    refused(OptionError, MigrationJob, MapStore(), nothing)

    class Awaited(MapStore):
        async def get(self, checkpoint_id: str) -> bytes | None:  # type: ignore[override]
            return None

    assert "have to be awaited" in str(refused(OptionError, MigrationJob, Awaited(), count_up))


class TestVersionsOfAFunction:
    def test_blobs_of_the_version_are_left_alone(self) -> None:
        """A function with a version is not called for blobs that have it; those of a later one fail with both numbers."""
        store = MapStore()
        ids = fill(store, 2)
        store.set("newer", blob_of_run("newer", {"entries": 0}, state_version=9))

        reports = [MigrationJob(store, count_up, state_version=4).run() for _ in range(2)]

        assert [(report.changed, report.unchanged, report.failed) for report in reports] == [(2, 0, 1), (0, 2, 1)]
        assert counted(store, ids) == {1: 2}
        assert header_of(store, ids[0]).state_version == 4
        assert "version 9" in reports[0].failures[0].reason
        assert "state_version=4" in reports[0].failures[0].reason

    def test_raw_and_interrupt_states(self) -> None:
        """The other options of `migrate_checkpoint_state` are handed on."""
        store = MapStore()
        body = SERIALIZER.dumps(Checkpoint(state=RawValue("gone.Order", {"qty": 3})))
        store.set("a", Envelope().seal(Header(checkpoint_id="a"), body))

        def migrate(order: Any) -> tuple[Any, bool]:
            order.fields["qty"] += 1
            return order, True

        report = MigrationJob(store, migrate, raw=True, interrupt_states=migrate).run()

        assert report.changed == 1
        assert [
            str(change)
            for change in differences(Envelope().seal(Header(checkpoint_id="a"), body), store.get("a") or b"")
        ] == ["~ state.qty: 3 -> 4"]


class TestErrors:
    def test_stop_at_the_first(self) -> None:
        """With ``on_error="stop"`` the first failure ends the job; those before it are done, those behind it untouched."""
        store = MapStore()
        ids = fill(store, 20)

        report = MigrationJob(store, reason_for, on_error="stop").run()

        assert (report.changed, report.unchanged, report.failed, report.stopped) == (2, 1, 1, "failure")
        assert counted(store, ids) == {0: 18, 1: 2}
        assert "stopped early: by a failure" in str(report)

    @pytest.mark.parametrize("error", [StoreError("no"), OSError("no"), RecursionError("no")])
    def test_a_store_that_fails_for_one(self, error: Exception) -> None:
        """Whatever a store raises for one blob is that blob's failure, on reading and on writing."""
        store = WatchedStore()
        ids = fill(store, 3)

        for method in ("get_versioned", "set_if"):

            def before(called: str, checkpoint_id: str, method: str = method) -> None:
                if called == method and checkpoint_id == ids[1]:
                    raise error

            store.before = before
            report = MigrationJob(store, count_up).run()
            assert [(failure.id, failure.error) for failure in report.failures] == [(ids[1], type(error).__name__)]
            assert report.changed == 2
        store.before = lambda *_: None
        assert counted(store, ids) == {2: 2, 0: 1}

    def test_a_listing_that_fails(self) -> None:
        """A listing that breaks off ends the job with its error, once what was listed before is done."""

        class Broken(MapStore):
            def list(self, prefix: str = "") -> Iterator[str]:
                yield from [*super().list(prefix)][:2]
                raise StoreError("the listing broke off")

        store = Broken()
        ids = fill(store, 4)

        error = refused(StoreError, MigrationJob(store, count_up, batch_size=1).run)

        assert str(error) == "the listing broke off"
        assert counted(store, ids) == {1: 2, 0: 2}

    def test_the_path(self) -> None:
        """A failure in a nested graph, or at a value, says where."""
        store = MapStore()
        tree = Checkpoint(sub_graphs={"inner": Checkpoint(state={"qty": 1})})
        store.set("a", Envelope().seal(Header(checkpoint_id="a"), SERIALIZER.dumps(tree)))

        def fail(state: Any) -> Any:
            raise KeyError("quantity")

        [failure] = MigrationJob(store, fail).run().failures

        assert failure.path == "inner"
        assert "graph inner: KeyError: 'quantity'" in str(failure)

    def test_a_list_that_is_bounded(self) -> None:
        """A report lists the first 1,000 failures and kinds of what was dropped, and counts all."""
        store = TwoMethodStore()
        ids = [f"{number:05}" for number in range(1500)]
        for id in ids:
            store.set(id, b"foreign")

        report = MigrationJob(store, count_up, ids=ids).run()

        assert (report.failed, len(report.failures)) == (1500, 1000)
        assert "  and 1,490 more" in str(report)


class TestProgress:
    def test_a_callback_after_each_batch(self) -> None:
        """The callback sees the report grow, batch by batch."""
        store = MapStore()
        fill(store, 10)
        seen: list[int] = []

        MigrationJob(store, count_up, batch_size=4, on_progress=lambda report: seen.append(report.changed)).run()

        assert seen == [4, 8, 10]

    def test_nothing_is_shown_unasked(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Nothing is printed where nobody asked, and with "auto" where stderr is no terminal."""
        store = MapStore()
        fill(store, 3)

        MigrationJob(store, count_up).run()
        MigrationJob(store, count_up, progress="auto").run()

        assert capfd.readouterr() == ("", "")

    def test_the_bar(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """The bar shows on stderr what is done of the total, changed and failed."""
        monkeypatch.setenv("COLUMNS", "160")
        store = MapStore()
        ids = fill(store, 20)

        MigrationJob(store, reason_for, ids=ids, progress=True).run()

        shown = capsys.readouterr()
        assert shown.out == ""
        assert "20 of 20, 15 changed, 2 failed" in shown.err

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where rich is not installed, that is said, with the extra that brings it; nothing is done. "auto" does without."""
        store = MapStore()
        ids = fill(store, 3)
        monkeypatch.setitem(sys.modules, "rich.progress", None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

        error = refused(MissingExtraError, MigrationJob(store, count_up, progress=True).run)
        assert MigrationJob(store, count_up, progress="auto", dry_run=True).run().changed == 3

        assert "pip install 'blobcp[cli]'" in str(error)
        assert counted(store, ids) == {0: 3}


class TestRate:
    def test_the_pace(self) -> None:
        """Batches are handed out no faster than the rate, however fast they are done, and time lost is not made up for."""
        now = [100.0]

        def sleep(seconds: float) -> None:
            now[0] += seconds

        pace, stop, starts = Pace(10, clock=lambda: now[0], sleep=sleep), Stop(), []
        for _ in range(5):
            pace.wait(4, stop)
            starts.append(now[0])
        now[0] += 60
        for _ in range(2):
            pace.wait(4, stop)
            starts.append(now[0])

        assert [round(later - earlier, 6) for earlier, later in pairwise(starts)] == [0.4, 0.4, 0.4, 0.4, 60.0, 0.4]

    def test_a_stop_ends_the_waiting(self) -> None:
        """Who waits for the pace looks whether the job is to stop."""
        slept: list[float] = []
        stop = Stop()

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            stop.request("interrupted")

        pace = Pace(0.001, clock=lambda: 0.0, sleep=sleep)
        pace.wait(1, stop)
        pace.wait(1, stop)

        assert slept == [0.1]


class TestSamples:
    def test_what_a_trial_shows(self) -> None:
        """A trial keeps the differences of the first blobs, by path and value, without any class of theirs."""
        store = MapStore()
        fill(store, 5)

        report = MigrationJob(store, chain(), dry_run=True, samples=2).run()

        assert [str(sample) for sample in report.samples] == [
            "order-000000\n  ~ header.state_version: 0 -> 3\n  - state['qty'] = 0\n  + state['quantity'] = 0",
            "order-000001\n  ~ header.state_version: 0 -> 3\n  - state['qty'] = 1\n  + state['quantity'] = 1",
        ]

    def test_a_long_one_is_cut(self) -> None:
        """Many changes are counted, long values cut."""
        store = MapStore()
        store.set("a", blob_of_run("a", {"items": list(range(100)), "text": "x"}))

        def migrate(state: Any) -> tuple[Any, bool]:
            return {"items": [-item - 1 for item in state["items"]], "text": "y" * 1000}, True

        [sample] = MigrationJob(store, migrate, dry_run=True).run().samples

        assert (len(sample.changes), sample.more) == (20, 81)
        assert sample.changes[0] == Change("state['items'][0]", "0", "-1")
        assert "and 81 more" in str(sample)

    def test_differences_of_two_blobs(self) -> None:
        """Values of classes, their names, nested graphs, lists of other lengths, and headers are told apart."""

        def blob(status: str, *states: Any) -> bytes:
            tree = Checkpoint(state=states[0], sub_graphs={"inner": Checkpoint(state=states[1])})
            return Envelope().seal(Header(checkpoint_id="a", status=status), SERIALIZER.dumps(tree))  # type: ignore[arg-type]

        before = blob("interrupted", RawValue("shop.Cart", {"items": [1, 2, 3], "at": (1, 2)}), {"n": float("nan")})
        after = blob("failed", RawValue("shop.Basket", {"items": [1, 5], "at": (1, 2), "x": "y" * 200}), {"n": 1.0})

        assert [str(change) for change in differences(before, after)] == [
            "~ header.status: 'interrupted' -> 'failed'",
            "~ state (its class): shop.Cart -> shop.Basket",
            "~ state.items[1]: 2 -> 5",
            "- state.items[2] = 3",
            f"+ state.x = '{'y' * 78}…",
            "~ sub_graphs['inner'].state['n']: nan -> 1.0",
        ]
        assert differences(before, before) == []

    def test_huge_ints(self) -> None:
        """An int with more digits than Python writes is shown in hexadecimal, so that a trial does not fail on it."""
        before, after = (blob_of_run("a", {"n": number}) for number in (10**4300, (10**4300,)))

        [change] = differences(before, after)

        assert (change.path, change.before) == ("state['n']", hex(10**4300)[:79] + "…")
        assert str(change.after).startswith("<tuple object at ")


class TestReport:
    def test_all_that_it_says(self) -> None:
        """Counts, bytes, time, what failed and what was dropped, in words."""
        report = JobReport(kind="migrate", changed=1200, unchanged=3, skipped=2, missing=1, earlier=7, conflicts=4)
        report.bytes_read, report.bytes_written, report.seconds = 5000, 4000, 2.0

        assert str(report).splitlines() == [
            "1,200 migrated, 3 current, 0 failed, 2 skipped, 1 missing",
            "7 of them by earlier runs",
            "4 times a live run moved on meanwhile",
            "5,000 bytes read, 4,000 written, 2.0 s, 600 blobs/s",
        ]
        assert report.looked_at == 1206


@given(st.lists(st.integers(0, 30), max_size=12))
def test_twice_is_once(quantities: list[int]) -> None:
    """Migrating twice gives what migrating once gives, byte for byte, and the second time nothing is written."""
    store = WatchedStore()
    for number, qty in enumerate(quantities):
        store.set(f"{number:02}", blob_of_run(f"{number:02}", {"qty": qty}))

    first = MigrationJob(store, chain()).run()
    once = {id: store.get(id) for id in store.list()}
    store.calls.clear()
    second = MigrationJob(store, chain()).run()

    assert (first.changed, second.changed, second.unchanged) == (len(quantities), 0, len(quantities))
    assert {id: store.get(id) for id in store.list()} == once
    assert {method for method, _ in store.calls} <= {"list", "get", "get_versioned"}
    assert all(state_in(store, id) == {"quantity": quantities[int(id)]} for id in once)
