"""What steps are defined with, checked where it is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from blobcp.errors import OptionError

__all__ = ["checked_function", "checked_name", "checked_path", "checked_version", "node_key"]

_RESERVED: Final = ("start", "end")
"""The keys that stand for where a graph's input comes in and its output goes out."""


def checked_version(what: str, version: int, least: int = 1) -> int:
    """Return a version.

    Raises:
        OptionError: it is none, or below the least there can be.
    """
    if type(version) is not int or version < least:
        raise OptionError(f"{what}={version!r} is no version; give an int of at least {least}")
    return version


def checked_name(what: str, name: str | None) -> str | None:
    """Return a name, or ``None`` for none.

    Raises:
        OptionError: it is something else.
    """
    if name is not None and not isinstance(name, str):
        raise OptionError(f"{what}={name!r} is no name; give text")
    return name


def checked_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that can be a step.

    Raises:
        OptionError: it is none, or would have to be awaited.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise OptionError(f"{function!r} can't be a step; give a plain function of one value")
    return function


def checked_path(path: Iterable[str]) -> tuple[str, ...]:
    """Return a path to a nested graph as it is compared.

    Raises:
        OptionError: it is none.
    """
    if isinstance(path, str) or not isinstance(path, Iterable):
        raise OptionError(f"path={path!r} is no path; give the keys of the nodes on the way, such as ({path!r},)")
    return tuple(map(node_key, path))


def node_key(key: str, allowed: str = "") -> str:
    """Return the key of a node.

    Args:
        key: the key.
        allowed: a reserved key that may stand here too.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(key, str) or not key:
        raise OptionError(f"{key!r} is no node key; give non-empty text")
    if key in _RESERVED and key != allowed:
        raise OptionError(f"{key!r} is reserved and is no node that could be renamed or removed")
    return key
