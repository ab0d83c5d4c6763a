"""Files as a store uses them: read through one descriptor, written beside what they are to replace, flushed."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blobcp.errors import StoreError

from .errors import refuse_links
from .trailer import TRAILER_BYTES, has_expired

__all__ = [
    "TEMP_PREFIX",
    "TEMP_SUFFIX",
    "flush_folder",
    "open_blob",
    "read_all",
    "read_end",
    "version_at",
    "version_of",
    "written",
]

TEMP_PREFIX, TEMP_SUFFIX = ".blobcp-", ".tmp"
"""How the name of a temporary file begins and ends; no blob's begins with a dot."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | _BINARY | _NO_FOLLOW
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY


@contextmanager
def open_blob(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open the file of a blob for reading; yield its descriptor and what is known of it.

    Raises:
        StoreError: it is neither a file nor a folder.
        OSError: it can't be opened, or is a symbolic link.
    """
    if not _NO_FOLLOW:
        refuse_links(path)
    descriptor = _open(path)
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise StoreError(f"{path} is a pipe, a socket or a device where a blob belongs; move it away")
        yield descriptor, status
    finally:
        os.close(descriptor)


def read_all(descriptor: int, size: int) -> bytes:
    """Return the bytes of a file of ``size`` bytes from where its descriptor stands."""
    data = os.read(descriptor, size)
    while len(data) < size:  # the operating system gives 2 GB at a time at most
        more = os.read(descriptor, size - len(data))
        if not more:
            break
        data += more
    return data


def read_end(descriptor: int, size: int) -> bytes:
    """Return as many of the last bytes of a file of ``size`` bytes as a trailer has."""
    os.lseek(descriptor, max(size - TRAILER_BYTES, 0), os.SEEK_SET)
    return os.read(descriptor, TRAILER_BYTES)


def version_of(status: os.stat_result) -> str:
    """Return what tells one write of a file from all others: when, to which place on the disk, how much."""
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"


def version_at(path: str) -> str | None:
    """Return the version of the blob in a file; ``None`` where there is no file, or an expired one."""
    try:
        with open_blob(path) as (descriptor, status):
            end = read_end(descriptor, status.st_size)
    except FileNotFoundError:
        return None
    return None if has_expired(end, time.time_ns()) else version_of(status)


@contextmanager
def written(folder: str, *parts: bytes, durable: bool) -> Iterator[str]:
    """Write a temporary file and yield its path; remove it if what is done with it fails.

    Args:
        folder: where; the folder of the file that it is to replace.
        parts: its bytes.
        durable: whether to flush it to the disk.
    """
    temp = f"{folder}/{TEMP_PREFIX}{secrets.token_hex(16)}{TEMP_SUFFIX}"
    try:
        _write(temp, parts, durable=durable)
        yield temp
    except BaseException:
        # The error on its way says more than one about the clean-up would; sweep() finds what stays.
        with suppress(OSError):
            Path(temp).unlink(missing_ok=True)
        raise


def flush_folder(folder: str) -> None:
    """Flush the names in a folder to the disk, where the operating system can."""
    if sys.platform == "win32":  # where a folder can't be opened
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    try:
        # Otherwise the opening of a named pipe would wait for its other end.
        return os.open(path, _READ | getattr(os, "O_NONBLOCK", 0))
    except BlockingIOError:
        # A file server holds a lease on the file; the operating system takes it back within a time that it limits.
        return os.open(path, _READ)


def _write(path: str, parts: tuple[bytes, ...], *, durable: bool) -> None:
    descriptor = os.open(path, _WRITE_NEW, mode=0o600)
    try:
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        _stamp(descriptor)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(descriptor: int) -> None:
    # The time by which a file system stamps a write moves on in steps of milliseconds, so that two writes within one,
    # to the same place on the disk, could not be told apart. The place is used again only after a whole save, so the
    # last digits need not be true; they tell apart what a coarse or a corrected clock would not.
    if os.utime in os.supports_fd:  # where it isn't, on Windows, a place is never numbered the same again
        now = time.time_ns() // 10_000 * 10_000 + int.from_bytes(os.urandom(4)) % 10_000
        os.utime(descriptor, ns=(now, now))
