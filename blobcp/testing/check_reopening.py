"""Checks of opening the store again: later, as the next process does, and at once, beside the first."""

from __future__ import annotations

from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointStore, CheckPointSwapper

from .bench import Bench, Checks
from .check_blobs import pattern
from .check_ids import keep_apart, long_tails
from .check_listing import expect_listed
from .check_swapping import expect_conflict, seen
from .check_writers import all_of
from .failing import Failed, NotOffered, expect, shown
from .medium import Again
from .odd_ids import KINDS
from .racing import race

__all__ = ["REOPENING", "SHARING"]

REOPENING = Checks("reopening")
SHARING = Checks("two at once")


@REOPENING.check("what was stored is there when the store is opened again")
def survives(bench: Bench) -> None:
    _expect_to_persist(bench)
    tails = [tail for tails in KINDS.values() for tail in tails[:8]]
    blobs = keep_apart(bench, map(bench.id, dict.fromkeys([*tails, *long_tails(bench)])))
    blobs |= {bench.id("an empty one"): b"", bench.id("a longer one"): pattern(1_000_000)}
    for name in ("an empty one", "a longer one"):
        bench.store.set(bench.id(name), blobs[bench.id(name)])
    bench.medium.reopen()
    for checkpoint_id, blob in blobs.items():
        expect(f"get({shown(checkpoint_id)}) from the store opened again", bench.get(checkpoint_id), blob)


@REOPENING.check("the last blob is there when the store is opened again")
def last_survives(bench: Bench) -> None:
    _expect_to_persist(bench)
    checkpoint_id = bench.id("overwritten")
    for blob in (b"a first, longer one", b"", b"last"):
        bench.store.set(checkpoint_id, blob)
        bench.medium.reopen()
        expect("get from the store opened again", bench.get(checkpoint_id), blob)


@REOPENING.check("what was deleted is not there when the store is opened again", CheckPointDeleter)
def stays_deleted(bench: Bench) -> None:
    _expect_to_persist(bench)
    bench.store.set(bench.id("deleted"), b"blob")
    bench.deleter.delete(bench.id("deleted"))
    bench.medium.reopen()
    expect("get of a deleted blob from the store opened again", bench.get(bench.id("deleted")), None)


@REOPENING.check("what was stored is listed when the store is opened again", CheckPointLister)
def listed_again(bench: Bench) -> None:
    _expect_to_persist(bench)
    ids = [*keep_apart(bench, map(bench.id, ("a", "B", "é", "😀", " ")))]
    bench.medium.reopen()
    expect_listed(bench, bench.prefix, ids)


@REOPENING.check("a version holds, or is refused, in the store opened again as before", CheckPointSwapper)
def versions_hold(bench: Bench) -> None:
    _expect_to_persist(bench)
    checkpoint_id = bench.id("versioned")
    old = bench.swapper.set_if(checkpoint_id, b"old", None)
    new = bench.swapper.set_if(checkpoint_id, b"new", old)
    bench.medium.reopen()
    again = seen(bench, checkpoint_id, b"new")
    if again != new:
        raise Failed(f"the version went from {new!r} to {again!r} when the store was opened again")
    expect_conflict(bench, checkpoint_id, old)
    bench.swapper.set_if(checkpoint_id, b"newer", new)
    bench.medium.reopen()
    expect_conflict(bench, checkpoint_id, new)


@REOPENING.check("a version that one opening gave is not given by the next for other bytes", CheckPointSwapper)
def versions_differ(bench: Bench) -> None:
    _expect_to_persist(bench)
    checkpoint_id = bench.id("versioned")
    # Each time the first write after the opening: a count that starts anew would give the same.
    bench.medium.reopen()
    version = bench.swapper.set_if(checkpoint_id, b"old", None)
    bench.medium.reopen()
    bench.store.set(checkpoint_id, b"new")
    expect_conflict(bench, checkpoint_id, version)


@SHARING.check("each sees at once what the other stores")
def both_see(bench: Bench) -> None:
    second = _second(bench)
    checkpoint_id = bench.id("shared")
    for number in range(5):
        for writer, reader in ((bench.store, second), (second, bench.store)):
            reader.get(checkpoint_id)  # what it remembers of this must not be its answer later
            writer.set(checkpoint_id, b"%d" % number)
            found: object = reader.get(checkpoint_id)
            expect("get from one opening, after a set through the other,", found, b"%d" % number)


@SHARING.check("each sees at once what the other deletes", CheckPointDeleter)
def both_delete(bench: Bench) -> None:
    second = _second(bench)
    checkpoint_id = bench.id("shared")
    bench.store.set(checkpoint_id, b"blob")
    expect("get from the second opening", second.get(checkpoint_id), b"blob")
    bench.deleter.delete(checkpoint_id)
    expect("get from one opening, after a delete through the other,", second.get(checkpoint_id), None)


@SHARING.check("each lists at once what the other stores", CheckPointLister)
def both_list(bench: Bench) -> None:
    second = _second(bench)
    for number in range(3):
        second.set(bench.id(f"{number}"), b"")
        expect_listed(bench, bench.prefix, [bench.id(f"{before}") for before in range(number + 1)])


@SHARING.check("of several who write one id through both at once one's blob is kept")
def both_write(bench: Bench) -> None:
    stores = (bench.store, _second(bench))
    checkpoint_id = bench.id("shared")
    blobs = [bytes([number % 256]) * (20_000 + 1_000 * number) for number in range(bench.options.writers)]

    def act(number: int) -> None:
        for _ in range(5):
            stores[number % 2].set(checkpoint_id, blobs[number])
            found: object = stores[number // 2 % 2].get(checkpoint_id)
            if found not in blobs:
                raise Failed(f"while several wrote one id through two openings, get gave {shown(found)}")

    all_of(bench, bench.options.writers, act)


@SHARING.check("of several who replace what they saw through both at once exactly one wins", CheckPointSwapper)
def both_race(bench: Bench) -> None:
    stores = (bench.store, _second(bench))
    checkpoint_id = bench.id("raced")
    version = None
    for _ in range(bench.options.rounds // 5 + 1):
        version = race(bench, checkpoint_id, version, stores)


def _expect_to_persist(bench: Bench) -> None:
    if bench.options.persistent is False:
        raise NotOffered("persistent=False says that nothing outlives the object")
    _refuse(bench.medium.again(), insist=bench.options.persistent)


def _second(bench: Bench) -> CheckPointStore:
    if bench.options.shared is False:
        raise NotOffered("shared=False says that one need not see what the other does")
    again = bench.medium.again()
    _refuse(again, insist=bench.options.shared)
    if again is Again.REFUSED:
        raise Failed(f"while one is open, {bench.medium.refusal}; shared=False says that this is meant")
    return bench.medium.second()


_NOTHING_LASTS = {
    Again.SAME: "make_store() returns the same object each time",
    Again.EMPTY: "make_store() opens a store that knows nothing of what was stored before",
}


def _refuse(again: Again, *, insist: bool | None) -> None:
    if again in _NOTHING_LASTS:
        raise (Failed if insist else NotOffered)(_NOTHING_LASTS[again])
