"""Stable names for classes: what is written into a blob in place of a class, and the way back.

A name may only lead to a class that the running program registered beforehand; nothing here imports by name. A
registry is an object: :data:`default_registry` serves where none is given, others can be made and passed.

**Names.** A class has one name; it may have aliases, under which older blobs still load. One name for two classes, or
one class under two names, is a :class:`~blobcp.errors.RegistrationError`. Two exceptions keep daily work going:

* Classes with the same qualified name of the same module or source file count as one class that was defined again (a
  notebook cell, a module reload, a class inside a function, a file that is imported and also run as ``__main__``). The
  newest is used for loading; values of the older ones are still written, under the same name. Generic pydantic models
  with different arguments are not one class, nor are classes without a module that declare different fields.
* A name that was given because an annotation mentions the class yields to one that the user gives later, and stays as an alias.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from blobcp.checkpoint import Address, AddressSegment, Checkpoint, DagChannelState, InterruptState, PregelChannelState
from blobcp.codec.conforms import conforms
from blobcp.codec.hints import same_definition
from blobcp.codec.kinds import kind_of, qualified_name, told_apart
from blobcp.errors import RegistrationError

__all__ = ["Entry", "Registry", "default_registry"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a registry knows of a class.

    Attributes:
        name: the name it is written under.
        cls: the class.
        encode: for a foreign class, value -> plain value.
        decode: for a foreign class, plain value -> value.
        automatic: whether an annotation, and not the user, put it here.
    """

    name: str
    cls: type[Any]
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None
    automatic: bool = False


def _address_from(segments: list[list[str]]) -> Address:
    if not conforms(segments, list[list[str]]):
        raise TypeError("an address is a list of lists of texts")
    return Address.of(*segments)


_OWN_ENTRIES = (
    *(
        Entry(name=f"blobcp.{cls.__name__}", cls=cls)
        for cls in (Checkpoint, PregelChannelState, DagChannelState, InterruptState, AddressSegment)
    ),
    Entry(
        name="blobcp.Address",
        cls=Address,
        encode=lambda address: [list(segment) for segment in address],
        decode=_address_from,
    ),
)


class Registry:
    """Names and classes, safe to use from several threads. Every registry knows the structs of a checkpoint.

    >>> class Cart:
    ...     pass
    >>> registry = Registry()
    >>> registry.add(Cart, name="shop.Cart", aliases=["shop.Basket"])
    >>> registry.named("shop.Basket").cls is Cart
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_class: dict[type[Any], Entry] = {entry.cls: entry for entry in _OWN_ENTRIES}
        self._by_name: dict[str, Entry] = {entry.name: entry for entry in _OWN_ENTRIES}
        self._version = 0

    @property
    def version(self) -> int:
        """A number that grows with each change, so that what was derived from the registry can be kept until then."""
        return self._version

    def of(self, cls: type[Any]) -> Entry | None:
        """Return what is known of a class, or ``None``."""
        return self._by_class.get(cls)

    def named(self, name: str) -> Entry | None:
        """Return what is known under a name or alias, or ``None``."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return all names and aliases, sorted."""
        with self._lock:
            return sorted(self._by_name)

    def add(
        self,
        cls: type[Any],
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        automatic: bool = False,
    ) -> None:
        """Register a class; the module functions of this module do it for the usual cases.

        Args:
            cls: the class.
            name: its name; by default the one it has, or else ``module.qualname``.
            aliases: further names that lead to it on load.
            encode: turn a value into a plain one; together with ``decode``.
            decode: the way back.
            automatic: whether the name yields to one that is given later.

        Raises:
            RegistrationError: a name is taken by another class, the class has another name, or it can't be stored.
        """
        _check_arguments(cls, name, encode is not None)
        with self._lock:
            known = self._by_class.get(cls)
            entry = Entry(
                name=self._name_for(cls, name, known, automatic),
                cls=cls,
                encode=encode or (known.encode if known else None),
                decode=decode or (known.decode if known else None),
                automatic=automatic and (known is None or known.automatic),
            )
            led_here = [entry.name, *_checked_names(aliases)]
            for each in led_here:
                self._check_free(each, cls)
            self._put(entry, known, led_here)

    def _name_for(self, cls: type[Any], name: str | None, known: Entry | None, automatic: bool) -> str:
        if known is None:
            return name or qualified_name(cls)
        if automatic or name is None or name == known.name:
            return known.name
        if known.automatic:
            return name
        raise RegistrationError(
            f"{qualified_name(cls)} is registered as {known.name!r} and can't be {name!r} as well; "
            f"keep one name and give the other one in aliases"
        )

    def _check_free(self, name: str, cls: type[Any]) -> None:
        holder = self._by_name.get(name)
        if holder is not None and not same_definition(holder.cls, cls):
            raise RegistrationError(
                f"the name {name!r} belongs to {told_apart(holder.cls)} and can't be given to "
                f"{told_apart(cls)} as well; choose another name"
            )

    def _put(self, entry: Entry, known: Entry | None, names: list[str]) -> None:
        unchanged = entry == known and all(self._by_name.get(name) == entry for name in names)
        if unchanged:
            return
        replaced = {each.cls for name in names if (each := self._by_name.get(name)) is not None} | {entry.cls}
        for name, holder in list(self._by_name.items()):
            if holder.cls in replaced:
                self._by_name[name] = entry
        for name in names:
            self._by_name[name] = entry
        self._by_class[entry.cls] = entry
        self._version += 1

    def __reduce__(self) -> str | tuple[Any, ...]:
        # The default one stands for that of whichever process it comes to, where modules register their own classes.
        if self is default_registry:
            return "default_registry"
        added = {name: entry for name, entry in self._by_name.items() if entry not in _OWN_ENTRIES}
        return _registry_with, (added,)


def _registry_with(added: dict[str, Entry]) -> Registry:
    registry = Registry()
    registry._by_name.update(added)
    registry._by_class.update({entry.cls: entry for entry in added.values()})
    return registry


default_registry = Registry()
"""The registry that is used where none is given."""


def _checked_names(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise RegistrationError(f"aliases is the text {names!r}; give a list of names")
    checked = list(names)
    for name in checked:
        _check_name(name)
    return checked


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise RegistrationError(f"{name!r} is not a name; give non-empty printable text")


def _check_arguments(cls: object, name: str | None, has_codec: bool) -> None:
    if not isinstance(cls, type):
        raise RegistrationError(f"{cls!r} is not a class; register the class itself")
    if name is not None:
        _check_name(name)
    if not has_codec and kind_of(cls) is None and cls is not Address:
        raise RegistrationError(
            f"{qualified_name(cls)} has no fields that could be stored (it is built in, written in C, or derived from "
            "such a class); say how it is stored with register_codec"
        )
