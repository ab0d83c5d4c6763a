"""What a file system refuses, in words that say what was done where, and what helps."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blobcp.errors import StoreError

__all__ = ["explain", "refuse_links"]

_ADVICE = {
    errno.ENOSPC: "free some space or use another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or use another folder",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f, or the file system's own)",
    errno.ENAMETOOLONG: "the path is longer than the system allows; use a folder with a shorter path, or shorter ids",
    errno.EIO: "see that the disk, or the network that leads to it, is healthy",
    errno.ESTALE: "the file server has lost the folder; mount it anew",
    errno.EMFILE: "raise the limit on open files (ulimit -n), or use fewer threads",
    errno.EACCES: "give the user that runs this the right to read and write there",
    errno.EPERM: "give the user that runs this the right to read and write there",
    errno.EROFS: "mount the file system writable or use another folder",
    errno.EISDIR: "a folder stands where a blob belongs; move it away",
    errno.ENOTDIR: "a file stands where a folder belongs; move it away or use another folder",
    errno.EEXIST: "a file stands where a folder belongs; move it away or use another folder",
    errno.ELOOP: "a symbolic link stands where a blob or a folder of the store belongs, and links are not followed; "
    "put the file or folder itself there",
    errno.ENOENT: "the store's folder was removed while the store was in use; put it back or open the store anew",
    errno.EINVAL: "the file system may be unable to flush; if so, open the store with durable=False",
    errno.ENOLCK: "the file system can't lock files; mount it so that it can, or use another folder",
    errno.ENOSYS: "the file system can't lock files; mount it so that it can, or use another folder",
    errno.EOPNOTSUPP: "the file system can't lock files; mount it so that it can, or use another folder",
}


@contextmanager
def explain(doing: str, path: str | Path) -> Iterator[None]:
    """Turn an error of the operating system inside this into a StoreError.

    Args:
        doing: what was tried, as the rest of "can't …".
        path: where.

    Raises:
        StoreError: the operating system refused.

    >>> with explain("read checkpoint 'a' from", Path("/a.blob")):
    ...     raise PermissionError(errno.EACCES, "Permission denied")
    Traceback (most recent call last):
    blobcp.errors.StoreError: can't read checkpoint 'a' from /a.blob: Permission denied; give the user that runs ...
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "see the cause")
        raise StoreError(f"can't {doing} {Path(path)}: {error.strerror or error}; {advice}") from error


def refuse_links(*paths: str) -> None:
    """Look at each path and raise the operating system's error for a symbolic link where it is one."""
    for path in paths:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
