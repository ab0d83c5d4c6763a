"""Which check has to catch which broken store, and what it has to say."""

from __future__ import annotations

from broken_blobs import (
    Appends,
    BoundToThread,
    CutsIds,
    EndsAtNul,
    FoldsAccents,
    FoldsCase,
    ForgetsEmpty,
    GivesBytearray,
    KeepsBuffer,
    MixesThreads,
    RaisesForUnknown,
    RefusesInItsOwnWay,
    ResolvesPaths,
    StripsIds,
    TakesAnyId,
    TakesText,
    TearsWrites,
    TranslatesLines,
    Truncates,
    UnquotesIds,
)
from broken_lists import (
    DeletesByEmptying,
    DeletesFolders,
    ListsByLike,
    ListsByUtf16,
    ListsByWildcard,
    ListsEmptyNot,
    ListsFolders,
    ListsList,
    ListsLive,
    ListsOnePage,
    ListsTwice,
    ListsUnordered,
    LocksWhileListing,
    RaisesOnMissing,
)
from broken_swaps import (
    ChecksThenWrites,
    ConflictsByRuntimeError,
    ConflictsWithoutId,
    CreatesOver,
    IgnoresVersion,
    PlainSetKeepsVersion,
    RecreatesByVersion,
    VersionIsLength,
    VersionIsNumber,
    VersionOfAnother,
    VersionStartsAnew,
    WritesThenChecks,
)
from broken_times import (
    ExpiresEarly,
    ExpiresInGetOnly,
    ForgetsDays,
    LosesSomeAtOpening,
    NeverExpires,
    RemembersReads,
    StillExpires,
    VersionsOfProcess,
)
from good_store import GoodStore

__all__ = ["BROKEN"]

ONE_ID = "of several who write one id at once one's blob is kept, and readers see nothing else"
RACE = "of several who replace what they saw at once exactly one wins, in each round"
DELETED = "a version from before a delete is refused, also once something else is stored"
SWAPPED_BUFFER = "a later change of the caller's buffer does not reach what set_if has stored"
EXPIRING_BYTES = "set_expiring refuses what is not bytes with a StoreError, and keeps no hold of a buffer"
EXPIRED = "what has expired has no version: it can be created, and not replaced"
NEXT_VERSION = "a version that one opening gave is not given by the next for other bytes"

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
    (CutsIds, "ids", "long ids are kept apart", "characters)), before it was stored, gave b'a"),
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
    (KeepsBuffer, "compare and set", SWAPPED_BUFFER, "gave b'XX it was'"),
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
    (Truncates, "expiry", "a large expiring blob is kept whole", "5000000 bytes instead of 6000000"),
    (TakesText, "expiry", EXPIRING_BYTES, "set_expiring with a str gave None"),
    (KeepsBuffer, "expiry", EXPIRING_BYTES, "gave b'XX it was'"),
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
