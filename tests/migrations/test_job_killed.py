"""Jobs that are killed or interrupted, and continued from their journals."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from job_blobs import Barrier, count_up, counted, fill
from job_program import kill_once_noted, lines_in, report_of, start

from blobcp.migrations import JobReport, MigrationJob
from blobcp.stores import FileStore, MapStore

MEGABYTE = 1 << 20


def kill_five_times(folder: Path, count: int, limit: float, **options: Any) -> dict[str, Any]:
    """Kill a job over so many blobs at five random moments; return the report of the run that was not."""
    store = FileStore(folder / "store", durable=False)
    ids = fill(store, count)
    journal = folder / "journal"
    kills = 0
    # Two lines a blob and the first one: so many at the next kill, and later at each.
    for share in sorted(random.uniform(0.02, 0.9) for _ in range(5)):
        program = start(folder / "store", journal, **options)
        kills += kill_once_noted(program, lambda: lines_in(journal), int(2 * count * share), limit)
    report = report_of(start(folder / "store", journal), limit)

    assert kills >= 3  # a moment late in the job may come after its end
    assert counted(store, ids) == {1: count}
    assert report["earlier"] > 0
    return report


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_and_continued(tmp_path: Path, workers: int) -> None:
    """A job that SIGKILL has ended five times ends with every blob migrated exactly once, and a report that says so.

    The function counts in the state, and knows no versions: a second entry would show.
    """
    report = kill_five_times(tmp_path, 600, 60, rate=1500, workers=workers, batch_size=10)

    assert (report["changed"], report["unchanged"], report["failed"]) == (600, 0, 0)
    assert (report["looked_at"], report["stopped"]) == (600, None)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_hundred_thousand(tmp_path: Path) -> None:
    """So does one over 100,000 blobs, in less than 200 MB of memory."""
    report = kill_five_times(tmp_path, 100_000, 500)

    assert (report["changed"], report["unchanged"], report["failed"]) == (100_000, 0, 0)
    assert report["peak"] < 200 * MEGABYTE


def test_killed_with_a_journal_in_the_store(tmp_path: Path) -> None:
    """The same holds for a journal in the store, whose batches are noted together."""
    store = FileStore(tmp_path, durable=False)
    ids = fill(store, 300)
    slots = "journal/writing/"

    for count in (4, 11, 18):
        program = start(tmp_path, "key:journal", rate=1000, batch_size=10, workers=2)
        assert kill_once_noted(program, lambda: sum(1 for _ in store.list(slots)), count, 60)
    report = report_of(start(tmp_path, "key:journal"))

    assert counted(store, ids) == {1: 300}
    assert (report["changed"], report["unchanged"], report["looked_at"]) == (300, 0, 300)


def test_ctrl_c(tmp_path: Path) -> None:
    """SIGINT lets the blobs in hand be finished, notes them and reports; the next run does the rest."""
    store = FileStore(tmp_path / "store", durable=False)
    ids = fill(store, 300)
    journal = tmp_path / "journal"
    program = start(tmp_path / "store", journal, rate=200, batch_size=5)
    until = time.monotonic() + 30
    while lines_in(journal) < 40 and time.monotonic() < until:
        time.sleep(0.001)

    program.send_signal(signal.SIGINT)
    first = report_of(program)

    assert first["stopped"] == "interrupted"
    assert 0 < first["changed"] < 300
    assert counted(store, ids) == {1: first["changed"], 0: 300 - first["changed"]}
    assert lines_in(journal) == 1 + 2 * first["changed"]
    rest = report_of(start(tmp_path / "store", journal))
    assert (rest["changed"], rest["earlier"], rest["stopped"]) == (300, first["changed"], None)
    assert counted(store, ids) == {1: 300}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_second_ctrl_c(workers: int) -> None:
    """A second Ctrl-C raises at once, out of the blob in hand; what Ctrl-C does is then as it was before."""
    store = MapStore()
    fill(store, 20)

    def press(report: JobReport) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        MigrationJob(store, count_up, on_progress=press, batch_size=2, workers=workers).run()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_somebody_else_handles() -> None:
    """A handler that is there already keeps its job."""
    store = MapStore()
    fill(store, 4)
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        report = MigrationJob(
            store, count_up, on_progress=lambda _: signal.raise_signal(signal.SIGINT), batch_size=2
        ).run()
    finally:
        signal.signal(signal.SIGINT, before)

    assert (report.changed, report.stopped, pressed) == (4, None, [signal.SIGINT] * 2)


def test_stop_from_another_thread() -> None:
    """`stop` ends a run in another thread once the blobs in hand are done; the job can be run again."""
    store = MapStore()
    ids = fill(store, 10)
    barrier = Barrier()

    def migrate(state: Any) -> tuple[Any, bool]:
        if state["qty"] == 3 and state["entries"] == 0:
            barrier.wait()
        return count_up(state) if not state["entries"] else (state, False)

    job = MigrationJob(store, migrate)
    reports: list[JobReport] = []
    thread = threading.Thread(target=lambda: reports.append(job.run()))
    thread.start()
    assert barrier.reached.wait(20)
    job.stop()
    barrier.opened.set()
    thread.join(20)

    assert [(report.changed, report.stopped) for report in reports] == [(4, "interrupted")]
    again = job.run()
    assert (again.changed, again.unchanged, again.stopped) == (6, 4, None)
    assert counted(store, ids) == {1: 10}
