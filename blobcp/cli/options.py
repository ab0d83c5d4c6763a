"""Arguments and options that several commands share, and the examples below each command's help."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .keys import VARIABLE
from .texts import duration

__all__ = [
    "AsJson",
    "DryRun",
    "Graphs",
    "Id",
    "KeyFile",
    "Newer",
    "Older",
    "OnlyPrefix",
    "Prefix",
    "StatusName",
    "Statuses",
    "Url",
    "Workers",
    "examples",
]


class StatusName(StrEnum):
    """What ``--status`` takes."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


def examples(*lines: str) -> str:
    """Return lines as they are to stand below a command's help; the first one has them left as they are."""
    return "\n".join(["\b", "Examples:", *(f"  blobcp {line}" for line in lines)])


def _duration(text: str | timedelta) -> timedelta:
    try:
        return duration(text) if isinstance(text, str) else text
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Url = Annotated[str, typer.Argument(metavar="URL", help="The store, such as file:./dir.", show_default=False)]
Id = Annotated[str, typer.Argument(metavar="ID", help="The checkpoint id.", show_default=False)]
Prefix = Annotated[str, typer.Argument(metavar="PREFIX", help="Only ids that begin with this.", show_default=False)]
OnlyPrefix = Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Only ids that begin with this.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Statuses = Annotated[list[StatusName] | None, typer.Option("--status", help="Only runs of this status; repeatable.")]
Graphs = Annotated[
    list[str] | None, typer.Option("--graph", metavar="NAME", help="Only runs of this graph; repeatable.")
]
Older = Annotated[
    timedelta | None,
    typer.Option("--older", parser=_duration, metavar="TIME", help="Only those written longer ago, such as 7d or 12h."),
]
Newer = Annotated[
    timedelta | None, typer.Option("--newer", parser=_duration, metavar="TIME", help="Only those written since then.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help=f"Keys of encrypted or signed blobs, id=hex on each line; else those in the variable {VARIABLE}.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, metavar="N", help="How many blobs are read at once.")]
