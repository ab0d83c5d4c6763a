"""Compare-and-set on S3, and finding out whether a write that S3 refused was one's own all the same.

botocore repeats a request whose reply was lost. If the first one was stored, the repeat finds an object that was not
there before and is refused. So a refusal is believed only after a look at what is stored: each write carries a token.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from enum import Enum, auto

from blobcp.errors import StoreError

from ..conflicts import conflict
from .bucket import Bucket, Stored
from .errors import code_of, is_unsettled, status_of
from .writing import Write

__all__ = ["put", "swap"]

_ETAG = re.compile(r'"[!#-~]+"|[0-9A-Za-z+/=_-]+')  # also as servers write it that leave the quotes out

_BUSY = frozenset({"ConditionalRequestConflict", "OperationAborted"})


class _Refusal(Enum):
    MOVED = auto()  # the condition does not hold
    BUSY = auto()  # another write was on its way; S3 asks to try again
    UNSETTLED = auto()  # whether it was done is not known


def put(bucket: Bucket, key: str, blob: bytes) -> None:
    """Write without a condition."""
    this = Write(target=bucket.target(key), blob=blob, token=secrets.token_hex(16))
    try:
        bucket.write(this)
    except Exception as error:
        # The end of an upload in parts, repeated after its reply was lost, finds no upload any more.
        if code_of(error) != "NoSuchUpload" or not _is_own(bucket.read(key), this):
            raise


def swap(bucket: Bucket, key: str, checkpoint_id: str, blob: bytes, version: str | None) -> str:
    """Write if the ETag is still this one (``None``: if there is no object) and return the new one.

    Raises:
        CheckpointConflictError: it is not.
        StoreError: the server gives no ETags.
    """
    if version is not None and not _ETAG.fullmatch(version):
        raise conflict(checkpoint_id)  # no object has it; in a header, "" or "*" would match any
    this = Write(
        target=bucket.target(key),
        blob=blob,
        token=secrets.token_hex(16),
        if_match=version,
        if_none_match="*" if version is None else None,
    )
    etag = _write(bucket, this, checkpoint_id)
    if etag == version:
        # Equal bytes have equal ETags, so a rival with the same version would win as well. As an upload of one part, they
        # have another. The token is a new one, so that only this second write counts as done.
        this = replace(this, token=secrets.token_hex(16))
        etag = _write(bucket, this, checkpoint_id, single_part=True)
    if not etag:
        raise StoreError(
            f"checkpoint {checkpoint_id!r} was saved, but the server gives no ETags to compare; "
            "open the store with conditional_writes=False"
        )
    return etag


def _write(bucket: Bucket, this: Write, checkpoint_id: str, *, single_part: bool = False) -> str:
    for attempt in range(1, bucket.attempts + 1):
        try:
            return bucket.write(this, single_part=single_part)
        except Exception as error:
            refusal = _refusal_of(error, this)
            if refusal is None:
                raise
            if refusal is _Refusal.BUSY and attempt < bucket.attempts:
                bucket.pause(attempt)
                continue
            return _settle(bucket, this, checkpoint_id, refusal, error)
    raise AssertionError("the last attempt returns or raises")


def _settle(bucket: Bucket, this: Write, checkpoint_id: str, refusal: _Refusal, error: Exception) -> str:
    try:
        stored = bucket.read(this.target.key)
    except Exception as unreadable:
        error.add_note(f"what is stored could not be looked at either: {unreadable}")
        raise error from None
    if stored is not None and _is_own(stored, this):
        return stored.etag
    somebody_wrote = stored is not None and stored.etag != this.if_match
    if refusal is _Refusal.MOVED or somebody_wrote:
        raise conflict(checkpoint_id) from error
    raise error


def _is_own(stored: Stored | None, this: Write) -> bool:
    return stored is not None and stored.token == this.token


def _refusal_of(error: Exception, this: Write) -> _Refusal | None:
    code = code_of(error)
    if code in _BUSY:
        return _Refusal.BUSY
    if status_of(error) == 412 or (code == "NoSuchKey" and this.if_match is not None):
        return _Refusal.MOVED
    return _Refusal.UNSETTLED if is_unsettled(error) else None
