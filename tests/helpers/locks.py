"""Waiting for a lock's queue without sleeping for a guessed time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from blobcp.graph.state import StateLock

__all__ = ["LIMIT", "Counter", "queued", "settle"]

LIMIT = 10.0
"""Seconds that something waits for something else before the test fails."""


class Counter:
    """A state that counts."""

    def __init__(self) -> None:
        self.value = 0


async def settle() -> None:
    """Let every task of the loop that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def queued(lock: StateLock, count: int) -> None:
    """Wait until this many are queued for the lock."""
    for _ in range(int(LIMIT / 0.001)):
        if len(lock._waiting) == count:
            return
        threading.Event().wait(0.001)
    pytest.fail(f"{len(lock._waiting)} wait, not {count}")
