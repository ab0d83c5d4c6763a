from __future__ import annotations

import os
import shutil
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from redis_proxy import LossyProxy, lossy_proxy
from redis_server import RedisServer, running

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.stores.redis import RedisStore

LIMIT = 10.0
BLOB = b"b" * 100_000


@pytest.fixture
def proxy(private_redis: RedisServer) -> Iterator[LossyProxy]:
    """A proxy in front of a fresh server."""
    with lossy_proxy(private_redis.port) as proxy:
        yield proxy


@pytest.fixture
def shaky(proxy: LossyProxy) -> Iterator[RedisStore]:
    """A store behind the proxy."""
    with RedisStore(proxy.url) as store:
        yield store


@pytest.fixture
def rival(private_redis: RedisServer) -> Iterator[RedisStore]:
    """A store at the same server that no proxy disturbs."""
    with RedisStore(private_redis.url) as store:
        yield store


def calls_of(store: RedisStore) -> list[Callable[[], object]]:
    """Return a call of each method, each of which needs the server."""
    return [
        lambda: store.get("a"),
        lambda: store.get_versioned("a"),
        lambda: store.set("a", b"1"),
        lambda: store.set_if("a", b"1", None),
        lambda: store.set_if("a", b"1", "0" * 32),
        lambda: store.delete("a"),
        lambda: [*store.list()],
    ]


def refusal_of(call: Callable[[], object]) -> StoreError:
    """Return the StoreError of a call, which has the error below it as its cause."""
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.__cause__ is not None
    return caught.value


@contextmanager
def admin(server: RedisServer) -> Iterator[redis.Redis]:
    """Open a client for what a test does to the server itself."""
    with redis.Redis.from_url(server.url) as client:
        yield client


def test_no_server_is_not_absence() -> None:
    """Where nothing listens every call fails, and says where and why (F25)."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    store = RedisStore(f"redis://127.0.0.1:{port}/2", retries=0)

    for call in calls_of(store):
        said = str(refusal_of(call))
        assert f"Redis at 127.0.0.1:{port}, database 2: the connection fails (" in said
        assert "Connection refused" in said
    assert str(refusal_of(lambda: store.set("a", b"123"))).startswith(
        "can't save checkpoint 'a' (3 bytes) to Redis at "
    )


@pytest.mark.parametrize("host", ["cache..example", "c" * 64])
def test_a_host_that_can_be_no_name(host: str) -> None:
    """A mistake in the host's name is an error of the store like any other."""
    said = str(refusal_of(lambda: RedisStore(f"redis://{host}/0").get("a")))

    assert said.startswith(f"can't read checkpoint 'a' from Redis at {host}:6379, database 0: the connection fails (")


def test_a_wrong_password_is_not_told() -> None:
    """A wrong password and a missing one are called so, and no message or traceback has the password."""
    with running("--requirepass", "right-one") as server:
        wrong = RedisStore(f"redis://:wrong-one@127.0.0.1:{server.port}/0", retries=0)
        missing = RedisStore(server.url, retries=0)

        for call in (*calls_of(wrong), *calls_of(missing)):
            error = refusal_of(call)
            assert "the server refuses the user or the password; give the right ones" in str(error)
            assert "wrong-one" not in "".join(traceback.format_exception(error))
        with RedisStore(f"redis://:right-one@127.0.0.1:{server.port}/0") as right:
            right.set("a", b"1")
            assert right.get("a") == b"1"


def test_a_missing_right_is_told(private_redis: RedisServer) -> None:
    """A user who may not use the command is told which ones a store needs."""
    with admin(private_redis) as client:
        client.acl_setuser("reader", enabled=True, passwords=["+p"], keys=["blobcp:*"], commands=["+get"])
    store = RedisStore(f"redis://reader:p@127.0.0.1:{private_redis.port}/0")

    assert store.get("a") is None
    assert "the user lacks a right there; grant it GET, SET, GETRANGE, EVAL" in str(
        refusal_of(lambda: store.set("a", b""))
    )
    store.close()


def test_the_named_rights_are_enough(private_redis: RedisServer) -> None:
    """With just the rights that the message and the docs name, every method works."""
    with admin(private_redis) as client:
        commands = ["+get", "+set", "+getrange", "+eval", "+unlink", "+scan"]
        client.acl_setuser("app", enabled=True, passwords=["+p"], keys=["blobcp:*"], commands=commands)
    with RedisStore(f"redis://app:p@127.0.0.1:{private_redis.port}/0") as store:
        version = store.set_if("a", b"1", None)
        store.set_if("a", b"2", version)
        with pytest.raises(CheckpointConflictError):
            store.set_if("a", b"3", None)

        assert [*store.list()] == ["a"]
        store.delete("a")
        assert store.get("a") is None


def test_a_replica_is_told(private_redis: RedisServer) -> None:
    """A server that may only be read refuses plain and conditional writes, and the message says why."""
    with RedisStore(private_redis.url) as store, admin(private_redis) as client:
        version = store.set_if("a", b"1", None)
        client.config_set("replica-serve-stale-data", "yes")
        client.replicaof("127.0.0.1", "1")

        for call in (lambda: store.set("a", b"2"), lambda: store.set_if("a", b"2", version), lambda: store.delete("a")):
            assert "the server is a replica, which can't be written to; open the store at the primary" in str(
                refusal_of(call)
            )
        assert store.get("a") == b"1"


def test_used_up_memory_is_told(private_redis: RedisServer) -> None:
    """A server whose memory is used up refuses plain and conditional writes, and keeps what it has."""
    with RedisStore(private_redis.url) as store, admin(private_redis) as client:
        version = store.set_if("a", b"1", None)
        client.config_set("maxmemory", "1")

        for call in (lambda: store.set("a", b"2"), lambda: store.set_if("a", b"2", version)):
            assert "the server has used up the memory that it may take (maxmemory)" in str(refusal_of(call))
        assert store.get("a") == b"1"


def test_a_full_disk_is_told(private_redis: RedisServer) -> None:
    """A server that can't write its snapshot takes no writes, and the message says so."""
    with RedisStore(private_redis.url) as store, admin(private_redis) as client:
        client.config_set("save", "3600 1")
        shutil.rmtree(private_redis.folder)
        client.bgsave()
        for _ in range(1000):
            if client.info("persistence")["rdb_last_bgsave_status"] == "err":
                break
            threading.Event().wait(0.01)

        assert "the server can't save its data to its disk and so takes no writes" in str(
            refusal_of(lambda: store.set("a", b"2"))
        )


def test_a_server_that_loads_is_told(private_redis: RedisServer) -> None:
    """While a server loads its data, nothing is called absent (F25)."""
    with RedisStore(private_redis.url) as store, admin(private_redis) as client:
        for number in range(200):
            store.set(f"{number}", os.urandom(100_000))
        client.save()
    private_redis.kill()
    # It looks at its connections every 2 MB, and is made slow: four seconds for all of it.
    private_redis.options = ("--key-load-delay", "20000")
    private_redis.start()
    with RedisStore(private_redis.url, retries=0) as store:
        assert "the server is still loading its data; try again once it has" in str(refusal_of(lambda: store.get("1")))


def test_a_longer_blob_than_the_server_takes(private_redis: RedisServer) -> None:
    """A server that is set to shorter values breaks the connection; the save fails and nothing is stored."""
    with RedisStore(private_redis.url) as store, admin(private_redis) as client:
        client.config_set("proto-max-bulk-len", 1024 * 1024)

        said = str(refusal_of(lambda: store.set("a", bytes(1024 * 1024))))
        assert "(1048576 bytes) to" in said
        assert store.get("a") is None


def test_a_cluster_without_all_of_its_slots_is_told() -> None:
    """A cluster whose slots have no node is called down."""
    with running("--cluster-enabled", "yes") as server, RedisStore(server.url) as store:
        assert "the cluster is down, or no node has that part of it" in str(refusal_of(lambda: store.set("a", b"1")))


def test_a_frozen_server_is_given_up(private_redis: RedisServer) -> None:
    """A server that accepts connections and never answers is given up after the time-outs."""
    with RedisStore(private_redis.url, socket_timeout=0.05, retries=1) as store:
        store.set("a", b"1")
        private_redis.freeze()

        for call in calls_of(store):
            assert "the server did not answer in time, so that a write may be carried out or not" in str(
                refusal_of(call)
            )
        private_redis.thaw()


def test_another_kind_of_server_is_told() -> None:
    """Where something answers that is no Redis server the message says so."""

    def answer_as_the_web_does() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_as_the_web_does)
        thread.start()
        store = RedisStore(f"redis://127.0.0.1:{listener.getsockname()[1]}/0", retries=0)
        assert "what answers there is no Redis server" in str(refusal_of(lambda: store.get("a")))
        store.close()
        thread.join(LIMIT)


def test_a_restart_in_between_is_not_noticed(private_redis: RedisServer) -> None:
    """A server that was started anew is connected to again by the call that comes first, whichever it is."""
    with RedisStore(private_redis.url) as store:
        for call in (lambda: store.set("a", b"1"), lambda: store.get("a"), lambda: [*store.list()]):
            store.get("a")
            private_redis.kill()
            private_redis.start()
            call()
        version = store.set_if("b", b"1", None)
        with admin(private_redis) as client:
            client.script_flush()

        assert store.set_if("b", b"2", version)


def test_a_server_that_is_back_later(private_redis: RedisServer) -> None:
    """A call while the server is down fails; the same store works again once it is back."""
    with RedisStore(private_redis.url, retries=0) as store:
        store.set("a", b"1")
        private_redis.stop()
        refusal_of(lambda: store.get("a"))
        private_redis.start()

        store.set("a", b"2")
        assert store.get("a") == b"2"


def test_too_few_connections_are_told(redis_url: str) -> None:
    """A call that gets no connection of the pool in time says so."""
    pool = redis.BlockingConnectionPool.from_url(redis_url, max_connections=1, timeout=0.01)
    client = redis.Redis(connection_pool=pool)
    store = RedisStore(client=client)
    with client.pubsub() as listener:
        listener.subscribe("blobcp-test")  # which takes the only connection

        assert "all connections of the store are in use; raise max_connections or pool_timeout" in str(
            refusal_of(lambda: store.get("a"))
        )
    assert store.get("nothing") is None
    pool.disconnect()


@pytest.mark.parametrize("passing", [0, 5, 50_000, 100_000])
def test_a_connection_that_breaks_in_the_answer(
    proxy: LossyProxy, shaky: RedisStore, rival: RedisStore, passing: int
) -> None:
    """A blob whose answer is cut off is asked for again and comes whole (F25)."""
    rival.set("a", BLOB)
    proxy.lose_answer(b"GET", passing=passing)
    proxy.lose_answer(b"GET", passing=passing)

    assert shaky.get("a") == BLOB
    assert proxy.lost == 2


def test_a_connection_that_breaks_each_time(proxy: LossyProxy, shaky: RedisStore, rival: RedisStore) -> None:
    """After three tries in vain the blob is neither absent nor short: the call fails (F25)."""
    rival.set("a", BLOB)
    for _ in range(3):
        proxy.lose_answer(b"GET", passing=50_000)

    said = str(refusal_of(lambda: shaky.get("a")))
    assert said.startswith("can't read checkpoint 'a' from Redis at 127.0.0.1:")
    assert "the connection fails (" in said
    assert shaky.get("a") == BLOB


@pytest.mark.parametrize("create", [True, False], ids=["create", "replace"])
def test_the_lost_answer_to_my_own_write(proxy: LossyProxy, shaky: RedisStore, rival: RedisStore, create: bool) -> None:
    """A conditional write that was stored, and sent again since its answer was lost, is a success (F27)."""
    seen = None if create else rival.set_if("a", b"old", None)
    proxy.lose_answer(b"blobcp1")

    version = shaky.set_if("a", b"mine", seen)
    assert proxy.lost == 1
    assert rival.get_versioned("a") == (b"mine", version)


@pytest.mark.parametrize("create", [True, False], ids=["create", "replace"])
@pytest.mark.parametrize("theirs", [b"theirs", b"mine"])
def test_somebody_else_after_my_lost_answer(
    proxy: LossyProxy, shaky: RedisStore, rival: RedisStore, create: bool, theirs: bytes
) -> None:
    """Where another write came after the one whose answer was lost it is kept, be its bytes equal, and is a conflict (F27)."""
    seen = None if create else rival.set_if("a", b"old", None)
    proxy.lose_answer(b"blobcp1", then=lambda: rival.set("a", theirs))

    with pytest.raises(CheckpointConflictError):
        shaky.set_if("a", b"mine", seen)
    assert proxy.lost == 1
    assert rival.get("a") == theirs


def test_plain_writes_are_sent_again(proxy: LossyProxy, shaky: RedisStore, rival: RedisStore) -> None:
    """A set and a delete whose answers are lost are carried out."""
    proxy.lose_answer(b"SET")
    shaky.set("a", b"1")
    assert rival.get("a") == b"1"
    proxy.lose_answer(b"UNLINK")
    shaky.delete("a")

    assert rival.get("a") is None
    assert proxy.lost == 2


def test_a_listing_goes_on_over_a_broken_connection(proxy: LossyProxy, shaky: RedisStore, rival: RedisStore) -> None:
    """A step of a listing whose answer is lost is asked for again; no id is left out."""
    for number in range(3000):
        rival.set(f"{number:04}", b"")
    proxy.lose_answer(b"SCAN", passing=100)

    assert [*shaky.list()] == [f"{number:04}" for number in range(3000)]
    assert proxy.lost == 1


def test_one_node_used_as_a_server_of_its_own(redis_cluster_url: str, free_prefix: str) -> None:
    """A node of a cluster that is asked for another node's key names the client that knows the cluster."""
    with RedisStore(redis_cluster_url, prefix=free_prefix) as store:

        def save_until_refused() -> None:
            for number in range(100):
                store.set(f"{number}", b"1")

        said = str(refusal_of(save_until_refused))

    assert "the server is one node of a cluster; open the store with client=RedisCluster.from_url(...)" in said
