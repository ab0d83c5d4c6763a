"""How far a job is, shown on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from blobcp.errors import MissingExtraError

from .report import JobReport

__all__ = ["Show", "showing"]

Show = Callable[[JobReport], None]


@contextmanager
def showing(asked: bool | Literal["auto"], kind: str, total: int | None) -> Iterator[Show]:
    """Give what shows a report on stderr: done, changed, failed, rate and, where the total is known, the time left.

    Args:
        asked: whether to; ``auto``: where stderr is a terminal and the library rich is there.
        kind: what the job does.
        total: how many blobs there are; ``None`` where nobody knows.

    Raises:
        MissingExtraError: it is asked for and rich is not installed.
    """
    if not asked or (asked == "auto" and not sys.stderr.isatty()) or not _has_rich(asked):
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(kind),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(kind, total=total, counts="")
        first: list[int] = []

        def show(report: JobReport) -> None:
            first[:] = first or [report.earlier]
            done = report.looked_at - first[0]
            rate = done / report.seconds if report.seconds else 0.0
            of = "" if total is None else f" of {total:,}"
            counts = f"{report.looked_at:,}{of}, {report.changed:,} changed, {report.failed:,} failed, {rate:,.0f}/s"
            progress.update(task, completed=report.looked_at, counts=counts)

        yield show


def _nothing(report: JobReport) -> None:
    pass


def _has_rich(asked: bool | Literal["auto"]) -> bool:
    try:
        import rich.progress  # noqa: F401 - to see whether it is there
    except ModuleNotFoundError as error:
        if asked == "auto":
            return False
        raise MissingExtraError(
            "progress=True needs rich, which is not installed; pip install 'blobcp[cli]'"
        ) from error
    return True
