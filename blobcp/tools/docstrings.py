"""What a function's docstring tells a model: what the function does, and what its arguments are."""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ["read_docstring"]

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?|Attributes):?\s*$")
_ARGUMENT = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    r"""Return the text before the first section, and what an ``Args:`` section says of each argument.

    Args:
        text: a docstring whose indentation was cleaned.

    >>> read_docstring("Look it up.\n\nArgs:\n    key: what to look up,\n        exactly.\n")
    ('Look it up.', {'key': 'what to look up, exactly.'})
    """
    lines = text.splitlines()
    sections = [number for number, line in enumerate(lines) if _SECTION.match(line)]
    description = "\n".join(lines[: sections[0] if sections else None]).strip()
    for start, end in pairwise([*sections, len(lines)]):
        if lines[start].startswith(("Args", "Arguments", "Parameters")):
            return description, _arguments(lines[start + 1 : end])
    return description, {}


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    indent: str | None = None
    current: list[str] = []
    for line in lines:
        match = _ARGUMENT.match(line)
        if match and match[1] == (indent or match[1]):
            indent = match[1]
            current = found.setdefault(match[2], [])
            current.append(match[3].strip())
        elif line.strip():
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in found.items()}
