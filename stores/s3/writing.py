"""One write to S3: a single PUT, or parts that become an object together at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.literals import StorageClassType
    from types_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CompleteMultipartUploadRequestTypeDef,
        CreateMultipartUploadRequestTypeDef,
        PutObjectRequestTypeDef,
        UploadPartRequestTypeDef,
    )

__all__ = ["WRITE_TOKEN", "Checksum", "Encryption", "Target", "Write", "WriteOptions", "write"]

WRITE_TOKEN = "blobcp-write"
"""Under which metadata an object says which write it is of, so that a client can tell its own from a rival's."""

Checksum = Literal["CRC32", "CRC32C", "SHA256"]
Encryption = Literal["AES256", "aws:kms", "aws:kms:dsse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How objects are written; :class:`~blobcp.stores.s3.S3Store` says what each is."""

    server_side_encryption: Encryption | None
    kms_key_id: str | None
    storage_class: StorageClassType | None
    checksum: Checksum | None
    multipart_threshold: int
    part_size: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where an object is."""

    bucket: str
    key: str
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write: what goes where, under which condition, and the token that tells it from all others."""

    target: Target
    blob: bytes
    token: str
    if_match: str | None = None
    if_none_match: str | None = None


def write(client: S3Client, options: WriteOptions, this: Write, *, single_part: bool = False) -> str:
    """Write an object and return its ETag.

    Args:
        client: what to send it with.
        options: how.
        this: what.
        single_part: make it an upload of one part, whatever its size; its ETag differs from that of a PUT of the same bytes.
    """
    if single_part:
        return _upload(client, options, this, max(len(this.blob), 1))
    if len(this.blob) > options.multipart_threshold:
        return _upload(client, options, this, options.part_size)
    return _put(client, options, this)


def _put(client: S3Client, options: WriteOptions, this: Write) -> str:
    request: PutObjectRequestTypeDef = {
        "Bucket": this.target.bucket,
        "Key": this.target.key,
        "Body": this.blob,
        "Metadata": {WRITE_TOKEN: this.token},
    }
    _describe(request, options, this.target)
    _demand(request, this)
    return client.put_object(**request).get("ETag", "")


def _upload(client: S3Client, options: WriteOptions, this: Write, part_size: int) -> str:
    target = this.target
    start: CreateMultipartUploadRequestTypeDef = {
        "Bucket": target.bucket,
        "Key": target.key,
        "Metadata": {WRITE_TOKEN: this.token},
    }
    _describe(start, options, target)
    upload = client.create_multipart_upload(**start)["UploadId"]
    try:
        parts = [
            _send_part(client, options, this, upload, number, this.blob[offset : offset + part_size])
            for number, offset in enumerate(range(0, len(this.blob) or 1, part_size), start=1)
        ]
        finish: CompleteMultipartUploadRequestTypeDef = {
            "Bucket": target.bucket,
            "Key": target.key,
            "UploadId": upload,
            "MultipartUpload": {"Parts": parts},
        }
        if target.owner is not None:
            finish["ExpectedBucketOwner"] = target.owner
        _demand(finish, this)
        return client.complete_multipart_upload(**finish).get("ETag", "")
    except BaseException as error:
        _abort(client, target, upload, error)
        raise


def _send_part(
    client: S3Client, options: WriteOptions, this: Write, upload: str, number: int, part: bytes
) -> CompletedPartTypeDef:
    request: UploadPartRequestTypeDef = {
        "Bucket": this.target.bucket,
        "Key": this.target.key,
        "UploadId": upload,
        "PartNumber": number,
        "Body": part,
    }
    if options.checksum is not None:
        request["ChecksumAlgorithm"] = options.checksum
    if this.target.owner is not None:
        request["ExpectedBucketOwner"] = this.target.owner
    reply = client.upload_part(**request)
    sent: CompletedPartTypeDef = {"PartNumber": number, "ETag": reply["ETag"]}
    # S3 puts the checksum of the whole together from those of the parts, and wants them said again.
    match options.checksum:
        case "CRC32" if "ChecksumCRC32" in reply:
            sent["ChecksumCRC32"] = reply["ChecksumCRC32"]
        case "CRC32C" if "ChecksumCRC32C" in reply:
            sent["ChecksumCRC32C"] = reply["ChecksumCRC32C"]
        case "SHA256" if "ChecksumSHA256" in reply:
            sent["ChecksumSHA256"] = reply["ChecksumSHA256"]
    return sent


def _abort(client: S3Client, target: Target, upload: str, error: BaseException) -> None:
    try:
        if target.owner is None:
            client.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload)
        else:
            client.abort_multipart_upload(
                Bucket=target.bucket, Key=target.key, UploadId=upload, ExpectedBucketOwner=target.owner
            )
    except Exception as failed:
        # The error on its way says more than this one about the clean-up would.
        error.add_note(
            f"the parts of upload {upload} could not be removed either ({failed}); a lifecycle rule can do it"
        )


def _describe(
    request: PutObjectRequestTypeDef | CreateMultipartUploadRequestTypeDef, options: WriteOptions, target: Target
) -> None:
    if options.server_side_encryption is not None:
        request["ServerSideEncryption"] = options.server_side_encryption
    if options.kms_key_id is not None:
        request["SSEKMSKeyId"] = options.kms_key_id
    if options.storage_class is not None:
        request["StorageClass"] = options.storage_class
    if options.checksum is not None:
        request["ChecksumAlgorithm"] = options.checksum
    if target.owner is not None:
        request["ExpectedBucketOwner"] = target.owner


def _demand(request: PutObjectRequestTypeDef | CompleteMultipartUploadRequestTypeDef, this: Write) -> None:
    if this.if_match is not None:
        request["IfMatch"] = this.if_match
    if this.if_none_match is not None:
        request["IfNoneMatch"] = this.if_none_match
