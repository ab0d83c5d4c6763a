from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from golden_blobs import FILES, golden
from parked_runs import ODD_IDS, parked

from blobcp import Checkpoint, Envelope, Header, KeyRing, MsgpackSerializer, PickleSerializer
from blobcp.codec import Registry, digest_of
from blobcp.stores import FileStore

ID = "orders/7 ☕"
KEYS = f"# for tests\n\n2026-10={bytes(range(32)).hex()}\n2026-11={bytes(range(32, 64)).hex()}\n"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """A file with the keys of the golden blobs."""
    path = tmp_path / "keys.txt"
    path.write_text(KEYS)
    return str(path)


def test_a_blob_as_a_tree(command: Command, folder: FileStore, url: str) -> None:
    """Header, what is asked and content are lines, each as deep as it stands, without the user's classes."""
    folder.set("a b", parked("a b"))

    done = command("show", url, "a b")

    assert (done.status, done.err) == (0, "")
    assert (
        done.out
        == f"""\
header: "a b"
  status: interrupted
  graph: shop
  step: 2
  state version: 0
  written: 2026-11-03T09:08:07Z
  run: run-1
  serializer: msgpack
  size: {len(parked("a b"))} B
  digest: {digest_of(parked("a b"))}
pending: 1
  i1: at runnable:shop;node:ask
    info: tuple (2)
      [0]: "pay?"
      [1]: 3
content: Checkpoint (4)
  channels: dict (1)
    ask: PregelChannelState (1)
      values: dict (1)
        start: "tea"
  state: shop.Cart (2)
    items: list (1)
      [0]: "tea"
    paid: False
  interrupt_id_to_address: dict (1)
    i1: runnable:shop;node:ask
  interrupt_id_to_state: dict (1)
    i1: InterruptState (6)
      status: "pending"
      info: tuple (2)
        [0]: "pay?"
        [1]: 3
      of_graph: False
      is_root_cause: True
      in_order: True
      created_at: 2026-11-03T09:08:07.654321+00:00
"""
    )


def test_json_is_one_document(command: Command, folder: FileStore, url: str) -> None:
    """--json has header, pending and content; what JSON can't tell apart has a ``$type``."""
    folder.set("a", parked("a"))

    shown = json.loads(command("show", url, "a", "--json").out)

    pending = [{"id": "i1", "address": "runnable:shop;node:ask"}]
    info = {"$type": "tuple", "items": ["pay?", 3]}
    assert shown["header"] == {
        "serializer": "msgpack",
        "state_version": 0,
        "graph": "shop",
        "checkpoint_id": "a",
        "parent": None,
        "run_id": "run-1",
        "step": 2,
        "created_at": "2026-11-03T09:08:07.654321Z",
        "status": "interrupted",
        "pending": pending,
        "digest": digest_of(parked("a")),
        "size": len(parked("a")),
    }
    assert shown["pending"] == [{**pending[0], "info": info}]
    assert shown["unopened"] is None
    assert shown["content"]["state"] == {
        "$type": "shop.Cart",
        "kind": "dataclass",
        "fields": {"items": ["tea"], "paid": False},
    }
    assert shown["content"]["interrupt_id_to_state"]["i1"]["info"] == info


def test_json_of_a_huge_int(command: Command, folder: FileStore, url: str) -> None:
    """An int with more digits than Python writes is an object with its hexadecimal value, here and in a difference."""
    folder.set("a", parked("a", state=10**4300))
    folder.set("b", parked("b", state=10**4300 - 1))
    huge = {"$type": "int", "value": hex(10**4300)}

    assert json.loads(command("show", url, "a", "--json").out)["content"]["state"] == huge
    assert json.loads(command("diff", url, "a", "b", "--json").out)["differences"] == [
        {"path": "state", "old": huge, "new": 10**4300 - 1}
    ]


def test_the_header_only(command: Command, folder: FileStore, url: str) -> None:
    """--header leaves the content out, and names what is pending."""
    folder.set("a", parked("a"))

    lines = command("show", url, "a", "--header").out.splitlines()
    document = json.loads(command("show", url, "a", "--header", "--json").out)

    assert (lines[0], lines[-1]) == ("header: a", "  pending: i1 at runnable:shop;node:ask")
    assert (document["checkpoint_id"], document["digest"]) == ("a", digest_of(parked("a")))
    assert "content" not in document


def test_a_finished_run(command: Command, folder: FileStore, url: str) -> None:
    """The mark of a finished run is shown as that."""
    folder.set("a", parked("a", status="done"))

    done = command("show", url, "a")

    assert done.out.splitlines()[-1] == "content: the run is finished, and only its header is kept"
    assert json.loads(command("show", url, "a", "--json").out)["content"] is None


class _Trap:
    """Unpickling this makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_a_pickle_is_not_opened(command: Command, folder: FileStore, url: str, tmp_path: Path) -> None:
    """A pickled body and a pickled value are named, and their code does not run."""
    trap, key = _Trap(tmp_path / "sprung"), bytes(32)
    body = PickleSerializer(key=key).dumps(Checkpoint(state=trap))
    cells = MsgpackSerializer(pickle_key=key).dumps(Checkpoint(state=[trap]))
    folder.set("body", Envelope().seal(Header(checkpoint_id="body", serializer="pickle"), body))
    folder.set("cell", Envelope().seal(Header(checkpoint_id="cell"), cells))

    whole, single = command("show", url, "body").out, command("show", url, "cell").out
    documents = [json.loads(command("show", url, id, "--json").out) for id in ("body", "cell")]

    assert whole.splitlines()[-1].startswith(f"content: the content is a pickle, {len(body)} bytes (")
    assert whole.endswith(", and is not opened here\n")
    assert "[0]: pickle of " in single
    assert "not opened" in single
    assert (documents[0]["content"], documents[0]["unopened"][:23]) == (None, "the content is a pickle")
    assert documents[1]["content"]["state"][0]["$type"] == "pickle"
    assert not (tmp_path / "sprung").exists()


def test_another_serializer_is_named(command: Command, folder: FileStore, url: str) -> None:
    """What a serializer of the user's has written is not opened either."""
    folder.set("a", Envelope().seal(Header(checkpoint_id="a", serializer="mine"), b"{}"))

    last = command("show", url, "a").out.splitlines()[-1]

    assert last.startswith("content: the content is of the serializer 'mine', 2 bytes (")


@pytest.mark.parametrize("name", FILES)
def test_golden_blobs_of_every_seal(command: Command, folder: FileStore, url: str, name: str, key_file: str) -> None:
    """Plain, compressed, encrypted and signed blobs are shown by the same command, given the keys."""
    folder.set(ID, golden(name))

    done = command("show", url, ID, "--key-file", key_file)
    document = command("show", url, ID, "--key-file", key_file, "--json")

    assert (done.status, done.err, document.status) == (0, "", 0)
    assert json.loads(document.out)["header"]["checkpoint_id"] == ID


@pytest.mark.parametrize("options", [["--json"], ["--full"]])
def test_sealed_or_not_is_shown_alike(
    command: Command, folder: FileStore, url: str, key_file: str, options: list[str]
) -> None:
    """What is in a blob does not depend on how it is sealed."""
    shown = set()
    for name in ("plain", "zlib", "encrypted", "signed", "zlib-encrypted-signed"):
        folder.set(ID, golden(name))
        out = command("show", url, ID, "--key-file", key_file, *options).out
        shown.add("\n".join(line for line in out.splitlines() if '"size"' not in line and "digest" not in line))

    assert len({text.partition("content")[2] for text in shown}) == 1


def test_keys_from_the_environment(
    command: Command, folder: FileStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable BLOBCP_KEYS holds what a key file would."""
    folder.set(ID, golden("encrypted"))
    without = command("show", url, ID)
    monkeypatch.setenv("BLOBCP_KEYS", KEYS)

    assert command("show", url, ID).status == 0
    assert (without.status, without.out) == (2, "")
    assert without.err.startswith(f"error: the checkpoint {ID!r} is encrypted with key '2026-11'")
    assert without.err.endswith("(here: --key-file FILE, or BLOBCP_KEYS)\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11=00ff\n", "key '2026-11' must be 32 bytes and is 2 bytes"),
        ("# a\nnothing", "line 2 of the key file"),
        (f"a={'0' * 63}x", "line 1 of the key file"),
        (f"a={'0' * 64}\na={'1' * 64}", "line 2 of the key file"),
        (f"={'0' * 64}", "a key's id must be"),
    ],
    ids=["short", "no key", "no hex", "twice", "no id"],
)
def test_a_bad_key_file(command: Command, folder: FileStore, url: str, tmp_path: Path, text: str, said: str) -> None:
    """A line that is no key is named by its number; what stands in it is not shown."""
    folder.set("a", parked("a"))
    path = tmp_path / "bad.txt"
    path.write_text(text)

    done = command("show", url, "a", "--key-file", str(path))

    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert "0000" not in done.err


def test_a_missing_key_file(command: Command, url: str, folder: FileStore, tmp_path: Path) -> None:
    """A key file that is not there is an error, and no lack of keys."""
    done = command("show", url, "a", "--key-file", str(tmp_path / "none"))

    assert done.status == 2
    assert done.err.startswith("error: the key file ")


@pytest.mark.parametrize("id", ODD_IDS)
def test_ids_of_every_kind(command: Command, folder: FileStore, url: str, id: str) -> None:
    """Any id can be asked for; one that begins with a dash comes after ``--``."""
    folder.set(id, parked(id))

    done = command("show", "--json", "--header", url, "--", id)

    assert json.loads(done.out)["checkpoint_id"] == id


def test_nothing_to_obey(command: Command, folder: FileStore, url: str) -> None:
    """What would move a cursor or change colours is escaped, wherever a blob has it."""
    evil = "\x1b[31m\x9b\u202e\udcff"
    folder.set("a", parked("a", graph=evil.rstrip("\udcff"), state={evil: evil, "b": [evil]}, serializer="msgpack"))
    folder.set("b", parked("b", state=3))

    shown = [command(*line.split(), url, "a").out for line in ("show", "show --json", "show --full")]
    shown += [command("ls", url).out, command("ls", url, "--json").out, command("diff", url, "a", "b").out]
    state = json.loads(shown[1])["content"]["state"]

    assert state == {evil: evil, "b": [evil]}
    assert [text for text in shown if not text.replace("\n", "").replace("\t", "").isprintable()] == []


def test_nothing_there(command: Command, folder: FileStore, url: str) -> None:
    """An id that nothing is stored under is one line on stderr and status 2."""
    assert command("show", url, "a\nb") == (2, "", 'error: nothing is stored under "a\\nb"\n')


def test_a_copy_by_hand(command: Command, folder: FileStore, url: str) -> None:
    """A blob under another id is refused; its header can be seen all the same."""
    folder.set("b", parked("a"))

    header = command("show", url, "b", "--header")

    assert command("show", url, "b").status == 2
    assert (header.status, header.out.splitlines()[0]) == (0, "header: a")
    assert header.err == "it was sealed for a and copied by hand, so no program will load it\n"


def test_long_values_are_cut(command: Command, folder: FileStore, url: str) -> None:
    """Long texts and lists are cut short, and whole with --full and --json."""
    folder.set("a", parked("a", state={"text": "x" * 1000, "numbers": list(range(1000))}))

    short, full = command("show", url, "a").out, command("show", url, "a", "--full").out
    document = json.loads(command("show", url, "a", "--json").out)

    assert f'text: "{"x" * 199}… (1002 characters)\n' in short
    assert "      [49]: 49\n      … 950 more\n" in short
    assert f'text: "{"x" * 1000}"\n' in full
    assert "[999]: 999" in full
    assert document["content"]["state"] == {"text": "x" * 1000, "numbers": list(range(1000))}


def test_deep_values(command: Command, folder: FileStore, url: str) -> None:
    """A value may be nested as deeply as a serializer allows; where JSON can't follow, that is one line."""
    deep: list[Any] = []
    for _ in range(490):
        deep = [deep]
    folder.set("a", parked("a", state=deep))

    done = command("show", url, "a", "--json")

    assert command("show", url, "a").out.count("list (1)") == 490
    assert command("diff", url, "a", "a") == (0, "", "")
    assert command("verify", url) == (0, "", "1 verified, 0 failed\n")
    assert (done.status, done.out) == (2, "")
    assert done.err == "error: the content of a is nested too deeply for --json; show it without\n"


@dataclass
class _Line:
    text: str
    price: float


def test_tables_are_lists(command: Command, folder: FileStore, url: str) -> None:
    """Records that were stored as a table are shown one by one."""
    registry = Registry()
    registry.add(_Line, name="shop.Line")
    lines = [_Line(f"n{number}", number / 2) for number in range(5)]
    body = MsgpackSerializer(registry).dumps(Checkpoint(state=lines))
    folder.set("a", Envelope().seal(Header(checkpoint_id="a", status="interrupted"), body))

    state = json.loads(command("show", url, "a", "--json").out)["content"]["state"]

    assert state[4] == {"$type": "shop.Line", "kind": "dataclass", "fields": {"text": "n4", "price": 2.0}}
    assert len(state) == 5


def test_a_key_for_signatures_alone(command: Command, folder: FileStore, url: str, key_file: str) -> None:
    """A signature is checked with the keys; one by another key under the same id is refused."""
    envelope = Envelope(sign=KeyRing({"2026-11": bytes(32)}))
    folder.set("a", parked("a", envelope=envelope))

    done = command("show", url, "a", "--key-file", key_file)

    assert (done.status, done.out) == (2, "")
    assert "its signature by key '2026-11' does not" in done.err
