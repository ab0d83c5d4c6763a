from __future__ import annotations

import pytest
from broken_lists import LocksWhileListing
from broken_stores import BROKEN
from broken_times import ExpiresEarly
from good_store import Disk, GoodStore

from blobcp.testing import check_store


def test_a_good_store_passes_all() -> None:
    """The store that the broken ones are made of fails no check, and offers everything but ``close``."""
    disk = Disk()

    report = check_store(lambda: GoodStore(disk), large=6_000_000, rounds=20, ttl=0.3, persistent=True, shared=True)

    assert report.failures == ()
    assert report.not_offered == 1
    assert disk.entries == {}


@pytest.mark.parametrize(("kind", "capability", "check", "said"), BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_a_broken_store_is_caught(kind: type[GoodStore], capability: str, check: str, said: str) -> None:
    """A store that breaks one promise fails the check of that promise, which says what it saw."""
    disk = Disk()

    report = check_store(
        lambda: kind(disk),
        only=[capability],
        large=6_000_000,
        rounds=10,
        ttl=1.5 if kind is ExpiresEarly else 0.3,
        grace=0.5,
        timeout=1 if kind is LocksWhileListing else 60,
    )

    sentences = {failure.name: failure.sentence for failure in report.failures}
    assert said in sentences[check]
