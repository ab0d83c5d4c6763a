"""A store in a folder: one file a blob, replaced as a whole or not at all."""

from __future__ import annotations

import builtins
import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from blobcp.errors import MissingExtraError, StoreError
from blobcp.store import check_id

from ..blobs import Blob, to_bytes
from ..conflicts import conflict
from ..expiry import seconds_of
from ..urls import boolean, options_of
from .errors import explain, refuse_links
from .io import flush_folder, open_blob, read_all, version_at, version_of, written
from .lock import FILELOCK, can_lock, locked
from .names import parts_of
from .scan import find_blobs, purge, sweep
from .trailer import strip, trailer_of
from .url import folder_of

__all__ = ["FileStore"]

_NEED_LOCKS = ("get_versioned", "set_if")


class FileStore:
    """Keep each blob in a file of its own in one folder; any number of threads and processes may use it at once.

    It promises: a save is atomic (a reader, and whoever comes after a crash, finds the old blob or the new one, whole),
    and durable once ``set`` has returned: file and folder are flushed to the disk. Files are readable by their owner
    only (mode 0600). A blob can be as long as a file. Of several who write what they have read (``get_versioned``,
    ``set_if``), one wins and the others are told; for these two methods, and for ``purge``, the library filelock has to be
    installed (``pip install 'blobcp[file]'``), in all the processes that use the folder.

    The file of an id can be recognised by its name: ``order-17`` is in ``order-17.blob``. Capital letters and what
    file systems may misread are written as ``%`` and two hex digits, and ids over 80 bytes are spread over nested folders.

    Args:
        folder: where the blobs are; made, with its parents, where it is missing.
        durable: whether to flush to the disk. ``False`` is faster, still atomic for whoever reads while the machine
            runs, but a power failure may take saves back or leave them broken; it is meant for tests.
        lock_timeout: how long a write waits, in seconds, while others hold the lock of its id; they do for the length of a
            rename. Default 30.

    Raises:
        StoreError: the folder is not there and can't be made, or the time is not above zero.

    >>> import tempfile
    >>> store = FileStore(tempfile.mkdtemp())
    >>> store.set("order-17", b"blob")
    >>> store.get("order-17"), store.get("order-18")
    (b'blob', None)
    """

    if TYPE_CHECKING:  # they are there where filelock is; that is what isinstance(store, CheckPointSwapper) looks at

        def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None: ...

        def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str: ...

    def __init__(self, folder: str | os.PathLike[str], *, durable: bool = True, lock_timeout: float = 30.0) -> None:
        if not (isinstance(lock_timeout, int | float) and 0 < lock_timeout < math.inf):
            raise StoreError(f"lock_timeout={lock_timeout!r} is no time to wait; give seconds above zero")
        with explain("open the store in", Path(folder)):
            self.folder = Path(folder).absolute()  # so that a later chdir does not move the store
        self.durable = durable
        self.lock_timeout = lock_timeout
        self._make_folder()
        self._show_powers()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the store that a URL names: ``file:./dir`` or ``file:///dir``, with ``?durable=false&lock_timeout=5``.

        Raises:
            StoreUrlError: the URL names no folder of this machine, or has an option that is not known.
            StoreError: the folder is not there and can't be made.
        """
        options: dict[str, Any] = options_of(url, {"durable": boolean, "lock_timeout": float})
        return cls(folder_of(url), **options)

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there is no file, or one that has expired.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        found = self._read(checkpoint_id)
        return found and found[0]

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there; return once they are on the disk.

        A symbolic link in the place of the blob is replaced, not followed.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be written; what was there before is still there, unless
                only the last step failed, flushing the folder. The message says which path and why.
        """
        self._save(checkpoint_id, checkpoint)

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes under the id for a time, counted from the call by the system's clock.

        The file stays until it is replaced, deleted or purged.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``set``, or the time is not above zero.
        """
        self._save(checkpoint_id, checkpoint, expires=time.time_ns() + math.ceil(seconds_of(checkpoint_id, ttl) * 1e9))

    def delete(self, checkpoint_id: str) -> None:
        """Remove the file under the id; no error where there is none. Nested folders of long ids stay.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: it could not be removed.
        """
        folders, path = self._place_of(checkpoint_id)
        with explain(f"delete checkpoint {checkpoint_id!r} at", path):
            self._check_folder()
            try:
                refuse_links(*folders[1:])
                with self._locked(checkpoint_id):
                    Path(path).unlink()
            except FileNotFoundError:
                self._check_folder()  # it may have gone meanwhile
            else:
                self._flush(folders[-1])

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, without opening a file.

        The ids, not the blobs, are held in memory meanwhile. Files that are not the store's own are passed over. A blob
        that has expired may be named until it is purged.

        Raises:
            StoreError: the folder can't be read.
        """
        with explain("list the store in", self.folder):
            self._check_folder()
            found = sorted(found for found, _ in find_blobs(self.folder) if found.startswith(prefix))
        yield from found

    def purge(self) -> int:
        """Remove the files of blobs that have expired; reads the end of each file.

        Returns:
            How many files were removed.

        Raises:
            MissingExtraError: filelock is not installed; without locks a new blob could be taken for the expired one.
            StoreError: the folder or a file in it can't be read, or a file can't be removed.
        """
        if not self._locks:
            raise MissingExtraError(f"{type(self).__name__}.purge needs {FILELOCK}")
        return purge(self.folder, self._locked)

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
        return sweep(self.folder, older_than)

    def _get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and which write they are of, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there are any can't be told, or they can't be read.
        """
        found = self._read(checkpoint_id)
        return found and (found[0], version_of(found[1]))

    def _set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes only if the stored version is still this one; ``None`` means "must not exist".

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            CheckpointConflictError: the version is another by now; nothing was changed.
            StoreError: as for ``set``.
        """
        return self._save(checkpoint_id, checkpoint, seen=(version,))

    def _place_of(self, checkpoint_id: str) -> tuple[builtins.list[str], str]:
        """Return the folders from the store's down to the one of the id's file, and the file; text, since Paths are slow."""
        *nested, name = parts_of(check_id(checkpoint_id))
        folders = [str(self.folder)]
        for part in nested:
            folders.append(f"{folders[-1]}/{part}")
        return folders, f"{folders[-1]}/{name}"

    def _read(self, checkpoint_id: str) -> tuple[bytes, os.stat_result] | None:
        folders, path = self._place_of(checkpoint_id)
        with explain(f"read checkpoint {checkpoint_id!r} from", path):
            try:
                refuse_links(*folders[1:])
                with open_blob(path) as (descriptor, status):
                    data = read_all(descriptor, status.st_size)
            except FileNotFoundError:
                self._check_folder()
                return None
        blob = strip(data, time.time_ns())
        return None if blob is None else (blob, status)

    def _save(
        self,
        checkpoint_id: str,
        checkpoint: Blob,
        *,
        expires: int | None = None,
        seen: tuple[str | None] | None = None,
    ) -> str:
        folders, path = self._place_of(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        with explain(f"save checkpoint {checkpoint_id!r} ({len(blob)} bytes) to", path):
            self._check_folder()
            for folder in folders[1:]:
                with suppress(FileExistsError):
                    Path(folder).mkdir(mode=0o700)
            refuse_links(*folders[1:])
            with written(folders[-1], blob, trailer_of(blob, expires), durable=self.durable) as temp:
                version = version_of(os.lstat(temp))
                # All that takes long is done; nobody waits for a disk under the lock.
                with self._locked(checkpoint_id):
                    if seen and seen != (version_at(path),):
                        raise conflict(checkpoint_id)
                    Path(temp).replace(path)
            # From the file upwards; a nested folder may be as new as the file, made by us or by another writer.
            self._flush(*reversed(folders))
        return version

    def _locked(self, checkpoint_id: str) -> AbstractContextManager[None]:
        return locked(self.folder, checkpoint_id, self.lock_timeout) if self._locks else nullcontext()

    def _make_folder(self) -> None:
        with explain("open the store in", self.folder):
            missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except ValueError as error:  # a NUL, or a lone surrogate
                raise StoreError(f"{str(self.folder)!r} is no path of a folder: {error}; give another") from error
            self._flush(*(str(path.parent) for path in missing))
            self._device = self.folder.stat().st_dev

    def _check_folder(self) -> None:
        """Say nothing of what is or isn't there where the store's own folder is not there.

        One whose disk was unmounted leaves an empty folder of the same name, on another device.
        """
        if self.folder.stat().st_dev != self._device:
            raise StoreError(
                f"the store's folder {self.folder} is on another device than when the store was opened; mount the disk again, "
                "or open the store anew if it was moved on purpose"
            )

    def _flush(self, *folders: str) -> None:
        if self.durable:
            for folder in folders:
                flush_folder(folder)

    def _show_powers(self) -> None:
        self._locks = can_lock()
        if self._locks:
            for name in _NEED_LOCKS:
                if not hasattr(type(self), name):  # a subclass may have its own
                    setattr(self, name, getattr(self, f"_{name}"))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            lacking = f", which needs {FILELOCK}" if name in _NEED_LOCKS else ""
            raise AttributeError(f"{type(self).__name__} has no {name!r}{lacking}", name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        # The bound methods belong to this object; a copy makes its own, where it finds the library.
        return {name: value for name, value in vars(self).items() if name not in _NEED_LOCKS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_folder()
        self._show_powers()
