"""A batch that gives its messages as they come: in threads, and on an event loop.

Calls run in lanes, as many as may run at once; each lane is a stream, and the streams are merged. So a lane is at most one
chunk ahead of whoever reads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextvars import copy_context

from blobcp.stream.interleave import merge_streams
from blobcp.stream.reader import StreamReader
from blobcp.stream.waiting import runs_loop
from blobcp.tools.batch import Batch
from blobcp.tools.carrying import atell, opened, tell
from blobcp.tools.chunks import ToolMessages
from blobcp.tools.running import run_in_threads

__all__ = ["stream_in_threads", "stream_on_loop"]


def stream_in_threads(batch: Batch) -> Iterator[ToolMessages]:
    """Run the calls, none of which needs an event loop; one at a time run in the reading thread."""
    if batch.width > 1 and runs_loop():
        # Streams are never waited for in such a thread, but a value run works here, and so does this.
        run_in_threads(batch)
        yield from (batch.chunk(job, message) for job in batch.jobs for message in job.messages)
        return
    merged = merge_streams([StreamReader(_lane(batch), context=copy_context()) for _ in range(batch.width)])
    if merged is None:
        return
    with merged:
        try:
            yield from merged
        finally:
            batch.abandon()


def _lane(batch: Batch) -> Iterator[ToolMessages]:
    while (job := batch.take()) is not None:
        with StreamReader(tell(batch, job), context=copy_context()) as messages:
            for message in messages:
                yield batch.chunk(job, message)


async def stream_on_loop(batch: Batch) -> AsyncGenerator[ToolMessages, None]:
    """Run the calls: async tools on the running event loop, plain ones in threads."""
    merged = merge_streams([StreamReader(_lane_on_loop(batch), context=copy_context()) for _ in range(batch.width)])
    if merged is None:
        return
    async with opened(merged):
        try:
            async for chunk in merged:
                yield chunk
        finally:
            batch.abandon()


async def _lane_on_loop(batch: Batch) -> AsyncIterator[ToolMessages]:
    while (job := batch.take()) is not None:
        told = atell(batch, job) if job.is_async else tell(batch, job)
        async with opened(StreamReader(told, context=copy_context())) as messages:
            async for message in messages:
                yield batch.chunk(job, message)
