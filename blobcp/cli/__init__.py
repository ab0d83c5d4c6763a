"""The command ``blobcp``: look into stores, and change them, from a shell.

This module imports neither typer nor rich, so that the command can say what to install where they are missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]

_MISUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: those behind the command's name; ``None``: those of this process.
    """
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(f"error: the command line needs {' and '.join(missing)}; pip install 'blobcp[cli]'", file=sys.stderr)
        return _MISUSED
    from .running import run

    return run(arguments)
