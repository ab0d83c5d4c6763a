from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from postgres_proxy import proxied
from postgres_server import PostgresServer

from blobcp import END, START, Graph, Interrupted, interrupt
from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.stores import AsyncPostgresStore, PostgresStore


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to the store's database that goes by the store."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        yield connection


def connections(database: psycopg.Connection, name: str) -> int:
    """Return how many connections with an application name the server has."""
    [(count,)] = database.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,)
    ).fetchall()
    return int(count)


def wait_for_connections(database: psycopg.Connection, name: str, count: int) -> None:
    """Wait until the server has noticed how many connections there are."""
    for _ in range(500):
        if connections(database, name) == count:
            return
        database.execute("SELECT pg_sleep(0.01)")
    raise AssertionError(f"{connections(database, name)} connections of {name}, not {count}")


def test_has_the_methods_of_the_plain_store() -> None:
    """Both stores offer the same methods with the same arguments; here they are awaited."""
    plain = {name: each for name, each in inspect.getmembers(PostgresStore, callable) if name[0] != "_"}
    awaited = {name: each for name, each in inspect.getmembers(AsyncPostgresStore, callable) if name[0] != "_"}

    assert plain.keys() == awaited.keys()
    assert [*inspect.signature(PostgresStore).parameters] == [*inspect.signature(AsyncPostgresStore).parameters]
    for name, method in plain.items():
        assert [*inspect.signature(method).parameters] == [*inspect.signature(awaited[name]).parameters]


def test_does_what_the_plain_store_does(postgres_dsn: str) -> None:
    """All methods work, on the very table of the plain store."""

    async def use() -> None:
        async with AsyncPostgresStore(postgres_dsn) as store:
            assert await store.get("a") is None
            await store.set("a", b"1")
            seen = await store.get_versioned("a")
            assert seen is not None
            version = await store.set_if("a", b"2", seen[1])
            with pytest.raises(CheckpointConflictError):
                await store.set_if("a", b"3", seen[1])
            assert await store.get_versioned("a") == (b"2", version)
            await store.set_expiring("b", b"4", timedelta(days=1))
            await store.set("c", b"5")
            await store.delete("c")
            assert [found async for found in store.list()] == ["a", "b"]
            assert [found async for found in store.list("b")] == ["b"]
            assert await store.purge() == 0
            await store.setup()

    asyncio.run(use())
    with PostgresStore(postgres_dsn) as plain:
        assert [(found, plain.get(found)) for found in plain.list()] == [("a", b"2"), ("b", b"4")]


def test_runs_stop_and_go_on(postgres_dsn: str) -> None:
    """A run is stored by ainvoke, shown by apending, and ended by aresume, each on a loop of its own; then it is deleted."""
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: text + interrupt("and?"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    store = AsyncPostgresStore(postgres_dsn)
    app = graph.compile(store=store, when_done="delete")

    with pytest.raises(Interrupted):
        asyncio.run(app.ainvoke("well", checkpoint_id="A"))
    [point] = asyncio.run(app.apending("A"))
    assert point.info == "and?"
    assert asyncio.run(app.aresume("A", answer=" done")) == "well done"
    assert asyncio.run(store.get("A")) is None


def use_on_three_loops(store: AsyncPostgresStore) -> None:
    """Save sixty blobs from three loops that run at the same time."""
    barrier = threading.Barrier(3)

    async def save(name: int) -> None:
        await asyncio.gather(*(store.set(f"{name}/{number}", b"") for number in range(20)))
        await asyncio.to_thread(barrier.wait, 30)

    threads = [threading.Thread(target=lambda name=name: asyncio.run(save(name))) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)


async def count(store: AsyncPostgresStore) -> int:
    """Return how many blobs there are."""
    return len([found async for found in store.list()])


def test_each_loop_has_its_connections(postgres_dsn: str, database: psycopg.Connection) -> None:
    """Loops that run at the same time share a store; connections of loops that have ended are closed."""
    store = AsyncPostgresStore(f"{postgres_dsn}&application_name=loops", pool_size=2)
    asyncio.run(store.setup())

    use_on_three_loops(store)

    assert asyncio.run(count(store)) == 60
    wait_for_connections(database, "loops", 1)
    del store
    gc.collect()
    wait_for_connections(database, "loops", 0)


def test_a_call_that_is_cancelled_leaves_the_store_usable(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A cancelled save is not carried out, and its place in the pool is free again."""

    async def cancel() -> None:
        async with AsyncPostgresStore(postgres_dsn, pool_size=1) as store:
            await store.set("a", b"1")
            with database.transaction():
                database.execute("SELECT FROM blobcp_checkpoints FOR UPDATE")
                task = asyncio.create_task(store.set("a", b"2"))
                while database.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 0:
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await store.get("a") == b"1"

    asyncio.run(asyncio.wait_for(cancel(), 60))


def test_a_call_that_is_cancelled_while_the_server_is_silent_ends(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled call is over, and not sent again, also where the server can't be told."""
    monkeypatch.setattr("blobcp.stores.postgres.connections.CANCEL_TIMEOUT", 0.1)

    async def cancel() -> int:
        with proxied(postgres_dsn) as proxy:
            async with AsyncPostgresStore(f"{proxy.url}&connect_timeout=2") as store:
                await store.set("a", b"1")
                proxy.mute.set()
                asked = proxy.asked
                task = asyncio.create_task(store.get("a"))
                while proxy.asked == asked:
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert store._pool().idle.take() is None
                return proxy.asked - asked

    assert asyncio.run(asyncio.wait_for(cancel(), 20)) == 1


def test_loops_that_begin_together_clear_up_together() -> None:
    """What loops that have ended left behind is removed once, however many begin at that moment."""
    store = AsyncPostgresStore("postgresql://db/app")
    errors: list[BaseException] = []

    def begin_and_end() -> None:
        try:
            for _ in range(60):
                asyncio.run(store.close())
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=begin_and_end) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    finally:
        sys.setswitchinterval(interval)

    assert errors == []


def test_waits_have_limits(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full pool and a silent server are errors after a time, and a store that was closed is one at once."""
    monkeypatch.setattr("blobcp.stores.postgres.calls.RESTART", 0.0)
    monkeypatch.setattr("blobcp.stores.postgres.connections.GRACE", 0.1)

    async def wait() -> None:
        with proxied(postgres_dsn) as proxy:
            store = AsyncPostgresStore(f"{proxy.url}&connect_timeout=2", pool_size=1, timeout=0.2)
            await store.set("a", b"1")
            async with store._pool().free:
                with pytest.raises(
                    StoreError, match=r"all 1 connections were in use for 0\.2 seconds; raise pool_size"
                ):
                    await store.get("a")
            proxy.mute.set()
            with pytest.raises(
                StoreError, match=r"can't read checkpoint 'a' from .*; a connection broke before the reply"
            ):
                await store.get("a")
            await store.close()
            with pytest.raises(StoreError, match=r"the store is closed; open it anew"):
                await store.get("a")

    asyncio.run(asyncio.wait_for(wait(), 60))


def test_survives_restarts_and_lost_replies(private_postgres: PostgresServer) -> None:
    """F27: a call goes on after its connection broke, and a conditional save knows its own."""

    async def go_on() -> None:
        with proxied(private_postgres.url) as proxy:
            async with AsyncPostgresStore(proxy.url, table="awaited") as store:
                version = await store.set_if("a", b"1", None)
                await asyncio.to_thread(private_postgres.restart)
                version = await store.set_if("a", b"2", version)
                proxy.lose_reply.set()
                version = await store.set_if("a", b"3", version)

                assert proxy.lost.is_set()
                assert await store.get_versioned("a") == (b"3", version)

    asyncio.run(asyncio.wait_for(go_on(), 60))
