"""Blobs larger than a medium's largest value: cut into parts, with a manifest that makes them count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import TypeVar

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointStore
from blobcp.wrapping import StoreWrapper

from ..blobs import Blob, to_bytes
from ..conflicts import conflict
from ..expiry import seconds_of
from . import parts
from .parts import Manifest

__all__ = ["ChunkedStore"]

MIN_CHUNK = 1024
"""The smallest parts, in bytes; the first has to hold the longest id."""

LONGEST_SAVE = 1800.0
"""Seconds after which a save gives up before its manifest, so that `sweep` can tell it from one that was killed."""

PARTS_OUTLIVE = timedelta(hours=1)
"""How much longer than their manifest parts are kept, where blobs expire."""

READS = 10
"""How often a reader begins anew because the blob was replaced under its hands."""

T = TypeVar("T")


class _MissingPartError(Exception):
    def __init__(self, save: str, part_id: str) -> None:
        super().__init__(f"part {part_id!r} is missing")
        self.save = save


class ChunkedStore(StoreWrapper):
    """Keep blobs that are too large for one value of a medium as several values.

    A blob that fits is one value, as it is. A larger one is cut: first the parts are written, under ids of their own,
    then the manifest under the blob's id, which replaces the old blob as a whole. So a reader finds the old blob or the
    new one, and a writer that is killed changes nothing. The old blob's parts are removed once the manifest has moved.

    Args:
        store: where the values are kept. It has to give what was just written to whoever reads.
        chunk_bytes: the largest value to write to it, in bytes; at least 1024. For etcd, whose requests may take 1.5 MiB
            with the key and all, 1,000,000 is a good choice.

    Raises:
        StoreError: ``chunk_bytes`` is too small, or the methods of the store have to be awaited.

    >>> from blobcp.stores import MapStore
    >>> values = MapStore()
    >>> store = ChunkedStore(values, chunk_bytes=1024)
    >>> store.set("order-17", bytes(2500))
    >>> len(store.get("order-17")), [*store.list()], len([*values.list()])
    (2500, ['order-17'], 4)
    """

    def __init__(self, store: CheckPointStore, chunk_bytes: int) -> None:
        if type(chunk_bytes) is not int or chunk_bytes < MIN_CHUNK:
            raise StoreError(f"ChunkedStore can't cut blobs into {chunk_bytes!r} bytes; give at least {MIN_CHUNK}")
        super().__init__(store)
        self.chunk_bytes = chunk_bytes

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id, or one of 512 bytes that begins with ``~``.
            StoreError: they can't be read; a part is missing or damaged; or they were replaced ten times meanwhile.
        """

        def read(inner_id: str) -> tuple[bytes, str] | None:
            value = self.store.get(inner_id)
            return None if value is None else (value, "")

        found = self._read(checkpoint_id, read)
        return found and found[0]

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there.

        Raises:
            InvalidCheckpointIdError: it is no id, or one of 512 bytes that begins with ``~``.
            StoreError: they are not bytes, or could not be kept. Then the old blob is still there, unless it was the
                manifest's own write that failed and the store inside can't say whether it took place.
        """
        old = self._old(checkpoint_id)
        self._write(checkpoint_id, checkpoint, self.store.set, self.store.set)
        self._remove(old)

    def sweep(self, older_than: timedelta = timedelta(hours=1)) -> int:
        """Remove parts that belong to no blob: those of killed writers, and old ones that could not be removed.

        Reads the first part and the manifest of each blob that is in parts. Such parts take space and do no other harm.

        Args:
            older_than: the age at which parts without a manifest count as left behind. A save gives up after half an
                hour; with less than that, parts of a save in progress may be removed, and its blob is lost.

        Returns:
            How many parts were removed.

        Raises:
            StoreError: the store inside can't list and delete, or failed.
        """
        if not (isinstance(self.store, CheckPointLister) and isinstance(self.store, CheckPointDeleter)):
            raise StoreError(
                f"can't sweep: {type(self.store).__name__} can't both list and delete; "
                f"remove old values under {parts.PART_PREFIX!r} that no manifest names by the medium's own means"
            )
        newest = time.time() - older_than.total_seconds()
        swept = 0
        for save, ids in groupby(self.store.list(parts.PART_PREFIX), key=parts.save_of):
            if save is not None and parts.seconds_of_save(save) <= newest and not self._is_in_use(save):
                for inner_id in ids:
                    self.store.delete(inner_id)
                    swept += 1
        return swept

    def _delete(self, checkpoint_id: str) -> None:
        old = self._old(checkpoint_id)
        super()._delete(parts.inner_id_of(checkpoint_id))
        self._remove(old)

    def _list(self, prefix: str = "") -> Iterator[str]:
        return filter(None, map(parts.outer_id_of, super()._list(parts.inner_prefix_of(prefix))))

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        return self._read(checkpoint_id, super()._get_versioned)

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        # The version names the parts of the blob that was seen, so that it need not be read again to remove them.
        seen, space, inner_version = ("", " ", None) if version is None else version.partition(" ")
        if not space:
            raise conflict(checkpoint_id)

        def move(inner_id: str, value: bytes) -> str:
            return super(ChunkedStore, self)._set_if(inner_id, value, inner_version)

        moved, new = self._write(checkpoint_id, checkpoint, move, self.store.set)
        if isinstance(self.store, CheckPointDeleter):
            self._remove(_parse(seen))
        return f"{_tell(new)} {moved}"

    def _set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        seconds_of(checkpoint_id, ttl)
        longer = ttl + min(PARTS_OUTLIVE, timedelta.max - ttl)
        old = self._old(checkpoint_id)

        def move(inner_id: str, value: bytes) -> None:
            super(ChunkedStore, self)._set_expiring(inner_id, value, ttl)

        def keep(inner_id: str, value: bytes) -> None:
            super(ChunkedStore, self)._set_expiring(inner_id, value, longer)

        self._write(checkpoint_id, checkpoint, move, keep)
        self._remove(old)

    def _read(self, checkpoint_id: str, read: Callable[[str], tuple[bytes, str] | None]) -> tuple[bytes, str] | None:
        inner_id = parts.inner_id_of(checkpoint_id)
        missing: _MissingPartError | None = None
        for _ in range(READS):
            found = read(inner_id)
            if found is None:
                return None
            value, version = found
            manifest = parts.manifest_in(checkpoint_id, value)
            if manifest is None:
                return parts.blob_in(value), f" {version}"
            if missing and missing.save == manifest.save:
                raise StoreError(
                    f"checkpoint {checkpoint_id!r} can't be read: {missing} in the store underneath; restore it from a "
                    "backup, or store the checkpoint anew"
                )
            try:
                return self._join(checkpoint_id, manifest), f"{_tell(manifest)} {version}"
            except _MissingPartError as error:
                missing = error  # its manifest may be replaced by now
        raise StoreError(
            f"checkpoint {checkpoint_id!r} was replaced {READS} times while it was read; read it again, and find out what "
            "writes it so often"
        )

    def _join(self, checkpoint_id: str, manifest: Manifest) -> bytes:
        found = []
        for number in range(manifest.parts):
            inner_id = parts.part_id(manifest.save, number)
            part = self.store.get(inner_id)
            if part is None:
                raise _MissingPartError(manifest.save, inner_id)
            found.append(part)
        return parts.joined(checkpoint_id, manifest, found)

    def _write(
        self,
        checkpoint_id: str,
        checkpoint: Blob,
        move: Callable[[str, bytes], T],
        keep: Callable[[str, bytes], None],
    ) -> tuple[T, Manifest | None]:
        """Write a blob, in parts by ``keep`` where it is large, and make it count by ``move``."""
        inner_id = parts.inner_id_of(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        value = parts.one_value(blob)
        if len(value) <= self.chunk_bytes:
            return move(inner_id, value), None
        manifest = self._write_parts(checkpoint_id, blob, keep)
        try:
            return move(inner_id, parts.manifest_value(manifest)), manifest
        except CheckpointConflictError:
            # After any other error the manifest may be there all the same, and the parts have to stay.
            self._remove(manifest)
            raise

    def _write_parts(self, checkpoint_id: str, blob: bytes, keep: Callable[[str, bytes], None]) -> Manifest:
        manifest, pieces = parts.cut(checkpoint_id, blob, self.chunk_bytes)
        start = time.monotonic()
        try:
            for number, piece in enumerate(pieces):
                keep(parts.part_id(manifest.save, number), piece)
            if time.monotonic() - start > LONGEST_SAVE:
                raise StoreError(
                    f"checkpoint {checkpoint_id!r} was not stored: writing its {manifest.parts} parts took more than "
                    f"{LONGEST_SAVE:.0f} seconds; find out what makes the store underneath slow"
                )
        except BaseException:
            self._remove(manifest)
            raise
        return manifest

    def _old(self, checkpoint_id: str) -> Manifest | None:
        """Return the manifest that is about to be replaced, where its parts can be removed."""
        inner_id = parts.inner_id_of(checkpoint_id)
        value = self.store.get(inner_id) if isinstance(self.store, CheckPointDeleter) else None
        try:
            return None if value is None else parts.manifest_in(checkpoint_id, value)
        except StoreError:
            return None  # a damaged one must not keep a new blob from taking its place

    def _remove(self, manifest: Manifest | None) -> None:
        if manifest is None or not isinstance(self.store, CheckPointDeleter):
            return
        # The blob is safe, or a more telling error on its way; sweep() finds what stays.
        with suppress(Exception):
            for number in range(manifest.parts):
                self.store.delete(parts.part_id(manifest.save, number))

    def _is_in_use(self, save: str) -> bool:
        first = self.store.get(parts.part_id(save, 0))
        if first is None:
            return False  # nobody can read the rest
        owner = parts.owner_in(first)
        if owner is None:
            return True  # damaged; whoever reads the blob is told so, and may want what is left
        value = self.store.get(parts.inner_id_of(owner))
        try:
            manifest = None if value is None else parts.manifest_in(owner, value)
        except StoreError:
            return True
        return manifest is not None and manifest.save == save


def _tell(manifest: Manifest | None) -> str:
    return "" if manifest is None else f"{manifest.save}/{manifest.parts}"


def _parse(told: str) -> Manifest | None:
    save, slash, count = told.partition("/")
    return Manifest(save, int(count), 0, b"") if slash else None
