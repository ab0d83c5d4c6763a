from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from postgres_proxy import proxied

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores.postgres import PostgresStore
from blobcp.stores.postgres.calls import MAX_BLOB_BYTES, Calls, Statement
from blobcp.stores.postgres.errors import Failed
from blobcp.stores.postgres.sql import statements

TABLE = "blobcp_checkpoints"


@pytest.fixture
def store(postgres_dsn: str) -> Iterator[PostgresStore]:
    """A store in an empty schema."""
    with PostgresStore(postgres_dsn) as opened:
        yield opened


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to the store's database that goes by the store."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        yield connection


def backends(database: psycopg.Connection, name: str) -> int:
    """Return how many connections with an application name the server has."""
    row = database.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def wait_for_backends(database: psycopg.Connection, name: str, count: int) -> None:
    """Wait until the server has noticed how many connections there are."""
    for _ in range(500):
        if backends(database, name) == count:
            return
        database.execute("SELECT pg_sleep(0.01)")
    raise AssertionError(f"{backends(database, name)} connections of {name}, not {count}")


def test_keeps_what_it_is_given(store: PostgresStore) -> None:
    """A blob comes back as it went in, the last one wins, and what was never stored is None."""
    store.set("a", b"1")
    store.set("b", b"\x00\xff\r\n")
    store.set("a", bytearray(b"2"))
    store.set("%s 'x' ☕", b"")

    assert [store.get(key) for key in ("a", "b", "%s 'x' ☕", "c")] == [b"2", b"\x00\xff\r\n", b"", None]


def test_has_all_powers(store: PostgresStore) -> None:
    """What it can do is found by looking at it."""
    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert [isinstance(store, power) for power in powers] == [True] * 4


def test_a_call_is_one_round_trip(postgres_dsn: str) -> None:
    """Opening calls nobody; the first save makes the table, and from then on a save or a load is one statement."""
    with proxied(postgres_dsn) as proxy, PostgresStore(proxy.url) as store:
        assert proxy.connections == 0
        store.set("a", b"1")
        assert (proxy.connections, proxy.asked) == (1, 3)  # refused, table made, saved

    with proxied(postgres_dsn) as proxy, PostgresStore(proxy.url) as store:
        store.set("a", b"2")
        assert (proxy.connections, proxy.asked) == (1, 1)
        store.get("a")
        store.set_if("b", b"1", None)
        store.delete("b")
        assert [*store.list()] == ["a"]
        assert (proxy.connections, proxy.asked) == (1, 5)


def test_lists_in_code_point_order_and_takes_prefixes_by_the_letter(store: PostgresStore) -> None:
    """Ids are sorted by code point, and what SQL takes for a wildcard stands for itself in a prefix."""
    ids = [
        "a%",
        "a%b",
        "a_",
        "ab",
        "A",
        "a",
        "é",
        "\ud7ff",
        "\ud7ffx",
        "\ue000",
        "\uffff",
        "😀",
        "\U0010ffff",
        "\U0010ffffz",
    ]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"")

    assert [*store.list()] == sorted(ids)
    for prefix in ("a", "a%", "a_", "\ud7ff", "\U0010ffff", "none", "a\0", "\ud800", "x" * 5000):
        assert [*store.list(prefix)] == sorted(found for found in ids if found.startswith(prefix))


def test_the_order_does_not_depend_on_the_locale(store: PostgresStore, database: psycopg.Connection) -> None:
    """Ids are compared by their bytes, whatever the database's own collation is."""
    store.setup()

    collation = "SELECT collation_name FROM information_schema.columns WHERE table_name = %s AND column_name = 'id'"
    assert set(database.execute(collation, (TABLE,)).fetchall()) == {("C",)}


def test_lists_page_by_page(store: PostgresStore, database: psycopg.Connection) -> None:
    """A long list comes in pages, and ids that come later in the order are seen though they are written meanwhile."""
    store.setup()
    database.execute(
        f"INSERT INTO {TABLE} SELECT 'n' || lpad(n::text, 5, '0'), '', gen_random_uuid() FROM generate_series(1, 2500) n"
    )

    found = store.list("n")
    first = next(found)
    store.set("n02500+", b"")
    store.set("n00000", b"")

    assert [first, *found] == [f"n{number:05}" for number in range(1, 2501)] + ["n02500+"]


def test_a_list_reads_the_index_only_as_far_as_its_prefix(store: PostgresStore, database: psycopg.Connection) -> None:
    """The prefix is a range of the primary key, which the planner uses."""
    store.setup()
    database.execute(
        f"INSERT INTO {TABLE} SELECT 'n' || n, repeat('x', 200)::bytea, gen_random_uuid() FROM generate_series(1, 20000) n"
    )
    database.execute(f"ANALYZE {TABLE}")

    plan = database.execute(f"EXPLAIN {store._calls.sql.page_below.replace('%b', '%s')}", ("n77", "", "n78")).fetchall()

    text = "\n".join(line for (line,) in plan)
    assert f"on {TABLE}_pkey" in text or f"using {TABLE}_pkey" in text
    assert "Index Cond: ((id >= 'n77'::text) AND (id > ''::text) AND (id < 'n78'::text))" in text


def test_only_who_has_seen_the_last_write_may_replace_it(store: PostgresStore) -> None:
    """F26: every write moves the version, so does a delete, and none ever comes back."""
    first = store.set_if("a", b"1", None)
    assert store.get_versioned("a") == (b"1", first)
    second = store.set_if("a", b"2", first)
    store.set("a", b"3")
    seen = store.get_versioned("a")
    assert seen is not None
    store.delete("a")

    for version in (first, second, seen[1], "", "nonsense", first.upper(), "0" * 32):
        with pytest.raises(CheckpointConflictError, match="'a' was written by somebody else"):
            store.set_if("a", b"late", version)
    assert store.get("a") is None
    store.set("a", b"3")

    for stale in (first, second, seen[1], None):
        with pytest.raises(CheckpointConflictError):
            store.set_if("a", b"late", stale)
    assert store.get("a") == b"3"


def test_expires_by_the_clock_of_the_server(store: PostgresStore, database: psycopg.Connection) -> None:
    """A blob whose time is over is absent for every method, and its id is free."""
    store.set_expiring("a", b"1", timedelta(hours=1))
    seen = store.get_versioned("a")
    assert seen is not None
    assert seen[0] == store.get("a") == b"1"
    left = database.execute(f"SELECT expires_at - clock_timestamp() FROM {TABLE}").fetchone()
    assert left is not None
    assert timedelta(minutes=58) < left[0] <= timedelta(hours=1)

    database.execute(f"UPDATE {TABLE} SET expires_at = clock_timestamp() - interval '1 microsecond'")

    assert (store.get("a"), store.get_versioned("a"), [*store.list()]) == (None, None, [])
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", seen[1])
    store.set_if("a", b"2", None)
    assert store.get("a") == b"2"


@pytest.mark.parametrize("how", ["set", "set_if"])
def test_a_plain_write_makes_it_permanent(store: PostgresStore, database: psycopg.Connection, how: str) -> None:
    """Nothing of the old time to live is left after a set or set_if."""
    store.set_expiring("a", b"1", timedelta.max)
    seen = store.get_versioned("a")
    assert seen is not None

    if how == "set":
        store.set("a", b"2")
    else:
        store.set_if("a", b"2", seen[1])

    assert database.execute(f"SELECT expires_at FROM {TABLE}").fetchall() == [(None,)]


def test_purges_what_has_expired(store: PostgresStore, database: psycopg.Connection) -> None:
    """A purge removes all rows whose time is over, in batches, passes over those that are locked, and leaves the others."""
    store.set("kept", b"")
    store.set_expiring("later", b"", timedelta(days=1))
    database.execute(
        f"INSERT INTO {TABLE} SELECT 'n' || n, '', gen_random_uuid(), now() - interval '1s' FROM generate_series(1, 2001) n"
    )
    with database.transaction():
        database.execute(f"SELECT FROM {TABLE} WHERE id = 'n5' FOR UPDATE")
        assert store.purge() == 2000

    assert store.purge() == 1
    assert database.execute(f"SELECT id FROM {TABLE} ORDER BY id").fetchall() == [("kept",), ("later",)]


def test_refuses_what_no_row_can_hold(store: PostgresStore) -> None:
    """A blob beyond the limit is refused before it is sent."""
    with pytest.raises(
        StoreError, match=r"can't save checkpoint 'a' \(500000001 bytes\): a row of Postgres takes at most"
    ):
        store.set("a", bytes(MAX_BLOB_BYTES + 1))


def test_threads_make_the_table_at_once(postgres_dsn: str) -> None:
    """Many first saves at the same moment end with one table and no error."""
    barrier = threading.Barrier(8)

    def save(number: int) -> None:
        with PostgresStore(postgres_dsn) as store:
            barrier.wait(timeout=30)
            store.set(f"{number}", b"")

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(save, range(8))]
    with PostgresStore(postgres_dsn, create=False) as store:
        assert [*store.list()] == [f"{number}" for number in range(8)]


def test_threads_of_one_store_make_the_table_at_once(postgres_dsn: str) -> None:
    """A call that the server refused is repeated, also where another thread has made the table meanwhile."""
    for table in range(10):
        with PostgresStore(postgres_dsn, table=f"t{table}") as store, ThreadPoolExecutor(8) as pool:
            [*pool.map(lambda number, store=store: store.set(f"{number}", b""), range(8))]

            assert len([*store.list()]) == 8


def test_more_threads_than_connections(postgres_dsn: str, database: psycopg.Connection) -> None:
    """Threads share the connections; there are never more than the pool may have."""
    with PostgresStore(f"{postgres_dsn}&application_name=few", pool_size=2) as store:
        store.setup()
        with ThreadPoolExecutor(16) as pool:
            [*pool.map(lambda number: store.set(f"{number}", b""), range(200))]

        assert len([*store.list()]) == 200
        assert backends(database, "few") <= 2


def test_its_table_can_be_made_by_somebody_else(postgres_dsn: str, database: psycopg.Connection) -> None:
    """What setup_sql returns can be run as it is, twice, and the store then needs no right to create."""
    store = PostgresStore(postgres_dsn, table='my "own" 100% table', create=False)
    for _ in range(2):
        database.execute(store.setup_sql())

    with store:
        store.set("a", b"1")
        store.setup()

        assert store.get("a") == b"1"
    assert database.execute("""SELECT id, expires_at FROM "my ""own"" 100% table" """).fetchall() == [("a", None)]


def test_keeps_apart_tables_and_schemas(postgres_dsn: str, database: psycopg.Connection) -> None:
    """The table may have any name, capitals count, and may be in any schema."""
    [(schema,)] = database.execute("SELECT current_schema()").fetchall()
    elsewhere = postgres_dsn.partition("?")[0]
    with (
        PostgresStore(postgres_dsn, table="Drafts") as upper,
        PostgresStore(postgres_dsn, table="drafts") as lower,
        PostgresStore(elsewhere, table="drafts", schema=schema) as qualified,
    ):
        upper.set("a", b"upper")
        lower.set("a", b"lower")

        assert (upper.get("a"), lower.get("a"), qualified.get("a")) == (b"upper", b"lower", b"lower")


@pytest.mark.parametrize("name", ["", "x" * 49, "a\0b", "\ud800"])
def test_refuses_what_is_no_name(name: str) -> None:
    """A name that Postgres would cut or refuse is refused at once."""
    with pytest.raises(StoreError, match="can't be a table of checkpoints; give a name of 1 to 48 bytes"):
        PostgresStore("postgresql://db/app", table=name)


def test_refuses_a_table_of_a_later_release(store: PostgresStore, database: psycopg.Connection) -> None:
    """Setting up notices that the table has a layout that is not known yet."""
    store.setup()
    database.execute(f"COMMENT ON TABLE {TABLE} IS 'blobcp checkpoints, layout 2'")

    with pytest.raises(StoreError, match="the table has layout 2, and this release of blobcp knows layouts up to 1"):
        store.setup()


@pytest.mark.parametrize("call", [lambda store: store.setup(), lambda store: store.get("a")])
def test_refuses_a_table_of_somebody_else(store: PostgresStore, database: psycopg.Connection, call: object) -> None:
    """A table with other columns is left alone, and reading it says what it is."""
    database.execute(f"CREATE TABLE {TABLE} (id text, body bytea)")

    with pytest.raises(StoreError, match='column "blob" does not exist; the table is not a table of checkpoints'):
        call(store)  # type: ignore[operator]


def test_the_url_is_for_libpq_and_for_the_store(postgres_dsn: str, database: psycopg.Connection) -> None:
    """Options with blobcp_ are the store's, all others reach libpq, several hosts too."""
    place, _, query = postgres_dsn.partition("?")
    user, _, host = place.partition("@")
    url = f"{user}@127.0.0.1:1,{host}?{query}&application_name=two%20words&blobcp_table=drafts&blobcp_pool_size=1"
    with PostgresStore.from_url(f"{url}&blobcp_timeout=7.5&blobcp_create=true") as store:
        store.set("a", b"1")

        assert (store.table, store.pool_size, store.timeout) == ("drafts", 1, 7.5)
        assert database.execute("SELECT id FROM drafts").fetchall() == [("a",)]
        assert backends(database, "two words") == 1
        asked = "SELECT current_setting('statement_timeout')"
        with store._server.connect() as connection:
            assert connection.execute(asked).fetchone() == ("7500ms",)


def test_an_unknown_option_is_refused() -> None:
    """A misspelt option is not passed over, wherever it belongs."""
    with pytest.raises(StoreError, match="has the unknown option 'blobcp_tabel'; known are: blobcp_table, "):
        PostgresStore.from_url("postgresql://db/app?blobcp_tabel=x")
    with pytest.raises(StoreError, match="PostgresStore can't read its URL; give postgresql://"):
        PostgresStore.from_url("postgresql://db/app?sslmod=require")


def test_survives_pickling(store: PostgresStore) -> None:
    """A copy opens connections of its own to the same table."""
    store.set("a", b"1")

    with pickle.loads(pickle.dumps(store)) as copy:
        assert copy.get("a") == b"1"


def test_a_forked_child_has_connections_of_its_own(postgres_dsn: str, database: psycopg.Connection) -> None:
    """F28: parent and child go on with one store after a fork, and the child's end breaks nothing."""
    with PostgresStore(f"{postgres_dsn}&application_name=forked", pool_size=1) as store:
        store.set("a", b"parent")
        seen = store.get_versioned("a")
        assert seen is not None
        held = store._pool()
        held.free.get(timeout=1)  # as if another thread were in the middle of a call
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.set_if("a", b"child", seen[1])
                store.close()
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        held.free.put(None)

        assert status == 0
        wait_for_backends(database, "forked", 1)
        assert store.get("a") == b"child"
        assert store._pool() is held
        wait_for_backends(database, "forked", 1)


def test_closing_ends_its_connections(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A closed store has no connection and takes no call; closing twice is no error."""
    store = PostgresStore(f"{postgres_dsn}&application_name=closing")
    store.set("a", b"1")
    assert backends(database, "closing") == 1

    store.close()
    store.close()

    wait_for_backends(database, "closing", 0)
    with pytest.raises(StoreError, match=r"can't read checkpoint 'a' from table .*: the store is closed; open it anew"):
        store.get("a")


def test_a_store_that_is_dropped_closes_silently(postgres_dsn: str, database: psycopg.Connection) -> None:
    """Without close() the connections end with the store, and no warning is given."""
    store = PostgresStore(f"{postgres_dsn}&application_name=dropped")
    store.set("a", b"1")
    assert backends(database, "dropped") == 1

    del store
    gc.collect()

    wait_for_backends(database, "dropped", 0)


def test_goes_on_where_a_pooler_has_changed_the_server(store: PostgresStore) -> None:
    """A prepared statement that is missing at the server's end is done without, from then on."""
    for _ in range(8):
        store.set("a", b"1")
    connection = store._pool().idle.take()
    assert connection is not None
    names = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
    connection.pgconn.exec_(b"DEALLOCATE ALL")  # behind the back of the library
    store._pool().idle.give(connection)

    for number in range(8):
        store.set("a", b"%d" % number)

    assert len(names) == 1
    assert names[0][0] not in {f"_pg3_{number}" for number in range(1000)}
    assert store.get("a") == b"7"
    assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []


def test_all_calls_go_on_where_a_pooler_has_changed_the_server() -> None:
    """Of several calls at once that miss their statements, each is sent again."""
    calls = Calls(statements("drafts", None), "table drafts", create=True)
    missing = Failed(psycopg.errors.InvalidSqlStatementName("it does not exist"), sent=True)
    both = [calls.get("a"), calls.get("b")]
    assert [next(call).prepare for call in both] == [None, None]

    again = [call.throw(missing) for call in both]

    assert [step.prepare for step in again if isinstance(step, Statement)] == [False, False]
