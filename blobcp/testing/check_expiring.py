"""Checks of ``set_expiring``: a blob is kept for its time, and gone afterwards.

Those that have to wait return what is to be looked at later, so that all of them wait at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper

from .bench import Bench, Checks, Look
from .check_blobs import expect_own_copy, pattern
from .check_ids import keep_apart
from .check_swapping import expect_conflict, seen
from .failing import Failed, expect, expect_error, shown

__all__ = ["EXPIRING"]

EXPIRING = Checks("expiry", CheckPointExpirer)

CLOCK = 0.02
"""How many seconds two clocks may disagree by."""


@EXPIRING.check("an expiring blob is there at once, as it was stored")
def there_at_once(bench: Bench) -> None:
    for blob in (b"blob", b"", bytes(range(256))):
        bench.expirer.set_expiring(bench.id("expiring"), blob, timedelta(hours=1))
        expect("get after set_expiring for an hour", bench.get(bench.id("expiring")), blob)


@EXPIRING.check("a large expiring blob is kept whole")
def large(bench: Bench) -> None:
    checkpoint_id, blob = bench.id("large"), pattern(bench.options.large)
    bench.expirer.set_expiring(checkpoint_id, blob, timedelta(hours=1))
    expect(f"get({shown(checkpoint_id)}) after set_expiring with {shown(blob)}", bench.get(checkpoint_id), blob)
    bench.store.set(checkpoint_id, b"")


@EXPIRING.check("set_expiring refuses what is not bytes with a StoreError, and keeps no hold of a buffer")
def takes_bytes(bench: Bench) -> None:
    ttl = timedelta(hours=1)
    checkpoint_id = bench.id("no bytes")
    call = partial(bench.expirer.set_expiring, checkpoint_id, "text", ttl)  # type: ignore[arg-type]
    expect_error("set_expiring with a str", call, StoreError)
    expect("get after a refused set_expiring", bench.get(checkpoint_id), None)
    expect_own_copy(bench, bench.id("a buffer"), lambda id, buffer: bench.expirer.set_expiring(id, buffer, ttl))


@EXPIRING.check("long times are not cut")
def long_times(bench: Bench) -> None:
    for ttl in (timedelta(days=1), timedelta(days=1, microseconds=1), timedelta(days=36_500)):
        bench.expirer.set_expiring(bench.id("long"), b"blob", ttl)
        expect(f"get after set_expiring for {ttl}", bench.get(bench.id("long")), b"blob")


@EXPIRING.check("a time that is none is refused with a StoreError")
def no_time(bench: Bench) -> None:
    checkpoint_id = bench.id("no time")
    for wrong in (timedelta(0), timedelta(seconds=-1)):
        call = partial(bench.expirer.set_expiring, checkpoint_id, b"blob", wrong)
        expect_error(f"set_expiring for {wrong.total_seconds():g} s", call, StoreError)
        expect("get after a refused set_expiring", bench.get(checkpoint_id), None)


@EXPIRING.check("a blob is never gone before its time")
def never_early(bench: Bench) -> Look:
    checkpoint_id, begun = bench.id("expiring"), time.monotonic()
    _expire(bench, checkpoint_id)

    def look() -> None:
        due = begun + bench.options.ttl - CLOCK
        while True:
            found = bench.get(checkpoint_id)
            now = time.monotonic()
            if now >= due:
                return
            if found is None:
                raise Failed(
                    f"a blob that was to be kept for {bench.options.ttl:g} s was gone after {now - begun:.2f} s"
                )
            time.sleep(min(0.02, due - now))

    return look


@EXPIRING.check("a blob is gone after its time, whatever was there before")
def gone_afterwards(bench: Bench) -> Look:
    ids = [bench.id("new"), bench.id("there before"), bench.id("to be kept longer before")]
    bench.store.set(ids[1], b"kept")
    bench.expirer.set_expiring(ids[2], b"kept longer", timedelta(hours=1))
    waits = [_expire(bench, checkpoint_id) for checkpoint_id in ids]

    def look() -> None:
        for checkpoint_id, wait in zip(ids, waits, strict=True):
            wait()
            expect("a second get of an expired blob", bench.get(checkpoint_id), None)

    return look


@EXPIRING.check("a plain set makes an expiring blob stay")
def made_to_stay(bench: Bench) -> Look:
    return _stays(bench, lambda checkpoint_id: bench.store.set(checkpoint_id, b"stays"), "a plain set")


@EXPIRING.check("a later set_expiring keeps an expiring blob for longer")
def prolonged(bench: Bench) -> Look:
    def prolong(checkpoint_id: str) -> None:
        bench.expirer.set_expiring(checkpoint_id, b"stays", timedelta(hours=1))

    return _stays(bench, prolong, "a longer set_expiring")


@EXPIRING.check("a set_if makes an expiring blob stay", CheckPointSwapper)
def swapped_to_stay(bench: Bench) -> Look:
    def swap(checkpoint_id: str) -> None:
        found = bench.swapper.get_versioned(checkpoint_id)
        try:
            bench.swapper.set_if(checkpoint_id, b"stays", found and found[1])
        except CheckpointConflictError:
            # On a machine that stands still for long it has expired meanwhile, which is no fault of the store.
            if bench.get(checkpoint_id) is not None:
                raise
            bench.swapper.set_if(checkpoint_id, b"stays", None)

    return _stays(bench, swap, "a set_if")


@EXPIRING.check("what has expired does not disturb a listing", CheckPointLister)
def listed_without(bench: Bench) -> Look:
    ids = [*keep_apart(bench, map(bench.id, ("a", "c")))]
    wait = _expire(bench, bench.id("b"))

    def look() -> None:
        wait()
        # A store that lists without opening blobs may name it until it is removed from the medium.
        found = [each for each in bench.lister.list(bench.prefix) if each != bench.id("b")]
        expect(f"list({shown(bench.prefix)}) without what has expired", found, ids)

    return look


@EXPIRING.check("what has expired has no version: it can be created, and not replaced", CheckPointSwapper)
def no_version(bench: Bench) -> Look:
    checkpoint_id = bench.id("expiring")
    version = bench.swapper.set_if(checkpoint_id, b"before", None)
    wait = _expire(bench, checkpoint_id)
    found = bench.swapper.get_versioned(checkpoint_id)
    versions = {version, found[1] if found else version}

    def look() -> None:
        wait()
        expect("get_versioned of an expired blob", bench.swapper.get_versioned(checkpoint_id), None)
        for each in versions:
            expect_conflict(bench, checkpoint_id, each)
        new = bench.swapper.set_if(checkpoint_id, b"new", None)
        expect(f"set_if({shown(checkpoint_id)}, ...)", new, seen(bench, checkpoint_id, b"new"))
        for each in versions:
            expect_conflict(bench, checkpoint_id, each)

    return look


@EXPIRING.check("what has expired can be deleted and stored again", CheckPointDeleter)
def again(bench: Bench) -> Look:
    checkpoint_id = bench.id("expiring")
    wait = _expire(bench, checkpoint_id)

    def look() -> None:
        wait()
        bench.deleter.delete(checkpoint_id)
        bench.store.set(checkpoint_id, b"again")
        expect("get of what was stored where a blob had expired", bench.get(checkpoint_id), b"again")

    return look


def _expire(bench: Bench, checkpoint_id: str) -> Look:
    """Store a blob that expires; return what waits until it is gone."""
    options = bench.options
    bench.expirer.set_expiring(checkpoint_id, b"blob", timedelta(seconds=options.ttl))
    limit = time.monotonic() + options.ttl + options.grace

    def wait() -> None:
        while bench.get(checkpoint_id) is not None:
            if time.monotonic() > limit:
                raise Failed(f"a blob to be kept for {options.ttl:g} s was still there {options.grace:g} s after that")
            time.sleep(0.02)

    return wait


def _stays(bench: Bench, write: Callable[[str], None], what: str) -> Look:
    checkpoint_id = bench.id("staying")
    _expire(bench, checkpoint_id)
    due = time.monotonic() + bench.options.ttl + CLOCK
    write(checkpoint_id)

    def look() -> None:
        time.sleep(max(0.0, due - time.monotonic()))
        expect(f"get of what {what} stored over an expiring blob, after its time,", bench.get(checkpoint_id), b"stays")

    return look
