"""The contract between blobcp and a store: two methods, and four optional powers of one method (or pair) each.

A store knows nothing of checkpoints. It keeps bytes under a string. What it can do beyond that it shows by having the
method; code asks ``isinstance(store, CheckPointDeleter)`` and does without where it can. The rule for ids stands here
too, since every store shares it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol, runtime_checkable

from blobcp.errors import InvalidCheckpointIdError

__all__ = [
    "MAX_ID_BYTES",
    "AsyncCheckPointStore",
    "CheckPointDeleter",
    "CheckPointExpirer",
    "CheckPointLister",
    "CheckPointStore",
    "CheckPointSwapper",
    "check_id",
]

MAX_ID_BYTES = 512
"""The longest checkpoint id, in UTF-8 bytes."""


class CheckPointStore(Protocol):
    """A place for blobs.

    ``get`` returns ``None`` only where the store knows that there is nothing under the id; a failure to find out is
    an exception. ``set`` returns once the bytes are kept as durably as the store promises, replaces what was there,
    and keeps a copy: later changes to the caller's buffer do not reach the store.

    The asyncio driver calls a store with plain methods in a worker thread, except one that says ``blocking = False``.
    """

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none."""
        ...

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the bytes under the id, in place of what was there."""
        ...


class AsyncCheckPointStore(Protocol):
    """The same two methods, awaited; for the asyncio driver only."""

    async def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none."""
        ...

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        """Keep the bytes under the id, in place of what was there."""
        ...


@runtime_checkable
class CheckPointDeleter(Protocol):
    """A store that can forget."""

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing."""
        ...


@runtime_checkable
class CheckPointLister(Protocol):
    """A store that can tell what it holds."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, lazily, any number of them."""
        ...


@runtime_checkable
class CheckPointSwapper(Protocol):
    """A store that can replace only what the caller has seen."""

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes and an opaque version of them, or ``None`` where there are none."""
        ...

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        """Keep the bytes only if the stored version is still this one; ``None`` means "must not exist".

        Returns the new version. Raises ``CheckpointConflictError`` and changes nothing where the version moved.
        """
        ...


@runtime_checkable
class CheckPointExpirer(Protocol):
    """A store that can forget by itself."""

    def set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        """Keep the bytes for at least ``ttl``, after which ``get`` answers ``None``."""
        ...


def check_id(checkpoint_id: str) -> str:
    """Return the id unchanged if it is one, so that every store accepts and refuses the same ids.

    Args:
        checkpoint_id: any non-empty text of at most 512 UTF-8 bytes, without NUL and lone surrogates.

    Raises:
        InvalidCheckpointIdError: it is not.

    >>> check_id("../orders/7 ☕")
    '../orders/7 ☕'
    >>> check_id("")
    Traceback (most recent call last):
    blobcp.errors.InvalidCheckpointIdError: checkpoint id '' is empty; give at least one character
    """
    if not isinstance(checkpoint_id, str):
        raise InvalidCheckpointIdError(
            f"checkpoint id {checkpoint_id!r} is of type {type(checkpoint_id).__name__}; give a str"
        )
    if not checkpoint_id:
        raise InvalidCheckpointIdError("checkpoint id '' is empty; give at least one character", checkpoint_id="")
    problem = _problem_of(checkpoint_id)
    if problem:
        raise InvalidCheckpointIdError(f"checkpoint id {checkpoint_id[:80]!r} {problem}", checkpoint_id=checkpoint_id)
    return checkpoint_id


def _problem_of(checkpoint_id: str) -> str | None:
    if "\0" in checkpoint_id:
        return "holds a NUL character; leave it out"
    try:
        size = len(checkpoint_id.encode())
    except UnicodeEncodeError:
        return "holds a lone surrogate, which is not text; leave it out"
    if size > MAX_ID_BYTES:
        return f"takes {size} UTF-8 bytes; at most {MAX_ID_BYTES} are allowed"
    return None
