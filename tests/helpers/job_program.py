"""A program that runs a job over a store of files, to be killed and stopped: ``job_program.py folder journal [option=…]``.

It prints ``ready`` before it starts and the report, as JSON, when it has ended; and how much memory it took at most.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from job_blobs import count_up

from blobcp.migrations import JobReport, MigrationJob, StoreJournal
from blobcp.stores import FileStore

__all__ = ["kill_once_noted", "lines_in", "report_of", "start"]


def start(folder: Path, journal: Path | str, **options: Any) -> subprocess.Popen[str]:
    """Start the program and wait until it is ready.

    Args:
        folder: the store's.
        journal: a file, or ``key:…`` for one in the store.
        options: ``rate`` and ``workers`` of the job.
    """
    arguments = [str(folder), str(journal), *(f"{name}={value}" for name, value in options.items())]
    program = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


def kill_once_noted(program: subprocess.Popen[str], noted: Callable[[], int], count: int, limit: float) -> bool:
    """Kill the program when so much is noted; return whether it was still there to be killed.

    Args:
        program: the program.
        noted: how much there is.
        count: how much there should be.
        limit: how long to wait, in seconds.
    """
    until = time.monotonic() + limit
    while noted() < count:
        if program.poll() is not None:
            return False
        assert time.monotonic() < until, f"{noted()} of {count} noted after {limit} s"
        time.sleep(0.001)
    program.kill()
    program.communicate()
    return program.returncode < 0


def report_of(program: subprocess.Popen[str], limit: float = 60) -> dict[str, Any]:
    """Return what the program has printed at its end."""
    output, _ = program.communicate(timeout=limit)
    assert program.returncode == 0
    report: dict[str, Any] = json.loads(output)
    return report


def lines_in(journal: Path) -> int:
    """Return how many lines a journal has."""
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _main(folder: str, where: str, *options: str) -> None:
    store = FileStore(folder, durable=False)
    given = dict(option.split("=") for option in options)
    journal: Any = StoreJournal(store, where.removeprefix("key:")) if where.startswith("key:") else where
    job = MigrationJob(
        store,
        count_up,
        prefix="order-",
        journal=journal,
        rate=float(given["rate"]) if "rate" in given else None,
        workers=int(given.get("workers", 1)),
        batch_size=int(given.get("batch_size", 32)),
    )
    print("ready", flush=True)
    report: JobReport = job.run()
    told = {
        name: getattr(report, name) for name in ("changed", "unchanged", "failed", "earlier", "looked_at", "stopped")
    }
    print(json.dumps({**told, "peak": peak_memory()}))


def peak_memory() -> int:
    """Return the most memory that this program had, in bytes."""
    try:
        # getrusage counts what the process that started this one had before it became this one.
        [peak] = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return int(peak) * 1024


if __name__ == "__main__":
    _main(*sys.argv[1:])
