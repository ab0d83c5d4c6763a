"""The S3 client of a store: made when it is first needed, one a process, with every limit set on purpose."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from blobcp.errors import StoreError

from ..extras import extra
from ..forking import watch_forks

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

__all__ = ["ClientOptions", "LazyClient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client is made with; :class:`~blobcp.stores.s3.S3Store` says what each is."""

    endpoint_url: str | None
    region: str | None
    profile: str | None
    checksum: str | None
    attempts: int
    connect_timeout: float
    read_timeout: float
    pool_size: int


class LazyClient:
    """A client that is made at its first use, by one thread for all, and anew in a process that was forked.

    Args:
        options: how to make it.
        given: a client that the user made; used as it is, never closed, and good for this process only.
    """

    def __init__(self, options: ClientOptions, given: S3Client | None) -> None:
        self._options = options
        self._given = given
        self._forked = False
        self._lock = threading.Lock()
        self._made: S3Client | None = None
        watch_forks(self)

    def get(self) -> S3Client:
        """Return the client.

        Raises:
            StoreError: it was given, to a process that has forked this one.
            MissingExtraError: boto3 is not installed.
        """
        if self._given is not None:
            if self._forked:
                raise StoreError(
                    "the client of this S3 store was made before the process forked, and two processes can't share its "
                    "connections; make the client and the store after the fork, or give the store options, not a client"
                )
            return self._given
        client = self._made
        if client is None:
            with self._lock:
                client = self._made = self._made or _make(self._options)
        return client

    def close(self) -> None:
        """Close the connections; a later use opens new ones. A client that was given stays open."""
        with self._lock:
            client, self._made = self._made, None
        if client is not None:
            client.close()

    def after_fork(self) -> None:
        """Let go, in a forked child, of what belongs to its parent: the connections, and a lock that may be held."""
        self._lock = threading.Lock()
        self._made = None
        self._forked = True

    def __reduce__(self) -> tuple[type[LazyClient], tuple[ClientOptions, None]]:
        if self._given is not None:
            raise StoreError(
                "an S3 store that was given a client can't be copied or sent to another process: a client can't be "
                "pickled; give the store options (endpoint_url, region, profile), not a client"
            )
        return LazyClient, (self._options, None)


def _make(options: ClientOptions) -> S3Client:
    with extra("s3", "S3Store"):
        from boto3.session import Session
        from botocore.config import Config
    checksums: Literal["when_supported", "when_required"] = "when_supported" if options.checksum else "when_required"
    config = Config(
        connect_timeout=options.connect_timeout,
        read_timeout=options.read_timeout,
        max_pool_connections=options.pool_size,
        retries={"mode": "standard", "total_max_attempts": options.attempts},
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
        tcp_keepalive=True,
    )
    # A session of its own, since boto3's default one is not safe for threads while clients are made.
    session = Session(profile_name=options.profile, region_name=options.region)
    client: S3Client = session.client("s3", endpoint_url=options.endpoint_url, config=config)
    return client
