"""Stores that break what deleting and listing promise."""

from __future__ import annotations

import builtins
import fnmatch
from collections.abc import Iterator

from good_store import GoodStore

__all__ = [
    "DeletesByEmptying",
    "DeletesFolders",
    "ListsByLike",
    "ListsByUtf16",
    "ListsByWildcard",
    "ListsEmptyNot",
    "ListsFolders",
    "ListsList",
    "ListsLive",
    "ListsOnePage",
    "ListsTwice",
    "ListsUnordered",
    "LocksWhileListing",
    "RaisesOnMissing",
]


class RaisesOnMissing(GoodStore):
    """Raises where there is nothing to delete."""

    def delete(self, checkpoint_id: str) -> None:
        del self.disk.entries[self.key(checkpoint_id)]


class DeletesFolders(GoodStore):
    """Deletes what is below an id as well."""

    def delete(self, checkpoint_id: str) -> None:
        super().delete(checkpoint_id)
        for key in [key for key in self.disk.entries if key.startswith(f"{checkpoint_id}/")]:
            super().delete(key)


class DeletesByEmptying(GoodStore):
    """Leaves an empty blob where one was deleted."""

    def delete(self, checkpoint_id: str) -> None:
        if self.find(self.key(checkpoint_id)):
            self.keep(self.key(checkpoint_id), b"", None)


class ListsByWildcard(GoodStore):
    """Takes a prefix for a pattern."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list() if fnmatch.fnmatchcase(key, f"{prefix}*"))


class ListsByLike(GoodStore):
    """Matches prefixes without regard to case, as SQL's LIKE may."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list() if key.lower().startswith(prefix.lower()))


class ListsFolders(GoodStore):
    """Takes a prefix for whole parts of a path."""

    def list(self, prefix: str = "") -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        return (key for key in super().list(prefix) if key.rpartition("/")[0] == folder)


class ListsUnordered(GoodStore):
    """Lists in the order of the writes."""

    def list(self, prefix: str = "") -> Iterator[str]:
        found = builtins.list(super().list(prefix))
        return (key for key in builtins.list(self.disk.entries) if key in found)


class ListsByUtf16(GoodStore):
    """Orders as Java and JavaScript do."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(super().list(prefix), key=lambda key: key.encode("utf-16-be")))


class ListsOnePage(GoodStore):
    """Stops after a page."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(builtins.list(super().list(prefix))[:1000])


class ListsTwice(GoodStore):
    """Repeats the last id of a page at the beginning of the next."""

    def list(self, prefix: str = "") -> Iterator[str]:
        for number, key in enumerate(super().list(prefix), 1):
            yield from [key] * (2 if number % 1000 == 0 else 1)


class ListsList(GoodStore):
    """Gives all ids at once."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return builtins.list(super().list(prefix))  # type: ignore[return-value]


class ListsLive(GoodStore):
    """Goes through what others change meanwhile."""

    def list(self, prefix: str = "") -> Iterator[str]:
        for key in sorted(self.disk.entries):
            self.disk.entries[key] = self.disk.entries.pop(key)
        return (key for key in self.disk.entries if key.startswith(prefix) and self.find(key))


class ListsEmptyNot(GoodStore):
    """Leaves empty blobs out of the list."""

    def list(self, prefix: str = "") -> Iterator[str]:
        return (key for key in super().list(prefix) if self.get(key))


class LocksWhileListing(GoodStore):
    """Lets nobody write until a listing is over."""

    def list(self, prefix: str = "") -> Iterator[str]:
        with self.disk.lock:
            yield from super().list(prefix)
