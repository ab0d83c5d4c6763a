"""How values of registered classes are stored, one plan per class: taken apart and put together without ``__init__``.

The parts of such a value are its class's name, a dict of its declared fields, and, only where there are any, a dict of
further attributes that it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from sys import intern
from types import MemberDescriptorType, new_class
from typing import Any

import msgspec

from blobcp.codec.columns import table_of
from blobcp.codec.fields import Fields, FieldsPlan
from blobcp.codec.kinds import Kind, is_cached, slots_of, slots_set
from blobcp.codec.shape import CODES, Parts, Shape, no_step

__all__ = ["record_shape", "set_attributes"]

_QUIET_BASES = ("builtins", "msgspec", "msgspec._core", "typing")
_NOT_STATE = frozenset({"__orig_class__"})
_CACHED_HASH = "_attrs_cached_hash"
"""Where attrs keeps a hash; it has to be there, and strings have another hash in another process."""

_NAME_AND_FIELDS = 2


def record_shape(cls: type[Any], kind: Kind, name: str) -> Shape:
    """Return how a registered class with fields is stored."""
    plan = FieldsPlan(cls, kind, name)
    take, build = _WAYS[kind](plan)
    return Shape(CODES[kind], take, build, no_step, table_of(plan, kind, build))


Ways = tuple[Callable[[Any], Parts], Callable[[Parts], Any]]


def _object_ways(plan: FieldsPlan) -> Ways:
    """Dataclasses, attrs classes and plain classes: attributes in a ``__dict__``, in slots, or both."""
    further = _further_attributes(plan)
    put = _putter(plan)
    cls, name, names = plan.cls, plan.name, plan.names
    read, check, check_stored = plan.read, plan.check, plan.check_stored
    only_in_dict = put is _put_in_dict and not slots_of(cls)

    def take(value: Any) -> Parts:
        if only_in_dict and tuple(value.__dict__) == names:  # the usual case needs no second dict
            fields = value.__dict__
            check(tuple(fields.values()), value)
            return [name, fields]
        fields, more = read(value), further(value)
        if len(fields) < len(names):
            return [name, fields, more, [each for each in names if each not in fields]]
        return [name, fields, more] if more else [name, fields]

    def build(parts: Parts) -> Any:
        value = object.__new__(cls)
        if len(parts) == _NAME_AND_FIELDS and tuple(parts[1]) == names:
            check_stored(tuple(parts[1].values()))
            put(value, parts[1])
            return value
        _, fields, more, unset = (*parts, {}, [])[:4]
        put(value, plan.complete(fields, unset, value, put))
        set_attributes(value, more)
        return value

    return take, build


def _putter(plan: FieldsPlan) -> Callable[[Any, Fields], None]:
    slotted = any(hasattr(_class_attribute(plan.cls, name), "__set__") for name in plan.names)
    if slotted or not plan.cls.__dictoffset__:
        return _put_declared

    return _put_in_dict


def _put_in_dict(value: Any, fields: Fields) -> None:
    value.__dict__.update(fields)


def _put_declared(value: Any, fields: Fields) -> None:
    """Set fields past a class's own ``__setattr__``, which may refuse (frozen) or do more than set.

    A field that the class declares as a descriptor of its own is set by that.
    """
    for name, item in fields.items():
        object.__setattr__(value, name, item)


def _put_nowhere(value: Any, fields: Fields) -> None:
    """Do without an owner: structs and named tuples have no defaults that look at one."""


def _class_attribute(cls: type[Any], name: str) -> object:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def set_attributes(value: Any, attributes: Fields) -> None:
    """Set attributes whose names stood in a blob: in slots or the ``__dict__``, so that no property's setter runs.

    Raises:
        AttributeError: there is no place for one.
    """
    cls = type(value)
    for name, item in attributes.items():
        slot = _slot(cls, name)
        if slot is not None:
            slot.__set__(value, item)
        elif cls.__dictoffset__:
            value.__dict__[intern(name)] = item
        else:
            raise AttributeError(f"a {cls.__qualname__} has no place for an attribute {name!r}")


def _slot(cls: type[Any], name: str) -> MemberDescriptorType | None:
    found = (vars(base).get(name) for base in cls.__mro__)
    return next((each for each in found if type(each) is MemberDescriptorType), None)


def _further_attributes(plan: FieldsPlan) -> Callable[[Any], Fields]:
    """Return what reads the attributes that are no declared fields, and that restoring would lose otherwise."""
    cls, known = plan.cls, plan.known
    slots = tuple(name for name in slots_of(cls) if name not in known)
    has_dict = bool(cls.__dictoffset__)

    def further(value: Any) -> Fields:
        more: Fields = {}
        if has_dict and not known.issuperset(value.__dict__):
            more = {
                name: item
                for name, item in value.__dict__.items()
                if name not in known and name not in _NOT_STATE and not is_cached(cls, name)
            }
        more.update(slots_set(value, slots))
        if _CACHED_HASH in more:
            more[_CACHED_HASH] = None
        return more

    return further


def _struct_ways(plan: FieldsPlan) -> Ways:
    further = _further_attributes(plan)
    cls, name, read = plan.cls, plan.name, plan.read_all
    make = _struct_maker(cls)

    def take(value: Any) -> Parts:
        more = further(value)
        return [name, read(value), more] if more else [name, read(value)]

    def build(parts: Parts) -> Any:
        value = make(plan.complete(parts[1], [], None, _put_nowhere))
        if len(parts) > _NAME_AND_FIELDS:
            set_attributes(value, parts[2])
        return value

    return take, build


def _struct_maker(cls: type[msgspec.Struct]) -> Callable[[Fields], Any]:
    """Return what makes a struct from its fields without running its ``__post_init__``, if it can be avoided."""
    if not hasattr(cls, "__post_init__"):
        return lambda fields: cls(**fields)
    blank = _blank_struct(cls)

    def make(fields: Fields) -> Any:
        value = cls(**fields) if blank is None else copy(blank)
        for name, item in fields.items():  # also where __post_init__ ran, since it may have changed them
            msgspec.structs.force_setattr(value, name, item)
        return value

    return make


def _blank_struct(cls: type[msgspec.Struct]) -> Any:
    """Return an instance to copy, or ``None`` where there is none without running the user's code.

    msgspec makes no struct without its ``__post_init__``. So one is made of a subclass that has an empty one, and is
    then declared to be of the class itself, which Python allows since both have the same layout.
    """
    if any("__init_subclass__" in vars(base) for base in cls.__mro__ if base.__module__ not in _QUIET_BASES):
        return None
    quiet = new_class(cls.__name__, (cls,), exec_body=lambda body: body.update(__post_init__=lambda self: None))
    blank = quiet(**dict.fromkeys(cls.__struct_fields__))
    msgspec.structs.force_setattr(blank, "__class__", cls)
    return blank


def _model_ways(plan: FieldsPlan) -> Ways:
    cls, name, names, known = plan.cls, plan.name, plan.names, plan.known

    def take(value: Any) -> Parts:
        fields = value.__dict__ if tuple(value.__dict__) == names else plan.read_all(value)
        given = value.__pydantic_fields_set__
        extra, private = value.__pydantic_extra__, _set_privates(value)
        if given == known and not extra and not private:
            return [name, fields]
        in_order = [each for each in names if each in given] + sorted(given - known)
        return [name, fields, in_order, extra or {}, private or {}]

    def build(parts: Parts) -> Any:
        _, fields, given, extra, private = parts if len(parts) > _NAME_AND_FIELDS else (*parts, parts[1], {}, {})
        model = object.__new__(cls)
        complete = plan.complete(fields, [], model, _put_in_dict)
        _put_declared(
            model,
            {
                "__dict__": complete,
                "__pydantic_fields_set__": {each for each in given if each in complete or each in extra},
                "__pydantic_extra__": extra if cls.model_config.get("extra") == "allow" else None,
                "__pydantic_private__": _privates_today(cls, private),
            },
        )
        return model

    return take, build


def _set_privates(model: Any) -> Fields | None:
    stored = model.__pydantic_private__
    if stored is None:
        return None
    return {name: item for name, item in stored.items() if type(item).__name__ != "PydanticUndefinedType"}


def _privates_today(cls: type[Any], stored: Fields) -> Fields | None:
    declared = cls.__private_attributes__
    if not declared:
        return None
    found = {name: stored.get(name, info.get_default()) for name, info in declared.items()}
    return {name: item for name, item in found.items() if type(item).__name__ != "PydanticUndefinedType"}


def _named_tuple_ways(plan: FieldsPlan) -> Ways:
    further = _further_attributes(plan)
    cls, name = plan.cls, plan.name

    def take(value: Any) -> Parts:
        plan.check(tuple(value), value)
        fields = dict(zip(plan.names, value, strict=True))
        more = further(value)
        return [name, fields, more] if more else [name, fields]

    def build(parts: Parts) -> Any:
        fields = plan.complete(parts[1], [], None, _put_nowhere)
        value = tuple.__new__(cls, [fields[each] for each in plan.names])
        if len(parts) > _NAME_AND_FIELDS:
            set_attributes(value, parts[2])
        return value

    return take, build


_WAYS: dict[Kind, Callable[[FieldsPlan], Ways]] = {
    Kind.DATACLASS: _object_ways,
    Kind.ATTRS: _object_ways,
    Kind.OBJECT: _object_ways,
    Kind.STRUCT: _struct_ways,
    Kind.MODEL: _model_ways,
    Kind.NAMED_TUPLE: _named_tuple_ways,
}
