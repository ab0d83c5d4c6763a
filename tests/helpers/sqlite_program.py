"""A program that uses a SQLiteStore beside others, for the tests with several processes.

``python sqlite_program.py JOB FILE ARGUMENT…``: says ``ready``, waits for a line of input, does the job, says ``done``.
"""

from __future__ import annotations

import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from blobcp.errors import CheckpointConflictError
from blobcp.stores.sqlite import SQLiteStore

__all__ = ["SCRIPT", "blob_of", "go", "run_together", "running"]

SCRIPT = Path(__file__)
BLOB_BYTES = 20_000
LONGEST_WAIT = 60.0  # seconds; a program that says nothing for so long is stuck


def blob_of(name: str, number: int) -> bytes:
    """Return the blob of 20 kB that a writer stores as its n-th."""
    return f"{name}:{number}:".encode().ljust(BLOB_BYTES, name[:1].encode())


def save_apart(file: str, name: str, count: str) -> None:
    """Save that many blobs, each under an id of its own."""
    with SQLiteStore(file) as store:
        for number in range(int(count)):
            store.set(f"{name}-{number}", blob_of(name, number))


def save_same(file: str, name: str, count: str) -> None:
    """Save that many blobs under one id, and read it after each."""
    with SQLiteStore(file) as store:
        for number in range(int(count)):
            store.set("shared", blob_of(name, number))
            found = store.get("shared")
            assert found is not None
            writer, written, _ = found.split(b":", 2)
            assert found == blob_of(writer.decode(), int(written)), found[:50]


def increment(file: str, count: str) -> None:
    """Add one to a stored number that many times, reading it again where somebody else was first."""
    with SQLiteStore(file) as store:
        for _ in range(int(count)):
            while True:
                seen = store.get_versioned("counter")
                number, version = (int(seen[0]), seen[1]) if seen else (0, None)
                try:
                    store.set_if("counter", b"%d" % (number + 1), version)
                except CheckpointConflictError:
                    continue
                break


def read_long(file: str) -> None:
    """Hold a read transaction for 2 of every 3 seconds, until a second line of input comes."""
    connection = sqlite3.connect(file, isolation_level=None)
    told = False
    while not told:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM checkpoints").fetchone()
        time.sleep(2)
        connection.execute("COMMIT")
        told = bool(select.select([sys.stdin], [], [], 1)[0])
    connection.close()


JOBS = {job.__name__: job for job in (save_apart, save_same, increment, read_long)}


@contextmanager
def running(job: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start the program, wait until it is ready; at the end see that it is done, or end it."""
    command = [sys.executable, SCRIPT, job, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            hear(program, "ready")
            yield program
        except BaseException:
            program.kill()
            raise
        said, complaint = program.communicate("\n", timeout=LONGEST_WAIT)
    assert (program.returncode, said, complaint) == (0, "done\n", "")


def go(program: subprocess.Popen[str]) -> None:
    """Let a program begin."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def hear(program: subprocess.Popen[str], word: str) -> None:
    """Wait until a program says a word."""
    assert program.stdout is not None
    assert program.stderr is not None
    assert select.select([program.stdout], [], [], LONGEST_WAIT)[0], "the program is stuck"
    assert program.stdout.readline() == f"{word}\n", program.stderr.read()


def run_together(*jobs: tuple[object, ...]) -> None:
    """Run several programs that begin at the same moment; an error in one of them fails."""
    with ExitStack() as stack:
        programs = [stack.enter_context(running(str(job), *arguments)) for job, *arguments in jobs]
        for program in programs:
            go(program)


def main(job: str, *arguments: str) -> None:
    """Do a job once told to."""
    print("ready", flush=True)
    sys.stdin.readline()
    JOBS[job](*arguments)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
