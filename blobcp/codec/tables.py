"""Lists of records of one class, stored as a table: the class and its fields once, then a column of values per field.

A list of a thousand messages is a thousand times the same names. As a table it is smaller, and it is taken apart and put
together by columns, in few calls, where records one by one need many.

The parts of a table are the number of rows, the layout of a row and the column of rows. A layout says what is in a
column::

    nil                             the values as they are
    [layout]                        lists: their lengths, and a column of all their items
    [code, name, fields, layouts]   records of a class: a column for each field
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.msgpack import Encoder, Ext

__all__ = ["FEWEST_ROWS", "TABLE", "Layout", "Table", "expanded", "joined_lists", "rows_getter", "rows_of", "split"]

TABLE = 41
"""The extension code of a table."""

FEWEST_ROWS = 4
"""Shorter lists are written record by record, which costs less then."""

Column = list[Any]
Layout = list[Any] | None
BuildRows = Callable[[int, str, list[str], list[Column], int], Column]

_LIST, _RECORD = 1, 4
_INT = frozenset({int})
_encode = Encoder().encode


class Table(NamedTuple):
    """How records of a class are taken apart and put together by columns.

    Attributes:
        name: the name of the class.
        names: its fields.
        take: records -> columns, or ``None`` where one of them needs more than its fields.
        build: names of fields, columns and the number of rows -> records.
    """

    name: str
    names: tuple[str, ...]
    take: Callable[[Column], list[Column] | None]
    build: Callable[[list[str], list[Column], int], Column]


def rows_of(layout: Any, data: Any, count: int, build: BuildRows) -> Column:
    """Return the values of a column.

    Args:
        layout: the layout of the column.
        data: what is stored of it.
        count: how many values it has to have.
        build: makes records from code, name, fields, columns and the number of rows.

    Raises:
        ValueError: layout and data don't fit; other errors are possible where they are of wrong types.
    """
    if layout is None:
        if type(data) is not list or len(data) != count:
            raise ValueError(f"a column of {count} values has another length")
        return data
    if type(layout) is not list or type(data) is not list:
        raise TypeError("a layout or a column is not an array")
    if len(layout) == _LIST:
        lengths, items = data
        if type(lengths) is not list or len(lengths) != count or not _INT.issuperset(map(type, lengths)):
            raise ValueError("the lengths of lists are corrupt")
        return split(rows_of(layout[0], items, sum(lengths), build), lengths)
    if len(layout) != _RECORD:
        raise ValueError("an unknown layout of a column")
    code, name, names, layouts = layout
    if not names or len(set(names)) != len(names):
        raise ValueError("the fields of a table are corrupt")
    columns = [rows_of(inner, each, count, build) for inner, each in zip(layouts, data, strict=True)]
    if len(columns) != len(names):
        raise ValueError("a table has not one column for each field")
    return build(code, name, names, columns, count)


def split(items: Column, lengths: list[int]) -> list[Column]:
    """Return lists of the given lengths, made of all items in turn."""
    if lengths and min(lengths) < 0:
        raise ValueError("a list has less than no items")
    rest = iter(items)
    return [list(islice(rest, length)) for length in lengths]


def joined_lists(lists: list[Column]) -> tuple[list[int], Column]:
    """Return the lengths of lists and all their items; the way back is :func:`split`."""
    return list(map(len, lists)), list(chain.from_iterable(lists))


def expanded(parts: Any) -> Column:
    """Return the rows of a table as the values that they would be outside of one."""
    count, layout, data = parts
    return rows_of(layout, data, count, _cells)


def _cells(code: int, name: str, names: list[str], columns: list[Column], count: int) -> Column:
    return [Ext(code, _encode([name, dict(zip(names, row, strict=True))])) for row in zip(*columns, strict=True)]


def rows_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads attributes of an object as a tuple, also where there is only one of them."""
    if len(names) == 1:
        (name,) = names
        return lambda value: (getattr(value, name),)
    get: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
    return get
