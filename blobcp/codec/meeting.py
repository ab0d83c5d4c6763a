"""Whether values of one annotated type may be of another one: what a graph asks of its edges before it runs."""

from __future__ import annotations

import typing
from typing import Any, Literal

from blobcp.codec.conforms import PROMOTIONS, accepts_all
from blobcp.codec.hints import alias_value, is_alias, is_union, unwrapped

__all__ = ["can_meet"]


def can_meet(produced: Any, consumed: Any) -> bool:
    """Tell whether a value of one annotated type may be of the other one; ``False`` only where that is impossible.

    >>> can_meet(int, float), can_meet(int | None, str | None), can_meet(int, str)
    (True, True, False)
    """
    given, wanted = _classes_of(produced), _classes_of(consumed)
    if given is None or wanted is None:
        return True
    return any(_related(one, other) for one in given for other in wanted)


def _classes_of(annotation: Any) -> tuple[type[Any], ...] | None:
    """Return the classes that an annotation may come down to, or ``None`` for any."""
    annotation = unwrapped(annotation)
    if is_alias(annotation):
        return _classes_of(alias_value(annotation))
    if is_union(annotation):
        found = [_classes_of(member) for member in annotation.__args__]
        known = [classes for classes in found if classes is not None]
        return None if len(known) < len(found) else tuple(cls for classes in known for cls in classes)
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return tuple({type(choice) for choice in annotation.__args__})
    cls = origin or annotation
    if typing.is_typeddict(cls):
        return (dict,)
    return None if not isinstance(cls, type) or accepts_all(cls) else (cls,)


def _related(one: type[Any], other: type[Any]) -> bool:
    one_accepts, other_accepts = PROMOTIONS.get(one, (one,)), PROMOTIONS.get(other, (other,))
    try:
        return issubclass(one, other_accepts) or issubclass(other, one_accepts)
    except TypeError:  # a class that refuses the question
        return True
