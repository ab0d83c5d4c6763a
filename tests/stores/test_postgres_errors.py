from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from postgres_proxy import proxied

from blobcp.errors import StoreError, StoreUrlError
from blobcp.stores import PostgresStore

SECRET = "Pa55-w0rd"
TABLE = "blobcp_checkpoints"


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to the store's database that goes by the store."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        yield connection


@contextmanager
def role(database: psycopg.Connection, url: str, rights: str) -> Iterator[str]:
    """Make a role that may use the test's schema and has some rights on all of its tables; yield its URL."""
    name = f"blobcp_{token_hex(6)}"
    [(schema,)] = database.execute("SELECT current_schema()").fetchall()
    database.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    try:
        database.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
        database.execute(f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {name}")
        yield as_user(url, f"{name}:{SECRET}")
    finally:
        database.execute(f"DROP OWNED BY {name}")
        database.execute(f"DROP ROLE {name}")


def as_user(url: str, user: str) -> str:
    """Return the URL with another user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}"))


def refused(url: str, call: Callable[[PostgresStore], object], **options: object) -> StoreError:
    """Return the error of a call; it keeps its cause, and no password of the URL is anywhere in it."""
    with PostgresStore(url, **options) as store:  # type: ignore[arg-type]
        with pytest.raises(StoreError) as caught:
            call(store)
        password = urlsplit(url).password
        assert password is not None
        assert password not in "".join(traceback.format_exception(caught.value)) + repr(store) + repr(store._server)
        assert isinstance(caught.value.__cause__, psycopg.Error)
        return caught.value


def save(store: PostgresStore) -> None:
    """Save something."""
    store.set("order-17", b"blob")


def load(store: PostgresStore) -> bytes | None:
    """Load what is saved."""
    return store.get("order-17")


def test_no_server() -> None:
    """Where nobody listens the error says where, at once, and what to look at."""
    error = refused(f"postgresql://me:{SECRET}@127.0.0.1:1/app", load)

    assert str(error).startswith(
        "can't read checkpoint 'order-17' from table \"blobcp_checkpoints\" at 127.0.0.1:1/app: "
    )
    assert "Connection refused" in str(error)
    assert str(error).endswith(
        "; check that the server runs, and the host, port, user, password and database of the URL"
    )


@pytest.mark.parametrize("call", [save, load])
def test_wrong_password(postgres_dsn: str, call: Callable[[PostgresStore], object]) -> None:
    """A wrong password is an error that does not show it."""
    error = refused(as_user(postgres_dsn, f"no_such_role:{SECRET}"), call)

    assert 'password authentication failed for user "no_such_role"; check' in str(error)


@pytest.mark.parametrize("host", ["db..example", "d" * 64])
def test_a_host_that_can_be_no_name(host: str) -> None:
    """A mistake in the host's name is an error of the store like any other."""
    error = refused(f"postgresql://me:{SECRET}@{host}/app", load)

    assert f"at {host}/app: the host is no name of one: " in str(error)
    assert str(error).endswith(
        "; check that the server runs, and the host, port, user, password and database of the URL"
    )


def test_missing_database(postgres_dsn: str) -> None:
    """A database that is not there is an error, not an empty store."""
    url = urlunsplit(urlsplit(postgres_dsn)._replace(path="/no_such_database"))

    assert 'database "no_such_database" does not exist; check' in str(refused(url, load))


@pytest.mark.parametrize(
    "call", [save, load, lambda store: store.set_if("a", b"", None), lambda store: [*store.list()]]
)
def test_a_missing_table_is_not_an_empty_store(postgres_dsn: str, call: Callable[[PostgresStore], object]) -> None:
    """F25: with create=False a missing table is an error that says how to make it."""
    error = refused(postgres_dsn, call, create=False)

    assert 'relation "blobcp_checkpoints" does not exist; call setup(), or let a role' in str(error)


def test_a_table_that_vanishes_is_not_an_empty_store(postgres_dsn: str, database: psycopg.Connection) -> None:
    """F25: a table that was there and is gone is not made anew behind the user's back."""

    def save_and_load(store: PostgresStore) -> None:
        save(store)
        database.execute(f"DROP TABLE {TABLE}")
        load(store)

    error = refused(postgres_dsn, save_and_load)

    assert 'relation "blobcp_checkpoints" does not exist' in str(error)
    assert database.execute("SELECT to_regclass(%s)", (TABLE,)).fetchall() == [(None,)]


def test_a_missing_schema(postgres_dsn: str) -> None:
    """A schema is not made by the way."""
    error = refused(postgres_dsn, save, schema="no_such_schema")

    assert 'schema "no_such_schema" does not exist; create the schema first' in str(error)


def test_no_right_to_create(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A role that may not create tables is told who may."""
    with role(database, postgres_dsn, "SELECT") as url:
        error = refused(url, save)

    assert "permission denied for schema" in str(error)
    assert "let a role that may create tables run what setup_sql() returns" in str(error)


def test_no_right_to_write(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A role that may only read is told so when it saves, and reads all the same."""
    with PostgresStore(postgres_dsn) as store:
        save(store)
    with role(database, postgres_dsn, "SELECT") as url:
        error = refused(url, save)
        with PostgresStore(url) as store:
            assert load(store) == b"blob"

    assert "permission denied for table blobcp_checkpoints; give the role SELECT, INSERT, UPDATE and DELETE" in str(
        error
    )


def test_read_only(postgres_dsn: str) -> None:
    """A server that only reads, such as a standby, is named as the reason."""
    with PostgresStore(postgres_dsn) as store:
        save(store)

    url = postgres_dsn.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")
    assert "cannot execute INSERT in a read-only transaction; it is a standby" in str(refused(url, save))
    with PostgresStore(url) as store:
        assert load(store) == b"blob"


def test_a_server_that_was_a_standby_is_connected_to_anew(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A connection that only reads is not kept, so the next save may find the primary."""
    with PostgresStore(postgres_dsn) as store:
        save(store)
    with role(database, postgres_dsn, "SELECT, INSERT, UPDATE") as url:
        name = urlsplit(url).username
        database.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
        [(schema,)] = database.execute("SELECT current_schema()").fetchall()
        with PostgresStore(url, schema=schema) as store:
            assert load(store) == b"blob"
            with pytest.raises(StoreError, match="it is a standby or set to read-only"):
                save(store)
            database.execute(f"ALTER ROLE {name} RESET default_transaction_read_only")
            save(store)


def test_disk_full_keeps_the_old_blob(postgres_dsn: str, database: psycopg.Connection) -> None:
    """F24: a save for which there is no space says so and leaves what was there; the row's content is not shown."""
    with PostgresStore(postgres_dsn) as store:
        save(store)
        database.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file' USING ERRCODE = '53100', DETAIL = 'the secret of the row'; END $$"
        )
        database.execute(f"CREATE TRIGGER full_disk BEFORE INSERT ON {TABLE} EXECUTE FUNCTION full_disk()")

        error = refused(postgres_dsn, save)

        assert "could not extend file; free some space on the server's disk" in str(error)
        assert "secret" not in str(error)
        assert load(store) == b"blob"


def test_a_locked_row_is_not_waited_for_without_end(postgres_dsn: str, database: psycopg.Connection) -> None:
    """A statement that has to wait ends by the server's own time-out, with advice."""
    with PostgresStore(postgres_dsn) as store:
        save(store)
    with database.transaction():
        database.execute(f"SELECT FROM {TABLE} FOR UPDATE")
        error = refused(postgres_dsn, save, timeout=0.2)

    assert "canceling statement due to statement timeout; the server's time-out for statements ran out" in str(error)


def test_a_silent_server_is_not_waited_for_without_end(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no reply comes at all, the client gives up, and says that the outcome is unknown."""
    monkeypatch.setattr("blobcp.stores.postgres.connections.GRACE", 0.1)
    monkeypatch.setattr("blobcp.stores.postgres.calls.RESTART", 0.0)

    with proxied(postgres_dsn) as proxy:

        def save_in_silence(store: PostgresStore) -> None:
            save(store)
            proxy.mute.set()
            save(store)

        error = refused(f"{proxy.url}&connect_timeout=2", save_in_silence, timeout=0.2)

    assert "can't save checkpoint 'order-17' to table" in str(error)
    assert str(error).endswith("; a connection broke before the reply came, so nobody knows whether the server did it")


def test_an_interrupted_call_ends_though_the_server_is_silent(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends a call, which is not sent again, and its connection is not kept."""
    monkeypatch.setattr("blobcp.stores.postgres.connections.CANCEL_TIMEOUT", 0.1)

    with proxied(postgres_dsn) as proxy, PostgresStore(f"{proxy.url}&connect_timeout=2") as store:
        save(store)
        proxy.mute.set()
        asked = proxy.asked

        def interrupt() -> None:
            while proxy.asked == asked:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        with ThreadPoolExecutor(1) as pool:
            interrupted = pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                load(store)
            interrupted.result(timeout=30)
        assert store._pool().idle.take() is None
        assert proxy.asked == asked + 1


def test_too_few_connections(postgres_dsn: str) -> None:
    """Who waits too long for a free connection is told which number to raise."""

    def load_twice(store: PostgresStore) -> None:
        store._pool().free.get(timeout=1)
        load(store)

    error = refused(postgres_dsn, load_twice, pool_size=1, timeout=0.1)

    assert "all 1 connections were in use for 0.1 seconds; raise pool_size" in str(error)


def test_a_database_in_another_encoding(postgres_url: str) -> None:
    """A database that can't hold every id is refused, whatever is asked."""
    name = f"blobcp_{token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
        try:
            error = refused(urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}")), load)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    assert "the database keeps text as LATIN1, which can't hold every id; use one in UTF8" in str(error)


@pytest.mark.parametrize(
    "url", [f"postgresql://me:{SECRET}%zz@db/app", f"password={SECRET} host", f"postgresql://me:{SECRET}@[db"]
)
def test_a_url_that_cannot_be_read(url: str) -> None:
    """The error of a broken URL shows nothing of it, since the broken part may be the password."""
    with pytest.raises(StoreUrlError, match="PostgresStore can't read its URL; give postgresql://") as caught:
        PostgresStore(url)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "options", [{"pool_size": 0}, {"timeout": 0}, {"timeout": -1}, {"timeout": 3e6}, {"timeout": float("nan")}]
)
def test_options_out_of_range(options: dict[str, float]) -> None:
    """A store without connections, without patience, or with more of it than the server can count is refused."""
    with pytest.raises(StoreError, match="PostgresStore can't work with pool_size="):
        PostgresStore("postgresql://db/app", **options)  # type: ignore[arg-type]


def test_is_repeated_where_the_isolation_level_rolls_it_back(postgres_dsn: str) -> None:
    """Under a stricter isolation level, a save that meets another one is sent again."""
    url = postgres_dsn.replace("options=", "options=-cdefault_transaction_isolation%3Dserializable%20")
    with (
        PostgresStore(url) as store,
        psycopg.connect(url) as rival,
        psycopg.connect(postgres_dsn, autocommit=True) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        save(store)
        rival.execute(f"UPDATE {TABLE} SET blob = 'rival'")
        saved = pool.submit(store.set, "order-17", b"second")
        while watcher.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 0:
            assert not saved.done()
            watcher.execute("SELECT pg_sleep(0.01)")
        rival.commit()
        saved.result(timeout=30)

        assert load(store) == b"second"
