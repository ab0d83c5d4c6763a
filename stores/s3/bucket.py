"""What a store asks of its bucket, with the repeats that botocore leaves to its users; errors come out as they are."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..extras import extra
from .client import LazyClient
from .errors import code_of
from .writing import WRITE_TOKEN, Target, Write, WriteOptions, write

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import (
        DeleteObjectRequestTypeDef,
        DeleteObjectsRequestTypeDef,
        ErrorTypeDef,
        GetObjectOutputTypeDef,
        GetObjectRequestTypeDef,
        ListObjectsV2RequestTypeDef,
    )

__all__ = ["DELETE_BATCH", "Bucket", "Stored"]

DELETE_BATCH = 1000
"""How many objects S3 deletes in one call."""

_LONGEST_PAUSE = 5.0

_DELETE_AGAIN = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted"})


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was read: its bytes, its ETag, and the token of the write that it is of, if it has one."""

    blob: bytes
    etag: str
    token: str | None


class Bucket:
    """The calls on one bucket.

    Args:
        name: the bucket.
        owner: the account that it has to belong to, if that is to be checked.
        client: what the calls are sent with.
        options: how objects are written.
        attempts: how often a call is made whose reply breaks off, at most.
        retry_wait: how long to wait before the second attempt, in seconds; twice as long before each further one.
    """

    def __init__(
        self, name: str, owner: str | None, client: LazyClient, options: WriteOptions, attempts: int, retry_wait: float
    ) -> None:
        self.name = name
        self._owner = owner
        self._client = client
        self._options = options
        self.attempts = attempts
        self._retry_wait = retry_wait

    def read(self, key: str) -> Stored | None:
        """Return what is under a key, or ``None`` where S3 says that there is no such key.

        A reply that breaks off, or whose checksum is wrong, is asked for again: botocore repeats only what fails before
        the reply begins.
        """
        with extra("s3", "S3Store"):
            from botocore.exceptions import BotoCoreError
            from urllib3.exceptions import HTTPError

        for attempt in range(1, self.attempts + 1):
            reply = self._ask(key)
            if reply is None:
                break
            try:
                blob = reply["Body"].read()
            except (BotoCoreError, HTTPError, OSError):
                reply["Body"].close()
                if attempt == self.attempts:
                    raise
                self.pause(attempt)
            else:
                return Stored(blob, reply.get("ETag", ""), reply.get("Metadata", {}).get(WRITE_TOKEN))
        return None

    def write(self, this: Write, *, single_part: bool = False) -> str:
        """Write an object and return its ETag; see :func:`~blobcp.stores.s3.writing.write`."""
        return write(self._client.get(), self._options, this, single_part=single_part)

    def target(self, key: str) -> Target:
        """Return the place of a key."""
        return Target(self.name, key, self._owner)

    def delete(self, key: str) -> None:
        """Delete an object, whether it is there or not."""
        request: DeleteObjectRequestTypeDef = {"Bucket": self.name, "Key": key}
        if self._owner is not None:
            request["ExpectedBucketOwner"] = self._owner
        try:
            self._client.get().delete_object(**request)
        except Exception as error:
            if code_of(error) != "NoSuchKey":  # which S3 does not say here, and some that speak its language do
                raise

    def delete_many(self, keys: Sequence[str]) -> list[ErrorTypeDef]:
        """Delete at most ``DELETE_BATCH`` objects in one call; return the server's words on those that could not be."""
        failed: list[ErrorTypeDef] = []
        for attempt in range(1, self.attempts + 1):
            failed = [said for said in self._delete_batch(keys) if said.get("Code") != "NoSuchKey"]
            # They come inside a reply that says all is well, so botocore does not see them.
            if not failed or any(said.get("Code") not in _DELETE_AGAIN for said in failed) or attempt == self.attempts:
                break
            keys = [said["Key"] for said in failed if "Key" in said]
            self.pause(attempt)
        return failed

    def keys(self, start: str) -> Iterator[str]:
        """Yield the keys that start so, in the order of their UTF-8 bytes, a page of at most 1000 a call."""
        request: ListObjectsV2RequestTypeDef = {"Bucket": self.name, "Prefix": start}
        if self._owner is not None:
            request["ExpectedBucketOwner"] = self._owner
        while True:
            page = self._client.get().list_objects_v2(**request)
            yield from (entry["Key"] for entry in page.get("Contents", []) if "Key" in entry)
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt: longer each time, and not as long as everybody else."""
        time.sleep(random.uniform(0.5, 1) * min(self._retry_wait * 2 ** (attempt - 1), _LONGEST_PAUSE))

    def _ask(self, key: str) -> GetObjectOutputTypeDef | None:
        request: GetObjectRequestTypeDef = {"Bucket": self.name, "Key": key}
        if self._owner is not None:
            request["ExpectedBucketOwner"] = self._owner
        try:
            return self._client.get().get_object(**request)
        except Exception as error:
            # Not by the status: a missing bucket, and a proxy that knows nothing, answer 404 as well.
            if code_of(error) == "NoSuchKey":
                return None
            raise

    def _delete_batch(self, keys: Sequence[str]) -> list[ErrorTypeDef]:
        request: DeleteObjectsRequestTypeDef = {
            "Bucket": self.name,
            "Delete": {"Objects": [{"Key": key} for key in keys], "Quiet": True},
        }
        if self._owner is not None:
            request["ExpectedBucketOwner"] = self._owner
        return self._client.get().delete_objects(**request).get("Errors", [])
