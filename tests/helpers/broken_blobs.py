"""Stores that break what every store promises: of blobs, of ids, of threads."""

from __future__ import annotations

import posixpath
import threading
import time
import unicodedata
from urllib.parse import unquote

from good_store import Disk, GoodStore

__all__ = [
    "Appends",
    "BoundToThread",
    "CutsIds",
    "EndsAtNul",
    "FoldsAccents",
    "FoldsCase",
    "ForgetsEmpty",
    "GivesBytearray",
    "KeepsBuffer",
    "MixesThreads",
    "RaisesForUnknown",
    "RefusesInItsOwnWay",
    "ResolvesPaths",
    "StripsIds",
    "TakesAnyId",
    "TakesText",
    "TearsWrites",
    "TranslatesLines",
    "Truncates",
    "UnquotesIds",
]


class Truncates(GoodStore):
    """Loses the end of large blobs."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint)[:5_000_000]


class ForgetsEmpty(GoodStore):
    """Takes an empty blob for none."""

    def get(self, checkpoint_id: str) -> bytes | None:
        return super().get(checkpoint_id) or None


class EndsAtNul(GoodStore):
    """Keeps blobs as a C string."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint).partition(b"\0")[0]


class TranslatesLines(GoodStore):
    """Writes blobs as text."""

    def taken(self, checkpoint: bytes) -> bytes:
        return super().taken(checkpoint).replace(b"\r\n", b"\n")


class Appends(GoodStore):
    """Leaves the end of a longer blob behind a shorter one."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        entry = self.find(key)
        return super().keep(key, blob + (entry[0][len(blob) :] if entry else b""), expires)


class KeepsBuffer(GoodStore):
    """Keeps the caller's own object."""

    def taken(self, checkpoint: bytes) -> bytes:
        super().taken(checkpoint)
        return checkpoint

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        return None if found is None else bytes(found)


class TakesText(GoodStore):
    """Encodes what is not bytes."""

    def taken(self, checkpoint: bytes) -> bytes:
        return checkpoint.encode() if isinstance(checkpoint, str) else super().taken(checkpoint)


class GivesBytearray(GoodStore):
    """Returns another type than bytes."""

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        return None if found is None else bytearray(found)  # type: ignore[return-value]


class RaisesForUnknown(GoodStore):
    """Raises for an id that was never stored."""

    def get(self, checkpoint_id: str) -> bytes | None:
        found = super().get(checkpoint_id)
        if found is None:
            raise KeyError(checkpoint_id)
        return found


class FoldsCase(GoodStore):
    """Has ids that differ in case share a blob."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id).lower()


class FoldsAccents(GoodStore):
    """Normalises ids."""

    def key(self, checkpoint_id: str) -> str:
        return unicodedata.normalize("NFC", super().key(checkpoint_id))


class StripsIds(GoodStore):
    """Takes the white space off the ends of ids."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id).strip()


class ResolvesPaths(GoodStore):
    """Takes ids for paths."""

    def key(self, checkpoint_id: str) -> str:
        return posixpath.normpath(super().key(checkpoint_id))


class UnquotesIds(GoodStore):
    """Takes ids for parts of URLs."""

    def key(self, checkpoint_id: str) -> str:
        return unquote(super().key(checkpoint_id))


class CutsIds(GoodStore):
    """Looks at the first 255 characters of ids."""

    def key(self, checkpoint_id: str) -> str:
        return super().key(checkpoint_id)[:255]


class TakesAnyId(GoodStore):
    """Does not look at ids."""

    def key(self, checkpoint_id: str) -> str:
        return checkpoint_id


class RefusesInItsOwnWay(GoodStore):
    """Refuses ids by an error that nobody expects."""

    def key(self, checkpoint_id: str) -> str:
        try:
            return super().key(checkpoint_id)
        except ValueError as error:
            raise RuntimeError("bad key") from error


class TearsWrites(GoodStore):
    """Writes a blob in two halves."""

    def keep(self, key: str, blob: bytes, expires: float | None) -> str:
        half = len(blob) // 2
        super().keep(key, blob[:half], expires)
        time.sleep(0)
        with self.disk.lock:
            entry = self.disk.entries.get(key) or (b"", "", None)
            return super().keep(key, entry[0][:half] + blob[half:], expires)


class MixesThreads(GoodStore):
    """Has one buffer for all threads."""

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.pending = self.taken(checkpoint)
        time.sleep(0)
        super().set(checkpoint_id, self.pending)


class BoundToThread(GoodStore):
    """Can be used only where it was opened."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.thread = threading.get_ident()

    def key(self, checkpoint_id: str) -> str:
        if threading.get_ident() != self.thread:
            raise RuntimeError("opened in another thread")
        return super().key(checkpoint_id)
