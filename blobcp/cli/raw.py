"""Raw values taken apart: what one is called, and what is in it. The tree and the difference both come from this."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from datetime import date, time
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from blobcp.checkpoint import Address
from blobcp.codec import RawValue

__all__ = ["Taken", "compact", "pairs_of", "shown_bytes", "take"]

_MAPPINGS = (dict, Counter, OrderedDict)
_SEQUENCES = (list, tuple, deque)
_MOST_BYTES = 64


class Taken(NamedTuple):
    """A value, one level deep.

    Attributes:
        text: all of a simple value; what kind of thing another one is.
        inside: what is in it, each with the step to it; ``None`` for a simple value.
    """

    text: str
    inside: Sequence[tuple[str, Any]] | None = None


def take(value: Any) -> Taken:
    """Return a value's text and what is in it."""
    if type(value) is RawValue:
        return _take_raw(value)
    if isinstance(value, Address):
        return Taken(str(value))
    if isinstance(value, msgspec.Struct):
        return Taken(type(value).__name__, _set_fields(value))
    if isinstance(value, _MAPPINGS):
        return Taken(type(value).__name__, [(_step_of(key), item) for key, item in value.items()])
    if isinstance(value, _SEQUENCES):
        kind = "list" if isinstance(value, list) else type(value).__name__
        return Taken(kind, [(f"[{index}]", item) for index, item in enumerate(value)])
    return Taken(_text_of(value))


def pairs_of(value: RawValue) -> list[tuple[Any, Any]]:
    """Return the keys and values of a raw ``defaultdict``; kind and name of its factory stand before them."""
    return list(zip(value.parts[2::2], value.parts[3::2], strict=True))


def _step_of(key: Any) -> str:
    """Return the step to what is under a key: ``.name``, or ``[3]``, also for keys without their class."""
    return f".{key}" if type(key) is str and key.isidentifier() else f"[{compact(key)}]"


def _set_fields(struct: msgspec.Struct) -> list[tuple[str, Any]]:
    """Return the fields of a part of a checkpoint that say something."""
    found = ((field, getattr(struct, field.name)) for field in msgspec.structs.fields(struct))
    return [
        (f".{field.name}", value)
        for field, value in found
        if not (value is None if field.default is None else _says_nothing(value))
    ]


def _says_nothing(value: Any) -> bool:
    return value is None or (type(value) in (dict, list) and not value)


def _take_raw(value: RawValue) -> Taken:
    if value.kind == "pickle":
        return Taken(f"pickle of {shown_bytes(bytes(value.parts[0]))}, not opened")
    if value.kind in {"set", "frozenset"}:
        return Taken(value.kind, [(f"{{{compact(member)}}}", member) for member in value.parts])
    if value.kind == "defaultdict":
        return Taken(f"defaultdict of {value.parts[1]}", [(_step_of(key), item) for key, item in pairs_of(value)])
    if value.kind == "enum":
        return Taken(f"{value.name} {compact(value.parts[0])}")
    fields = [(_step_of(name), item) for name, item in value.fields.items()]
    rest = value.parts[1:] if value.parts and type(value.parts[0]) is dict else value.parts
    return Taken(value.name, [*fields, *_rest(rest)])


def _rest(parts: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Name what a value holds beside its declared fields: further attributes, or what a codec made of it."""
    return ((f"({index})", part) for index, part in enumerate(parts) if not _says_nothing(part))


def _text_of(value: Any) -> str:
    if type(value) is str:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray) and len(value) > _MOST_BYTES:
        return f"{type(value).__name__} of {shown_bytes(value)}"
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)} of {shown_bytes(value.tobytes())}"
    return _of_any_length(value)


def _of_any_length(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an int with more digits than Python writes
        return hex(value) if type(value) is int else object.__repr__(value)


def shown_bytes(data: bytes | bytearray) -> str:
    """Return the length of bytes and what tells them from others."""
    return f"{len(data)} bytes ({blake2b(data, digest_size=8).hexdigest()})"


def compact(value: Any) -> str:
    """Return a value on one line, with all that tells it from others."""
    text, inside = take(value)
    if inside is None:
        return text
    named = (f"{step.removeprefix('.')}={compact(item)}" for step, item in inside)
    return f"{text}({', '.join(named)})"
