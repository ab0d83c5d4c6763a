"""The golden blobs of tests/codec/golden, and the script that made them as a module, loaded once for all tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["FILES", "golden", "make"]

_FOLDER = Path(__file__).parent.parent / "codec" / "golden"

FILES = sorted(path.stem for path in (_FOLDER / "v1").glob("*.blob"))


def golden(name: str) -> bytes:
    """Return a golden blob."""
    return (_FOLDER / "v1" / f"{name}.blob").read_bytes()


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_blobs_make", _FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module of a class
    spec.loader.exec_module(module)
    return module


make = _load()
