"""Checks of many threads at one store: each read is whole, and no write is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from blobcp.errors import text_of

from .bench import Bench, Checks
from .check_blobs import pattern
from .failing import Failed, expect, shown
from .threads import lingering, together

__all__ = ["WRITERS", "all_of"]

WRITERS = Checks("many threads")

T = TypeVar("T")


@WRITERS.check("another thread than the one that opened the store can use it")
def other_thread(bench: Bench) -> None:
    checkpoint_id = bench.id("thread")

    def act(number: int) -> bytes | None:
        bench.store.set(checkpoint_id, b"blob")
        return bench.store.get(checkpoint_id)

    [found] = all_of(bench, 1, act)
    expect("get in another thread", found, b"blob")


@WRITERS.check("of several who write one id at once one's blob is kept, and readers see nothing else")
def one_id(bench: Bench) -> None:
    checkpoint_id = bench.id("one")
    writers = bench.options.writers // 2
    blobs = [bytes([number % 256]) * (20_000 + 1_000 * number) for number in range(writers)]
    bench.store.set(checkpoint_id, blobs[0])

    def act(number: int) -> None:
        for _ in range(bench.options.rounds // 2 + 1):
            if number < writers:
                bench.store.set(slow, blobs[number])
            found: object = bench.store.get(slow)
            if found not in blobs:
                raise Failed(f"while {writers} threads wrote one id, get gave {shown(found)}, which none of them wrote")

    with lingering(checkpoint_id) as slow:
        all_of(bench, bench.options.writers, act)


@WRITERS.check("of several who write ids of their own at once none loses a blob")
def own_ids(bench: Bench) -> None:
    def act(number: int) -> None:
        for count in range(bench.options.rounds // 5 + 1):
            checkpoint_id, blob = bench.id(f"{number}/{count % 5}"), pattern(100 * number + count)
            with lingering(checkpoint_id) as slow:
                bench.store.set(slow, blob)
            expect(f"get({shown(checkpoint_id)}), while others wrote other ids,", bench.get(checkpoint_id), blob)

    all_of(bench, bench.options.writers, act)


def all_of(bench: Bench, count: int, act: Callable[[int], T]) -> list[T]:
    """Call a function in several threads at once; return what they gave, where none of them failed."""
    answers: list[T] = []
    for answer in together(count, act, bench.options.patience):
        if isinstance(answer, Failed):
            raise answer
        if isinstance(answer, Exception):
            where = "in another thread" if count == 1 else f"in one of {count} threads"
            raise Failed(f"{where} the store raised {text_of(answer)}") from answer
        answers.append(answer)
    return answers
