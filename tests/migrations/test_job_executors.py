"""One selection, done by the caller, by threads, by processes and by Dask."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from job_blobs import blob_of_run, chain, count_up, counted, fill, reason_for
from stored_runs import refused

from blobcp import Envelope, Header, KeyRing, MigrationError, MsgpackSerializer, OptionError, Registry, StoreError
from blobcp.migrations import HeaderFilter, JobReport, MigrationJob, Migrations, StoreJournal, copy_store, remove_node
from blobcp.stores import FileStore, MapStore, open_store


@contextmanager
def dask() -> Iterator[Executor]:
    """A real cluster of two processes on this machine."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None, "processes": True}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client.get_executor()


@contextmanager
def processes() -> Iterator[Executor]:
    """Two processes that import all anew."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def threads() -> Iterator[Executor]:
    """Four threads."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


EXECUTORS: dict[str, Callable[[], Any]] = {"threads": threads, "processes": processes, "dask": dask}


@pytest.fixture(params=EXECUTORS, scope="module")
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Each kind of executor, once for all tests of this file."""
    with EXECUTORS[str(request.param)]() as made:
        yield made


def told(report: JobReport) -> dict[str, Any]:
    """Return a report without what differs from run to run."""
    return {name: value for name, value in vars(report).items() if name not in ("seconds", "_place_of")}


def mixed(store: Any) -> None:
    """Store runs of which some fail, some are current, some are not selected and some lose something."""
    fill(store, 150)
    for number in range(20):
        store.set(f"other-{number:03}", blob_of_run(f"other-{number:03}", {"qty": 1, "entries": 0}, graph="other"))
    store.set("order-000150", b"foreign")


def by_chain() -> Migrations:
    """Return the chain of the helpers, which drops a node's input besides."""
    migrations = chain()
    migrations.add(1, 2, remove_node("ask"))
    return migrations


@pytest.mark.parametrize("migrate", [by_chain(), reason_for], ids=["chain", "function"])
def test_the_same_report(executor: Executor, tmp_path: Path, migrate: Any) -> None:
    """The same selection gives the same report by whatever executor: counts, failures in order, what was dropped, bytes."""
    options: dict[str, Any] = {"where": HeaderFilter(graph="orders"), "batch_size": 7}
    stores = [FileStore(tmp_path / name, durable=False) for name in ("one", "other")]
    for store in stores:
        mixed(store)

    expected = MigrationJob(stores[0], migrate, **options).run()
    report = MigrationJob(stores[1], migrate, executor=executor, journal=tmp_path / "journal", **options).run()

    assert told(report) == told(expected)
    assert report.failed > 0
    assert (report.skipped, report.looked_at) == (20, 171)
    if migrate is not reason_for:
        assert report.dropped_blobs == 150
    assert all(stores[0].get(id) == stores[1].get(id) for id in stores[0].list())


def test_the_same_samples(executor: Executor, tmp_path: Path) -> None:
    """A dry run gives the samples of the first blobs that would change, in order, whoever looks at them."""
    store = FileStore(tmp_path, durable=False)
    fill(store, 60)

    report = MigrationJob(store, reason_for, executor=executor, dry_run=True, batch_size=2, samples=4).run()

    assert [sample.id[-1] for sample in report.samples] == ["1", "2", "4", "5"]
    assert report.changed > 4
    assert counted(store, list(store.list())) == {0: 60}


def test_a_journal_in_the_store(executor: Executor, tmp_path: Path) -> None:
    """With a journal in the very store the job does each blob, passes the journal over, and is then found done."""
    store = FileStore(tmp_path, durable=False)
    ids = fill(store, 100)
    options: dict[str, Any] = {
        "executor": executor,
        "journal": StoreJournal(store, "order-~journal"),
        "prefix": "order-",
    }

    first = MigrationJob(store, count_up, **options).run()
    again = MigrationJob(store, count_up, **options).run()

    assert (first.changed, first.looked_at, first.earlier) == (100, 100, 0)
    assert (again.changed, again.looked_at, again.earlier) == (100, 100, 100)
    assert counted(store, ids) == {1: 100}


def test_a_copy(executor: Executor, tmp_path: Path) -> None:
    """So are whole stores copied."""
    source, target = FileStore(tmp_path / "a", durable=False), FileStore(tmp_path / "b", durable=False)
    ids = fill(source, 100)

    report = copy_store(source, target, executor=executor)

    assert report.changed == 100
    assert [source.get(id) == target.get(id) for id in ids] == [True] * 100


def test_own_classes_and_keys_travel(executor: Executor, tmp_path: Path) -> None:
    """A serializer with a registry of its own and an envelope with keys are sent along; blobs come back sealed by them."""
    keys = KeyRing({"k": bytes(32)})
    serializer, envelope = MsgpackSerializer(Registry()), Envelope(keys=keys, sign=keys)
    store = FileStore(tmp_path, durable=False)
    for id in ("a", "b"):
        _, body = Envelope().open(blob_of_run(id, {"entries": 0, "qty": 1}), checkpoint_id=id)
        store.set(id, envelope.seal(Header(checkpoint_id=id), body))

    report = MigrationJob(store, count_up, serializer=serializer, envelope=envelope, executor=executor).run()
    without = MigrationJob(store, count_up, executor=executor).run()

    assert report.changed == 2
    assert serializer.loads(envelope.open(store.get("a") or b"", checkpoint_id="a")[1]).state["entries"] == 1
    assert [failure.error for failure in without.failures] == ["CheckpointKeyError"] * 2


def test_local_functions_travel(executor: Executor, tmp_path: Path) -> None:
    """A function that cannot be imported goes by value."""
    store = FileStore(tmp_path, durable=False)
    ids = fill(store, 10)
    step = 3

    def migrate(state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        return {**state, "entries": state["entries"] + step}, True

    assert MigrationJob(store, migrate, executor=executor).run().changed == 10
    assert counted(store, ids) == {3: 10}


def test_servers(shared_url: str) -> None:
    """Every store that others can open is opened by each process of a job itself."""
    with ExitStack() as stack:
        store: Any = open_store(shared_url)
        if hasattr(store, "close"):
            stack.enter_context(store)
        pool = stack.enter_context(processes())
        ids = fill(store, 20)
        report = MigrationJob(store, count_up, executor=pool, batch_size=4).run()

        assert (report.changed, report.failed) == (20, 0)
        assert counted(store, ids) == {1: 20}


def test_a_store_that_cannot_be_sent() -> None:
    """A store in memory can't be in two processes; that is said before anything is done."""
    store = MapStore()
    fill(store, 3)

    class Elsewhere(Executor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            raise AssertionError("nothing is to be submitted")

    error = refused(OptionError, MigrationJob(store, count_up, executor=Elsewhere()).run)

    assert "can't be sent to other processes" in str(error)
    assert "not a MapStore" in str(error)


def die(state: Any) -> Any:
    """End the process that migrates."""
    os._exit(1)


def test_a_worker_that_dies(tmp_path: Path) -> None:
    """Where a process dies the job ends with an error that has the executor's as its cause; the next run goes on."""
    store = FileStore(tmp_path / "store", durable=False)
    ids = fill(store, 30)
    options: dict[str, Any] = {"journal": tmp_path / "journal"}

    with ProcessPoolExecutor(1) as pool:
        error = refused(MigrationError, MigrationJob(store, die, executor=pool, batch_size=3, **options).run)

    assert "BrokenProcessPool" in str(error)
    assert type(error.__cause__).__name__ == "BrokenProcessPool"
    assert counted(store, ids) == {0: 30}


def test_few_batches_are_on_their_way(tmp_path: Path) -> None:
    """Ids are taken as they are needed: no more are ahead of the report than a few batches have, however many there are."""
    store = FileStore(tmp_path, durable=False)
    fill(store, 400)
    taken: list[str] = []
    ahead: list[int] = []

    def ids() -> Iterator[str]:
        for id in store.list():
            taken.append(id)
            yield id

    def note(report: JobReport) -> None:
        ahead.append(len(taken) - report.looked_at)

    report = MigrationJob(store, count_up, ids=ids(), workers=3, batch_size=2, on_progress=note).run()

    assert report.changed == 400
    assert max(ahead) == 2 * 3 * 2  # two batches a worker, of two blobs; one of them is landed, one being made


def test_a_journal_that_a_worker_cannot_write(tmp_path: Path) -> None:
    """A worker that can't note a write does not make it; the job ends with an error that names the file."""
    store = FileStore(tmp_path / "store", durable=False)
    ids = fill(store, 4)
    journal = tmp_path / "journal"

    def vanish(state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        journal.unlink(missing_ok=True)
        return count_up(state)

    error = refused(StoreError, MigrationJob(store, vanish, journal=journal).run)

    assert str(journal) in str(error)
    assert counted(store, ids) == {0: 4}
