"""The connections of a Postgres store between its calls.

A pool of our own, since the one of psycopg connects in the background: it answers a wrong password with a time-out, and
it needs threads, which a fork loses. Here whoever needs a connection makes it, and is told why it can't be made.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import READ_ONLY, Failed

if TYPE_CHECKING:
    from psycopg import Error

    from .connections import AsyncStoreConnection, StoreConnection

__all__ = ["Idle"]

MAX_IDLE = 600.0
"""Seconds after which an unused connection is closed rather than used; firewalls forget about idle ones."""

Kept = TypeVar("Kept", bound="StoreConnection | AsyncStoreConnection")


class Idle(Generic[Kept]):
    """The connections that nobody uses at the moment, the last one used on top.

    Closing one needs no reply, so nothing here waits, and threads and loops use it alike.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Kept, float]] = []

    def take(self) -> Kept | None:
        """Return a connection, or ``None`` where there is none; close those that lay about for too long."""
        while self._kept:
            connection, since = self._kept.pop()
            if time.monotonic() - since < MAX_IDLE:
                return connection
            connection.drop()
        return None

    def give(self, connection: Kept) -> None:
        """Take a connection back; close it, unless it is fit for another statement."""
        if connection.fit:
            self._kept.append((connection, time.monotonic()))
        else:
            connection.drop()

    def clear(self) -> None:
        """Close all of them."""
        while self._kept:
            connection, _ = self._kept.pop()
            connection.drop()

    def failed(self, connection: Kept, error: Error) -> Failed:
        """Return what an error of a statement means; where its connection is of no use, the others are most likely not, too.

        One that only reads leads to a server that was the primary once, or that may be by the next call.
        """
        lost = connection.lost
        if lost or error.sqlstate == READ_ONLY:
            self.clear()
            connection.drop()
        return Failed(error, sent=True, lost=lost)
