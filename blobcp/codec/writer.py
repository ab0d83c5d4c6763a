"""From a value to bytes: a walk that turns what MessagePack lacks into extensions, and that names what can't be stored.

The walk is the price of exact types, so it looks at many values at once where it can: a dict whose values are all
plain is passed on as it is. No path is kept on the way in; a refusal collects it on the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec.msgpack import Ext

from blobcp.codec.kinds import Kind
from blobcp.codec.paths import step_of_index, step_of_key
from blobcp.codec.plain import LEAVES as _LEAVES
from blobcp.codec.plain import all_plain
from blobcp.codec.plans import Plans
from blobcp.codec.raw import RawTable, RawValue, raw_shape, table_parts
from blobcp.codec.refusals import error_of, foreign, too_deep
from blobcp.codec.shape import CODES, Refusal, Shape
from blobcp.codec.storable import advice_for
from blobcp.codec.table_writer import TableWriter
from blobcp.codec.tables import FEWEST_ROWS, TABLE
from blobcp.codec.values import BIG_INT, PAIRS, SURROGATE_TEXT

__all__ = ["Writer"]

Write = Callable[[Any, int], Any]

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_CAREFUL_LEAVES = _LEAVES - {int, str}
_ASKED_DEPTH = 9
_ROW_LEVELS = 4
_encode = msgspec.msgpack.Encoder().encode


K = TypeVar("K")


class _Ways(dict[K, Write]):
    """How each class is written, found when it is first met."""

    def __init__(self, find: Callable[[K], Write]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, cls: K) -> Write:
        way = self[cls] = self._find(cls)
        return way


class Writer:
    """Writes values of the types that some plans know. It keeps nothing of a value and may be used by many threads."""

    def __init__(self, plans: Plans, max_depth: int, *, careful: bool = False, in_table: bool = False) -> None:
        """Prepare.

        Args:
            plans: what can be stored.
            max_depth: how deep values may be nested, counted in what loading takes of the stack: a list or dict
                takes one level, another container two, a value of a registered class three.
            careful: whether each int and str is looked at, since one is more than MessagePack can hold.
            in_table: whether it writes what is in tables, where a refusal needs no path but has to come at once.
        """
        self._plans = plans
        self._max_depth = max_depth
        self._careful = careful
        self._leaves = _CAREFUL_LEAVES if careful else _LEAVES
        self._ways: _Ways[type[Any]] = _Ways(self._find)
        self._pairs = self._standard(PAIRS)
        self._ways.update(dict.fromkeys(_LEAVES, _as_it_is))
        self._ways.update({list: self._list, dict: self._dict})
        if careful:
            self._ways.update({int: _int, str: _str})
        self._plain = frozenset() if careful else _LEAVES | {list, dict}
        self._in_table = in_table
        inner = self if in_table else Writer(plans, max_depth, careful=careful, in_table=True)
        self._columns = TableWriter(plans, inner._ways, self._leaves, self._plain, max_depth)

    def write(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Raises:
            UnregisteredTypeError: a class in it is not registered; the message names the path to it.
            SerializationError: it holds itself, is nested too deeply, or contradicts an annotation.
            OverflowError, UnicodeEncodeError: it needs a careful writer.
        """
        try:
            return _encode(self._ways[type(value)](value, 1))
        except Refusal as refusal:
            raise error_of(refusal) from refusal.__cause__
        except (OverflowError, UnicodeEncodeError) as problem:
            if not self._careful:
                raise
            raise foreign(problem) from problem
        except Exception as problem:  # properties, codecs and dicts that change meanwhile are the user's
            raise foreign(problem) from problem

    def _list(self, value: list[Any], depth: int) -> Any:
        if depth > self._max_depth:
            raise too_deep(self._max_depth)
        types = set(map(type, value))
        if types <= self._leaves or self._is_plain(value, types, depth + 1):
            return value
        if len(types) == 1 and len(value) >= FEWEST_ROWS and (table := self._table(value, depth)):
            return table
        ways = self._ways
        out = value
        index = 0
        try:
            for index, item in enumerate(value):
                written = ways[type(item)](item, depth + 1)
                if written is not item:
                    if out is value:  # copied when the first item changes, since most lists need no copy
                        out = value.copy()
                    out[index] = written
        except Refusal as refusal:
            raise refusal.within(step_of_index(index), value) from refusal.__cause__
        except RecursionError:
            raise too_deep(self._max_depth).within(step_of_index(index), value) from None
        return out

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        if depth > self._max_depth:
            raise too_deep(self._max_depth)
        leaves = self._leaves
        if not (all(map(_is_plain_key, value)) if self._careful else leaves.issuperset(map(type, value))):
            return self._pairs(value, depth)
        items = list(value.values())
        if self._is_plain(items, set(map(type, items)), depth + 1):
            return value
        ways = self._ways
        out = value
        key: Any = None
        try:
            for key, item in value.items():
                cls = type(item)
                if cls not in leaves:
                    written = ways[cls](item, depth + 1)
                    if written is not item:
                        if out is value:  # as above
                            out = value.copy()
                        out[key] = written
        except Refusal as refusal:
            raise refusal.within(step_of_key(key), value) from refusal.__cause__
        except RecursionError:
            raise too_deep(self._max_depth).within(step_of_key(key), value) from None
        return out

    def _is_plain(self, items: list[Any], types: set[type[Any]], depth: int) -> bool:
        """Tell whether a container of such items can be passed on as it is, if that is cheap to know.

        Each container that says no has looked at all below it, so only the upper ones are asked.
        """
        if depth > _ASKED_DEPTH or not types <= self._plain:
            return False
        return all_plain(items, types, self._max_depth - depth + 1)

    def _table(self, value: list[Any], depth: int) -> Ext | None:
        """Write a list of records of one class, or return ``None`` if it is none or has to be looked at one by one."""
        try:
            stored = self._columns.of_records(value, depth + 1)
        except (Refusal, RecursionError) as problem:
            if self._in_table:
                raise Refusal("something in a table can't be stored") from problem
            return None  # so that the way to it is found
        return stored and Ext(TABLE, _encode([len(value), *stored]))

    def _raw_table(self, value: RawTable, depth: int) -> Any:
        if depth > self._max_depth:
            raise too_deep(self._max_depth)
        ways = self._ways
        try:
            data = table_parts(value, value.layout, lambda item: ways[type(item)](item, depth + _ROW_LEVELS))
        except (ValueError, Refusal):  # it was changed, or something in it has to be refused with its path
            return self._list(list(value), depth)
        return Ext(TABLE, _encode([len(value), value.layout, data]))

    def _find(self, cls: type[Any]) -> Write:
        if cls is RawValue:
            kinds: _Ways[str] = _Ways(lambda kind: self._standard(raw_shape(kind)))
            return lambda value, depth: kinds[value.kind](value, depth)
        if cls is RawTable:
            return self._raw_table
        shape = self._plans.of_class(cls) or self._plans.pickled
        if shape is None:
            advice = advice_for(cls, self._plans.registry)

            def refuse(value: Any, depth: int) -> Any:
                raise Refusal(advice, type=cls)

            return refuse
        return self._named(shape) if shape.code in _NAMED else self._standard(shape)

    def _standard(self, shape: Shape) -> Callable[[Any, int], Ext]:
        """Return what writes values of one type by their parts, whatever these are."""
        code, take, _, step, _ = shape
        leaves, ways, max_depth = self._leaves, self._ways, self._max_depth
        pickled = self._plans.pickled

        def write(value: Any, depth: int) -> Ext:
            if depth > max_depth:
                raise too_deep(max_depth)
            try:
                parts = take(value)
            except Refusal as refusal:
                if pickled is None or not refusal.picklable:
                    raise
                return Ext(pickled.code, _encode(pickled.take(value)))
            if leaves.issuperset(map(type, parts)):
                return Ext(code, _encode(parts))
            out: list[Any] = []
            try:
                for part in parts:
                    out.append(ways[type(part)](part, depth + 2))  # its length is the failing index
            except Refusal as refusal:
                raise refusal.within(step(len(out), parts), value) from refusal.__cause__
            except RecursionError:
                raise too_deep(max_depth).within(step(len(out), parts), value) from None
            return Ext(code, _encode(out))

        return write

    def _named(self, shape: Shape) -> Callable[[Any, int], Ext]:
        """Return what writes values of a registered class; most of them are a name and a dict of fields."""
        code, take, *_ = shape
        leaves, in_general = self._leaves, self._standard(shape)
        max_depth, write_dict = self._max_depth, self._dict
        prefixes: dict[str, bytes] = {}

        def write(value: Any, depth: int) -> Ext:
            if depth > max_depth:
                raise too_deep(max_depth)
            parts = take(value)
            if len(parts) != _NAME_AND_FIELDS or type(parts[1]) is not dict:
                return in_general(value, depth)
            name, fields = parts
            prefix = prefixes.get(name) or prefixes.setdefault(name, _START_OF_PAIR + _encode(name))
            if leaves.issuperset(map(type, fields.values())):
                return Ext(code, prefix + _encode(fields))
            try:
                return Ext(code, prefix + _encode(write_dict(fields, depth + 2)))
            except Refusal as refusal:
                raise refusal.within("", value) from refusal.__cause__
            except RecursionError:
                raise too_deep(max_depth).within("", value) from None

        return write


_NAMED = frozenset(CODES.values()) - {CODES[Kind.CODEC]}
"""What is written as a name and a dict whose keys are names. What a codec makes may be a dict with any keys."""
_NAME_AND_FIELDS = 2
_START_OF_PAIR = b"\x92"
"""How MessagePack begins an array of two."""


def _as_it_is(value: Any, depth: int) -> Any:
    return value


def _int(value: int, depth: int) -> Any:
    return value if _MIN_INT <= value <= _MAX_INT else Ext(BIG_INT.code, _encode(BIG_INT.take(value)))


def _str(value: str, depth: int) -> Any:
    return value if _is_utf8(value) else Ext(SURROGATE_TEXT.code, _encode(SURROGATE_TEXT.take(value)))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain_key(key: Any) -> bool:
    """Tell whether MessagePack can hold a key as it is."""
    cls = type(key)
    if cls is str:
        return _is_utf8(key)
    return _MIN_INT <= key <= _MAX_INT if cls is int else cls in _LEAVES
