"""What all tests share: how hypothesis behaves, and the fixtures that run a test in every way it must hold."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from drivers import AsyncRunner, Runner, SyncRunner
from every_store import shared_url
from hypothesis import settings
from postgres_server import postgres_dsn, postgres_url, private_postgres, stoppable_postgres
from redis_server import free_prefix, private_redis, redis_cluster_url, redis_url
from s3_server import s3_bucket, s3_client, s3_endpoint, s3_proxy, s3_store

from blobcp.stores import FileStore, MapStore

__all__ = [
    "free_prefix",
    "mode",
    "postgres_dsn",
    "postgres_url",
    "private_postgres",
    "private_redis",
    "redis_cluster_url",
    "redis_url",
    "runner",
    "s3_bucket",
    "s3_client",
    "s3_endpoint",
    "s3_proxy",
    "s3_store",
    "shared_url",
    "stoppable_postgres",
    "store",
]

# Runs must not fail because a machine is busy; pytest-timeout bounds them.
settings.register_profile("blobcp", deadline=None, print_blob=True)
settings.load_profile("blobcp")


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of every later garbage collection; some tests collect to see a leak."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=[SyncRunner, AsyncRunner], ids=["sync", "async"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """The driver under test."""
    made: Runner = request.param()
    return made


@pytest.fixture(params=["pregel", "dag", "dag-in-steps"])
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of ``compile`` for each way to run a graph without loops: ``graph.compile(**mode)``."""
    return {
        "pregel": {"mode": "pregel"},
        "dag": {"mode": "dag"},
        "dag-in-steps": {"mode": "dag", "eager": False},
    }[str(request.param)]


@pytest.fixture(params=["map", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MapStore | FileStore:
    """An empty store of each built-in kind."""
    return MapStore() if request.param == "map" else FileStore(tmp_path / "store")
