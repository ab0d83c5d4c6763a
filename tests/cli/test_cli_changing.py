from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from command_line import Command, run_command
from golden_blobs import golden, make
from parked_runs import ODD_IDS, parked
from stored_runs import blob_of, header_of, paused

from blobcp import END, START, Graph, interrupt, read_header
from blobcp.codec import digest_of
from blobcp.codec.frame import split_frame
from blobcp.stores import FileStore, open_store


class TestFork:
    def test_a_fork_goes_on_by_itself(self, command: Command, shared_url: str) -> None:
        """Both runs are answered apart from each other, and the fork names its parent as one of a program's does."""
        graph = Graph(str, str)
        graph.add_node("ask", lambda text: text + str(interrupt("?")))
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        store = open_store(shared_url)
        app = graph.compile(store=store)
        paused(app.invoke, "tea", checkpoint_id="a b")
        before = blob_of(store, "a b")

        done = command("fork", shared_url, "a b", "c")

        parent, fork = read_header(before), header_of(store, "c")
        assert done == (0, "", 'forked "a b" to c\n')
        assert blob_of(store, "a b") == before
        assert fork.parent is not None
        assert (fork.parent.id, fork.parent.digest) == ("a b", digest_of(before))
        assert fork.run_id not in {"", parent.run_id}
        assert (fork.step, fork.status, fork.graph, fork.pending) == (
            parent.step,
            "interrupted",
            parent.graph,
            parent.pending,
        )
        assert datetime.now(UTC) - fork.created_at < timedelta(minutes=1)
        assert app.resume("c", answer="!") == "tea!"
        assert app.resume("a b", answer="?") == "tea?"

    def test_nothing_is_replaced(self, command: Command, shared_url: str) -> None:
        """What is stored under the new id stays, except with --force."""
        store = open_store(shared_url)
        for id in ("a", "b"):
            store.set(id, parked(id))

        done = command("fork", shared_url, "a", "b")
        kept = blob_of(store, "b")
        forced = command("fork", shared_url, "a", "b", "--force")

        said = "error: something is stored under b already; choose another id, or replace it with --force\n"
        assert (done, kept) == ((2, "", said), parked("b"))
        assert forced.status == 0
        parent = header_of(store, "b").parent
        assert parent is not None
        assert parent.id == "a"

    @pytest.mark.parametrize(
        "name", ["zlib", "zstd", "encrypted", "encrypted-old-key", "signed", "zlib-encrypted-signed"]
    )
    def test_it_is_sealed_as_the_original(
        self, command: Command, folder: FileStore, url: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A fork is compressed, encrypted and signed as its parent is, with the same keys."""
        keys = {"2026-10": bytes(range(32)), "2026-11": bytes(range(32, 64))}
        monkeypatch.setenv("BLOBCP_KEYS", "\n".join(f"{id}={key.hex()}" for id, key in keys.items()))
        folder.set(make.ID, golden(name))

        done = command("fork", url, make.ID, "fork")

        frames = [
            split_frame(blob, max_header_bytes=1 << 20, max_body_bytes=1 << 20)
            for blob in (golden(name), blob_of(folder, "fork"))
        ]
        assert done.status == 0, done.err
        assert frames[0].flags == frames[1].flags
        assert (b"2026-10" in bytes(frames[1].header)) == (name == "encrypted-old-key")
        assert command("diff", url, make.ID, "fork", "--content").status == 0

    def test_a_sealed_one_needs_its_key(self, command: Command, folder: FileStore, url: str) -> None:
        """Without the key nothing is forked."""
        folder.set(make.ID, golden("encrypted"))

        done = command("fork", url, make.ID, "fork")

        assert done.status == 2
        assert "is encrypted with key '2026-11'" in done.err
        assert folder.get("fork") is None

    def test_a_finished_run_is_not_forked(self, command: Command, folder: FileStore, url: str) -> None:
        """There is nothing to go on from, and the message says what to do."""
        folder.set("a", parked("a", status="done"))

        done = command("fork", url, "a", "b")

        assert (done.status, folder.get("b")) == (2, None)
        assert done.err == (
            "error: the run a is finished, so there is nothing to go on from; fork a run that waits, or start a new one\n"
        )

    @pytest.mark.parametrize(
        ("ids", "said"),
        [
            (("a", "a"), "the fork of a needs another id"),
            (("none", "b"), "nothing is stored under none"),
            (("a", ""), "checkpoint id '' is empty; give at least one character"),
            (("a", "x" * 513), f"checkpoint id {'x' * 80!r} takes 513 UTF-8 bytes; at most 512 are allowed"),
        ],
    )
    def test_what_can_not_be(
        self, command: Command, folder: FileStore, url: str, ids: tuple[str, str], said: str
    ) -> None:
        """A fork under the same id, from nothing, or to what is no id is refused."""
        folder.set("a", parked("a"))

        assert command("fork", url, *ids) == (2, "", f"error: {said}\n")


class TestRm:
    def test_by_id(self, command: Command, shared_url: str) -> None:
        """What is removed is printed, and the others stay."""
        store = open_store(shared_url)
        for id in ("a", "b c", "d"):
            store.set(id, parked(id))

        done = command("rm", shared_url, "d", "b c", "d", "--yes")

        assert done == (0, 'd\n"b c"\n', "")
        assert [store.get(id) is None for id in ("a", "b c", "d")] == [False, True, True]

    def test_a_missing_id_stops_all(self, command: Command, folder: FileStore, url: str) -> None:
        """Where one id is mistyped nothing is removed."""
        folder.set("a", parked("a"))

        done = command("rm", url, "a", "b", "--yes")

        assert done == (2, "", "error: nothing is stored under b\n")
        assert list(folder.list()) == ["a"]

    @pytest.mark.parametrize(
        ("options", "removed"),
        [
            (["--prefix", "a/"], ["a/done", "a/old"]),
            (["--status", "done"], ["a/done", "b/done"]),
            (["--status", "done", "--prefix", "b"], ["b/done"]),
            (["--older", "7d"], ["a/old"]),
            (["--newer", "7d", "--graph", "bill"], ["b/bill"]),
            (["--graph", "none"], []),
        ],
    )
    def test_by_selection(
        self, command: Command, folder: FileStore, url: str, options: list[str], removed: list[str]
    ) -> None:
        """All options must hold; a blob that can't be read is not selected by what a header says."""
        folder.set("a/done", parked("a/done", status="done", age=timedelta()))
        folder.set("a/old", parked("a/old", age=timedelta(days=8)))
        folder.set("b/bad", b"bad")
        folder.set("b/bill", parked("b/bill", graph="bill", age=timedelta()))
        folder.set("b/done", parked("b/done", status="done", age=timedelta()))
        before = list(folder.list())

        dry = command("rm", url, "--dry-run", *options)
        kept = list(folder.list())
        done = command("rm", url, "--yes", *options)

        assert (kept, dry.out.split(), done.out.split()) == (before, removed, removed)
        assert dry.err == (f"{len(removed)} would be removed\n" if removed else "nothing is selected\n")
        assert list(folder.list()) == [id for id in before if id not in removed]

    @pytest.mark.parametrize("options", [[], ["--prefix", ""], ["a", "--status", "done"], ["a", "--prefix", "b"]])
    def test_a_selection_is_demanded(self, command: Command, folder: FileStore, url: str, options: list[str]) -> None:
        """Nothing is removed where nothing is selected, or where ids and a selection contradict each other."""
        folder.set("a", parked("a", status="done"))

        done = command("rm", url, "--yes", *options)

        assert (done.status, done.out, list(folder.list())) == (2, "", ["a"])
        assert done.err.startswith("error: say what is to be removed: either ids, or a selection by --prefix")

    def test_nobody_to_ask(self, folder: FileStore, url: str) -> None:
        """Without a terminal it does not ask, and removes nothing."""
        for id in "abcdefg":
            folder.set(id, parked(id))

        done = run_command("rm", url, "--status", "interrupted")

        assert done == (
            2,
            "",
            "error: 7 would be removed (a, b, c, d, e and 2 more), and there is nobody to ask; say --yes\n",
        )
        assert len(list(folder.list())) == 7

    def test_a_run_that_moves_on_stays(
        self, command: Command, folder: FileStore, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run that was taken up again after it was selected is not removed."""
        from blobcp.cli import removing

        for id in ("a", "b"):
            folder.set(id, parked(id, age=timedelta(days=8)))
        monkeypatch.setattr(removing, "_ask", lambda ids: folder.set("a", parked("a", age=timedelta())))

        done = command("rm", url, "--older", "7d")

        assert done == (0, "b\n", "a has moved on since it was selected, and stays\n")
        assert list(folder.list()) == ["a"]

    def test_json(self, command: Command, folder: FileStore, url: str) -> None:
        """--json has the ids exactly."""
        for id in ODD_IDS:
            folder.set(id, parked(id))

        dry = command("rm", url, "--status", "interrupted", "--dry-run", "--json").out.splitlines()

        assert [json.loads(line) for line in dry] == [{"id": id, "removed": False} for id in sorted(ODD_IDS)]
