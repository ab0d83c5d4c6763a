from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blobcp.errors import BlobcpError
from blobcp.stores import MapStore
from blobcp.testing import CheckResult, FailedChecksError, Outcome, Report, check_store

REPORT = Report(
    "DictStore",
    [
        CheckResult(capability="ids", name="case", outcome=Outcome.PASSED),
        CheckResult(capability="ids", name="accents", outcome=Outcome.FAILED, sentence="they are folded"),
        CheckResult(capability="list", name="order", outcome=Outcome.NOT_OFFERED, sentence="the store has no list"),
        CheckResult(capability="list", name="all", outcome=Outcome.NOT_OFFERED, sentence="the store has no list"),
    ],
)

QUICK = ["--large", "1000", "--rounds", "2", "--many", "9", "--examples", "2", "--ttl", "0.2"]


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder with a module of stores."""
    (folder / "my_stores.py").write_text(
        "from blobcp.stores import MapStore\n"
        "class Folding(MapStore):\n"
        "    def get(self, checkpoint_id):\n"
        "        return super().get(checkpoint_id.lower())\n"
        "    def set(self, checkpoint_id, checkpoint):\n"
        "        super().set(checkpoint_id.lower(), checkpoint)\n"
        "class Nested:\n"
        "    Store = MapStore\n"
        "NUMBER = 1\n"
        "def broken():\n"
        "    raise RuntimeError('no server')\n",
        encoding="utf-8",
    )
    (folder / "bad_module.py").write_text("def\n", encoding="utf-8")
    (folder / "exiting.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    command = [sys.executable, "-m", "blobcp.testing", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_counts_and_failures() -> None:
    """The counts add up to the checks, and failures are found without the others."""
    assert (REPORT.passed, REPORT.failed, REPORT.not_offered) == (1, 1, 2)
    assert [failure.name for failure in REPORT.failures] == ["accents"]


def test_table() -> None:
    """Printed, it has a line for each capability, one for each failure, and each reason once."""
    assert str(REPORT).splitlines() == [
        "DictStore: 1 passed, 1 failed, 2 not offered",
        "  ids   1 passed, 1 failed",
        "    FAILED accents: they are folded",
        "  list  2 not offered",
        "    not offered: the store has no list",
    ]
    assert repr(REPORT) == "<Report on DictStore: 1 passed, 1 failed: accents>"


def test_raise_for_failures() -> None:
    """Failures are raised as an error of blobcp's that is an ``AssertionError`` too; without any nothing happens."""
    with pytest.raises(FailedChecksError, match="FAILED accents: they are folded") as caught:
        REPORT.raise_for_failures()
    Report("DictStore", REPORT.results[:1]).raise_for_failures()

    assert caught.value.report is REPORT
    assert isinstance(caught.value, BlobcpError)
    assert isinstance(caught.value, AssertionError)


def test_as_dict() -> None:
    """The plain values can be written as JSON and hold the counts and each result."""
    written = json.loads(json.dumps(REPORT.as_dict()))

    assert {name: written[name] for name in ("store", "passed", "failed", "not_offered")} == {
        "store": "DictStore",
        "passed": 1,
        "failed": 1,
        "not_offered": 2,
    }
    assert written["results"][1] == {
        "capability": "ids",
        "name": "accents",
        "outcome": "failed",
        "sentence": "they are folded",
        "seconds": 0.0,
    }


def test_names_are_told_apart() -> None:
    """No two checks of a capability have one name, those of a capability stand together, and each took its time."""
    results = check_store(MapStore, large=1000, rounds=2, many=9, examples=2, ttl=0.2).results
    keys = [(result.capability, result.name) for result in results]
    capabilities = [result.capability for result in results]

    assert len(set(keys)) == len(keys)
    assert [*dict.fromkeys(capabilities)] == [
        name for name, before in zip(capabilities, ["", *capabilities], strict=False) if name != before
    ]
    assert max(result.seconds for result in results) > 0.1


def test_command_passes(tmp_path: Path) -> None:
    """A good store prints its table and exits with 0; the module is found in the current folder."""
    done = run("my_stores:Nested.Store", *QUICK, folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("MapStore: ")
    assert " 0 failed" in done.stdout


def test_command_fails(tmp_path: Path) -> None:
    """A store that fails a check exits with 1, after the whole table, or as JSON."""
    shown = run("my_stores:Folding", "--only", "ids", *QUICK, folder=tmp_path)
    as_json = run("my_stores:Folding", "--only", "ids", "--json", *QUICK, folder=tmp_path)

    assert (shown.returncode, as_json.returncode) == (1, 1)
    assert "FAILED upper and lower case are kept apart: get(" in shown.stdout
    assert json.loads(as_json.stdout)["failed"] > 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_stores", "'my_stores' names nothing; say MODULE:NAME"),
        ("my_stors:Folding", "can't import 'my_stors': ModuleNotFoundError"),
        ("bad_module:make", "can't import 'bad_module': SyntaxError"),
        ("exiting:make", "can't import 'exiting': SystemExit: 0"),
        ("my_stores:Fold", "module 'my_stores' has no 'Fold'"),
        ("my_stores:NUMBER", "my_stores:NUMBER is 1; name a function or class that opens the store"),
        ("my_stores:broken", "make_store() could not open the store: RuntimeError: no server"),
    ],
)
def test_command_misused(tmp_path: Path, name: str, said: str) -> None:
    """What names no store, or one that can't be opened, exits with 2 and one line, no traceback."""
    done = run(name, folder=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["my_stores:Folding", "--rounds", "0"], ["my_stores:Folding", "--only", "x"], []]
)
def test_command_with_bad_options(tmp_path: Path, arguments: list[str]) -> None:
    """Options that can't be meant exit with 2, too."""
    done = run(*arguments, folder=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_command_helps(tmp_path: Path) -> None:
    """``--help`` names each option of ``check_store``."""
    done = run("--help", folder=tmp_path)

    assert done.returncode == 0
    options = [name for name in check_store.__annotations__ if name not in {"make_store", "return"}]
    assert [name for name in options if f"--{name.replace('_', '-')} " not in done.stdout] == []
