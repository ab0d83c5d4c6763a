"""Reading and replacing the blobs of a store, by compare-and-set where the store has it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from blobcp.errors import CheckpointConflictError, OptionError
from blobcp.store import CheckPointLister, CheckPointStore, CheckPointSwapper

__all__ = ["Access", "Found", "checked_ids", "digest", "listed"]


class Found(NamedTuple):
    """What is under an id: its bytes, and their version where the store has versions; ``None`` for nothing."""

    blob: bytes | None
    version: str | None


class Access:
    """A store, as jobs use it.

    Args:
        store: the store.

    Raises:
        OptionError: it is none, or its methods have to be awaited.
    """

    def __init__(self, store: CheckPointStore) -> None:
        if not callable(getattr(store, "get", None)) or not callable(getattr(store, "set", None)):
            raise OptionError(f"{store!r} is no store; give an object with get and set")
        if inspect.iscoroutinefunction(store.get):
            raise OptionError(
                f"the methods of {type(store).__name__} have to be awaited, which a job does not do; give the store's "
                "variant with plain methods"
            )
        self.store = store
        self._swapper = store if isinstance(store, CheckPointSwapper) else None

    def read(self, checkpoint_id: str) -> Found:
        """Return what is under an id."""
        if self._swapper is None:
            return Found(self.store.get(checkpoint_id), None)
        return Found(*(self._swapper.get_versioned(checkpoint_id) or (None, None)))

    def write(self, checkpoint_id: str, blob: bytes, found: Found, *, late: bool) -> None:
        """Put a blob in the place of what was found.

        Args:
            checkpoint_id: the id.
            blob: the blob.
            found: what `read` gave.
            late: whether some time has passed since, so that a store without compare-and-set is read once more.

        Raises:
            CheckpointConflictError: something else is there by now; nothing was changed.
        """
        if self._swapper is not None:
            self._swapper.set_if(checkpoint_id, blob, found.version)
            return
        if late and self.store.get(checkpoint_id) != found.blob:
            raise CheckpointConflictError(
                f"conflict: checkpoint {checkpoint_id!r} was written by somebody else since it was read; "
                "nothing was changed",
                checkpoint_id=checkpoint_id,
            )
        self.store.set(checkpoint_id, blob)

    def __getstate__(self) -> Any:
        return self.store

    def __setstate__(self, state: Any) -> None:
        self.__init__(state)  # type: ignore[misc]  # a copy looks at its own store


def digest(blob: bytes) -> str:
    """Return what identifies bytes, blobs or foreign ones."""
    return blake2b(blob, digest_size=16).hexdigest()


def checked_ids(store: CheckPointStore, ids: Iterable[str] | None, prefix: str) -> Iterable[str] | None:
    """Return the ids that are given, or ``None`` where the store is to list them.

    Raises:
        OptionError: they are no ids, or the store can't list, or there are ids and a prefix.
    """
    if not isinstance(prefix, str):
        raise OptionError(f"prefix={prefix!r} is no prefix; give text")
    if ids is None:
        if not isinstance(store, CheckPointLister):
            raise OptionError(
                f"{type(store).__name__} can't list what it holds; give ids=, an iterable of checkpoint ids"
            )
        return None
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise OptionError(f"ids={ids!r} is no iterable of checkpoint ids; give a list of them, or what yields them")
    if prefix:
        raise OptionError("ids and prefix are two ways to say which blobs; give one of them")
    return ids


def listed(store: CheckPointStore, prefix: str) -> Iterator[str]:
    """Return the ids that a store lists, which `checked_ids` has found able to."""
    assert isinstance(store, CheckPointLister)
    return store.list(prefix)
