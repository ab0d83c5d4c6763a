"""How much a body may hold, counted without building any of it.

The number of values and their nesting are what a few hostile bytes can be many of: an empty dict is one byte in a blob and
sixty in memory. Counting takes a pass over the bytes in Python, so it is done only where somebody set a limit, and only for
bodies that are long enough to hold that many.
"""

from __future__ import annotations

from blobcp.errors import SerializationError

__all__ = ["Limits"]

_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class Limits:
    """Refuses a body with more values, or deeper ones, than allowed."""

    def __init__(self, max_elements: int, max_depth: int) -> None:
        """Set the limits.

        Args:
            max_elements: the most values, keys and containers included.
            max_depth: how deep containers may be nested, each extension counting as one and what is in it as another.
        """
        self._max_elements = max_elements
        self._max_depth = max_depth

    def check(self, data: bytes | bytearray | memoryview) -> None:
        """Count; bytes that are no MessagePack are left to the reader.

        Raises:
            SerializationError: a limit is passed.
        """
        if len(data) <= min(self._max_elements, self._max_depth):  # a value takes a byte at least
            return
        view = memoryview(data)
        open_counts = [1]  # how many values are still to come, at each level
        place = elements = 0
        while open_counts:
            if not open_counts[-1]:
                open_counts.pop()
                continue
            open_counts[-1] -= 1
            if place >= len(view):
                return
            place, inside = _step(view, place)
            elements += 1
            if inside is not None:
                if elements + inside > self._max_elements:
                    elements += inside
                open_counts.append(inside)
            if elements > self._max_elements:
                raise _refusal("values", "max_elements", self._max_elements)
            if len(open_counts) > self._max_depth + 1:
                raise _refusal("levels", "max_depth", self._max_depth)


def _refusal(what: str, option: str, limit: int) -> SerializationError:
    return SerializationError(
        f"the bytes hold more {what} than the {limit} that {option} allows, and are not allowed to load; raise it if "
        "they are yours"
    )


def _step(view: memoryview, place: int) -> tuple[int, int | None]:
    """Return where the next value begins, and how many values are inside this one if it is a container."""
    first = view[place]
    place += 1
    if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC1, 0xC2, 0xC3):
        return place, None
    if first <= 0x8F:
        return place, (first & 0x0F) * 2
    if first <= 0x9F:
        return place, first & 0x0F
    if first <= 0xBF:
        return place + (first & 0x1F), None
    if first in _FIXED:
        return place + _FIXED[first], None
    if first in _SIZED:
        size = _SIZED[first]
        return place + size + _number(view, place, size), None
    if first in _COUNTED:
        size, values = _COUNTED[first]
        return place + size, _number(view, place, size) * values
    return place + _EXTENSIONS.get(first, 0) + 1, 1  # an extension: the one value inside it follows


def _number(view: memoryview, place: int, size: int) -> int:
    return int.from_bytes(view[place : place + size], "big")
