"""A program that resumes stops when it is told to, so that two of it can do so at the same moment.

``python rival_program.py URL DRIVER NAME FOLDER``: opens the store, says ``ready``, then for each line of JSON on standard
input, ``[checkpoint id, answer]``, resumes that checkpoint and prints what came of it as JSON, ``[kind, text]``. The node
after the stop waits until the node of the other program runs, too: both have read the same blob by then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from drivers import AsyncRunner, Runner, SyncRunner

from blobcp import END, START, App, CheckpointConflictError, Graph, Interrupted, interrupt
from blobcp.stores import open_store

__all__ = ["RIVALS", "build"]

RUNNERS: dict[str, type[Runner]] = {"sync": SyncRunner, "async": AsyncRunner}

RIVALS = ("ann", "bob")

LIMIT = 30.0
"""Seconds to wait for the other one."""


def build(url: str, name: str, folder: Path) -> App:
    """Return an app that asks ``who?``, works, and asks again where the answer ended in an exclamation mark.

    Args:
        url: the store's.
        name: who works. One of the rivals waits for the other before it does; anybody else does not.
        folder: where rivals meet, and where each that worked leaves a file ``JOB-NAME``.
    """

    def ask(job: str) -> list[str]:
        return [job, interrupt("who?")]

    def work(given: list[str]) -> str:
        job, answer = given
        (folder / f"{job}-{name}").touch()
        if name in RIVALS:
            meet([folder / f"{job}-{rival}" for rival in RIVALS])
        return f"{job} done by {answer}"

    def finish(done: str) -> str:
        return f"{done}, {interrupt(done)}" if done.endswith("!") else done

    graph = Graph(str, str, name="rivals")
    before = START
    for key, node in (("ask", ask), ("work", work), ("finish", finish)):
        graph.add_node(key, node)
        graph.add_edge(before, key)
        before = key
    graph.add_edge(before, END)
    return graph.compile(store=open_store(url))


def meet(files: list[Path]) -> None:
    """Wait until all the files are there."""
    last = time.monotonic() + LIMIT
    while not all(file.exists() for file in files):
        assert time.monotonic() < last, f"nobody came: {files}"
        time.sleep(0.001)


def outcome(runner: Runner, app: App, checkpoint_id: str, answer: str) -> tuple[str, Any]:
    """Resume and say what came of it."""
    try:
        return "done", runner.resume(app, checkpoint_id, answer=answer)
    except Interrupted as stop:
        return "stopped", stop.interrupts[0].info
    except CheckpointConflictError as error:
        return "conflict", error.checkpoint_id


def main(url: str, driver: str, name: str, folder: str) -> None:
    """Resume what each line of input names."""
    app = build(url, name, Path(folder))
    runner = RUNNERS[driver]()
    print("ready", flush=True)
    for line in sys.stdin:
        checkpoint_id, answer = json.loads(line)
        print(json.dumps(outcome(runner, app, checkpoint_id, answer)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
