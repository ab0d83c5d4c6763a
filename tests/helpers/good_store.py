"""A store that keeps all promises, made to be broken by its subclasses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import check_id

__all__ = ["Disk", "Entry", "GoodStore", "conflict"]

Entry = tuple[bytes, str, float | None]
"""A blob, its version, and when it expires."""


@dataclass
class Disk:
    """What several openings of a store share."""

    entries: dict[str, Entry] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    writes: count[int] = field(default_factory=lambda: count(1))


class GoodStore:
    """A store with all optional powers; the broken ones override what they break."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def get(self, checkpoint_id: str) -> bytes | None:
        entry = self.find(self.key(checkpoint_id))
        return entry[0] if entry else None

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)

    def delete(self, checkpoint_id: str) -> None:
        with self.disk.lock:
            self.disk.entries.pop(self.key(checkpoint_id), None)

    def list(self, prefix: str = "") -> Iterator[str]:
        with self.disk.lock:
            return iter(sorted(key for key in self.disk.entries if key.startswith(prefix) and self.find(key)))

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        entry = self.find(self.key(checkpoint_id))
        return entry[:2] if entry else None

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        key, blob = self.key(checkpoint_id), self.taken(checkpoint)
        with self.disk.lock:
            entry = self.find(key)
            if (entry[1] if entry else None) != version:
                raise conflict(checkpoint_id)
            return self.keep(key, blob, None)

    def set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        if ttl <= timedelta(0):
            raise StoreError("no time to live")
        self.keep(self.key(checkpoint_id), self.taken(checkpoint), time.monotonic() + self.seconds(ttl))

    def key(self, checkpoint_id: str) -> str:
        """Return what stands for the id on the disk."""
        return check_id(checkpoint_id)

    def taken(self, checkpoint: bytes) -> bytes:
        """Return what of a blob is kept."""
        if not isinstance(checkpoint, bytes | bytearray | memoryview):
            raise StoreError("not bytes")
        return bytes(checkpoint)

    def seconds(self, ttl: timedelta) -> float:
        """Return how long a blob is kept."""
        return ttl.total_seconds()

    def find(self, key: str) -> Entry | None:
        """Return what is there and has not expired."""
        with self.disk.lock:
            entry = self.disk.entries.get(key)
            return None if entry and entry[2] is not None and entry[2] <= time.monotonic() else entry

    def version(self, key: str, blob: bytes) -> str:
        """Return a version for a blob that is about to be kept."""
        return str(next(self.disk.writes))

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        """Put a blob on the disk."""
        with self.disk.lock:
            version = self.version(key, blob)
            self.disk.entries[key] = (blob, version, expires)
            return version


def conflict(checkpoint_id: str) -> CheckpointConflictError:
    """Return the error for a version that moved."""
    return CheckpointConflictError("somebody else was first", checkpoint_id=checkpoint_id)
