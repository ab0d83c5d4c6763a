"""Raw values as JSON, with nothing lost: what JSON can't tell apart stands in an object with ``$type``."""

from __future__ import annotations

import math
from base64 import b64encode
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from datetime import date, time
from typing import Any

import msgspec

from blobcp.checkpoint import Address
from blobcp.codec import RawValue

from .raw import pairs_of, take

__all__ = ["as_json"]

_TYPE = "$type"
_TOO_MANY_DIGITS = 10**4300
"""From here on Python, by its default, neither writes an int in decimals nor reads one."""


def as_json(value: Any) -> Any:
    """Return a value of what JSON has: None, bool, int, float, str, list and dict with str keys.

    Raises:
        RecursionError: it is nested more deeply than the stack has room for.
    """
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < _TOO_MANY_DIGITS else {_TYPE: "int", "value": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {_TYPE: "float", "value": repr(value)}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if type(value) is dict:
        return _of_dict(value)
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {name: as_json(getattr(value, name)) for name in value.__struct_fields__}
    return _of_raw(value) if type(value) is RawValue else _of_other(value)


def _of_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str for key in value) and _TYPE not in value:
        return {key: as_json(item) for key, item in value.items()}
    return {_TYPE: "dict", "items": _items(value.items())}


def _items(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    return [[as_json(key), as_json(item)] for key, item in pairs]


def _of_raw(value: RawValue) -> dict[str, Any]:
    if value.kind == "pickle":
        return {_TYPE: "pickle", "size": len(value.parts[0])}
    if value.kind in {"set", "frozenset"}:
        return {_TYPE: value.kind, "items": [as_json(member) for member in value.parts]}
    if value.kind == "defaultdict":
        return {_TYPE: "defaultdict", "factory": as_json(value.parts[1]), "items": _items(pairs_of(value))}
    found: dict[str, Any] = {_TYPE: value.name, "kind": value.kind}
    if value.parts and type(value.parts[0]) is dict:
        found["fields"] = _of_dict(value.parts[0])
        return found | ({"more": as_json(value.parts[1:])} if len(value.parts) > 1 else {})
    return found | {"parts": as_json(value.parts)}


def _of_other(value: Any) -> dict[str, Any]:
    kind = type(value).__name__
    if isinstance(value, bytes | bytearray):
        return {_TYPE: kind, "base64": b64encode(value).decode()}
    if isinstance(value, Counter | OrderedDict):
        return {_TYPE: kind, "items": _items(value.items())}
    if isinstance(value, tuple | deque):
        more = {"maxlen": value.maxlen} if isinstance(value, deque) else {}
        return {_TYPE: kind, "items": [as_json(item) for item in value], **more}
    if isinstance(value, date | time):
        return {_TYPE: kind, "value": value.isoformat()}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return {_TYPE: f"numpy.{kind}", "dtype": str(value.dtype), "value": as_json(value.tolist())}
    text = str(value) if kind in {"Decimal", "UUID", "PurePosixPath", "PosixPath", "ZoneInfo"} else take(value).text
    return {_TYPE: kind, "value": text}
