"""Finding what ``MODULE:NAME`` names, as ``python -m`` would: the current folder comes first."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from blobcp.errors import OptionError, text_of

__all__ = ["found"]


def found(name: str) -> object:
    """Return what a name stands for; its module is imported, so its code runs.

    Args:
        name: a module and a name in it, for instance ``my_app.migrations:migrations``.

    Raises:
        OptionError: the module can't be imported, or has no such name.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise OptionError(f"{name!r} names nothing; say MODULE:NAME, for instance my_app.migrations:migrations")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        thing: object = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise OptionError(f"can't import {module!r}: {text_of(error)}") from error
    for part in path.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError as error:
            raise OptionError(f"module {module!r} has no {path!r}") from error
    return thing
