"""Whether a value surely contradicts a type annotation.

The rule is to be conservative: what is not understood conforms. An ``int`` conforms to ``float``, a subclass to its
base, and anything to ``Any``, a type variable, a protocol or a name that can't be resolved. Annotations are compiled
once; how deep they look is the caller's choice.
"""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from blobcp.codec.hints import alias_value, hints_of, is_alias, is_union, same_definition, unwrapped

__all__ = [
    "PROMOTIONS",
    "Check",
    "accepts_all",
    "all_test",
    "check_of",
    "check_of_field",
    "conforms",
    "describe",
    "shallow_checker",
]

Test = Callable[[Any], bool]

PROMOTIONS: dict[type[Any], tuple[type[Any], ...]] = {
    float: (float, int),
    complex: (complex, float, int),
    bytes: (bytes, bytearray, memoryview),
}
"""What an annotation accepts beside its own class."""

_ACCEPTING_ALL: tuple[object, ...] = (object, Any, collections.abc.Callable)
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)


class Check(NamedTuple):
    """A compiled annotation that does not accept everything.

    Attributes:
        by_type: what the value's class alone says: yes, no, or ``None`` for "look at the value".
        test: what the value says.
        of_all: what many values say, if asking them together is cheaper; they are of classes that decide nothing.
    """

    by_type: Callable[[type[Any]], bool | None]
    test: Test
    of_all: Test | None = None


def conforms(value: Any, annotation: Any) -> bool:
    """Tell whether a value may be of the annotated type, looking into containers.

    >>> conforms(["a"], list[str]), conforms([1], list[str]), conforms(1, float)
    (True, False, True)
    """
    check = check_of(annotation)
    return check is None or check.test(value)


def check_of(annotation: Any) -> Check | None:
    """Return the deep check for an annotation, or ``None`` where anything goes."""
    return _cached(annotation, True)


def check_of_field(annotation: Any, default: Any) -> Check | None:
    """Return the deep check for a field that also accepts its default, as in ``x: int = None``."""
    check = check_of(annotation)
    if check is None or check.test(default):
        return check
    return _either([check, _literal((default,))])


def shallow_checker(annotation: Any) -> Test | None:
    """Return a check of the value's own class (and of literals), or ``None`` where anything goes.

    >>> shallow_checker(list[str])([1])
    True
    >>> shallow_checker(Any) is None
    True
    """
    check = _cached(annotation, False)
    return check.test if check else None


def describe(value: Any) -> str:
    """Say what a value is, in the words of an annotation: ``list[int]`` rather than what is in the list."""
    cls = type(value)
    name = "None" if value is None else cls.__qualname__
    if cls in _SEQUENCES and value:
        return f"{name}[{' | '.join(sorted({'None' if item is None else type(item).__qualname__ for item in value}))}]"
    return name


def _cached(annotation: Any, deep: bool) -> Check | None:
    try:
        return _remembered(annotation, deep)
    except TypeError:  # not hashable, as Literal[[]] or a list in Callable's place
        return _compiled(annotation, deep)


@lru_cache(maxsize=4096, typed=True)
def _remembered(annotation: Any, deep: bool) -> Check | None:
    return _compiled(annotation, deep)


def _compiled(annotation: Any, deep: bool) -> Check | None:
    annotation = unwrapped(annotation)
    if is_alias(annotation):
        return _lazy(annotation, deep)
    if is_union(annotation):
        return _union(annotation.__args__, deep)
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return _literal(annotation.__args__)
    if typing.is_typeddict(annotation) or typing.is_typeddict(origin):
        return _typed_dict(origin or annotation, deep)
    cls = origin or annotation
    if not isinstance(cls, type) or accepts_all(cls):
        return None
    arguments = typing.get_args(annotation)
    is_empty_tuple = cls is tuple and hasattr(annotation, "__args__")
    inner = _inner_test(cls, arguments) if deep and (arguments or is_empty_tuple) else None
    return _instance(cls, *inner) if isinstance(inner, tuple) else _instance(cls, inner)


def accepts_all(cls: type[Any]) -> bool:
    """Tell whether a class accepts everything as an annotation."""
    return cls in _ACCEPTING_ALL or bool(getattr(cls, "_is_protocol", False))


def _instance(cls: type[Any], inner: Test | None, inner_of_all: Test | None = None) -> Check | None:
    accepted = PROMOTIONS.get(cls, (cls,))
    try:
        issubclass(int, accepted)
    except TypeError:  # a class that refuses the question
        return None

    def is_one(found: type[Any]) -> bool:
        return found is cls or issubclass(found, accepted) or _was_defined_again(found, cls)

    def by_type(found: type[Any]) -> bool | None:
        return None if inner and is_one(found) else is_one(found)

    if inner is None:
        return Check(by_type, lambda value: is_one(type(value)))
    return Check(by_type, lambda value: is_one(type(value)) and inner(value), inner_of_all)


def _was_defined_again(found: type[Any], cls: type[Any]) -> bool:
    """Tell whether the annotation means a newer or older definition of a value's class, as after a reload."""
    return any(same_definition(base, cls) for base in type.mro(found))


def _union(members: Iterable[Any], deep: bool) -> Check | None:
    found = [_cached(member, deep) for member in members]
    checks = [check for check in found if check is not None]
    if len(checks) < len(found):
        return None
    return _either(checks)


def _either(checks: list[Check]) -> Check:
    tests = [check.test for check in checks]

    def by_type(cls: type[Any]) -> bool | None:
        verdicts = {check.by_type(cls) for check in checks}
        return True if True in verdicts else None if None in verdicts else False

    return Check(by_type, lambda value: any(test(value) for test in tests))


def _literal(choices: tuple[Any, ...]) -> Check:
    types = frozenset(map(type, choices))

    def test(value: Any) -> bool:
        return type(value) in types and any(type(value) is type(choice) and value == choice for choice in choices)

    return Check(lambda cls: None if cls in types else False, test)


def _typed_dict(cls: type[Any], deep: bool) -> Check | None:
    inner = None
    if deep:
        tests = {name: check.test for name, hint in hints_of(cls).items() if (check := check_of(hint)) is not None}

        def inner(value: Any) -> bool:
            return all(test(value[name]) for name, test in tests.items() if name in value)

    return _instance(dict, inner)


def _lazy(alias: Any, deep: bool) -> Check:
    """Compile an alias when it is first used, since it may mention itself."""

    def test(value: Any) -> bool:
        check = _cached(alias_value(alias), deep)
        return check is None or check.test(value)

    return Check(lambda cls: None, test)


def _inner_test(cls: type[Any], arguments: tuple[Any, ...]) -> Test | tuple[Test, Test] | None:
    """Return the test of what a container holds, maybe with one for many; only built-in containers are looked into."""
    if issubclass(cls, tuple):
        return _tuple_test(arguments) if cls is tuple else None
    if issubclass(cls, collections.Counter):
        return _mapping_test(arguments[0], int)
    if issubclass(cls, collections.abc.Mapping):
        return _mapping_test(*arguments) if len(arguments) == 2 else None
    if issubclass(cls, collections.abc.Collection) and len(arguments) == 1:
        return _each_test(arguments[0])
    return None


def _each_test(annotation: Any) -> tuple[Test, Test] | None:
    check = check_of(annotation)
    if check is None:
        return None
    of_each = all_test(check)
    return (
        lambda value: of_each(value) if isinstance(value, _SEQUENCES) else True,
        lambda values: of_each([item for value in values if isinstance(value, _SEQUENCES) for item in value]),
    )


def all_test(check: Check) -> Callable[[Collection[Any]], bool]:
    """Test many values; one look at the set of their classes is enough where the class decides."""
    by_type, test, of_all = check

    def test_all(values: Collection[Any]) -> bool:
        undecided = False
        for cls in set(map(type, values)):
            verdict = by_type(cls)
            if verdict is False:
                return False
            undecided = undecided or verdict is None
        if undecided:
            return of_all(values) if of_all else all(map(test, values))
        return True

    return test_all


def _mapping_test(key: Any, item: Any) -> tuple[Test, Test] | None:
    key_check, item_check = check_of(key), check_of(item)
    of_keys = all_test(key_check) if key_check else _anything
    of_items = all_test(item_check) if item_check else _anything
    if key_check is None and item_check is None:
        return None

    def test(value: Any) -> bool:
        return not isinstance(value, dict) or (of_keys(value) and of_items(value.values()))

    def of_all(values: Iterable[Any]) -> bool:
        dicts = [value for value in values if isinstance(value, dict)]
        return of_keys(list(chain.from_iterable(dicts))) and (
            item_check is None or of_items([item for each in dicts for item in each.values()])
        )

    return test, of_all


def _anything(values: Collection[Any]) -> bool:
    return True


def _tuple_test(arguments: tuple[Any, ...]) -> Test | tuple[Test, Test] | None:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _each_test(arguments[0])
    if any(typing.get_origin(argument) is typing.Unpack or not _plain(argument) for argument in arguments):
        return None
    checks = [check_of(argument) for argument in arguments]

    def test(value: Any) -> bool:
        return len(value) == len(checks) and all(
            check is None or check.test(item) for check, item in zip(checks, value, strict=True)
        )

    return test


def _plain(argument: Any) -> bool:
    """Tell whether a tuple's argument stands for exactly one item."""
    return not isinstance(argument, typing.TypeVarTuple) and not getattr(argument, "__unpacked__", False)
