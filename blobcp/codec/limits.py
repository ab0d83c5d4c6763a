"""How much a body may hold, counted without building any of it.

The number of values and their nesting are what a few hostile bytes can be many of: an empty dict is one byte in a blob and
sixty in memory, and a level of nesting is one byte and hundreds on the stack. Counting takes a pass over the bytes in
Python, so it is done only where somebody set a limit, or where the stack is let grow further than it safely can, and only
for bodies that are long enough to hold that many.
"""

from __future__ import annotations

import math
import sys

from blobcp.errors import SerializationError

__all__ = ["MOST_LEVELS", "Limits", "check_depth"]

MOST_LEVELS = 10_000
"""How deep bytes may ever be nested: what the usual stack of 8 MB has room for, whatever Python's limit was raised to."""

_SAFE_RECURSION = 3000
"""The recursion limit up to which the decoder can be left to stop by itself."""

_CONTAINERS = bytes([*range(0x80, 0xA0), 0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
_OTHER_BYTES = bytes(set(range(256)) - set(_CONTAINERS))
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_LARGEST_CODE = 127
_ANYWHERE = -1


class Limits:
    """Refuses a body with more values, or deeper ones, than allowed."""

    def __init__(self, max_elements: int | None, max_depth: int) -> None:
        """Set the limits.

        Args:
            max_elements: the most values, keys and containers included; with ``None`` only the depth is limited.
            max_depth: how deep containers may be nested, each extension counting as one and what is in it as another.
        """
        self._max_elements = max_elements
        self._max_depth = min(max_depth, MOST_LEVELS)
        self._deepest_recursion = min(2 * max_depth, _SAFE_RECURSION)

    def check(self, data: bytes | bytearray | memoryview) -> None:
        """Count; bytes that are no MessagePack are left to the reader.

        The depth alone is counted only where the decoder would not soon stop by itself, at Python's recursion limit.

        Raises:
            SerializationError: a limit is passed.
        """
        try:
            view = memoryview(data).cast("B")
        except TypeError:  # the reader refuses it in words
            return
        if self._max_elements is not None:
            _count(view, self._max_elements, self._max_depth)
        elif sys.getrecursionlimit() > self._deepest_recursion:
            check_depth(view, self._max_depth)


def check_depth(data: bytes | bytearray | memoryview, max_depth: int) -> None:
    """Refuse bytes that are nested more deeply than ``max_depth`` levels.

    Most can't be, as too few of their bytes could begin a container; that is known without counting.

    Raises:
        SerializationError: they are.
    """
    if len(data) > max_depth and len(bytes(data).translate(None, _OTHER_BYTES)) > max_depth:
        _count(memoryview(data), math.inf, max_depth)


def _count(view: memoryview, max_elements: float, max_depth: int) -> None:
    if len(view) <= min(max_elements, max_depth):  # a value takes a byte at least
        return
    open_counts, ends = [1], [_ANYWHERE]  # how many values are still to come at each level, and where it has to end
    place = elements = 0
    while open_counts:
        if not open_counts[-1]:
            open_counts.pop()
            if ends.pop() not in (place, _ANYWHERE):
                raise _misfit()
            continue
        open_counts[-1] -= 1
        if place >= len(view):
            if any(end != _ANYWHERE for end in ends):
                raise _misfit()
            return
        place, inside, end = _step(view, place)
        elements += 1
        if inside is not None:
            if elements + inside > max_elements:
                elements += inside
            open_counts.append(inside)
            ends.append(end)
        if elements > max_elements:
            raise _refusal("values", "max_elements", max_elements)
        if len(open_counts) > max_depth + 1:
            raise _refusal("levels", "max_depth", max_depth)


def _misfit() -> SerializationError:
    """Refuse an extension that ends elsewhere than the value in it: the decoder would read other bytes than were counted."""
    return SerializationError("the bytes are corrupt (an extension and the value in it differ in length)")


def _refusal(what: str, option: str, limit: float) -> SerializationError:
    return SerializationError(
        f"the bytes hold more {what} than the {limit} that {option} allows, and are not allowed to load; raise it if "
        "they are yours"
    )


def _step(view: memoryview, place: int) -> tuple[int, int | None, int]:
    """Return where the next value begins, how many values are inside this one if it is a container, and where it ends.

    Where it ends is known of an extension only.
    """
    first = view[place]
    place += 1
    if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC1, 0xC2, 0xC3):
        return place, None, _ANYWHERE
    if first <= 0x8F:
        return place, (first & 0x0F) * 2, _ANYWHERE
    if first <= 0x9F:
        return place, first & 0x0F, _ANYWHERE
    if first <= 0xBF:
        return place + (first & 0x1F), None, _ANYWHERE
    if first in _FIXED:
        return place + _FIXED[first], None, _ANYWHERE
    if first in _SIZED:
        size = _SIZED[first]
        return place + size + _number(view, place, size), None, _ANYWHERE
    if first in _COUNTED:
        size, values = _COUNTED[first]
        return place + size, _number(view, place, size) * values, _ANYWHERE
    return _step_into_extension(view, place, first)


def _step_into_extension(view: memoryview, place: int, first: int) -> tuple[int, int | None, int]:
    size = _EXTENSIONS.get(first, 0)
    length = _number(view, place, size) if size else _FIXED_EXTENSIONS[first]
    inside = place + size + 1
    code = view[inside - 1] if inside <= len(view) else 0
    if code > _LARGEST_CODE:  # MessagePack's own ones, as a timestamp, hold no value
        return inside + length, None, _ANYWHERE
    return inside, 1, inside + length


def _number(view: memoryview, place: int, size: int) -> int:
    return int.from_bytes(view[place : place + size], "big")
