from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from blobcp import read_header
from blobcp.stores import FileStore

DEMO = Path(__file__).resolve().parents[2] / "examples" / "refund_agent.py"


def play(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo, or a part of it, in a folder."""
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments], cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the demo runs in."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What the demo prints."""
    done = play(folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def part_of(printed: str, process: int) -> str:
    """Return what one of the processes printed."""
    return next(block for block in printed.split("\n\n") if block.lstrip().startswith(f"Process {process} "))


def test_first_process_stops(printed: str) -> None:
    """The run stops at the dangerous tool and says what it asks."""
    part = part_of(printed, 1)

    assert "order 1042 of 2025-11-03, 89.90 EUR" in part
    assert "stopped at   runnable:refunds;node:refund" in part
    assert "May I pay 89.90 EUR back?" in part


def test_header_is_shown(printed: str) -> None:
    """The blob's header tells status, step and what is pending."""
    assert re.search(r"graph +refunds\n", printed)
    assert re.search(r"status +interrupted\n", printed)
    assert re.search(r"pending +[0-9a-f]{32} at runnable:refunds;node:refund\n", printed)


def test_second_process_goes_on(printed: str) -> None:
    """The question comes back as the objects it was made of, and finished work does not run again."""
    part = part_of(printed, 2)

    assert "Order(number='1042', placed=datetime.date(2025, 11, 3), total=Decimal('89.90'))" in part
    assert "finished     Dear customer: 89.90 EUR for order 1042 are on their way" in part
    assert "UserMessage" not in part
    assert "order 1042 of 2025-11-03" not in part


def test_third_process_decides_otherwise(printed: str) -> None:
    """The same stop takes the other answer as well."""
    part = part_of(printed, 3)

    assert "finished     Dear customer: no refund for order 1042" in part
    assert "UserMessage" not in part


def test_source_is_unchanged(printed: str) -> None:
    """Two forks leave the source byte for byte."""
    digests = re.findall(r"sha256 ([0-9a-f]{16})", printed)

    assert len(digests) == 2
    assert digests[0] == digests[1]
    assert "(unchanged)" in printed


def test_fourth_process_begins_again(printed: str) -> None:
    """A forced run starts with the customer's message and stops at the same place."""
    part = part_of(printed, 4)

    assert "UserMessage" in part
    assert "stopped at   runnable:refunds;node:refund" in part


def test_blobs_are_left(folder: Path, printed: str) -> None:
    """Three blobs stay: the restarted run, which waits, and two finished forks that name their source."""
    store = FileStore(folder / "demo-checkpoints")
    headers = {checkpoint_id: read_header(store.get(checkpoint_id) or b"") for checkpoint_id in store.list()}

    assert {checkpoint_id: header.status for checkpoint_id, header in headers.items()} == {
        "ticket-1042": "interrupted",
        "ticket-1042-approved": "done",
        "ticket-1042-refused": "done",
    }
    assert [header.parent.id if header.parent else None for header in headers.values()] == [
        None,
        "ticket-1042",
        "ticket-1042",
    ]
    assert len({header.run_id for header in headers.values()}) == 3
    assert "ticket-1042-approved  done" in printed


def test_parts_can_be_played_by_hand(tmp_path: Path) -> None:
    """Each part is a command; one that does not exist is refused with the list of those that do."""
    assert play(tmp_path, "start").returncode == 0
    assert "finished" in play(tmp_path, "approve").stdout
    assert "choose from" in play(tmp_path, "dance").stderr


def test_demo_begins_clean(tmp_path: Path) -> None:
    """A second play does not trip over the blobs of the first."""
    folders = [play(tmp_path).returncode for _ in range(2)]

    assert folders == [0, 0]
