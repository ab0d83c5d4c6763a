"""What a migration job adds to the bare loop of get, decode, migrate, encode and set, and what a second process gains.

Job and loop take turns, in a store of files that are not flushed and in one in memory; so do one process and two. Printed are
blobs per second, and the ratio pair by pair: median and middle half. The loop does what somebody would write by hand: no
compare-and-set, no report, an error ends it. Two processes gain no more than two of the bare loop would: many disks let them
wait for each other, so files in memory are used where the machine has such a folder.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from blobcp import Checkpoint, Envelope, Header, MsgpackSerializer
from blobcp.checkpoint import PregelChannelState
from blobcp.migrations import MigrationJob
from blobcp.store import CheckPointStore
from blobcp.stores import FileStore, MapStore

MEMORY = "/dev/shm"
"""Where Linux has files in memory."""


def fill(store: CheckPointStore, count: int, items: int) -> list[str]:
    """Store runs with a state of so many records and return their ids."""
    serializer, envelope, ids = MsgpackSerializer(), Envelope(), [f"order-{number:06}" for number in range(count)]
    state = {"qty": 1, "items": [{"sku": f"A-{number}", "qty": number, "price": 9.5} for number in range(items)]}
    body = serializer.dumps(Checkpoint(state=state, channels={"end": PregelChannelState()}, rerun_nodes=["ask"]))
    for id in ids:
        store.set(id, envelope.seal(Header(checkpoint_id=id, status="interrupted", graph="orders"), body))
    return ids


def rename(state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Rename a field, there and back again, so that blobs can be migrated any number of times."""
    old, new = ("qty", "quantity") if "qty" in state else ("quantity", "qty")
    state[new] = state.pop(old)
    return state, True


def bare_loop(store: CheckPointStore, ids: list[str]) -> None:
    """Get, decode, migrate, encode and set each blob."""
    serializer, envelope = MsgpackSerializer(), Envelope()
    for id in ids:
        blob = store.get(id)
        assert blob is not None
        header, body = envelope.open(blob, checkpoint_id=id)
        checkpoint = serializer.loads(body)
        checkpoint.state, _ = rename(checkpoint.state)
        store.set(id, envelope.seal(header, serializer.dumps(checkpoint)))


def job(store: CheckPointStore, ids: list[str], **options: Any) -> None:
    """Let a job do the same."""
    report = MigrationJob(store, rename, ids=ids, **options).run()
    assert report.changed == len(ids)


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(
    title: str, count: int, rounds: int, mine: Callable[[], object], other: Callable[[], object], goal: str
) -> None:
    """Let two calls take turns and print the blobs per second of both, and how often `mine` is as fast."""
    mine(), other()
    times = []
    for number in range(rounds):
        first = seconds(other) if number % 2 else None  # neither is always the one that comes second
        took = seconds(mine)
        times.append((took, seconds(other) if first is None else first))
    ratios = [theirs / took for took, theirs in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
    speeds = [count / statistics.median(column) for column in zip(*times, strict=True)]
    print(
        f"{title:44} {speeds[0]:9,.0f} {speeds[1]:9,.0f}   {middle:5.2f} ({low:.2f} to {high:.2f})   goal {goal}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    count, rounds = asked.blobs, asked.rounds
    gc.disable()
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {count} blobs, {rounds} rounds in turn; blobs/s")
    print(f"{'':44} {'job':>9} {'loop':>9}   pair by pair")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        stores = {
            "map": MapStore(),
            "file, not flushed": FileStore(path / "a", durable=False),
        }
        for name, store in stores.items():
            for items in (0, 100):
                ids = fill(store, count, items)
                compare(
                    f"{name}, {items} records",
                    count,
                    rounds,
                    partial(job, store, ids),
                    partial(bare_loop, store, ids),
                    ">= 0.8",
                )
        store, journal = FileStore(path / "b", durable=False), path / "journal"
        ids = fill(store, count, 100)

        def noted() -> None:
            journal.unlink(missing_ok=True)
            job(store, ids, journal=journal)

        compare("the same, with a journal", count, rounds, noted, partial(bare_loop, store, ids), ">= 0.8")
    compare_processes(count, rounds)


def compare_processes(count: int, rounds: int) -> None:
    """Measure and print what a second process gains."""
    print(f"{'':44} {'two':>9} {'one':>9}   pair by pair")
    spawn = multiprocessing.get_context("spawn")
    folder = MEMORY if Path(MEMORY).is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=folder) as path,
        ProcessPoolExecutor(2, spawn) as two,
        ProcessPoolExecutor(1, spawn) as one,
    ):
        for pool in (two, one):
            list(pool.map(abs, range(100)))
        for items in (100, 1000):
            store = FileStore(Path(path) / str(items), durable=False)
            ids = fill(store, count, items)
            title = f"processes, files in {'memory' if folder else 'a folder'}, {items} records"
            pair = partial(job, store, ids, executor=two), partial(job, store, ids, executor=one)
            compare(title, count, rounds, *pair, ">= 1.6")


if __name__ == "__main__":
    main()
