"""A worker that runs a graph of slow nodes and is told to end by a signal; this file is that program."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from blobcp import END, START, App, CancelToken, Graph, Interrupted, StreamReader, Tool, ToolsNode, cancel_on_signal
from blobcp.stores import FileStore

__all__ = ["build", "stop_lists"]


def build(folder: Path, kind: str) -> App:
    """Return the app 1 to 2 to 3 with the folder's store; node 2 waits until the file ``go`` is there.

    Args:
        folder: where the store is, and the file ``log``, which has a line for each node that was entered.
        kind: ``sync``, or ``async`` for async nodes; ``tools`` or ``async-tools`` where node 2 leaves that to two plain tools;
            ``stream`` or ``async-stream`` where it makes a stream.
    """

    def note(key: str) -> None:
        with (folder / "log").open("a") as log:
            log.write(f"{key}\n")

    def work(text: str, key: str) -> str:
        note(key)
        while key == "2" and not (folder / "go").exists():
            time.sleep(0.01)
        return text + key

    async def work_async(text: str, key: str) -> str:
        note(key)
        while key == "2" and not (folder / "go").exists():
            await asyncio.sleep(0.01)
        return text + key

    tools = ToolsNode([work, Tool(lambda: "", name="quick")])

    def use_tools(text: str, key: str) -> str:
        return str(tools(asking(text, key))[0]["content"])

    async def use_tools_async(text: str, key: str) -> str:
        return str((await tools.acall(asking(text, key)))[0]["content"])

    def flow(text: str, key: str) -> Iterator[str]:
        yield work(text, key)

    async def flow_async(text: str, key: str) -> AsyncIterator[str]:
        yield await work_async(text, key)

    seconds = {"tools": use_tools, "async-tools": use_tools_async, "stream": flow, "async-stream": flow_async}
    second = seconds.get(kind)
    others = work_async if kind == "async" else work
    graph = Graph(str, str)
    before = START
    for key in ("1", "2", "3"):
        graph.add_node(key, partial(second if second is not None and key == "2" else others, key=key))
        graph.add_edge(before, key)
        before = key
    graph.add_edge(before, END)
    return graph.compile(store=FileStore(folder / "store"))


def asking(text: str, key: str) -> dict[str, Any]:
    """Return a message that asks for two tools, the first of which does a node's work."""
    calls = [("work", json.dumps({"text": text, "key": key})), ("quick", "{}")]
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]}


def stop_lists(stop: Interrupted) -> tuple[list[str], list[str]]:
    """Return the nodes that the run stopped after, and those that run again."""
    assert stop.info is not None
    return stop.info.after_nodes, stop.info.rerun_nodes


def tell_of(token: CancelToken, folder: Path) -> None:
    """Make the file ``told`` once the signal has arrived."""
    while not token.cancelled:
        time.sleep(0.005)
    (folder / "told").touch()


async def read(output: StreamReader[str]) -> list[str]:
    """Read a stream to its end."""
    return [chunk async for chunk in output]


def main(folder: str, kind: str, seconds: str) -> None:
    """Run until done or told to end, and say how it ended; a time-out of ``none`` waits for the nodes."""
    timeout = None if seconds == "none" else timedelta(seconds=float(seconds))
    app, token = build(Path(folder), kind), CancelToken()
    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=tell_of, args=(token, Path(folder)), daemon=True).start()
    try:
        with cancel_on_signal(token, signal.SIGTERM, signal.SIGUSR1, timeout=timeout):
            if kind in ("sync", "tools"):
                result = app.invoke("in", checkpoint_id="job", cancel=token)
            elif kind == "stream":
                result = list(app.stream("in", checkpoint_id="job", cancel=token))
            elif kind == "async-stream":
                result = asyncio.run(read(app.astream("in", checkpoint_id="job", cancel=token)))
            else:
                result = asyncio.run(app.ainvoke("in", checkpoint_id="job", cancel=token))
        print("result", result)
    except Interrupted as stop:
        print("stopped", *stop_lists(stop))
    assert signal.getsignal(signal.SIGTERM) is before


if __name__ == "__main__":
    main(*sys.argv[1:])
