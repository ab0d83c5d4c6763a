"""How the way to a value is written: ``state.jobs[1].lock``.

An attribute or a key that reads like one is ``.name``, any other key or an index stands in brackets, a member of a set
in braces. The top has the empty path, and a path does not begin with a dot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["joined", "shown", "step_of_index", "step_of_key", "step_of_member"]

_LONGEST_KEY = 60
_LONGEST_PATH = 400
_LONGEST_INT = 1024
"""In bits; Python makes no text of very long ints, and takes long for the others."""
_READABLE_KEYS = (str, int, float, bool, bytes, type(None))


def step_of_index(index: int) -> str:
    """Return the step to an item of a sequence."""
    return f"[{index}]"


def step_of_key(key: Any) -> str:
    """Return the step to the value under a key.

    >>> step_of_key("jobs"), step_of_key("odd key"), step_of_key(3), step_of_key((1, "a"))
    ('.jobs', "['odd key']", '[3]', "[(1, 'a')]")
    """
    if type(key) is str and key.isidentifier():
        return f".{key}"
    return f"[{_text_of_key(key)}]"


def _text_of_key(key: Any) -> str:
    if type(key) is tuple:
        comma = "," if len(key) == 1 else ""
        return f"({', '.join(map(_text_of_key, key))}{comma})"
    if type(key) is int and key.bit_length() > _LONGEST_INT:
        return "<int>"
    if type(key) in _READABLE_KEYS:
        text = repr(key)
        return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"
    return f"<{type(key).__qualname__}>"


def step_of_member(member: Any) -> str:
    """Return the step to a member of a set, or to a key itself: its class, since it has no place.

    >>> step_of_member(3.5)
    '{float}'
    """
    return f"{{{type(member).__qualname__}}}"


def joined(steps: Iterable[str]) -> str:
    """Return the path made of steps; the middle of a very long one is left out.

    >>> joined([".state", ".jobs", "[1]"])
    'state.jobs[1]'
    """
    path = "".join(steps).removeprefix(".")
    half = _LONGEST_PATH // 2
    return path if len(path) <= _LONGEST_PATH else f"{path[:half]}…{path[-half:]}"


def shown(path: str) -> str:
    """Return the path as it begins a message; the top needs words.

    >>> shown("state.cart"), shown("")
    ('state.cart', 'the value itself')
    """
    return path or "the value itself"
