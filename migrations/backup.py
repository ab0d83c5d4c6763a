"""The originals of migrated blobs: kept as they were, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, Self

from blobcp.codec import read_header
from blobcp.errors import CheckpointConflictError, CheckpointError, CheckpointMismatchError, OptionError
from blobcp.store import CheckPointStore

from .access import Access, checked_ids, listed
from .batches import Write
from .engine import run_job
from .options import Options
from .outcome import Intent, Outcome
from .pace import Stop
from .report import JobReport

__all__ = ["Backup", "restore", "restore_all"]


@dataclass(frozen=True)
class Backup:
    """Where originals are: in a store, under their ids with a suffix.

    Attributes:
        access: the store.
        suffix: what is behind an id there; empty in a store of their own.
    """

    access: Access
    suffix: str

    @classmethod
    def of(cls, store: CheckPointStore, backup: str | CheckPointStore) -> Self:
        """Return what a user means by a suffix or another store.

        Raises:
            OptionError: it is neither.
        """
        if isinstance(backup, str):
            if not backup:
                raise OptionError("backup='' would put originals in their own places; give a suffix, or another store")
            return cls(Access(store), backup)
        if backup is store:
            raise OptionError("backup= is the store itself; give another store, or a suffix for the ids")
        return cls(Access(backup), "")

    def keep(self, id: str, blob: bytes) -> None:
        """Keep the original of a blob, in place of an older one."""
        self.access.store.set(id + self.suffix, blob)

    def original(self, id: str) -> bytes | None:
        """Return the original of a blob."""
        return self.access.store.get(id + self.suffix)

    def ids(self, prefix: str) -> Iterator[str]:
        """Yield the ids of the blobs whose originals are kept."""
        kept = listed(self.access.store, prefix)
        return (id.removesuffix(self.suffix) for id in kept if id.endswith(self.suffix))


@dataclass(kw_only=True)
class RestoreTask:
    """Puts one original after the other back.

    Attributes:
        access: the store.
        backup: where the originals are.
        force: whether also over a run that has moved on.
        dry_run: whether nothing is to be written.
    """

    access: Access
    backup: Backup
    force: bool
    dry_run: bool

    def plan(self, id: str, intent: Intent | None, *, sample: bool) -> Outcome | Write:
        """Read original and blob and compare their headers. Raises what keeps the original from being put back."""
        original = self.backup.original(id)
        if original is None:
            return Outcome(id=id, became="missing")
        found = self.access.read(id)
        if found.blob == original:
            return Outcome(id=id, became="unchanged", read=len(original))
        _check_is_of(id, original)
        if not self.force:
            _check_not_moved_on(id, original, found.blob)
        outcome = Outcome(id=id, became="changed", read=len(original), written=0 if self.dry_run else len(original))
        return outcome if self.dry_run else Write(id, original, found, outcome)

    def write(self, write: Write) -> None:
        """Put an original back. Raises as a store does."""
        self.access.write(write.id, write.blob, write.found, late=write.late)


def restore(
    store: CheckPointStore,
    backup: str | CheckPointStore,
    *,
    ids: Iterable[str] | None = None,
    prefix: str = "",
    force: bool = False,
    dry_run: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    batch_size: int = 32,
    on_error: Literal["skip", "stop"] = "skip",
    rate: float | None = None,
    progress: bool | Literal["auto"] = False,
    total: int | None = None,
    on_progress: Callable[[JobReport], None] | None = None,
) -> JobReport:
    """Put back what a job with ``backup=`` has kept; the backup stays.

    A run that has saved since the job, or whose blob was deleted, is left alone and listed as a failure.

    Args:
        store: where the blobs are.
        backup: the suffix or the store that the job was given.
        ids: which blobs, by their own ids; ``None``: those of the backup, as it lists them.
        prefix: only ids that begin with it.
        force: put originals back also over runs that have moved on since. What those have done is lost.
        dry_run: only say what would be done.
        workers: as for `MigrationJob`, and so are all that follow.
        executor: does the work.
        batch_size: how many blobs a worker is given at a time.
        on_error: ``"skip"`` or ``"stop"``.
        rate: at most so many blobs a second.
        progress: whether to show how far it is.
        total: how many blobs there are.
        on_progress: called with the report so far.

    Raises:
        OptionError: one of these can't be carried out, or the backup can't list and there are no ids.
        StoreError: the listing failed.
        MigrationError: the executor failed.
    """
    options = Options(
        workers=workers,
        executor=executor,
        batch_size=batch_size,
        on_error=on_error,
        rate=rate,
        progress=progress,
        total=total,
        on_progress=on_progress,
    )
    return restore_all(Access(store), Backup.of(store, backup), ids, prefix, options, force=force, dry_run=dry_run)


def restore_all(
    access: Access,
    backup: Backup,
    ids: Iterable[str] | None,
    prefix: str,
    options: Options,
    *,
    force: bool,
    dry_run: bool,
) -> JobReport:
    """Put originals back; see `restore`."""
    given = checked_ids(backup.access.store, ids, prefix)
    task = RestoreTask(access=access, backup=backup, force=force, dry_run=dry_run)
    report = JobReport(kind="restore", dry_run=dry_run)
    return run_job(backup.ids(prefix) if given is None else given, task, options, report, Stop(), {}, _is_none)


def _is_none(id: str) -> bool:
    return False


def _check_is_of(id: str, original: bytes) -> None:
    """Refuse, however much it is forced, what only looks like an original: a run whose id happens to end with the suffix."""
    sealed_for = read_header(original, checkpoint_id=id).checkpoint_id
    if sealed_for != id:
        raise CheckpointMismatchError(
            f"what the backup has for {id!r} is no original of it but a checkpoint of {sealed_for!r}, and was not put in its "
            "place; restore with ids=, or another prefix",
            checkpoint_id=id,
        )


def _check_not_moved_on(id: str, original: bytes, blob: bytes | None) -> None:
    """Refuse where what is stored is not what a migration makes of the original: each save has a time of its own."""
    if blob is None:
        problem = "was deleted since"
    else:
        try:
            now = _save_of(blob, id)
        except CheckpointError as error:
            raise CheckpointConflictError(
                f"checkpoint {id!r} is no blob any more ({error}); restore it with force=True", checkpoint_id=id
            ) from error
        if now == _save_of(original, id):
            return
        problem = "has moved on since"
    raise CheckpointConflictError(
        f"checkpoint {id!r} {problem}, and its original was not put back; to do it all the same, restore with force=True",
        checkpoint_id=id,
    )


def _save_of(blob: bytes, id: str) -> tuple[Any, ...]:
    """Return the fields of a header that no migration changes and every save does."""
    header = read_header(blob, checkpoint_id=id)
    return header.run_id, header.step, header.created_at, header.status, header.parent, header.graph
