"""How the types of the standard library are stored: one row of a table each.

Only exact types are in the table. A subclass (``class MyList(list)``) is another type, which has to be registered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from types import EllipsisType, NotImplementedType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from blobcp.codec.paths import step_of_key, step_of_member
from blobcp.codec.shape import Parts, Refusal, Shape, no_step

__all__ = ["BIG_INT", "PAIRS", "STANDARD_SHAPES", "SURROGATE_TEXT", "step_of_pair"]

_Pairs = Iterable[tuple[Any, Any]]


def _flat(mapping: Mapping[Any, Any]) -> Parts:
    return [part for pair in mapping.items() for part in pair]


def _pairs(parts: Parts) -> _Pairs:
    return zip(parts[::2], parts[1::2], strict=True)


def step_of_pair(index: int, parts: Parts) -> str:
    """Return the step to a part of ``[key, value, key, value, …]``."""
    return step_of_key(parts[index - 1]) if index % 2 else step_of_member(parts[index])


def _step_of_member(index: int, parts: Parts) -> str:
    return step_of_member(parts[index])


def _step_of_zone(index: int, parts: Parts) -> str:
    return ".tzinfo"


def _big_int_parts(value: int) -> Parts:
    return [value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)]


def _take_deque(value: deque[Any]) -> Parts:
    return [value.maxlen, *value]


def _build_deque(parts: Parts) -> deque[Any]:
    return deque(parts[1:], parts[0])


def _take_datetime(value: datetime) -> Parts:
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, value.tzinfo]


def _build_datetime(parts: Parts) -> datetime:
    text, fold, zone = parts
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=_zone(zone))


def _take_time(value: time) -> Parts:
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, value.tzinfo]


def _build_time(parts: Parts) -> time:
    text, fold, zone = parts
    return time.fromisoformat(text).replace(fold=fold, tzinfo=_zone(zone))


def _zone(value: object) -> tzinfo | None:
    if value is not None and not isinstance(value, tzinfo):
        raise TypeError(f"a {type(value).__name__} stands where a time zone should")
    return value


def _take_timezone(value: timezone) -> Parts:
    offset = value.utcoffset(None)
    name = value.tzname(None)
    return [offset, None if name == timezone(offset).tzname(None) else name]


def _build_timezone(parts: Parts) -> timezone:
    offset, name = parts
    return timezone(offset) if name is None else timezone(offset, name)


def _take_zone(value: ZoneInfo) -> Parts:
    if value.key is None:
        raise Refusal("a ZoneInfo without a key can't be found again; make it with ZoneInfo('Area/City')")
    return [value.key]


def _take_path(value: PurePath) -> Parts:
    text = str(value)
    if str(type(value)(text)) != text:  # as half a network share, PureWindowsPath("//host/")
        raise Refusal(f"the path {text!r} is another one when it is read again; store a whole path, or its text")
    return [type(value).__name__, text]


def _build_path(parts: Parts) -> PurePath:
    kind, text = parts
    return _PATHS[kind](text)


_PATHS: dict[str, type[PurePath]] = {
    cls.__name__: cls for cls in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
}
_SINGLETONS: dict[str, object] = {"Ellipsis": ..., "NotImplemented": NotImplemented, "UNSET": msgspec.UNSET}


def _singleton(name: str) -> tuple[Callable[[Any], Parts], Callable[[Parts], Any]]:
    return lambda _: [name], _build_singleton


def _build_singleton(parts: Parts) -> Any:
    return _SINGLETONS[parts[0]]


BIG_INT = Shape(5, _big_int_parts, lambda parts: int.from_bytes(parts[0], "little", signed=True), no_step)
"""An int of more than 64 bits; the class alone does not tell it from one that MessagePack holds."""

SURROGATE_TEXT = Shape(
    6, lambda value: [value.encode("utf-8", "surrogatepass")], lambda parts: parts[0].decode("utf-8", "surrogatepass")
)
"""A str with lone surrogates, which UTF-8 can't hold; likewise."""

PAIRS = Shape(4, _flat, lambda parts: dict(_pairs(parts)), step_of_pair)
"""A dict with a key that MessagePack can't hold as a key; likewise."""

STANDARD_SHAPES: dict[type[Any], Shape] = {
    tuple: Shape(1, list, tuple),
    set: Shape(2, list, set, _step_of_member),
    frozenset: Shape(3, list, frozenset, _step_of_member),
    bytearray: Shape(7, lambda value: [bytes(value)], lambda parts: bytearray(_bytes(parts[0]))),
    complex: Shape(8, lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    range: Shape(9, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    slice: Shape(10, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    deque: Shape(11, _take_deque, _build_deque, lambda index, _: f"[{index - 1}]"),
    Counter: Shape(12, _flat, lambda parts: Counter(dict(_pairs(parts))), step_of_pair),
    OrderedDict: Shape(13, _flat, lambda parts: OrderedDict(_pairs(parts)), step_of_pair),
    datetime: Shape(15, _take_datetime, _build_datetime, _step_of_zone),
    date: Shape(16, lambda value: [value.isoformat()], lambda parts: date.fromisoformat(parts[0])),
    time: Shape(17, _take_time, _build_time, _step_of_zone),
    timedelta: Shape(
        18, lambda value: [value.days, value.seconds, value.microseconds], lambda parts: timedelta(*parts)
    ),
    timezone: Shape(19, _take_timezone, _build_timezone, no_step),
    ZoneInfo: Shape(20, _take_zone, lambda parts: ZoneInfo(parts[0]), no_step),
    Decimal: Shape(21, lambda value: [str(value)], lambda parts: Decimal(parts[0])),
    UUID: Shape(22, lambda value: [value.bytes], lambda parts: UUID(bytes=parts[0])),
    **{cls: Shape(23, _take_path, _build_path, no_step) for cls in (type(Path()), PurePosixPath, PureWindowsPath)},
    EllipsisType: Shape(24, *_singleton("Ellipsis"), no_step),
    NotImplementedType: Shape(24, *_singleton("NotImplemented"), no_step),
    type(msgspec.UNSET): Shape(24, *_singleton("UNSET"), no_step),
}


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"a {type(value).__name__} stands where bytes should")
    return value
