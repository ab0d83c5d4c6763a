"""What a test does where a server that it needs is not to be had."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["absent"]


def absent(reason: str) -> NoReturn:
    """Skip the test with its reason; fail it where ``CI`` says that everything has to be there."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; on CI it has to be there")
    pytest.skip(reason)
