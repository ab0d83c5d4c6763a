"""The store in a table of a Postgres database, with methods that are awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ..blobs import Blob
from .base import PostgresBase
from .calls import Answer, Call, Pause, Statement
from .errors import Failed, busy
from .pool import Idle

if TYPE_CHECKING:
    from .connections import AsyncStoreConnection

__all__ = ["AsyncPostgresStore"]

T = TypeVar("T")


class _Pool:
    """The connections of one loop in one process."""

    def __init__(self, size: int) -> None:
        self.idle: Idle[AsyncStoreConnection] = Idle()
        self.free = asyncio.BoundedSemaphore(size)


class AsyncPostgresStore(PostgresBase[tuple[int, asyncio.AbstractEventLoop], _Pool]):
    """``PostgresStore`` for ``ainvoke`` and its like: the same arguments, promises and methods, which are awaited.

    Any number of tasks may use it at once, also on several loops; each loop has connections of its own.

    >>> AsyncPostgresStore("postgresql://me:secret@db.example/app")
    AsyncPostgresStore(table "blobcp_checkpoints" at db.example/app)
    """

    async def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None``; see ``PostgresStore.get``."""
        return await self._run(self._calls.get(checkpoint_id))

    async def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id; see ``PostgresStore.set``."""
        await self._run(self._calls.set(checkpoint_id, checkpoint))

    async def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes under the id for a time; see ``PostgresStore.set_expiring``."""
        await self._run(self._calls.set_expiring(checkpoint_id, checkpoint, ttl))

    async def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and their version, or ``None``; see ``PostgresStore.get_versioned``."""
        return await self._run(self._calls.get_versioned(checkpoint_id))

    async def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes if the stored version is this one, and return the new one; see ``PostgresStore.set_if``."""
        return await self._run(self._calls.set_if(checkpoint_id, checkpoint, version))

    async def delete(self, checkpoint_id: str) -> None:
        """Remove the row under the id; see ``PostgresStore.delete``."""
        await self._run(self._calls.delete(checkpoint_id))

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """Yield the ids that start with ``prefix``; see ``PostgresStore.list``."""
        after: str | None = ""
        while after is not None:
            ids, after = await self._run(self._calls.page(prefix, after))
            for checkpoint_id in ids:
                yield checkpoint_id

    async def purge(self) -> int:
        """Remove the rows that have expired, and return how many; see ``PostgresStore.purge``."""
        return await self._run(self._calls.purge())

    async def setup(self) -> None:
        """Create the table where it is missing; see ``PostgresStore.setup``."""
        await self._run(self._calls.setup())

    async def close(self) -> None:
        """Close this loop's connections; calls that run meanwhile finish first. A closed store refuses further calls."""
        self._calls.closed = True
        self._pool().idle.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(call)
                    continue
                try:
                    answer = await self._answer(step)
                except Failed as failed:
                    step = call.throw(failed)
                else:
                    step = call.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    async def _answer(self, statement: Statement) -> Answer:
        pool = self._pool()
        try:
            async with asyncio.timeout(self.timeout):
                await pool.free.acquire()
        except TimeoutError:
            raise busy(self.pool_size, self.timeout) from None
        try:
            connection = (None if statement.fresh else pool.idle.take()) or await self._server.connect_async()
            try:
                cursor = connection.cursor(binary=bool(statement.params))
                await cursor.execute(statement.sql.encode(), statement.params or None, prepare=statement.prepare)
                return Answer(await cursor.fetchall() if cursor.rownumber is not None else [], cursor.rowcount)
            except self._server.errors as error:
                raise pool.idle.failed(connection, error) from error
            finally:
                pool.idle.give(connection)
                if self._calls.closed:
                    pool.idle.clear()
        finally:
            pool.free.release()

    def _pool(self) -> _Pool:
        # A connection belongs to its process and its loop; see PostgresStore for the former.
        loop = asyncio.get_running_loop()
        here = (os.getpid(), loop)
        pool = self._pools.get(here)
        if pool is None:
            self._drop_pools_of_closed_loops()
            pool = self._pools.setdefault(here, _Pool(self.pool_size))
        return pool

    def _drop_pools_of_closed_loops(self) -> None:
        for process, loop in list(self._pools):
            if process == os.getpid() and loop.is_closed():
                dropped = self._pools.pop((process, loop), None)  # another thread may be faster
                if dropped is not None:
                    dropped.idle.clear()
