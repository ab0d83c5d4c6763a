from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stream_runs import Bumpy, run

from blobcp import StreamReader, concat, merge_streams

LEAVES = st.text(max_size=6) | st.binary(max_size=6) | st.lists(st.integers(), max_size=4)
VALUES = st.recursive(LEAVES, lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=6)


def split(value: Any, data: st.DataObject) -> tuple[Any, Any]:
    """Cut a value in two: text, bytes and lists somewhere, dicts by key or within the value of a key."""
    if value is None:
        return None, None
    if not isinstance(value, dict):
        at = data.draw(st.integers(0, len(value)))
        return value[:at], value[at:]
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    for key, inner in value.items():
        where = data.draw(st.sampled_from(["first", "second", "both", "none first"]))
        if where == "both":
            first[key], second[key] = split(inner, data)
        elif where == "none first":
            first[key], second[key] = None, inner
        else:
            (first if where == "first" else second)[key] = inner
    return first, second


@given(VALUES, st.data())
def test_any_split_joins_back(value: Any, data: st.DataObject) -> None:
    """Whatever way a value is cut into chunks, they join to it again."""
    chunks = [value]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(chunks) - 1))
        chunks[at : at + 1] = split(chunks[at], data)

    assert concat(chunks) == value


ITEMS = st.lists(st.integers() | st.just(ValueError("x")), max_size=8)


@given(ITEMS, st.integers(2, 4), st.booleans(), st.data())
def test_any_interleaving_of_copies(items: list[Any], n: int, by_async: bool, data: st.DataObject) -> None:
    """In whatever order copies are read and closed, each gets all items and errors in order until it is closed."""
    turns = data.draw(st.lists(st.integers(0, n - 1), max_size=40))
    closed_at = data.draw(st.lists(st.none() | st.integers(0, 8), min_size=n, max_size=n))

    async def main() -> list[list[Any]]:
        copies = StreamReader(Bumpy(*items), blocking=False).copy(n)
        read: list[list[Any]] = [[] for _ in copies]
        for turn in turns:
            if closed_at[turn] == len(read[turn]):
                copies[turn].close()
                continue
            try:
                read[turn].append(await anext(copies[turn], "end") if by_async else next(copies[turn], "end"))
            except ValueError as error:
                read[turn].append(error)
        return read

    for turn, part in enumerate(run(main())):
        reads = turns.count(turn) if closed_at[turn] is None else min(turns.count(turn), closed_at[turn])
        assert part == [*items, *["end"] * 50][:reads]


@given(st.integers(0, 5), st.sampled_from(["generator", "async", "in a thread"]), st.integers(1, 3))
def test_closing_at_any_point(reads: int, kind: str, copies: int) -> None:
    """Wherever a stream is closed, the clean-up of a source that was begun has run once, and of another not at all."""
    finished: Counter[str] = Counter()

    def source() -> Iterator[int]:
        try:
            yield from range(3)
        finally:
            finished["runs"] += 1

    async def asource() -> AsyncIterator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)
            finished["runs"] += 1

    async def main() -> None:
        reader = StreamReader(asource() if kind == "async" else source(), blocking=kind == "in a thread")
        readers = reader.map(str).copy(copies)
        for _ in range(reads):
            await anext(readers[0], None)
        for each in readers:
            await each.aclose()
            await each.aclose()

    run(main())
    assert finished["runs"] == min(reads, 1)


@given(st.lists(st.lists(st.integers(), max_size=5), max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_any_merge(parts: list[list[int]], live: list[bool]) -> None:
    """A merge of lists and live sources gives every item once, those of one source in order, each end once at its end."""
    named = [[(n, item) for item in part] for n, part in enumerate(parts)]
    sources = {str(n): StreamReader(iter(part) if live[n] else part, blocking=False) for n, part in enumerate(named)}
    merged = merge_streams(sources, mark_ends=True)
    read: list[Any] = [] if merged is None else list(merged)
    by_source: dict[int, list[Any]] = {n: [] for n in range(len(parts))}
    for item in read:
        if isinstance(item, tuple):
            by_source[item[0]].append(item[1])
        else:
            by_source[int(item.source)].append("end")

    assert by_source == {n: [*part, "end"] for n, part in enumerate(parts)}
