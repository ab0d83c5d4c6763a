"""An S3 server for tests, over HTTP on loopback, and buckets of their own for those who use it.

It is the one of ``BLOBCP_TEST_S3_ENDPOINT`` where that is set (the credentials are then those of the environment), and
otherwise moto's, in a thread of this process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from absent import absent
from s3_faults import FaultyProxy, faulty

from blobcp.stores.s3 import S3Store

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

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
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        for name, value in NO_ACCOUNT.items():
            environment.setenv(name, value)
        with _moto() as url:
            yield url


@contextmanager
def _moto() -> Iterator[str]:
    try:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server
    except ImportError as error:
        absent(f"no S3 server: {error}")
    backend: WSGIApplication = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def as_s3_does(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # moto looks whether a condition holds, and writes, with nothing that keeps others from writing in between; and it
        # does not look at If-Match at the end of an upload.
        with lock:
            if _ends_upload_of_another_version(environ):
                start_response("412 Precondition Failed", [("Content-Type", "application/xml")])
                return [b"<Error><Code>PreconditionFailed</Code><Message>If-Match</Message></Error>"]
            return backend(environ, start_response)

    class Quiet(MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    server = make_server("127.0.0.1", 0, as_s3_does, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def _ends_upload_of_another_version(environ: WSGIEnvironment) -> bool:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    expected = environ.get("HTTP_IF_MATCH")
    if expected is None or environ["REQUEST_METHOD"] != "POST" or "uploadId=" not in environ["QUERY_STRING"]:
        return False
    bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
    stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, key)
    return stored is None or stored.etag != expected


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
