"""Functions for classes and their subclasses: what merging values and joining chunks have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from blobcp.errors import RegistrationError

__all__ = ["ClassFunctions"]

Function = Callable[[list[Any]], Any]


class ClassFunctions:
    """A function for each class that has one.

    Args:
        verb: what the functions do, for messages: "merges".
        own: the name of the static or class method by which a class may carry its own function, if it may.
    """

    def __init__(self, verb: str, own: str | None = None) -> None:
        self._verb = verb
        self._own = own
        self._lock = threading.Lock()
        self._functions: dict[type[Any], Function] = {}

    def add(self, cls: type[Any], function: Function) -> None:
        """Give a class its function.

        Raises:
            RegistrationError: it has another one already.
        """
        with self._lock:
            known = self._functions.setdefault(cls, function)
        if known is not function:
            raise RegistrationError(f"{cls.__qualname__} already {self._verb} by {known!r}; register one function")

    def find(self, values: Sequence[Any]) -> Function | None:
        """Return the function of the nearest class of the first value that all values are instances of."""
        for base in type(values[0]).__mro__:
            function = self._function_of(base, type(values[0]))
            if function is not None and all(isinstance(value, base) for value in values):
                return function
        return None

    def _function_of(self, base: type[Any], cls: type[Any]) -> Function | None:
        registered = self._functions.get(base)
        if registered is None and self._own is not None and self._own in vars(base):
            own: Function = vars(base)[self._own].__get__(None, cls)
            return own
        return registered
