"""A program whose nodes stream and ask, so that a stream run can be gone on with in a new process.

``python streaming_program.py FOLDER GRAPH DRIVER SHAPE ANSWERS`` (JSON by id) goes on with what is stored under A, in the shape,
and prints JSON: what waits as ``{info: id}``, and the result. All processes note node entries in the folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drivers import AsyncRunner, SyncRunner
from shaped import go
from wiring import wire

from blobcp import App, Graph, Interrupted, StreamReader, interrupt
from blobcp.stores import FileStore

__all__ = ["build", "entries", "goes_on"]

Note = Callable[[str], None]


def _passing(key: str, note: Note) -> Callable[[StreamReader[str]], Iterator[str]]:
    def node(chunks: StreamReader[str]) -> Iterator[str]:
        yield from chunks
        note(key)
        yield key

    return node


def _line(*nodes: tuple[str, Any]) -> Graph:
    graph = Graph()
    for key, node in nodes:
        graph.add_node(key, node)
    return wire(graph, " ".join(["start", *(key for key, _ in nodes), "end"]))


def _levels(note: Note, depth: int) -> Graph:
    """F07: the inner graph asks out of a stream."""

    def ask(chunks: StreamReader[str]) -> Iterator[str]:
        note("ask")
        yield from chunks
        yield interrupt("go on?")

    inner = _line(
        ("p1", _passing("p1", note)), ("p2", _passing("p2", note)), ("ask", ask), ("p3", _passing("p3", note))
    )
    for _ in range(depth - 2):
        inner = _line(("wrap", inner))
    return _line(("o1", _passing("o1", note)), ("inner", inner), ("o2", _passing("o2", note)))


def _input(note: Note) -> Graph:
    """F08: the node that asks out of its stream has changed its input in place."""

    def src(_: Any) -> Iterator[dict[str, list[int]]]:
        note("src")
        yield {"items": [1]}
        yield {"items": [2]}

    def w(inp: dict[str, list[int]]) -> Iterator[list[int]]:
        note(f"w{inp['items']}")
        inp["items"].append(3)
        yield inp["items"]
        yield [interrupt("more?")]

    return _line(("src", src), ("w", w))


def _join(note: Note, asker: str, *, third: bool) -> Graph:
    """F09: one of two parents asks out of its stream; a third one is behind a condition that is false."""

    def parent(key: str) -> Callable[[Any], Iterator[str]]:
        def node(_: Any) -> Iterator[str]:
            note(key)
            yield key
            yield interrupt(f"q {key}") if key == asker else "!"

        return node

    def join(value: dict[str, str]) -> dict[str, str]:
        note("join")
        return value

    graph = Graph()
    for key in ("left", "right"):
        graph.add_node(key, parent(key), output_key=key)
    graph.add_node("join", join)
    if third:
        graph.add_node("never", parent("never"), output_key="never")
        graph.add_node("other", lambda value: {})
        graph.add_branch("start", lambda _: "other", ["never", "other"])
        wire(graph, "never join", "other join")
    return wire(graph, "start left join end", "start right join")


def build(folder: Path, name: str) -> App:
    """Return the app of a name, ``levels-3``, ``input``, ``left``, ``right`` or ``left-third``, with the folder's store."""

    def note(key: str) -> None:
        with (folder / "entries").open("a") as file:
            file.write(f"{key}\n")

    kind, _, more = name.partition("-")
    if kind == "levels":
        graph = _levels(note, int(more))
    else:
        graph = _input(note) if kind == "input" else _join(note, kind, third=more == "third")
    return graph.compile(store=FileStore(folder / "store"), mode="dag")


def entries(folder: Path) -> list[str]:
    """Return the entries of all processes, sorted."""
    return sorted((folder / "entries").read_text().splitlines())


def goes_on(folder: Path, name: str, driver: str, shape: str, answers: dict[str, Any]) -> Any:
    """Go on in a new process and return what it printed."""
    command = [sys.executable, __file__, str(folder), name, driver, shape, json.dumps(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main(folder: str, name: str, driver: str, shape: str, answers: str) -> None:
    """Go on and print what came of it."""
    runner = SyncRunner() if driver == "sync" else AsyncRunner()
    waiting, result = {}, None
    try:
        result = go(runner, shape, build(Path(folder), name), checkpoint_id="A", answers=json.loads(answers))
    except Interrupted as stop:
        waiting = {point.info: point.id for point in stop.interrupts}
    print(json.dumps({"waiting": waiting, "result": result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
