"""What a model is told: the message that a tool's result becomes."""

from __future__ import annotations

from typing import Any

import msgspec

from blobcp.tools.request import ToolCall

__all__ = ["content_of", "json_of", "tool_message"]


def tool_message(call: ToolCall, result: Any) -> dict[str, str]:
    """Return the tool message of OpenAI's shape."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _text(result)}


def content_of(message: Any) -> Any:
    """Return what a message says, or the message where that can't be told."""
    if isinstance(message, dict):
        return message.get("content", message)
    return getattr(message, "content", message)


def json_of(value: Any) -> bytes:
    """Return a value as JSON; dataclasses, msgspec structs, attrs classes and pydantic models are objects.

    Raises:
        TypeError: it has no form in JSON.
    """
    return msgspec.json.encode(value, enc_hook=_plain)


def _text(result: Any) -> str:
    return str.__str__(result) if isinstance(result, str) else json_of(result).decode()


def _plain(value: Any) -> Any:
    dump = getattr(type(value), "model_dump", None)  # pydantic's
    if dump is None:
        raise TypeError(f"{type(value).__qualname__} has no form in JSON; return text or plain data")
    return dump(value, mode="json")
