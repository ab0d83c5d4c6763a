"""Values that say "nothing" while not being ``None``, so that ``x is None`` misses them.

A checkpoint stores ``None`` in their place wherever they would be taken for a node's input. Libraries whose types are
recognised here are never imported for it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

import msgspec

__all__ = ["is_typed_none", "register_typed_none"]

T = TypeVar("T")

_lock = threading.Lock()
_predicates: dict[type[Any], Callable[[Any], bool]] = {}
_never = frozenset({NoneType, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset})


def register_typed_none(type: type[T], predicate: Callable[[T], bool]) -> None:
    """Say when a value of a class stands for nothing.

    Args:
        type: the class; subclasses are meant too.
        predicate: tells for a value of it whether it stands for nothing. A later call replaces an earlier one.

    >>> class Missing: ...
    >>> register_typed_none(Missing, lambda value: True)
    >>> is_typed_none(Missing())
    True
    """
    with _lock:
        _predicates[type] = predicate


def is_typed_none(value: Any) -> bool:
    """Tell whether a value says "nothing" while not being ``None``.

    Recognised are ``msgspec.UNSET``, a dead weak reference or proxy, a NULL ctypes pointer, a transparent proxy (wrapt,
    werkzeug) round ``None``, a 0-d numpy object array that holds ``None``, a pydantic ``RootModel`` whose root is
    ``None``, and what `register_typed_none` added.

    >>> is_typed_none(msgspec.UNSET), is_typed_none(None), is_typed_none("")
    (True, False, False)
    """
    if type(value) in _never:
        return False
    for base in type(value).__mro__:
        predicate = _predicates.get(base)
        if predicate is not None:
            return predicate(value)
    if _class_of(value) is None:
        return type(value) in weakref.ProxyTypes  # a dead one; another proxy may be asked elsewhere
    return any(check(value) for check in _checks)


def _is_unset(value: Any) -> bool:
    return value is msgspec.UNSET


def _is_dead_reference(value: Any) -> bool:
    return isinstance(value, weakref.ref) and value() is None


def _is_proxy_of_none(value: Any) -> bool:
    return _class_of(value) is NoneType


def _class_of(value: Any) -> object:
    """Return the class that a value says it has, or ``None`` for a proxy that has nothing to ask behind it now."""
    try:
        return value.__class__
    except Exception:
        return None


def _is_null_pointer(value: Any) -> bool:
    ctypes = sys.modules.get("ctypes")
    if ctypes is None:
        return False
    if isinstance(value, ctypes.c_void_p | ctypes.c_char_p | ctypes.c_wchar_p):
        return value.value is None
    return isinstance(value, ctypes._Pointer | ctypes._CFuncPtr) and not value


def _is_array_of_none(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return False
    return value.ndim == 0 and value.dtype == object and value.item() is None


def _is_empty_root_model(value: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.RootModel) and value.root is None


_checks = (_is_unset, _is_dead_reference, _is_proxy_of_none, _is_null_pointer, _is_array_of_none, _is_empty_root_model)
