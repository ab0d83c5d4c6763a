"""A typed state in another process, whose classes may have changed since."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from stored_runs import sha

from blobcp.stores import FileStore

ORDERS = """
from dataclasses import dataclass
from decimal import Decimal
import pydantic
from blobcp import END, START, Graph, Interrupted, interrupt, use_state
from blobcp.stores import FileStore

class Model(pydantic.BaseModel):
    id: int
    total: Decimal
    tags: set[str]

@dataclass
class Record:
    id: int
    total: Decimal
    tags: set[str]

def look(text: str) -> str:
    answer = interrupt("q")
    with use_state((Model, Record)) as state:
        return f"{answer} {type(state).__name__} {state.total!r} {sorted(state.tags)} {type(state.tags).__name__}"

def app(cls):
    graph = Graph(str, str, state=lambda: cls(id=7, total=Decimal("9.90"), tags={"x", "y"}))
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    return graph.compile(store=FileStore("store"))

def pause():
    for cls in (Model, Record):
        try:
            app(cls).invoke("", checkpoint_id=cls.__name__)
        except Interrupted:
            print("paused")

def fork():
    for cls in (Model, Record):
        print(app(cls).resume(cls.__name__, answer="yes", write_to_checkpoint_id="B" + cls.__name__))
"""

APP = """
from dataclasses import dataclass
from typing import Any
import blobcp
from blobcp.stores import FileStore
{register}

@dataclass
class State:
    cart: Any = None

def first(text):
    {fill}
    return text

def second(text):
    with blobcp.use_state(State) as state:
        print("entered", type(state.cart).__name__, state.cart.number)
    return text

graph = blobcp.Graph(str, str, state=State)
graph.add_node("first", first)
graph.add_node("second", second)
graph.add_edge(blobcp.START, "first")
graph.add_edge("first", "second")
graph.add_edge("second", blobcp.END)
app = graph.compile(store=FileStore("store"), interrupt_before=["second"])
try:
    print(app.{call})
except blobcp.BlobcpError as error:
    print(type(error).__name__, error, getattr(error, "__notes__", ""))
"""

FILL = "with blobcp.use_state(State) as state: state.cart = models.Cart(3)"
CLASS = "from dataclasses import dataclass\n@dataclass\nclass {name}:\n    number: int\n"


def python(folder: Path, script: str) -> str:
    """Return what a new process prints that runs a script in a folder."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_in_a_new_process_gives_the_declared_class(tmp_path: Path) -> None:
    """F14: a process that only shares the store forks, and its node gets the state in the declared class."""
    (tmp_path / "orders_of_test.py").write_text(ORDERS)
    assert python(tmp_path, "import orders_of_test; orders_of_test.pause()") == "paused\npaused\n"

    assert python(tmp_path, "import orders_of_test; orders_of_test.fork()") == (
        "yes Model Decimal('9.90') ['x', 'y'] set\nyes Record Decimal('9.90') ['x', 'y'] set\n"
    )


@pytest.mark.parametrize(
    ("change", "register", "error"),
    [
        ("renamed", "from shop import models; blobcp.register(models.Basket)", "UnknownTypeError"),
        ("gone", "", "UnknownTypeError"),
        ("grown", "from shop import models; blobcp.register(models.Cart)", "SerializationError"),
        ("aliased", "from shop import models; blobcp.register(models.Basket, aliases=['shop.models.Cart'])", ""),
    ],
    ids=["renamed", "gone", "grown", "aliased"],
)
def test_a_class_that_is_no_longer_there(tmp_path: Path, change: str, register: str, error: str) -> None:
    """F16: a state with an unknown class is refused with name and path, never handed on as a dict; an alias loads it."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    models = tmp_path / "shop" / "models.py"
    models.write_text(CLASS.format(name="Cart"))
    known = "from shop import models; blobcp.register(models.Cart)"
    said = python(tmp_path, APP.format(register=known, fill=FILL, call="invoke('', checkpoint_id='A')"))
    assert said.startswith("Interrupted")
    before = sha(FileStore(tmp_path / "store"), "A")

    if change == "gone":
        models.unlink()
    elif change == "grown":
        models.write_text(CLASS.format(name="Cart") + "    owner: str\n")
    else:
        models.write_text(CLASS.format(name="Basket"))
    said = python(tmp_path, APP.format(register=register, fill="pass", call="resume('A')"))

    if change == "aliased":
        assert said == "entered Basket 3\n\n"
        return
    assert said.startswith(f"{error} ")
    for word in ("shop.models.Cart", "state.cart", "'A'"):
        assert word in said
    assert "entered" not in said
    assert sha(FileStore(tmp_path / "store"), "A") == before
