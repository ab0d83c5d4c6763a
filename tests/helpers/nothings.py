"""Values of each kind that says "nothing" while not being ``None``."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pydantic
import werkzeug.local
import wrapt

from blobcp import register, register_typed_none

__all__ = ["MAKERS", "Maybe", "Nothing", "Proxy", "Target", "Wrapped"]


class Proxy:
    """A transparent proxy as libraries write them: it gives the class of what it stands for."""

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "_target", target)

    @property
    def __class__(self) -> Any:
        """The class of the target."""
        return type(object.__getattribute__(self, "_target"))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_target"), name)

    def __eq__(self, other: object) -> bool:
        return bool(object.__getattribute__(self, "_target") == other)

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_target"))


class Target:
    """Something that a weak reference can point to."""

    def method(self) -> None:
        """Do nothing."""


class Wrapped(pydantic.RootModel[str | None]):
    """A model that is nothing but its root."""


class Nothing:
    """A user's own value for nothing."""


class NothingInParticular(Nothing):
    """A subclass of it."""


class Maybe:
    """A user's own value that may hold something."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


register(Wrapped)
register_typed_none(Nothing, lambda value: True)
register_typed_none(Maybe, lambda value: value.value is None)


def dead_reference() -> Any:
    """Return a weak reference whose target is gone."""
    return weakref.ref(Target())


MAKERS: dict[str, Callable[[], Any]] = {
    "msgspec.UNSET": lambda: msgspec.UNSET,
    "a dead weakref": dead_reference,
    "a dead method reference": lambda: weakref.WeakMethod(Target().method),
    "a dead weak proxy": lambda: weakref.proxy(Target()),
    "a NULL function pointer": lambda: ctypes.CFUNCTYPE(None)(),
    "a NULL void pointer": lambda: ctypes.c_void_p(None),
    "a NULL char pointer": lambda: ctypes.c_char_p(None),
    "a NULL wchar pointer": lambda: ctypes.c_wchar_p(None),
    "a NULL pointer to int": lambda: ctypes.POINTER(ctypes.c_int)(),
    "a hand-written proxy": lambda: Proxy(None),
    "a wrapt proxy": lambda: wrapt.ObjectProxy(None),
    "a werkzeug proxy": lambda: werkzeug.local.LocalProxy(lambda: None),
    "a 0-d object array": lambda: np.array(None, dtype=object),
    "a root model": lambda: Wrapped(None),
    "a registered class": Nothing,
    "its subclass": NothingInParticular,
    "a predicate that holds": Maybe,
}
