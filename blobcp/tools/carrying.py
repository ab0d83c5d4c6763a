"""One call carried out: its tool runs, in its own place, and what becomes of it is noted in the batch.

Each driver has two forms: one that runs to the end, and one that yields what is to be said of the call: pieces of its
message as they come, or the message once it is whole.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from types import AsyncGeneratorType, GeneratorType, TracebackType
from typing import Any, Final

from blobcp.errors import EmptyStreamError
from blobcp.graph.pool import cancelled_inside, refuse_coroutine
from blobcp.graph.session import CAUGHT
from blobcp.scope import running_task
from blobcp.stream.concat import concat
from blobcp.stream.feed import raise_failed
from blobcp.stream.reader import StreamReader
from blobcp.stream.waiting import runs_loop, settled
from blobcp.tools.batch import Batch, Job
from blobcp.tools.chunks import MessagePiece, joined_message

__all__ = ["acarry_out", "atell", "carry_out", "opened", "tell"]

_STREAMS: Final = (StreamReader, GeneratorType, AsyncGeneratorType)


def carry_out(batch: Batch, job: Job) -> None:
    """Carry a call out in this thread; to be called in a context of its own."""
    with _Attempt(batch, job) as attempt:
        attempt.result = refuse_coroutine(job.work())
        if attempt.streams:
            for _ in attempt.pieces():
                pass


def tell(batch: Batch, job: Job) -> Iterator[Any]:
    """Do the same, and yield what is to be said; to be read in a context of its own."""
    with _Attempt(batch, job) as attempt:
        attempt.result = refuse_coroutine(job.work())
        if attempt.streams:
            yield from attempt.pieces()
    yield from attempt.rest()


async def acarry_out(batch: Batch, job: Job) -> None:
    """Carry a call out on the running event loop; to be awaited in a context of its own."""
    with _Attempt(batch, job) as attempt:
        result = job.work()
        attempt.result = await result if inspect.isawaitable(result) else result
        if attempt.streams:
            async for _ in attempt.apieces():
                pass


async def atell(batch: Batch, job: Job) -> AsyncIterator[Any]:
    """Do the same, and yield what is to be said; to be read in a context of its own."""
    with _Attempt(batch, job) as attempt:
        result = job.work()
        attempt.result = await result if inspect.isawaitable(result) else result
        if attempt.streams:
            async with aclosing(attempt.apieces()) as pieces:
                async for piece in pieces:
                    yield piece
    for message in attempt.rest():
        yield message


@asynccontextmanager
async def opened(reader: StreamReader[Any]) -> AsyncIterator[StreamReader[Any]]:
    """Stop a stream at the end of the block, and wait for it; code that blocks a thread just now is left to itself."""
    try:
        yield reader
    finally:
        stopping = reader.stop(patient=False)
        for future in stopping:
            await settled(future)
        raise_failed(stopping)


def _iterated(result: Any) -> AbstractAsyncContextManager[Any]:
    # Read through a reader, each chunk of it would cost a task.
    return aclosing(result) if inspect.isasyncgen(result) else opened(StreamReader(result))


class _Attempt:
    """The visit of one call's place; when it ends, what came of it is noted.

    Attributes:
        result: what the tool has returned.
    """

    __slots__ = ("_batch", "_chunks", "_dropped", "_job", "_left", "_pieces", "_place", "result")

    def __init__(self, batch: Batch, job: Job) -> None:
        self._batch = batch
        self._job = job
        self._chunks: list[Any] = []
        self._pieces: list[MessagePiece] = []
        # Whether nobody may ever ask for more: at a yield that is known only once somebody does.
        self._left = False
        self._dropped = False
        self._place = batch.enter(job)
        self.result: Any = None

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        is_noted = self._dropped and error is None
        try:
            if not is_noted and not self._left and not _ends_the_visit(error):
                failed = cancelled_inside(error) if isinstance(error, asyncio.CancelledError) else error
                self._batch.conclude(self._job, self._place, self.result, failed)
                is_noted = True
        finally:
            self._place.closed = True
            if not is_noted:
                self._batch.abandon()  # sys.exit() in a tool, say: no other call is to start behind its back
        return is_noted

    @property
    def streams(self) -> bool:
        """Whether the result is a stream of chunks."""
        return self._job.streams or type(self.result) in _STREAMS

    def pieces(self) -> Iterator[MessagePiece]:
        """Read the result and make one value of it; yields what can be told of the message meanwhile."""
        with StreamReader(self.result) as chunks:
            for chunk in chunks:
                if self._is_over():
                    return
                for piece in self._taken(chunk):
                    yield piece
                    self._go_on()
        self._join()

    async def apieces(self) -> AsyncGenerator[MessagePiece, None]:
        """Do what `pieces` does, on the running event loop."""
        async with _iterated(self.result) as chunks:
            async for chunk in chunks:
                if self._is_over():
                    return
                for piece in self._taken(chunk):
                    yield piece
                    self._go_on()
        self._join()

    def _is_over(self) -> bool:
        """Tell whether the visit has failed or was given up, so that streams are closed and not read."""
        self._dropped = self._batch.is_over
        return self._dropped

    def _taken(self, chunk: Any) -> Sequence[MessagePiece]:
        self._chunks.append(chunk)
        piece = self._batch.piece(self._job, chunk)
        if piece is None:
            return ()
        self._pieces.append(piece)
        self._left = True
        return (piece,)

    def _go_on(self) -> None:
        """Go on after a yield, perhaps in another thread or task."""
        self._left = False
        self._place.enter(running_task())

    def _join(self) -> None:
        try:
            self.result = concat(self._chunks)
        except EmptyStreamError:
            self.result = ""

    def rest(self) -> Sequence[Any]:
        """Return the message, if there is one and the pieces don't add up to it."""
        messages = self._job.messages
        return () if self._pieces and messages == [joined_message(self._pieces)] else messages


def _ends_the_visit(error: BaseException | None) -> bool:
    if isinstance(error, asyncio.CancelledError):
        # As against a tool that cancelled itself.
        task = asyncio.current_task() if runs_loop() else None
        return task is not None and bool(task.cancelling())
    return error is not None and not isinstance(error, CAUGHT)
