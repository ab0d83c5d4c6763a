"""Checks of ``delete``: what it names is gone, and nothing else is."""

from __future__ import annotations

from blobcp.store import CheckPointDeleter

from .bench import Bench, Checks
from .check_ids import keep_apart
from .failing import expect, shown
from .odd_ids import KINDS

__all__ = ["DELETING"]

DELETING = Checks("delete", CheckPointDeleter)


@DELETING.check("what is deleted is None")
def deleted(bench: Bench) -> None:
    checkpoint_id = bench.id("deleted")
    for blob in (b"blob", b""):
        bench.store.set(checkpoint_id, blob)
        expect("delete", bench.deleter.delete(checkpoint_id), None)  # type: ignore[func-returns-value]
        expect(f"get after delete of {shown(blob)}", bench.get(checkpoint_id), None)


@DELETING.check("deleting what is not there is no error")
def deleted_twice(bench: Bench) -> None:
    checkpoint_id = bench.id("deleted")
    bench.deleter.delete(checkpoint_id)
    bench.store.set(checkpoint_id, b"blob")
    bench.deleter.delete(checkpoint_id)
    bench.deleter.delete(checkpoint_id)
    expect("get after two deletes", bench.get(checkpoint_id), None)


@DELETING.check("what is stored again after a delete is there")
def recreated(bench: Bench) -> None:
    checkpoint_id = bench.id("again")
    for blob in (b"first", b"second", b"first"):
        bench.store.set(checkpoint_id, blob)
        expect("get after set, delete and set", bench.get(checkpoint_id), blob)
        bench.deleter.delete(checkpoint_id)


@DELETING.check("each odd id can be deleted, and the others stay")
def others_stay(bench: Bench) -> None:
    tails = dict.fromkeys(tail for tails in KINDS.values() for tail in tails[:8])
    left = keep_apart(bench, map(bench.id, tails))
    gone = [*left][::2]
    for checkpoint_id in gone:
        bench.deleter.delete(checkpoint_id)
        del left[checkpoint_id]
    for checkpoint_id in gone:
        expect(f"get({shown(checkpoint_id)}) after its delete", bench.get(checkpoint_id), None)
    for checkpoint_id, blob in left.items():
        expect(f"get({shown(checkpoint_id)}) after deletes of other ids", bench.get(checkpoint_id), blob)
