from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from blobcp import read_header
from blobcp.stores import FileStore

DEMO = Path(__file__).resolve().parents[2] / "examples" / "streaming_agent.py"

PRINTED = """\
start:
  look_up runs   1042
  written        Order
  written        1042
  written        arrived
  written        broken.
  stopped at     runnable:letters;node:write
  it asks        {'ask': 'promise the money?', 'order': '1042', 'euros': 89.9}
approve:
  written        Order
  written        1042
  written        arrived
  written        broken.
  written        You
  written        get
  written        89.9
  written        EUR
  written        back.
  written        The shop
refuse:
  finished       Order 1042 arrived broken. Please send a photo. The shop
"""


def play(folder: Path, *arguments: str) -> str:
    """Run the demo, or a part of it, in a folder, and return what it printed."""
    command = [sys.executable, str(DEMO), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_three_processes(tmp_path: Path) -> None:
    """One process stops in mid-stream; two others go on by stream and by value, whatever an earlier play has left."""
    play(tmp_path, "start")
    play(tmp_path, "approve")

    assert play(tmp_path) == PRINTED

    store = FileStore(tmp_path / "streaming-checkpoints")
    status = {checkpoint_id: read_header(store.get(checkpoint_id) or b"").status for checkpoint_id in store.list()}
    assert status == {"ticket-9": "interrupted", "ticket-9-approved": "done", "ticket-9-refused": "done"}
