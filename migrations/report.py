"""What a job has done, counted; its size does not grow with the number of blobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from .differences import Sample
from .dropped import Dropped
from .outcome import Outcome
from .texts import printable

__all__ = ["MAX_LISTED", "Failure", "JobReport"]

MAX_LISTED: Final = 1000
"""How many failures, and how many kinds of what was dropped, a report lists; a journal has them all."""

_SHOWN: Final = 10

_WORDS: Final = {
    ("migrate", False): ("migrated", "current"),
    ("migrate", True): ("to migrate", "current"),
    ("copy", False): ("copied", "there already"),
    ("copy", True): ("to copy", "there already"),
    ("restore", False): ("restored", "as in the backup"),
    ("restore", True): ("to restore", "as in the backup"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A blob that was left as it was.

    Attributes:
        id: its id.
        reason: why, in words.
        path: where in it: the node keys on the way to a graph, or the way to a value; empty for the whole.
        error: the class of the exception.
    """

    id: str
    reason: str
    path: str
    error: str

    def __str__(self) -> str:
        return printable(f"{self.id}: {self.reason}")


@dataclass(kw_only=True)
class JobReport:
    """What a job has done, with what its earlier runs did where it has a journal.

    Attributes:
        kind: ``migrate``, ``copy`` or ``restore``.
        dry_run: whether nothing was written; ``changed`` is then what would be.
        changed: blobs that are others now: migrated, copied, put back.
        unchanged: blobs that needed nothing.
        failed: blobs that were left as they were because of an error.
        skipped: blobs that the filter did not select.
        missing: ids that nothing was stored under.
        earlier: how many of these an earlier run of the job has dealt with.
        conflicts: how often a live run wrote a blob while it was in hand, so that it was read again.
        failures: the first 1,000 of those that failed.
        dropped: what the migration has dropped, the same things of all blobs together; the first 1,000 kinds.
        dropped_blobs: how many blobs something was dropped from.
        samples: of a dry run, the differences it would make to the first blobs.
        bytes_read: what was read of blobs.
        bytes_written: what was written in their places.
        seconds: how long this run took.
        stopped: ``None`` where it came to its end; ``interrupted`` by Ctrl-C or ``stop()``; ``failure`` with
            ``on_error="stop"``.
    """

    kind: str
    dry_run: bool = False
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    skipped: int = 0
    missing: int = 0
    earlier: int = 0
    conflicts: int = 0
    failures: list[Failure] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    dropped_blobs: int = 0
    samples: list[Sample] = field(default_factory=list)
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    stopped: str | None = None
    _place_of: dict[Dropped, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def looked_at(self) -> int:
        """How many blobs it is about: all counts together."""
        return self.changed + self.unchanged + self.failed + self.skipped + self.missing

    def add(self, outcome: Outcome) -> None:
        """Count what became of one blob."""
        setattr(self, outcome.became, getattr(self, outcome.became) + 1)
        self.bytes_read += outcome.read
        self.bytes_written += outcome.written
        self.conflicts += outcome.conflicts
        if outcome.became == "failed" and len(self.failures) < MAX_LISTED:
            self.failures.append(Failure(outcome.id, outcome.reason, outcome.path, outcome.error))
        if outcome.sample is not None:
            self.samples.append(outcome.sample)
        if outcome.dropped:
            self.dropped_blobs += 1
            for item in outcome.dropped:
                self._drop(item)

    def _drop(self, item: Dropped) -> None:
        kind = replace(item, count=0)
        place = self._place_of.get(kind)
        if place is not None:
            known = self.dropped[place]
            self.dropped[place] = replace(known, count=known.count + item.count)
        elif len(self.dropped) < MAX_LISTED:
            self._place_of[kind] = len(self.dropped)
            self.dropped.append(item)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        changed, unchanged = _WORDS[self.kind, self.dry_run]
        counts = [f"{self.changed:,} {changed}", f"{self.unchanged:,} {unchanged}", f"{self.failed:,} failed"]
        counts += [
            f"{count:,} {what}" for count, what in ((self.skipped, "skipped"), (self.missing, "missing")) if count
        ]
        lines = [", ".join(counts)]
        if self.stopped:
            lines.append("stopped early: " + ("by a failure" if self.stopped == "failure" else self.stopped))
        if self.earlier:
            lines.append(f"{self.earlier:,} of them by earlier runs")
        if self.conflicts:
            lines.append(f"{self.conflicts:,} times a live run moved on meanwhile")
        speed = f", {(self.looked_at - self.earlier) / self.seconds:,.0f} blobs/s" if self.seconds else ""
        lines.append(f"{self.bytes_read:,} bytes read, {self.bytes_written:,} written, {self.seconds:.1f} s{speed}")
        lines += _listed("failed", [str(failure) for failure in self.failures], self.failed)
        lines += _listed("dropped", [str(item) for item in self.dropped], len(self.dropped))
        return lines


def _listed(title: str, items: list[str], count: int) -> list[str]:
    if not items:
        return []
    rest = [f"  and {count - _SHOWN:,} more"] if count > _SHOWN else []
    return [f"{title}:", *(f"  {item}" for item in items[:_SHOWN]), *rest]
