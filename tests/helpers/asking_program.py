"""A program that runs graphs which ask, so that tests can go on with them in a new process.

``python asking_program.py FOLDER GRAPH DRIVER pending``, or ``... resume ANSWERS`` (JSON, by id): prints JSON, the points
that wait as ``[[id, address, info], ...]`` or the result. The store is in the folder, and so is a file with one line per
node entry, which all processes add to.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blobcp import END, START, App, Graph, Interrupted, interrupt, serializable, use_state
from blobcp.stores import FileStore

__all__ = ["SHAPES", "Log", "build", "entries", "gathering", "in_new_process", "levels"]

SHAPES = {"circle": "red", "square": "green", "triangle": "blue"}
ID = "A"


@serializable("tests.asking_program.Log")
@dataclass
class Log:
    """F07's state."""

    entries: list[str] = field(default_factory=list)


async def _plainly(calls: list[Any]) -> list[Any]:
    return await asyncio.gather(*calls)


async def _returning(calls: list[Any]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def _grouped(calls: list[Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


KINDS = {"plain": _plainly, "returning": _returning, "group": _grouped}


def gathering(kind: str, *, looped: bool) -> Graph:
    """Return F01's graph: one node that asks for the colour of three shapes side by side, each after a random delay.

    Args:
        kind: how the three are run.
        looped: whether the node is a plain function that starts an event loop, for the threaded driver.
    """

    async def ask(shape: str) -> str:
        await asyncio.sleep(random.random() * 0.02)
        return f"{shape}:{interrupt({'shape': shape})}"

    async def node(_: Any) -> list[Any]:
        return await KINDS[kind]([ask(shape) for shape in SHAPES])

    graph = Graph()
    graph.add_node("n", (lambda value: asyncio.run(node(value))) if looped else node)
    graph.add_edge(START, "n")
    graph.add_edge("n", END)
    return graph


def levels(depth: int, note: Callable[[str], object]) -> Graph:
    """Return F07's graph of two or more levels, whose nodes log their names, or the answer, in the outermost state."""

    def logging(key: str) -> Callable[[Any], list[str]]:
        def node(_: Any) -> list[str]:
            note(key)
            entry = interrupt("go on?") if key == "ask" else key
            with use_state(Log) as log:
                log.entries.append(entry)
                return list(log.entries)

        return node

    def line(graph: Graph, **nodes: Any) -> Graph:
        before = START
        for key, node in nodes.items():
            graph.add_node(key, node)
            graph.add_edge(before, key)
            before = key
        graph.add_edge(before, END)
        return graph

    inner = line(Graph(), **{key: logging(key) for key in ("p1", "p2", "ask", "p3")})
    for _ in range(depth - 2):
        inner = line(Graph(), wrap=inner)
    return line(Graph(state=Log), o1=logging("o1"), inner=inner, o2=logging("o2"))


def build(folder: Path, graph: str, driver: str) -> App:
    """Return the app of a graph's name, ``levels-3`` or ``plain`` for instance, with the folder's store."""

    def note(key: str) -> None:
        with (folder / "entries").open("a") as file:
            file.write(f"{key}\n")

    kind, _, depth = graph.partition("-")
    made = levels(int(depth), note) if kind == "levels" else gathering(kind, looped=driver == "sync")
    return made.compile(store=FileStore(folder / "store"))


def entries(folder: Path) -> Counter[str]:
    """Return how often each node was entered, in all processes."""
    return Counter((folder / "entries").read_text().split())


def in_new_process(folder: Path, graph: str, driver: str, *what: str) -> Any:
    """Run this program and return what it printed."""
    command = [sys.executable, __file__, str(folder), graph, driver, *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main(folder: str, graph: str, driver: str, what: str, answers: str = "null") -> None:
    """Do one thing and print what came of it."""
    app = build(Path(folder), graph, driver)
    points = []
    result = None
    try:
        if what == "pending":
            points = app.pending(ID)
        elif driver == "sync":
            result = app.resume(ID, json.loads(answers))
        else:
            result = asyncio.run(app.aresume(ID, json.loads(answers)))
    except Interrupted as stop:
        points = stop.interrupts
    print(json.dumps({"result": result, "points": [[point.id, str(point.address), point.info] for point in points]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
