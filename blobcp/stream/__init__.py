"""Values that come in parts, and values that come from several sides."""

from blobcp.stream.chat import ChatChunk, concat_chat
from blobcp.stream.concat import concat, register_concat
from blobcp.stream.flatten import KeptChunks, aconcat_stream, akeep_chunks, concat_stream, keep_chunks
from blobcp.stream.interleave import merge_streams
from blobcp.stream.merge import merge_values, register_merge
from blobcp.stream.pipe import PipeWriter, stream_pipe
from blobcp.stream.reader import StreamReader
from blobcp.stream.shapes import Shapes
from blobcp.stream.signs import NO_VALUE, SourceEnd

__all__ = [
    "NO_VALUE",
    "ChatChunk",
    "KeptChunks",
    "PipeWriter",
    "Shapes",
    "SourceEnd",
    "StreamReader",
    "aconcat_stream",
    "akeep_chunks",
    "concat",
    "concat_chat",
    "concat_stream",
    "keep_chunks",
    "merge_streams",
    "merge_values",
    "register_concat",
    "register_merge",
    "stream_pipe",
]
