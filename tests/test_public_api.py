"""What can be imported: sorted, complete, documented, and nothing by accident."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import blobcp
import blobcp.errors
import blobcp.migrations
import blobcp.stores
import blobcp.testing

PUBLIC = [blobcp, blobcp.migrations, blobcp.stores, blobcp.testing]
CONSTANTS = {"END", "NO_DATA", "START"}
"""Public values that can't carry a docstring of their own; they have one in the source, below the assignment."""


def kinds_sorted(names: list[str]) -> list[str]:
    """Return names in the order of isort's: CONSTANTS, Classes, functions."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name))


def imported_names(module: ModuleType) -> set[str]:
    """Return what a package's own source imports into it, by name."""
    tree = ast.parse(inspect.getsource(module))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    return {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
class TestAll:
    def test_sorted_once_each(self, module: ModuleType) -> None:
        """``__all__`` is in order, so that a double or missing name is seen in a review."""
        assert module.__all__ == kinds_sorted(sorted(set(module.__all__)))

    def test_importable(self, module: ModuleType) -> None:
        """Every name in ``__all__`` is there."""
        assert [name for name in module.__all__ if not hasattr(module, name)] == []

    def test_complete(self, module: ModuleType) -> None:
        """What the package imports for its users is in ``__all__``, and nothing else is."""
        assert set(module.__all__) == imported_names(module)

    def test_star_import_gives_it(self, module: ModuleType) -> None:
        """``from … import *`` gives exactly ``__all__``."""
        namespace: dict[str, object] = {}
        exec(f"from {module.__name__} import *", namespace)

        assert set(namespace) - {"__builtins__"} == set(module.__all__)

    def test_documented(self, module: ModuleType) -> None:
        """Every public class and function has a docstring of its own, not one that it inherited."""
        undocumented = [
            name
            for name in module.__all__
            if name not in CONSTANTS and not vars_of(getattr(module, name)).get("__doc__")
        ]

        assert undocumented == []

    def test_public_methods_documented(self, module: ModuleType) -> None:
        """So has every public method of a public class."""
        undocumented = [
            f"{name}.{method}"
            for name in module.__all__
            for method, function in vars_of(getattr(module, name)).items()
            if not method.startswith("_") and inspect.isfunction(function) and not function.__doc__
        ]

        assert undocumented == []


def vars_of(thing: object) -> dict[str, object]:
    """Return the attributes of a class itself, or the docstring of a function."""
    return dict(vars(thing)) if isinstance(thing, type) else {"__doc__": getattr(thing, "__doc__", None)}


def test_every_error_is_public() -> None:
    """Every error of the tree can be imported from blobcp, and is the same class there."""
    assert [
        name for name in blobcp.errors.__all__ if getattr(blobcp, name, None) is not getattr(blobcp.errors, name)
    ] == []


def test_errors_module_hides_none() -> None:
    """Every class of the errors module that is an exception is in its ``__all__``."""
    classes = {
        name
        for name, thing in vars(blobcp.errors).items()
        if isinstance(thing, type) and issubclass(thing, BaseException) and thing.__module__ == "blobcp.errors"
    }

    assert set(blobcp.errors.__all__) == classes


def test_every_error_is_of_the_tree() -> None:
    """One ``except BlobcpError`` catches them all."""
    errors = [getattr(blobcp, name) for name in blobcp.errors.__all__]

    assert [error for error in errors if not issubclass(error, blobcp.BlobcpError)] == []


def test_tree_in_the_docstring_is_true() -> None:
    """The tree that the errors module draws has every error, indented below its base."""
    text = blobcp.errors.__doc__ or ""
    lines = [line for line in text.splitlines() if "├──" in line or "└──" in line]
    drawn = {line.split("── ")[1].split()[0]: line.index("── ") // 4 for line in lines}
    depths = {name: len(lineage(getattr(blobcp.errors, name))) - 1 for name in blobcp.errors.__all__}
    del depths["BlobcpError"]

    assert drawn == depths


def lineage(error: type[BaseException]) -> list[type]:
    """Return an error and those above it within the tree."""
    return [base for base in error.__mro__ if issubclass(base, blobcp.BlobcpError)]


def test_signal_is_no_exception() -> None:
    """A node's ``except Exception`` can't catch the stop, and ``except BlobcpError`` neither."""
    assert not issubclass(blobcp.InterruptSignal, Exception)


@pytest.mark.parametrize("name", ["blobcp", "blobcp.stores", "blobcp.migrations"])
def test_importable_on_its_own(name: str) -> None:
    """Each package can be the first one that a program imports."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_stores_have_no_core_names() -> None:
    """A store is imported from blobcp.stores only; the core does not know any."""
    assert not set(blobcp.stores.__all__) & set(blobcp.__all__)
