"""F23: many blobs in place, with a report, a trial run and safe repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from job_blobs import blob_of_run
from stored_runs import TwoMethodStore, blob_of, header_of, paused, refused
from two_programs import NEW, OLD, New, Old, nested, quantities, single

from blobcp import CheckpointVersionError, Interrupted, OptionError
from blobcp.migrations import MigrationJob, Migrations, rename_field
from blobcp.stores import FileStore, MapStore, S3Store

IDS = ["m1", "m2", "m3", "m4", "m5"]
JUNK = b"ten bytes!"
INPUTS = {"m1": "a", "m2": "ab", "m3": "abc", "m4": "abcd"}


@pytest.fixture(params=["two methods", "map", "file", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty store: one with two methods only, and some that can list."""
    if request.param == "s3":
        options = {"endpoint_url": request.getfixturevalue("s3_endpoint"), "prefix": uuid4().hex}
        with S3Store(request.getfixturevalue("s3_bucket"), **options) as store:
            yield store
        return
    makers: dict[str, Callable[[], Any]] = {
        "two methods": TwoMethodStore,
        "map": MapStore,
        "file": lambda: FileStore(tmp_path / "store", durable=False),
    }
    yield makers[str(request.param)]()


def park(store: Any) -> dict[str, Interrupted]:
    """Store m1 to m5 as F23 has them and return the stops."""
    versions = {"store": store, "serializer": OLD, "migrations": Migrations(1)}
    stops = {
        id: paused((nested if id == "m3" else single)(Old).compile(**versions).invoke, INPUTS[id], checkpoint_id=id)
        for id in ("m1", "m2", "m3")
    }
    new = single(New).compile(store=store, serializer=NEW, migrations=quantities())
    stops["m4"] = paused(new.invoke, INPUTS["m4"], checkpoint_id="m4")
    store.set("m5", JUNK)
    return stops


def given(store: Any) -> dict[str, Any]:
    """Return what says which blobs: the ids where the store can't list."""
    return {"ids": IDS} if isinstance(store, TwoMethodStore) else {}


def counts(report: Any) -> tuple[int, int, int]:
    """Return changed, unchanged and failed."""
    return report.changed, report.unchanged, report.failed


def blobs(store: Any) -> dict[str, bytes]:
    """Return all bytes under the five ids."""
    return {id: blob_of(store, id) for id in IDS}


def test_trial_then_real_then_again(anywhere: Any) -> None:
    """F23: the trial writes nothing and reports 3 / 1 / 1 (m5, reason); the real run does so; the next has nothing to do."""
    stops = park(anywhere)
    before = blobs(anywhere)

    trial = MigrationJob(anywhere, quantities(), dry_run=True, **given(anywhere)).run()
    assert counts(trial) == (3, 1, 1)
    assert [(failure.id, failure.error) for failure in trial.failures] == [("m5", "CheckpointCorruptError")]
    assert str(trial).startswith("3 to migrate, 1 current, 1 failed\n")
    assert "m5: the checkpoint 'm5' is corrupt" in str(trial)
    assert blobs(anywhere) == before

    real = MigrationJob(anywhere, quantities(), **given(anywhere)).run()
    assert counts(real) == (3, 1, 1)
    after = blobs(anywhere)
    assert [id for id in IDS if after[id] != before[id]] == ["m1", "m2", "m3"]
    assert after["m5"] == JUNK

    again = MigrationJob(anywhere, quantities(), **given(anywhere)).run()
    assert counts(again) == (0, 4, 1)
    assert blobs(anywhere) == after

    results = {}
    for id, stop in stops.items():
        graph = (nested if id == "m3" else single)(New)
        app = graph.compile(store=anywhere, serializer=NEW, migrations=quantities())
        assert [point.id for point in app.pending(id)] == [stop.interrupts[0].id]
        results[id] = app.resume(id, {stop.interrupts[0].id: "y"})
    assert results == {"m1": "y1", "m2": "y2", "m3": "y3/30", "m4": "y4"}


def test_a_trial_makes_no_call_that_writes() -> None:
    """F23: a trial run makes no ``set`` call, whatever else is asked for."""
    store = TwoMethodStore()
    park(store)
    before = len(store.calls)

    MigrationJob(store, quantities(), dry_run=True, ids=IDS, backup=".old", journal="never-made").run()

    assert store.calls_since(before) == [("get", id) for id in IDS]
    assert not Path("never-made").exists()


def test_a_step_that_fails_for_one(anywhere: Any) -> None:
    """F23: where the migration raises for m2, m2 stays byte for byte, and the others are done."""
    park(anywhere)
    before = blobs(anywhere)
    migrations = Migrations(2)

    @migrations.step(1, 2, raw=True)
    def rename(order: Any) -> None:
        if order.fields["qty"] == 2:
            raise ValueError("two is too many")
        order.fields["quantity"] = order.fields.pop("qty")

    report = MigrationJob(anywhere, migrations, **given(anywhere)).run()

    assert counts(report) == (2, 1, 2)
    assert [(failure.id, failure.error, failure.path) for failure in report.failures] == [
        ("m2", "MigrationError", ""),
        ("m5", "CheckpointCorruptError", ""),
    ]
    assert "ValueError: two is too many" in report.failures[0].reason
    assert [id for id in IDS if blobs(anywhere)[id] != before[id]] == ["m1", "m3"]


def test_two_steps_in_one_go(anywhere: Any) -> None:
    """F23: 1 -> 2 -> 3 in one go; each blob is written once, with the last version."""
    park(anywhere)
    migrations = Migrations(3)
    migrations.add(1, 2, rename_field("shop.Order", "qty", "quantity"))
    migrations.add(2, 3, rename_field("shop.Order", "quantity", "amount"))

    report = MigrationJob(anywhere, migrations, **given(anywhere)).run()

    assert counts(report) == (4, 0, 1)
    assert [header_of(anywhere, id).state_version for id in IDS[:4]] == [3, 3, 3, 3]


def test_an_unmigrated_blob_is_refused(anywhere: Any) -> None:
    """F23: code of schema 2 without the step refuses a blob of schema 1, with both numbers."""
    park(anywhere)
    app = single(New).compile(store=anywhere, serializer=NEW, migrations=Migrations(2))

    error = refused(CheckpointVersionError, app.resume, "m1", answer="y")

    assert "state version 1" in str(error)
    assert "version 2 of this code" in str(error)


@pytest.mark.parametrize("kind", ["map", "file", pytest.param("s3", marks=pytest.mark.soak)])
def test_more_ids_than_a_page(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """F23: 1,001 listed ids give 1,001 in the report."""
    options: dict[str, Any] = {}
    if kind == "s3":
        options = {"endpoint_url": request.getfixturevalue("s3_endpoint"), "prefix": uuid4().hex}
    store: Any = {
        "map": MapStore,
        "file": lambda: FileStore(tmp_path / "store", durable=False),
        "s3": lambda: S3Store(request.getfixturevalue("s3_bucket"), **options),
    }[kind]()
    park(store)

    def put(number: int) -> None:
        store.set(f"n{number:04}", blob_of_run(f"n{number:04}", None, state_version=2))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(996)))

    report = MigrationJob(store, quantities(), workers=8).run()

    assert counts(report) == (3, 997, 1)
    assert report.looked_at == 1001
    if kind == "s3":
        store.close()


def test_a_store_that_cannot_list() -> None:
    """F23: a store with two methods is told that it needs the ids, before anything is read."""
    store = TwoMethodStore()

    error = refused(OptionError, MigrationJob, store, quantities())

    assert str(error) == "TwoMethodStore can't list what it holds; give ids=, an iterable of checkpoint ids"
    assert store.calls == []
