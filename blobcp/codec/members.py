"""How enum members, exceptions, values of foreign classes and dicts with a factory are stored.

What they share: a name in their parts leads to a class, and only to one that was registered or is built in.
"""

from __future__ import annotations

import builtins
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum, Flag
from typing import Any

from blobcp.codec.kinds import Kind, qualified_name, slots_of, slots_set
from blobcp.codec.paths import step_of_index
from blobcp.codec.records import set_attributes
from blobcp.codec.registry import Entry, Registry
from blobcp.codec.shape import CODES, LoadProblem, Parts, Refusal, Shape, no_step
from blobcp.codec.values import step_of_pair

__all__ = ["BUILTIN_EXCEPTIONS", "codec_shape", "default_dict_shape", "enum_shape", "exception_shape"]

BUILTIN_EXCEPTIONS: dict[str, type[BaseException]] = {
    qualified_name(cls): cls
    for cls in vars(builtins).values()
    if isinstance(cls, type) and issubclass(cls, BaseException)
}
"""The exceptions that every program has, by the name they are stored under."""

_FACTORIES: dict[str, Callable[[], Any]] = {
    cls.__name__: cls
    for cls in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict),
        *(deque, Counter, OrderedDict),
    )
}
_FACTORY_NAMES = {factory: name for name, factory in _FACTORIES.items()}
_NO_FACTORY, _BUILTIN_FACTORY, _REGISTERED_FACTORY = range(3)


def enum_shape(cls: type[Enum], name: str) -> Shape:
    """Store a member by its name; a flag, which may combine several, by its value."""
    if issubclass(cls, Flag):
        return Shape(CODES[Kind.ENUM], lambda member: [name, member.value], lambda parts: cls(parts[1]), no_step)
    members = cls.__members__

    def take(member: Enum) -> Parts:
        if members.get(member.name) is not member:
            raise Refusal(f"this member is not one of those that {qualified_name(cls)} declares; declare it there")
        return [name, member.name]

    def build(parts: Parts) -> Enum:
        if parts[1] not in members:
            raise LoadProblem(
                f"{qualified_name(cls)} has no member {parts[1]!r} any more; keep the old name as an alias of the new "
                "member or migrate the checkpoint"
            )
        return members[parts[1]]

    return Shape(CODES[Kind.ENUM], take, build, no_step)


def exception_shape(cls: type[BaseException], name: str) -> Shape:
    """Store an exception by its arguments and attributes, notes included; traceback, cause and context are left out.

    It is restored by the built-in class below it, so that an ``__init__`` of the user's does not run.
    """
    below = next(base for base in cls.__mro__ if base in _BUILTIN_EXCEPTION_SET)
    slots = slots_of(cls)

    def take(error: BaseException) -> Parts:
        attributes = slots_set(error, slots)
        attributes.update(vars(error))
        if isinstance(error, ImportError | NameError | AttributeError):
            attributes.update({each: item for each in ("name", "path") if (item := getattr(error, each, None))})
        return [name, list(_arguments(error)), attributes]

    def build(parts: Parts) -> BaseException:
        _, arguments, attributes = parts
        error = below.__new__(cls, *arguments)
        below.__init__(error, *arguments)
        set_attributes(error, attributes)
        return error

    return Shape(CODES[Kind.EXCEPTION], take, build, lambda index, _: ".args" if index == 1 else "")


_BUILTIN_EXCEPTION_SET = frozenset(BUILTIN_EXCEPTIONS.values())


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Return what the constructor was given; an ``OSError`` keeps its file names apart from ``args``."""
    if isinstance(error, OSError) and error.filename is not None and len(error.args) == 2:
        more = () if error.filename2 is None else (None, error.filename2)
        return (*error.args, error.filename, *more)
    return error.args


def codec_shape(entry: Entry, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Shape:
    """Store a value as what its codec makes of it."""

    def take(value: Any) -> Parts:
        try:
            return [entry.name, encode(value)]
        except Exception as problem:  # the codec is the user's
            raise Refusal(
                f"the codec of {entry.name} failed with {type(problem).__name__}: {problem}; correct its encode"
            ) from problem

    return Shape(CODES[Kind.CODEC], take, lambda parts: decode(parts[1]), no_step)


def default_dict_shape(registry: Registry) -> Shape:
    """Store a ``defaultdict`` with the name of its factory, which must be a built-in or registered class."""

    def take(value: defaultdict[Any, Any]) -> Parts:
        return [*_named(value), *(part for pair in value.items() for part in pair)]

    def _named(value: defaultdict[Any, Any]) -> tuple[int, str]:
        factory: Any = value.default_factory
        if factory is None:
            return _NO_FACTORY, ""
        if isinstance(factory, type) and factory in _FACTORY_NAMES:
            return _BUILTIN_FACTORY, _FACTORY_NAMES[factory]
        entry = registry.of(factory) if isinstance(factory, type) else None
        if entry is None:
            raise Refusal(
                f"the default_factory {getattr(factory, '__qualname__', factory)!s} can't be found again; use a "
                "built-in class such as list, int or dict, or register the class",
                picklable=True,
            ).within(".default_factory", value)
        return _REGISTERED_FACTORY, entry.name

    def _found(kind: int, name: str) -> Any:
        if kind == _NO_FACTORY:
            return None
        if kind == _BUILTIN_FACTORY:
            return _FACTORIES[name]
        entry = registry.named(name)
        if entry is None:
            raise LoadProblem(f"its default_factory {name!r} is not registered", unknown_name=name)
        return entry.cls

    def build(parts: Parts) -> defaultdict[Any, Any]:
        kind, name, *flat = parts
        return defaultdict(_found(kind, name), zip(flat[::2], flat[1::2], strict=True))

    def step(index: int, parts: Parts) -> str:
        return step_of_pair(index, parts) if index > 1 else step_of_index(index)  # two parts are before the pairs

    return Shape(14, take, build, step)
