"""What a tools node gives in a stream run: messages by place, and pieces of those whose text comes bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blobcp.codec import register_codec
from blobcp.stream.chat import ChatChunk

__all__ = ["MessagePiece", "ToolMessages", "joined_message"]


class ToolMessages(list[Any]):
    """A chunk of a tools node: one place per call, in the order of the calls, ``None`` where it says nothing of a call.

    A place has a whole message, or a `ChatChunk` with the next piece of its text. A message that is no such piece is
    whole and stands for all that has come at its place. Joined, chunks are a plain list of messages.

    >>> from blobcp.stream import concat
    >>> concat([ToolMessages([None, "second"]), ToolMessages(["first", None])])
    ['first', 'second']
    """

    @classmethod
    def of(cls, size: int, said: Mapping[int, Any]) -> ToolMessages:
        """Return a chunk of so many places; ``said`` has what is said, by place."""
        return cls(said.get(place) for place in range(size))

    @staticmethod
    def __concat__(chunks: list[ToolMessages]) -> list[Any]:
        """Join chunks; this is what :func:`concat` looks for."""
        return [joined_message([said for said in place if said is not None]) for place in zip(*chunks, strict=True)]


class MessagePiece(ChatChunk):
    """A tool message with the next piece of its text as ``content``."""


register_codec(ToolMessages, list, ToolMessages, name="blobcp.ToolMessages")
register_codec(MessagePiece, dict, MessagePiece, name="blobcp.MessagePiece")


def joined_message(said: Sequence[Any]) -> Any:
    """Return the message of one call; ``None`` where nothing was said of it."""
    if said and isinstance(said[-1], MessagePiece):
        return {**said[-1], "content": "".join(piece["content"] for piece in said)}
    return said[-1] if said else None
