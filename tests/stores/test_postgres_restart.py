from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from postgres_proxy import PostgresProxy, proxied
from postgres_server import PostgresServer

from blobcp.errors import CheckpointConflictError
from blobcp.stores.postgres import PostgresStore

COUNTER = """
import sys
from blobcp.errors import CheckpointConflictError
from blobcp.stores.postgres import PostgresStore

with PostgresStore(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        while True:
            blob, version = store.get_versioned("n") or (b"0", None)
            try:
                store.set_if("n", b"%d" % (int(blob) + 1), version)
            except CheckpointConflictError:
                continue
            break
"""
"""Counts up in one blob, as often as it is told, beside others that do the same."""


@pytest.fixture
def proxy(postgres_dsn: str) -> Iterator[PostgresProxy]:
    """A proxy to a database in which there is a table."""
    with PostgresStore(postgres_dsn) as store:
        store.setup()
    with proxied(postgres_dsn) as opened:
        yield opened


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_survives_a_restart(private_postgres: PostgresServer, how: signal.Signals) -> None:
    """Calls work after the server was restarted or crashed, and what was saved before is there."""
    with PostgresStore(private_postgres.url, table=f"t{how}") as store:
        version = store.set_if("a", b"1", None)
        idle = [store._pool().idle.take() or store._server.connect() for _ in range(3)]
        for connection in idle:
            store._pool().idle.give(connection)

        private_postgres.restart(how)
        version = store.set_if("a", b"2", version)
        private_postgres.restart(how)

        assert store.get_versioned("a") == (b"2", version)


def test_saves_go_on_while_the_server_restarts(private_postgres: PostgresServer) -> None:
    """Of many saves that run through restarts and a crash, none fails and none is lost."""
    saved = [0] * 4
    enough = threading.Event()

    def save(store: PostgresStore, name: int) -> None:
        version = None
        while not enough.is_set():
            version = store.set_if(f"{name}", b"%d" % saved[name], version)
            saved[name] += 1

    def all_have_saved_again() -> None:
        before = [*saved]
        for _ in range(3000):
            if all(now > then + 1 for now, then in zip(saved, before, strict=True)):
                return
            time.sleep(0.01)
        raise AssertionError(f"saves have stopped at {saved}")

    with PostgresStore(private_postgres.url, table="going", pool_size=3) as store, ThreadPoolExecutor(4) as pool:
        store.setup()
        savers = [pool.submit(save, store, name) for name in range(4)]
        try:
            for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGINT):
                all_have_saved_again()
                private_postgres.restart(how)
            all_have_saved_again()
        finally:
            enough.set()
        for saver in savers:
            saver.result(timeout=60)

        assert [store.get(f"{name}") for name in range(4)] == [b"%d" % (count - 1) for count in saved]


@pytest.mark.parametrize("existing", [False, True])
def test_a_lost_reply_is_no_conflict(proxy: PostgresProxy, existing: bool) -> None:
    """F27: a conditional save whose reply is lost was still one's own."""
    with PostgresStore(proxy.url) as store:
        version = store.set_if("a", b"0", None) if existing else None
        store.get("a")
        proxy.lose_reply.set()

        version = store.set_if("a", b"1", version)

        assert proxy.lost.is_set()
        assert store.get_versioned("a") == (b"1", version)


def test_a_rival_after_a_lost_reply_is_one(proxy: PostgresProxy, postgres_dsn: str) -> None:
    """F27: what somebody else wrote on top is kept, and the writer whose reply was lost is told."""
    with PostgresStore(proxy.url) as store, PostgresStore(postgres_dsn) as rival:
        version = store.set_if("a", b"same", None)
        proxy.before_loss = lambda: rival.set("a", b"same")
        proxy.lose_reply.set()

        with pytest.raises(CheckpointConflictError):
            store.set_if("a", b"same", version)

        assert proxy.lost.is_set()
        assert rival.get("a") == b"same"


def test_every_other_call_survives_a_lost_reply(proxy: PostgresProxy) -> None:
    """Each call is sent once more on a new connection, and answers as if nothing had happened."""
    with PostgresStore(proxy.url) as store:
        store.get("a")
        for call in (
            lambda: store.set("a", b"1"),
            lambda: store.get("a"),
            lambda: [*store.list()],
            lambda: store.delete("a"),
            lambda: store.get("a"),
            lambda: store.purge(),
        ):
            proxy.lost.clear()
            proxy.lose_reply.set()
            call()
            assert proxy.lost.is_set()


def test_processes_count_together(postgres_dsn: str) -> None:
    """F26: of many processes that write what they have read, also into a table that is not there yet, none is lost."""
    command = [sys.executable, "-c", COUNTER, postgres_dsn, "30"]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert said == [""] * 4
    with psycopg.connect(postgres_dsn) as connection:
        assert connection.execute("SELECT blob FROM blobcp_checkpoints").fetchall() == [(b"120",)]
