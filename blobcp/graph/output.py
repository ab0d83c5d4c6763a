"""What a node (or START) gives in a stream run, on its way to its successors: chunks that are there, or a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blobcp.graph.flow import Streams
from blobcp.graph.judging import node_error
from blobcp.stream.concat import concat
from blobcp.stream.reader import StreamReader

__all__ = ["Out"]


class Out:
    """A result in the making.

    Attributes:
        reader: the stream; ``None`` where its chunks are there.
        chunks: the chunks; ``None`` where they are still to be read.
    """

    __slots__ = ("_streams", "chunks", "reader")

    def __init__(
        self, streams: Streams, *, reader: StreamReader[Any] | None = None, chunks: list[Any] | None = None
    ) -> None:
        self._streams = streams
        self.reader = reader
        self.chunks = chunks

    def become(self, result: list[Any] | StreamReader[Any]) -> None:
        """Take the place of what was there before."""
        self.reader = result if isinstance(result, StreamReader) else None
        self.chunks = None if isinstance(result, StreamReader) else result

    def convert(self, convert: Callable[[Any], Any]) -> None:
        """Convert each chunk."""
        if self.reader is not None:
            self.reader = self.reader.map(convert)
        elif self.chunks is not None:
            self.chunks = [convert(chunk) for chunk in self.chunks]

    def copy(self) -> StreamReader[Any]:
        """Return a reader that takes nothing away."""
        if self.reader is None:
            return self._streams.own(StreamReader(self.chunks or ()))
        self.reader, peeking = self._streams.split(self.reader, 2)
        return self._streams.own(peeking)

    def result_reader(self) -> StreamReader[Any]:
        """Return the one reader; this is not used before it became something else."""
        return self.reader if self.reader is not None else self._streams.own(StreamReader(self.chunks or ()))

    def value(self, path: Sequence[str]) -> Any:
        """Return the chunks as one value.

        Raises:
            NodeError: they can't be joined.
        """
        try:
            return concat(self.chunks or [])
        except Exception as error:
            raise node_error(path, error) from error

    def result(self) -> Any:
        """Return what is delivered: a reader, or the value where there is just one chunk."""
        if self.chunks is not None and len(self.chunks) == 1:
            return self.chunks[0]
        return self._streams.own(self.result_reader())
