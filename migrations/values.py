"""The values of users' classes in a raw checkpoint: found wherever they stand, and changed field by field.

A field may stand in several parts of a value: a class's declared fields, its further attributes, a model's extra and private
ones; and its name in lists beside them. Lists of records that are stored as a table have a layout, which is changed along,
so that they stay tables.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from blobcp.checkpoint import Checkpoint, DagChannelState, InterruptState, PregelChannelState
from blobcp.codec import RawTable, RawValue, Registry
from blobcp.codec.kinds import Kind, qualified_name
from blobcp.codec.plain import LEAVES

__all__ = ["Found", "TypeName", "add_field", "drop_field", "found_in", "has_field", "names_of", "rename_field"]

TypeName = type | str
"""A class, or the name that it is stored under."""

Row = list[Any]
"""The layout of the records of a table: code, name, fields and the layouts of their columns."""


class Found(NamedTuple):
    """What was found in a graph: values, and the layouts of those among them that are stored as tables."""

    values: list[RawValue]
    rows: list[Row]


_STRUCTS = frozenset({Checkpoint, PregelChannelState, DagChannelState, InterruptState})
_ITEMS = frozenset({list, tuple, deque, RawTable})
_MAPPINGS = frozenset({dict, OrderedDict, Counter})
_LIST, _ROW = 1, 4
_ATTRIBUTES_APART: frozenset[str] = frozenset({Kind.OBJECT, Kind.EXCEPTION})
"""Kinds whose attributes are their second part; the first is empty, or holds an exception's arguments."""

_NAMES_AT: dict[str, int] = {Kind.DATACLASS: 2, Kind.ATTRS: 2, Kind.OBJECT: 2, Kind.MODEL: 1}
"""Where there is a list of names: the fields that were not set, and those that a model was given."""


def names_of(target: TypeName, registry: Registry) -> frozenset[str]:
    """Return the names that values of a class are stored under; a name stands for itself alone."""
    return frozenset({target}) if isinstance(target, str) else _names_leading_to(target, registry, registry.version)


@lru_cache(maxsize=1024)
def _names_leading_to(cls: type, registry: Registry, version: int) -> frozenset[str]:
    led_here = (name for name in registry.names() if (entry := registry.named(name)) and entry.cls is cls)
    return frozenset({qualified_name(cls), *led_here})


def found_in(checkpoint: Checkpoint) -> Found:
    """Return all values of users' classes in a graph; not those in graphs nested in it, which are graphs themselves."""
    found = Found([], [])
    stack: list[Any] = [
        *(checkpoint.channels, checkpoint.inputs, checkpoint.state),
        checkpoint.interrupt_id_to_state,
    ]
    while stack:
        at = stack.pop()
        if type(at) is RawValue:
            found.values.append(at)
        elif type(at) is RawTable:
            found.rows.extend(_rows(at.layout))
        for items in _inside(at):
            if not LEAVES.issuperset(map(type, items)):
                stack.extend(items)
    return found


def _inside(at: Any) -> tuple[Collection[Any], ...]:
    """Return what a value holds, without the names of its fields."""
    kind = type(at)
    if kind is RawValue:
        if at.kind == Kind.CODEC:  # what a codec makes may have any keys
            return (at.parts,)
        return tuple(part.values() if type(part) is dict else (part,) for part in at.parts)
    if kind in _MAPPINGS:
        return at, at.values()
    if kind in _ITEMS:
        return (at,)
    if kind is slice:
        return ((at.start, at.stop, at.step),)
    return (msgspec.structs.astuple(at),) if kind in _STRUCTS else ()


def _rows(layout: Any) -> Iterator[Row]:
    if layout is None:
        return
    if len(layout) == _LIST:
        yield from _rows(layout[0])
    elif len(layout) == _ROW:
        yield layout
        for inner in layout[3]:
            yield from _rows(inner)


def has_field(value: RawValue, name: str) -> bool:
    """Tell whether a value has a field or attribute."""
    return any(name in part for part in _dicts(value))


def rename_field(value: RawValue, old: str, new: str) -> bool:
    """Rename a field or attribute, which keeps its place; tell whether it could be: it can't where both are there."""
    for part in _dicts(value):
        if old in part:
            if has_field(value, new):
                return False
            renamed = {new if name == old else name: item for name, item in part.items()}
            part.clear()
            part.update(renamed)
    names = _names(value)
    if old in names:
        names[names.index(old)] = new
    return True


def drop_field(value: RawValue, name: str) -> None:
    """Take a field or attribute away."""
    for part in _dicts(value):
        part.pop(name, None)
    names = _names(value)
    if name in names:
        names.remove(name)


def add_field(value: RawValue, name: str, item: Any) -> None:
    """Give a value one more field, or attribute where its kind declares no fields."""
    names = _names(value)
    if value.kind == Kind.MODEL and len(value.parts) > 1:
        names.append(name)
    elif name in names:
        names.remove(name)
    if value.kind not in _ATTRIBUTES_APART:
        value.fields[name] = item
        return
    if len(value.parts) == 1:
        value.parts.append({})
    value.parts[1][name] = item


def _dicts(value: RawValue) -> list[dict[str, Any]]:
    """Return the parts of a value whose keys are names of fields or attributes."""
    if not value.name or value.kind == Kind.ENUM:
        return []
    parts = value.parts[:1] if value.kind == Kind.CODEC else value.parts
    return [part for part in parts if type(part) is dict]


def _names(value: RawValue) -> list[str]:
    """Return the part of a value that is a list of names, to be changed in place; an empty one where there is none."""
    at = _NAMES_AT.get(value.kind)
    if at is None or len(value.parts) <= at:
        return []
    names: list[str] = value.parts[at]
    return names
