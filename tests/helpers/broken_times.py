"""Stores that break what expiry and opening again promise."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import count

from good_store import Disk, Entry, GoodStore, conflict

__all__ = [
    "ExpiresEarly",
    "ExpiresInGetOnly",
    "ForgetsDays",
    "LosesSomeAtOpening",
    "NeverExpires",
    "RemembersReads",
    "StillExpires",
    "VersionsOfProcess",
]


class ExpiresEarly(GoodStore):
    """Cuts times to whole seconds."""

    def seconds(self, ttl: timedelta) -> float:
        return ttl.total_seconds() // 1


class ForgetsDays(GoodStore):
    """Reads the seconds of a time and not its days."""

    def seconds(self, ttl: timedelta) -> float:
        return float(ttl.seconds)


class NeverExpires(GoodStore):
    """Keeps expiring blobs for good."""

    def seconds(self, ttl: timedelta) -> float:
        return 1e9


class StillExpires(GoodStore):
    """Leaves the time of an expiring blob to what replaces it."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        entry = self.find(key)
        return super().keep(key, blob, expires or (entry[2] if entry else None))


class ExpiresInGetOnly(GoodStore):
    """Has expired blobs stand in the way of new ones."""

    def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        with self.disk.lock:
            entry = self.disk.entries.get(self.key(checkpoint_id))
            if (entry[1] if entry else None) != version:
                raise conflict(checkpoint_id)
            return self.keep(self.key(checkpoint_id), self.taken(checkpoint), None)


class RemembersReads(GoodStore):
    """Answers from a cache that others do not know of."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.cache: dict[str, Entry | None] = {}

    def find(self, key: str) -> Entry | None:
        if key not in self.cache:
            self.cache[key] = super().find(key)
        entry = self.cache[key]
        return None if entry and entry[2] is not None and entry[2] <= time.monotonic() else entry

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        version = super().keep(key, blob, expires)
        self.cache[key] = (blob, version, expires)
        return version

    def delete(self, checkpoint_id: str) -> None:
        super().delete(checkpoint_id)
        self.cache[checkpoint_id] = None


class LosesSomeAtOpening(GoodStore):
    """Does not find ids with letters beyond ASCII when it is opened again."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        for key in [key for key in disk.entries if not key.isascii()]:
            del disk.entries[key]


class VersionsOfProcess(GoodStore):
    """Counts its own writes, from 1 in each process."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        disk.writes = count(1)
