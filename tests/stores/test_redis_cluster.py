from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.stores.redis import RedisStore
from blobcp.stores.redis.store_async import AsyncRedisStore

IDS = [f"order-{number:03}" for number in range(200)] + ["a{b}c", "{x}", "b}c{d", "a*"]


@pytest.fixture
def cluster(redis_cluster_url: str) -> Iterator[RedisCluster]:
    """A client of a cluster of two primaries."""
    with RedisCluster.from_url(redis_cluster_url) as client:
        yield client


@pytest.fixture
def store(cluster: RedisCluster, free_prefix: str) -> RedisStore:
    """An empty store on the cluster."""
    return RedisStore(client=cluster, prefix=free_prefix)


def test_every_call_works_on_every_node(cluster: RedisCluster, store: RedisStore, free_prefix: str) -> None:
    """Blobs spread over the nodes; each is written, compared, listed and deleted, whatever signs its id has."""
    seen = {checkpoint_id: store.set_if(checkpoint_id, b"1", None) for checkpoint_id in IDS}
    for checkpoint_id, version in seen.items():
        store.set_if(checkpoint_id, checkpoint_id.encode(), version)
        with pytest.raises(CheckpointConflictError):
            store.set_if(checkpoint_id, b"3", version)
        with pytest.raises(CheckpointConflictError):
            store.set_if(checkpoint_id, b"3", None)

    assert len({cluster.get_node_from_key(free_prefix + checkpoint_id).name for checkpoint_id in IDS}) == 2
    assert [store.get(checkpoint_id) for checkpoint_id in IDS] == [checkpoint_id.encode() for checkpoint_id in IDS]
    assert [*store.list()] == sorted(IDS)
    assert [*store.list("order-00")] == [f"order-00{digit}" for digit in range(10)]
    for checkpoint_id in IDS:
        store.delete(checkpoint_id)
    assert [*store.list()] == []


def test_a_blob_expires_on_a_cluster(store: RedisStore) -> None:
    """An expiring blob goes, and is kept for good once it is written over."""
    store.set_expiring("a", b"1", timedelta(milliseconds=1))
    store.set_expiring("b", b"1", timedelta(hours=1))
    while store.get("a") is not None:
        pass
    store.set("b", b"2")

    assert store.get("b") == b"2"


def test_the_cluster_is_named_in_errors(store: RedisStore, cluster: RedisCluster, free_prefix: str) -> None:
    """An error of a cluster says which checkpoint it is about."""
    cluster.rpush(f"{free_prefix}a", "1")

    with pytest.raises(
        StoreError, match="can't read checkpoint 'a' from the Redis cluster: the key holds another type"
    ):
        store.get("a")


def test_the_awaited_store_works_on_every_node(redis_cluster_url: str, free_prefix: str) -> None:
    """The same holds for the store whose methods are awaited, with the client's awaited variant."""

    async def use() -> None:
        async with AsyncRedisCluster.from_url(redis_cluster_url) as client:
            store = AsyncRedisStore(client=client, prefix=free_prefix)
            for checkpoint_id in IDS:
                version = await store.set_if(checkpoint_id, b"1", None)
                await store.set_if(checkpoint_id, checkpoint_id.encode(), version)
                with pytest.raises(CheckpointConflictError):
                    await store.set_if(checkpoint_id, b"3", version)

            assert [await store.get(checkpoint_id) for checkpoint_id in IDS] == [each.encode() for each in IDS]
            assert [found async for found in store.list()] == sorted(IDS)
            for checkpoint_id in IDS:
                await store.delete(checkpoint_id)
            assert [found async for found in store.list()] == []

    asyncio.run(use())


def test_refuses_a_cluster_client_that_decodes(redis_cluster_url: str) -> None:
    """A client of a cluster that makes text of answers is refused, awaited or not."""
    with (
        RedisCluster.from_url(redis_cluster_url, decode_responses=True) as client,
        pytest.raises(StoreError, match="decode_responses=True"),
    ):
        RedisStore(client=client)

    async def use() -> None:
        async with AsyncRedisCluster.from_url(redis_cluster_url, decode_responses=True) as client:
            with pytest.raises(StoreError, match="decode_responses=True"):
                AsyncRedisStore(client=client)

    asyncio.run(use())
