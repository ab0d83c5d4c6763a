from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
    runtime_checkable,
)

import pytest

from blobcp.codec import can_meet, conforms, shallow_checker
from blobcp.codec.hints import hints_of

T = TypeVar("T")
UserId = NewType("UserId", int)

# The older spellings are another class at run time.
UNION = Union[int, str]  # noqa: UP007
OPTIONAL = Optional[int]  # noqa: UP045
OPTIONAL_ANYTHING = Optional[T]  # noqa: UP045


class Animal: ...


class Dog(Animal): ...


class Box(Generic[T]): ...


class Talks(Protocol):
    def talk(self) -> str: ...


@runtime_checkable
class Closes(Protocol):
    def close(self) -> None: ...


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int


@dataclass
class Item:
    n: int


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        *(
            (1, int, True),
            (True, int, True),
            ("1", int, False),
            (None, int, False),
            (None, None, True),
            (0, None, False),
        ),
        *((1, float, True), (True, float, True), ("1", float, False), (1, complex, True), (1.5, int, False)),
        *((bytearray(), bytes, True), ("", bytes, False), (datetime(2024, 1, 1), date, True)),  # noqa: DTZ001
        *(
            (object(), Any, True),
            (object(), object, True),
            (1, T, True),
            (1, "Missing", True),
            (1, list["Missing"], False),  # noqa: F821 - as in a forward reference
        ),
        *(([1], list, True), ([1], list[int], True), (["a"], list[int], False), ([], list[int], True)),
        *(([1, None], list[int | None], True), ([1, "a"], list[int | None], False), ((1,), list[int], False)),
        *(([[1], ["a"]], list[list[int]], False), ([[1], [2]], list[list[int]], True)),
        *(({"a": 1}, dict[str, int], True), ({1: 1}, dict[str, int], False), ({"a": "b"}, dict[str, int], False)),
        *(
            ({"a": object()}, dict[str, Any], True),
            ({"a": 1}, Mapping[str, int], True),
            ({"a": ""}, Mapping[str, int], False),
        ),
        *(((1, "a"), tuple[int, str], True), ((1,), tuple[int, str], False), ((1, 2), tuple[int, ...], True)),
        *(((1, "a"), tuple[int, ...], False), ((), tuple[()], True), ((1,), tuple[()], False)),
        *(({1}, set[int], True), ({"a"}, set[int], False), (frozenset({1}), frozenset[str], False)),
        *(
            ([1], Sequence[int], True),
            (["a"], Sequence[int], False),
            ("ab", Sequence[str], True),
            (3, Sequence[int], False),
        ),
        *(([1], Iterable[int], True), (iter([1]), Iterable[str], True)),
        *(
            (collections.Counter("a"), collections.Counter[str], True),
            (collections.Counter({1: 1}), collections.Counter[str], False),
        ),
        *(
            (collections.deque([1]), collections.deque[int], True),
            (collections.deque(["a"]), collections.deque[int], False),
        ),
        *((1, UNION, True), (None, OPTIONAL, True), (1.5, int | str, False), (1, int | Any, True)),
        *(
            ("a", Literal["a", "b"], True),
            ("c", Literal["a", "b"], False),
            (1, Literal[True], False),
            (None, Literal[None], True),
        ),
        *((1, Annotated[int, "x"], True), ("", Annotated[int, "x"], False), (1, UserId, True), ("", UserId, False)),
        *((Dog(), Animal, True), (Animal(), Dog, False), (Box(), Box[int], True), (Dog(), Box[int], False)),
        *((1, Talks, True), (1, Closes, True), (1, Callable[[], int], True), (len, Callable[..., Any], True)),
        *((int, type[int], True), (1, type[int], False)),
        *(({"title": "x"}, Movie, True), ({"title": 1}, Movie, False), ({}, Movie, True), ([], Movie, False)),
        *(({"title": "x", "year": "y"}, Movie, False), ({"title": "x", "more": 1}, Movie, True)),
        *((Pair(1), Pair, True), ((1,), Pair, False), (Item(1), Item, True), ({"n": 1}, Item, False)),
    ],
)
def test_conforms(value: Any, annotation: Any, expected: bool) -> None:
    """F21: only what surely contradicts an annotation does not conform."""
    assert conforms(value, annotation) is expected


@pytest.mark.parametrize(
    "annotation", [Any, object, T, Talks, Closes, Callable[[], int], "Missing", int | Any, OPTIONAL_ANYTHING]
)
def test_nothing_to_check(annotation: Any) -> None:
    """Where anything goes there is no check."""
    assert shallow_checker(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (list[str], [1], (1,)),
        (dict[str, int], {1: ""}, []),
        (Movie, {"title": 1}, []),
        (UserId, 3, "3"),
        (Annotated[list[int], 1], [""], ()),
        (None, None, 0),
        (float, 1, "1"),
        (Literal["a"], "a", "b"),
        (int | None, None, ""),
        (list[int] | None, ["x"], {}),
        (tuple[int, str], (), []),
        (Sequence[int], ["x"], 1),
        (Box[int], Box(), Dog()),
    ],
)
def test_shallow_checks_look_at_the_class_only(annotation: Any, good: Any, bad: Any) -> None:
    """A shallow check accepts what is wrong further down."""
    check = shallow_checker(annotation)

    assert check is not None
    assert check(good) is True
    assert check(bad) is False


@pytest.mark.parametrize(
    ("produced", "consumed", "expected"),
    [
        *(
            (int, int, True),
            (int, str, False),
            (int, float, True),
            (float, int, True),
            (bool, int, True),
            (Any, str, True),
        ),
        *((str, Any, True), (int | None, str | None, True), (int | None, str, False), (int | str, str | bytes, True)),
        *(
            (Dog, Animal, True),
            (Animal, Dog, True),
            (Dog, Item, False),
            (list[int], list[str], True),
            (list, dict, False),
        ),
        *((list[int], Sequence[str], True), (Movie, dict[str, Any], True), (Movie, str, False), (UserId, int, True)),
        *((Literal["a"], str, True), (Literal["a"], int, False), (None, int, False), (None, int | None, True)),
        *(
            (Talks, int, True),
            (T, int, True),
            (Callable[[], int], int, True),
            ("Missing", int, True),
            (bytes, bytearray, True),
        ),
        *((Annotated[int, 1], Annotated[str, 1], False), (Box[int], Box[str], True), (object, int, True)),
        (dict, collections.abc.Mapping, True),
    ],
)
def test_can_meet(produced: Any, consumed: Any, expected: bool) -> None:
    """Two annotations can't meet only if no class of the one is one of the other."""
    assert can_meet(produced, consumed) is expected
    assert can_meet(consumed, produced) is expected


def test_unhashable_annotations_are_understood() -> None:
    """An annotation that can't be remembered is compiled each time."""
    assert conforms("a", Annotated[str, ["not hashable"]]) is True
    assert conforms(1, Annotated[str, ["not hashable"]]) is False


def defined_again() -> type[Any]:
    """Define a class as a reload does."""

    class Again: ...

    return Again


def test_a_class_defined_again_conforms() -> None:
    """After a reload, a value of the older class is not held against the newer annotation."""
    older, newer = defined_again(), defined_again()

    assert conforms([older()], list[newer]) is True  # type: ignore[valid-type]
    assert conforms([Dog()], list[newer]) is False  # type: ignore[valid-type]


class Node:
    """A base class of the same name as the one below."""

    parent: Node | None = None


def test_a_base_of_the_same_name_keeps_its_annotations() -> None:
    """An annotation is read where it stands, also if a derived class has the same name as what it mentions."""
    derived = type("Node", (Node,), {"__module__": "elsewhere", "__annotations__": {"more": "Unresolvable"}})

    assert hints_of(derived) == {"parent": Node | None, "more": Any}
