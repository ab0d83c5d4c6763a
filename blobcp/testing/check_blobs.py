"""Checks of ``get`` and ``set``: what is stored comes back, as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from blobcp.errors import BlobcpError, StoreError

from .bench import Bench, Checks
from .failing import expect, expect_error, shown

__all__ = ["BLOBS", "expect_own_copy", "pattern"]

BLOBS = Checks("get and set")


@BLOBS.check("an id that was never stored is None")
def unknown_id(bench: Bench) -> None:
    expect("get of an id that was never stored", bench.get(bench.id("unknown")), None)


@BLOBS.check("a blob comes back as bytes")
def round_trip(bench: Bench) -> None:
    _keeps(bench, "blob", b"blob")


@BLOBS.check("an empty blob is kept")
def empty_blob(bench: Bench) -> None:
    _keeps(bench, "empty", b"")


@BLOBS.check("all byte values are kept")
def all_bytes(bench: Bench) -> None:
    every = bytes(range(256))
    for name, blob in {"rising": every, "falling": every[::-1], "lines": b"\r\n\n\r\x1a\x00 "}.items():
        _keeps(bench, name, blob)


@BLOBS.check("blobs around the usual limits of size are kept")
def sizes(bench: Bench) -> None:
    for power in range(8, 22):
        for size in (2**power - 1, 2**power + 1):
            if size <= bench.options.large:
                _keeps(bench, "size", pattern(size))


@BLOBS.check("a large blob is kept whole")
def large_blob(bench: Bench) -> None:
    _keeps(bench, "large", pattern(bench.options.large))
    bench.store.set(bench.id("large"), b"")


@BLOBS.check("a longer, a shorter and an empty blob replace what was there")
def overwriting(bench: Bench) -> None:
    for blob in (b"first", b"a longer one" * 100, b"short", b"", b"again"):
        _keeps(bench, "overwritten", blob)


@BLOBS.check("a read sees the write before it, each time")
def reads_own_writes(bench: Bench) -> None:
    for number in range(bench.options.rounds):
        _keeps(bench, f"{number % 2}", b"%d" % number)


@BLOBS.check("a later change of the caller's buffer does not reach the store")
def isolation(bench: Bench) -> None:
    expect_own_copy(bench, bench.id("a buffer"), bench.store.set)


@BLOBS.check("what is not bytes is refused with a StoreError and not stored")
def not_bytes(bench: Bench) -> None:
    checkpoint_id = bench.id("no bytes")
    for wrong in ("text", None, 17, [98]):
        what = f"set({shown(checkpoint_id)}, {wrong!r})"
        expect_error(what, partial(bench.store.set, checkpoint_id, wrong), StoreError)  # type: ignore[arg-type]
        expect(f"get after the refused {what}", bench.get(checkpoint_id), None)


def expect_own_copy(bench: Bench, checkpoint_id: str, write: Callable[[str, Any], object]) -> None:
    """Fail where a write keeps hold of the caller's buffer, which is changed afterwards.

    The protocol's type is bytes, so a store may refuse other kinds.
    """
    for buffer in (bytearray(b"as it was"), memoryview(bytearray(b"as it was"))):
        each = f"{checkpoint_id}: a {type(buffer).__name__}"
        try:
            write(bench.claim(each), buffer)
        except (BlobcpError, TypeError):
            continue
        buffer[:2] = b"XX"
        expect(f"get({shown(each)}), after the caller changed what it had stored,", bench.get(each), b"as it was")


def pattern(size: int) -> bytes:
    """Return bytes of a size, the same each time, in which a lost or doubled part shows."""
    # The length of the block is a prime, so that no part of a usual size falls on its like.
    block = Random(0).randbytes(min(size, 1_000_003))
    return (block * (size // 1_000_003 + 1))[:size]


def _keeps(bench: Bench, name: str, blob: bytes) -> None:
    checkpoint_id = bench.id(name)
    bench.store.set(checkpoint_id, blob)
    expect(f"get({shown(checkpoint_id)}) after set with {shown(blob)}", bench.get(checkpoint_id), blob)
