"""What the kit found out: one result a check, and the report that counts and prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from blobcp.errors import BlobcpError

__all__ = ["CheckResult", "FailedChecksError", "Outcome", "Report"]


class Outcome(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check and what became of it.

    Attributes:
        capability: what of a store it is about, for instance ``compare and set``.
        name: what should hold, for instance ``an unknown id is None``.
        outcome: passed, failed or not offered.
        sentence: what is wrong, or why the check was left out; empty where it passed.
        seconds: how long it took.
    """

    capability: str
    name: str
    outcome: Outcome
    sentence: str = ""
    seconds: float = 0.0


class FailedChecksError(BlobcpError, AssertionError):
    """A store failed checks; the message is the report.

    Attributes:
        report: the report.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Report:
    """The results of all checks of one store; ``str(report)`` is a table for people.

    Args:
        store: the name of the store's class.
        results: one a check, those of a capability next to each other.

    Attributes:
        store: as given.
        results: as given.

    >>> report = Report("DictStore", [CheckResult(capability="list", name="in order", outcome=Outcome.PASSED)])
    >>> report.passed, report.failed, report.not_offered
    (1, 0, 0)
    >>> print(report)
    DictStore: 1 passed, 0 failed, 0 not offered
      list  1 passed
    """

    def __init__(self, store: str, results: Sequence[CheckResult]) -> None:
        self.store = store
        self.results = tuple(results)

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return _count(self.results, Outcome.PASSED)

    @property
    def failed(self) -> int:
        """How many checks failed."""
        return _count(self.results, Outcome.FAILED)

    @property
    def not_offered(self) -> int:
        """How many checks were left out, since the store does not offer what they check."""
        return _count(self.results, Outcome.NOT_OFFERED)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The results of the checks that failed."""
        return tuple(result for result in self.results if result.outcome is Outcome.FAILED)

    def raise_for_failures(self) -> None:
        """Do nothing where no check failed.

        Raises:
            FailedChecksError: a check failed; it is an ``AssertionError`` too, and its message is the whole table.
        """
        if self.failed:
            raise FailedChecksError(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and all results as plain values, for JSON."""
        counts = {"passed": self.passed, "failed": self.failed, "not_offered": self.not_offered}
        return {"store": self.store, **counts, "results": [asdict(result) for result in self.results]}

    def __str__(self) -> str:
        lines = [f"{self.store}: {_summary(self.results, always=True)}"]
        width = max((len(result.capability) for result in self.results), default=0)
        for capability, found in groupby(self.results, key=lambda result: result.capability):
            results = [*found]
            lines.append(f"  {capability:<{width}}  {_summary(results)}")
            lines += [f"    FAILED {result.name}: {result.sentence}" for result in results if _failed(result)]
            # The same reason for many checks is said once.
            reasons = dict.fromkeys(result.sentence for result in results if result.outcome is Outcome.NOT_OFFERED)
            lines += [f"    not offered: {reason}" for reason in reasons]
        return "\n".join(lines)

    def __repr__(self) -> str:
        # A test runner shows this, shortened, for a bare assert.
        names = "; ".join(result.name for result in self.failures)
        return f"<Report on {self.store}: {self.passed} passed, {self.failed} failed{names and ': '}{names}>"


def _count(results: Sequence[CheckResult], outcome: Outcome) -> int:
    return sum(result.outcome is outcome for result in results)


def _failed(result: CheckResult) -> bool:
    return result.outcome is Outcome.FAILED


def _summary(results: Sequence[CheckResult], *, always: bool = False) -> str:
    counts = {outcome: _count(results, outcome) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count or always)
