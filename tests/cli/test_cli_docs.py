"""The page on the command line is true: what it shows is what a shell shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blobcp.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(r"\b[0-9a-f]{32,}\b|\d{4}-\d\d-\d\dT[\d:]+Z|\d+ B$|\t\d+$", re.MULTILINE)
REST = "...\n"
"""Stands for what a command prints beyond."""


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block and what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run_line(line: str) -> str:
    """Run a command line and return what it prints, stdout and stderr in order."""
    words = shlex.split(line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(words[1 : words.index("|")] if "|" in words else words[1:])
    if "|" not in words:
        return printed.getvalue()
    piped = words[words.index("|") + 1 :]
    done = subprocess.run(piped, input=printed.getvalue(), capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the page, run in order in one folder, prints what stands below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ran = []
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            subprocess.run([sys.executable, "-c", block], cwd=tmp_path, timeout=60, check=True)
            continue
        for command, printed in commands_of(block):
            if "| jq " in command and shutil.which("jq") is None:
                continue
            expected, found = CHANGING.sub("<>", printed), CHANGING.sub("<>", run_line(command))
            if expected.endswith(REST):
                expected = expected.removesuffix(REST)
                found = found[: len(expected)]
            assert (command, found) == (command, expected)
            ran.append(command.split()[1])

    assert {"ls", "show", "verify", "diff", "fork", "rm", "copy", "migrate", "restore"} <= set(ran)
