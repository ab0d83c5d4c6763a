from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from parked_runs import parked

from blobcp import Checkpoint, Envelope, Header, MsgpackSerializer, PickleSerializer, RawValue
from blobcp.stores import FileStore, open_store


def lines_of(command: Command, url: str, old: Any, new: Any) -> list[str]:
    """Return how two states differ."""
    store = open_store(url)
    store.set("a", parked("a", state=old))
    store.set("b", parked("b", state=new))
    done = command("diff", url, "a", "b")
    assert (done.status, done.err) == (1, "")
    return done.out.splitlines()


def test_equal_runs(command: Command, folder: FileStore, url: str) -> None:
    """Blobs that differ in their ids only are equal: nothing is printed and the status is 0."""
    store = folder
    store.set("a", parked("a"))
    store.set("b", parked("b"))

    assert command("diff", url, "a", "b") == (0, "", "")
    assert command("diff", url, "a", "b", "--json") == (0, '{\n  "equal": true,\n  "differences": []\n}\n', "")


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"n": 1}, {"n": 2}, ["- state.n: 1", "+ state.n: 2"]),
        ({"n": 1}, {"m": 1}, ["- state.n: 1", "+ state.m: 1"]),
        ({"n": 1}, {"n": 1.0}, ["- state.n: 1", "+ state.n: 1.0"]),
        ({"n": 1}, {"n": True}, ["- state.n: 1", "+ state.n: True"]),
        ({"n": "1"}, {"n": 1}, ['- state.n: "1"', "+ state.n: 1"]),
        ({"n": [1, 2]}, {"n": [1, 2, 3]}, ["+ state.n[2]: 3"]),
        ({"n": [1]}, {"n": (1,)}, ["- state.n: list([0]=1)", "+ state.n: tuple([0]=1)"]),
        ({"a key": 1}, {"a key": 2}, ['- state["a key"]: 1', '+ state["a key"]: 2']),
        ({(1, "x"): 1}, {(1, "x"): 2}, ['- state[tuple([0]=1, [1]="x")]: 1', '+ state[tuple([0]=1, [1]="x")]: 2']),
        ({"s": {1, 2}}, {"s": {2, 3}}, ["- state.s{1}: 1", "+ state.s{3}: 3"]),
        ({"b": bytes(100)}, {"b": bytes(99) + b"x"}, None),
        ({"t": "a\nb"}, {"t": "a\tb"}, ['- state.t: "a\\nb"', '+ state.t: "a\\tb"']),
    ],
)
def test_values(command: Command, url: str, old: Any, new: Any, lines: list[str] | None) -> None:
    """Each difference is named by its path, types count, and what is nested deeper is not printed whole."""
    found = lines_of(command, url, old, new)

    assert found == lines or (lines is None and len(found) == 2)


def test_sets_have_no_order(command: Command, folder: FileStore, url: str) -> None:
    """Two sets that were written in different orders are equal."""
    folder.set("a", parked("a", state=[RawValue("", "x", "y", kind="set")]))
    folder.set("b", parked("b", state=[RawValue("", "y", "x", kind="set")]))

    assert command("diff", url, "a", "b").status == 0


def test_fields_and_classes(command: Command, url: str, folder: FileStore) -> None:
    """Fields of classes are compared one by one; another class is a difference of the whole value."""
    folder.set("a", parked("a", state=RawValue("shop.Cart", {"items": 1, "paid": False})))
    folder.set("b", parked("b", state=RawValue("shop.Cart", {"items": 1, "paid": True})))
    folder.set("c", parked("c", state=RawValue("shop.Basket", {"items": 1})))

    assert command("diff", url, "a", "b").out == "- state.paid: False\n+ state.paid: True\n"
    assert command("diff", url, "a", "c").out == (
        "- state: shop.Cart(items=1, paid=False)\n+ state: shop.Basket(items=1)\n"
    )


def test_headers(command: Command, folder: FileStore, url: str) -> None:
    """Headers are compared too, except with --content."""
    folder.set("a", parked("a"))
    folder.set("b", parked("b", state_version=3, status="failed"))

    done = command("diff", url, "a", "b")

    assert done.out == (
        "- header.state_version: 0\n+ header.state_version: 3\n"
        '- header.status: "interrupted"\n+ header.status: "failed"\n'
    )
    assert command("diff", url, "a", "b", "--content") == (0, "", "")


def test_json(command: Command, folder: FileStore, url: str) -> None:
    """--json has whole values, and leaves out the side that has none."""
    folder.set("a", parked("a", state={"n": "x" * 500, "s": (1,)}))
    folder.set("b", parked("b", state={"n": "y", "t": 2}))

    done = command("diff", url, "a", "b", "--json")

    assert done.status == 1
    assert json.loads(done.out) == {
        "equal": False,
        "differences": [
            {"path": "state.n", "old": "x" * 500, "new": "y"},
            {"path": "state.s", "old": {"$type": "tuple", "items": [1]}},
            {"path": "state.t", "new": 2},
        ],
    }


def test_between_two_stores(command: Command, folder: FileStore, url: str, tmp_path: Path) -> None:
    """--other compares with a blob of another store, of the same id if none is given."""
    other = f"sqlite:///{tmp_path}/other.db"
    folder.set("a", parked("a"))
    with open_store(other) as store:  # type: ignore[attr-defined]  # not every store has a context
        store.set("a", parked("a", state=1))
        store.set("b", parked("b"))

    assert command("diff", url, "a", "--other", other).status == 1
    assert command("diff", url, "a", "b", "--other", other).status == 0
    assert command("diff", url, "a").status == 2


def test_unopened_content(command: Command, folder: FileStore, url: str) -> None:
    """Pickles are compared as bytes; a finished run differs from one that waits."""
    for id, state in (("a", 1), ("b", 2), ("c", 1)):
        body = PickleSerializer(key=bytes(32)).dumps(Checkpoint(state=state))
        folder.set(id, Envelope().seal(Header(checkpoint_id=id, serializer="pickle"), body))
    folder.set("d", parked("d", status="done"))

    assert command("diff", url, "a", "c").status == 0
    assert command("diff", url, "a", "b").out.startswith('- content: "the content is a pickle, ')
    assert command("diff", url, "a", "d", "--content").status == 1


def test_nothing_there(command: Command, folder: FileStore, url: str) -> None:
    """A missing blob is an error and no difference."""
    folder.set("a", Envelope().seal(Header(checkpoint_id="a"), MsgpackSerializer().dumps(Checkpoint())))

    assert command("diff", url, "a", "b") == (2, "", "error: nothing is stored under b\n")
