"""A store on a Redis or Valkey server: one string a blob, behind a key prefix."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar

from ..blobs import Blob
from ..extras import extra
from .clients import PlainClient, check_client, name_of, open_pool
from .commands import SCAN_COUNT, Call
from .errors import explain
from .opening import RedisBase

__all__ = ["RedisStore"]

T = TypeVar("T")


class RedisStore(RedisBase[PlainClient]):
    """Keep each blob in a string of a Redis or Valkey server; any number of threads, processes and machines may use it.

    It promises: a save is atomic, and one command. Of several who write what they have read, one wins and the others are
    told. How durable a save is says the server's configuration, see ``docs/stores-redis.md``: a server that evicts keys or
    does not write to its disk loses checkpoints. A blob has less than 512 MB.

    Making a store connects to nothing. A command whose connection fails or whose answer does not come in time is sent
    again, which is safe here: a conditional write finds out whether it was carried out the first time.

    Args:
        url: where the server is, ``redis://user:password@host:6379/0``, ``rediss://`` for TLS, ``unix:///path``; behind a
            ``?`` the options of redis-py, which win over the arguments here, and ``blobcp_prefix``.
            ``redis://localhost:6379/0`` by default.
        prefix: what all keys start with; the rest is the id. ``blobcp:`` by default.
        client: a ``redis.Redis`` (of Sentinel, too) or ``redis.cluster.RedisCluster`` to use, in place of ``url``. Its own
            time-outs and retries hold, and it is left open.
        socket_timeout: seconds to wait for an answer, or for the server to take the whole of a blob.
        socket_connect_timeout: seconds to wait for a connection.
        max_connections: how many connections there are at most, hence how many threads are served at once.
        pool_timeout: seconds to wait for one of them.
        retries: how often a command is sent again at most.

    Raises:
        StoreUrlError: the URL can't be taken.
        StoreError: the client can't be used, or both a client and a URL are given.
        MissingExtraError: redis-py is not installed.
    """

    def _open(self) -> None:
        with extra("redis", "RedisStore"):
            from redis import Redis
            from redis.cluster import RedisCluster

        self._pool = open_pool(self._settings) if self._given is None else None
        self._client: PlainClient = self._given or Redis(connection_pool=self._pool)
        check_client(self._client, (Redis, RedisCluster))
        self._server = name_of(getattr(self._client, "connection_pool", None))

    def get(self, checkpoint_id: str) -> bytes | None:
        """Return the bytes under the id, or ``None`` where the server has none. It is one ``GET``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server can't be asked, or what it has is not of a store.
        """
        return self._carry_out(self._commands.get(checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
        """Keep the bytes under the id, in place of what was there, for good. It is one ``SET``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the checkpoint is not bytes or too long, or the server can't keep it.
        """
        self._carry_out(self._commands.set(checkpoint_id, checkpoint))

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        """Return the bytes under the id and a version that no other write shares, or ``None`` where there are none.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``get``.
        """
        return self._carry_out(self._commands.get_versioned(checkpoint_id))

    def set_if(self, checkpoint_id: str, checkpoint: Blob, version: str | None) -> str:
        """Keep the bytes, for good, only if the stored version is still this one; ``None`` means "must not exist".

        It is one ``SET`` with ``NX``, or one ``EVAL`` of a short script.

        Returns:
            The new version.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``set``.
            CheckpointConflictError: the version is another by now; nothing was changed.
        """
        return self._carry_out(self._commands.set_if(checkpoint_id, checkpoint, version))

    def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
        """Keep the bytes for a time, which is rounded up to milliseconds; the server counts it, and removes them then.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: as for ``set``, or the time is not above zero.
        """
        self._carry_out(self._commands.set_expiring(checkpoint_id, checkpoint, ttl))

    def delete(self, checkpoint_id: str) -> None:
        """Remove what is under the id; no error where there is nothing. It is one ``UNLINK``.

        Raises:
            InvalidCheckpointIdError: it is no id.
            StoreError: the server can't do it.
        """
        self._carry_out(self._commands.delete(checkpoint_id))

    def list(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids that start with ``prefix``, in code-point order, without reading a blob.

        The server looks at all keys of its database in small steps (``SCAN``), on every primary of a cluster; the ids found
        are held in memory. Ids that come or go meanwhile may be among them or not.

        Raises:
            StoreError: the server can't be asked.
        """
        with explain("list the checkpoints of", self._server):
            keys = set(self._client.scan_iter(match=self._commands.pattern(prefix), count=SCAN_COUNT))
        yield from self._commands.ids(keys)

    def close(self) -> None:
        """Close all connections; a later call opens new ones. A client that was handed in is left as it is."""
        if self._pool is not None:
            self._pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _carry_out(self, call: Call[T]) -> T:
        with explain(call.doing, self._server):
            try:
                command = next(call.steps)
                while True:
                    command = call.steps.send(self._client.execute_command(*command))
            except StopIteration as done:
                result: T = done.value
                return result
