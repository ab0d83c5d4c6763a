"""A store that keeps all promises, and many that break one each: what the conformance kit has to tell apart."""

from __future__ import annotations

import builtins
import fnmatch
import posixpath
import threading
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from urllib.parse import unquote

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import check_id

__all__ = ["BROKEN", "Disk", "GoodStore"]

ONE_ID = "of several who write one id at once one's blob is kept, and readers see nothing else"
RACE = "of several who replace what they saw at once exactly one wins, in each round"
DELETED = "a version from before a delete is refused, also once something else is stored"
EXPIRED = "what has expired has no version: it can be created, and not replaced"
NEXT_VERSION = "a version that one opening gave is not given by the next for other bytes"

Entry = tuple[bytes, str, float | None]
"""A blob, its version, and when it expires."""


@dataclass
class Disk:
    """What several openings of a store share."""

    entries: dict[str, Entry] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    writes: count[int] = field(default_factory=lambda: count(1))


class GoodStore:
    """A store with all optional powers; the broken ones override what they break."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def get(self, checkpoint_id: str) -> bytes | None:
        entry = self.find(self.key(checkpoint_id))
        return entry[0] if entry else None

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)

    def delete(self, checkpoint_id: str) -> None:
        with self.disk.lock:
            self.disk.entries.pop(self.key(checkpoint_id), None)

    def list(self, prefix: str = "") -> Iterator[str]:
        with self.disk.lock:
            return iter(sorted(key for key in self.disk.entries if key.startswith(prefix) and self.find(key)))

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        entry = self.find(self.key(checkpoint_id))
        return entry[:2] if entry else None

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        key, blob = self.key(checkpoint_id), self.taken(checkpoint)
        with self.disk.lock:
            entry = self.find(key)
            if (entry[1] if entry else None) != version:
                raise conflict(checkpoint_id)
            return self.keep(key, blob, None)

    def set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        if ttl <= timedelta(0):
            raise StoreError("no time to live")
        self.keep(self.key(checkpoint_id), self.taken(checkpoint), time.monotonic() + self.seconds(ttl))

    def key(self, checkpoint_id: str) -> str:
        """Return what stands for the id on the disk."""
        return check_id(checkpoint_id)

    def taken(self, checkpoint: bytes) -> bytes:
        """Return what of a blob is kept."""
        if not isinstance(checkpoint, bytes | bytearray | memoryview):
            raise StoreError("not bytes")
        return bytes(checkpoint)

    def seconds(self, ttl: timedelta) -> float:
        """Return how long a blob is kept."""
        return ttl.total_seconds()

    def find(self, key: str) -> Entry | None:
        """Return what is there and has not expired."""
        with self.disk.lock:
            entry = self.disk.entries.get(key)
            return None if entry and entry[2] is not None and entry[2] <= time.monotonic() else entry

    def version(self, key: str, blob: bytes) -> str:
        """Return a version for a blob that is about to be kept."""
        return str(next(self.disk.writes))

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        """Put a blob on the disk."""
        with self.disk.lock:
            version = self.version(key, blob)
            self.disk.entries[key] = (blob, version, expires)
            return version


def conflict(checkpoint_id: str) -> CheckpointConflictError:
    """Return the error for a version that moved."""
    return CheckpointConflictError("somebody else was first", checkpoint_id=checkpoint_id)


class Truncates(GoodStore):
    """Loses the end of large blobs."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint)[:5_000_000]


class ForgetsEmpty(GoodStore):
    """Takes an empty blob for none."""

    def get(self, checkpoint_id: str) -> bytes | None:
        return super().get(checkpoint_id) or None


class EndsAtNul(GoodStore):
    """Keeps blobs as a C string."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint).partition(b"\0")[0]


class TranslatesLines(GoodStore):
    """Writes blobs as text."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint).replace(b"\r\n", b"\n")


class Appends(GoodStore):
    """Leaves the end of a longer blob behind a shorter one."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        entry = self.find(key)
        return super().keep(key, blob + (entry[0][len(blob) :] if entry else b""), expires)


class KeepsBuffer(GoodStore):
    """Keeps the caller's own object."""

    def taken(self, checkpoint: bytes) -> bytes:
        super().taken(checkpoint)
        return checkpoint

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        return None if found is None else bytes(found)


class TakesText(GoodStore):
    """Encodes what is not bytes."""

    def taken(self, checkpoint: bytes) -> bytes:
        return checkpoint.encode() if isinstance(checkpoint, str) else super().taken(checkpoint)


class GivesBytearray(GoodStore):
    """Returns another type than bytes."""

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        return None if found is None else bytearray(found)  # type: ignore[return-value]


class RaisesForUnknown(GoodStore):
    """Raises for an id that was never stored."""

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        if found is None:
            raise KeyError(checkpoint_id)
        return found


class FoldsCase(GoodStore):
    """Has ids that differ in case share a blob."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id).lower()


class FoldsAccents(GoodStore):
    """Normalises ids."""

    def key(self, checkpoint_id: str) -> str:
        return unicodedata.normalize("NFC", super().key(checkpoint_id))


class StripsIds(GoodStore):
    """Takes the white space off the ends of ids."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id).strip()


class ResolvesPaths(GoodStore):
    """Takes ids for paths."""

    def key(self, checkpoint_id: str) -> str:
        return posixpath.normpath(super().key(checkpoint_id))


class UnquotesIds(GoodStore):
    """Takes ids for parts of URLs."""

    def key(self, checkpoint_id: str) -> str:
        return unquote(super().key(checkpoint_id))


class CutsIds(GoodStore):
    """Looks at the first 255 characters of ids."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id)[:255]


class TakesAnyId(GoodStore):
    """Does not look at ids."""

    def key(self, checkpoint_id: str) -> str:
        return checkpoint_id


class RefusesInItsOwnWay(GoodStore):
    """Refuses ids by an error that nobody expects."""

    def key(self, checkpoint_id: str) -> str:
        try:
            return super().key(checkpoint_id)
        except ValueError as error:
            raise RuntimeError("bad key") from error


class RaisesOnMissing(GoodStore):
    """Raises where there is nothing to delete."""

    def delete(self, checkpoint_id: str) -> None:
        del self.disk.entries[self.key(checkpoint_id)]


class DeletesFolders(GoodStore):
    """Deletes what is below an id as well."""

    def delete(self, checkpoint_id: str) -> None:
        super().delete(checkpoint_id)
        for key in [key for key in self.disk.entries if key.startswith(f"{checkpoint_id}/")]:
            super().delete(key)


class DeletesByEmptying(GoodStore):
    """Leaves an empty blob where one was deleted."""

    def delete(self, checkpoint_id: str) -> None:
        if self.find(self.key(checkpoint_id)):
            self.keep(self.key(checkpoint_id), b"", None)


class ListsByWildcard(GoodStore):
    """Takes a prefix for a pattern."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list() if fnmatch.fnmatchcase(key, f"{prefix}*"))


class ListsByLike(GoodStore):
    """Matches prefixes without regard to case, as SQL's LIKE may."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list() if key.lower().startswith(prefix.lower()))


class ListsFolders(GoodStore):
    """Takes a prefix for whole parts of a path."""

    def list(self, prefix: str = "") -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        return (key for key in super().list(prefix) if key.rpartition("/")[0] == folder)


class ListsUnordered(GoodStore):
    """Lists in the order of the writes."""

    def list(self, prefix: str = "") -> Iterator[str]:
        found = builtins.list(super().list(prefix))
        return (key for key in builtins.list(self.disk.entries) if key in found)


class ListsByUtf16(GoodStore):
    """Orders as Java and JavaScript do."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(super().list(prefix), key=lambda key: key.encode("utf-16-be")))


class ListsOnePage(GoodStore):
    """Stops after a page."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(builtins.list(super().list(prefix))[:1000])


class ListsTwice(GoodStore):
    """Repeats the last id of a page at the beginning of the next."""

    def list(self, prefix: str = "") -> Iterator[str]:
        for number, key in enumerate(super().list(prefix), 1):
            yield from [key] * (2 if number % 1000 == 0 else 1)


class ListsList(GoodStore):
    """Gives all ids at once."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return builtins.list(super().list(prefix))  # type: ignore[return-value]


class ListsLive(GoodStore):
    """Goes through what others change meanwhile."""

    def list(self, prefix: str = "") -> Iterator[str]:
        for key in sorted(self.disk.entries):
            self.disk.entries[key] = self.disk.entries.pop(key)
        return (key for key in self.disk.entries if key.startswith(prefix) and self.find(key))


class ListsEmptyNot(GoodStore):
    """Leaves empty blobs out of the list."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list(prefix) if self.get(key))


class LocksWhileListing(GoodStore):
    """Lets nobody write until a listing is over."""

    def list(self, prefix: str = "") -> Iterator[str]:
        with self.disk.lock:
            yield from super().list(prefix)


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


class TearsWrites(GoodStore):
    """Writes a blob in two halves."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        half = len(blob) // 2
        super().keep(key, blob[:half], expires)
        time.sleep(0)
        with self.disk.lock:
            entry = self.disk.entries.get(key) or (b"", "", None)
            return super().keep(key, entry[0][:half] + blob[half:], expires)


class MixesThreads(GoodStore):
    """Has one buffer for all threads."""

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.pending = self.taken(checkpoint)
        time.sleep(0)
        super().set(checkpoint_id, self.pending)


class BoundToThread(GoodStore):
    """Can be used only where it was opened."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.thread = threading.get_ident()

    def key(self, checkpoint_id: str) -> str:
        if threading.get_ident() != self.thread:
            raise RuntimeError("opened in another thread")
        return super().key(checkpoint_id)


class ExpiresEarly(GoodStore):
    """Cuts times to whole seconds."""

    def seconds(self, ttl: timedelta) -> float:
        return ttl.total_seconds() // 1


class ForgetsDays(GoodStore):
    """Reads the seconds of a time and not its days."""

    def seconds(self, ttl: timedelta) -> float:
        return float(ttl.seconds)


class NeverExpires(GoodStore):
    """Keeps expiring blobs for good."""

    def seconds(self, ttl: timedelta) -> float:
        return 1e9


class StillExpires(GoodStore):
    """Leaves the time of an expiring blob to what replaces it."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        entry = self.find(key)
        return super().keep(key, blob, expires or (entry[2] if entry else None))


class ExpiresInGetOnly(GoodStore):
    """Has expired blobs stand in the way of new ones."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        with self.disk.lock:
            entry = self.disk.entries.get(self.key(checkpoint_id))
            if (entry[1] if entry else None) != version:
                raise conflict(checkpoint_id)
            return self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)


class RemembersReads(GoodStore):
    """Answers from a cache that others do not know of."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.cache: dict[str, Entry | None] = {}

    def find(self, key: str) -> Entry | None:
        if key not in self.cache:
            self.cache[key] = super().find(key)
        entry = self.cache[key]
        return None if entry and entry[2] is not None and entry[2] <= time.monotonic() else entry

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        version = super().keep(key, blob, expires)
        self.cache[key] = (blob, version, expires)
        return version

    def delete(self, checkpoint_id: str) -> None:
        super().delete(checkpoint_id)
        self.cache[checkpoint_id] = None


class LosesSomeAtOpening(GoodStore):
    """Does not find ids with letters beyond ASCII when it is opened again."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        for key in [key for key in disk.entries if not key.isascii()]:
            del disk.entries[key]


class VersionsOfProcess(GoodStore):
    """Counts its own writes, from 1 in each process."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        disk.writes = count(1)


BROKEN: list[tuple[type[GoodStore], str, str, str]] = [
    (Truncates, "get and set", "a large blob is kept whole", "5000000 bytes instead of 6000000"),
    (ForgetsEmpty, "get and set", "an empty blob is kept", "gave None instead of b''"),
    (EndsAtNul, "get and set", "all byte values are kept", "gave b'' instead of b'\\x00"),
    (TranslatesLines, "get and set", "all byte values are kept", "gave b'\\n\\n"),
    (Appends, "get and set", "a longer, a shorter and an empty blob replace what was there", "instead of b'short'"),
    (KeepsBuffer, "get and set", "a later change of the caller's buffer does not reach the store", "gave b'XX it was'"),
    (TakesText, "get and set", "what is not bytes is refused with a StoreError and not stored", "'text') gave None"),
    (GivesBytearray, "get and set", "a blob comes back as bytes", "gave bytearray(b'blob') instead of b'blob'"),
    (RaisesForUnknown, "get and set", "an id that was never stored is None", "raised KeyError"),
    (FoldsCase, "ids", "upper and lower case are kept apart", "order'), before it was stored, gave b'Order'"),
    (FoldsAccents, "ids", "accents, composed and not, are kept apart", "before it was stored, gave b'\\xc3\\xa9'"),
    (StripsIds, "ids", "white spaces are kept apart", "before it was stored, gave b' ' instead of None"),
    (ResolvesPaths, "ids", "slashes, dots and backslashes are kept apart", "a//b'), before it was stored, gave b'a/b'"),
    (
        UnquotesIds,
        "ids",
        "percent signs and other escapes are kept apart",
        "a%2Fb'), before it was stored, gave b'a/b'",
    ),
    (
        CutsIds,
        "ids",
        "ids of up to 512 UTF-8 bytes are kept apart",
        "(256 characters)), before it was stored, gave b'a",
    ),
    (
        TakesAnyId,
        "ids",
        "get and set refuse what is no id with InvalidCheckpointIdError",
        "get of the empty text gave None",
    ),
    (
        RefusesInItsOwnWay,
        "ids",
        "delete refuses what is no id with InvalidCheckpointIdError",
        "raised RuntimeError: bad key",
    ),
    (TearsWrites, "many threads", ONE_ID, "threads wrote one id, get gave"),
    (
        MixesThreads,
        "many threads",
        "of several who write ids of their own at once none loses a blob",
        "while others wrote",
    ),
    (
        BoundToThread,
        "many threads",
        "another thread than the one that opened the store can use it",
        "in another thread",
    ),
    (RaisesOnMissing, "delete", "deleting what is not there is no error", "raised KeyError"),
    (
        DeletesFolders,
        "delete",
        "each odd id can be deleted, and the others stay",
        "after deletes of other ids gave None",
    ),
    (DeletesByEmptying, "delete", "what is deleted is None", "get after delete of b'blob' gave b''"),
    (ListsByWildcard, "list", "a prefix is taken literally", "a*') gave"),
    (ListsByLike, "list", "a prefix is taken literally", "a') gave '.../5/A%B', which does not belong there"),
    (ListsFolders, "list", "a prefix need not end where a part of an id does", "gave 2 ids and not the 6 stored"),
    (ListsUnordered, "list", "ids come in code-point order, each once", "is next in code-point order"),
    (ListsByUtf16, "list", "ids come in code-point order, each once", "x\\ue000' is next in code-point order"),
    (ListsOnePage, "list", "many ids are listed, all of them", "gave 1000 ids and not the 1100 stored"),
    (ListsTwice, "list", "many ids are listed, all of them", "more than once"),
    (ListsList, "list", "it gives an iterator of str", "gave a list, not an iterator"),
    (ListsLive, "list", "writes in the middle of a listing do no harm", "changed size during iteration"),
    (ListsEmptyNot, "list", "an empty blob is listed", "gave 0 ids and not the 1 stored"),
    (LocksWhileListing, "list", "a listing that is left half-way holds up nothing", "2 of 2 threads"),
    (ChecksThenWrites, "compare and set", RACE, "that wrote at once over one version were told that they had won"),
    (IgnoresVersion, "compare and set", "a version from before a set_if is refused", "instead of raising"),
    (CreatesOver, "compare and set", "None creates what is not there, once", "None), where the version is"),
    (WritesThenChecks, "compare and set", "a version from before a set_if is refused", "gave (b'refused'"),
    (
        RecreatesByVersion,
        "compare and set",
        "any version is refused where nothing is stored",
        "where nothing is stored",
    ),
    (VersionIsLength, "compare and set", "a version from before a plain set is refused", "instead of raising"),
    (VersionStartsAnew, "compare and set", DELETED, "instead of raising CheckpointConflictError"),
    (VersionIsNumber, "compare and set", "get_versioned gives what get gives, and a version", "which is no str"),
    (VersionOfAnother, "compare and set", "None creates what is not there, once", "instead of"),
    (PlainSetKeepsVersion, "compare and set", "a version from before a plain set is refused", "instead of raising"),
    (ConflictsByRuntimeError, "compare and set", "a version that never was is refused", "raised RuntimeError: row was"),
    (ConflictsWithoutId, "compare and set", "a version that never was is refused", "with the checkpoint_id None"),
    (
        ExpiresEarly,
        "expiry",
        "a blob is never gone before its time",
        "that was to be kept for 1.5 s was gone after 1.0",
    ),
    (ForgetsDays, "expiry", "long times are not cut", "get after set_expiring for 1 day, 0:00:00 gave None"),
    (NeverExpires, "expiry", "a blob is gone after its time, whatever was there before", "was still there 0.5 s after"),
    (
        StillExpires,
        "expiry",
        "a plain set makes an expiring blob stay",
        "after its time, gave None instead of b'stays'",
    ),
    (ExpiresInGetOnly, "expiry", EXPIRED, "where nothing is stored"),
    (
        LosesSomeAtOpening,
        "reopening",
        "what was stored is there when the store is opened again",
        "opened again gave None",
    ),
    (VersionsOfProcess, "reopening", NEXT_VERSION, "instead of raising CheckpointConflictError"),
    (RemembersReads, "two at once", "each sees at once what the other stores", "gave None instead of b'0'"),
]
"""Which check of which capability has to fail for each, and what it has to say."""
