"""The options of an S3 store: which are refused, and how a URL says them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import unquote

from blobcp.errors import StoreError, StoreUrlError
from blobcp.store import MAX_ID_BYTES

from ..urls import Converter, boolean, shown, split
from .client import ClientOptions
from .keys import MAX_KEY_BYTES
from .writing import WriteOptions

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

__all__ = ["URL_OPTIONS", "check_options", "place_of", "prefix_of"]

MIN_PART_BYTES = 5 * 1024 * 1024
"""The smallest part that S3 takes, but for the last one."""

MAX_PREFIX_BYTES = MAX_KEY_BYTES - MAX_ID_BYTES

CHECKSUMS = ("CRC32", "CRC32C", "SHA256")
ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse")


def _text(text: str) -> str:
    if not text:
        raise ValueError("say something, or leave the option out")
    return text


def _checksum(text: str) -> str | None:
    return None if text.lower() == "none" else text.upper()


URL_OPTIONS: dict[str, Converter] = {
    "endpoint_url": _text,
    "region": _text,
    "profile": _text,
    "connect_timeout": float,
    "read_timeout": float,
    "pool_size": int,
    "attempts": int,
    "retry_wait": float,
    "conditional_writes": boolean,
    "server_side_encryption": _text,
    "kms_key_id": _text,
    "storage_class": _text,
    "expected_bucket_owner": _text,
    "checksum": _checksum,
    "multipart_threshold": int,
    "part_size": int,
}
"""What may stand behind the ``?`` of a URL: the arguments of the store by name."""


def place_of(url: str) -> tuple[str, str]:
    """Return the bucket and the prefix of a URL.

    Raises:
        StoreUrlError: it names no bucket, or says what it has no place for.

    >>> place_of("s3://bucket/some%20dir/?region=eu-west-1"), place_of("s3://bucket")
    (('bucket', 'some dir/'), ('bucket', ''))
    """
    parts = split(url)
    if "@" in parts.netloc:
        raise StoreUrlError(
            f"store URL {shown(url)!r} holds credentials; give them to the process as boto3 finds them "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, a role)"
        )
    if ":" in parts.netloc:
        raise StoreUrlError(
            f"store URL {shown(url)!r} has a port; say s3://bucket/prefix?endpoint_url=http://host:port for a server"
        )
    if parts.fragment or url.endswith("#"):
        raise StoreUrlError(f"store URL {shown(url)!r} has a '#', which begins no part of a key; write it as %23")
    if not parts.netloc:
        raise StoreUrlError(f"store URL {shown(url)!r} names no bucket; say s3://bucket/prefix")
    try:
        return parts.netloc, unquote(parts.path.removeprefix("/"), errors="strict")
    except UnicodeDecodeError as error:
        raise StoreUrlError(f"store URL {shown(url)!r} has a prefix that is not text: {error}") from error


def prefix_of(prefix: str) -> str:
    """Return a prefix as keys start with it.

    Raises:
        StoreError: it can't be one.

    >>> prefix_of(""), prefix_of("runs"), prefix_of("runs/")
    ('', 'runs/', 'runs/')
    """
    whole = f"{prefix}/" if prefix and not prefix.endswith("/") else prefix
    segments = whole.split("/")
    if any(segment in ("", ".", "..") for segment in segments[:-1]) or not whole.isprintable():
        raise StoreError(
            f"prefix {prefix[:80]!r} can't be part of S3 keys everywhere; leave out control characters and the segments "
            "'', '.' and '..'"
        )
    size = len(whole.encode())
    if size > MAX_PREFIX_BYTES:
        raise StoreError(f"prefix {prefix[:80]!r} takes {size} bytes; at most {MAX_PREFIX_BYTES} leave room for ids")
    return whole


def check_options(
    bucket: str, client: S3Client | None, client_options: ClientOptions, options: WriteOptions, retry_wait: float
) -> None:
    """Refuse what S3 would refuse later, or never say.

    Raises:
        StoreError: an option can't be taken.
    """
    allowed = {
        "bucket names one": bool(bucket),
        "checksum is None or one of " + ", ".join(CHECKSUMS): options.checksum in (None, *CHECKSUMS),
        "server_side_encryption is None or one of " + ", ".join(ENCRYPTIONS): options.server_side_encryption
        in (None, *ENCRYPTIONS),
        "kms_key_id goes with a server_side_encryption by KMS": not options.kms_key_id
        or options.server_side_encryption != "AES256",
        f"part_size is at least {MIN_PART_BYTES}": options.part_size >= MIN_PART_BYTES,
        "multipart_threshold is not below zero": options.multipart_threshold >= 0,
        "attempts is at least 1": client_options.attempts >= 1,
        "pool_size is at least 1": client_options.pool_size >= 1,
        "connect_timeout and read_timeout are above zero and end": all(
            0 < seconds < math.inf for seconds in (client_options.connect_timeout, client_options.read_timeout)
        ),
        "retry_wait is not below zero": retry_wait >= 0,
        "client is given, or the options endpoint_url, region and profile, not both": client is None
        or not (client_options.endpoint_url or client_options.region or client_options.profile),
    }
    for rule, holds in allowed.items():
        if not holds:
            raise StoreError(f"S3Store of bucket {bucket!r} can't take its options: {rule}")
