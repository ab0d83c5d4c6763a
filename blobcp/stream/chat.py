"""Chat messages in the shape of the OpenAI API: the pieces that a model streams, and how they become one message.

A stream carries either deltas of one message (``{"content": "piece"}``) or whole ``chat.completion.chunk`` documents with
the deltas in their ``choices``. Pieces of text are put together, tool calls by their ``index``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from blobcp.codec import register_codec
from blobcp.errors import ConcatError, EmptyStreamError
from blobcp.stream.signs import SourceEnd

__all__ = ["ChatChunk", "concat_chat"]

_FIRST: Final = frozenset({"id", "type", "object", "role", "created"})
"""Given once, or again and again with the same value."""

_LAST: Final = frozenset({"finish_reason", "usage", "model", "system_fingerprint", "service_tier", "tool_call_id"})
"""The last that says something counts."""


class ChatChunk(dict[str, Any]):
    """A chat message or completion, or a piece of one, which joins by :func:`concat_chat`; otherwise a dict.

    A node that yields these needs no concat function: ``yield ChatChunk(delta)``, or ``reader.map(ChatChunk)``.

    >>> from blobcp.stream import concat
    >>> concat([ChatChunk(role="assistant", content="Hel"), ChatChunk(content="lo")])
    {'role': 'assistant', 'content': 'Hello'}
    """

    @staticmethod
    def __concat__(chunks: list[ChatChunk]) -> ChatChunk:
        """Join chunks; this is what :func:`concat` looks for."""
        return concat_chat(chunks)


register_codec(ChatChunk, dict, ChatChunk, name="blobcp.ChatChunk")


@runtime_checkable
class _Model(Protocol):
    """What the client library's own objects can do."""

    def model_dump(self) -> dict[str, Any]: ...


def concat_chat(chunks: Iterable[Mapping[str, Any] | Any]) -> ChatChunk:
    """Join the chunks of a chat answer.

    Text (``content``, ``refusal``, arguments of calls) is put together; ``role`` and ids count once; ``finish_reason``
    and ``usage`` count last; tool calls are joined by ``index`` and come out in its order, without it. Chunk documents
    become one ``chat.completion`` document whose choices have a ``message`` each.

    Args:
        chunks: dicts, or objects of the client library, in order.

    Raises:
        EmptyStreamError: there are none.
        ConcatError: a chunk is no dict, or two values of one key don't fit; the message names the key.

    >>> concat_chat([{"role": "assistant", "content": "Hel"}, {"content": "lo"}, {"finish_reason": "stop"}])
    {'role': 'assistant', 'content': 'Hello', 'finish_reason': 'stop'}
    """
    dicts = [_as_dict(chunk) for chunk in chunks if not isinstance(chunk, SourceEnd)]
    if not dicts:
        raise EmptyStreamError("the stream is empty: there are no chat chunks that could become a message")
    if any("choices" in each for each in dicts):
        return ChatChunk(_join_documents(dicts))
    return ChatChunk(_join(dicts, ""))


def _as_dict(chunk: Any) -> Mapping[str, Any]:
    if isinstance(chunk, Mapping):
        return chunk
    if isinstance(chunk, _Model):
        return chunk.model_dump()
    raise ConcatError(f"a chat chunk is a {type(chunk).__qualname__}; give dicts in the OpenAI shape", type=type(chunk))


def _join_documents(documents: list[Mapping[str, Any]]) -> dict[str, Any]:
    joined = _join([{key: value for key, value in each.items() if key != "choices"} for each in documents], "")
    if joined.get("object") == "chat.completion.chunk":
        joined["object"] = "chat.completion"
    choices = [choice for each in documents for choice in each.get("choices") or ()]
    by_index: dict[Any, list[Mapping[str, Any]]] = {}
    for choice in choices:
        by_index.setdefault(choice.get("index", 0), []).append(choice)
    joined["choices"] = [
        {"index": index, **_join([_with_message(choice) for choice in by_index[index]], f"['choices'][{index}]")}
        for index in sorted(by_index)
    ]
    return joined


def _with_message(choice: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"message" if key == "delta" else key: value for key, value in choice.items()}
    renamed.pop("index", None)
    return renamed


def _join(dicts: list[Mapping[str, Any]], path: str) -> dict[str, Any]:
    by_key: dict[str, list[Any]] = {}
    for each in dicts:
        for key, value in each.items():
            by_key.setdefault(key, []).append(value)
    return {key: _join_key(key, values, f"{path}[{key!r}]") for key, values in by_key.items()}


def _join_key(key: str, values: list[Any], path: str) -> Any:
    said = [value for value in values if value is not None]
    if not said:
        return None
    if key in _FIRST:
        return next((value for value in said if value != ""), said[0])
    if key in _LAST:
        return said[-1]
    for kind, join in _JOINS:
        if all(isinstance(value, kind) for value in said):
            return join(key, said, path)
    if len({type(value) for value in said}) > 1:
        names = ", ".join(dict.fromkeys(type(value).__qualname__ for value in said))
        raise ConcatError(f"values of different classes meet at {path} of chat chunks ({names})", path=path)
    return said[-1]


def _join_text(key: str, pieces: list[str], path: str) -> str:
    if key != "name":
        return "".join(pieces)
    # Some servers send the whole name with every piece of the arguments.
    name = pieces[0]
    for piece in pieces[1:]:
        name += "" if piece == name else piece
    return name


def _join_maps(key: str, maps: list[Mapping[str, Any]], path: str) -> dict[str, Any]:
    return _join(maps, path)


def _join_lists(key: str, lists: list[list[Any]], path: str) -> list[Any]:
    items = [item for each in lists for item in each]
    if key == "tool_calls" or any(isinstance(item, Mapping) and "index" in item for item in items):
        return _join_by_index(lists, path)
    return items


def _join_by_index(lists: list[list[Any]], path: str) -> list[dict[str, Any]]:
    by_index: dict[int, list[Mapping[str, Any]]] = {}
    index_of: dict[str, int] = {}
    for item in (item for each in lists for item in each):
        if not isinstance(item, Mapping):
            raise ConcatError(f"a {type(item).__qualname__} stands at {path} of chat chunks; give dicts", path=path)
        index = item.get("index")
        if index is None:
            index = index_of.get(item.get("id") or "", max(by_index, default=-1) + 1)
        if item.get("id"):
            index_of.setdefault(item["id"], index)
        by_index.setdefault(index, []).append({key: value for key, value in item.items() if key != "index"})
    return [_join(by_index[index], f"{path}[{index}]") for index in sorted(by_index)]


_JOINS: Final[list[tuple[type[Any], Callable[[str, list[Any], str], Any]]]] = [
    (str, _join_text),
    (list, _join_lists),
    (Mapping, _join_maps),
]
