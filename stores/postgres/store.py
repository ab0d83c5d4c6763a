"""A store in a table of a Postgres database."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ..blobs import Blob
from .base import PostgresBase
from .calls import Answer, Call, Pause, Statement
from .errors import Failed, busy
from .pool import Idle

if TYPE_CHECKING:
    from .connections import StoreConnection

__all__ = ["PostgresStore"]

T = TypeVar("T")


class _Pool:
    """The connections of one process."""

    def __init__(self, size: int) -> None:
        self.idle: Idle[StoreConnection] = Idle()
        # A semaphore, for what it does here; this queue costs a tenth of the standard library's.
        self.free: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self.free.put(None)


class PostgresStore(PostgresBase[int, _Pool]):
    """Keep each blob in a row of one table; any number of threads and processes may use it at once.

    It promises: a save is one transaction, so atomic and as durable as the server makes a commit; a read sees every
    save that returned before it, on any connection to the same server. Of several who write what they have read, one
    wins and the others are told. Blobs are limited to 500 MB. A connection that breaks, as by a restart of the server, is
    replaced and the statement sent once more; each write carries a version of its own, so none is taken for a rival's.

    Opening it calls nobody. A save, a load, a delete is one statement, one round trip; the first one connects, and makes the
    table where it is missing.

    Args:
        url: ``postgresql://user:password@host:port/database?option=value`` or whatever else libpq takes.
        table: the table's name; capitals count.
        schema: where the table is; ``None``: the first schema of the search path that has it.
        pool_size: how many connections it opens at most; they are opened as needed.
        timeout: how many seconds a call waits for a free connection, and then for one statement.
        server_timeout: whether the server, too, is told to give up a statement after that time (``statement_timeout``);
            some poolers refuse connections that say so.
        create: whether to create the table when a call finds it missing. ``False``: that is an error; call ``setup()``
            when deploying, or let a role that may create tables run what ``setup_sql()`` returns.

    Raises:
        StoreUrlError: libpq can't read the URL.
        MissingExtraError: psycopg is not installed.
        StoreError: an argument is out of range.

    >>> PostgresStore("postgresql://me:secret@db.example/app")
    PostgresStore(table "blobcp_checkpoints" at db.example/app)
    """

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where there is no row, or one that has expired.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server could not be asked, or refused.
        """
        return self._run(self._calls.get(checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there; return once the server has committed them.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes, or too large, or the server could not be asked, or refused.
        """
        self._run(self._calls.set(checkpoint_id, checkpoint))

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes under the id for a time, counted by the server's clock. The row stays until ``purge()``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as ``set``; or the time is not above zero.
        """
        self._run(self._calls.set_expiring(checkpoint_id, checkpoint, ttl))

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and the version of the row, or ``None`` where there is none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server could not be asked, or refused.
        """
        return self._run(self._calls.get_versioned(checkpoint_id))

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes only if the stored version is still this one; ``None`` means "must not exist".

        A reply that is lost on the way does not turn an own success into a conflict.

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            CheckpointConflictError: the version is another by now, or there is none; nothing was changed.
            StoreError: as ``set``.
        """
        return self._run(self._calls.set_if(checkpoint_id, checkpoint, version))

    def delete(self, checkpoint_id: str) -> None:
        """Remove the row under the id; no error where there is none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server could not be asked, or refused.
        """
        self._run(self._calls.delete(checkpoint_id))

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, a thousand for each statement.

        Between pages no connection is held; what is written meanwhile is seen if it comes later in the order.

        Raises:
            StoreError: the server could not be asked, or refused.
        """
        after: str | None = ""
        while after is not None:
            ids, after = self._run(self._calls.page(prefix, after))
            yield from ids

    def purge(self) -> int:
        """Remove the rows that have expired, a thousand in a transaction; return how many that were.

        Call it now and then; expired rows take space and do no other harm.

        Raises:
            StoreError: the server could not be asked, or refused.
        """
        return self._run(self._calls.purge())

    def setup(self) -> None:
        """Create the table and its index where they are missing; any number of processes may do so at once.

        Raises:
            StoreError: the role may not, or what is there is no table of checkpoints, or that of a newer release.
        """
        self._run(self._calls.setup())

    def close(self) -> None:
        """Close the connections; calls that run meanwhile finish first. A closed store refuses further calls."""
        self._calls.closed = True
        self._pool().idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = next(call)
                    continue
                try:
                    answer = self._answer(step)
                except Failed as failed:
                    step = call.throw(failed)
                else:
                    step = call.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def _answer(self, statement: Statement) -> Answer:
        pool = self._pool()
        try:
            pool.free.get(timeout=self.timeout)
        except Empty:
            raise busy(self.pool_size, self.timeout) from None
        try:
            connection = (None if statement.fresh else pool.idle.take()) or self._server.connect()
            try:
                cursor = connection.cursor(binary=bool(statement.params))
                cursor.execute(statement.sql.encode(), statement.params or None, prepare=statement.prepare)
                return Answer(cursor.fetchall() if cursor.rownumber is not None else [], cursor.rowcount)
            except self._server.errors as error:
                raise pool.idle.failed(connection, error) from error
            finally:
                pool.idle.give(connection)
                if self._calls.closed:
                    pool.idle.clear()
        finally:
            pool.free.put(None)

    def _pool(self) -> _Pool:
        # The child of a fork gets a pool of its own. That of its parent stays where it is, untouched: letting go of its
        # connections would end them.
        process = os.getpid()
        return self._pools.get(process) or self._pools.setdefault(process, _Pool(self.pool_size))
