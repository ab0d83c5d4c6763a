"""Streams at a stop: each that a checkpoint holds is read to its end and becomes one value.

That lets nodes run which make them, so that one may stop or fail meanwhile; then the run stands elsewhere, and what is to
be stored is looked at again.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from functools import partial
from typing import Any

from blobcp.errors import StreamTimeoutError
from blobcp.graph.effects import Abandoned, Effect, Wait
from blobcp.graph.options import StreamSaving
from blobcp.graph.parts import Part
from blobcp.graph.session import CAUGHT, node_error
from blobcp.graph.stream_machine import StreamMachine
from blobcp.graph.streaming import StreamSession
from blobcp.stream.concat import concat
from blobcp.stream.flatten import KeptChunks, aconcat_stream, concat_stream
from blobcp.stream.reader import StreamReader

__all__ = ["TooSlow", "flatten", "reading"]


class TooSlow(Exception):
    """A stream did not end in time.

    Attributes:
        path: the place where it waits.
    """

    def __init__(self, path: list[str]) -> None:
        super().__init__("/".join(path))
        self.path = path


def flatten(machine: StreamMachine, session: StreamSession, saving: StreamSaving) -> Generator[Effect, Any, bool]:
    """Read the streams that a checkpoint would hold; returns whether the run still stands where it stood.

    Raises:
        TooSlow: one did not end in time.
    """
    for path, part in list(machine.stream_root.unread()):
        if not isinstance(part.value, StreamReader):
            continue
        wait = reading(part.value, saving.timeout, heeds=not session.left_behind)
        try:
            chunks = yield wait
        except Abandoned:
            session.abandon()
            return False
        except StreamTimeoutError:
            raise TooSlow(path) from None
        except CAUGHT as error:
            if not session.heed_late():
                machine.failed_late(machine.stream_root, node_error(path, error), None)
            return False
        if session.heed_late():
            return False
        try:
            _store(part, chunks, keep=saving.keep_chunks)
        except Exception as error:
            machine.failed_late(machine.stream_root, node_error(path, error), None)
            return False
    return True


def reading(reader: StreamReader[Any], timeout: timedelta | None = None, *, heeds: bool = True) -> Wait:
    """Return the wait for all chunks of a stream."""
    return Wait(
        partial(concat_stream, reader, timeout=timeout, concat=list),
        partial(aconcat_stream, reader, timeout=timeout, concat=list),
        heeds,
    )


def _store(part: Part, chunks: list[Any], *, keep: bool) -> None:
    if len(chunks) > 1:
        part.value = KeptChunks(chunks) if keep else concat(chunks)
    else:
        part.value = chunks[0] if chunks else None
