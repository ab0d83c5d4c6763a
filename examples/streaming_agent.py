"""An agent whose letter streams to the terminal while it is written, and stops in the middle to ask a person.

``python examples/streaming_agent.py`` plays it, each part in a process of its own: ``start`` shows what is written before the
question; ``approve`` goes on as a stream and ``refuse`` as a value, each in a fork. The model is scripted, so that nothing
needs a network.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blobcp import END, START, App, ChatChunk, Graph, Interrupted, StreamReader, interrupt
from blobcp.stores import FileStore

FOLDER = Path("streaming-checkpoints")
TICKET = "ticket-9"
SECONDS = 60.0
"""The longest that one process may take."""


def look_up(number: str) -> dict[str, Any]:
    """Look an order up: once, whatever becomes of the letter."""
    print(f"  look_up runs   {number}", flush=True)
    return {"order": number, "euros": 89.9}


def spoken(text: str) -> Iterator[ChatChunk]:
    """Give a text word by word, in the shape of a model's chunks."""
    for word in text.split():
        yield ChatChunk(content=f"{word} ")


def write(order: dict[str, Any]) -> Iterator[ChatChunk]:
    """Write the letter. A real agent would hand on a model's chunks here."""
    yield ChatChunk(role="assistant", content="")
    yield from spoken(f"Order {order['order']} arrived broken.")
    # On resume this runs again from its top, and what had been shown is written anew.
    if interrupt({"ask": "promise the money?", **order}):
        yield from spoken(f"You get {order['euros']} EUR back.")
    else:
        yield from spoken("Please send a photo.")


def sign(letter: StreamReader[ChatChunk]) -> Iterator[ChatChunk]:
    """Hand on each chunk as it comes, and put the name below."""
    yield from letter
    yield ChatChunk(content="The shop")


def make_app() -> App:
    """Build the graph; `write` and `sign` pass chunks on while they are made."""
    graph = Graph(str, ChatChunk, name="letters")
    graph.add_node("look_up", look_up)
    graph.add_node("write", write)
    graph.add_node("sign", sign)
    graph.add_edge(START, "look_up")
    graph.add_edge("look_up", "write")
    graph.add_edge("write", "sign")
    graph.add_edge("sign", END)
    return graph.compile(store=FileStore(FOLDER))


def show(chunks: StreamReader[ChatChunk]) -> None:
    """Print each chunk the moment it is there."""
    with chunks:
        for chunk in chunks:
            if chunk["content"]:
                print(f"  written        {chunk['content'].strip()}", flush=True)


def start() -> None:
    """Start the run; it stops in the middle of the letter."""
    try:
        show(make_app().stream("1042", checkpoint_id=TICKET, force_new_run=True))
    except Interrupted as stop:
        for point in stop.interrupts:
            print(f"  stopped at     {point.address}")
            print(f"  it asks        {point.info}")


def approve() -> None:
    """See what waits, approve it, and stream the whole letter."""
    app = make_app()
    (point,) = app.pending(TICKET)
    show(app.stream(checkpoint_id=TICKET, answers={point.id: True}, write_to_checkpoint_id=f"{TICKET}-approved"))


def refuse() -> None:
    """Go back to the same stop, answer no, and take the letter as one value."""
    message = make_app().resume(TICKET, answer=False, write_to_checkpoint_id=f"{TICKET}-refused")
    print(f"  finished       {message['content']}")


def main() -> None:
    """Play the part that the command line names, or all, each in a process that exits."""
    parts = {"start": start, "approve": approve, "refuse": refuse}
    if len(sys.argv) > 1:
        parts[sys.argv[1]]()
        return
    for part in parts:
        print(f"{part}:", flush=True)
        subprocess.run([sys.executable, __file__, part], check=True, timeout=SECONDS)


if __name__ == "__main__":
    main()
