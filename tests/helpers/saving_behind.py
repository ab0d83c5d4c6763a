"""A program that saves behind and ends, for the tests of what is left then.

``python saving_behind.py HOW FOLDER``: ``plain`` ends right after fifty saves; ``late`` saves once more in an exit handler;
``recovering`` has a store inside that fails once for each id; ``failing`` one that fails always; ``raising`` ends by an exception;
``daemon`` saves in a daemon thread; ``endless`` has daemon threads besides that never stop saving; ``interrupted`` is
interrupted while it waits for the rest to be written.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from pathlib import Path

from blobcp.errors import StoreError
from blobcp.stores import FileStore
from blobcp.stores.wrappers.write_behind import WriteBehindStore

SCRIPT = Path(__file__)
SAVES = 50


class SlowStore(FileStore):
    """A store that takes its time, and fails as often as it is told for each id."""

    failures = 0

    def set(self, checkpoint_id: str, checkpoint: bytes | bytearray | memoryview) -> None:
        time.sleep(0.005)  # so that the program is through long before the store is
        self.failed = getattr(self, "failed", {})
        self.failed[checkpoint_id] = self.failed.get(checkpoint_id, 0) + 1
        if self.failed[checkpoint_id] <= self.failures:
            raise StoreError("the network is away")
        super().set(checkpoint_id, checkpoint)


def main(how: str, folder: str) -> None:
    """Save, and end."""
    inside = SlowStore(folder, durable=False)
    inside.failures = {"recovering": 1, "failing": 1000}.get(how, 0)
    store = WriteBehindStore(inside, workers=2)
    if how == "late":
        atexit.register(store.set, "late", b"late")
    if inside.failures:
        store.set("A", b"blob")
        while ("A" in store.pending) and not store._queue._failed:
            time.sleep(0.001)
        return
    saving = threading.Thread(target=save_all, args=(store,), daemon=how == "daemon")
    saving.start()
    saving.join()
    if how == "endless":
        for number in range(4):
            threading.Thread(target=save_endlessly, args=(store, f"endless {number}"), daemon=True).start()
    if how == "interrupted":
        threading.Thread(target=interrupt_the_end).start()
    if how == "raising":
        raise ValueError("the end")


def save_all(store: WriteBehindStore) -> None:
    """Save what there has to be in the end."""
    for number in range(SAVES):
        store.set(f"{number}", b"%d" % number)


def save_endlessly(store: WriteBehindStore, checkpoint_id: str) -> None:
    """Save until the interpreter is gone."""
    while True:
        store.set(checkpoint_id, b"blob")


def interrupt_the_end() -> None:
    """Press Ctrl-C once the main thread is over."""
    threading.main_thread().join()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(*sys.argv[1:])
