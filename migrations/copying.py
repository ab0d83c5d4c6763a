"""All blobs of one store into another, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sized
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

from blobcp.codec import Header, read_header
from blobcp.errors import CheckpointConflictError, OptionError, StoreError
from blobcp.store import CheckPointStore

from .access import Access, checked_ids, digest, listed
from .batches import Write
from .engine import run_job
from .journal import Journal
from .journal_store import StoreJournal
from .migrating import name_of
from .options import Options
from .outcome import Intent, Outcome
from .pace import Stop
from .report import JobReport

__all__ = ["copy_store"]


@dataclass(kw_only=True)
class CopyTask:
    """Copies one blob after the other.

    Attributes:
        source: the store that is read.
        target: the store that is written.
        where: selects by the header; ``None`` for all, foreign bytes included.
        overwrite: whether other bytes in the target are replaced.
        verify: whether each copy is read back.
        dry_run: whether nothing is to be written.
    """

    source: Access
    target: Access
    where: Callable[[Header], bool] | None
    overwrite: bool
    verify: bool
    dry_run: bool

    def plan(self, id: str, intent: Intent | None, *, sample: bool) -> Outcome | Write:
        """Read a blob and what is in its place in the target. Raises where that is something else."""
        blob = self.source.store.get(id)
        if blob is None:
            return Outcome(id=id, became="missing")
        if self.where is not None and not self.where(read_header(blob, checkpoint_id=id)):
            return Outcome(id=id, became="skipped", read=len(blob))
        found = self.target.read(id)
        if found.blob is not None:
            if intent is not None and digest(found.blob) == intent.digest:
                return intent.outcome
            if found.blob == blob:
                return Outcome(id=id, became="unchanged", read=len(blob))
            if not self.overwrite:
                raise CheckpointConflictError(
                    f"the target has other bytes under {id!r}, which were not replaced; copy with overwrite=True",
                    checkpoint_id=id,
                )
        outcome = Outcome(id=id, became="changed", read=len(blob), written=0 if self.dry_run else len(blob))
        return outcome if self.dry_run else Write(id, blob, found, outcome)

    def write(self, write: Write) -> None:
        """Write a copy and read it back.

        Raises:
            StoreError: the target gives other bytes than it was given.
        """
        self.target.write(write.id, write.blob, write.found, late=write.late)
        if self.verify:
            there = self.target.store.get(write.id)
            if there is None or digest(there) != digest(write.blob):
                raise StoreError(
                    f"the copy of {write.id!r} is not what was written: the target gave "
                    f"{'nothing' if there is None else f'{len(there)} other bytes'} when it was read back; somebody else "
                    "writes there, or the store is broken"
                )


def copy_store(
    source: CheckPointStore,
    target: CheckPointStore,
    *,
    ids: Iterable[str] | None = None,
    prefix: str = "",
    where: Callable[[Header], bool] | None = None,
    overwrite: bool = False,
    verify: bool = True,
    dry_run: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    batch_size: int = 32,
    journal: str | os.PathLike[str] | Journal | None = None,
    on_error: Literal["skip", "stop"] = "skip",
    rate: float | None = None,
    tries: int = 5,
    progress: bool | Literal["auto"] = False,
    total: int | None = None,
    on_progress: Callable[[JobReport], None] | None = None,
) -> JobReport:
    """Copy blobs from one store to another, under the same ids and as they are, foreign bytes too; the source is only read.

    Blobs that are in the target already are left alone, so it can be run again. A blob that expires is copied for good.

    Args:
        source: the store to read.
        target: the store to write.
        ids: which blobs; any iterable, read as it is needed. ``None``: those that the source lists.
        prefix: where it lists, only ids that begin with it.
        where: only blobs whose header it is true for; see `HeaderFilter`. Foreign bytes, which have none, then fail.
        overwrite: replace other bytes that the target has under an id; if not, the id is a failure.
        verify: read each copy back and compare digests, for one more read.
        dry_run: only say what would be done.
        workers: as for `MigrationJob`, and so are all that follow.
        executor: does the work.
        batch_size: how many blobs a worker is given at a time.
        journal: a file, or a `StoreJournal`, from which the copy goes on where it was stopped.
        on_error: ``"skip"`` or ``"stop"``.
        rate: at most so many blobs a second.
        tries: how often a blob is read anew because somebody else writes it to the target meanwhile.
        progress: whether to show how far it is.
        total: how many blobs there are.
        on_progress: called with the report so far.

    Returns:
        A report: ``changed`` were copied, ``unchanged`` were there already.

    Raises:
        OptionError: one of these can't be carried out, or the journal is that of another job.
        StoreError: the journal failed, or the listing.
        MigrationError: the executor failed.

    >>> from blobcp.stores import MapStore
    >>> source, target = MapStore(), MapStore()
    >>> source.set("order-17", b"blob")
    >>> report = copy_store(source, target)
    >>> report.changed, target.get("order-17")
    (1, b'blob')
    """
    if source is target:
        raise OptionError("source and target are one store; give two")
    options = Options(
        workers=workers,
        executor=executor,
        batch_size=batch_size,
        journal=journal,
        on_error=on_error,
        rate=rate,
        tries=tries,
        progress=progress,
        total=len(ids) if total is None and isinstance(ids, Sized) else total,
        on_progress=on_progress,
    )
    given = checked_ids(source, ids, prefix)
    task = CopyTask(
        source=Access(source),
        target=Access(target),
        where=where,
        overwrite=overwrite,
        verify=verify,
        dry_run=dry_run,
    )
    job = {
        "kind": "copy",
        "ids": "listed" if given is None else "given",
        "prefix": prefix,
        "where": name_of(where),
        "overwrite": str(overwrite),
    }

    def is_other(id: str) -> bool:
        return isinstance(journal, StoreJournal) and journal.owns(source, id)

    report = JobReport(kind="copy", dry_run=dry_run)
    return run_job(listed(source, prefix) if given is None else given, task, options, report, Stop(), job, is_other)
