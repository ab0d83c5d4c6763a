"""Every test of streams is also a test that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stream_runs import nothing_left


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield
