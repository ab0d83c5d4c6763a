from __future__ import annotations

import asyncio
import gc
import os
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis
import redis.asyncio
from redis_proxy import lossy_proxy
from redis_server import RedisServer

from blobcp import END, START, App, Graph, Interrupted, interrupt
from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores.redis import RedisStore
from blobcp.stores.redis.store_async import AsyncRedisStore

LIMIT = 10.0


@pytest.fixture
def store(redis_url: str, free_prefix: str) -> AsyncRedisStore:
    """An empty store; each test closes it in its loop."""
    return AsyncRedisStore(redis_url, prefix=free_prefix)


@pytest.fixture
def plain(redis_url: str, free_prefix: str) -> Iterator[RedisStore]:
    """The same store with plain methods."""
    with RedisStore(redis_url, prefix=free_prefix) as store:
        yield store


def asking(store: AsyncRedisStore, when_done: str = "mark") -> App:
    """Return an app that asks one question."""
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: text + interrupt("and?"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(store=store, when_done=when_done)


def test_does_what_the_plain_store_does(store: AsyncRedisStore, plain: RedisStore) -> None:
    """Each method, awaited, does what the plain one does; both read what the other has written."""

    async def use() -> None:
        async with store:
            assert await store.get("a") is None
            await store.set("a", b"1")
            assert plain.get("a") == await store.get("a") == b"1"
            found = await store.get_versioned("a")
            assert found == plain.get_versioned("a")
            assert found is not None
            version = await store.set_if("a", b"2", found[1])
            assert plain.get_versioned("a") == (b"2", version)
            with pytest.raises(CheckpointConflictError):
                await store.set_if("a", b"3", found[1])
            with pytest.raises(CheckpointConflictError):
                await store.set_if("a", b"3", None)
            await store.set_expiring("b", b"1", timedelta(milliseconds=1))
            while await store.get("b") is not None:
                pass
            await store.set("é", b"")
            assert [found async for found in store.list()] == ["a", "é"]
            assert [found async for found in store.list("a")] == ["a"]
            await store.delete("a")
            await store.delete("a")
            assert plain.get("a") is None

    asyncio.run(use())


def test_has_all_powers(store: AsyncRedisStore) -> None:
    """It shows the same powers as the plain store."""
    for power in (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer):
        assert isinstance(store, power)


def test_many_at_once_each_get_their_own(store: AsyncRedisStore) -> None:
    """More calls at once than there are connections each get their own answer."""

    async def round_trip(number: int) -> bool:
        await store.set(f"{number}", b"%d" % number)
        return await store.get(f"{number}") == b"%d" % number

    async def use() -> None:
        async with store:
            assert all(await asyncio.gather(*map(round_trip, range(200))))

    asyncio.run(use())


def test_a_cancelled_call_leaves_nothing_for_the_next(redis_url: str, free_prefix: str) -> None:
    """Wherever a call is cancelled, its connection is free again and its answer is nobody else's."""

    async def cancel() -> None:
        async with AsyncRedisStore(redis_url, prefix=free_prefix, max_connections=1, pool_timeout=5) as store:
            await store.set("mine", b"mine" * 10_000)
            await store.set("theirs", b"theirs" * 10_000)
            for steps in range(40):
                task = asyncio.create_task(store.get("mine"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                assert await store.get("theirs") == b"theirs" * 10_000

    asyncio.run(asyncio.wait_for(cancel(), 60))


def test_one_of_many_wins(store: AsyncRedisStore) -> None:
    """Of those that save at once what they have read, one wins and the others are told."""

    async def use() -> None:
        async with store:
            version = await store.set_if("a", b"start", None)
            saves = (store.set_if("a", b"%d" % number, version) for number in range(16))
            results = await asyncio.gather(*saves, return_exceptions=True)

            assert sum(isinstance(result, CheckpointConflictError) for result in results) == 15
            [winner] = (number for number, result in enumerate(results) if isinstance(result, str))
            assert await store.get("a") == b"%d" % winner

    asyncio.run(use())


@pytest.mark.parametrize("when_done", ["mark", "delete"])
def test_a_run_stops_and_goes_on(store: AsyncRedisStore, when_done: str) -> None:
    """A run is stored when it asks, and goes on in another app and another loop, with this store."""

    async def start() -> None:
        async with store:
            with pytest.raises(Interrupted):
                await asking(store).ainvoke("well", checkpoint_id="A")

    async def finish() -> None:
        async with store:
            app = asking(store, when_done)
            assert [point.info for point in await app.apending("A")] == ["and?"]
            assert await app.aresume("A", answer=" done") == "well done"
            assert (await store.get("A") is None) is (when_done == "delete")

    asyncio.run(start())
    asyncio.run(finish())


def test_two_answers_at_once(store: AsyncRedisStore, redis_url: str, free_prefix: str) -> None:
    """Of two that answer one checkpoint at the same moment one is done and the other is told (F26)."""
    both_there = asyncio.Barrier(2)

    async def ask(text: str) -> str:
        answer: str = interrupt("and?")
        await asyncio.wait_for(both_there.wait(), LIMIT)
        return text + answer

    def app_on(store: AsyncRedisStore) -> App:
        graph = Graph(str, str)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        return graph.compile(store=store)

    async def use() -> None:
        async with store, AsyncRedisStore(redis_url, prefix=free_prefix) as other:
            with pytest.raises(Interrupted):
                await app_on(store).ainvoke("well", checkpoint_id="A")
            answers = (app_on(each).aresume("A", answer=text) for each, text in ((store, " 1"), (other, " 2")))
            results = await asyncio.gather(*answers, return_exceptions=True)

            assert sum(isinstance(result, CheckpointConflictError) for result in results) == 1
            assert sum(result in ("well 1", "well 2") for result in results) == 1

    asyncio.run(use())


def test_serves_several_loops_at_once(store: AsyncRedisStore) -> None:
    """Loops in several threads use one store object, each over connections of its own."""

    async def use(name: int) -> bool:
        async with store:
            fine = True
            for number in range(50):
                await store.set(f"{name}", b"%d" % number)
                fine = fine and await store.get(f"{name}") == b"%d" % number
            return fine

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda name: asyncio.run(use(name)), range(8)))
    assert store._clients == {}


def test_a_loop_that_was_left_open_does_no_harm(store: AsyncRedisStore) -> None:
    """Where a loop ended without close, the next one works, and Python warns of the connection that was left open."""
    asyncio.run(store.set("a", b"1"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        async def use() -> None:
            async with store:
                assert await store.get("a") == b"1"

        asyncio.run(use())
        kinds = {warning.category for warning in caught}
        caught.clear()  # each warning holds what it is about
        gc.collect()

    assert kinds == {ResourceWarning}
    assert store._clients == {}


def test_leaves_nothing_open(store: AsyncRedisStore) -> None:
    """A store that is closed in its loop leaves no socket open, nor does one that is only made."""

    async def use() -> None:
        async with store:
            await asyncio.gather(*(store.get(f"{number}") for number in range(20)))
        await store.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(use())
        gc.collect()

    assert [str(warning.message) for warning in caught] == []


def test_a_client_of_another_loop_is_told(redis_url: str, free_prefix: str) -> None:
    """A client that was used in another loop is refused with what to do; one of this loop is used and left open."""

    async def first() -> AsyncRedisStore:
        client = redis.asyncio.Redis.from_url(redis_url)
        store = AsyncRedisStore(client=client, prefix=free_prefix)
        async with store:
            await store.set("a", b"1")
        assert await client.get(f"{free_prefix}a") is not None
        return store

    async def second(store: AsyncRedisStore) -> None:
        with pytest.raises(StoreError, match="the client belongs to another event loop; give each loop a client"):
            await store.get("a")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client is not closed in its loop
        store = asyncio.run(first())
        asyncio.run(second(store))
        del store
        gc.collect()


def test_survives_pickling(store: AsyncRedisStore) -> None:
    """A copy by pickle reaches the same blobs."""

    async def use() -> None:
        async with store, pickle.loads(pickle.dumps(store)) as copy:
            await store.set("a", b"1")
            assert await copy.get("a") == b"1"

    asyncio.run(use())


def test_works_after_a_fork(store: AsyncRedisStore) -> None:
    """A child that was forked while the store had connections open gets its own, in a loop of its own."""

    async def in_child() -> int:
        async with store:
            await store.set("child", b"1")
            return 0 if await store.get("a") == b"1" else 1

    async def use() -> int:
        async with store:
            await store.set("a", b"1")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                try:
                    asyncio.events._set_running_loop(None)
                    os._exit(asyncio.run(in_child()))
                except BaseException:
                    os._exit(2)
            _, status = os.waitpid(child, 0)
            assert await store.get("child") == b"1"
            return os.waitstatus_to_exitcode(status)

    assert asyncio.run(use()) == 0


def test_refuses_a_plain_client(redis_url: str) -> None:
    """A client whose methods are not awaited, and one that decodes, are refused in words."""
    with pytest.raises(
        StoreError, match=r"can't use a redis.client.Redis as its client; give a redis.asyncio.Redis or"
    ):
        AsyncRedisStore(client=redis.Redis.from_url(redis_url))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="decode_responses=True"):
        AsyncRedisStore(client=redis.asyncio.Redis.from_url(redis_url, decode_responses=True))


def test_errors_are_told(private_redis: RedisServer) -> None:
    """A server that is gone is no absence; the error names the checkpoint and the server, and has its cause."""
    port = private_redis.port
    private_redis.kill()

    async def use() -> None:
        async with AsyncRedisStore(private_redis.url, retries=0) as store:
            for call in (store.get("a"), store.set("a", b"1"), store.set_if("a", b"1", None), store.delete("a")):
                with pytest.raises(StoreError, match="checkpoint 'a' ") as caught:
                    await call
                assert f"Redis at 127.0.0.1:{port}, database 0: the connection fails (" in str(caught.value)
                assert isinstance(caught.value.__cause__, redis.ConnectionError)
            with pytest.raises(StoreError, match="can't list the checkpoints of Redis at "):
                [found async for found in store.list()]

    asyncio.run(use())


def test_a_frozen_server_is_given_up(private_redis: RedisServer) -> None:
    """A server that never answers is given up after the time-outs."""

    async def use() -> None:
        async with AsyncRedisStore(private_redis.url, socket_timeout=0.05, retries=1) as store:
            await store.set("a", b"1")
            private_redis.freeze()
            with pytest.raises(StoreError, match="the server did not answer in time"):
                await store.get("a")
            private_redis.thaw()

    asyncio.run(use())


def test_a_restart_in_between_is_not_noticed(private_redis: RedisServer) -> None:
    """A server that was started anew is connected to again."""

    async def use() -> None:
        async with AsyncRedisStore(private_redis.url) as store:
            await store.set("a", b"1")
            private_redis.kill()
            private_redis.start()
            assert await store.get("a") is None

    asyncio.run(use())


@pytest.mark.parametrize("create", [True, False], ids=["create", "replace"])
@pytest.mark.parametrize("rival_writes", [False, True], ids=["alone", "rival"])
def test_the_lost_answer_to_my_own_write(private_redis: RedisServer, create: bool, rival_writes: bool) -> None:
    """A write that is sent again since its answer was lost succeeds, or conflicts where another came after it (F27)."""
    with RedisStore(private_redis.url) as rival, lossy_proxy(private_redis.port) as proxy:
        seen = None if create else rival.set_if("a", b"old", None)
        proxy.lose_answer(b"blobcp1", then=lambda: rival_writes and rival.set("a", b"theirs"))

        async def use() -> None:
            async with AsyncRedisStore(proxy.url) as store:
                if not rival_writes:
                    assert await store.set_if("a", b"mine", seen) == (rival.get_versioned("a") or ("", ""))[1]
                    return
                with pytest.raises(CheckpointConflictError):
                    await store.set_if("a", b"mine", seen)

        asyncio.run(use())

        assert proxy.lost == 1
        assert rival.get("a") == (b"theirs" if rival_writes else b"mine")
