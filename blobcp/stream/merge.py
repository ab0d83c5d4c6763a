"""Fan-in: how the values of several predecessors become one input.

Dicts merge, a key twice is an error. Other classes merge by a function that the user registers. One value alone passes
through as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from blobcp.errors import MergeError, text_of
from blobcp.stream.by_class import ClassFunctions

__all__ = ["merge_values", "register_merge"]

T = TypeVar("T")

_functions = ClassFunctions("merges")


def register_merge(type: type[T], merge: Callable[[list[T]], T]) -> None:
    """Say how values of a class that meet at one node become one.

    Args:
        type: the class; its subclasses merge the same way unless they have a function of their own.
        merge: takes the values in the order in which the edges were declared, gives the merged value. An error that
            it raises fails the run.

    Raises:
        RegistrationError: the class has another function already.

    >>> class Votes(set): ...
    >>> register_merge(Votes, lambda votes: Votes().union(*votes))
    >>> sorted(merge_values({"a": Votes({1, 2}), "b": Votes({2, 3})}))
    [1, 2, 3]
    """
    _functions.add(type, merge)


def merge_values(values: Mapping[str, Any]) -> Any:
    """Merge values by the sources they came from, in the mapping's order.

    Raises:
        MergeError: the classes differ, a dict key came twice, or the class has no merge function.
    """
    if len(values) == 1:
        return next(iter(values.values()))
    merge = _functions.find(list(values.values()))
    if merge is not None:
        try:
            return merge(list(values.values()))
        except Exception as error:
            raise MergeError(f"the merge function failed on values from {_names(values)}: {text_of(error)}") from error
    if all(isinstance(value, dict) for value in values.values()):
        return _merge_dicts(values)
    raise MergeError(_why_not(values))


def _merge_dicts(values: Mapping[str, dict[Any, Any]]) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    owner: dict[Any, str] = {}
    for source, value in values.items():
        for key, item in value.items():
            if key in owner:
                raise MergeError(
                    f"key {key!r} comes from both {owner[key]} and {source}; give them different output keys"
                )
            owner[key] = source
            merged[key] = item
    return merged


def _why_not(values: Mapping[str, Any]) -> str:
    classes = {type(value).__qualname__ for value in values.values()}
    kinds = ", ".join(f"{source}: {type(value).__qualname__}" for source, value in values.items())
    if len(classes) > 1:
        return f"type mismatch: values of different classes meet ({kinds}); they can't become one input"
    return (
        f"unsupported type: values of class {classes.pop()} meet (from {_names(values)}) and nothing says how they merge; "
        "call register_merge, or give the nodes output keys"
    )


def _names(values: Mapping[str, Any]) -> str:
    return ", ".join(values)
