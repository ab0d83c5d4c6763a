"""The command in this process, for tests that need no pipe and no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, Done

from blobcp.cli import main
from blobcp.stores import FileStore


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``blobcp`` with arguments; the status and what was written come back."""
    monkeypatch.delenv("BLOBCP_KEYS", raising=False)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> FileStore:
    """A store in a folder."""
    return FileStore(tmp_path / "runs", durable=False)


@pytest.fixture
def url(folder: FileStore) -> str:
    """The URL of that store."""
    return f"file:{folder.folder}?durable=false"
