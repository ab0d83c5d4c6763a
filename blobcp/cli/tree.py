"""A value as lines, each as deep as it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .raw import Taken, take
from .texts import printable

__all__ = ["Line", "lines_of", "shortened"]

_LONGEST_TEXT = 200
_MOST_INSIDE = 50


class Line(NamedTuple):
    """A value's line: how deep it stands, its name there, and its text."""

    depth: int
    name: str
    text: str


def lines_of(name: str, value: Any, *, full: bool, depth: int = 0) -> Iterator[Line]:
    """Yield a line for a value and each one in it, the outer ones first. Any depth will do.

    Args:
        name: what the value is called.
        value: the value.
        full: whether long texts and long lists are shown to their end.
        depth: where the value stands.
    """
    waiting: list[tuple[int, str, Any]] = [(depth, name, value)]
    while waiting:
        at, step, found = waiting.pop()
        if isinstance(found, _Omitted):
            yield Line(at, "", f"… {found.number} more")
            continue
        taken = take(found)
        yield Line(at, printable(step), printable(_text_of(taken, full=full)))
        inside = list(taken.inside or ())
        if not full and len(inside) > _MOST_INSIDE:
            inside[_MOST_INSIDE:] = [("", _Omitted(len(inside) - _MOST_INSIDE))]
        waiting += [(at + 1, _name_of(step), item) for step, item in reversed(inside)]


def shortened(text: str) -> str:
    """Return a text without what is too much of it."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]}… ({len(text)} characters)"


def _name_of(step: str) -> str:
    return "" if step.startswith("{") else step.removeprefix(".")  # a member of a set is its own name


class _Omitted(NamedTuple):
    number: int


def _text_of(taken: Taken, *, full: bool) -> str:
    if taken.inside is None:
        return taken.text if full else shortened(taken.text)
    return f"{taken.text} ({len(taken.inside) or 'empty'})"
