"""A program that writes to a FileStore under conditions, for the tests that let it compete or kill it.

``python file_rival.py count FOLDER TIMES``: waits for a line of input, then adds one to the number under ``N`` that
often, trying again after each conflict. ``python file_rival.py hold FOLDER``: stops for good in the middle of a ``set_if``
on ``K``, with the lock in its hands. Both write a byte to standard output when they are that far.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from blobcp.errors import CheckpointConflictError
from blobcp.stores import FileStore


def count(folder: str, times: str) -> None:
    """Add one to the stored number, as often as asked."""
    store = FileStore(folder)
    acknowledge()
    sys.stdin.readline()
    for _ in range(int(times)):
        while not add_one(store):
            pass


def add_one(store: FileStore) -> bool:
    """Add one to the number under ``N``, unless somebody else does so meanwhile."""
    found = store.get_versioned("N")
    number, version = (int(found[0]), found[1]) if found else (0, None)
    try:
        store.set_if("N", b"%d" % (number + 1), version)
    except CheckpointConflictError:
        return False
    return True


def hold(folder: str) -> None:
    """Stop between the comparison and the rename."""

    def never_ends(source: Path, target: str) -> Path:
        acknowledge()
        while True:
            time.sleep(60)

    store = FileStore(folder)
    found = store.get_versioned("K")
    Path.replace = never_ends  # type: ignore[assignment, method-assign]
    store.set_if("K", b"never stored", found and found[1])


def acknowledge() -> None:
    """Tell whoever started this program."""
    sys.stdout.write("!")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(*sys.argv[2:])
    else:
        hold(*sys.argv[2:])


SCRIPT = Path(__file__)
