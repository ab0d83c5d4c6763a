"""What a model asks for: the tool calls of an assistant message, whichever library made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blobcp.errors import ValueMismatchError

__all__ = ["ToolCall", "read_request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: the id that the model gave it; ``""`` where it gave none.
        name: the tool it names.
        arguments: as they came: JSON text, or a dict.
        key: tells it from the other calls of its message. That is its id, or, where the id is empty or stands for an
            earlier call already, the id with ``#`` and the call's position.
    """

    id: str
    name: str
    arguments: Any
    key: str


def read_request(value: Any) -> list[ToolCall]:
    """Return the calls of an assistant message, of the last message of a list, or of a completion with one choice.

    Both shapes in use are read, from dicts and from objects: ``{"id", "function": {"name", "arguments"}}`` of OpenAI,
    and ``{"id", "name", "args"}`` of LangChain, with the calls that LangChain could not parse.

    Raises:
        ValueMismatchError: it is no assistant message, or asks for no tool.
    """
    message = value[-1] if isinstance(value, list | tuple) and value else value
    if _get(message, "role") not in (None, "assistant"):
        raise ValueMismatchError(
            f"the tools were handed a message of role {_get(message, 'role')!r}; hand them an assistant message"
        )
    raw = _calls_in(message) or _calls_in(_choice_in(message))
    if not raw:
        raise ValueMismatchError(
            f"the tools were handed {type(message).__qualname__} without tool calls; hand them an assistant message that "
            "has some, or a list that ends with one, and branch past the node where the model asks for none"
        )
    parts = [_parts(call, position) for position, call in enumerate(raw, 1)]
    keys = _keys([id for id, _, _ in parts])
    return [
        ToolCall(id=id, name=name, arguments=arguments, key=key)
        for (id, name, arguments), key in zip(parts, keys, strict=True)
    ]


def _calls_in(message: Any) -> list[Any]:
    return [*(_get(message, "tool_calls") or ()), *(_get(message, "invalid_tool_calls") or ())]


def _choice_in(document: Any) -> Any:
    """Return the message of a completion document, ``None`` of anything else.

    Raises:
        ValueMismatchError: it has several.
    """
    choices = _get(document, "choices")
    if not isinstance(choices, list | tuple) or not choices:
        return None
    if len(choices) > 1:
        raise ValueMismatchError(
            f"the tools were handed a completion with {len(choices)} choices; hand them the message of one"
        )
    # A document that came as one chunk was not joined, and still has a delta.
    return _get(choices[0], "message") or _get(choices[0], "delta")


def _parts(call: Any, position: int) -> tuple[str, str, Any]:
    function = _get(call, "function")
    name = _get(call if function is None else function, "name")
    arguments = _get(call, "args") if function is None else _get(function, "arguments")
    id = _get(call, "id")
    if not isinstance(name, str) or not isinstance(id, str | None):
        raise ValueMismatchError(
            f"tool call {position} is {call!r}; it needs an id and a function with a name and arguments, or id, name and args"
        )
    return id or "", name, dict(arguments) if isinstance(arguments, Mapping) else arguments


def _keys(ids: Sequence[str]) -> Iterator[str]:
    """Yield one key a call: what is told apart by it are addresses and kept results."""
    taken: set[str] = set(ids)
    seen: set[str] = {""}
    for position, id in enumerate(ids, 1):
        key = id
        if id in seen:
            key = f"{id}#{position}"
            while key in taken:
                key += "#"
        seen.add(id)
        taken.add(key)
        yield key


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
