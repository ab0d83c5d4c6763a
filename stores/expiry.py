"""How long a blob is to be kept, as every store with expiry takes it."""

from __future__ import annotations

from datetime import timedelta

from blobcp.errors import StoreError

__all__ = ["seconds_of"]


def seconds_of(checkpoint_id: str, ttl: timedelta) -> float:
    """Return a time to live in seconds.

    Args:
        checkpoint_id: what it is for, for the message.
        ttl: how long the blob is to be kept; longer than nothing.

    Raises:
        StoreError: it is no time to live.

    >>> seconds_of("order-17", timedelta(minutes=2))
    120.0
    """
    if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
        raise StoreError(
            f"can't store checkpoint {checkpoint_id!r} with the time to live {ttl!r}; give a timedelta above zero"
        )
    return ttl.total_seconds()
