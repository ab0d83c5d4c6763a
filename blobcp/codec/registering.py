"""How a program tells a registry of its classes: one by one, by a decorator, with a codec, or by annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from blobcp.codec.hints import classes_in
from blobcp.codec.kinds import is_automatic
from blobcp.codec.registry import Registry, default_registry
from blobcp.errors import RegistrationError

__all__ = ["register", "register_annotations", "register_codec", "serializable"]

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


def register(
    cls: type[Any], *, name: str | None = None, aliases: Iterable[str] = (), registry: Registry | None = None
) -> None:
    """Give a class a name, so that its values can be stored.

    A dataclass, msgspec struct, pydantic model, attrs class, enum or named tuple is stored by its fields, an exception
    by its arguments and attributes, any other Python class by its attributes. Restoring runs no ``__init__``.

    Args:
        cls: the class.
        name: its name in blobs; by default ``module.qualname``.
        aliases: names that it had before; blobs with them still load.
        registry: where; by default :data:`default_registry`.

    Raises:
        RegistrationError: a name is taken by another class, the class has another name, or it can't be stored.
    """
    (registry or default_registry).add(cls, name=name, aliases=aliases)


def serializable(
    name: str | None = None, *, aliases: Iterable[str] = (), registry: Registry | None = None
) -> Callable[[C], C]:
    """Make a decorator that registers a class; put it above ``@dataclass``.

    Args:
        name: its name in blobs; by default ``module.qualname``.
        aliases: names that it had before.
        registry: where; by default :data:`default_registry`.

    Raises:
        RegistrationError: as for :func:`register`, or the decorator was used without parentheses.

    >>> from dataclasses import dataclass
    >>> @serializable("doc.Point")
    ... @dataclass
    ... class Point:
    ...     x: int
    """
    if name is not None and not isinstance(name, str):
        raise RegistrationError(f'write @serializable("a.stable.name") above the class; {name!r} is not a name')

    def decorate(cls: C) -> C:
        register(cls, name=name, aliases=aliases, registry=registry)
        return cls

    return decorate


def register_codec(
    cls: type[T],
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    *,
    name: str | None = None,
    aliases: Iterable[str] = (),
    registry: Registry | None = None,
) -> None:
    """Say how values of a class are stored, for classes that are not yours or that need their own way.

    Args:
        cls: the class; its subclasses need their own codec.
        encode: turn a value into one that can be stored, such as a dict, list or str.
        decode: turn that into a value again.
        name: its name in blobs; by default ``module.qualname``.
        aliases: names that it had before.
        registry: where; by default :data:`default_registry`.

    Raises:
        RegistrationError: a name is taken by another class, or the class has another name.
    """
    (registry or default_registry).add(cls, name=name, aliases=aliases, encode=encode, decode=decode)


def register_annotations(annotation: Any, registry: Registry | None = None) -> None:
    """Register every class that a type annotation mentions and that :func:`register` takes.

    Plain classes of the standard library, and such that derive from one, are left out: they may live in one process. It
    looks into fields, base classes, generics, unions and ``Annotated``; what can't be resolved is left out.

    Args:
        annotation: a class or any other type annotation.
        registry: where; by default :data:`default_registry`.

    Raises:
        RegistrationError: the name of a class it found is taken by another class.
    """
    target = registry or default_registry
    for cls in classes_in(annotation):
        if is_automatic(cls):
            target.add(cls, automatic=True)
