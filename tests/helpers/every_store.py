"""Every store that other processes can open too, each by a URL of its own that nobody else uses.

``shared_url`` is a fixture that runs a test once for each kind; the servers are those of the session's fixtures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

__all__ = ["SHARED", "shared_url"]

Given = Callable[[str], str]
"""Gives the value of a fixture by its name, and starts what it needs only then."""


def _s3(given: Given, name: str, folder: Path) -> str:
    return f"s3://{given('s3_bucket')}/{name}?endpoint_url={given('s3_endpoint')}"


def _postgres(given: Given, name: str, folder: Path) -> str:
    url = given("postgres_url")
    return f"{url}{'&' if '?' in url else '?'}blobcp_table=t{name}"


SHARED: dict[str, Callable[[Given, str, Path], str]] = {
    "file": lambda given, name, folder: f"file:{folder}/{name}?durable=false",
    "sqlite": lambda given, name, folder: f"sqlite:///{folder}/{name}.db",
    "s3": _s3,
    "postgres": _postgres,
    "redis": lambda given, name, folder: f"{given('redis_url')}?blobcp_prefix={name}:",
}
"""What makes the URL of a new, empty store of each kind."""


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store that any process may open."""
    return SHARED[request.param](request.getfixturevalue, uuid4().hex, tmp_path)
