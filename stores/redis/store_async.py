"""A store on a Redis or Valkey server whose methods are awaited, for the asyncio driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ..blobs import Blob
from ..extras import extra
from .clients import AsyncClient, check_client, name_of, open_async_pool
from .commands import SCAN_COUNT, Call
from .errors import explain
from .opening import RedisBase

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["AsyncRedisStore"]

T = TypeVar("T")


class AsyncRedisStore(RedisBase[AsyncClient]):
    """Keep each blob in a string of a Redis or Valkey server, as :class:`blobcp.stores.redis.RedisStore` does.

    The arguments, promises, keys and versions are the same; both kinds of store may use one server and prefix together.
    A connection belongs to the event loop that it was opened in, so the store has a pool for each loop. ``close`` it,
    or leave ``async with``, in the loop that used it. A client that is handed in is ``redis.asyncio.Redis`` or
    ``redis.asyncio.cluster.RedisCluster``, and belongs to one loop.

    Raises:
        StoreUrlError: the URL can't be taken.
        StoreError: the client can't be used, or both a client and a URL are given.
        MissingExtraError: redis-py is not installed.
    """

    def _open(self) -> None:
        with extra("redis", "AsyncRedisStore"):
            from redis.asyncio import Redis
            from redis.asyncio.cluster import RedisCluster

        self._clients: dict[asyncio.AbstractEventLoop, Redis] = {}
        # For its checks only; each loop gets one of its own.
        client = self._given or Redis(connection_pool=open_async_pool(self._settings))
        check_client(client, (Redis, RedisCluster))
        self._server = name_of(getattr(client, "connection_pool", None))

    async def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where the server has none. It is one ``GET``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server can't be asked, or what it has is not of a store.
        """
        return await self._carry_out(self._commands.get(checkpoint_id))

    async def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there, for good. It is one ``SET``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes or too long, or the server can't keep it.
        """
        await self._carry_out(self._commands.set(checkpoint_id, checkpoint))

    async def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and a version that no other write shares, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``get``.
        """
        return await self._carry_out(self._commands.get_versioned(checkpoint_id))

    async def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes, for good, only if the stored version is still this one; ``None`` means "must not exist".

        It is one ``SET`` with ``NX``, or one ``EVAL`` of a short script.

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``set``.
            CheckpointConflictError: the version is another by now; nothing was changed.
        """
        return await self._carry_out(self._commands.set_if(checkpoint_id, checkpoint, version))

    async def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes for a time, which is rounded up to milliseconds; the server counts it, and removes them then.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``set``, or the time is not above zero.
        """
        await self._carry_out(self._commands.set_expiring(checkpoint_id, checkpoint, ttl))

    async def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing. It is one ``UNLINK``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server can't do it.
        """
        await self._carry_out(self._commands.delete(checkpoint_id))

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, without reading a blob.

        The server looks at all keys of its database in small steps (``SCAN``), on every primary of a cluster; the ids found
        are held in memory. Ids that come or go meanwhile may be among them or not.

        Raises:
            StoreError: the server can't be asked.
        """
        with explain("list the checkpoints of", self._server):
            found = self._client().scan_iter(match=self._commands.pattern(prefix), count=SCAN_COUNT)
            keys = {key async for key in found}
        for checkpoint_id in self._commands.ids(keys):
            yield checkpoint_id

    async def close(self) -> None:
        """Close the connections of this event loop; a later call opens new ones. A client that was handed in is left as it is."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.connection_pool.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _carry_out(self, call: Call[T]) -> T:
        client = self._client()
        with explain(call.doing, self._server):
            try:
                command = next(call.steps)
                while True:
                    command = call.steps.send(await client.execute_command(*command))
            except StopIteration as done:
                result: T = done.value
                return result

    def _client(self) -> AsyncClient:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        return self._clients.get(loop) or self._open_in(loop)

    def _open_in(self, loop: asyncio.AbstractEventLoop) -> AsyncClient:
        from redis.asyncio import Redis

        for other in list(self._clients):
            if other.is_closed():  # what was left open there can't be closed any more
                self._clients.pop(other, None)
        return self._clients.setdefault(loop, Redis(connection_pool=open_async_pool(self._settings)))
