"""Ready-made steps for values: renamed, added and dropped fields, renamed and moved classes, renamed enum members.

Each works on every value of the named class in a raw checkpoint, wherever it stands: states, channels, inputs, answers,
what interrupts ask and keep, at every depth and in nested graphs. The classes themselves need not be there any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any, Final

from blobcp.codec import Registry
from blobcp.codec.kinds import Kind, qualified_name
from blobcp.errors import OptionError

from . import values
from .values import Found, TypeName, found_in, names_of
from .work import Work, graphs_of

__all__ = [
    "Operation",
    "add_field",
    "drop_field",
    "map_enum_value",
    "move_type",
    "rename_field",
    "rename_type",
]


class _Missing:
    def __repr__(self) -> str:
        return "<no default>"


_MISSING: Final = _Missing()
_REGISTERED_FACTORY = 2
"""How a ``defaultdict`` is marked whose factory is a registered class."""


class Operation(ABC):
    """A ready-made step, for `Migrations.add`.

    Attributes:
        needs_raw: whether it works on raw checkpoints only, and so with serializers that can read such.
    """

    needs_raw = True

    @abstractmethod
    def apply(self, work: Work) -> None:
        """Change a checkpoint."""


def rename_field(type: TypeName, old: str, new: str) -> Operation:
    """Rename a field of a class; values that lack it stay as they are.

    Args:
        type: the class, or the name that it has in blobs. A name may be of a class that is gone.
        old: the field's name in blobs of the older version.
        new: its name from now on. A value that has both can't be migrated.

    Raises:
        OptionError: a name is none, or both are the same.
    """
    if old == new:
        raise OptionError(f"rename_field({type!r}, {old!r}, {new!r}) renames nothing; give two different names")
    return _RenameField(_type_name(type), _text("old", old), _text("new", new))


def add_field(
    type: TypeName, name: str, default: Any = _MISSING, *, default_factory: Callable[[], Any] | None = None
) -> Operation:
    """Give a class one more field; values that have it keep what they have.

    Args:
        type: as for `rename_field`.
        name: the new field.
        default: its value; each gets a copy.
        default_factory: makes the value, once for each.

    Raises:
        OptionError: there is no default, or both.
    """
    if (default is _MISSING) == (default_factory is None):
        raise OptionError(f"add_field({type!r}, {name!r}) needs either a default or a default_factory")
    make = default_factory if default_factory is not None else lambda: default
    return _AddField(_type_name(type), _text("name", name), make)


def drop_field(type: TypeName, name: str) -> Operation:
    """Take a field away from a class; it is reported how many values had it.

    Args:
        type: as for `rename_field`.
        name: the field.
    """
    return _DropField(_type_name(type), _text("name", name))


def rename_type(old: TypeName, new: TypeName) -> Operation:
    """Give the values of a class another name.

    Where the class itself is still there, an alias (``@serializable("new", aliases=["old"])``) does without a migration.

    Args:
        old: the name that the class has in blobs of the older version.
        new: the name that it is registered under now, or the class.
    """
    return _RenameType(_type_name(old), _type_name(new))


def move_type(cls: type[Any], from_module: str) -> Operation:
    """Follow a class without a name of its own to another module: such a class is stored as ``module.qualname``.

    Args:
        cls: the class, where it is now.
        from_module: the module that it was in.
    """
    if not isinstance(cls, type):
        raise OptionError(f"move_type({cls!r}) needs the class itself; use rename_type where it is gone")
    return _RenameType(f"{_text('from_module', from_module)}.{cls.__qualname__}", cls)


def map_enum_value(type: TypeName, mapping: Mapping[str | int | Enum, str | int | Enum]) -> Operation:
    """Rename members of an enum.

    Args:
        type: as for `rename_field`.
        mapping: the names of members (not their values), old ones to new; of a `Flag`, which is stored by its value, values.
            Members stand for their names.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise OptionError(f"map_enum_value({type!r}) needs a mapping of names of members, found {mapping!r}")
    return _MapEnumValue(_type_name(type), {_stored(old): _stored(new) for old, new in mapping.items()})


def _stored(member: str | int | Enum) -> str | int:
    if isinstance(member, Flag):
        value: int = member.value
        return value
    return member.name if isinstance(member, Enum) else member


def _type_name(target: TypeName) -> TypeName:
    if not isinstance(target, type) and not (isinstance(target, str) and target):
        raise OptionError(f"{target!r} is no type; give a class, or the name that it is stored under")
    return target


def _text(what: str, text: str) -> str:
    if not isinstance(text, str) or not text:
        raise OptionError(f"{what}={text!r} is no name; give non-empty text")
    return text


@dataclass(frozen=True)
class _OfType(Operation):
    """An operation on the values of one class."""

    type: TypeName

    def _found(self, work: Work) -> Iterator[tuple[tuple[str, ...], Found]]:
        """Yield, graph by graph, the values of the class."""
        names = names_of(self.type, work.registry)
        for path, graph in graphs_of(work.tree(raw=True)):
            found = found_in(graph)
            yield (
                path,
                Found(
                    [value for value in found.values if value.name in names],
                    [row for row in found.rows if row[1] in names],
                ),
            )


@dataclass(frozen=True)
class _RenameField(_OfType):
    old: str
    new: str

    def apply(self, work: Work) -> None:
        for path, found in self._found(work):
            for value in found.values:
                if not values.rename_field(value, self.old, self.new):
                    raise work.error(
                        f"can't rename the field {self.old!r} of a {value.name}, which has a field {self.new!r} already",
                        path,
                    )
            for row in found.rows:
                row[2] = [self.new if name == self.old else name for name in row[2]]


@dataclass(frozen=True)
class _AddField(_OfType):
    name: str
    make: Callable[[], Any]

    def apply(self, work: Work) -> None:
        for path, found in self._found(work):
            for value in found.values:
                if value.kind == Kind.ENUM or (value.kind == Kind.CODEC and type(value.parts[0]) is not dict):
                    raise work.error(f"can't add a field to a {value.name}, which is stored without fields", path)
                if not values.has_field(value, self.name):
                    values.add_field(value, self.name, work.copy(self._default(work, path)))
            for row in found.rows:
                if self.name not in row[2]:
                    row[2] = [*row[2], self.name]
                    row[3] = [*row[3], None]

    def _default(self, work: Work, path: tuple[str, ...]) -> Any:
        return work.call(lambda _: self.make(), None, f"the default of {self.name!r} for a value", path)


@dataclass(frozen=True)
class _DropField(_OfType):
    name: str

    def apply(self, work: Work) -> None:
        for path, found in self._found(work):
            for value in found.values:
                if values.has_field(value, self.name):
                    work.drop("field", f"{value.name}.{self.name}", path)
                values.drop_field(value, self.name)
            for row in found.rows:
                kept = [index for index, name in enumerate(row[2]) if name != self.name]
                if kept:  # a table has columns; records without a field are written one by one
                    row[2] = [row[2][index] for index in kept]
                    row[3] = [row[3][index] for index in kept]


@dataclass(frozen=True)
class _RenameType(Operation):
    old: TypeName
    new: TypeName

    def apply(self, work: Work) -> None:
        old, new = names_of(self.old, work.registry), _name_of(self.new, work.registry)
        for _, graph in graphs_of(work.tree(raw=True)):
            found = found_in(graph)
            for row in found.rows:
                if row[1] in old:
                    row[1] = new
            for value in found.values:
                if value.name in old:
                    value.name = new
                elif value.kind == "defaultdict" and value.parts[0] == _REGISTERED_FACTORY and value.parts[1] in old:
                    value.parts[1] = new


def _name_of(target: TypeName, registry: Registry) -> str:
    if isinstance(target, str):
        return target
    entry = registry.of(target)
    return entry.name if entry else qualified_name(target)


@dataclass(frozen=True)
class _MapEnumValue(_OfType):
    mapping: Mapping[str | int, str | int]

    def apply(self, work: Work) -> None:
        for _, found in self._found(work):
            for value in found.values:
                if value.kind == Kind.ENUM and value.parts[0] in self.mapping:
                    value.parts[0] = self.mapping[value.parts[0]]
