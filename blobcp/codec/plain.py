"""Whether a tree is made of nothing but what MessagePack holds as it is; asked level by level, at the speed of C.

msgspec writes such a tree in one call. It would write a tuple or an ``OrderedDict`` too, as if it were a list or a dict,
so the classes have to be looked at first. A loop over the items costs ten times what writing them does; the garbage
collector can list what a whole level of containers refers to in one call.
"""

from __future__ import annotations

from gc import get_referents
from typing import Any

__all__ = ["LEAVES", "all_plain", "is_plain"]

LEAVES = frozenset({type(None), bool, int, float, str, bytes})
"""The classes that MessagePack holds as they are, beside lists and dicts of them."""

_CONTAINERS = frozenset({list, dict})
_PLAIN = LEAVES | _CONTAINERS
_WIDE = 1 << 13


def is_plain(value: Any, levels: int) -> bool:
    """Tell whether lists and dicts of leaves are all there is, of exactly these classes and no deeper than allowed.

    Args:
        value: where to begin.
        levels: how many containers may be inside one another.

    >>> is_plain({"a": [1, {2: None}]}, 3), is_plain({"a": [(1,)]}, 3), is_plain([[[[]]]], 3)
    (True, False, False)
    """
    return all_plain([value], {type(value)}, levels)


def all_plain(items: list[Any], found: set[type[Any]], levels: int) -> bool:
    """Tell the same of many values, whose classes were found already.

    Args:
        items: where to begin.
        found: their classes.
        levels: as above.
    """
    level = items
    while True:
        if not found <= _PLAIN:
            return False
        if found.isdisjoint(_CONTAINERS):
            return True
        if levels <= 0:
            return False
        levels -= 1
        if len(level) > _WIDE:  # a list that holds itself many times must not grow with each level
            level = list({id(item): item for item in level if type(item) in _CONTAINERS}.values())
        # A dict whose keys are all of class str gives its values only; any other gives its keys too.
        level = get_referents(*level)
        found = set(map(type, level))
