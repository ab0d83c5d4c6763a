"""The direction of imports inside blobcp, checked on the source without running it.

The rules stand in two tables, ``LAYERS`` and ``BESIDE``; the rest of the file finds the imports and judges them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["find_violations", "find_modules"]

LAYERS: list[set[str]] = [
    {"errors"},
    {"store", "wrapping", "by_name", "checkpoint", "points", "resumption", "typed_none"},
    {"codec", "stream"},
    {"cancel", "checkpointer", "interrupt", "scope"},
    {"graph"},
    {"tools"},
    {""},  # blobcp itself: it re-exports the layers below
    {"cli"},
]
"""Modules of blobcp from the inside out; each may import its own layer and those before it."""

BESIDE: dict[str, set[str]] = {
    "stores": {"errors", "store", "wrapping", "codec"},
    "migrations": {"errors", "store", "checkpoint", "codec", "stream", "checkpointer", "interrupt"},
    "testing": {"errors", "by_name", "store", "wrapping", "checkpoint", "codec", "stream"},
}
"""Modules that stand beside the layers, and what each may import besides itself; no layer but cli may import them."""

CLI_MAY_IMPORT = {"testing", "stores", "migrations"}

CORE_LIBRARIES = {"blobcp", "cloudpickle", "msgspec", *sys.stdlib_module_names}

OUTSIDE_CORE = {"cli", "stores", "testing"}
"""Modules that may need an extra's library."""


@dataclass(frozen=True)
class Import:
    """One imported name: the full dotted name, where it stands, and whether it runs when its module is imported."""

    name: str
    line: int
    runs_on_import: bool
    for_types_only: bool


def find_violations(root: Path) -> list[str]:
    """Return a sentence for each import under ``root / "blobcp"`` that goes the wrong way; empty where all is well."""
    modules = list(find_modules(root))
    parts = {name.split(".")[1] for name, _ in modules if "." in name}.union(*LAYERS, BESIDE)
    found = (
        f"{path.relative_to(root)}:{item.line}: {problem}"
        for module, path in modules
        for item in _find_imports(module, path)
        if (problem := _judge(_part(module, parts), _part(item.name, parts), item))
    )
    return list(dict.fromkeys(found))


def find_modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and the file of every module under ``root / "blobcp"``, links to folders included."""
    for folder, _, files in os.walk(root / "blobcp", followlinks=True):
        for path in (Path(folder, file) for file in sorted(files) if file.endswith(".py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _find_imports(module: str, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield from _walk(ast.parse(path.read_text(encoding="utf-8")), package, runs_on_import=True, for_types_only=False)


def _walk(node: ast.AST, package: str, *, runs_on_import: bool, for_types_only: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in _imported_names(node, package):
            yield Import(name, node.lineno, runs_on_import, for_types_only)
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        runs_on_import = False
    for child in ast.iter_child_nodes(node):
        in_type_block = isinstance(node, ast.If) and _asks_type_checking(node.test) and child in node.body
        yield from _walk(child, package, runs_on_import=runs_on_import, for_types_only=for_types_only or in_type_block)


def _imported_names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    source = ".".join([*above, *filter(None, [node.module])])
    yield from (f"{source}.{alias.name}" for alias in node.names)


def _asks_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _judge(importer: str, imported: str, item: Import) -> str | None:
    library = item.name.partition(".")[0]
    if library != "blobcp":
        needed = item.runs_on_import and not item.for_types_only
        if needed and library not in CORE_LIBRARIES and importer not in OUTSIDE_CORE:
            return f"imports {library} at module level; the core has msgspec and cloudpickle only"
        return None
    if importer == imported or (importer == "errors" and item.for_types_only):
        return None
    for part in (importer, imported):
        if part not in BESIDE and _rank(part) is None:
            return f"blobcp.{part} has no place in the layers; give it one in {Path(__file__).name}"
    return None if _may_import(importer, imported) else f"must not import {item.name}"


def _part(name: str, parts: set[str]) -> str:
    """Return the module below blobcp that a name belongs to; ``""`` is blobcp itself and what it re-exports."""
    part = [*name.split("."), ""][1]
    return part if part in parts else ""


def _rank(part: str) -> int | None:
    return next((rank for rank, layer in enumerate(LAYERS) if part in layer), None)


def _may_import(importer: str, imported: str) -> bool:
    if importer in BESIDE:
        return imported in BESIDE[importer]
    if importer == "cli" and imported in CLI_MAY_IMPORT:
        return True
    own, other = _rank(importer), _rank(imported)
    return own is not None and other is not None and other <= own
