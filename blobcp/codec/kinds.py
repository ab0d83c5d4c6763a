"""What kind a class is, and which fields it declares; the one place that knows dataclasses from structs from models.

Foreign kinds (pydantic, attrs) are recognised by the marks their libraries leave on a class, so that nothing here
imports them.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum, StrEnum
from functools import cached_property
from types import FunctionType
from typing import Any

import msgspec

from blobcp.codec.hints import arguments_of, hints_of

__all__ = [
    "Constant",
    "FieldSpec",
    "Kind",
    "fields_of",
    "is_automatic",
    "is_cached",
    "kind_of",
    "qualified_name",
    "slots_of",
    "slots_set",
    "told_apart",
]


class Kind(StrEnum):
    """How a class is taken apart. A class whose kind changes can't load what it wrote before."""

    DATACLASS = "dataclass"
    STRUCT = "msgspec struct"
    ATTRS = "attrs class"
    MODEL = "pydantic model"
    NAMED_TUPLE = "named tuple"
    ENUM = "enum"
    EXCEPTION = "exception"
    OBJECT = "plain class"
    CODEC = "class with a codec"


_PY_HEAP_TYPE = 1 << 9
_BASES_OF_OTHERS = frozenset({"abc", "builtins", "enum", "msgspec", "pydantic.main", "pydantic.root_model", "typing"})
_BASES_OF_PLAIN = _BASES_OF_OTHERS | {"collections.abc", "typing_extensions"}
_NOT_OF_USERS = sys.stdlib_module_names | {"blobcp"}
_RUNTIME_ATTRIBUTES = frozenset({"__dict__", "__weakref__"})


class FieldSpec(msgspec.Struct, frozen=True):
    """One declared field.

    Attributes:
        name: the attribute.
        annotation: its type, ``Any`` where unknown.
        default: makes the value for the given new object where a blob lacks the field; ``None`` if it is required.
    """

    name: str
    annotation: Any
    default: Callable[[Any], Any] | None


def qualified_name(cls: type[Any]) -> str:
    """Return ``module.qualname``."""
    return f"{cls.__module__}.{cls.__qualname__}"


def told_apart(argument: Any) -> str:
    """Return the qualified name of a class, with what tells it from others that have the same."""
    if not isinstance(argument, type):
        return str(argument)
    name, arguments = qualified_name(argument), arguments_of(argument)
    if arguments:
        return f"{name.partition('[')[0]}[{', '.join(map(told_apart, arguments))}]"
    return f"{name}({', '.join(hints_of(argument))})" if argument.__module__ == "types" else name


def kind_of(cls: type[Any]) -> Kind | None:
    """Return the kind of a class, or ``None`` where its fields can't be known."""
    if cls.__module__ in _BASES_OF_OTHERS:
        return None
    if issubclass(cls, Enum):
        return Kind.ENUM
    if issubclass(cls, BaseException):
        return Kind.EXCEPTION
    if issubclass(cls, msgspec.Struct):
        return Kind.STRUCT
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults"):
        return Kind.NAMED_TUPLE
    return _kind_of_plain(cls) if _is_plain(cls) else None


def is_automatic(cls: type[Any]) -> bool:
    """Tell whether an annotation is enough to register a class.

    A plain class is left to the user where the standard library or this one wrote it or a base of it: its attributes
    need not be all there is (a thread, a logger, a pool).
    """
    kind = kind_of(cls)
    if kind is not Kind.OBJECT:
        return kind is not None
    modules = {base.__module__ for base in cls.__mro__} - _BASES_OF_PLAIN
    return _NOT_OF_USERS.isdisjoint(module.partition(".")[0] for module in modules)


def _kind_of_plain(cls: type[Any]) -> Kind | None:
    if hasattr(cls, "__pydantic_private__") and hasattr(cls, "model_fields"):
        return Kind.MODEL
    if hasattr(cls, "__attrs_attrs__") and "__dataclass_fields__" not in vars(cls):
        return Kind.ATTRS
    if dataclasses.is_dataclass(cls):
        return Kind.DATACLASS
    has_attributes = bool(cls.__dictoffset__ or slots_of(cls))
    return Kind.OBJECT if has_attributes else None


def _is_plain(cls: type[Any]) -> bool:
    """Tell whether ``object`` is the only class written in C below it, so that attributes are all there is."""
    lowest = next(base for base in cls.__mro__ if not base.__flags__ & _PY_HEAP_TYPE)
    return lowest is object


def slots_of(cls: type[Any]) -> tuple[str, ...]:
    """Return the attribute names of all ``__slots__`` of a class and its bases, without those of cached properties."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        declared = vars(base).get("__slots__", ())
        for name in (declared,) if isinstance(declared, str) else tuple(declared):
            hidden = name.startswith("__") and not name.endswith("__")
            names[f"_{base.__name__.lstrip('_')}{name}" if hidden else name] = None
    return tuple(name for name in names if name not in _RUNTIME_ATTRIBUTES and not is_cached(cls, name))


def slots_set(value: Any, slots: tuple[str, ...]) -> dict[str, Any]:
    """Return what the given slots of a value hold; a ``__getattr__`` of its class is not asked for those that don't."""
    found = {}
    for name in slots:
        with suppress(AttributeError):
            found[name] = object.__getattribute__(value, name)
    return found


def is_cached(cls: type[Any], name: str) -> bool:
    """Tell whether an attribute holds what a ``cached_property`` computed, which a restored object computes again."""
    return any(
        isinstance(vars(base).get(name), cached_property) or name in _cached_by_attrs(base) for base in cls.__mro__
    )


def _cached_by_attrs(cls: type[Any]) -> Collection[str]:
    """Return the cached properties of an attrs class with slots: attrs replaces them by slots and a ``__getattr__``."""
    getter = vars(cls).get("__getattr__")
    if "__attrs_attrs__" not in vars(cls) or not isinstance(getter, FunctionType):
        return ()
    cached = inspect.signature(getter).parameters.get("cached_properties")
    return cached.default if cached else ()


def fields_of(cls: type[Any], kind: Kind) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a class in order; a plain class declares none."""
    find = _FINDERS.get(kind)
    return find(cls, hints_of(cls)) if find else ()


class Constant(msgspec.Struct, frozen=True):
    """A default that is one object, the same for all."""

    value: Any

    def __call__(self, owner: Any) -> Any:
        """Return it."""
        return self.value


def _calling(factory: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda _: factory()


def _dataclass_fields(cls: type[Any], hints: dict[str, Any]) -> tuple[FieldSpec, ...]:
    def default(field: dataclasses.Field[Any]) -> Callable[[Any], Any] | None:
        if field.default_factory is not dataclasses.MISSING:
            return _calling(field.default_factory)
        return None if field.default is dataclasses.MISSING else Constant(field.default)

    return tuple(FieldSpec(field.name, hints.get(field.name, Any), default(field)) for field in dataclasses.fields(cls))


def _struct_fields(cls: type[Any], hints: dict[str, Any]) -> tuple[FieldSpec, ...]:
    def default(raw: Any) -> Callable[[Any], Any] | None:
        if raw is msgspec.NODEFAULT:
            return None
        return _calling(raw.factory) if type(raw).__name__ == "Factory" else Constant(raw)

    names = cls.__struct_fields__
    defaults = cls.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + tuple(defaults)
    return tuple(FieldSpec(name, hints.get(name, Any), default(raw)) for name, raw in zip(names, padded, strict=True))


def _attrs_fields(cls: type[Any], hints: dict[str, Any]) -> tuple[FieldSpec, ...]:
    def default(raw: Any) -> Callable[[Any], Any] | None:
        if type(raw).__name__ == "_Nothing":
            return None
        if type(raw).__name__ != "Factory":
            return Constant(raw)
        factory: Callable[..., Any] = raw.factory
        return factory if raw.takes_self else _calling(factory)

    return tuple(FieldSpec(each.name, hints.get(each.name, Any), default(each.default)) for each in cls.__attrs_attrs__)


def _model_fields(cls: type[Any], hints: dict[str, Any]) -> tuple[FieldSpec, ...]:
    def default(info: Any) -> Callable[[Any], Any] | None:
        if info.is_required():
            return None
        return lambda model: info.get_default(call_default_factory=True, validated_data=vars(model))

    return tuple(FieldSpec(name, hints.get(name, Any), default(info)) for name, info in cls.model_fields.items())


def _named_tuple_fields(cls: type[Any], hints: dict[str, Any]) -> tuple[FieldSpec, ...]:
    def default(name: str) -> Callable[[Any], Any] | None:
        return Constant(cls._field_defaults[name]) if name in cls._field_defaults else None

    return tuple(FieldSpec(name, hints.get(name, Any), default(name)) for name in cls._fields)


_FINDERS: dict[Kind, Callable[[type[Any], dict[str, Any]], tuple[FieldSpec, ...]]] = {
    Kind.DATACLASS: _dataclass_fields,
    Kind.STRUCT: _struct_fields,
    Kind.ATTRS: _attrs_fields,
    Kind.MODEL: _model_fields,
    Kind.NAMED_TUPLE: _named_tuple_fields,
}
