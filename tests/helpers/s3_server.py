"""An S3 server for tests, over HTTP on loopback, and buckets of their own for those who use it.

It is the one of ``BLOBCP_TEST_S3_ENDPOINT`` where that is set (the credentials are then those of the environment), and
otherwise moto's, in a thread of this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from absent import absent
from s3_faults import FaultyProxy, faulty

from blobcp.stores.s3 import S3Store

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

__all__ = ["bare_client", "s3_bucket", "s3_client", "s3_endpoint", "s3_proxy", "s3_store", "serving"]

VARIABLE = "BLOBCP_TEST_S3_ENDPOINT"

NO_ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1,localhost",
}
"""An environment in which nobody's real account can be meant; child processes have it too."""


@contextmanager
def serving() -> Iterator[str]:
    """Run an S3 server; skip the test where there is none. New processes find credentials for it in their environment."""
    if url := os.environ.get(VARIABLE):
        yield url
        return
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        absent(f"no S3 server: {error}")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        for name, value in NO_ACCOUNT.items():
            environment.setenv(name, value)
        server.start()
        host, port = server.get_host_and_port()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.stop()


def bare_client(endpoint: str) -> S3Client:
    """Return a boto3 client of the server, for looking at it past the store, and for acting as somebody else."""
    from boto3.session import Session

    client: S3Client = Session().client("s3", endpoint_url=endpoint)
    return client


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 server that all tests share."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def s3_client(s3_endpoint: str) -> Iterator[S3Client]:
    """A boto3 client of the server."""
    client = bare_client(s3_endpoint)
    yield client
    client.close()


@pytest.fixture
def s3_bucket(s3_client: S3Client) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid4().hex}"
    s3_client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def s3_proxy(s3_endpoint: str) -> Iterator[FaultyProxy]:
    """A proxy before the server, for faults and for counting calls."""
    with faulty(s3_endpoint) as proxy:
        yield proxy


@pytest.fixture
def s3_store(s3_proxy: FaultyProxy, s3_bucket: str) -> Iterator[S3Store]:
    """A store on an empty bucket that reaches the server by way of the proxy, and does not wait long."""
    with S3Store(s3_bucket, "runs", endpoint_url=s3_proxy.url, retry_wait=0.01) as store:
        yield store
