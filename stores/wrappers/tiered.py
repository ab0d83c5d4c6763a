"""A fast store in front of a durable one."""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Literal, Self

from blobcp.errors import CheckpointConflictError, StoreError, text_of
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointStore, CheckPointSwapper, check_id
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..forking import watch_forks
from . import tiers
from .write_behind import WriteBehindStore

__all__ = ["TieredStore"]

_Found = tuple[bytes, str | None]


class TieredStore(StoreWrapper):
    """Read from a fast store what it has, and everything else from a durable one, which is the one that counts.

    A save first puts a mark into the fast tier, then the blob into the durable tier, then the blob in the mark's place. A
    reader who finds a mark, or nothing, asks the durable tier. So the fast tier holds no blob that the durable one
    has replaced, whoever fails in between, as long as all who use the durable tier do so through the same fast tier.

    It has the powers of the durable tier, except expiry: the fast tier could not tell when a blob is over.

    Args:
        fast: keeps copies; needs compare-and-set. It belongs to this store: what is in it is no plain blob. One that
            several processes share (Redis) is fine. One of this process alone (`MapStore`) is for ids that no other
            process writes: it does not hear of their writes and goes on giving out what it has.
        durable: keeps the blobs.
        write: ``"through"``: a save returns when it is in the durable tier. ``"back"``: it returns when it is in the
            fast tier and queued for the durable one, by a `WriteBehindStore` round it; A CRASH LOSES WHAT IS QUEUED.
        cache_limit: how many blobs this object leaves in the fast tier; the one that was not used for longest goes
            first. By default all stay. Needs a fast tier that can delete.

    Attributes:
        store: the durable tier; with ``"back"`` the `WriteBehindStore` round it.
        fast_error: the last failure of the fast tier that the durable one made up for.

    Raises:
        StoreError: the tiers lack what is needed, or an argument is out of range.

    >>> from blobcp.stores import MapStore
    >>> durable = MapStore()
    >>> store = TieredStore(MapStore(), durable)
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), durable.get("order-17")
    (b'blob', b'blob')
    """

    def __init__(
        self,
        fast: CheckPointStore,
        durable: CheckPointStore,
        *,
        write: Literal["through", "back"] = "through",
        cache_limit: int | None = None,
    ) -> None:
        if write not in ("through", "back"):
            raise StoreError(f"TieredStore can't write {write!r}; give 'through' or 'back'")
        if not isinstance(fast, CheckPointSwapper):
            raise StoreError(
                f"{type(fast).__name__} can't be a fast tier, since it can't compare and set: a slow reader could put an "
                "old blob back; take MapStore or RedisStore, for instance"
            )
        if cache_limit is not None and (cache_limit < 1 or not isinstance(fast, CheckPointDeleter)):
            raise StoreError(f"cache_limit={cache_limit!r} needs to be at least 1 and a fast tier that can delete")
        StoreWrapper(fast)  # refuses one whose methods have to be awaited
        if write == "back" and not isinstance(durable, WriteBehindStore):
            durable = WriteBehindStore(durable)
        no_delete = () if isinstance(fast, CheckPointDeleter) else (CheckPointDeleter,)
        super().__init__(durable, hides=(CheckPointExpirer, *no_delete))
        self.blocking = self.blocking or getattr(fast, "blocking", True)
        self.fast = fast
        self.write = write
        self.cache_limit = cache_limit
        self.fast_error: Exception | None = None
        self._used: OrderedDict[str, None] = OrderedDict()
        self.after_fork()
        watch_forks(self)

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id from the fast tier, or else from the durable one, or ``None`` where it has none.

        Where the fast tier fails, the durable one is asked. Not so with ``write="back"``: what another process has queued
        is in the fast tier only, so an error of it is raised.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there are some can't be told.
        """
        found = self._find(check_id(checkpoint_id), versioned=False)
        return found and found[0]

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: they are not bytes; or they could not be kept; or the fast tier failed before anything was
                written. Where it fails afterwards the save has succeeded, and readers ask the durable tier.
        """
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        mark = self._announce(checkpoint_id)
        self.store.set(checkpoint_id, blob)
        self._conclude(checkpoint_id, mark, tiers.kept(blob, None))

    def flush(self, timeout: float = 60.0) -> None:
        """Return once everything is in the durable tier; with ``write="through"`` it always is.

        Args:
            timeout: seconds to wait at most.

        Raises:
            StoreError: something could not be written, or not within the time.
        """
        if isinstance(self.store, WriteBehindStore):
            self.store.flush(timeout)

    def close(self, timeout: float = 60.0) -> None:
        """Write everything to the durable tier. Both tiers stay open, for whoever opened them.

        Raises:
            StoreError: as by `flush`.
        """
        if isinstance(self.store, WriteBehindStore):
            self.store.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _delete(self, checkpoint_id: str) -> None:
        mark = self._announce(check_id(checkpoint_id))
        super()._delete(checkpoint_id)
        self._conclude(checkpoint_id, mark, None)

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        found = self._find(check_id(checkpoint_id), versioned=True)
        if found is None:
            return None
        blob, version = found
        assert version is not None
        return blob, version

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        blob = to_bytes(check_id(checkpoint_id), checkpoint)
        mark = self._announce(checkpoint_id)
        try:
            moved = super()._set_if(checkpoint_id, blob, version)
        except CheckpointConflictError:
            # What was in the fast tier is as old as what the caller has seen, or older.
            self._conclude(checkpoint_id, mark, tiers.filling())
            raise
        self._conclude(checkpoint_id, mark, tiers.kept(blob, moved))
        return moved

    def _announce(self, checkpoint_id: str) -> bytes:
        """Put a mark of this writer into the fast tier, in place of what may be old in a moment."""
        mark = tiers.writing()
        try:
            self.fast.set(checkpoint_id, mark)
        except Exception as error:
            raise StoreError(
                f"checkpoint {checkpoint_id!r} was not changed: the fast tier failed ({text_of(error)}), and would go on "
                "giving out what it has; repair it, or use the durable tier alone"
            ) from error
        return mark

    def _conclude(self, checkpoint_id: str, mark: bytes, value: bytes | None) -> None:
        """Put a value, or nothing, in the place of this writer's mark; the durable tier has been written."""
        assert isinstance(self.fast, CheckPointSwapper)
        try:
            found = self.fast.get_versioned(checkpoint_id)
            if not found or found[0] != mark:
                # Somebody else wrote meanwhile, and which of us was last in the durable tier can't be known here.
                self.fast.set(checkpoint_id, tiers.filling())
            elif value is None:
                self._forget(checkpoint_id)
            else:
                # Who comes in between does so after our write, and will have the last word in both tiers.
                with suppress(CheckpointConflictError):
                    self.fast.set_if(checkpoint_id, value, found[1])
            self._touch(checkpoint_id)
        except Exception as error:
            self.fast_error = error  # the mark stays, and readers ask the durable tier

    def _find(self, checkpoint_id: str, *, versioned: bool) -> _Found | None:
        """Return blob and version from the fast tier, or from the durable one on the way into the fast one."""
        place: str | None = None
        try:
            place, found = self._look(checkpoint_id, versioned=versioned)
        except Exception as error:
            if self.write == "back":
                raise StoreError(
                    f"checkpoint {checkpoint_id!r} can't be read: the fast tier failed ({text_of(error)}), and what other "
                    "processes have written may be nowhere else yet; repair it, then read again"
                ) from error
            self.fast_error, found = error, None
        if found:
            return found
        found = self._ask_durable(checkpoint_id, versioned=versioned)
        if place is not None:
            self._fill(checkpoint_id, found, place)
        return found

    def _look(self, checkpoint_id: str, *, versioned: bool) -> tuple[str | None, _Found | None]:
        """Return what the fast tier has; where it may be filled, the version of a mark that says by whom."""
        assert isinstance(self.fast, CheckPointSwapper)
        stored = self.fast.get_versioned(checkpoint_id)
        entry = tiers.entry_in(stored[0]) if stored else None
        if entry and entry.kind == "kept" and not (versioned and entry.version is None):
            self._touch(checkpoint_id)
            return None, (entry.blob, entry.version)
        if entry and entry.kind == "writing":
            return None, None
        try:
            return self.fast.set_if(checkpoint_id, tiers.filling(), stored[1] if stored else None), None
        except CheckpointConflictError:
            return None, None  # somebody else fills it, or writes

    def _fill(self, checkpoint_id: str, found: _Found | None, place: str) -> None:
        assert isinstance(self.fast, CheckPointSwapper)
        try:
            if found is None:
                self._forget(checkpoint_id)
                return
            self.fast.set_if(checkpoint_id, tiers.kept(*found), place)
            self._touch(checkpoint_id)
        except CheckpointConflictError:
            pass  # whoever came in between knows better than we
        except Exception as error:
            self.fast_error = error

    def _ask_durable(self, checkpoint_id: str, *, versioned: bool) -> _Found | None:
        if versioned:
            return super()._get_versioned(checkpoint_id)
        blob = self.store.get(checkpoint_id)
        return None if blob is None else (blob, None)

    def _touch(self, checkpoint_id: str) -> None:
        """Take note of a use, and remove what was not used for longest where there is too much."""
        if self.cache_limit is None:
            return
        with self._lock:
            self._used[checkpoint_id] = None
            self._used.move_to_end(checkpoint_id)
            oldest = self._used.popitem(last=False)[0] if len(self._used) > self.cache_limit else None
        if oldest is not None:
            self._forget(oldest)

    def _forget(self, checkpoint_id: str) -> None:
        # Removing a mark of somebody else along with it only makes that one leave the fast tier empty.
        if isinstance(self.fast, CheckPointDeleter):
            self.fast.delete(checkpoint_id)

    def after_fork(self) -> None:
        """Take a new lock in a child process."""
        self._lock = threading.Lock()

    def __getstate__(self) -> builtins.dict[str, Any]:
        state = super().__getstate__()
        del state["_lock"]
        return {**state, "_used": OrderedDict(), "fast_error": None}

    def __setstate__(self, state: builtins.dict[str, Any]) -> None:
        super().__setstate__(state)
        self.after_fork()
        watch_forks(self)
