from __future__ import annotations

import json
from datetime import timedelta

import pytest
from command_line import Command, Done
from golden_blobs import golden
from parked_runs import ODD_IDS, parked

from blobcp.stores import FileStore, open_store

ROW = "\tshop\tinterrupted\t2\t0\t1\t2026-11-03T09:08:07Z\t"


def ids_of(done: Done) -> list[str]:
    """Return the first column."""
    return [line.partition("\t")[0] for line in done.out.splitlines()]


def test_rows_of_any_store(command: Command, shared_url: str) -> None:
    """Each blob is a line of columns, in the order of the ids, whatever the store."""
    store = open_store(shared_url)
    for id in ("b", "a", "c"):
        store.set(id, parked(id))
    store.set("c", parked("c", status="done", graph="bill", state_version=4))

    done = command("ls", shared_url)

    size, small = len(parked("a")), len(parked("c", status="done", graph="bill", state_version=4))
    assert done == Done(
        0,
        f"a{ROW}{size}\nb{ROW}{size}\nc\tbill\tdone\t2\t4\t0\t2026-11-03T09:08:07Z\t{small}\n",
        "",
    )


def test_ids_of_every_kind(command: Command, shared_url: str) -> None:
    """An id that holds spaces, quotes, newlines or what a terminal obeys is quoted; as JSON it is exact."""
    store = open_store(shared_url)
    for id in ODD_IDS:
        store.set(id, parked(id))

    shown = ids_of(command("ls", shared_url))
    exact = [json.loads(line)["id"] for line in command("ls", shared_url, "--json").out.splitlines()]

    assert exact == sorted(ODD_IDS)
    assert [json.loads(id) if id.startswith('"') else id for id in shown] == sorted(ODD_IDS)
    assert [id for id in shown if not id.startswith('"')] == ["-dash", "../x", "[red]a[/red]"]
    assert all(id.isprintable() for id in shown)


def test_a_prefix_selects(command: Command, folder: FileStore, url: str) -> None:
    """A prefix is taken as it is, wildcards included."""
    for id in ("a*b", "axb", "a*c"):
        folder.set(id, parked(id))

    assert ids_of(command("ls", url, "a*")) == ["a*b", "a*c"]
    assert ids_of(command("ls", url, "q")) == []


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "done"], ["done"]),
        (["--status", "done", "--status", "failed"], ["done", "failed"]),
        (["--graph", "bill"], ["bill"]),
        (["--graph", "bill", "--graph", "shop", "--older", "2d"], ["old"]),
        (["--older", "7d"], ["old"]),
        (["--newer", "1d12h"], ["bill", "done", "failed"]),
        (["--newer", "1w", "--status", "failed"], ["failed"]),
        (["--limit", "2"], ["bill", "done"]),
        (["--limit", "0"], []),
    ],
)
def test_options_select(command: Command, folder: FileStore, url: str, options: list[str], ids: list[str]) -> None:
    """All options must hold; one that is given twice means either."""
    folder.set("bill", parked("bill", graph="bill", age=timedelta(hours=1)))
    folder.set("done", parked("done", status="done", age=timedelta(hours=1)))
    folder.set("failed", parked("failed", status="failed", age=timedelta(hours=35)))
    folder.set("old", parked("old", age=timedelta(days=8)))

    assert ids_of(command("ls", url, *options)) == ids


def test_json_has_the_whole_header(command: Command, folder: FileStore, url: str) -> None:
    """--json gives an object on each line: the id, the size, and each field of the header."""
    folder.set("a", parked("a"))

    assert json.loads(command("ls", url, "--json").out) == {
        "id": "a",
        "size": len(parked("a")),
        "serializer": "msgpack",
        "state_version": 0,
        "graph": "shop",
        "parent": None,
        "run_id": "run-1",
        "step": 2,
        "created_at": "2026-11-03T09:08:07.654321Z",
        "status": "interrupted",
        "pending": [{"id": "i1", "address": "runnable:shop;node:ask"}],
    }


def test_a_corrupt_blob_is_a_row(command: Command, folder: FileStore, url: str) -> None:
    """What can't be read has a row that says so, the others have theirs, and the status is 0."""
    folder.set("a", parked("a"))
    folder.set("b", parked("b")[:-1])
    folder.set("c", b"BCP9" + parked("c")[4:])

    done = command("ls", url)
    [_, corrupt, newer] = [json.loads(line) for line in command("ls", url, "--json").out.splitlines()]

    size = len(parked("a"))
    assert done.out == f"a{ROW}{size}\nb\t-\tcorrupt\t-\t-\t-\t-\t{size - 1}\nc\t-\ttoo new\t-\t-\t-\t-\t{size}\n"
    assert (done.status, done.err) == (
        0,
        "1 corrupt; blobcp verify says more\n1 too new; blobcp verify says more\n",
    )
    assert (corrupt["id"], corrupt["error"]) == ("b", "CheckpointCorruptError")
    assert "truncated" in corrupt["problem"]
    assert newer["error"] == "CheckpointVersionError"


def test_a_blob_that_has_gone_is_none(command: Command, folder: FileStore, url: str) -> None:
    """What has expired since it was listed has no row."""
    folder.set_expiring("a", parked("a"), timedelta(microseconds=1))
    folder.set("b", parked("b"))

    assert ids_of(command("ls", url, "--workers", "1")) == ["b"]


def test_an_encrypted_blob_needs_no_key(command: Command, folder: FileStore, url: str) -> None:
    """Headers of encrypted and signed blobs are listed without a key."""
    folder.set("orders/7 ☕", golden("zlib-encrypted-signed"))

    assert command("ls", url).out.startswith('"orders/7 ☕"\trefunds\tinterrupted\t4\t3\t1\t')


@pytest.mark.parametrize("workers", ["1", "3", "16"])
def test_order_is_kept(command: Command, folder: FileStore, url: str, workers: str) -> None:
    """However many are read at once, the rows come in the order of the ids."""
    ids = [f"{number:03}" for number in range(100)]
    for id in ids:
        folder.set(id, parked(id, status="done"))

    assert ids_of(command("ls", url, "--workers", workers)) == ids
