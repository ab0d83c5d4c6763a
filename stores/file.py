"""A store in a folder: one file a blob, replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from blobcp.errors import StoreError
from blobcp.store import check_id

from .blobs import Blob, to_bytes
from .names import id_of, parts_of

__all__ = ["FileStore"]

TEMP_PREFIX, TEMP_SUFFIX = ".blobcp-", ".tmp"  # no blob's name begins with a dot

_ADVICE = {
    errno.ENOSPC: "free some space or use another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or use another folder",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f, or the file system's own)",
    errno.EACCES: "give the user that runs this the right to read and write there",
    errno.EPERM: "give the user that runs this the right to read and write there",
    errno.EROFS: "mount the file system writable or use another folder",
    errno.EISDIR: "a folder stands where a blob belongs; move it away",
    errno.ENOTDIR: "a file stands where a folder belongs; move it away or use another folder",
    errno.EEXIST: "a file stands where a folder belongs; move it away or use another folder",
    errno.ELOOP: "a symbolic link stands where a blob belongs, and links are not followed; put the file itself there",
    errno.ENOENT: "the store's folder was removed while the store was in use; put it back or open the store anew",
    errno.EINVAL: "the file system may be unable to flush; if so, open the store with durable=False",
}


class FileStore:
    """Keep each blob in a file of its own in one folder; any number of threads and processes may use it at once.

    It promises: a save is atomic (a reader, and whoever comes after a crash, finds the old blob or the new one, whole),
    and durable once ``set`` has returned: file and folder are flushed to the disk. Files are readable by their owner
    only (mode 0600). Where two write one id at once, one of the blobs is kept. A blob can be as long as a file.

    The file of an id can be recognised by its name: ``order-17`` is in ``order-17.blob``. Capital letters and what
    file systems may misread are written as ``%`` and two hex digits, and ids over 80 bytes are spread over nested folders.

    Args:
        folder: where the blobs are; made, with its parents, where it is missing.
        durable: whether to flush to the disk. ``False`` is faster, still atomic for whoever reads while the machine
            runs, but a power failure may take saves back or leave them broken; it is meant for tests.

    Raises:
        StoreError: the folder is not there and can't be made.

    >>> import tempfile
    >>> store = FileStore(tempfile.mkdtemp())
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), store.get("order-18")
    (b'blob', None)
    """

    def __init__(self, folder: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.folder = Path(folder).absolute()  # so that a later chdir does not move the store
        self.durable = durable
        with _explain("open the store in", self.folder):
            missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in missing:
                self._flush_folder(path.parent)

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there is no file.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        path = self._path_of(checkpoint_id)
        with _explain(f"read checkpoint {checkpoint_id!r} from", path):
            try:
                with open(path, "rb", buffering=0, opener=_open_no_link) as file:
                    return file.readall()
            except FileNotFoundError:
                # Without its folder the store can't say that the blob isn't there.
                self.folder.stat()
                return None

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there; return once they are on the disk.

        A symbolic link in the place of the blob is replaced, not followed.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be written; what was there before is still there, unless
                only the last step failed, flushing the folder. The message says which path and why.
        """
        path = self._path_of(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with _explain(f"save checkpoint {checkpoint_id!r} ({len(blob)} bytes) to", path):
            if path.parent != self.folder:
                self.folder.stat()
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(path, blob)
            self._flush_folders_of(path)

    def delete(self, checkpoint_id: str) -> None:
        """Remove the file under the id; no error where there is none. Nested folders of long ids stay.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: it could not be removed.
        """
        path = self._path_of(checkpoint_id)
        with _explain(f"delete checkpoint {checkpoint_id!r} at", path):
            try:
                path.unlink()
            except FileNotFoundError:
                self.folder.stat()
            else:
                self._flush_folder(path.parent)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, without reading a blob.

        The ids, not the blobs, are held in memory meanwhile. Files that are not the store's own are passed over.

        Raises:
            StoreError: the folder can't be read.
        """
        found = (id_of(path.relative_to(self.folder).parts) for path in self._files())
        yield from sorted(
            checkpoint_id for checkpoint_id in found if checkpoint_id and checkpoint_id.startswith(prefix)
        )

    def sweep(self, older_than: timedelta = timedelta(hours=1)) -> int:
        """Remove what writers that were killed in the middle of a save have left behind.

        Such files take space and do no other harm. Call it now and then, or at the start of a service.

        Args:
            older_than: the age at which a file counts as left behind; longer than the slowest save may take.

        Returns:
            How many files were removed.

        Raises:
            StoreError: the folder can't be read, or a file in it can't be removed.
        """
        newest = time.time() - older_than.total_seconds()
        swept = 0
        for path in self._files():
            if path.name.startswith(TEMP_PREFIX) and path.name.endswith(TEMP_SUFFIX):
                # It can go while we look: its writer finishes, or somebody else sweeps.
                with _explain("sweep", path), suppress(FileNotFoundError):
                    if path.lstat().st_mtime <= newest:
                        path.unlink()
                        swept += 1
        return swept

    def _path_of(self, checkpoint_id: str) -> Path:
        return self.folder.joinpath(*parts_of(check_id(checkpoint_id)))

    def _replace(self, path: Path, blob: bytes) -> None:
        temp = path.with_name(f"{TEMP_PREFIX}{secrets.token_hex(16)}{TEMP_SUFFIX}")
        try:
            with open(temp, "xb", buffering=0, opener=_open_private) as file:
                rest = memoryview(blob)
                while rest:
                    rest = rest[file.write(rest) :]
                if self.durable:
                    os.fsync(file)
            temp.replace(path)
        except BaseException:
            # The error on its way says more than one about the clean-up would; sweep() finds what stays.
            with suppress(OSError):
                temp.unlink(missing_ok=True)
            raise

    def _flush_folders_of(self, path: Path) -> None:
        # From the file upwards; a nested folder may be as new as the file, made by us or by another writer.
        for folder in path.parents:
            self._flush_folder(folder)
            if folder == self.folder:
                return

    def _flush_folder(self, folder: Path) -> None:
        if not self.durable or sys.platform == "win32":  # where a folder can't be opened
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _files(self) -> Iterator[Path]:
        with _explain("list the store in", self.folder):
            for folder, _, names in os.walk(self.folder, onerror=_raise):
                yield from (Path(folder, name) for name in names)


@contextmanager
def _explain(doing: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a StoreError that says what was done where, and what helps."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "see the cause")
        raise StoreError(f"can't {doing} {path}: {error.strerror or error}; {advice}") from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _raise(error: OSError) -> None:
    raise error
