"""Locks that keep two threads or processes from replacing one blob's file at the same time.

They are the operating system's locks on files, so they vanish with the process that holds them. A fixed number of lock
files serves all ids: they need no cleaning up, and none has to be removed while somebody may wait for it.
"""

from __future__ import annotations

import importlib
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blobcp.errors import StoreError

from .errors import explain, refuse_links

__all__ = ["FILELOCK", "LOCK_FOLDER", "can_lock", "locked"]

FILELOCK = "the library filelock 3.30 or newer; pip install 'blobcp[file]'"
"""What locks need, for messages."""

LOCK_FOLDER = ".blobcp-locks"
"""Where the lock files are, in the folder of the store; no blob's name begins with a dot."""

STRIPES = 64
"""How many lock files there are. All releases have to agree on it, and on which id has which."""

POLL_SECONDS = 0.001  # a lock is held for the length of a rename


def can_lock() -> bool:
    """Return whether a filelock is installed that can lock an open file; older ones can't, and many libraries bring one."""
    try:
        return hasattr(importlib.import_module("filelock"), "lock_descriptor")
    except ImportError:
        return False


@contextmanager
def locked(folder: Path, checkpoint_id: str, timeout: float) -> Iterator[None]:
    """Hold the lock of an id; one thread may hold one lock at a time.

    Args:
        folder: the folder of the store.
        checkpoint_id: the id; others may share its lock.
        timeout: how long to wait for it, in seconds.

    Raises:
        StoreError: somebody else holds it for so long, or it can't be had at all.
    """
    from filelock import unlock_descriptor

    locks = f"{folder}/{LOCK_FOLDER}"
    path = f"{locks}/{zlib.crc32(checkpoint_id.encode()) % STRIPES:02x}.lock"
    with explain(f"lock checkpoint {checkpoint_id!r} by", path):
        descriptor = _open(locks, path)
    try:
        with explain(f"lock checkpoint {checkpoint_id!r} by", path):
            _wait(descriptor, checkpoint_id, path, timeout)
        try:
            yield
        finally:
            # Closing alone would leave it to a child that was forked meanwhile.
            unlock_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _open(locks: str, path: str) -> int:
    try:
        refuse_links(locks)
    except FileNotFoundError:
        Path(locks).mkdir(mode=0o700, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode=0o600)


def _wait(descriptor: int, checkpoint_id: str, path: str, timeout: float) -> None:
    from filelock import lock_descriptor

    deadline = time.monotonic() + timeout
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= deadline:
            raise StoreError(
                f"can't lock checkpoint {checkpoint_id!r}: somebody else held {Path(path)} for {timeout:g} seconds; "
                "see whether a process that uses the store hangs, or give a longer lock_timeout"
            )
        time.sleep(POLL_SECONDS)
