"""Runs that go on in another process, which imports the same module and shares nothing but the folder of the store."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stored_runs import header_of, sha

from blobcp import read_header
from blobcp.stores import FileStore

LONGEST_WAIT = 60.0  # seconds; a child that says nothing for so long is stuck

MODULE = '''
"""The graphs of these tests; every entry of a node is a line of a file beside the store."""
import asyncio, json, sys
from dataclasses import dataclass, field
from pathlib import Path
import blobcp
from blobcp import END, START, Graph, interrupt, use_state
from blobcp.stores import FileStore

@dataclass
class Log:
    log: list[str] = field(default_factory=list)

def enter(key):
    with Path("entries").open("a") as file:
        file.write(key + "\\n")

def node(key, asks=False):
    def call(text: str) -> str:
        enter(key)
        answer = interrupt({"node": key, "text": text}) if asks else key
        with use_state(Log) as state:
            state.log.append(answer)
        return text + answer
    return call

def chain(*keys, state=Log):
    graph = Graph(str, str, state=state)
    for before, key in zip((START, *keys), keys):
        nested = isinstance(key, tuple)
        graph.add_node(key[0] if nested else key, chain(*key[1:], state=None) if nested else node(key, "ask" in key))
        graph.add_edge(before[0] if isinstance(before, tuple) else before, key[0] if nested else key)
    graph.add_edge(keys[-1][0] if isinstance(keys[-1], tuple) else keys[-1], END)
    return graph

def changing(value: dict) -> list:
    enter("w %s" % value["items"])
    value["items"].append(3)
    return [*value["items"], interrupt("four")]

def source(text: str) -> dict:
    enter("src")
    return {"items": [1, 2]}

def input_changing():
    graph = Graph(str, list)
    graph.add_node("src", source)
    graph.add_node("w", changing)
    graph.add_edge(START, "src")
    graph.add_edge("src", "w")
    graph.add_edge("w", END)
    return graph

def joining(asker, other):
    def side(key, asks):
        def call(text: str) -> str:
            enter(key)
            return interrupt(key) if asks else "from " + key
        return call
    def join(value: dict) -> str:
        enter("join")
        return json.dumps(value, sort_keys=True)
    graph = Graph(str, str)
    graph.add_node("left", side("left", "left" in asker), output_key="left")
    graph.add_node("right", side("right", "right" in asker), output_key="right")
    graph.add_node("join", join)
    for key in ("left", "right"):
        graph.add_edge(START, key)
        graph.add_edge(key, "join")
    graph.add_edge("join", END)
    return graph

GRAPHS = {
    "twice": lambda: chain("a", "ask1", "ask2", "b"),
    "deep": lambda: chain("o1", ("mid", ("in", "p1", "p2", "ask", "p3")), "o2"),
    "input": input_changing,
    "left": lambda: joining(["left"], "right"),
    "right": lambda: joining(["right"], "left"),
    "both": lambda: joining(["left", "right"], None),
}

def run(graph, mode, method, arguments, options):
    app = GRAPHS[graph]().compile(store=FileStore("store"), **mode)
    call = getattr(app, method)
    try:
        result = call(*arguments, **options)
        return {"result": asyncio.run(awaited(result)) if method.startswith("a") else result}
    except blobcp.Interrupted as stop:
        return {"pending": {point.id: point.info for point in stop.interrupts if point.is_root_cause}}
    except blobcp.BlobcpError as error:
        return {"error": type(error).__name__, "message": str(error)}

async def awaited(result):
    return await result

def pending(graph, mode, checkpoint_id):
    app = GRAPHS[graph]().compile(store=FileStore("store"), **mode)
    return [[point.id, str(point.address), point.info] for point in app.pending(checkpoint_id)]
'''


class Processes:
    """Calls the module's functions, each in a process of its own.

    Attributes:
        folder: where the module, the store and the file of entries are.
        store: the store, as this process sees it.
    """

    def __init__(self, folder: Path, mode: dict[str, Any], prefix: str) -> None:
        self.folder = folder
        self.mode = mode
        self.prefix = prefix
        self.store = FileStore(folder / "store")
        (folder / "graphs_of_test.py").write_text(MODULE)
        (folder / "main_of_test.py").write_text(
            "import json, sys, graphs_of_test as graphs\n"
            "name, *arguments = json.loads(sys.argv[1])\n"
            "print(json.dumps(getattr(graphs, name)(*arguments)))\n"
        )

    def invoke(self, graph: str, input: Any, **options: Any) -> Any:
        """Run in a new process."""
        return self._call("run", graph, self.mode, f"{self.prefix}invoke", [input], options)

    def resume(self, graph: str, id: str, answers: dict[str, Any], **options: Any) -> Any:
        """Resume in a new process."""
        return self._call("run", graph, self.mode, f"{self.prefix}resume", [id, answers], options)

    def pending(self, graph: str, id: str) -> list[list[Any]]:
        """Ask in a new process what is pending."""
        points: list[list[Any]] = self._call("pending", graph, self.mode, id)
        return points

    def entries(self) -> list[str]:
        """Return the nodes entered so far, in order, over all processes."""
        file = self.folder / "entries"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def _call(self, *request: Any) -> Any:
        done = subprocess.run(
            [sys.executable, "-B", "main_of_test.py", json.dumps(request)],
            cwd=self.folder, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "sync-pregel": ("", {"mode": "pregel"}),
    "async-dag": ("a", {"mode": "dag"}),
}


@pytest.fixture(params=list(WAYS))
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Processes:
    """Both drivers and both modes, though not each with each: a process takes its time."""
    prefix, mode = WAYS[request.param]
    return Processes(tmp_path, mode, prefix)


def only_id(outcome: Any) -> str:
    """Return the id of the one pending question."""
    [question] = outcome["pending"]
    return str(question)


def test_a_nested_run_goes_on_elsewhere(processes: Processes) -> None:
    """F07, P5: one process lists what is asked three levels down, one answers; no finished step of any level runs again."""
    question = only_id(processes.invoke("deep", "", checkpoint_id="A"))
    where = "runnable:root;node:mid;node:in;node:ask"
    assert processes.pending("deep", "A") == [[question, where, {"node": "ask", "text": "o1p1p2"}]]

    assert processes.resume("deep", "A", {question: "yes"}) == {"result": "o1p1p2yesp3o2"}
    assert processes.entries() == ["o1", "p1", "p2", "ask", "ask", "p3", "o2"]
    assert processes.resume("deep", "A", {question: "yes"})["error"] == "CheckpointDoneError"


def test_forks_in_other_processes(processes: Processes) -> None:
    """F06, F12: two processes fork one pause with two answers, a third goes on with the source, which stays until then."""
    question = only_id(processes.invoke("twice", "", checkpoint_id="A"))
    before = sha(processes.store, "A")
    in_b = only_id(processes.resume("twice", "A", {question: "yes"}, write_to_checkpoint_id="B"))
    only_id(processes.resume("twice", "A", {question: "no"}, write_to_checkpoint_id="C"))

    assert sha(processes.store, "A") == before
    assert header_of(processes.store, "B").parent == header_of(processes.store, "C").parent
    assert processes.resume("twice", "B", {in_b: "1"}) == {"result": "ayes1b"}
    assert sha(processes.store, "A") == before
    assert processes.entries().count("a") == 1
    wrong = processes.resume("twice", "A", {in_b: "3"})
    assert wrong["error"] == "UnknownInterruptError"
    assert question in wrong["message"]


def test_an_input_as_it_was_in_another_process(processes: Processes) -> None:
    """F08: a node that had changed its input in place sees it in a new process as it was on its first entry."""
    question = only_id(processes.invoke("input", "", checkpoint_id="A"))

    assert processes.resume("input", "A", {question: 4}) == {"result": [1, 2, 3, 4]}
    assert processes.entries() == ["src", "w [1, 2]", "w [1, 2]"]


@pytest.mark.parametrize(("asker", "other"), [("left", "right"), ("right", "left")])
def test_a_join_in_another_process(processes: Processes, asker: str, other: str) -> None:
    """F09: a join whose one parent was finished in an earlier process runs once, with both values."""
    question = only_id(processes.invoke(asker, "", checkpoint_id="A"))
    done = processes.resume(asker, "A", {question: "answer"})

    assert json.loads(done["result"]) == {asker: "answer", other: f"from {other}"}
    assert sorted(processes.entries()) == sorted([asker, asker, other, "join"])


def test_answers_from_different_processes(processes: Processes) -> None:
    """F03: of two questions each is answered by a process of its own; a node is entered once per answer of its own."""
    stop = processes.invoke("both", "", checkpoint_id="A")
    ids = {info: id for id, info in stop["pending"].items()}
    again = processes.resume("both", "A", {ids["left"]: "L"})

    assert again == {"pending": {ids["right"]: "right"}}
    assert [point[0] for point in processes.pending("both", "A")] == [ids["right"]]
    done = processes.resume("both", "A", {ids["right"]: "R"})
    assert json.loads(done["result"]) == {"left": "L", "right": "R"}
    assert sorted(processes.entries()) == ["join", "left", "left", "right", "right"]


LOOP = """
import sys
from dataclasses import dataclass, field
import blobcp
from blobcp.stores import FileStore
@dataclass
class State:
    number: int = 0
    ballast: bytes = b""
def count(text: str) -> str:
    with blobcp.use_state(State) as state:
        state.number += 1
        state.ballast = bytes([state.number % 256]) * (state.number * 7919 % 150_000)
    return text
graph = blobcp.Graph(str, str, state=State)
graph.add_node("count", count)
graph.add_edge(blobcp.START, "count")
graph.add_branch("count", lambda text: "count", ["count", blobcp.END])
app = graph.compile(store=FileStore("store"), interrupt_after=["count"])
def loop():
    while True:
        try:
            app.invoke("", checkpoint_id="A")
        except blobcp.Interrupted as stop:
            sys.stdout.buffer.write(stop.info.state.number.to_bytes(8, "big"))
            sys.stdout.buffer.flush()
"""

CHECK = """
import blobcp, loop_of_test
[point] = loop_of_test.app.pending("A")
number = point.info.number
assert point.info.ballast == bytes([number % 256]) * (number * 7919 % 150_000)
print(number)
"""


def test_killed_while_saving(tmp_path: Path) -> None:
    """F24: after SIGKILL in the middle of a loop of saves, a new process goes on from the last told pause or the next."""
    (tmp_path / "loop_of_test.py").write_text(LOOP)
    moment, stored = random.Random(24), 0
    for _ in range(8):
        told = kill_the_loop(tmp_path, moment)
        assert told == list(range(stored + 1, stored + 1 + len(told)))
        said = subprocess.run(
            [sys.executable, "-B", "-c", CHECK],
            cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        assert int(said.stdout) in (told[-1], told[-1] + 1)
        stored = int(said.stdout)
    blob = FileStore(tmp_path / "store").get("A")
    assert blob is not None
    assert read_header(blob).status == "interrupted"


def kill_the_loop(folder: Path, moment: random.Random) -> list[int]:
    """Start the loop, kill it some time after its first few pauses; return the numbers that it told."""
    with subprocess.Popen(
        [sys.executable, "-B", "-c", "import loop_of_test; loop_of_test.loop()"],
        cwd=folder,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as child:
        assert child.stdout is not None
        told = b""
        try:
            for _ in range(moment.randint(1, 5)):
                assert select.select([child.stdout], [], [], LONGEST_WAIT)[0], "the loop is stuck"
                told += child.stdout.read(8) or b""
            # Nothing is waited for here; this picks the moment.
            select.select([], [], [], moment.uniform(0, 0.02))
        finally:
            child.kill()
        child.wait(LONGEST_WAIT)
        told += child.stdout.read() or b""
    assert child.returncode == -9
    return [int.from_bytes(told[at : at + 8], "big") for at in range(0, len(told) // 8 * 8, 8)]
