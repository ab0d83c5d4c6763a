"""What one step costs: a loop of no-op nodes, in blobcp, in plain Python and in LangGraph.

Every part does the same work: a counter of one int goes through one no-op node until it has gone round ``--steps``
times. The parts take turns, round by round, so that a busy machine slows all of them; the medians are printed. Graphs
are built and warmed up before the clock starts. A part whose library is missing says so.

``--profile`` prints where blobcp's time goes instead.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import platform
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from contextvars import copy_context
from importlib import metadata
from itertools import count
from typing import TypedDict

from blobcp import END, START, App, Graph
from blobcp.stores import MapStore

Run = Callable[[], int]
"""Goes round the loop once and for all, and returns where the counter ended."""


def increment(number: int) -> int:
    """Do the work of a node: next to nothing."""
    return number + 1


def plain_loop(steps: int) -> Run:
    """Return the loop that needs no framework."""

    def run() -> int:
        number = 0
        while number < steps:
            number = increment(number)
        return number

    return run


def loop_with_contexts(steps: int) -> Run:
    """Return the plain loop with each call in a context of its own, as every framework with contexts must do."""

    def run() -> int:
        number = 0
        while number < steps:
            number = copy_context().run(increment, number)
        return number

    return run


def blobcp_loop(steps: int, *, stored: bool = False) -> App:
    """Return one node that a branch leads back to until the counter is there."""
    graph = Graph(int, int)
    graph.add_node("increment", increment)
    graph.add_edge(START, "increment")
    graph.add_branch("increment", lambda number: END if number >= steps else "increment", ["increment", END])
    return graph.compile(store=MapStore() if stored else None, max_steps=steps + 1)


def blobcp_without_store(steps: int) -> Run:
    """Return a run that can't be stored, by the threaded driver."""
    app = blobcp_loop(steps)
    return lambda: int(app.invoke(0))


def blobcp_with_map_store(steps: int) -> Run:
    """Return a run under a checkpoint id of its own, which is stored if it stops (durability "exit")."""
    app = blobcp_loop(steps, stored=True)
    ids = count()
    return lambda: int(app.invoke(0, checkpoint_id=f"run-{next(ids)}"))


def blobcp_async(steps: int) -> Run:
    """Return a run by the asyncio driver, with an async node; the time of starting a loop is part of it."""
    graph = Graph(int, int)

    async def increment_async(number: int) -> int:
        return number + 1

    graph.add_node("increment", increment_async)
    graph.add_edge(START, "increment")
    graph.add_branch("increment", lambda number: END if number >= steps else "increment", ["increment", END])
    app = graph.compile(max_steps=steps + 1)
    return lambda: int(asyncio.run(app.ainvoke(0)))


class Counter(TypedDict):
    """The state of LangGraph's loop."""

    number: int


def langgraph_loop(steps: int, *, saved: bool = False) -> Run:
    """Return the same loop in LangGraph.

    Raises:
        ImportError: LangGraph is not installed.
    """
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END as LAST
    from langgraph.graph import START as FIRST
    from langgraph.graph import StateGraph

    graph = StateGraph(Counter)
    graph.add_node("increment", lambda state: {"number": state["number"] + 1})
    graph.add_edge(FIRST, "increment")
    graph.add_conditional_edges(
        "increment", lambda state: LAST if state["number"] >= steps else "increment", ["increment", LAST]
    )
    app = graph.compile(checkpointer=InMemorySaver() if saved else None)
    ids = count()

    def run() -> int:
        config = {"recursion_limit": steps + 10, "configurable": {"thread_id": str(next(ids))}}
        options = {"durability": "exit"} if saved else {}
        return int(app.invoke({"number": 0}, config, **options)["number"])

    return run


BARE, CONTEXTS, BLOBCP, STORED, ASYNC, LANGGRAPH, LANGGRAPH_SAVED = (
    "plain loop",
    "plain loop, a context per step",
    "blobcp, no store",
    "blobcp, map store, durability exit",
    "blobcp, asyncio driver, async node",
    "LangGraph, no checkpointer",
    "LangGraph, InMemorySaver, durability exit",
)

PARTS: dict[str, Callable[[int], Run]] = {
    BARE: plain_loop,
    CONTEXTS: loop_with_contexts,
    BLOBCP: blobcp_without_store,
    STORED: blobcp_with_map_store,
    ASYNC: blobcp_async,
    LANGGRAPH: langgraph_loop,
    LANGGRAPH_SAVED: lambda steps: langgraph_loop(steps, saved=True),
}


def prepare(steps: int) -> dict[str, Run]:
    """Build every part whose library is there, and run it once: to warm up, and to see that it does its work."""
    runs: dict[str, Run] = {}
    for name, make in PARTS.items():
        try:
            run = make(steps)
        except ImportError:
            continue
        reached = run()
        assert reached == steps, f"{name} went round {reached} times instead of {steps}"
        runs[name] = run
    return runs


def measure(runs: dict[str, Run], steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds per step of each round of each part, the parts taking turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            gc.collect()
            began = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - began) / steps * 1e6)
    return times


def report(times: dict[str, list[float]], steps: int, rounds: int) -> None:
    """Print the medians and how they relate."""
    versions = f"Python {platform.python_version()}, blobcp {version('blobcp')}, LangGraph {version('langgraph')}"
    print(f"{steps} no-op steps, {rounds} rounds in turn; {versions}\n")
    print(f"{'microseconds per step':<44}{'median':>9}{'lowest':>9}{'highest':>9}")
    for name in PARTS:
        if name in times:
            values = times[name]
            print(f"{name:<44}{statistics.median(values):>9.2f}{min(values):>9.2f}{max(values):>9.2f}")
        else:
            print(f"{name:<44}{'not installed':>27}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    print("\nratios of medians")
    for over, under in ((LANGGRAPH, BLOBCP), (LANGGRAPH_SAVED, STORED), (BLOBCP, CONTEXTS), (BLOBCP, BARE)):
        if over in medians and under in medians:
            print(f"  {over} / {under}: {medians[over] / medians[under]:.1f}")


def version(distribution: str) -> str:
    """Return the installed version of a distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def profile(steps: int) -> None:
    """Print the functions of blobcp that take the most time in a run without a store."""
    run = blobcp_without_store(steps)
    run()
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(15)


def main() -> None:
    """Measure, or profile, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="how often to go round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="how many rounds to measure (default: %(default)s)")
    parser.add_argument("--profile", action="store_true", help="print where blobcp's time goes instead")
    options = parser.parse_args()
    if options.profile:
        profile(options.steps)
        return
    runs = prepare(options.steps)
    report(measure(runs, options.steps, options.rounds), options.steps, options.rounds)


if __name__ == "__main__":
    main()
