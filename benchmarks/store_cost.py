"""What a store adds to its medium: save and load of 10 KB and 1 MB, beside the least that the medium can do.

Each store takes turns with its floor, on the same disk or server and in the same mode: write + fsync + rename, one bare
upsert, one SET, one PUT. Printed are the medians in milliseconds, and of the ratio store / floor, taken pair by pair, the
median and the middle half. Servers are those that the tests start; one that is not to be had is said to be missing.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from blobcp.stores import FileStore, PostgresStore, RedisStore, S3Store, SQLiteStore

SIZES = {"10 KB": 10_000, "1 MB": 1_000_000}
ID = "order-17"

Save = Callable[[bytes], object]
Load = Callable[[], object]


class Pair(NamedTuple):
    """A store's two methods beside the least that the medium needs for the same."""

    save: Save
    load: Load
    floor_save: Save
    floor_load: Load


@contextmanager
def on_files(folder: Path) -> Iterator[Pair]:
    """Write beside, flush, rename, flush the folder; read."""
    path = folder / "floor"
    store = FileStore(folder / "store")

    def save(blob: bytes) -> None:
        temp = folder / "floor.tmp"
        with temp.open("wb", buffering=0) as file:
            file.write(blob)
            os.fsync(file)
        temp.replace(path)
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    yield Pair(lambda blob: store.set(ID, blob), lambda: store.get(ID), save, path.read_bytes)


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Pair]:
    """One upsert, one select, on an open connection in WAL mode that flushes at each commit."""
    with SQLiteStore(folder / "store.db") as store, closing(sqlite3.connect(folder / "floor.db")) as floor:
        floor.isolation_level = None
        floor.execute("PRAGMA journal_mode=WAL")
        floor.execute("PRAGMA synchronous=FULL")
        floor.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, blob BLOB)")

        def save(blob: bytes) -> object:
            return floor.execute(
                "INSERT INTO blobs VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET blob = excluded.blob", (ID, blob)
            )

        def load() -> object:
            return floor.execute("SELECT blob FROM blobs WHERE id = ?", (ID,)).fetchone()

        yield Pair(lambda blob: store.set(ID, blob), lambda: store.get(ID), save, load)


@contextmanager
def on_postgres(folder: Path) -> Iterator[Pair]:
    """One upsert, one select, on an open connection that commits by itself."""
    import postgres_server
    import psycopg

    with closing(postgres_server.start()) as server, psycopg.connect(server.url, autocommit=True) as floor:
        floor.execute("CREATE TABLE floor (id text PRIMARY KEY, blob bytea)")

        def save(blob: bytes) -> object:
            return floor.execute(
                "INSERT INTO floor VALUES (%s, %b) ON CONFLICT (id) DO UPDATE SET blob = excluded.blob",
                (ID, blob),
                binary=True,
            )

        def load() -> object:
            return floor.execute("SELECT blob FROM floor WHERE id = %s", (ID,), binary=True).fetchone()

        with PostgresStore(server.url) as store:
            yield Pair(lambda blob: store.set(ID, blob), lambda: store.get(ID), save, load)


@contextmanager
def on_redis(folder: Path) -> Iterator[Pair]:
    """One SET, one GET."""
    import redis
    import redis_server

    with (
        redis_server.running() as server,
        closing(redis.Redis.from_url(server.url)) as floor,
        RedisStore(server.url) as store,
    ):
        yield Pair(
            lambda blob: store.set(ID, blob),
            lambda: store.get(ID),
            lambda blob: floor.set("floor", blob),
            lambda: floor.get("floor"),
        )


@contextmanager
def on_s3(folder: Path) -> Iterator[Pair]:
    """One PUT, one GET whose body is read."""
    import s3_server

    with ExitStack() as stack:
        endpoint = stack.enter_context(s3_server.serving())
        floor = stack.enter_context(closing(s3_server.bare_client(endpoint)))
        bucket = f"bench-{uuid4().hex}"
        floor.create_bucket(Bucket=bucket)
        store = stack.enter_context(S3Store(bucket, endpoint_url=endpoint))
        yield Pair(
            lambda blob: store.set(ID, blob),
            lambda: store.get(ID),
            lambda blob: floor.put_object(Bucket=bucket, Key="floor", Body=blob),
            lambda: floor.get_object(Bucket=bucket, Key="floor")["Body"].read(),
        )


MEDIA = {
    "file": (on_files, 1.25),
    "sqlite": (on_sqlite, 1.25),
    "postgres": (on_postgres, 1.25),
    "redis": (on_redis, 1.25),
    "s3": (on_s3, 1.1),
}
"""The media, each with the ratio that its store is to stay below."""


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(store: Callable[[], object], floor: Callable[[], object], rounds: int) -> str:
    """Return medians and ratio of two calls that take turns."""
    for _ in range(max(3, rounds // 10)):
        store()
        floor()
    times = []
    for number in range(rounds):
        first = seconds(floor) if number % 2 else None  # neither is always the one that comes second
        mine = seconds(store)
        times.append((mine, seconds(floor) if first is None else first))
    ratios = sorted(mine / least for mine, least in times)
    mine, least = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{mine:9.3f} {least:9.3f}   {mine / least:5.2f}   {middle:5.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Compare what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "media", nargs="*", choices=[*MEDIA, []], help="file, sqlite, postgres, redis, s3; all by default"
    )
    parser.add_argument("--rounds", type=int, default=300)
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))
    gc.disable()
    print(f"Python {platform.python_version()}, {asked.rounds} rounds in turn; milliseconds")
    print(f"{'':24}{'store':>9} {'floor':>9}   ratio   pair by pair")
    for name in asked.media or MEDIA:
        medium, goal = MEDIA[name]
        with tempfile.TemporaryDirectory() as folder, medium(Path(folder)) as pair:
            for size, count in SIZES.items():
                # A medium may see that nothing changes, so each gets one blob and the other in turn.
                mine, least = (cycle([os.urandom(count) for _ in range(2)]) for _ in range(2))
                rounds = asked.rounds if count < 100_000 else max(30, asked.rounds // 3)
                save = compare(lambda: pair.save(next(mine)), lambda: pair.floor_save(next(least)), rounds)  # noqa: B023
                load = compare(pair.load, pair.floor_load, rounds)
                print(f"{name:9} {size:>5} save   {save}   goal {goal}")
                print(f"{name:9} {size:>5} load   {load}   goal {goal}", flush=True)


if __name__ == "__main__":
    main()
