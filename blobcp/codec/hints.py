"""What type annotations say: a class's resolved field annotations, and the classes an annotation mentions.

An annotation that can't be resolved (a name that is only imported for type checkers, a class inside a function) counts
as :data:`typing.Any`; nothing here raises because of one.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union
from weakref import WeakKeyDictionary

__all__ = [
    "alias_value",
    "arguments_of",
    "classes_in",
    "hints_of",
    "is_alias",
    "is_union",
    "same_definition",
    "unwrapped",
]

_WRAPPERS = frozenset({"ClassVar", "Final", "InitVar", "NotRequired", "ReadOnly", "Required"})


def same_definition(one: type[Any], other: type[Any]) -> bool:
    """Tell whether two classes are one class of the source, run twice.

    That is so after a module reload, for a notebook cell that runs again, for a class inside a function, and for a file
    that is both imported and run as ``__main__``.
    """
    if one is other:
        return True
    if one.__qualname__ != other.__qualname__ or not _same_arguments(arguments_of(one), arguments_of(other)):
        return False
    if _NOWHERE in (one.__module__, other.__module__):
        return _alike(one, other)
    return one.__module__ == other.__module__ or _file_of(one) == _file_of(other) is not None


_NOWHERE = "types"
"""The module of classes that were made by a call which left it open; so it says nothing about where that was."""


def arguments_of(cls: type[Any]) -> tuple[Any, ...]:
    """Return what a generic pydantic model was specialised with: a class of its own, named after the bare names."""
    arguments: tuple[Any, ...] = getattr(cls, "__pydantic_generic_metadata__", {}).get("args", ())
    return arguments


def _same_arguments(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(some) == len(others) and all(map(_same_argument, some, others))


def _same_argument(one: Any, other: Any) -> bool:
    if isinstance(one, type) and isinstance(other, type):
        return same_definition(one, other)
    some, others = typing.get_args(one), typing.get_args(other)
    if not some or typing.get_origin(one) is Literal:
        return bool(one == other)
    return typing.get_origin(one) == typing.get_origin(other) and _same_arguments(some, others)


def _alike(one: type[Any], other: type[Any]) -> bool:
    """Tell whether two classes declare the same, so that a value of one loses nothing as one of the other."""
    declared = vars(one).get("__annotations__")
    return bool(declared) and declared == vars(other).get("__annotations__") and one.__bases__ == other.__bases__


def _file_of(cls: type[Any]) -> str | None:
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


_known_hints: WeakKeyDictionary[type[Any], dict[str, Any]] = WeakKeyDictionary()


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class and its bases by name, resolved; what can't be resolved is ``Any``."""
    hints = _known_hints.get(cls)
    if hints is None:
        hints = _resolved_hints(cls)
        _known_hints[cls] = hints = hints | _hints_of_library(cls, hints)
    return hints


def _hints_of_library(cls: type[Any], hints: dict[str, Any]) -> dict[str, Any]:
    """Return what pydantic and attrs know better: a type variable's argument, and a type that is no annotation."""
    if getattr(cls, "__pydantic_complete__", False) and hasattr(cls, "model_fields"):
        return {name: info.annotation for name, info in cls.model_fields.items()}
    told = {each.name: each.type for each in getattr(cls, "__attrs_attrs__", ())}
    return {name: each for name, each in told.items() if name not in hints and not isinstance(each, str | None)}


def _resolved_hints(cls: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # an annotation is an expression of the user's and may raise anything
        return _hints_one_by_one(cls)


def _hints_one_by_one(cls: type[Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        module = sys.modules.get(base.__module__)
        scope = {base.__name__: base, **(vars(module) if module else {})}  # a class in a function may name itself
        hints.update({name: _resolved(raw, scope) for name, raw in _annotations_of(base).items()})
    return hints


def _annotations_of(cls: type[Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(cls)
    except NameError:  # Python 3.14 evaluates them here
        return {}


def _resolved(raw: object, scope: dict[str, Any]) -> Any:
    holder = _Holder()
    holder.__annotations__ = {"it": raw}
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)["it"]
    except Exception:  # as above
        return Any


class _Holder:
    """An object that only has annotations, which is what ``get_type_hints`` can resolve one at a time."""


def unwrapped(annotation: Any) -> Any:
    """Return the annotation without ``Annotated``, ``Final`` and the like, and new types and aliases as what they are.

    >>> unwrapped(Annotated[int, "positive"])
    <class 'int'>
    """
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            annotation = annotation.__origin__
        elif isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        elif getattr(origin, "_name", None) in _WRAPPERS:
            annotation = annotation.__args__[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif annotation is None:
            return type(None)
        else:
            return annotation


def is_union(annotation: Any) -> bool:
    """Tell whether an annotation is a union, in either spelling."""
    return typing.get_origin(annotation) in (Union, UnionType)


def alias_value(annotation: Any) -> Any:
    """Return what a ``type X = ...`` alias stands for, and ``Any`` where it can't be resolved."""
    try:
        return annotation.__value__
    except Exception:  # the alias is evaluated here and may raise anything
        return Any


def is_alias(annotation: Any) -> bool:
    """Tell whether an annotation is a ``type X = ...`` alias, of Python 3.12 or of typing_extensions."""
    return type(annotation).__name__ == "TypeAliasType"


def classes_in(annotation: Any) -> Iterator[type[Any]]:
    """Yield each class that an annotation mentions, once: through generics, unions, fields and base classes."""
    seen: set[int] = set()
    waiting: list[Any] = [annotation]
    keep: list[Any] = []  # an id is only good for as long as its object lives
    while waiting:
        current = unwrapped(waiting.pop())
        if id(current) in seen:
            continue
        seen.add(id(current))
        keep.append(current)
        if isinstance(current, type) and typing.get_origin(current) is None:
            yield current
        waiting.extend(_mentioned_by(current))


def _mentioned_by(annotation: Any) -> list[Any]:
    if is_alias(annotation):
        return [alias_value(annotation)]
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return [type(choice) for choice in annotation.__args__]
    if origin is not None:
        return [origin, *_flat(typing.get_args(annotation))]
    if isinstance(annotation, TypeVar):
        return [annotation.__bound__, *annotation.__constraints__]
    if isinstance(annotation, type) and not _is_builtin(annotation):
        bases = [*annotation.__bases__, *getattr(annotation, "__orig_bases__", ())]
        return [*bases, *arguments_of(annotation), *hints_of(annotation).values()]
    return []


def _flat(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, list):  # the parameters of a Callable
            yield from argument
        elif not isinstance(argument, str | ForwardRef):
            yield argument


def _is_builtin(cls: type[Any]) -> bool:
    return cls.__module__ in ("builtins", "typing", "collections.abc", "abc")
