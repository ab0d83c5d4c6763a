"""From lists of records to the parts of a table: a walk over columns, which looks at all values of a field at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from blobcp.codec.plain import all_plain
from blobcp.codec.plans import Plans
from blobcp.codec.shape import Refusal
from blobcp.codec.tables import Column, Layout, joined_lists

__all__ = ["TableWriter"]

_RECORD_LEVELS = 3
_MANY = 1000


class TableWriter:
    """Writes columns. What it can't write it refuses without a path; the writer then looks at one record at a time."""

    def __init__(
        self,
        plans: Plans,
        ways: Mapping[type[Any], Callable[[Any, int], Any]],
        leaves: frozenset[type[Any]],
        plain: frozenset[type[Any]],
        max_depth: int,
    ) -> None:
        """Prepare.

        Args:
            plans: what can be stored.
            ways: how a single value of each class is written.
            leaves: classes of values that are written as they are.
            plain: these, and the containers of them that can be; empty if there are none.
            max_depth: as for the writer.
        """
        self._plans = plans
        self._ways = ways
        self._leaves = leaves
        self._plain = plain
        self._max_depth = max_depth

    def of_records(self, values: Column, depth: int) -> tuple[Layout, Column] | None:
        """Return layout and data of values of one class, or ``None`` where they are not alike enough or no records.

        Raises:
            Refusal: something in them can't be stored.
        """
        shape = self._plans.of_class(type(values[0]))
        if shape is None or shape.table is None:
            return None
        if len(values) > _MANY and len(set(map(id, values))) * 2 < len(values):
            raise Refusal("the same records again and again, so there may be a cycle that grows with each level")
        columns = shape.table.take(values)
        if columns is None:
            return None
        layouts, data = [], []
        for column in columns:
            layout, stored = self._column(column, depth + _RECORD_LEVELS)
            layouts.append(layout)
            data.append(stored)
        return [shape.code, shape.table.name, shape.table.names, layouts], data

    def _column(self, values: Column, depth: int) -> tuple[Layout, Column]:
        types = set(map(type, values))
        if types <= self._leaves:
            return None, values
        if depth > self._max_depth:
            raise Refusal("it is nested too deeply", too_deep=True)
        if types <= self._plain and all_plain(values, types, self._max_depth - depth + 1):
            return None, values
        if len(types) == 1:
            nested = self._lists(values, depth) if list in types else self.of_records(values, depth)
            if nested:
                return nested
        ways = self._ways
        return None, [ways[type(value)](value, depth) for value in values]

    def _lists(self, values: Column, depth: int) -> tuple[Layout, Column]:
        lengths, items = joined_lists(values)
        layout, stored = self._column(items, depth + 1)
        return [layout], [lengths, stored]
