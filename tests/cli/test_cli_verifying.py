from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command, run_command
from golden_blobs import FILES, golden, make
from parked_runs import parked

from blobcp import Checkpoint, Envelope, Header, PickleSerializer
from blobcp.stores import FileStore


def test_all_is_well(command: Command, folder: FileStore, url: str) -> None:
    """Where nothing fails nothing is printed but the count, on stderr, and the status is 0."""
    store = folder
    for id in ("a", "b"):
        store.set(id, parked(id))

    assert command("verify", url) == (0, "", "2 verified, 0 failed\n")
    assert command("verify", url, "b") == (0, "", "1 verified, 0 failed\n")


def test_each_failure_is_a_line(command: Command, folder: FileStore, url: str) -> None:
    """A flipped bit, foreign bytes, a copy by hand and content that is none are found, with the ids."""
    blob = parked("flipped")
    folder.set("flipped", blob[:-40] + bytes([blob[-40] ^ 1]) + blob[-39:])
    folder.set("foreign\n", b"hello")
    folder.set("moved", parked("a"))
    folder.set("content", Envelope().seal(Header(checkpoint_id="content"), b"\xc1"))
    folder.set("whole", parked("whole"))

    done = command("verify", url)
    found = [json.loads(line) for line in command("verify", url, "--json").out.splitlines()]

    lines = [line.split("\t") for line in done.out.splitlines()]
    assert (done.status, done.err) == (1, "1 verified, 4 failed\n")
    assert [id for id, _ in lines] == ["content", "flipped", '"foreign\\n"', "moved"]
    assert [failure["id"] for failure in found] == ["content", "flipped", "foreign\n", "moved"]
    assert [failure["error"] for failure in found] == [
        "SerializationError",
        "CheckpointCorruptError",
        "CheckpointCorruptError",
        "CheckpointCorruptError",
    ]
    assert "its digest does not fit" in lines[1][1]
    assert "copied by hand from 'a'" in lines[3][1]


def test_what_is_not_opened_is_counted(command: Command, folder: FileStore, url: str) -> None:
    """Pickles and, without keys, sealed blobs are verified but for their content; a wrong id is found all the same."""
    pickled = PickleSerializer(key=bytes(32)).dumps(Checkpoint())
    folder.set("pickle", Envelope().seal(Header(checkpoint_id="pickle", serializer="pickle"), pickled))
    folder.set(make.ID, golden("encrypted"))
    whole = command("verify", url)
    folder.set("wrong", golden("encrypted"))

    assert whole == (0, "", "2 verified, 2 of them without opening the content, 0 failed\n")
    assert command("verify", url, "wrong").status == 1


@pytest.mark.parametrize("name", FILES)
def test_keys_open_what_is_sealed(
    command: Command, folder: FileStore, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the keys the content is verified too."""
    keys = {"2026-10": bytes(range(32)), "2026-11": bytes(range(32, 64))}
    monkeypatch.setenv("BLOBCP_KEYS", "\n".join(f"{id}={key.hex()}" for id, key in keys.items()))
    folder.set(make.ID, golden(name))

    assert command("verify", url) == (0, "", "1 verified, 0 failed\n")


def test_a_key_that_is_not_among_them(
    command: Command, folder: FileStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where keys are given, a blob that none of them opens has failed."""
    monkeypatch.setenv("BLOBCP_KEYS", f"other={bytes(32).hex()}")
    folder.set(make.ID, golden("encrypted"))

    assert command("verify", url).status == 1


STORES = """
from blobcp.stores import MapStore

class Forgetful(dict):
    def set(self, id, blob): pass

class Good(MapStore): pass

def broken(): raise RuntimeError("no")
number = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A folder with a module of stores."""
    (tmp_path / "their_stores.py").write_text(STORES)
    return tmp_path


@pytest.mark.parametrize(("name", "status"), [("Good", 0), ("Forgetful", 1), ("number", 2), ("none", 2), ("broken", 2)])
def test_check_a_store(module: Path, name: str, status: int) -> None:
    """``check`` runs the conformance kit on a store of the current folder; its status says what came of it."""
    done = run_command(
        "check", f"their_stores:{name}", "--only", "get and set", "--examples", "0", "--large", "1000", cwd=module
    )

    assert done.status == status, done.err
    assert done.err.count("\n") == (status == 2)
    assert done.err.startswith("error: ") == (status == 2)
    assert (f"{name}: " in done.out) == (status != 2)
