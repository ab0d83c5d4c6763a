"""``blobcp copy``, ``migrate`` and ``restore``: work on all blobs of a store, by the jobs of `blobcp.migrations`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from blobcp.by_name import found
from blobcp.codec import Envelope, Serializer
from blobcp.errors import OptionError
from blobcp.migrations import HeaderFilter, JobReport, MigrationJob, Migrations, copy_store
from blobcp.migrations import restore as restore_originals
from blobcp.store import CheckPointStore

from .keys import SealedAsFound, read_keys
from .opening import opened
from .options import AsJson, DryRun, Graphs, KeyFile, Newer, Older, OnlyPrefix, Statuses, Url
from .output import put, put_json

__all__ = ["copy", "migrate", "restore"]

INTERRUPTED = 130


class OnError(StrEnum):
    """What ``--on-error`` takes."""

    SKIP = "skip"
    STOP = "stop"


Threads = Annotated[int, typer.Option("--workers", min=1, metavar="N", help="How many threads do the work.")]
Journal = Annotated[
    Path | None, typer.Option("--journal", metavar="FILE", help="From which a job that was stopped goes on.")
]
Failing = Annotated[OnError, typer.Option("--on-error", help="Whether a blob that fails ends the job.")]
Rate = Annotated[float | None, typer.Option("--rate", metavar="N", help="At most so many blobs a second.")]
Suffix = Annotated[
    str | None, typer.Option("--backup", metavar="SUFFIX", help="Keep originals under their ids with this suffix.")
]
BackupStore = Annotated[
    str | None, typer.Option("--backup-store", metavar="URL", help="Keep originals under their ids in this store.")
]


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy from.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="The store to copy to.", show_default=False)],
    prefix: OnlyPrefix = "",
    status: Statuses = None,
    graph: Graphs = None,
    older: Older = None,
    newer: Newer = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace other blobs in TO.")] = False,
    dry_run: DryRun = False,
    workers: Threads = 4,
    journal: Journal = None,
    on_error: Failing = OnError.SKIP,
    rate: Rate = None,
    json: AsJson = False,
) -> None:
    """Copy blobs to another store.

    They are copied as they are, and each copy is read back. What is in TO already stays; a blob there that is another
    one is a failure, unless --overwrite is given. The report goes to stdout. The exit status is 1 if a blob failed.
    """
    with opened(source) as reads, opened(target, make=True) as writes:
        report = copy_store(
            reads,
            writes,
            prefix=prefix,
            where=_filter(status, graph, older, newer),
            overwrite=overwrite,
            dry_run=dry_run,
            workers=workers,
            journal=journal,
            on_error=on_error.value,
            rate=rate,
            progress="auto",
        )
    _end(report, as_json=json)


def migrate(
    url: Url,
    migrations: Annotated[
        str, typer.Option("--with", metavar="MODULE:NAME", help="The Migrations, or a function for a state.")
    ],
    prefix: OnlyPrefix = "",
    status: Statuses = None,
    graph: Graphs = None,
    older: Older = None,
    newer: Newer = None,
    dry_run: DryRun = False,
    samples: Annotated[int, typer.Option(min=0, metavar="N", help="Blobs whose differences a dry run shows.")] = 3,
    workers: Threads = 1,
    journal: Journal = None,
    backup: Suffix = None,
    backup_store: BackupStore = None,
    on_error: Failing = OnError.SKIP,
    rate: Rate = None,
    state_version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="For a function: the version that blobs are stamped with.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="For a function: call it without the classes.")] = False,
    serializer: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="The serializer of the blobs, if not the default one.")
    ] = None,
    envelope: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="Seals all blobs so; else each one as it was.")
    ] = None,
    key_file: KeyFile = None,
    json: AsJson = False,
) -> None:
    """Bring the blobs of a store up, in place.

    By the migrations that a module of yours has; the current folder is looked in first. A blob that fails stays as it
    is. Runs that save meanwhile win. The report goes to stdout. The exit status is 1 if a blob failed, 130 where Ctrl-C
    ended the job.
    """
    steps: Any = found(migrations)
    if not isinstance(steps, Migrations) and not callable(steps):
        raise OptionError(
            f"{migrations} is a {type(steps).__name__}; name Migrations, or a function state -> (state, changed)"
        )
    with ExitStack() as stack:
        report = MigrationJob(
            stack.enter_context(opened(url)),
            steps,
            serializer=_serializer(serializer),
            envelope=_envelope(envelope, key_file),
            prefix=prefix,
            where=_filter(status, graph, older, newer),
            state_version=state_version,
            raw=raw,
            dry_run=dry_run,
            samples=samples,
            workers=workers,
            journal=journal,
            backup=_backup(stack, url, backup, backup_store, make=True),
            on_error=on_error.value,
            rate=rate,
            progress="auto",
        ).run()
    _end(report, as_json=json)


def restore(
    url: Url,
    backup: Suffix = None,
    backup_store: BackupStore = None,
    prefix: OnlyPrefix = "",
    force: Annotated[bool, typer.Option("--force", help="Also over runs that have moved on since.")] = False,
    dry_run: DryRun = False,
    workers: Threads = 1,
    on_error: Failing = OnError.SKIP,
    rate: Rate = None,
    json: AsJson = False,
) -> None:
    """Put originals back that migrate has kept.

    The exit status is 1 if a blob failed.
    """
    with ExitStack() as stack:
        store = stack.enter_context(opened(url))
        kept = _backup(stack, url, backup, backup_store)
        if kept is None:
            raise OptionError("say where the originals are: --backup SUFFIX or --backup-store URL")
        report = restore_originals(
            store,
            kept,
            prefix=prefix,
            force=force,
            dry_run=dry_run,
            workers=workers,
            on_error=on_error.value,
            rate=rate,
            progress="auto",
        )
    _end(report, as_json=json)


def _filter(status: Statuses, graph: Graphs, older: Older, newer: Newer) -> HeaderFilter | None:
    if not (status or graph) and older is None and newer is None:
        return None
    return HeaderFilter(status=status or None, graph=graph or None, older=older, newer=newer)


def _backup(
    stack: ExitStack, of: str, suffix: str | None, url: str | None, *, make: bool = False
) -> str | CheckPointStore | None:
    if suffix is not None and url is not None:
        raise OptionError("originals are kept in one place; give --backup or --backup-store")
    if url == of:
        raise OptionError("--backup-store is the store itself; name another one, or give --backup SUFFIX")
    return suffix if url is None else stack.enter_context(opened(url, make=make))


def _serializer(name: str | None) -> Serializer | None:
    if name is None:
        return None
    thing = found(name)
    if not isinstance(thing, Serializer):
        raise OptionError(f"{name} is a {type(thing).__name__}; name a serializer")
    return thing


def _envelope(name: str | None, key_file: Path | None) -> Envelope:
    if name is None:
        return SealedAsFound(read_keys(key_file))
    thing = found(name)
    if not isinstance(thing, Envelope):
        raise OptionError(f"{name} is a {type(thing).__name__}; name an Envelope")
    return thing


def _end(report: JobReport, *, as_json: bool) -> None:
    if as_json:
        shown = (field.name for field in fields(report) if not field.name.startswith("_"))
        put_json({name: msgspec.to_builtins(getattr(report, name)) for name in shown}, indent=2)
    else:
        put("\n".join([str(report), *map(str, report.samples)]))
    if report.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if report.failed or report.stopped:
        raise typer.Exit(1)
