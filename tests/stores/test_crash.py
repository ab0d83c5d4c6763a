from __future__ import annotations

import random
import select
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from saver import BIG, NUMBER_BYTES, SCRIPT, read_numbered

from blobcp.stores import FileStore

LONGEST_WAIT = 60.0  # seconds; a child that says nothing for so long is stuck


def test_a_killed_writer_leaves_the_last_blob_or_a_newer_one(tmp_path: Path) -> None:
    """After SIGKILL in the middle of a save, the store gives the last acknowledged blob, or the one being saved, whole."""
    kill_numbered(tmp_path, kills=15)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_hundred_killed_writers(tmp_path: Path) -> None:
    """The same, 220 times; most of the kills meet a save half-way."""
    half_way = kill_numbered(tmp_path, kills=220)

    assert half_way >= 22


def kill_numbered(folder: Path, *, kills: int) -> int:
    """Kill that many writers one after the other, judge the store after each; return how many left a temporary file."""
    store = FileStore(folder)
    moment = random.Random(20_240_911)
    last = 0
    for kill in range(1, kills + 1):
        acknowledged = kill_while_it_saves("numbered", folder, moment, NUMBER_BYTES, longest=0.01)
        last = int.from_bytes(acknowledged[-NUMBER_BYTES:], "big")
        blob = store.get("K")

        assert blob is not None
        assert read_numbered(blob) in (last, last + 1)
        assert [*store.list()] == ["K"]
        assert len(left_behind(folder)) <= kill
    half_way = len(left_behind(folder))

    assert store.sweep(timedelta(0)) == half_way
    assert left_behind(folder) == []
    blob = store.get("K")
    assert blob is not None
    assert read_numbered(blob) >= last
    return half_way


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(30, marks=[pytest.mark.soak, pytest.mark.timeout(900)])], ids=["short", "full"]
)
def test_a_large_blob_is_never_a_mix(tmp_path: Path, rounds: int) -> None:
    """F24 (1): 20 MB of A and of B in turn, killed at a random moment: all A or all B, one leftover a kill at most."""
    store = FileStore(tmp_path)
    moment = random.Random(24)

    for _ in range(rounds):
        kill_while_it_saves("alternating", tmp_path, moment, 1, longest=0.15)

        assert store.get("K") in (b"A" * BIG, b"B" * BIG)
        assert len(left_behind(tmp_path)) <= 1
        store.sweep(timedelta(0))
        assert left_behind(tmp_path) == []


def kill_while_it_saves(mode: str, folder: Path, moment: random.Random, size: int, *, longest: float) -> bytes:
    """Start a saver, kill it up to ``longest`` seconds after its first few acknowledgements, return all of these."""
    with subprocess.Popen([sys.executable, SCRIPT, mode, folder], stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout is not None
        try:
            said = b""
            for _ in range(moment.randint(1, 4)):
                assert select.select([child.stdout], [], [], LONGEST_WAIT)[0], "the saver is stuck"
                said += child.stdout.read(size) or b""
            # Nothing is waited for here; this picks the moment.
            select.select([], [], [], moment.uniform(0, longest))
        finally:
            child.kill()
        child.wait(LONGEST_WAIT)
        said += child.stdout.read() or b""
    assert child.returncode == -9
    return said[: len(said) // size * size]


def left_behind(folder: Path) -> list[Path]:
    """Return the temporary files of saves that were not finished."""
    return [path for path in folder.iterdir() if path.suffix == ".tmp"]
