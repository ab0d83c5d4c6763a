"""Bodies as trees that need none of the user's classes: for tools and migrations, which read and change what is stored.

A value of a registered class is a :class:`RawValue`, its fields beside its name. What has no class of the user's in it is
what it is, the structs of a checkpoint included. A tree that was not changed is written as exactly the bytes it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blobcp.codec.kinds import Kind
from blobcp.codec.paths import step_of_key
from blobcp.codec.plans import Plans
from blobcp.codec.registry import Registry
from blobcp.codec.shape import CODES, PICKLED, Parts, Shape
from blobcp.codec.tables import Column, Layout, joined_lists, rows_of

__all__ = ["RawPlans", "RawTable", "RawValue", "raw_shape", "table_parts"]

_NAME_AND_FIELDS = 2
_SET, _FROZENSET, _DEFAULT_DICT = 2, 3, 14
_CODES: dict[str, int] = {
    **{str(kind): code for kind, code in CODES.items()},
    "set": _SET,
    "frozenset": _FROZENSET,
    "defaultdict": _DEFAULT_DICT,
    "pickle": PICKLED,
}
_KINDS = {code: kind for kind, code in _CODES.items()}
_NAMELESS = frozenset({"set", "frozenset", "defaultdict", "pickle"})
_OWN = Registry()
_OWN_PLANS = Plans(_OWN)


class RawValue:
    """A value without its class: its name, what is stored of it, and the kind of class it had.

    It is changed in place, and is equal to and hashed as itself only, so that it can stand as a key of a dict.

    >>> cart = RawValue("shop.Cart", {"items": 3})
    >>> cart.name = "shop.Basket"
    >>> cart.fields["voucher"] = None
    >>> cart
    RawValue('shop.Basket', {'items': 3, 'voucher': None})

    Attributes:
        name: the registered name of its class; empty for what has none, as a set.
        kind: ``dataclass``, ``msgspec struct``, ``attrs class``, ``pydantic model``, ``plain class``, ``named tuple``,
            ``enum``, ``exception``, ``class with a codec``; or ``set``, ``frozenset``, ``defaultdict`` and ``pickle``.
        parts: what is stored beside the name: of most classes a dict of the fields and, where there are any, further
            attributes; of an enum the member; of a codec what it made; of a set its members in order.
    """

    __slots__ = ("kind", "name", "parts")

    def __init__(self, name: str, *parts: Any, kind: str = "dataclass") -> None:
        """Make a value that is stored under a name.

        Args:
            name: the registered name of the class.
            parts: what is stored of it; in most cases one dict of fields.
            kind: see the class.

        Raises:
            ValueError: there is no such kind.
        """
        if kind not in _CODES:
            raise ValueError(f"{kind!r} is no kind of value; choose one of {', '.join(_CODES)}")
        self.name = name
        self.kind = kind
        self.parts = list(parts)

    @property
    def fields(self) -> dict[str, Any]:
        """The declared fields by name; empty where the kind has none. Change it to change the value."""
        first = self.parts[0] if self.parts and self.name else None
        return first if isinstance(first, dict) else {}

    def __repr__(self) -> str:
        kind = "" if self.kind == Kind.DATACLASS else f", kind={self.kind!r}"
        parts = "".join(f", {part!r}" for part in self.parts)
        return f"RawValue({self.name!r}{parts}{kind})"


class RawTable(list[Any]):
    """A list of records that was stored as a table. It can be changed like any list, and so can its rows.

    Attributes:
        layout: what the columns hold; the list is written as a table for as long as its rows are as it says.
    """

    def __init__(self, rows: Column, layout: Layout) -> None:
        super().__init__(rows)
        self.layout = layout


class RawPlans(Plans):
    """Plans that read every value of a user's class as a :class:`RawValue`."""

    def __init__(self) -> None:
        super().__init__(_OWN)
        for code in _KINDS:
            self.by_code[code] = self._raw_builder(code, self.by_code.get(code))

    def _raw_builder(self, code: int, build_own: Callable[[Parts], Any] | None) -> Callable[[Parts], Any]:
        kind = _KINDS[code]

        def build(parts: Parts) -> Any:
            if kind in _NAMELESS:
                return RawValue("", *parts, kind=kind)
            name, *rest = parts
            if not isinstance(name, str):
                raise TypeError(f"a {type(name).__name__} stands where the name of a class should")
            if build_own and _OWN.named(name) is not None:
                return build_own(parts)
            return RawValue(name, *rest, kind=kind)

        return build

    def _build_table(self, parts: Parts) -> Any:
        count, layout, data = parts
        return RawTable(rows_of(layout, data, count, self._build_rows), layout)

    def _build_rows(self, code: int, name: str, names: list[str], columns: list[Column], count: int) -> Column:
        build = self.by_code[code]
        return [build([name, dict(zip(names, row, strict=True))]) for row in zip(*columns, strict=True)]


def _take(value: RawValue) -> Parts:
    return value.parts if value.kind in _NAMELESS else [value.name, *value.parts]


def _step(index: int, parts: Parts) -> str:
    return "" if index < 2 else step_of_key(index)


def raw_shape(kind: str) -> Shape:
    """Return how raw values of a kind are written."""
    return Shape(_CODES[kind], _take, list, _step)


def table_parts(rows: Column, layout: Any, write: Callable[[Any], Any]) -> Any:
    """Return the column of rows as a layout has it.

    Args:
        rows: the values of the column.
        layout: what it should hold.
        write: writes a single value.

    Raises:
        ValueError: the rows are not, or not any more, as the layout says.
    """
    if layout is None:
        return [write(value) for value in rows]
    if len(layout) == 1:
        if not all(type(value) is list for value in rows):
            raise ValueError
        lengths, items = joined_lists(rows)
        return [lengths, table_parts(items, layout[0], write)]
    code, name, names, layouts = layout
    stored = [_stored(row) for row in rows]
    if not all(head == (code, name) and list(fields) == names for head, fields in stored):
        raise ValueError
    columns = [[fields[each] for _, fields in stored] for each in names]
    return [table_parts(column, inner, write) for column, inner in zip(columns, layouts, strict=True)]


def _stored(row: Any) -> tuple[tuple[int, str], dict[str, Any]]:
    """Return code, name and fields of a record that holds no more than its fields; a struct of a checkpoint is one too."""
    if type(row) is RawValue:
        code, parts = _CODES[row.kind], _take(row)
    else:
        shape = _OWN_PLANS.of_class(type(row))
        if shape is None or shape.table is None:
            raise ValueError
        code, parts = shape.code, shape.take(row)
    if len(parts) != _NAME_AND_FIELDS or type(parts[1]) is not dict:
        raise ValueError
    return (code, parts[0]), parts[1]
