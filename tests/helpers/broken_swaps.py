"""Stores that break what comparing and setting promises."""

from __future__ import annotations

from good_store import GoodStore, conflict

from blobcp.errors import CheckpointConflictError

__all__ = [
    "ChecksThenWrites",
    "ConflictsByRuntimeError",
    "ConflictsWithoutId",
    "CreatesOver",
    "IgnoresVersion",
    "PlainSetKeepsVersion",
    "RecreatesByVersion",
    "VersionIsLength",
    "VersionIsNumber",
    "VersionOfAnother",
    "VersionStartsAnew",
    "WritesThenChecks",
]


class ChecksThenWrites(GoodStore):
    """Compares and sets in two steps."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        key, blob = self.key(checkpoint_id), self.taken(checkpoint)
        entry = self.find(key)
        if (entry[1] if entry else None) != version:
            raise conflict(checkpoint_id)
        return self.keep(key, blob, None)


class IgnoresVersion(GoodStore):
    """Writes whatever the version."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        return self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)


class CreatesOver(GoodStore):
    """Takes None for any version."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        if version is None:
            return self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)
        return super().set_if(checkpoint_id, checkpoint, version)


class WritesThenChecks(GoodStore):
    """Changes what is stored and then says that it was not allowed to."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        found = self.get_versioned(checkpoint_id)
        self.set(checkpoint_id, checkpoint)
        if (found[1] if found else None) != version:
            raise conflict(checkpoint_id)
        return self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)


class RecreatesByVersion(GoodStore):
    """Takes any version where nothing is stored."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        nothing = self.get(checkpoint_id) is None
        return super().set_if(checkpoint_id, checkpoint, None if nothing else version)


class VersionIsLength(GoodStore):
    """Takes blobs of one length for equal."""

    def version(self, key: str, blob: bytes) -> str:
        return str(len(blob))


class VersionStartsAnew(GoodStore):
    """Counts the writes of an id, from 1 again once it was deleted."""

    def version(self, key: str, blob: bytes) -> str:
        entry = self.find(key)
        return str(int(entry[1]) + 1 if entry else 1)


class VersionIsNumber(GoodStore):
    """Gives a version that is no str."""

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        found = super().get_versioned(checkpoint_id)
        return (found[0], int(found[1])) if found else None  # type: ignore[return-value]


class VersionOfAnother(GoodStore):
    """Returns another version than is stored."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        return super().set_if(checkpoint_id, checkpoint, version) + "0"


class PlainSetKeepsVersion(GoodStore):
    """Counts only conditional writes."""

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        key, blob = self.key(checkpoint_id), self.taken(checkpoint)
        with self.disk.lock:
            entry = self.find(key)
            self.keep(key, blob, None)
            if entry:
                self.disk.entries[key] = (blob, entry[1], None)


class ConflictsByRuntimeError(GoodStore):
    """Says of a conflict what nobody expects."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        try:
            return super().set_if(checkpoint_id, checkpoint, version)
        except CheckpointConflictError as error:
            raise RuntimeError("row was changed") from error


class ConflictsWithoutId(GoodStore):
    """Does not say what the conflict is about."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        try:
            return super().set_if(checkpoint_id, checkpoint, version)
        except CheckpointConflictError as error:
            raise CheckpointConflictError("somebody else was first") from error
