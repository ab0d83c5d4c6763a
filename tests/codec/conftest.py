"""What the codec's tests share: a fresh serializer, and an equality that also compares types at every level."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict, deque
from collections.abc import Callable
from datetime import datetime, time
from enum import Enum
from typing import Any

import pytest

from blobcp.codec import MsgpackSerializer, Registry


@pytest.fixture
def registry() -> Registry:
    """A registry of the test's own."""
    return Registry()


@pytest.fixture
def serializer(registry: Registry) -> MsgpackSerializer:
    """A serializer over the test's own registry."""
    return MsgpackSerializer(registry)


@pytest.fixture(scope="session")
def difference() -> Callable[[Any, Any], str]:
    """Say where two values differ in type or value, or return the empty string."""
    return _difference


def _difference(one: Any, other: Any) -> str:
    if type(one) is not type(other):
        return f"{one!r} is a {type(one)}, {other!r} is a {type(other)}"
    if isinstance(one, float):
        same = (
            math.isnan(other) if math.isnan(one) else one == other and math.copysign(1, one) == math.copysign(1, other)
        )
        return "" if same else f"{one!r} != {other!r}"
    if isinstance(one, complex):
        return _difference(one.real, other.real) or _difference(one.imag, other.imag)
    if isinstance(one, Enum):
        return "" if one is other else f"{one!r} is not {other!r}"
    if isinstance(one, dict):
        return _difference_of_dicts(one, other)
    if isinstance(one, list | tuple | deque):
        return _difference_of_sequences(one, other)
    if isinstance(one, set | frozenset):
        return _difference_of_sequences(sorted(one, key=_in_order), sorted(other, key=_in_order))
    if isinstance(one, datetime | time):
        same = (one.replace(tzinfo=None), one.fold, str(one.tzinfo)) == (
            other.replace(tzinfo=None),
            other.fold,
            str(other.tzinfo),
        )
        return "" if same and type(one.tzinfo) is type(other.tzinfo) else f"{one!r} != {other!r}"
    if dataclasses.is_dataclass(one):
        return _difference(vars(one), vars(other))
    return "" if repr(one) == repr(other) or one == other else f"{one!r} != {other!r}"


def _difference_of_dicts(one: dict[Any, Any], other: dict[Any, Any]) -> str:
    if isinstance(one, defaultdict) and one.default_factory is not other.default_factory:  # type: ignore[attr-defined]
        return f"{one!r} != {other!r}"
    return _difference(list(one), list(other)) or _difference(list(one.values()), list(other.values()))


def _difference_of_sequences(one: Any, other: Any) -> str:
    if len(one) != len(other) or getattr(one, "maxlen", None) != getattr(other, "maxlen", None):
        return f"{one!r} != {other!r}"
    return next((found for pair in zip(one, other, strict=True) if (found := _difference(*pair))), "")


def _in_order(value: Any) -> str:
    """Return a text that sorts members of sets alike, whatever order their own sets have."""
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_in_order, value))}"
    if dataclasses.is_dataclass(value):
        return f"{type(value)}{_in_order(tuple(vars(value).values()))}"
    if isinstance(value, tuple):
        return f"{type(value)}{list(map(_in_order, value))}"
    return repr(value)
