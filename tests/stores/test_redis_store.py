from __future__ import annotations

import gc
import os
import pickle
import threading
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Self

import pytest
import redis
import redis.asyncio
from redis_server import RedisServer

from blobcp.errors import CheckpointConflictError, StoreError, StoreUrlError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores.redis import RedisStore, commands


@pytest.fixture
def store(redis_url: str, free_prefix: str) -> Iterator[RedisStore]:
    """An empty store."""
    with RedisStore(redis_url, prefix=free_prefix) as store:
        yield store


@pytest.fixture
def raw(redis_url: str) -> Iterator[redis.Redis]:
    """A client of the same server, to look behind the store."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


class Counted:
    """Which commands a server has carried out, those of connecting and those inside scripts too."""

    def __init__(self, server: RedisServer) -> None:
        self._client = redis.Redis.from_url(server.url)
        self._client.config_resetstat()

    def since(self) -> dict[str, int]:
        """Return how often each was carried out since the last time."""
        stats = self._client.info("commandstats")
        self._client.config_resetstat()
        counts = {name.removeprefix("cmdstat_"): numbers["calls"] for name, numbers in stats.items()}
        return {name: calls for name, calls in counts.items() if name not in {"info", "config", "config|resetstat"}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()


def test_keeps_what_it_is_given(store: RedisStore) -> None:
    """A blob comes back as it went in, the last one wins, and what was never stored is None."""
    store.set("a", b"1")
    store.set("b", b"\x00\xff\r\n")
    store.set("empty", b"")
    store.set("a", bytearray(b"2"))

    assert store.get("a") == b"2"
    assert store.get("b") == b"\x00\xff\r\n"
    assert store.get("empty") == b""
    assert store.get("c") is None


def test_an_empty_foreign_value_is_no_blob(store: RedisStore, raw: redis.Redis, free_prefix: str) -> None:
    """An empty string that no store has written is neither absent nor an empty blob, and is not replaced unseen."""
    raw.set(f"{free_prefix}a", b"")

    with pytest.raises(StoreError, match="holds what no store of blobcp has written"):
        store.get("a")
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"1", None)
    assert raw.get(f"{free_prefix}a") == b""


def test_has_all_powers(store: RedisStore) -> None:
    """It can delete, list, compare and set, and expire."""
    for power in (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer):
        assert isinstance(store, power)


def test_every_write_moves_the_version(store: RedisStore) -> None:
    """A version seen before conflicts after a set of equal bytes, and after a delete and a new start."""
    first = store.set_if("a", b"1", None)
    store.set("a", b"1")
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", first)
    found = store.get_versioned("a")
    assert found is not None
    store.delete("a")
    store.set("a", b"1")
    with pytest.raises(CheckpointConflictError, match="checkpoint 'a' was written by somebody else"):
        store.set_if("a", b"2", found[1])
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", None)

    assert store.get("a") == b"1"


@pytest.mark.parametrize("version", ["0" * 32, "", "\n", "\ud800", "not of this store"])
def test_nothing_conflicts_with_any_version(store: RedisStore, version: str) -> None:
    """Where nothing is stored every version conflicts, also text that is none, and nothing is stored by it."""
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"1", version)

    assert store.get("a") is None


def test_a_version_is_of_one_write(store: RedisStore) -> None:
    """The version that set_if returns is the one that get_versioned finds, and lets the next set_if pass."""
    version = store.set_if("a", b"1", None)
    assert store.get_versioned("a") == (b"1", version)
    version = store.set_if("a", b"2", version)

    assert store.get_versioned("a") == (b"2", version)


def test_an_expiring_blob_goes(store: RedisStore) -> None:
    """Past its time a blob is absent to get, get_versioned, list and set_if."""
    store.set_expiring("a", b"1", timedelta(milliseconds=1))
    while store.get("a") is not None:
        pass

    assert store.get_versioned("a") is None
    assert [*store.list()] == []
    assert store.set_if("a", b"2", None)


def test_writes_over_an_expiring_blob_last(store: RedisStore, raw: redis.Redis, free_prefix: str) -> None:
    """Both set and set_if make permanent what was to expire; before that it has its time to live, and not less."""
    key = f"{free_prefix}a"
    store.set_expiring("a", b"1", timedelta(hours=1))
    assert 3_590_000 < raw.pttl(key) <= 3_600_000
    store.set("a", b"2")
    assert raw.pttl(key) == -1
    store.set_expiring("a", b"3", timedelta(hours=1))
    found = store.get_versioned("a")
    assert found is not None
    store.set_if("a", b"4", found[1])

    assert raw.pttl(key) == -1


@pytest.mark.parametrize(
    ("ttl", "milliseconds"),
    [
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=2), 2),
        (timedelta(seconds=1, microseconds=1), 1001),
        (timedelta.max, 86_400_000_000_000_000),
    ],
)
def test_times_are_rounded_up(ttl: timedelta, milliseconds: int) -> None:
    """A time to live that is no whole number of milliseconds becomes longer, never shorter."""
    command = next(commands.Commands("").set_expiring("a", b"1", ttl).steps)

    assert command[3:] == ("PX", milliseconds)


def test_the_longest_time_is_taken(store: RedisStore) -> None:
    """The server takes the longest timedelta there is."""
    store.set_expiring("a", b"1", timedelta.max)

    assert store.get("a") == b"1"


def test_lists_what_starts_with_the_prefix_as_it_is(store: RedisStore) -> None:
    """Signs that are wildcards to Redis stand for themselves in prefixes, and the order is that of code points."""
    ids = ["a*b", "a?b", "a[b]", "a\\b", "axb", "a", "Z", "é", "\ue000", "\U0001f600"]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"")

    assert [*store.list()] == sorted(ids)
    assert [*store.list("a*")] == ["a*b"]
    assert [*store.list("a?")] == ["a?b"]
    assert [*store.list("a[b]")] == ["a[b]"]
    assert [*store.list("a\\")] == ["a\\b"]
    assert [*store.list("\ud800")] == []


@pytest.mark.parametrize("prefix", ["p[a]*:", "", "\\"])
def test_wildcards_in_the_key_prefix_are_literal(private_redis: RedisServer, prefix: str) -> None:
    """A store lists no keys of another one whose prefix its own would match as a pattern."""
    with (
        RedisStore(private_redis.url, prefix="pa-other:") as other,
        RedisStore(private_redis.url, prefix=prefix) as store,
    ):
        other.set("b", b"")
        store.set("a", b"")

        assert "a" in store.list()
        assert ("b" in store.list()) is False


def test_lists_more_than_one_step(store: RedisStore, raw: redis.Redis, free_prefix: str) -> None:
    """A listing that takes the server many steps is complete, ordered, and passes over keys that no store makes."""
    header = b"blobcp1 " + b"0" * 32 + b"\n"
    raw.mset({f"{free_prefix}{number:05}": header for number in range(5000)})
    raw.mset(
        {f"{free_prefix}".encode(): b"", f"{free_prefix}".encode() + b"\xff": b"", f"{free_prefix}{'n' * 513}": b""}
    )

    assert [*store.list()] == [f"{number:05}" for number in range(5000)]
    assert [*store.list("0499")] == [f"0499{digit}" for digit in range(10)]


@pytest.mark.parametrize("value", [b"plain", b"blobcp2 " + b"0" * 32 + b"\nblob", b"blobcp1 " + b"0" * 31])
def test_refuses_what_no_store_has_written(store: RedisStore, raw: redis.Redis, free_prefix: str, value: bytes) -> None:
    """A foreign value is neither absent nor a blob nor somebody's checkpoint, and only a plain set replaces it."""
    raw.set(f"{free_prefix}a", value)

    for call in (store.get, store.get_versioned, lambda a: store.set_if(a, b"1", None)):
        with pytest.raises(StoreError, match="holds what no store of blobcp has written") as caught:
            call("a")
        assert "'a'" in str(caught.value)
    assert raw.get(f"{free_prefix}a") == value
    store.set("a", b"1")
    assert store.get("a") == b"1"


def test_refuses_another_type(store: RedisStore, raw: redis.Redis, free_prefix: str) -> None:
    """A key that holds a list is refused by all that look at it, inside the script as well, and stays."""
    raw.rpush(f"{free_prefix}a", "1")

    for call in (
        store.get,
        lambda a: store.set_if(a, b"1", None),
        lambda a: store.set_if(a, b"1", "0" * 32),
    ):
        with pytest.raises(StoreError, match=r"checkpoint 'a' .*the key holds another type of value") as caught:
            call("a")
        assert isinstance(caught.value.__cause__, redis.ResponseError)
    assert raw.lrange(f"{free_prefix}a", 0, -1) == [b"1"]


def test_refuses_what_is_too_long(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob that Redis can't keep is refused before it is sent; one byte less is kept."""
    monkeypatch.setattr(commands, "MAX_VALUE_BYTES", 141)
    store.set("a", bytes(100))

    with pytest.raises(StoreError, match="it has 101 bytes, and Redis takes at most 100"):
        store.set("a", bytes(101))
    assert store.get("a") == bytes(100)


def test_sends_one_command_a_call(private_redis: RedisServer) -> None:
    """Opening a store sends nothing, and a call, the first one too, sends the one command that does it."""
    swap = {"eval": 1, "getrange": 1, "set": 1}
    with Counted(private_redis) as counted, RedisStore(private_redis.url) as store:
        assert counted.since() == {}
        store.set("a", b"1")
        assert counted.since() == {"set": 1}
        store.get("a")
        assert counted.since() == {"get": 1}
        version = store.set_if("b", b"1", None)
        assert counted.since() == {"set": 1}
        store.set_if("b", b"2", version)
        assert counted.since() == swap
        store.set_expiring("c", b"1", timedelta(hours=1))
        assert counted.since() == {"set": 1}
        with pytest.raises(CheckpointConflictError):
            store.set_if("b", b"3", version)
        assert counted.since() == {"eval": 1, "getrange": 1}
        store.delete("b")
        assert counted.since() == {"unlink": 1}


def test_a_first_call_that_compares_sends_one_command(private_redis: RedisServer) -> None:
    """A server that has never seen the script is sent it together with the blob, once."""
    with RedisStore(private_redis.url) as first:
        version = first.set_if("a", b"1", None)
    with Counted(private_redis) as counted, RedisStore(private_redis.url) as store:
        store.set_if("a", b"2", version)

        assert counted.since() == {"eval": 1, "getrange": 1, "set": 1}


def test_its_representation_keeps_the_password_to_itself() -> None:
    """Whatever prints a store or what it is made of, as tools that collect errors do, learns no password."""
    store = RedisStore("redis://me:secret@cache/0")

    assert "secret" not in repr(store) + repr(vars(store))


def test_survives_pickling(redis_url: str, free_prefix: str) -> None:
    """A copy by pickle reaches the same blobs, with the same options."""
    with RedisStore(f"{redis_url}?blobcp_prefix={free_prefix}", socket_timeout=3.0) as store:
        store.set("a", b"1")
        with pickle.loads(pickle.dumps(store)) as copy:
            assert copy.get("a") == b"1"
            assert copy._settings == store._settings


def test_refuses_to_pickle_a_client(redis_url: str) -> None:
    """A store with a client of its maker can't be opened again elsewhere and says so."""
    with redis.Redis.from_url(redis_url) as client, pytest.raises(StoreError, match="open it by its URL"):
        pickle.dumps(RedisStore(client=client))


def test_works_on_both_sides_of_a_fork(store: RedisStore) -> None:
    """After os.fork parent and child each use the store without mixing up their answers."""
    store.set("a", b"before")
    with warnings.catch_warnings():
        # Later Pythons warn of any fork while other threads run; the test's own do nothing then.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            fine = store.get("a") == b"before"
            for number in range(200):
                store.set("child", b"%d" % number)
                fine = fine and store.get("child") == b"%d" % number
        except BaseException:
            os._exit(2)
        os._exit(0 if fine else 1)
    for number in range(200):
        store.set("parent", b"%d" % number)
        assert store.get("parent") == b"%d" % number
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert store.get("child") == b"199"


def test_close_ends_the_connections(redis_url: str, free_prefix: str, raw: redis.Redis) -> None:
    """The server sees the connections go at close, and a later call opens new ones."""

    def connections() -> int:
        return sum(client["name"] == free_prefix for client in raw.client_list())

    with RedisStore(f"{redis_url}?client_name={free_prefix}", prefix=free_prefix) as store:
        store.set("a", b"1")
        assert connections() == 1
        store.close()
        store.close()
        for _ in range(1000):
            if connections() == 0:
                break
            threading.Event().wait(0.01)
        assert connections() == 0

        assert store.get("a") == b"1"


def test_leaves_nothing_open(redis_url: str, free_prefix: str) -> None:
    """Neither a store that was closed nor one that was dropped leaves a socket open."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with RedisStore(redis_url, prefix=free_prefix) as store:
            store.get("a")
        dropped = RedisStore(redis_url, prefix=free_prefix)
        dropped.get("a")
        del dropped, store
        gc.collect()

    assert [str(warning.message) for warning in caught] == []


def test_takes_a_client(redis_url: str, free_prefix: str) -> None:
    """A client that is handed in is used, and is still open when the store is closed."""
    with redis.Redis.from_url(redis_url) as client:
        with RedisStore(client=client, prefix=free_prefix) as store:
            store.set("a", b"1")

        value = client.get(f"{free_prefix}a")
        assert value is not None
        assert value[41:] == b"1"


def test_refuses_clients_that_it_cannot_use(redis_url: str) -> None:
    """A client that decodes, one that has to be awaited, and none at all are refused in words."""
    with (
        redis.Redis.from_url(redis_url, decode_responses=True) as decoding,
        pytest.raises(StoreError, match="decode_responses=True"),
    ):
        RedisStore(client=decoding)
    with pytest.raises(
        StoreError, match=r"can't use a redis.asyncio.client.Redis as its client; give a redis.Redis or"
    ):
        RedisStore(client=redis.asyncio.Redis.from_url(redis_url))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="either a url or a client"):
        RedisStore(redis_url, client=redis.Redis.from_url(redis_url))


def test_takes_options_in_the_url() -> None:
    """The options of redis-py pass through and win over the arguments; the prefix is blobcp's."""
    store = RedisStore.from_url(
        "redis://me:secret@cache:7000/3?blobcp_prefix=team%2F&socket_timeout=2.5&client_name=a+b"
    )
    options = store._client.connection_pool.connection_kwargs  # type: ignore[attr-defined]

    assert store._prefix == "team/"
    assert {name: options[name] for name in ("host", "port", "db", "username", "password")} == {
        "host": "cache",
        "port": 7000,
        "db": 3,
        "username": "me",
        "password": "secret",
    }
    assert (options["socket_timeout"], options["socket_connect_timeout"], options["client_name"]) == (2.5, 5.0, "a b")
    assert RedisStore("redis://h?blobcp_prefix=")._prefix == ""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://me:secret@h/0?sockettimeout=3", "unexpected keyword argument 'sockettimeout'"),
        ("redis://me:secret@h/0?socket_timeout=soon", "in connection URL"),
        ("redis://me:secret@h/first", "has 'first' for a database"),
        ("redis://me:secret@h/0?blobcp_prefx=a", "there is one blobcp_prefix"),
        ("redis://me:secret@h/0?blobcp_prefix=a&blobcp_prefix=b", "there is one blobcp_prefix"),
        ("redis://me:secret@h/0?decode_responses=true", "decode_responses=True"),
        ("http://me:secret@h/0", "must specify one of the following schemes"),
    ],
)
def test_refuses_urls_that_mean_nothing(url: str, said: str) -> None:
    """A URL with a mistake in it is refused when the store is made, and its password is not told."""
    with pytest.raises(StoreError) as caught:
        RedisStore(url)

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_connections": 0},
        {"retries": -1},
        {"socket_timeout": 0},
        {"socket_timeout": float("inf")},
        {"socket_connect_timeout": -1},
        {"pool_timeout": -1},
        {"url": "redis://h/0?socket_timeout=0"},
        {"url": "redis://h/0?timeout=1e9"},
    ],
)
def test_refuses_numbers_out_of_range(options: dict[str, Any]) -> None:
    """A store that could not connect, or would wait without end, is refused when it is made."""
    with pytest.raises(StoreError, match=r"the store can't work with .*; give at least one connection"):
        RedisStore(**options)


def test_refuses_two_prefixes() -> None:
    """A prefix in the URL and another beside it are refused, as is one that no key can start with."""
    with pytest.raises(StoreUrlError, match="give one"):
        RedisStore("redis://h?blobcp_prefix=a", prefix="b")
    with pytest.raises(StoreError, match="not text"):
        RedisStore("redis://h", prefix="\ud800")


def test_reaches_a_unix_socket(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A server on a Unix socket is reached by the path in the URL."""
    from redis_server import running

    path = tmp_path_factory.mktemp("s") / "s"
    with running("--unixsocket", str(path)), RedisStore(f"unix://{path}") as store:
        store.set("a", b"1")

        assert store.get("a") == b"1"
