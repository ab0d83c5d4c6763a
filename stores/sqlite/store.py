"""A store in one SQLite file, for many threads and processes of one machine."""

from __future__ import annotations

import builtins
import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeVar

from blobcp.errors import StoreError
from blobcp.store import check_id

from ..blobs import Blob, to_bytes
from ..conflicts import conflict
from ..expiry import seconds_of
from ..urls import boolean, options_of
from .errors import FAILURES, failure
from .file import transaction
from .pool import Pool
from .tables import IDS_A_PAGE, ROWS_A_PURGE, delete_row, empty_log, find_ids, find_row, purge_rows, put_row, shrink
from .url import path_of

__all__ = ["SQLiteStore"]

Result = TypeVar("Result")

MAX_TIMEOUT = 86_400  # seconds


class _Arguments(TypedDict):
    path: Path
    durable: bool
    timeout: float


class SQLiteStore:
    """Keep blobs in one SQLite file; any number of threads and processes of one machine may use it at once.

    It promises: a save is atomic, and durable once ``set`` has returned. Readers and a writer do not wait for each other;
    of several writers each waits for its turn, and none hears that the database is locked before the time-out. Of several
    who write what they have read, one wins and the others are told. A new file can be read by its owner only (mode 0600).

    A store can be pickled, and used on both sides of an ``os.fork``, which waits for calls under way in other threads.

    Args:
        path: the file; made, with its folders, where it is missing. A file with something else in it is refused.
        durable: whether each save is flushed to the disk. Without, saves are faster and still atomic, and a failure of the
            power can take back the last of them; it can't harm the file.
        timeout: seconds that a call may wait for others who keep the file locked; at most a day.

    Raises:
        StoreError: the file can't be made or opened, is not a store's, or was made by a newer version.

    >>> import tempfile
    >>> with SQLiteStore(Path(tempfile.mkdtemp(), "runs.db")) as store:
    ...     store.set("order-17", b"blob")
    ...     store.get("order-17"), store.get("order-18")
    (b'blob', None)
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, timeout: float = 30.0) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise StoreError(
                f"can't open SQLite file {os.fspath(path)!r}: connections can't share a database without a file; "
                "use MapStore to keep blobs in memory"
            )
        if not 0 <= timeout <= MAX_TIMEOUT:
            raise StoreError(
                f"can't open SQLite file {path} with the time-out {timeout!r}; give 0 to {MAX_TIMEOUT:,} seconds"
            )
        self.path = Path(path)
        self.durable = durable
        self.timeout = timeout
        try:
            self.path = self.path.absolute()  # so that a later chdir does not move the store
            self._pool = Pool(self.path, durable=durable, seconds=timeout)
            self._closing = weakref.finalize(self, self._pool.close)
            self._pool.read(lambda connection: None)  # a file that is not the store's is refused here and now
        except FAILURES as error:
            raise failure("open", self.path, error) from error
        except ValueError as error:  # a NUL, or a lone surrogate
            raise StoreError(f"{os.fspath(path)!r} is no path of an SQLite file: {error}; give another") from error

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the store for ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``.

        Options: ``durable`` (``true`` or ``false``), ``timeout`` (seconds). What a URL reserves is quoted in the path: ``%3F``.

        Raises:
            StoreUrlError: the URL can't be taken.
            StoreError: the file can't be opened.
        """
        options = options_of(url, {"durable": boolean, "timeout": float})
        return cls(path_of(url), **options)  # type: ignore[arg-type]  # their converters see to the types

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there is no row, or one whose time is over.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        row = self._find(checkpoint_id)
        return None if row is None else row[0]

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there; return once they are on the disk.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be written; what was there before is still there.
        """
        self._put(checkpoint_id, checkpoint)

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and the random name of the write they are of, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: whether there is one can't be told, or it can't be read.
        """
        return self._find(checkpoint_id)

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes only if the stored version is still this one; ``None`` means "must not exist".

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or could not be written.
            CheckpointConflictError: the version is another by now; nothing was changed.
        """
        if version is not None and not version.isascii():  # it is none of ours, and maybe no text
            check_id(checkpoint_id)
            raise conflict(checkpoint_id)
        return self._put(checkpoint_id, checkpoint, seen=(version,))

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes under the id for a time; it is counted on the clock of the machine.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, the time is not above zero, or it could not be written.
        """
        self._put(checkpoint_id, checkpoint, seconds=seconds_of(check_id(checkpoint_id), ttl))

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing.

        Where many pages of the file are free by now, up to 4 MB of them are given back to the file system.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: it could not be removed.
        """
        check_id(checkpoint_id)

        def delete(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                delete_row(connection, checkpoint_id)
                shrink(connection)

        self._write(delete, "delete checkpoint {!r} from", checkpoint_id)

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, 500 a query, without reading a blob.

        No query stays open meanwhile. What is stored or deleted between two of them may be in the listing or not.

        Raises:
            StoreError: the file can't be read.
        """
        try:
            prefix.encode()
        except UnicodeEncodeError:  # half a character, with which no id begins
            return
        after: str | None = None

        def find(connection: sqlite3.Connection) -> builtins.list[str]:
            self._pool.check_file()  # without its file the store can't say that there is nothing
            return find_ids(connection, prefix, after)

        while True:
            found = self._read(find, "list ids with the prefix {!r} in", prefix)
            yield from found
            if len(found) < IDS_A_PAGE:
                return
            after = found[-1]

    def purge(self) -> int:
        """Remove the blobs whose time is over, and give the space to the file system; return how many they were.

        Until then they only can't be seen. It is done in many short steps, between which others can write. The file shrinks
        at once where nobody reads at that moment, otherwise in time.

        Raises:
            StoreError: they could not be removed.
        """
        purged = 0
        removed = ROWS_A_PURGE
        while removed == ROWS_A_PURGE:
            removed = self._write(purge_rows, "purge")
            purged += removed
        while self._write(_shrink, "shrink"):
            pass
        self._read(empty_log, "shrink")
        return purged

    def close(self) -> None:
        """Close the file; later calls raise ``StoreError``. A store that is no longer referred to closes it by itself."""
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> _Arguments:
        return {"path": self.path, "durable": self.durable, "timeout": self.timeout}

    def __setstate__(self, state: _Arguments) -> None:
        self.__init__(**state)  # type: ignore[misc]  # a copy opens the file by itself

    def _find(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        check_id(checkpoint_id)

        def find(connection: sqlite3.Connection) -> tuple[bytes, str] | None:
            row = find_row(connection, checkpoint_id)
            if row is None:
                self._pool.check_file()  # without its file the store can't say that the blob isn't there
            return row

        return self._read(find, "read checkpoint {!r} from", checkpoint_id)

    def _put(
        self,
        checkpoint_id: str,
        checkpoint: Blob,
        *,
        seconds: float | None = None,
        seen: tuple[str | None] | None = None,
    ) -> str:
        check_id(checkpoint_id)
        blob = to_bytes(checkpoint_id, checkpoint)
        version = secrets.token_hex(16)

        def put(connection: sqlite3.Connection) -> bool:
            return put_row(connection, checkpoint_id, blob, version, seconds=seconds, seen=seen)

        if not self._write(put, "save checkpoint {!r} ({} bytes) to", checkpoint_id, len(blob)):
            raise conflict(checkpoint_id)
        return version

    def _read(self, work: Callable[[sqlite3.Connection], Result], doing: str, *subject: object) -> Result:
        try:
            return self._pool.read(work)
        except FAILURES as error:
            raise failure(doing.format(*subject), self.path, error) from error

    def _write(self, work: Callable[[sqlite3.Connection], Result], doing: str, *subject: object) -> Result:
        try:
            return self._pool.write(work)
        except FAILURES as error:
            raise failure(doing.format(*subject), self.path, error) from error


def _shrink(connection: sqlite3.Connection) -> bool:
    with transaction(connection):
        return shrink(connection)
