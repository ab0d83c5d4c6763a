from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from blobcp import read_header
from blobcp.stores import FileStore

DEMO = Path(__file__).resolve().parents[2] / "examples" / "tools_agent.py"

PRINTED = """\
start:
  look_up runs       1042
  stopped at         runnable:agent;node:tools;tool:refund:call_2
  it asks            {'ask': 'refund?', 'order': '1041', 'euros': 12.5}
approve:
  done already       {'call_1': '{"order":"1042","euros":89.9,"state":"delivered"}'}
  refund runs        1041
  finished           {"order":"1042","euros":89.9,"state":"delivered"}; paid 12.5 EUR for 1041
"""


def play(folder: Path, *arguments: str) -> str:
    """Run the demo, or a part of it, in a folder, and return what it printed."""
    command = [sys.executable, str(DEMO), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_two_processes(tmp_path: Path) -> None:
    """The second process answers one of two calls; the other one is not run again, and the agent goes on."""
    assert play(tmp_path) == PRINTED
    assert read_header(FileStore(tmp_path / "tools-checkpoints").get("ticket-7") or b"").status == "done"


def test_played_twice(tmp_path: Path) -> None:
    """A second play is not disturbed by what the first has left, be it finished or not."""
    play(tmp_path, "start")

    assert play(tmp_path) == play(tmp_path) == PRINTED
