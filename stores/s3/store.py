"""A store in a bucket of S3, or of a server that speaks S3's language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self

from blobcp.errors import StoreError

from ..blobs import Blob, to_bytes
from ..urls import options_of
from .bucket import DELETE_BATCH, Bucket
from .client import ClientOptions, LazyClient
from .errors import explain
from .keys import id_of, key_of, keys_start_of
from .options import URL_OPTIONS, check_options, place_of, prefix_of
from .swapping import put, swap
from .writing import Checksum, Encryption, WriteOptions

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.literals import StorageClassType

__all__ = ["S3Store"]

MIB = 1024 * 1024


class S3Store:
    """Keep each blob in an object of one bucket; any number of threads, processes and machines may use it at once.

    It promises what S3 does: a save is one PUT, atomic, durable once ``set`` has returned, and seen by every read that
    begins after it. Of several who write what they have read, one wins and the others are told. A blob can have 5 GiB, or
    10,000 parts. ``docs/stores-s3.md`` says what else is to be known, for servers that are not AWS, too.

    Making a store calls nothing. The credentials are those that boto3 finds: environment, profile, role.

    Args:
        bucket: the name of the bucket (or the ARN of an access point); it has to be there.
        prefix: what the keys start with, ended with a slash if it is not empty; the rest of a key is the id.
        client: a boto3 S3 client to use, in place of one made by the options from ``endpoint_url`` to ``pool_size``. Its
            own retries and time-outs hold, and it is left open.
        endpoint_url: where the server is, if it is not AWS.
        region: the region of the bucket. By default what boto3 finds.
        profile: the section of the AWS configuration files to use. By default what boto3 finds.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for the next bytes of a reply.
        pool_size: how many connections are kept open, hence how many threads are served without opening new ones.
        attempts: how often a call is made at most, where it is throttled, or fails in the network or the server.
        retry_wait: seconds before the second attempt where the store itself repeats a call; doubled for each further one.
        conditional_writes: whether the server can compare and set. ``False``: the store has no ``get_versioned`` and
            ``set_if``.
        server_side_encryption: ``AES256``, ``aws:kms`` or ``aws:kms:dsse``. By default what the bucket says.
        kms_key_id: the KMS key to encrypt with; means ``aws:kms`` if nothing else is said.
        storage_class: for instance ``STANDARD_IA``. By default ``STANDARD``.
        expected_bucket_owner: the account id of the bucket's owner; calls fail if it is another.
        checksum: ``CRC32``, ``SHA256`` or ``CRC32C`` (needs ``botocore[crt]``), sent with each save, checked by the server
            and on each load; ``None`` for servers that know none of them.
        multipart_threshold: the most bytes that are sent in one PUT; a blob of more is sent in parts.
        part_size: bytes of a part; at least 5 MiB.

    Raises:
        StoreError: an option can't be taken.
    """

    # Present only with conditional writes; that is what isinstance(store, CheckPointSwapper) looks at.
    get_versioned: Callable[[str], tuple[bytes, str] | None]
    set_if: Callable[[str, Blob, str | None], str]

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        client: S3Client | None = None,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        connect_timeout: float = 5.0,
        read_timeout: float = 30.0,
        pool_size: int = 32,
        attempts: int = 4,
        retry_wait: float = 0.2,
        conditional_writes: bool = True,
        server_side_encryption: Encryption | None = None,
        kms_key_id: str | None = None,
        storage_class: StorageClassType | None = None,
        expected_bucket_owner: str | None = None,
        checksum: Checksum | None = "CRC32",
        multipart_threshold: int = 32 * MIB,
        part_size: int = 16 * MIB,
    ) -> None:
        client_options = ClientOptions(
            endpoint_url=endpoint_url,
            region=region,
            profile=profile,
            checksum=checksum,
            attempts=attempts,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            pool_size=pool_size,
        )
        write_options = WriteOptions(
            server_side_encryption=server_side_encryption or ("aws:kms" if kms_key_id else None),
            kms_key_id=kms_key_id,
            storage_class=storage_class,
            checksum=checksum,
            multipart_threshold=multipart_threshold,
            part_size=part_size,
        )
        self.bucket = bucket
        self.prefix = prefix_of(prefix)
        self.conditional_writes = conditional_writes
        check_options(bucket, client, client_options, write_options, retry_wait)
        self._client = LazyClient(client_options, client)
        self._bucket = Bucket(bucket, expected_bucket_owner, self._client, write_options, attempts, retry_wait)
        self._show_powers()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the store that a URL names: ``s3://bucket/prefix?endpoint_url=http://localhost:9000&region=eu-west-1``.

        Every option but ``client`` can stand behind the ``?``. What the URL has no place for is percent-encoded.

        Raises:
            StoreUrlError: the URL can't be taken.
            StoreError: an option can't be taken.
        """
        bucket, prefix = place_of(url)
        return cls(bucket, prefix, **options_of(url, URL_OPTIONS))  # type: ignore[arg-type]  # the table says the types

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where S3 says that there is no such key; one GET.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        key = key_of(self.prefix, checkpoint_id)
        with explain(f"read checkpoint {checkpoint_id!r} from {self._place(key)}"):
            stored = self._bucket.read(key)
        return None if stored is None else stored.blob

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there; one PUT, or several calls for a large blob.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be stored.
        """
        key = key_of(self.prefix, checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with explain(f"save checkpoint {checkpoint_id!r} ({len(blob)} bytes) to {self._place(key)}", writes=True):
            put(self._bucket, key, blob)

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing; one DELETE.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: it could not be removed.
        """
        key = key_of(self.prefix, checkpoint_id)
        with explain(f"delete checkpoint {checkpoint_id!r} at {self._place(key)}"):
            self._bucket.delete(key)

    def delete_many(self, checkpoint_ids: Iterable[str]) -> None:
        """Remove what is under many ids, a thousand a call; no error where there is nothing.

        Raises:
            InvalidCheckpointIdError: one is no id; those that came before it may be removed.
            StoreError: some could not be removed, and the message names the first of them; or a single id was given.
        """
        if isinstance(checkpoint_ids, str):  # each of its characters would be an id
            raise StoreError(
                f"delete_many takes many ids, not {checkpoint_ids[:80]!r} alone; give a list of ids, or use delete"
            )
        keys = (key_of(self.prefix, checkpoint_id) for checkpoint_id in checkpoint_ids)
        while batch := list(islice(keys, DELETE_BATCH)):
            with explain(f"delete {len(batch)} checkpoints in {self._place(self.prefix)}"):
                failed = self._bucket.delete_many(batch)
            if failed:
                first = failed[0]
                raise StoreError(
                    f"{len(failed)} of {len(batch)} checkpoints in {self._place(self.prefix)} were not deleted; the first is "
                    f"{id_of(self.prefix, first.get('Key', ''))!r}: {first.get('Code')}: {first.get('Message')}; "
                    "allow s3:DeleteObject, or try again"
                )

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order; one LIST for each thousand, when it is needed.

        Objects that are not the store's own are passed over.

        Raises:
            StoreError: the bucket can't be listed.
        """
        start = keys_start_of(self.prefix, prefix)
        if start is None:
            return
        with explain(f"list {self._place(start)}"):
            keys = self._bucket.keys(start)
            key = next(keys, None)
        while key is not None:
            checkpoint_id = id_of(self.prefix, key)
            if checkpoint_id is not None:
                yield checkpoint_id
            with explain(f"list {self._place(start)}"):
                key = next(keys, None)

    def close(self) -> None:
        """Close the connections; a later call opens new ones. A client that the store was given stays open."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and their ETag, or ``None`` where S3 says that there is no such key; one GET.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        key = key_of(self.prefix, checkpoint_id)
        with explain(f"read checkpoint {checkpoint_id!r} from {self._place(key)}"):
            stored = self._bucket.read(key)
        if stored is not None and not stored.etag:
            raise StoreError(
                f"checkpoint {checkpoint_id!r} at {self._place(key)} has no ETag to compare; the server gives none, "
                "so open the store with conditional_writes=False"
            )
        return None if stored is None else (stored.blob, stored.etag)

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes only if the stored ETag is still this one; ``None`` means "must not exist"; one PUT.

        Where S3 refuses, or its reply is lost, what is stored is read once, to tell a rival's write from one's own.

        Returns:
            The new ETag.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be stored, or whether it was can't be told.
            CheckpointConflictError: the version is another by now.
        """
        key = key_of(self.prefix, checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with explain(f"save checkpoint {checkpoint_id!r} ({len(blob)} bytes) to {self._place(key)}", writes=True):
            return swap(self._bucket, key, checkpoint_id, blob, version)

    def _place(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def _show_powers(self) -> None:
        if self.conditional_writes:
            self.get_versioned = self._get_versioned
            self.set_if = self._set_if

    def __getstate__(self) -> dict[str, object]:
        # The bound methods belong to this instance; a copy makes its own.
        return {name: value for name, value in vars(self).items() if name not in ("get_versioned", "set_if")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._show_powers()
