"""All types that one state of a registry can store: class -> shape for writing, code and name -> shape for reading."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from blobcp.codec.arrays import ARRAY_SHAPES, array_shape
from blobcp.codec.cells import pickled_shape, refuse_pickle
from blobcp.codec.kinds import Kind, kind_of, qualified_name
from blobcp.codec.members import BUILTIN_EXCEPTIONS, codec_shape, default_dict_shape, enum_shape, exception_shape
from blobcp.codec.pickled import SignedPickles
from blobcp.codec.records import record_shape
from blobcp.codec.registry import Entry, Registry
from blobcp.codec.shape import CODES, PICKLED, LoadProblem, Parts, Shape
from blobcp.codec.tables import TABLE, Column, rows_of
from blobcp.codec.values import BIG_INT, PAIRS, STANDARD_SHAPES, SURROGATE_TEXT

__all__ = ["Plans"]

_KINDS = {code: kind for kind, code in CODES.items()}


class Plans:
    """The shapes for one version of a registry; a changed registry needs new plans."""

    def __init__(self, registry: Registry, pickles: SignedPickles | None = None) -> None:
        """Prepare.

        Args:
            registry: the classes.
            pickles: how values of other classes are stored, if they can be.
        """
        self.registry = registry
        self.version = registry.version
        self.pickled = pickled_shape(pickles) if pickles else None
        self._lock = threading.Lock()
        self._by_class: dict[type[Any], Shape] = {**STANDARD_SHAPES, defaultdict: default_dict_shape(registry)}
        self._by_name: dict[str, Shape] = {}
        self.by_code: dict[int, Callable[[Parts], Any]] = {
            shape.code: shape.build for shape in (BIG_INT, SURROGATE_TEXT, PAIRS, *self._by_class.values())
        }
        self.by_code.update({code: self._build_named(code) for code in _KINDS})
        self.by_code[TABLE] = self._build_table
        self.by_code.update({shape.code: shape.build for shape in ARRAY_SHAPES})
        self.by_code[PICKLED] = self.pickled.build if self.pickled else refuse_pickle
        self._steps = {shape.code: shape.step for shape in (PAIRS, *self._by_class.values())}

    def of_class(self, cls: type[Any]) -> Shape | None:
        """Return how values of exactly this class are stored, or ``None`` where it is not registered."""
        shape = self._by_class.get(cls)
        if shape is None:
            entry = self.registry.of(cls) or _builtin_exception(cls)
            shape = self._remember(entry) if entry else array_shape(cls)
        return shape

    def step(self, code: int, index: int, parts: Parts) -> str:
        """Return the path step to a part of a stored value."""
        if code in _KINDS:
            return ".args" if _KINDS[code] is Kind.EXCEPTION and index == 1 else ""
        return self._steps[code](index, parts) if code in self._steps else ""

    def _remember(self, entry: Entry) -> Shape:
        with self._lock:
            shape = self._by_class.get(entry.cls)
            if shape is None:
                shape = self._by_class[entry.cls] = _shape_of(entry)
            return shape

    def _build_named(self, code: int) -> Callable[[Parts], Any]:
        by_name = self._by_name

        def build(parts: Parts) -> Any:
            shape = by_name.get(parts[0])
            if shape is None or shape.code != code:
                shape = self._found(code, parts[0])
            return shape.build(parts)

        return build

    def _build_table(self, parts: Parts) -> Any:
        count, layout, data = parts
        return rows_of(layout, data, count, self._build_rows)

    def _build_rows(self, code: int, name: str, names: list[str], columns: list[Column], count: int) -> Column:
        shape = self._found(code, name)
        if shape.table:
            return shape.table.build(names, columns, count)
        return [shape.build([name, dict(zip(names, row, strict=True))]) for row in zip(*columns, strict=True)]

    def _found(self, code: int, name: str) -> Shape:
        """Return the shape under a name, which has to be of the kind that it was stored as."""
        shape = self._by_name.get(name) or self._find(name)
        if shape.code != code:
            raise LoadProblem(
                f"{name} was stored as a {_KINDS[code]} and is registered as a "
                f"{_KINDS[shape.code]} now; register the class of the old kind under this name or migrate "
                "the checkpoint"
            )
        return shape

    def _find(self, name: object) -> Shape:
        if not isinstance(name, str):
            raise TypeError(f"a {type(name).__name__} stands where the name of a class should")
        entry = self.registry.named(name)
        if entry is None and name in BUILTIN_EXCEPTIONS:
            entry = Entry(name=name, cls=BUILTIN_EXCEPTIONS[name])
        if entry is None:
            raise LoadProblem(f"no class is registered under {name!r}", unknown_name=name)
        self._by_name[name] = shape = self.of_class(entry.cls) or self._remember(entry)
        return shape


def _builtin_exception(cls: type[Any]) -> Entry | None:
    name = qualified_name(cls)
    return Entry(name=name, cls=cls) if BUILTIN_EXCEPTIONS.get(name) is cls else None


def _shape_of(entry: Entry) -> Shape:
    if entry.encode is not None and entry.decode is not None:
        return codec_shape(entry, entry.encode, entry.decode)
    if BUILTIN_EXCEPTIONS.get(entry.name) is entry.cls:
        return exception_shape(entry.cls, entry.name)
    kind = kind_of(entry.cls)
    if kind is Kind.ENUM:
        return enum_shape(entry.cls, entry.name)
    if kind is Kind.EXCEPTION:
        return exception_shape(entry.cls, entry.name)
    assert kind is not None, "the registry refuses such classes"
    return record_shape(entry.cls, kind, entry.name)
