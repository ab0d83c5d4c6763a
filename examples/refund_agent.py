"""One run of the refund agent in four processes that share nothing but a folder: stop, answer, fork, restart.

``python examples/refund_agent.py`` plays all of it. Each part is a process of its own, and can be called by hand as
well: ``start``, ``approve``, ``refuse``, ``restart``. The blobs stay in ``demo-checkpoints``, for you to look at.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from refund_graph import Decision, UserMessage, make_app

from blobcp import Interrupted, read_header
from blobcp.stores import FileStore

FOLDER = Path("demo-checkpoints")
TICKET = "ticket-1042"
REQUEST = UserMessage("Order 1042 arrived broken, I want my money back.")
SECONDS = 60.0
"""The longest that one process may take."""


def start() -> None:
    """Start the run; it stops where the agent wants to pay."""
    try:
        make_app(FileStore(FOLDER)).invoke(REQUEST, checkpoint_id=TICKET)
    except Interrupted as stop:
        report(stop)


def approve() -> None:
    """Answer yes, in a fork, so that the stored stop stays as it is."""
    answer(Decision(approved=True, note="approved by the support lead"), f"{TICKET}-approved")


def refuse() -> None:
    """Go back to the same stop and answer no, in another fork."""
    answer(Decision(approved=False, note="the photo shows another product"), f"{TICKET}-refused")


def restart() -> None:
    """Begin again under the same id, whatever is stored there."""
    try:
        make_app(FileStore(FOLDER)).invoke(REQUEST, checkpoint_id=TICKET, force_new_run=True)
    except Interrupted as stop:
        report(stop)


def answer(decision: Decision, fork: str) -> None:
    """Show what waits under the ticket, answer it, and let the run finish under another id."""
    app = make_app(FileStore(FOLDER))
    (point,) = app.pending(TICKET)
    print(f"  pending      {point.info}")
    print(f"  answer       {decision}", flush=True)
    text = app.resume(TICKET, {point.id: decision}, write_to_checkpoint_id=fork)
    print(f"  finished     {text}")


def report(stop: Interrupted) -> None:
    """Say where a run has stopped and what it asks."""
    for point in stop.interrupts:
        print(f"  stopped at   {point.address}")
        print(f"  it asks      {point.info.question}")


PARTS: dict[str, Callable[[], None]] = {"start": start, "approve": approve, "refuse": refuse, "restart": restart}


def play() -> None:
    """Run the parts one after the other, each in a process that exits, and look at the blobs from outside."""
    store = FileStore(FOLDER)
    for checkpoint_id in store.list():
        store.delete(checkpoint_id)
    run("Process 1 starts the run and stops.", "start")
    show_header(store, TICKET)
    before = digest(store, TICKET)
    run("Process 2 reads what is pending, approves and finishes, saving to a fork.", "approve")
    run("Process 3 goes back to the same stop with the other decision.", "refuse")
    after = digest(store, TICKET)
    print(f"\nThe source before the two forks: sha256 {before}")
    print(f"The source after them:           sha256 {after} ({'unchanged' if before == after else 'CHANGED'})")
    run("Process 4 restarts under the same id with force_new_run.", "restart")
    print(f"\nWhat is left in {FOLDER}:")
    for checkpoint_id in store.list():
        show_line(store, checkpoint_id)


def run(title: str, part: str) -> None:
    """Run one part in a process of its own and wait for its end."""
    print(f"\n{title}", flush=True)
    subprocess.run([sys.executable, __file__, part], check=True, timeout=SECONDS)


def show_header(store: FileStore, checkpoint_id: str) -> None:
    """Print what a blob says of itself; this needs none of the agent's classes."""
    blob = load(store, checkpoint_id)
    header = read_header(blob)
    print(f"\nThe process is gone. What it left is one blob of {len(blob)} bytes, whose header says:")
    for name in ("checkpoint_id", "graph", "serializer", "run_id", "step", "created_at", "status"):
        print(f"  {name:<14}{getattr(header, name)}")
    for waiting in header.pending:
        print(f"  pending       {waiting.id} at {waiting.address}")


def show_line(store: FileStore, checkpoint_id: str) -> None:
    """Print one blob's place in the tree of runs."""
    header = read_header(load(store, checkpoint_id))
    parent = f"  fork of {header.parent.id}" if header.parent else ""
    print(f"  {checkpoint_id:<22}{header.status:<13}step {header.step}  run {header.run_id[:8]}{parent}")


def digest(store: FileStore, checkpoint_id: str) -> str:
    """Return the first digits of the hash of what is stored."""
    return sha256(load(store, checkpoint_id)).hexdigest()[:16]


def load(store: FileStore, checkpoint_id: str) -> bytes:
    """Return what is stored under an id, which must be there."""
    blob = store.get(checkpoint_id)
    assert blob is not None, f"nothing is stored under {checkpoint_id}"
    return blob


def main() -> None:
    """Play the part that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS, help="one part only; leave it out for the whole play")
    part = parser.parse_args().part
    if part is None:
        play()
    else:
        PARTS[part]()


if __name__ == "__main__":
    main()
