"""A migration of all blobs of a store, or of those that are picked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Executor
from dataclasses import replace
from typing import Literal

from blobcp.codec import Envelope, Header, MsgpackSerializer, Serializer
from blobcp.errors import OptionError
from blobcp.store import CheckPointStore

from .access import Access, checked_ids, listed
from .backup import Backup, restore_all
from .chain import Migrations
from .engine import run_job
from .journal import Journal
from .journal_store import StoreJournal
from .migrating import ByChain, ByFunction, MigrateTask, Way, name_of
from .one_blob import Migrate
from .options import Options
from .pace import Stop
from .report import JobReport

__all__ = ["MigrationJob"]


class MigrationJob:
    """Bring the stored checkpoints up, in place, with a report.

    A blob that fails stays byte for byte as it is, and the others go on. A blob that is of the version of today, and the mark
    of a finished run, are left alone, so a job can be run as often as one likes. Where the store has compare-and-set, a run
    that saves meanwhile wins, and its new blob is brought up instead; elsewhere what is written last stays, so stop the runs.

    >>> from blobcp import Checkpoint, Envelope, Header, MsgpackSerializer
    >>> from blobcp.stores import MapStore
    >>> store = MapStore()
    >>> body = MsgpackSerializer().dumps(Checkpoint(state={"qty": 3}))
    >>> store.set("order-17", Envelope().seal(Header(checkpoint_id="order-17", status="interrupted"), body))
    >>> def rename(state):
    ...     return ({"quantity": state["qty"]}, True) if "qty" in state else (state, False)
    >>> report = MigrationJob(store, rename, dry_run=True).run()
    >>> print(report.samples[0])
    order-17
      - state['qty'] = 3
      + state['quantity'] = 3
    >>> print(str(MigrationJob(store, rename).run()).splitlines()[0])
    1 migrated, 0 current, 0 failed
    """

    def __init__(
        self,
        store: CheckPointStore,
        migrate: Migrations | Migrate,
        *,
        serializer: Serializer | None = None,
        envelope: Envelope | None = None,
        ids: Iterable[str] | None = None,
        prefix: str = "",
        where: Callable[[Header], bool] | None = None,
        state_version: int | None = None,
        interrupt_states: Migrate | None = None,
        raw: bool = False,
        dry_run: bool = False,
        samples: int = 3,
        workers: int = 1,
        executor: Executor | None = None,
        batch_size: int = 32,
        journal: str | os.PathLike[str] | Journal | None = None,
        backup: str | CheckPointStore | None = None,
        on_error: Literal["skip", "stop"] = "skip",
        rate: float | None = None,
        tries: int = 5,
        progress: bool | Literal["auto"] = False,
        total: int | None = None,
        on_progress: Callable[[JobReport], None] | None = None,
    ) -> None:
        """Say what is to be done; nothing is read or written yet.

        Args:
            store: where the blobs are.
            migrate: a chain of versions, or a function ``state -> (state, changed)`` as `migrate_checkpoint_state` takes it.
            serializer: the one that the blobs were written by; ``None``: a `MsgpackSerializer`.
            envelope: the one that they were sealed by; ``None``: an `Envelope` with its defaults.
            ids: which blobs; any iterable, read as it is needed. ``None``: those that the store lists.
            prefix: where the store lists, only ids that begin with it.
            where: only blobs whose header it is true for; see `HeaderFilter`.
            state_version: for a function, the version to stamp blobs with; those that have it are left alone.
            interrupt_states: for a function, the one for what nodes that stopped have kept for themselves.
            raw: for a function, whether it gets `RawValue`s.
            dry_run: only say what would be done. Nothing is written, neither backup nor journal.
            samples: of how many blobs a dry run keeps the differences.
            workers: how many threads do the work; with an executor, how many workers it has, if more than there are CPUs.
            executor: does the work: threads, processes, a Dask client's ``get_executor()``. Workers read and write
                themselves, so what is not of threads needs a store that other processes can open.
            batch_size: how many blobs a worker is given at a time.
            journal: a file, or a `StoreJournal`, from which the job goes on where it was stopped.
            backup: keeps the original of each blob that is changed: under its id with this suffix, or in this other store.
            on_error: ``"skip"`` leaves a blob that fails and goes on; ``"stop"`` ends the job once the blobs in hand are done.
            rate: at most so many blobs a second.
            tries: how often a blob is read anew because a run has saved it meanwhile, before it fails.
            progress: whether to show on stderr how far it is (extra ``cli``); ``"auto"``: where that is a terminal.
            total: how many blobs there are, for the time left, where ``ids`` has no length.
            on_progress: called with the report so far after each batch.

        Raises:
            OptionError: one of these can't be carried out.
        """
        self._access = Access(store)
        self._way = _way(migrate, serializer, envelope, state_version, interrupt_states, raw)
        self._where = where
        self._prefix = prefix
        self._ids = checked_ids(store, ids, prefix)
        self._ids_are_read = False
        self._backup = None if backup is None else Backup.of(store, backup)
        self._dry_run = dry_run
        self._stop = Stop()
        self._options = Options(
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
            samples=samples if dry_run else 0,
        )

    def run(self) -> JobReport:
        """Do it. Ctrl-C, or `stop`, lets the blobs in hand be finished, and the report says so; a second Ctrl-C raises.

        What is wrong with a blob is in the report and raises nothing.

        Raises:
            OptionError: the job can't be sent to the executor, an id is no text, the journal is that of another job, or the
                ids were an iterator, which an earlier run has read.
            StoreError: the journal failed, or the listing.
            MigrationError: the executor failed.
        """
        given = self._ids_once_more()
        task = MigrateTask(
            access=self._access,
            way=self._way,
            where=self._where,
            dry_run=self._dry_run,
            backup=self._backup,
        )
        job = {
            "kind": "migrate",
            "migrate": self._way.describe(),
            "ids": "listed" if given is None else "given",
            "prefix": self._prefix,
            "where": name_of(self._where),
        }
        store, report = self._access.store, JobReport(kind="migrate", dry_run=self._dry_run)
        ids = listed(store, self._prefix) if given is None else given
        try:
            return run_job(ids, task, self._options, report, self._stop, job, self._is_other)
        finally:
            self._stop = Stop()

    def stop(self) -> None:
        """Let `run` end once the blobs in hand are finished; for other threads and for handlers of signals."""
        self._stop.request("interrupted")

    def restore(self, *, force: bool = False) -> JobReport:
        """Put the originals back that the job has kept, with the options of the job; see `blobcp.migrations.restore`.

        Args:
            force: also over runs that have moved on since.

        Raises:
            OptionError: the job keeps no backup, nobody can list the ids, or they were an iterator, which the run has read.
            StoreError: the listing failed.
            MigrationError: the executor failed.
        """
        if self._backup is None:
            raise OptionError("the job keeps no originals that could be put back; give it backup=")
        options = replace(self._options, journal=None, samples=0)
        return restore_all(
            self._access, self._backup, self._ids_once_more(), self._prefix, options, force=force, dry_run=self._dry_run
        )

    def _ids_once_more(self) -> Iterable[str] | None:
        """Return the ids that were given. What can be read only once would be no ids the second time, without a word."""
        if self._ids_are_read and isinstance(self._ids, Iterator):
            raise OptionError(
                "the ids were an iterator, which this job has read to its end or part of the way; give a list, or make "
                "another job with new ids (or call restore() of blobcp.migrations, which finds the originals itself)"
            )
        self._ids_are_read = True
        return self._ids

    def _is_other(self, id: str) -> bool:
        """Tell whether an id is that of a backup, or of the job's journal."""
        journal, backup = self._options.journal, self._backup
        if backup is not None and backup.suffix and id.endswith(backup.suffix):
            return True
        return isinstance(journal, StoreJournal) and journal.owns(self._access.store, id)


def _way(
    migrate: Migrations | Migrate,
    serializer: Serializer | None,
    envelope: Envelope | None,
    state_version: int | None,
    interrupt_states: Migrate | None,
    raw: bool,
) -> Way:
    serializer = MsgpackSerializer() if serializer is None else serializer
    envelope = Envelope() if envelope is None else envelope
    if isinstance(migrate, Migrations):
        if state_version is not None or interrupt_states is not None or raw:
            raise OptionError(
                "state_version, interrupt_states and raw are for a function; a chain of Migrations says these itself"
            )
        migrate.check(serializer)
        return ByChain(migrations=migrate, serializer=serializer, envelope=envelope)
    if not callable(migrate):
        raise OptionError(f"{migrate!r} can't migrate; give Migrations, or a function state -> (state, changed)")
    if state_version is not None and (type(state_version) is not int or state_version < 0):
        raise OptionError(f"state_version={state_version!r} is no version; give an int, or None to leave it as it is")
    return ByFunction(
        function=migrate,
        interrupt_states=interrupt_states,
        state_version=state_version,
        raw=raw,
        serializer=serializer,
        envelope=envelope,
    )
