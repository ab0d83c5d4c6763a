"""What is found by going through the folder of a store: its blobs, those that have expired, and what crashes left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path

from .errors import explain
from .io import TEMP_PREFIX, TEMP_SUFFIX, open_blob, read_end
from .names import FOLDER_SUFFIX, id_of
from .trailer import has_expired

__all__ = ["find_blobs", "purge", "sweep"]


def find_blobs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each id that has a file, and the names that lead to it from the folder; no file is opened."""
    for parts in _find_files(folder):
        checkpoint_id = id_of(parts)
        if checkpoint_id is not None:
            yield checkpoint_id, parts


def purge(folder: Path, locked: Callable[[str], AbstractContextManager[None]]) -> int:
    """Remove the files of blobs that have expired, and return how many.

    Args:
        folder: the folder of the store.
        locked: holds the lock of an id.
    """
    with explain("purge the store in", folder):
        found = [*find_blobs(folder)]
    purged = 0
    for checkpoint_id, parts in found:
        path = "/".join((str(folder), *parts))
        with explain(f"purge checkpoint {checkpoint_id!r} at", path), suppress(FileNotFoundError):
            if _has_expired(path):
                with locked(checkpoint_id):
                    if _has_expired(path):  # still; it may have been replaced meanwhile
                        Path(path).unlink()
                        purged += 1
    return purged


def sweep(folder: Path, older_than: timedelta) -> int:
    """Remove temporary files of that age, and return how many."""
    newest = time.time() - older_than.total_seconds()
    with explain("sweep the store in", folder):
        leftovers = [parts for parts in _find_files(folder) if _is_leftover(parts[-1])]
    swept = 0
    for path in (folder.joinpath(*parts) for parts in leftovers):
        # It can go while we look: its writer finishes, or somebody else sweeps.
        with explain("sweep", path), suppress(FileNotFoundError):
            if path.lstat().st_mtime <= newest:
                path.unlink()
                swept += 1
    return swept


def _find_files(folder: Path) -> Iterator[list[str]]:
    """Yield the names that lead to each file in the folder and in the nested folders of long ids; follow no link."""
    waiting: list[list[str]] = [[]]
    while waiting:
        parts = waiting.pop()
        with os.scandir(folder.joinpath(*parts)) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield [*parts, entry.name]
                elif entry.name.endswith(FOLDER_SUFFIX) and entry.is_dir(follow_symlinks=False):
                    waiting.append([*parts, entry.name])


def _is_leftover(name: str) -> bool:
    return name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)


def _has_expired(path: str) -> bool:
    with open_blob(path) as (descriptor, status):
        return has_expired(read_end(descriptor, status.st_size), time.time_ns())
