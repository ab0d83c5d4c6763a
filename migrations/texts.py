"""Texts that come from blobs, as reports print them."""

from __future__ import annotations

import json

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Return a text on one line, with escapes for what a terminal would not print but obey.

    >>> print(printable("red: \x1b[31m"))
    red: \u001b[31m
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
