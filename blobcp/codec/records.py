"""How values of registered classes are stored, one plan per class: taken apart and put together without ``__init__``.

The parts of such a value are its class's name, a dict of its declared fields, and, only where there are any, a dict of
further attributes that it was given. Declared fields are checked against their annotations on the way out, so that a
value which could not be used after loading never gets into a blob.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from blobcp.codec.conforms import check_of, describe
from blobcp.codec.kinds import FieldSpec, Kind, fields_of, is_cached, qualified_name, slots_of
from blobcp.codec.shape import LoadProblem, Parts, Refusal, Shape, no_step

__all__ = ["FieldsPlan", "record_shape"]

_CODES = {Kind.DATACLASS: 32, Kind.STRUCT: 33, Kind.ATTRS: 34, Kind.MODEL: 35, Kind.OBJECT: 36, Kind.NAMED_TUPLE: 37}
_NOT_STATE = frozenset({"__orig_class__"})
_MOST_SIGNATURES = 256

Fields = dict[str, Any]
Pending = tuple[tuple[int, Callable[[Any], bool]], ...]


class FieldsPlan:
    """The declared fields of a class: read, checked, and completed on load.

    Attributes:
        names: the fields, in order.
    """

    def __init__(self, cls: type[Any], kind: Kind, name: str) -> None:
        self.cls = cls
        self.name = name
        self.specs = fields_of(cls, kind)
        self.names = tuple(spec.name for spec in self.specs)
        self.known = frozenset(self.names)
        self._checks = [None if kind is Kind.MODEL else check_of(spec.annotation) for spec in self.specs]
        self._pending: dict[tuple[type[Any], ...], Pending] = {}
        self._get = _getter(self.names)

    def read(self, value: Any) -> Fields:
        """Return the fields of a value that conform to their annotations; an unset one is left out.

        Raises:
            Refusal: a field surely contradicts its annotation.
        """
        try:
            values = self._get(value)
        except AttributeError:
            return self._read_what_is_set(value)
        self.check(values, value)
        return dict(zip(self.names, values, strict=True))

    def check(self, values: tuple[Any, ...], holder: Any) -> None:
        """Refuse values that contradict their annotations; the classes alone decide in most cases."""
        types = tuple(map(type, values))
        pending = self._pending.get(types)
        if pending is None:
            pending = self._decide(types, values, holder)
        for index, test in pending:
            if not test(values[index]):
                raise self._contradiction(self.specs[index], values[index], holder)

    def _decide(self, types: tuple[type[Any], ...], values: tuple[Any, ...], holder: Any) -> Pending:
        open_fields = []
        for index, (check, cls) in enumerate(zip(self._checks, types, strict=True)):
            verdict = True if check is None else check.by_type(cls)
            if verdict is False:
                raise self._contradiction(self.specs[index], values[index], holder)
            if check is not None and verdict is None:
                open_fields.append((index, check.test))
        if len(self._pending) >= _MOST_SIGNATURES:
            self._pending.clear()
        self._pending[types] = tuple(open_fields)
        return self._pending[types]

    def _read_what_is_set(self, value: Any) -> Fields:
        fields = {name: getattr(value, name) for name in self.names if hasattr(value, name)}
        for spec, check in zip(self.specs, self._checks, strict=True):
            if spec.name in fields and check is not None and not check.test(fields[spec.name]):
                raise self._contradiction(spec, fields[spec.name], value)
        return fields

    def _contradiction(self, spec: FieldSpec, value: Any, holder: Any) -> Refusal:
        wanted = spec.annotation
        wanted = qualified_name(wanted) if isinstance(wanted, type) and not hasattr(wanted, "__origin__") else wanted
        return Refusal(
            f"expected {str(wanted).removeprefix('builtins.')}, found {describe(value)}; a {self.name} with it could "
            f"not be used after loading, so correct the value or the annotation of {spec.name!r}"
        ).within(f".{spec.name}", holder)

    def complete(self, fields: Fields, unset: Parts, owner: Any, put: Callable[[Any, Fields], None]) -> Fields:
        """Return the fields of a stored value as the class has them today.

        Args:
            fields: what the blob holds; what the class no longer has is dropped.
            unset: fields that were not set when the value was stored.
            owner: the new object, for defaults that look at it.
            put: sets fields on the owner.

        Raises:
            LoadProblem: a field is missing and has no default.
        """
        if fields.keys() == self.known:
            return fields
        stored = {name: fields[name] for name in self.names if name in fields}
        put(owner, stored)
        return stored | {
            spec.name: self._default(spec, owner)
            for spec in self.specs
            if spec.name not in stored and spec.name not in unset
        }

    def _default(self, spec: FieldSpec, owner: Any) -> Any:
        if spec.default is None:
            raise LoadProblem(
                f"a stored {self.name} lacks the field {spec.name!r}, which {qualified_name(self.cls)} now has without "
                "a default; give it a default or migrate the checkpoint"
            )
        return spec.default(owner)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda value: ()
    if len(names) == 1:
        (name,) = names
        return lambda value: (getattr(value, name),)
    get: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
    return get


def record_shape(cls: type[Any], kind: Kind, name: str) -> Shape:
    """Return how a registered class with fields is stored."""
    plan = FieldsPlan(cls, kind, name)
    take, build = _WAYS[kind](plan)
    return Shape(_CODES[kind], take, build, no_step)


Ways = tuple[Callable[[Any], Parts], Callable[[Parts], Any]]


def _object_ways(plan: FieldsPlan) -> Ways:
    """Dataclasses, attrs classes and plain classes: attributes in a ``__dict__``, in slots, or both."""
    further = _further_attributes(plan)
    put = _putter(plan)
    cls = plan.cls
    read = plan.read
    name = plan.name
    count = len(plan.names)

    def take(value: Any) -> Parts:
        fields = read(value)
        more = further(value)
        if len(fields) < count:
            return [name, fields, more, [each for each in plan.names if each not in fields]]
        return [name, fields, more] if more else [name, fields]

    def build(parts: Parts) -> Any:
        value = object.__new__(cls)
        unset = parts[3] if len(parts) > 3 else []
        put(value, plan.complete(parts[1], unset, value, put))
        if len(parts) > 2:
            set_attributes(value, parts[2])
        return value

    return take, build


def _putter(plan: FieldsPlan) -> Callable[[Any, Fields], None]:
    slotted = any(hasattr(_class_attribute(plan.cls, name), "__set__") for name in plan.names)
    if slotted or not plan.cls.__dictoffset__:
        return set_attributes

    return _put_in_dict


def _put_in_dict(value: Any, fields: Fields) -> None:
    value.__dict__.update(fields)


def _put_nowhere(value: Any, fields: Fields) -> None:
    """Do without an owner: structs and named tuples have no defaults that look at one."""


def _class_attribute(cls: type[Any], name: str) -> object:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def set_attributes(value: Any, attributes: Fields) -> None:
    """Set attributes past a class's own ``__setattr__``, which may refuse (frozen) or do more than set."""
    for name, item in attributes.items():
        object.__setattr__(value, name, item)


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
        for name in slots:
            if hasattr(value, name):
                more[name] = getattr(value, name)
        return more

    return further


def _struct_ways(plan: FieldsPlan) -> Ways:
    further = _further_attributes(plan)
    cls, name, read = plan.cls, plan.name, plan.read
    make = _struct_maker(cls)

    def take(value: Any) -> Parts:
        more = further(value)
        return [name, read(value), more] if more else [name, read(value)]

    def build(parts: Parts) -> Any:
        value = make(plan.complete(parts[1], [], None, _put_nowhere))
        for attribute, item in parts[2].items() if len(parts) > 2 else ():
            msgspec.structs.force_setattr(value, attribute, item)
        return value

    return take, build


def _struct_maker(cls: type[msgspec.Struct]) -> Callable[[Fields], Any]:
    """Return what makes a struct from its fields without running its ``__post_init__``.

    msgspec has no way past it. So the struct is made as one of a twin class, which has the same bases and slots and no
    ``__post_init__`` of its own, and then declared to be of the real class; Python refuses that unless both have the
    same layout. A base with a ``__post_init__`` leaves no way but the constructor.
    """
    if not hasattr(cls, "__post_init__"):
        return lambda fields: cls(**fields)
    config = cls.__struct_config__
    own = vars(cls).get("__slots__", ())
    if any(hasattr(base, "__post_init__") for base in cls.__bases__):
        return lambda fields: cls(**fields)
    twin = msgspec.defstruct(
        cls.__name__,
        [(name, Any) for name in own if name in cls.__struct_fields__],
        bases=cls.__bases__,
        kw_only=True,
        gc=config.gc,
        weakref=config.weakref,
        dict=config.dict,
    )

    def make(fields: Fields) -> Any:
        value = twin(**fields)
        msgspec.structs.force_setattr(value, "__class__", cls)
        return value

    return make


def _model_ways(plan: FieldsPlan) -> Ways:
    cls, name = plan.cls, plan.name

    def take(value: Any) -> Parts:
        given = value.__pydantic_fields_set__
        in_order = [each for each in plan.names if each in given] + sorted(given - plan.known)
        return [name, plan.read(value), in_order, value.__pydantic_extra__, _set_privates(value)]

    def build(parts: Parts) -> Any:
        _, fields, given, extra, private = parts
        model = object.__new__(cls)
        complete = plan.complete(fields, [], model, _put_in_dict)
        set_attributes(
            model,
            {
                "__dict__": complete,
                "__pydantic_fields_set__": {each for each in given if each in complete or each in (extra or ())},
                "__pydantic_extra__": (extra or {}) if cls.model_config.get("extra") == "allow" else None,
                "__pydantic_private__": _privates_today(cls, private or {}),
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
        if len(parts) > 2:
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
