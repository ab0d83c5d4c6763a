from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from import_rules import find_modules, find_violations

ROOT = Path(__file__).resolve().parent.parent

EXTRAS = {
    "boto3",
    "botocore",
    "filelock",
    "hypothesis",
    "psycopg",
    "redis",
    "cryptography",
    "zstandard",
    "typer",
    "rich",
    "langgraph",
    "distributed",
    "dask",
    "opentelemetry",
    "attrs",
    "attr",
    "numpy",
    "pydantic",
    "werkzeug",
    "wrapt",
}

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/")
REGISTRY_HOST = re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|proxy\.golang|deb\.debian")


def make_tree(folder: Path, files: dict[str, str]) -> Path:
    """Write sources below ``folder / "blobcp"`` and return ``folder``."""
    for name, source in files.items():
        path = folder / "blobcp" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return folder


def test_imports_go_inwards() -> None:
    """Every import of the package points from the edges to the core, and the core needs no extra."""
    assert find_violations(ROOT) == []


def test_all_three_folders_are_seen() -> None:
    """The check reaches stores/ and migrations/ under the names that they are imported by."""
    names = {name for name, _ in find_modules(ROOT)}

    assert {"blobcp", "blobcp.errors", "blobcp.codec", "blobcp.stores", "blobcp.migrations"} <= names


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("store.py", "import blobcp.graph.app", "must not import blobcp.graph.app"),
        ("codec/x.py", "from blobcp import checkpointer", "must not import blobcp.checkpointer"),
        ("codec/x.py", "from .. import interrupt", "must not import blobcp.interrupt"),
        ("codec/x.py", "from ..graph.app import App", "must not import blobcp.graph.app.App"),
        ("codec/__init__.py", "from ..tools import ToolsNode", "must not import blobcp.tools.ToolsNode"),
        ("graph/x.py", "from blobcp import Graph", "must not import blobcp.Graph"),
        ("graph/x.py", "def f():\n    from blobcp.stores import MapStore", "must not import blobcp.stores.MapStore"),
        ("__init__.py", "from blobcp.migrations import Migrations", "must not import blobcp.migrations.Migrations"),
        ("stores/x.py", "from blobcp.graph import app", "must not import blobcp.graph.app"),
        ("stores/x.py", "from blobcp import migrations", "must not import blobcp.migrations"),
        ("migrations/x.py", "import blobcp.tools", "must not import blobcp.tools"),
        ("testing/x.py", "from blobcp.stores import MapStore", "must not import blobcp.stores.MapStore"),
        ("errors.py", "from blobcp.checkpoint import Checkpoint", "must not import blobcp.checkpoint.Checkpoint"),
        ("graph/x.py", "try:\n    import numpy.linalg\nexcept ImportError:\n    pass", "imports numpy at module level"),
        ("migrations/x.py", "import dask", "imports dask at module level"),
        ("novel.py", "import blobcp.errors", "blobcp.novel has no place in the layers"),
    ],
)
def test_an_import_outwards_is_found(tmp_path: Path, name: str, source: str, said: str) -> None:
    """An import against the layers is reported with file, line and name, in whatever form it is written."""
    tree = make_tree(tmp_path, {name: source})

    [problem] = find_violations(tree)

    assert problem.startswith(f"blobcp/{name}:")
    assert said in problem


def test_imports_inwards_are_allowed(tmp_path: Path) -> None:
    """Imports of the same layer or further in, an extra's library inside a function, and types of errors pass."""
    tree = make_tree(
        tmp_path,
        {
            "errors.py": (
                "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from blobcp.interrupt import InterruptPoint"
            ),
            "store.py": "from blobcp.errors import InvalidCheckpointIdError",
            "codec/__init__.py": "from .registry import register",
            "codec/registry.py": "import msgspec, json\ndef f():\n    import numpy",
            "graph/app.py": "from ..checkpointer import Checkpointer\nfrom . import run",
            "__init__.py": "from .graph import Graph\nfrom .tools import ToolsNode",
            "cli/__init__.py": "import typer\nfrom blobcp import Graph\nimport blobcp.testing",
            "stores/__init__.py": "from .s3 import S3Store",
            "stores/s3.py": "import boto3\nfrom blobcp.store import check_id",
        },
    )

    assert find_violations(tree) == []


@pytest.mark.parametrize("module", ["blobcp", "blobcp.stores", "blobcp.migrations", "blobcp.testing"])
def test_import_needs_no_extra(module: str) -> None:
    """Importing the package, the stores or the migrations imports no library of an extra."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert EXTRAS & set(done.stdout.split()) == set()


def test_no_file_names_a_machine() -> None:
    """No file of the repository holds a path of one machine or the host of a package registry."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    texts = {path: path.read_bytes().decode(errors="replace") for path in paths if path.is_file()}

    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in texts.items()
        for pattern in (MACHINE_PATH, REGISTRY_HOST)
        for match in pattern.finditer(text)
    ]
    assert len(texts) > 10
    assert found == []
