"""A store whose methods have to be awaited, made of the good one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from good_store import Disk, GoodStore

__all__ = ["AwaitedGoodStore"]


class AwaitedGoodStore:
    """All optional powers, awaited; ``list`` is an async generator; usable on the loop that it is first used on."""

    def __init__(self, disk: Disk) -> None:
        self.store = GoodStore(disk)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closed = 0

    async def get(self, checkpoint_id: str) -> bytes | None:
        await self.breathe()
        return self.store.get(checkpoint_id)

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        await self.breathe()
        self.store.set(checkpoint_id, checkpoint)

    async def delete(self, checkpoint_id: str) -> None:
        await self.breathe()
        self.store.delete(checkpoint_id)

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        for checkpoint_id in self.store.list(prefix):
            await self.breathe()
            yield checkpoint_id

    async def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        await self.breathe()
        return self.store.get_versioned(checkpoint_id)

    async def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        await self.breathe()
        return self.store.set_if(checkpoint_id, checkpoint, version)

    async def set_expiring(self, checkpoint_id: str, checkpoint: bytes, ttl: timedelta) -> None:
        await self.breathe()
        self.store.set_expiring(checkpoint_id, checkpoint, ttl)

    async def close(self) -> None:
        await self.breathe()
        self.closed += 1

    async def breathe(self) -> None:
        """Let others go on, and see that the loop is always the same."""
        loop = asyncio.get_running_loop()
        self.loop = self.loop or loop
        assert loop is self.loop
        await asyncio.sleep(0)
