"""Streams at a stop: each that a checkpoint holds is read to its end and becomes one value.

That lets nodes run which make them, so that one may stop or fail meanwhile; then the run stands elsewhere, and what is to
be stored is looked at again.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from functools import partial
from typing import Any, Final

from blobcp.errors import StreamTimeoutError
from blobcp.graph.effects import Abandoned, Effect, Wait
from blobcp.graph.options import StreamSaving
from blobcp.graph.parts import Part
from blobcp.graph.session import CAUGHT, node_error
from blobcp.graph.stream_machine import StreamMachine
from blobcp.graph.streaming import StreamSession
from blobcp.stream.concat import concat
from blobcp.stream.flatten import KeptChunks, aread_within, read_within
from blobcp.stream.reader import StreamReader

__all__ = ["Flattening", "reading"]

LAST_CALL: Final = timedelta(seconds=2)
"""How long a run that a cancel ends at once waits for what the caller has still to give it, where no limit is set.

What is at hand is there long before that. A source that delivers nothing must not keep the run from ending.
"""


class Flattening:
    """Reads the streams that a checkpoint holds, until the run stands still.

    Args:
        machine: the run.
        session: what runs it.
        saving: how streams are stored.

    Attributes:
        slow: the place of the first stream that did not end in time; ``None`` where all have.
        cut: whether the run's own input was cut off, at what had come of it.
    """

    def __init__(self, machine: StreamMachine, session: StreamSession, saving: StreamSaving) -> None:
        self._machine = machine
        self._session = session
        self._saving = saving
        self.slow: list[str] | None = None
        self.cut = False
        self._due = False

    def read_all(self) -> Generator[Effect, Any, bool]:
        """Read them; returns whether the run still stands where it stood."""
        for path, part in list(self._machine.stream_root.unread()):
            if isinstance(part.value, StreamReader) and not (yield from self._read(path, part)):
                return False
        return True

    def _read(self, path: list[str], part: Part) -> Generator[Effect, Any, bool]:
        session = self._session
        # What is read is lost where the run turns out to stand elsewhere; the part is then read again, as it was.
        reader, part.value = self._machine.stream_root.flow.split(part.value, 2)
        self._due = self._due or session.left_behind
        try:
            chunks = yield reading(reader, self._limit(), heeds=not self._due)
        except Abandoned:
            self._due = True  # also where the run had stopped by itself before
            session.abandon()
            return False
        except StreamTimeoutError as error:
            self.slow = self.slow or path
            if self._machine.stop_flowing():
                session.let_go()
                return False
            self.cut = True
            chunks = error.chunks
        except CAUGHT as error:
            if not session.heed_late():
                self._fail(path, error)
            return False
        if session.heed_late():
            return False
        try:
            _store(part, chunks, keep=self._saving.keep_chunks)
        except Exception as error:
            self._fail(path, error)
            return False
        return True

    def _limit(self) -> timedelta | None:
        if self.cut:
            return timedelta(0)  # others wait for the same source, and it has had its time
        if self._saving.timeout is None and self._due:
            return LAST_CALL
        return self._saving.timeout

    def _fail(self, path: list[str], error: BaseException) -> None:
        self._machine.failed_late(self._machine.stream_root, node_error(path, error), None)


def reading(reader: StreamReader[Any], timeout: timedelta | None = None, *, heeds: bool = True) -> Wait:
    """Return the wait for all chunks of a stream, which is not closed: a node whose stream is closed is over."""
    return Wait(partial(read_within, reader, timeout), partial(aread_within, reader, timeout), heeds)


def _store(part: Part, chunks: list[Any], *, keep: bool) -> None:
    if len(chunks) > 1:
        part.value = KeptChunks(chunks) if keep else concat(chunks)
    else:
        part.value = chunks[0] if chunks else None
