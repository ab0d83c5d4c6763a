"""What goes wrong between a Redis store and its server, in words: what was done where, what happened and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from blobcp.errors import StoreError

__all__ = ["explain"]

_TOLD = {
    "access": ("the server refuses the user or the password", "give the right ones"),
    "right": (
        "the user lacks a right there",
        "grant it GET, SET, GETRANGE, EVAL, UNLINK and SCAN on the keys that start with the store's prefix",
    ),
    "loading": ("the server is still loading its data", "try again once it has"),
    "replica": ("the server is a replica, which can't be written to", "open the store at the primary"),
    "memory": (
        "the server has used up the memory that it may take (maxmemory)",
        "give it more, or delete checkpoints; don't let it evict them",
    ),
    "disk": ("the server can't save its data to its disk and so takes no writes", "see the server's log"),
    "replicas": ("the server has too few replicas in reach to take writes", "see its min-replicas-to-write"),
    "type": (
        "the key holds another type of value, which no store of blobcp has written",
        "move it away, or open the store with another prefix",
    ),
    "cluster": ("the server is one node of a cluster", "open the store with client=RedisCluster.from_url(...)"),
    "down": ("the cluster is down, or no node has that part of it", "see CLUSTER INFO, then try again"),
    "moving": ("that part of the cluster is on its way to another node", "try again"),
    "primary": ("the server is a replica without its primary", "try again once the primary is back"),
    "script": ("somebody's script keeps the server busy", "try again, or end the script with SCRIPT KILL"),
    "length": ("the blob is longer than the server takes", "raise its proto-max-bulk-len, or use a ChunkedStore"),
    "pool": ("all connections of the store are in use", "raise max_connections or pool_timeout"),
    "time": (
        "the server did not answer in time, so that a write may be carried out or not",
        "see whether it can be reached and is not overloaded, or raise socket_timeout",
    ),
    "answer": (
        "what answers there is no Redis server",
        "see the host and the port, and whether TLS is wanted (rediss://)",
    ),
    "loop": (
        "the client belongs to another event loop",
        "give each loop a client and a store of its own, or open the store by its URL",
    ),
}
"""What happened, and what helps."""

_BY_TEXT = [
    (re.compile("No connection available|Too many connections"), "pool"),
    (re.compile("invalid bulk length|exceeds maximum allowed size"), "length"),
    (re.compile("WRONGPASS|NOAUTH|Authentication required|invalid username-password"), "access"),
    (re.compile("NOPERM"), "right"),
    (re.compile("READONLY"), "replica"),
    (re.compile("OOM"), "memory"),
    (re.compile("MISCONF"), "disk"),
    (re.compile("NOREPLICAS"), "replicas"),
    (re.compile("WRONGTYPE"), "type"),
    (re.compile("^BUSY "), "script"),
    (re.compile("^(MOVED|ASK) "), "cluster"),
    (re.compile("^CLUSTERDOWN "), "down"),
    (re.compile("^MASTERDOWN "), "primary"),
    (re.compile("^TRYAGAIN "), "moving"),
    (re.compile("different (event )?loop|Event loop is closed"), "loop"),
]
"""By what the error says; it comes first, since of a script, and in older versions, the class of the error says less."""

_BY_CLASS = {
    "AuthenticationError": "access",
    "AuthenticationWrongNumberOfArgsError": "access",
    "AuthorizationError": "access",
    "NoPermissionError": "right",
    "BusyLoadingError": "loading",
    "ReadOnlyError": "replica",
    "OutOfMemoryError": "memory",
    "MasterDownError": "primary",
    "ClusterDownError": "down",
    "SlotNotCoveredError": "down",
    "TryAgainError": "moving",
    "AskError": "cluster",
    "TimeoutError": "time",
    "InvalidResponse": "answer",
}
"""By the name of the error's class, or of the nearest one that it derives from."""


@contextmanager
def explain(doing: str, server: str) -> Iterator[None]:
    """Turn an error of redis-py or of the network into a StoreError that says what was done where, and what helps.

    Args:
        doing: what is done, up to the name of the server.
        server: the server's name.
    """
    try:
        yield
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        what, advice = told
        raise StoreError(f"can't {doing} {server}: {what}; {advice}") from error


def _told(error: Exception) -> tuple[str, str] | None:
    """Return what happened and what helps; ``None`` for what is no error of redis-py or the network."""
    from redis import exceptions as known

    # The text of a RedisClusterException can hold the whole command, blob and all.
    said = "" if isinstance(error, known.RedisClusterException) else str(error).partition("\n")[0][:200]
    kind = _kind_of(error, said)
    if isinstance(error, RuntimeError):
        return _TOLD["loop"] if kind == "loop" else None
    # A UnicodeError comes of looking up a host with a part that is empty or too long.
    network = (OSError, UnicodeError)
    if not isinstance(error, (known.RedisError, known.RedisClusterException, known.ChildDeadlockedError, *network)):
        return None
    if kind is not None:
        return _TOLD[kind]
    if isinstance(error, (known.ConnectionError, *network)):
        return (
            f"the connection fails ({said})",
            "see whether the server runs and can be reached; a write may be carried out or not",
        )
    return f"it is refused ({said or type(error).__name__})", "see the cause"


def _kind_of(error: Exception, said: str) -> str | None:
    by_text = (kind for pattern, kind in _BY_TEXT if pattern.search(said))
    by_class = (_BY_CLASS[base.__name__] for base in type(error).__mro__ if base.__name__ in _BY_CLASS)
    return next(by_text, None) or next(by_class, None)
