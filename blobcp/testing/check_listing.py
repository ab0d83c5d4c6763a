"""Checks of ``list``: all ids with a prefix, as they are, in code-point order."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import pairwise

from blobcp.store import CheckPointDeleter, CheckPointLister

from .bench import Bench, Checks
from .check_ids import keep_apart, long_tails
from .check_writers import all_of
from .failing import Failed, expect, shown
from .odd_ids import KINDS

__all__ = ["LISTING", "expect_listed"]

LISTING = Checks("list", CheckPointLister)

# In UTF-16, and where case or accents are folded, these sort otherwise.
ORDERED = (
    "",
    " ",
    "!",
    "/",
    "0",
    "10",
    "9",
    "A",
    "B",
    "Z",
    "_",
    "a",
    "a ",
    "a/b",
    "aa",
    "b",
    "z",
    "~",
    "é",
    "é!",
    "\ue000",
    "\uffee",
    "\U00010000",
    "😀",
)


@LISTING.check("nothing is listed where nothing is stored")
def nothing(bench: Bench) -> None:
    expect_listed(bench, bench.prefix, [])


@LISTING.check("it gives an iterator of str")
def iterator(bench: Bench) -> None:
    bench.store.set(bench.id("a"), b"")
    found: object = bench.lister.list(bench.prefix)
    if not isinstance(found, Iterator):
        raise Failed(f"list gave a {type(found).__name__}, not an iterator, so that all ids have to be held at once")
    for each in found:
        expect("list", each, bench.id("a"))


@LISTING.check("ids come in code-point order, each once")
def order(bench: Bench) -> None:
    ids = keep_apart(bench, (bench.id(f"x{tail}") for tail in (*ORDERED[::2], *ORDERED[1::2])))
    for checkpoint_id in ids:
        bench.store.set(checkpoint_id, b"again")
    expect_listed(bench, bench.prefix, [*ids])


@LISTING.check("odd ids come back as they are")
def odd_ids(bench: Bench) -> None:
    tails = dict.fromkeys(tail for tails in KINDS.values() for tail in tails)
    ids = [bench.id(tail) for tail in (*tails, *long_tails(bench))]
    for checkpoint_id in ids:
        bench.store.set(checkpoint_id, b"")
    expect_listed(bench, bench.prefix, ids)


@LISTING.check("a prefix is taken literally")
def literal_prefix(bench: Bench) -> None:
    words = (
        "a%b",
        "a_b",
        "a*b",
        "a?b",
        "a[b]",
        "a\\b",
        "axb",
        "a/b",
        "A%B",
        "ab",
        "a.b",
        "a'b",
        "É",
        "é",
        "e\u0301",
        "😀",
    )
    ids = [*keep_apart(bench, (bench.id(word) for word in words))]
    starts = (
        "",
        "a",
        "a%",
        "a_",
        "a*",
        "a?",
        "a[",
        "a[b]",
        "a\\",
        "a.",
        "a/",
        "A",
        "a'",
        "e",
        "é",
        "😀",
        "nothing",
        ".*",
        "%",
    )
    for start in starts:
        expect_listed(bench, bench.prefix + start, [each for each in ids if each.startswith(bench.prefix + start)])


@LISTING.check("a prefix need not end where a part of an id does")
def partial_prefix(bench: Bench) -> None:
    ids = [*keep_apart(bench, map(bench.id, ("order/1/a", "order/1/b", "order/10", "order/2", "orders", "order")))]
    longest = "order/1/a and more"
    for length in range(len(longest) + 1):
        prefix = bench.prefix + longest[:length]
        expect_listed(bench, prefix, [each for each in ids if each.startswith(prefix)])
    for prefix in (bench.prefix[:-1], bench.prefix[:20]):
        _expect_among(bench, prefix, ids)
    expect_listed(bench, bench.prefix + "x" * 1000, [])


@LISTING.check("without a prefix all ids are listed")
def no_prefix(bench: Bench) -> None:
    ids = [*keep_apart(bench, map(bench.id, ("a", "B", "é")))]
    _expect_among(bench, "", ids)
    listed = set(bench.lister.list())
    missing = [each for each in ids if each not in listed]
    if missing:
        raise Failed(f"list() without an argument lacks {shown(missing[0])}, which list('') has")


@LISTING.check("an empty blob is listed")
def empty_blob(bench: Bench) -> None:
    bench.store.set(bench.id("empty"), b"")
    expect_listed(bench, bench.prefix, [bench.id("empty")])


@LISTING.check("what is deleted is not listed", CheckPointDeleter)
def deleted(bench: Bench) -> None:
    ids = [*keep_apart(bench, map(bench.id, ("a", "b", "c")))]
    bench.deleter.delete(ids[1])
    expect_listed(bench, bench.prefix, [ids[0], ids[2]])


@LISTING.check("many ids are listed, all of them")
def many(bench: Bench) -> None:
    ids = [bench.id(f"{number:x}") for number in range(bench.options.many)]

    def store_some(writer: int) -> None:
        for checkpoint_id in ids[writer :: bench.options.writers]:
            bench.store.set(checkpoint_id, b"")

    all_of(bench, bench.options.writers, store_some)
    expect_listed(bench, bench.prefix, ids)


@LISTING.check("writes in the middle of a listing do no harm")
def writes_meanwhile(bench: Bench) -> None:
    ids = [*keep_apart(bench, (bench.id(f"{number:02}") for number in range(20)))]
    found = []
    for number, checkpoint_id in enumerate(bench.lister.list(bench.prefix)):
        found.append(checkpoint_id)
        if number < len(ids):  # a listing may show what was added behind it, so this has to end
            bench.store.set(bench.id(f"x{number}"), b"new")
        bench.store.set(checkpoint_id, b"changed")
        if bench.has(CheckPointDeleter):
            bench.deleter.delete(bench.id(f"x{number - 2}"))
    expect(
        "list, while ids were stored and deleted, of those that were there all the time,",
        [each for each in found if each in ids],
        ids,
    )


@LISTING.check("a listing that is left half-way holds up nothing")
def left_half_way(bench: Bench) -> None:
    ids = [*keep_apart(bench, map(bench.id, ("a", "b", "c")))]
    for _ in range(20):
        expect("the first of a listing", next(_each(bench)), ids[0])
    with closing(_each(bench)) as listing:
        next(listing)
        bench.store.set(ids[0], b"new")
        all_of(bench, 2, lambda number: bench.store.set(ids[number], b"new"))
        expect("get in the middle of a listing", bench.get(ids[0]), b"new")


def _each(bench: Bench) -> Generator[str, None, None]:
    yield from bench.lister.list(bench.prefix)


def expect_listed(bench: Bench, prefix: str, wanted: list[str]) -> None:
    """Fail unless exactly these ids are listed, in order."""
    _compare(f"list({shown(prefix)})", [*bench.lister.list(prefix)], sorted(wanted))


def _expect_among(bench: Bench, prefix: str, wanted: list[str]) -> None:
    # Others may keep blobs on the same medium.
    found = [*bench.lister.list(prefix)]
    _compare(f"list({shown(prefix)})", [each for each in found if each in wanted], sorted(wanted))
    for before, after in pairwise(found):
        if before >= after:
            raise Failed(
                f"list({shown(prefix)}) gave {shown(before)} before {shown(after)}; code-point order is asked for"
            )


def _compare(what: str, found: list[str], wanted: list[str]) -> None:
    if found == wanted:
        return
    doubled = next((each for each in found if found.count(each) > 1), None)
    foreign = next((each for each in found if each not in wanted), None)
    missing = next((each for each in wanted if each not in found), None)
    if doubled is not None:
        raise Failed(f"{what} gave {shown(doubled)} more than once")
    if foreign is not None:
        raise Failed(f"{what} gave {shown(foreign)}, which does not belong there")
    if missing is not None:
        raise Failed(f"{what} gave {len(found)} ids and not the {len(wanted)} stored; {shown(missing)} is missing")
    first = next(number for number, (got, due) in enumerate(zip(found, wanted, strict=True)) if got != due)
    raise Failed(f"{what} gave {shown(found[first])} where {shown(wanted[first])} is next in code-point order")
