"""How the chunks of a stream become one value.

Text, bytes and lists are put together; dicts are joined key by key; of numbers, truth values and times the last one counts.
Other classes join by a function that the user registers, or that the class carries itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import chain
from typing import Any, Final, TypeVar

from blobcp.errors import ConcatError, EmptyStreamError, text_of
from blobcp.stream.by_class import ClassFunctions
from blobcp.stream.signs import SourceEnd

__all__ = ["concat", "register_concat"]

T = TypeVar("T")

_functions = ClassFunctions("joins", own="__concat__")


def _last(values: list[Any]) -> Any:
    return values[-1]


_BUILT_IN: Final[dict[type[Any], Callable[[list[Any]], Any]]] = {
    str: "".join,
    bytes: b"".join,
    list: lambda lists: list(chain.from_iterable(lists)),
    **dict.fromkeys((bool, int, float, complex, Decimal), _last),
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time, datetime.timedelta), _last),
}


def register_concat(type: type[T], concat: Callable[[list[T]], T]) -> None:
    """Say how chunks of a class become one value. It goes before what is built in.

    A class of your own may carry the function instead, as a static or class method ``__concat__(chunks)``.

    Args:
        type: the class; its subclasses join the same way unless they have a function of their own.
        concat: takes two chunks or more, in order, gives the value.

    Raises:
        RegistrationError: the class has another function already.

    >>> class Tokens(tuple): ...
    >>> register_concat(Tokens, lambda parts: Tokens(token for part in parts for token in part))
    >>> concat([Tokens("ab"), Tokens("c")])
    ('a', 'b', 'c')
    """
    _functions.add(type, concat)


def concat(chunks: Iterable[Any]) -> Any:
    """Join chunks into one value.

    ``None`` does not count where another chunk has a value, and an end marker never does. One chunk alone is returned as
    it is.

    Args:
        chunks: the chunks, in order.

    Raises:
        EmptyStreamError: there are none.
        ConcatError: their classes differ, or their class has no function, or its function failed.

    >>> concat(["a", "b"]), concat([1, 5, 3]), concat([{"a": [1]}, {"a": [2], "b": None}])
    ('ab', 3, {'a': [1, 2], 'b': None})
    """
    values = [chunk for chunk in chunks if type(chunk) is not SourceEnd]
    if not values:
        raise EmptyStreamError("the stream is empty: there are no chunks that could become a value")
    return _join(values, "")


def _join(values: list[Any], path: str) -> Any:
    if len(values) > 1:
        values = [value for value in values if value is not None] or values[:1]
    if len(values) == 1:
        return values[0]
    function = _functions.find(values)
    if function is not None:
        return _call(function, values, path)
    cls = type(values[0])
    if any(type(value) is not cls for value in values):
        raise _mismatch(values, path)
    if cls is dict:
        return _join_dicts(values, path)
    built_in = _BUILT_IN.get(cls)
    return _only_one(values, path) if built_in is None else built_in(values)


def _call(function: Callable[[list[Any]], Any], values: list[Any], path: str) -> Any:
    try:
        return function(values)
    except Exception as error:
        name = type(values[0]).__qualname__
        raise ConcatError(
            f"the concat function of {name} failed{_at(path)}: {text_of(error)}", path=path, type=type(values[0])
        ) from error


def _join_dicts(dicts: list[dict[Any, Any]], path: str) -> dict[Any, Any]:
    by_key: dict[Any, list[Any]] = {}
    for each in dicts:
        for key, value in each.items():
            by_key.setdefault(key, []).append(value)
    return {key: _join(values, f"{path}[{key!r}]") for key, values in by_key.items()}


def _only_one(values: list[Any], path: str) -> Any:
    full = [value for value in values if not _is_empty(value)]
    if len(full) > 1:
        name = type(values[0]).__qualname__
        raise ConcatError(
            f"{len(full)} chunks of class {name} meet{_at(path)} and nothing says how they join; call register_concat, or "
            f"give the class a static method __concat__(chunks)",
            path=path,
            type=type(values[0]),
        )
    return full[0] if full else values[0]


def _is_empty(value: Any) -> bool:
    """Tell whether a value says no more than a new one of its class."""
    try:
        return not value or bool(value == type(value)())
    except Exception:  # the class can't be made without arguments, or can't tell: it is not known to be empty
        return False


def _mismatch(values: list[Any], path: str) -> ConcatError:
    names = list(dict.fromkeys(type(value).__qualname__ for value in values))
    return ConcatError(
        f"type mismatch: chunks of different classes meet{_at(path)} ({', '.join(names)}); they can't become one value",
        path=path,
        type=type(values[0]),
    )


def _at(path: str) -> str:
    return f" at {path}" if path else ""
