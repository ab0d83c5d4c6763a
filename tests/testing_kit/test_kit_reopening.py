from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from broken_times import LosesSomeAtOpening
from good_store import Disk, GoodStore

from blobcp.stores import MapStore
from blobcp.testing import Outcome, Report, check_store

QUICK: dict[str, Any] = {"large": 1000, "rounds": 3, "many": 20, "examples": 3, "ttl": 0.2}


class Closing(GoodStore):
    """Counts how often it was opened and closed; of some kinds only one may be open."""

    opened = closed = 0
    alone = False

    def __init__(self, disk: Disk) -> None:
        if self.alone and type(self).opened > type(self).closed:
            raise RuntimeError("locked by another process")
        super().__init__(disk)
        type(self).opened += 1

    def close(self) -> None:
        type(self).closed += 1


class Buffering(GoodStore):
    """Keeps what is stored to itself until it is closed."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(Disk(entries=dict(disk.entries), writes=disk.writes))
        self.outside, self.before = disk, dict(disk.entries)

    def close(self) -> None:
        if self.disk.entries != self.before:
            self.outside.entries = self.disk.entries


def outcomes(report: Report, capability: str) -> set[Outcome]:
    """Return what became of the checks of a capability."""
    return {result.outcome for result in report.results if result.capability == capability}


def reasons(report: Report, capability: str) -> set[str]:
    """Return what is said about the checks of a capability."""
    return {result.sentence for result in report.results if result.capability == capability}


@pytest.mark.parametrize(
    ("make_store", "reason"),
    [
        (MapStore, "make_store() opens a store that knows nothing of what was stored before"),
        (itertools.repeat(MapStore()).__next__, "make_store() returns the same object each time"),
    ],
    ids=["empty each time", "the same each time"],
)
def test_no_reopening(make_store: Callable[[], object], reason: str) -> None:
    """Where a second call of ``make_store`` can't show what the first one stored, reopening is not offered."""
    report = check_store(make_store, only=["reopening", "two at once"], **QUICK)

    assert reasons(report, "reopening") == reasons(report, "two at once") == {reason}
    assert report.failed == 0


def test_persistent_insists() -> None:
    """``persistent=True`` makes a failure of what would not be offered, and so does ``shared=True``."""
    report = check_store(MapStore, only=["reopening", "two at once"], persistent=True, shared=True, **QUICK)

    assert outcomes(report, "reopening") == outcomes(report, "two at once") == {Outcome.FAILED}


def test_persistent_and_shared_can_be_denied() -> None:
    """``False`` leaves the checks out, whatever the store can do."""
    disk = Disk()

    report = check_store(lambda: GoodStore(disk), persistent=False, shared=False, **QUICK)

    assert outcomes(report, "reopening") == outcomes(report, "two at once") == {Outcome.NOT_OFFERED}
    assert report.failed == 0


def test_some_lost_is_a_failure() -> None:
    """A store that loses a part of what it holds is not taken for one that starts empty."""
    disk = Disk()

    report = check_store(lambda: LosesSomeAtOpening(disk), only=["reopening"], **QUICK)

    assert Outcome.FAILED in outcomes(report, "reopening")


def test_what_is_seen_after_closing() -> None:
    """A store that shows to others only what it held when it was closed can be reopened, but not opened twice."""
    disk = Disk()

    report = check_store(lambda: Buffering(disk), only=["reopening", "two at once"], **QUICK)

    assert outcomes(report, "reopening") == {Outcome.PASSED}
    assert Outcome.FAILED in outcomes(report, "two at once")


def test_one_open_at_a_time() -> None:
    """A store of which only one can be open is reopened after closing; two at once is a failure that says so."""

    class Alone(Closing):
        opened = closed = 0
        alone = True

    disk = Disk()

    report = check_store(lambda: Alone(disk), **QUICK)

    assert outcomes(report, "reopening") == {Outcome.PASSED}
    assert {f.capability for f in report.failures} == {"two at once"}
    assert "RuntimeError: locked by another process; shared=False says" in report.failures[0].sentence
    assert Alone.opened == Alone.closed


def test_all_that_is_opened_is_closed() -> None:
    """Each opening is closed once; an object that is handed out again and again is left open."""

    class Counted(Closing):
        opened = closed = 0

    disk = Disk()
    check_store(lambda: Counted(disk), **QUICK)
    opened, closed = Counted.opened, Counted.closed
    mine = Counted(disk)
    check_store(lambda: mine, **QUICK)

    assert opened == closed > 2
    assert Counted.closed == closed
