"""Every store that comes with blobcp, and every sensible pile of wrappers, passes the kit that others are given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from every_store import SHARED, Given

from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper
from blobcp.stores import (
    AsyncPostgresStore,
    AsyncRedisStore,
    ChunkedStore,
    ExpiringStore,
    FileStore,
    MapStore,
    PrefixedStore,
    RetryingStore,
    TieredStore,
    WriteBehindStore,
    open_store,
)
from blobcp.testing import check_store

ALL = {CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer}
DAY = timedelta(days=1)

Make = Callable[[Given, Path], Callable[[], object]]
"""Given the servers and a folder, returns what opens the store, each time on the same medium."""


class Built(NamedTuple):
    """A store or a pile, and the powers that it has to show."""

    make: Make
    powers: set[type] = ALL
    id_bytes: int = 512
    """How long ids may be; a prefix takes its bytes from that."""
    shared: bool | None = None
    """``False`` where its page says that two openings do not see each other's writes at once."""


def by_url(kind: str) -> Make:
    """Open a kind of store by its URL."""

    def make(given: Given, folder: Path) -> Callable[[], object]:
        url = SHARED[kind](given, uuid4().hex, folder)
        return lambda: open_store(url)

    return make


def on_file(wrap: Callable[[CheckPointStore], object]) -> Make:
    """Wrap a file store."""
    return lambda given, folder: lambda: wrap(FileStore(folder / "blobs", durable=False))


def on(kind: str, wrap: Callable[[CheckPointStore], object]) -> Make:
    """Wrap a store of a kind."""

    def make(given: Given, folder: Path) -> Callable[[], object]:
        url = SHARED[kind](given, uuid4().hex, folder)
        return lambda: wrap(open_store(url))

    return make


def async_postgres(given: Given, folder: Path) -> Callable[[], object]:
    """Open the awaited store on a table of its own."""
    url, table = given("postgres_url"), f"t{uuid4().hex}"
    return lambda: AsyncPostgresStore(url, table=table)


def async_redis(given: Given, folder: Path) -> Callable[[], object]:
    """Open the awaited store under a prefix of its own."""
    url, prefix = given("redis_url"), f"{uuid4().hex}:"
    return lambda: AsyncRedisStore(url, prefix=prefix)


STORES: dict[str, Built] = {
    "map": Built(lambda given, folder: MapStore),
    "file": Built(lambda given, folder: lambda: FileStore(folder)),
    "sqlite": Built(by_url("sqlite")),
    "s3": Built(by_url("s3"), ALL - {CheckPointExpirer}),
    "postgres": Built(by_url("postgres")),
    "postgres, awaited": Built(async_postgres),
    "redis": Built(by_url("redis")),
    "redis, awaited": Built(async_redis),
}

PILES: dict[str, Built] = {
    "prefixed file": Built(on_file(lambda store: PrefixedStore(store, "tenant/7/")), id_bytes=503),
    "expiring file": Built(on_file(lambda store: ExpiringStore(store, DAY))),
    "chunked file": Built(on_file(lambda store: ChunkedStore(store, 100_000))),
    "written behind to a file": Built(on_file(WriteBehindStore), shared=False),
    "map before file": Built(
        on_file(lambda store: TieredStore(MapStore(), store)), ALL - {CheckPointExpirer}, shared=False
    ),
    "retried file": Built(on_file(RetryingStore)),
    "prefixed, chunked, retried sqlite": Built(
        on("sqlite", lambda store: PrefixedStore(ChunkedStore(RetryingStore(store), 100_000), "a/")), id_bytes=510
    ),
    "expiring, prefixed s3": Built(
        on("s3", lambda store: ExpiringStore(PrefixedStore(store, "a/"), DAY)), ALL - {CheckPointExpirer}, id_bytes=510
    ),
    "prefixed, retried postgres": Built(
        on("postgres", lambda store: PrefixedStore(RetryingStore(store), "a/")), id_bytes=510
    ),
    "chunked redis": Built(on("redis", lambda store: ChunkedStore(store, 1_000_000))),
}

SLOW = {"expiring, prefixed s3"}
"""What takes long and shows little that its parts do not; left to the whole kit."""

every = pytest.mark.parametrize("name", [*STORES, *PILES])


@pytest.fixture
def built(name: str) -> Built:
    """The store or pile of that name."""
    return {**STORES, **PILES}[name]


@pytest.fixture
def make_store(built: Built, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], object]:
    """What opens it."""
    return built.make(request.getfixturevalue, tmp_path)


@pytest.mark.parametrize("name", [name for name in (*STORES, *PILES) if name not in SLOW])
def test_passes_the_kit(built: Built, make_store: Callable[[], object]) -> None:
    """No check fails; the sizes are those for every day, `make soak` has the full ones."""
    small = {"rounds": 5, "large": 3_000_000, "examples": 5, "writers": 8, "many": 60}
    report = check_store(make_store, id_bytes=built.id_bytes, shared=built.shared, **small)

    assert report.failed == 0, report
    assert report.passed > 40


@every
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_passes_the_whole_kit(built: Built, make_store: Callable[[], object]) -> None:
    """No check fails with 64 MB blobs, and exactly one of 16 wins each of 50 races."""
    report = check_store(make_store, id_bytes=built.id_bytes, shared=built.shared)

    assert report.failed == 0, report


@every
def test_shows_its_powers(built: Built, make_store: Callable[[], object]) -> None:
    """A store shows what its medium can do; a pile what the store inside can."""
    store = make_store()

    assert {power for power in ALL if isinstance(store, power)} == built.powers
