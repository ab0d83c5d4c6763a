"""Checks of ``get_versioned`` and ``set_if``: only who has seen what is stored may replace it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointSwapper

from .bench import Bench, Checks
from .check_blobs import expect_own_copy, pattern
from .failing import Failed, expect, expect_error, shown
from .odd_ids import KINDS
from .racing import race

__all__ = ["SWAPPING", "expect_conflict", "seen"]

SWAPPING = Checks("compare and set", CheckPointSwapper)


@SWAPPING.check("an id that was never stored has no version")
def unknown(bench: Bench) -> None:
    expect("get_versioned of an id that was never stored", bench.swapper.get_versioned(bench.id("unknown")), None)


@SWAPPING.check("get_versioned gives what get gives, and a version")
def versioned(bench: Bench) -> None:
    for name, blob in {"blob": b"blob", "empty": b"", "longer": pattern(100_000)}.items():
        bench.store.set(bench.id(name), blob)
        version = seen(bench, bench.id(name), blob)
        again = seen(bench, bench.id(name), blob)
        if again != version:
            raise Failed(f"the version of a blob that nobody touched went from {version!r} to {again!r}")


@SWAPPING.check("None creates what is not there, once")
def create_only(bench: Bench) -> None:
    for blob in (b"first", b""):
        checkpoint_id = bench.id(f"created {len(blob)}")
        version = bench.swapper.set_if(checkpoint_id, blob, None)
        expect(f"set_if({shown(checkpoint_id)}, ...)", version, seen(bench, checkpoint_id, blob))
        expect_conflict(bench, checkpoint_id, None)
        bench.store.set(bench.id("plain"), blob)
        expect_conflict(bench, bench.id("plain"), None)


@SWAPPING.check("None creates what was deleted", CheckPointDeleter)
def create_deleted(bench: Bench) -> None:
    checkpoint_id = bench.id("deleted")
    for blob in (b"first", b"second"):
        version = bench.swapper.set_if(checkpoint_id, blob, None)
        expect(f"set_if({shown(checkpoint_id)}, ...)", version, seen(bench, checkpoint_id, blob))
        bench.deleter.delete(checkpoint_id)
        expect("get_versioned after delete", bench.swapper.get_versioned(checkpoint_id), None)


@SWAPPING.check("the version that was seen replaces, and set_if gives the next one")
def replaces(bench: Bench) -> None:
    checkpoint_id = bench.id("replaced")
    bench.store.set(checkpoint_id, b"0")
    version = seen(bench, checkpoint_id, b"0")
    for blob in (b"1", b"a longer one", b"", b"2"):
        version = bench.swapper.set_if(checkpoint_id, blob, version)
        expect(f"set_if({shown(checkpoint_id)}, ...)", version, seen(bench, checkpoint_id, blob))


@SWAPPING.check("a version from before a set_if is refused")
def stale_after_set_if(bench: Bench) -> None:
    checkpoint_id = bench.id("stale")
    versions = [bench.swapper.set_if(checkpoint_id, b"0", None)]
    for blob in (b"1", b"2", b"3"):
        versions.append(bench.swapper.set_if(checkpoint_id, blob, versions[-1]))
        for version in versions[:-1]:
            expect_conflict(bench, checkpoint_id, version)


@SWAPPING.check("a version from before a plain set is refused")
def stale_after_set(bench: Bench) -> None:
    checkpoint_id = bench.id("stale")
    # Of one length, so that a version which is a length shows.
    for old, new in ((b"old", b"new"), (b"", b"new"), (b"old", b"")):
        bench.store.set(checkpoint_id, old)
        version = seen(bench, checkpoint_id, old)
        bench.store.set(checkpoint_id, new)
        expect_conflict(bench, checkpoint_id, version)


@SWAPPING.check("a version from before a delete is refused, also once something else is stored", CheckPointDeleter)
def stale_after_delete(bench: Bench) -> None:
    checkpoint_id = bench.id("deleted")
    version = bench.swapper.set_if(checkpoint_id, b"old", None)
    bench.deleter.delete(checkpoint_id)
    expect_conflict(bench, checkpoint_id, version)
    bench.swapper.set_if(checkpoint_id, b"new", None)
    expect_conflict(bench, checkpoint_id, version)
    bench.deleter.delete(checkpoint_id)
    bench.store.set(checkpoint_id, b"plain")
    expect_conflict(bench, checkpoint_id, version)


@SWAPPING.check("a version from before a set_expiring is refused", CheckPointExpirer)
def stale_after_expiring(bench: Bench) -> None:
    checkpoint_id = bench.id("expiring")
    version = bench.swapper.set_if(checkpoint_id, b"old", None)
    bench.expirer.set_expiring(checkpoint_id, b"new", timedelta(hours=1))
    expect_conflict(bench, checkpoint_id, version)
    expect_conflict(bench, checkpoint_id, None)
    bench.swapper.set_if(checkpoint_id, b"newer", seen(bench, checkpoint_id, b"new"))
    expect("get after set_if over an expiring blob", bench.get(checkpoint_id), b"newer")


@SWAPPING.check("a version that never was is refused")
def unknown_version(bench: Bench) -> None:
    checkpoint_id = bench.id("known")
    version = bench.swapper.set_if(checkpoint_id, b"blob", None)
    for wrong in ("", f"{version}0", f"0{version}x", "no version", "-1", "é"):
        expect_conflict(bench, checkpoint_id, wrong)


@SWAPPING.check("any version is refused where nothing is stored")
def version_of_nothing(bench: Bench) -> None:
    version = bench.swapper.set_if(bench.id("other"), b"blob", None)
    for wrong in (version, "", "0", "no version"):
        expect_conflict(bench, bench.id("nothing"), wrong)


@SWAPPING.check("each odd id has a version of its own")
def odd_ids(bench: Bench) -> None:
    ids = [bench.id(tail) for tails in KINDS.values() for tail in dict.fromkeys(tails[:6])]
    versions = {each: bench.swapper.set_if(each, each.encode(), None) for each in dict.fromkeys(ids)}
    for checkpoint_id, version in versions.items():
        expect(f"set_if({shown(checkpoint_id)}, ...)", version, seen(bench, checkpoint_id, checkpoint_id.encode()))


@SWAPPING.check("a large blob is kept whole by set_if")
def large(bench: Bench) -> None:
    checkpoint_id, blob = bench.id("large"), pattern(bench.options.large)
    version = bench.swapper.set_if(checkpoint_id, blob[:-1], None)
    version = bench.swapper.set_if(checkpoint_id, blob, version)
    expect(f"set_if({shown(checkpoint_id)}, ...)", version, seen(bench, checkpoint_id, blob))
    bench.store.set(checkpoint_id, b"")


@SWAPPING.check("set_if refuses what is not bytes with a StoreError")
def not_bytes(bench: Bench) -> None:
    checkpoint_id = bench.id("no bytes")
    call = partial(bench.swapper.set_if, checkpoint_id, "text", None)  # type: ignore[arg-type]
    expect_error("set_if with a str", call, StoreError)
    expect("get after a refused set_if", bench.get(checkpoint_id), None)


@SWAPPING.check("a later change of the caller's buffer does not reach what set_if has stored")
def isolation(bench: Bench) -> None:
    expect_own_copy(bench, bench.id("a buffer"), lambda id, buffer: bench.swapper.set_if(id, buffer, None))


@SWAPPING.check("of several who create one id at once exactly one wins, in each round")
def create(bench: Bench) -> None:
    for number in range(bench.options.rounds):
        race(bench, bench.id(f"{number}"), None, [bench.store])


@SWAPPING.check("of several who replace what they saw at once exactly one wins, in each round")
def replace(bench: Bench) -> None:
    checkpoint_id = bench.id("replaced")
    version = bench.swapper.set_if(checkpoint_id, b"first", None)
    for _ in range(bench.options.rounds):
        version = race(bench, checkpoint_id, version, [bench.store])


def seen(bench: Bench, checkpoint_id: str, blob: bytes) -> str:
    """Return the version of what is stored, where it is these bytes and ``get`` says the same."""
    found: object = bench.swapper.get_versioned(checkpoint_id)
    if not isinstance(found, tuple) or len(found) != 2:
        raise Failed(f"get_versioned({shown(checkpoint_id)}) gave {shown(found)} instead of the bytes and a version")
    expect(f"the first of get_versioned({shown(checkpoint_id)})", found[0], blob)
    expect(f"get({shown(checkpoint_id)}), beside get_versioned,", bench.get(checkpoint_id), blob)
    if not isinstance(found[1], str):
        raise Failed(f"get_versioned({shown(checkpoint_id)}) gave the version {found[1]!r}, which is no str")
    return found[1]


def expect_conflict(bench: Bench, checkpoint_id: str, version: str | None) -> None:
    """Fail unless ``set_if`` with this version is refused, by the error that is for it, and changes nothing."""
    before = bench.swapper.get_versioned(checkpoint_id)
    what = f"set_if({shown(checkpoint_id)}, ..., {version!r}), where {_stored(before)},"
    error = expect_error(
        what, partial(bench.swapper.set_if, checkpoint_id, b"refused", version), CheckpointConflictError
    )
    expect(f"get_versioned after the refused {what}", bench.swapper.get_versioned(checkpoint_id), before)
    named = getattr(error, "checkpoint_id", None)
    if named != checkpoint_id:
        raise Failed(f"{what} raised a CheckpointConflictError with the checkpoint_id {named!r}")


def _stored(found: tuple[bytes, str] | None) -> str:
    return "nothing is stored" if found is None else f"the version is {found[1]!r}"
