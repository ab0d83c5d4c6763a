"""How records of each kind are taken apart and put together by columns; the table of a class, if it can have one.

Records that hold more than their fields (further attributes, fields that were not set, private or extra ones of a model)
are told from the others here, for all rows at once; a list with such a record is not stored as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any

from blobcp.codec.fields import FieldsPlan
from blobcp.codec.kinds import Kind, slots_of
from blobcp.codec.shape import Parts
from blobcp.codec.tables import Column, Table, rows_getter

__all__ = ["table_of"]

Rows = Sequence[Any]
Take = Callable[[Rows], "list[Column] | None"]
Build = Callable[[Parts], Any]
BuildColumns = Callable[[list[str], list[Column], int], Column]


def table_of(plan: FieldsPlan, kind: Kind, build_one: Build) -> Table | None:
    """Return how records of a class are stored as a table, or ``None`` where they can't be."""
    take_rows = _TAKERS[kind](plan) if plan.names else None
    if take_rows is None:
        return None

    def take(values: Rows) -> list[Column] | None:
        columns = take_rows(values)
        return columns if columns is not None and plan.conforms(columns) else None

    return Table(plan.name, plan.names, take, _builder(plan, kind, build_one))


def _take_objects(plan: FieldsPlan) -> Take | None:
    slots = slots_of(plan.cls)
    if plan.cls.__dictoffset__:
        return None if slots else _take_dicts(plan)
    return _take_attributes(plan) if plan.known.issuperset(slots) else None


def _take_dicts(plan: FieldsPlan) -> Take:
    known, only_length = plan.known, {len(plan.names)}
    get_columns = [itemgetter(name) for name in plan.names]

    def take(values: Rows) -> list[Column] | None:
        dicts = [value.__dict__ for value in values]
        if set(map(len, dicts)) != only_length or set().union(*dicts) != known:
            return None
        return [list(map(get, dicts)) for get in get_columns]

    return take


def _take_attributes(plan: FieldsPlan) -> Take:
    get_rows = rows_getter(plan.names)

    def take(values: Rows) -> list[Column] | None:
        try:
            return [list(column) for column in zip(*map(get_rows, values), strict=True)]
        except AttributeError:  # a field that was not set
            return None

    return take


def _take_structs(plan: FieldsPlan) -> Take | None:
    has_more = plan.cls.__dictoffset__ or not plan.known.issuperset(slots_of(plan.cls))
    return None if has_more else _take_attributes(plan)


def _take_models(plan: FieldsPlan) -> Take | None:
    if slots_of(plan.cls) and not _MODEL_SLOTS.issuperset(slots_of(plan.cls)):
        return None
    take_dicts = _take_dicts(plan)
    get_given, get_extra, get_private = map(attrgetter, ("__pydantic_fields_set__", *_MORE_OF_MODELS))

    def take(values: Rows) -> list[Column] | None:
        if any(map(get_extra, values)) or any(map(get_private, values)):
            return None
        if list(map(get_given, values)).count(plan.known) != len(values):
            return None
        return take_dicts(values)

    return take


_MORE_OF_MODELS = ("__pydantic_extra__", "__pydantic_private__")
_MODEL_SLOTS = frozenset({"__pydantic_fields_set__", *_MORE_OF_MODELS})


def _take_named_tuples(plan: FieldsPlan) -> Take | None:
    if plan.cls.__dictoffset__:
        return None
    only_length = {len(plan.names)}

    def take(values: Rows) -> list[Column] | None:
        return [list(column) for column in zip(*values, strict=True)] if set(map(len, values)) == only_length else None

    return take


_TAKERS: dict[Kind, Callable[[FieldsPlan], Take | None]] = {
    Kind.DATACLASS: _take_objects,
    Kind.ATTRS: _take_objects,
    Kind.OBJECT: _take_objects,
    Kind.STRUCT: _take_structs,
    Kind.MODEL: _take_models,
    Kind.NAMED_TUPLE: _take_named_tuples,
}


def _has_own_setattr(cls: type[Any]) -> bool:
    return any("__setattr__" in vars(base) for base in cls.__mro__ if base is not object)


def _model_builder(plan: FieldsPlan, build_rows: BuildColumns) -> BuildColumns:
    cls, put = plan.cls, object.__setattr__
    has_extra = cls.model_config.get("extra") == "allow"

    def build_models(names: list[str], columns: list[Column], count: int) -> Column:
        if plan.known != set(names):
            return build_rows(names, columns, count)
        values = list(map(object.__new__, repeat(cls, count)))
        attributes: dict[str, Iterable[Any]] = {
            "__dict__": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
            "__pydantic_fields_set__": map(set, repeat(names, count)),
            "__pydantic_extra__": [{} for _ in values] if has_extra else repeat(None, count),
            "__pydantic_private__": repeat(None, count),
        }
        for name, items in attributes.items():
            any(map(put, values, repeat(name), items))  # which gives None each time, so that all are put
        return values

    return build_models


def _in_order(plan: FieldsPlan, names: list[str], columns: list[Column]) -> list[Column]:
    by_name = dict(zip(names, columns, strict=True))
    return [by_name[name] for name in plan.names]


def _builder(plan: FieldsPlan, kind: Kind, build_one: Build) -> BuildColumns:
    cls, name = plan.cls, plan.name

    def build_rows(names: list[str], columns: list[Column], count: int) -> Column:
        return [build_one([name, dict(zip(names, row, strict=True))]) for row in zip(*columns, strict=True)]

    if kind is Kind.MODEL and not cls.__private_attributes__:
        return _model_builder(plan, build_rows)
    if kind not in (Kind.DATACLASS, Kind.ATTRS):
        return build_rows
    put: Callable[..., None] = object.__setattr__ if _has_own_setattr(cls) else setattr

    def build_objects(names: list[str], columns: list[Column], count: int) -> Column:
        if plan.known != set(names) or not plan.conforms(_in_order(plan, names, columns)):
            return build_rows(names, columns, count)  # which says what is wrong
        values = list(map(object.__new__, repeat(cls, count)))
        for each, column in zip(names, columns, strict=True):
            any(map(put, values, repeat(each), column))  # as above
        return values

    return build_objects
