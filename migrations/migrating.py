"""What a migration job does with each blob: read, select, bring up, keep the original, replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from blobcp.codec import Envelope, Header, Serializer, read_header
from blobcp.errors import CheckpointVersionError

from .access import Access, digest
from .backup import Backup
from .batches import Write
from .chain import Migrations
from .differences import sample_of
from .dropped import Dropped
from .one_blob import Migrate, migrate_checkpoint_state
from .outcome import Intent, Outcome

__all__ = ["ByChain", "ByFunction", "MigrateTask", "Way", "name_of"]


class Brought(NamedTuple):
    """What becomes of a blob: what is to be stored, whether it is another one, and what was dropped."""

    blob: bytes
    changed: bool
    dropped: Sequence[Dropped] = ()


class Way(Protocol):
    """How one blob is brought up."""

    serializer: Serializer
    envelope: Envelope

    def apply(self, id: str, blob: bytes) -> Brought:
        """Return what becomes of a blob."""
        ...

    def describe(self) -> str:
        """Return what tells this way from others, for a journal."""
        ...


@dataclass(kw_only=True)
class ByChain:
    """By the steps from version to version."""

    migrations: Migrations
    serializer: Serializer
    envelope: Envelope

    def apply(self, id: str, blob: bytes) -> Brought:
        """Return what becomes of a blob. Raises as `Migrations.apply` does."""
        done = self.migrations.apply(blob, serializer=self.serializer, envelope=self.envelope, checkpoint_id=id)
        return Brought(done.blob, done.changed, done.dropped)

    def describe(self) -> str:
        """Return the versions."""
        return repr(self.migrations)


@dataclass(kw_only=True)
class ByFunction:
    """By a function for states, as `migrate_checkpoint_state` does."""

    function: Migrate
    interrupt_states: Migrate | None
    state_version: int | None
    raw: bool
    serializer: Serializer
    envelope: Envelope

    def apply(self, id: str, blob: bytes) -> Brought:
        """Return what becomes of a blob. Raises as `migrate_checkpoint_state` does, and for blobs of a later version."""
        if self.state_version is not None and self._has_version(id, blob, self.state_version):
            return Brought(blob, changed=False)
        new = migrate_checkpoint_state(
            blob,
            self.function,
            serializer=self.serializer,
            envelope=self.envelope,
            state_version=self.state_version,
            interrupt_states=self.interrupt_states,
            raw=self.raw,
            checkpoint_id=id,
        )
        return Brought(new, changed=new is not blob)

    def _has_version(self, id: str, blob: bytes, target: int) -> bool:
        header, _ = self.envelope.open(blob, checkpoint_id=id)
        if header.state_version > target:
            raise CheckpointVersionError(
                f"checkpoint {id!r} has state version {header.state_version}, which is newer than state_version={target} of "
                "this job; what is stored was not changed",
                checkpoint_id=id,
            )
        return header.state_version == target

    def describe(self) -> str:
        """Return the names of the functions and the version."""
        functions = name_of(self.function), name_of(self.interrupt_states)
        return f"{' and '.join(filter(None, functions))}, state_version={self.state_version}, raw={self.raw}"


@dataclass(kw_only=True)
class MigrateTask:
    """Brings one blob after the other up.

    Attributes:
        access: the store.
        way: how.
        where: selects by the header; ``None`` for all.
        dry_run: whether nothing is to be written.
        backup: where the originals are kept; ``None`` for nowhere.
    """

    access: Access
    way: Way
    where: Callable[[Header], bool] | None
    dry_run: bool
    backup: Backup | None

    def plan(self, id: str, intent: Intent | None, *, sample: bool) -> Outcome | Write:
        """Read a blob and say what it is to become. Raises what keeps it as it is."""
        found = self.access.read(id)
        blob = found.blob
        if blob is None:
            return Outcome(id=id, became="missing")
        if intent is not None and digest(blob) == intent.digest:
            return intent.outcome
        if self.where is not None and not self.where(read_header(blob, checkpoint_id=id)):
            return Outcome(id=id, became="skipped", read=len(blob))
        new = self.way.apply(id, blob)
        if not new.changed:
            return Outcome(id=id, became="unchanged", read=len(blob))
        outcome = Outcome(
            id=id, became="changed", read=len(blob), written=0 if self.dry_run else len(new.blob), dropped=new.dropped
        )
        if not self.dry_run:
            return Write(id, new.blob, found, outcome)
        if sample:
            outcome.sample = sample_of(id, blob, new.blob, self.way.serializer, self.way.envelope)
        return outcome

    def write(self, write: Write) -> None:
        """Keep the original and replace it. Raises as a store does."""
        if self.backup is not None and write.found.blob is not None:
            self.backup.keep(write.id, write.found.blob)
        self.access.write(write.id, write.blob, write.found, late=write.late)


def name_of(function: Any) -> str:
    """Return what tells a function from others, also in another process; a filter says itself what it is."""
    if function is None:
        return ""
    if hasattr(function, "__qualname__"):
        return f"{function.__module__}.{function.__qualname__}"
    return repr(function) if "__repr__" in vars(type(function)) else type(function).__qualname__
