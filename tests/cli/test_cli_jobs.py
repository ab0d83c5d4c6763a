from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Command, Done, in_terminal, run_command
from golden_blobs import golden, make
from parked_runs import ODD_IDS, parked
from stored_runs import blob_of, header_of

from blobcp.codec.frame import split_frame
from blobcp.stores import FileStore, open_store

MODULE = """
import os, signal
from blobcp.migrations import Migrations, rename_field
from blobcp import Envelope, MsgpackSerializer

migrations = Migrations(version=2)

@migrations.step(1, 2, raw=True)
def rename(state):
    state.fields["done"] = state.fields.pop("paid")
    return state

def pay(state):
    state.fields["paid"] = True
    return state, True

def fail(state):
    raise ValueError("no way")

def scream(state):
    raise ValueError("no\\nway \\x1b[2J")

def stop(state):
    os.kill(os.getpid(), signal.SIGINT)
    return state, True

def same(state):
    return state, False

small = Envelope(compression="zlib")
serializer = MsgpackSerializer()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module of migrations."""
    (tmp_path / "their_migrations.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "their_migrations", sys)  # so that what was there before is there afterwards
    del sys.modules["their_migrations"]
    return tmp_path


Migrate = Callable[..., Done]


@pytest.fixture
def migrate(place: Path, command: Command, url: str) -> Migrate:
    """Run ``blobcp migrate`` with something of that module."""

    def run(name: str, *options: str, url: str = url) -> Done:
        return command("migrate", url, "--with", f"their_migrations:{name}", *options)

    return run


def paid(store: object, id: str) -> str:
    """Return the line of a cart's fields."""
    return next(
        name for name in ("done", "paid") if f"{name}".encode() in blob_of(store, id).partition(b"shop.Cart")[2]
    )


class TestCopy:
    def test_to_another_kind(self, command: Command, shared_url: str, tmp_path: Path) -> None:
        """All blobs are copied as they are, whatever the stores, and a second time there is nothing to do."""
        source = open_store(shared_url)
        for id in ODD_IDS:
            source.set(id, parked(id))
        target = f"sqlite:///{tmp_path}/copy.db"

        first, again = command("copy", shared_url, target), command("copy", shared_url, target)

        with open_store(target) as copied:  # type: ignore[attr-defined]  # not every store has a context
            assert {id: copied.get(id) for id in copied.list()} == {id: parked(id) for id in ODD_IDS}
        count = len(ODD_IDS)
        assert (first.status, first.out.splitlines()[0]) == (0, f"{count} copied, 0 there already, 0 failed")
        assert (again.status, again.out.splitlines()[0]) == (0, f"0 copied, {count} there already, 0 failed")
        assert first.err == again.err == ""

    def test_a_selection(self, command: Command, folder: FileStore, url: str, tmp_path: Path) -> None:
        """Prefix and headers select what is copied; a dry run copies nothing."""
        folder.set("a", parked("a", status="done"))
        folder.set("b/1", parked("b/1", graph="bill", age=timedelta(days=8)))
        folder.set("b/2", parked("b/2", age=timedelta()))
        options = ["--prefix", "b/", "--older", "7d", "--graph", "bill", "--status", "interrupted"]

        dry = command("copy", url, f"file:{tmp_path}/copy", "--dry-run", *options)
        target = FileStore(tmp_path / "copy")
        before = list(target.list())
        done = command("copy", url, f"file:{tmp_path}/copy", *options)

        assert (dry.status, dry.out.splitlines()[0]) == (0, "1 to copy, 0 there already, 0 failed, 1 skipped")
        assert (done.status, done.out.splitlines()[0]) == (0, "1 copied, 0 there already, 0 failed, 1 skipped")
        assert (before, list(target.list())) == ([], ["b/1"])

    def test_what_is_there_stays(self, command: Command, folder: FileStore, url: str, tmp_path: Path) -> None:
        """Another blob in the target is a failure and stays, except with --overwrite."""
        folder.set("a", parked("a"))
        target = FileStore(tmp_path / "copy")
        target.set("a", parked("a", state=1))

        done = command("copy", url, f"file:{target.folder}", "--json")
        kept = target.get("a")
        forced = command("copy", url, f"file:{target.folder}", "--overwrite")

        report = json.loads(done.out)
        assert (done.status, kept, report["failed"]) == (1, parked("a", state=1), 1)
        assert report["failures"][0]["id"] == "a"
        assert (forced.status, target.get("a")) == (0, parked("a"))


class TestMigrate:
    def test_a_dry_run_then_the_job(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """A dry run shows what would change and writes nothing; the job does it, and once is enough."""
        for id in ("a", "b"):
            folder.set(id, parked(id))

        dry = migrate("migrations", "--dry-run", "--samples", "1")
        before = [blob_of(folder, id) for id in "ab"]
        done = migrate("migrations", "--workers", "2", "--rate", "1000")
        again = migrate("migrations")

        assert dry.status == 0, dry.err
        assert dry.out.splitlines()[0] == "2 to migrate, 0 current, 0 failed"
        assert dry.out.splitlines()[2:4] == ["a", "  ~ header.state_version: 0 -> 2"]
        assert set(dry.out.splitlines()[4:]) == {"  + state.done = False", "  - state.paid = False"}
        assert before == [parked("a"), parked("b")]
        assert (done.status, done.out.splitlines()[0], done.err) == (0, "2 migrated, 0 current, 0 failed", "")
        assert (again.status, again.out.splitlines()[0]) == (0, "0 migrated, 2 current, 0 failed")
        assert [header_of(folder, id).state_version for id in "ab"] == [2, 2]
        assert [paid(folder, id) for id in "ab"] == ["done", "done"]

    def test_a_dry_run_as_json(self, migrate: Migrate, folder: FileStore) -> None:
        """--json has the samples of a dry run, with what each side of a difference is."""
        folder.set("a", parked("a"))

        done = migrate("migrations", "--dry-run", "--json")

        assert (done.status, done.err) == (0, "")
        [sample] = json.loads(done.out)["samples"]
        assert (sample["id"], sample["more"]) == ("a", 0)
        assert {"path": "header.state_version", "before": "0", "after": "2"} in sample["changes"]
        assert {"path": "state.paid", "before": "False", "after": None} in sample["changes"]

    def test_nothing_to_obey(self, migrate: Migrate, folder: FileStore) -> None:
        """Ids and reasons keep to their line and tell a terminal nothing, in samples, failures and what is dropped."""
        for id in ("a\x1b[31m\nb", "c"):
            folder.set(id, parked(id))

        dry, failed = migrate("migrations", "--dry-run"), migrate("scream", "--raw")

        assert dry.out.splitlines()[2] == r"a\u001b[31m\nb"
        assert failed.out.splitlines()[3].startswith(r"  a\u001b[31m\nb: checkpoint 'a\x1b[31m\nb' was not migrated")
        assert failed.out.splitlines()[4].endswith(r"ValueError: no\nway \u001b[2J")
        assert all(line.isprintable() for line in (dry.out + failed.out).splitlines())

    def test_on_any_store(self, migrate: Migrate, command: Command, shared_url: str) -> None:
        """It migrates the blobs of any store."""
        store = open_store(shared_url)
        store.set("a b", parked("a b"))

        done = migrate("migrations", url=shared_url)

        assert (done.status, header_of(store, "a b").state_version) == (0, 2), done.err

    def test_a_selection(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """Prefix and headers select."""
        folder.set("a", parked("a"))
        folder.set("b", parked("b", graph="bill"))

        assert migrate("migrations", "--prefix", "b", "--graph", "bill", "--newer", "99999d").status == 0
        assert [header_of(folder, id).state_version for id in "ab"] == [0, 2]

    def test_a_function(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """A function for states does as well, with --raw where its classes are gone."""
        folder.set("a", parked("a"))

        done = migrate("pay", "--raw", "--state-version", "7", "--json")

        assert (done.status, json.loads(done.out)["changed"]) == (0, 1), done.err
        assert header_of(folder, "a").state_version == 7

    @pytest.mark.parametrize(("options", "failed"), [([], 3), (["--on-error", "stop"], 1)])
    def test_failures(
        self, migrate: Migrate, place: Path, folder: FileStore, url: str, options: list[str], failed: int
    ) -> None:
        """A blob that fails stays as it is, is named in the report, and the status is 1."""
        for id in ("a", "b", "c"):
            folder.set(id, parked(id))

        done = migrate("fail", "--raw", "--json", *options)

        report = json.loads(done.out)
        assert (done.status, report["changed"], report["stopped"]) == (1, 0, "failure" if options else None)
        assert failed <= report["failed"] <= 3
        assert "ValueError: no way" in report["failures"][0]["reason"]
        assert blob_of(folder, "a") == parked("a")

    def test_originals_are_kept_and_put_back(
        self, migrate: Migrate, command: Command, folder: FileStore, url: str
    ) -> None:
        """With --backup the originals are kept beside, and restore puts them back."""
        store = folder
        store.set("a", parked("a"))

        assert migrate("migrations", "--backup", ".old", url=url).status == 0
        kept = (blob_of(store, "a.old"), header_of(store, "a").state_version)
        done = command("restore", url, "--backup", ".old")

        assert kept == (parked("a"), 2)
        assert (done.status, blob_of(store, "a")) == (0, parked("a")), done.err

    def test_originals_in_another_store(
        self, migrate: Migrate, command: Command, place: Path, folder: FileStore, url: str
    ) -> None:
        """Likewise with --backup-store; a dry run of restore changes nothing."""
        folder.set("a", parked("a"))
        kept = f"sqlite:///{place}/kept.db"

        assert migrate("migrations", "--backup-store", kept).status == 0
        dry = command("restore", url, "--backup-store", kept, "--dry-run")
        version = header_of(folder, "a").state_version
        done = command("restore", url, "--backup-store", kept, "--json")

        assert (dry.status, version) == (0, 2)
        assert (done.status, json.loads(done.out)["changed"], blob_of(folder, "a")) == (0, 1, parked("a"))

    @pytest.mark.parametrize(
        "name", ["zlib", "zstd", "encrypted", "encrypted-old-key", "signed", "zlib-encrypted-signed"]
    )
    def test_each_is_sealed_as_it_was(
        self, migrate: Migrate, place: Path, folder: FileStore, url: str, name: str
    ) -> None:
        """A blob that was compressed, encrypted or signed is so afterwards, with the same keys."""
        keys = {"2026-10": bytes(range(32)), "2026-11": bytes(range(32, 64))}
        (place / "keys.txt").write_text("\n".join(f"{id}={key.hex()}" for id, key in keys.items()))
        folder.set(make.ID, golden(name))

        without = migrate("same", "--raw", "--state-version", "9")
        done = migrate("same", "--raw", "--state-version", "9", "--key-file", "keys.txt")

        frames = [
            split_frame(blob, max_header_bytes=1 << 20, max_body_bytes=1 << 20)
            for blob in (golden(name), blob_of(folder, make.ID))
        ]
        assert without[0] == (0 if name in {"zlib", "zstd"} else 1)
        assert done.status == 0, done.out
        assert header_of(folder, make.ID).state_version == 9
        assert frames[0].flags == frames[1].flags
        assert (b"2026-10" in bytes(frames[1].header)) == (name == "encrypted-old-key")

    def test_an_envelope_of_theirs(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """--envelope and --serializer name those of a program."""
        folder.set("a", parked("a", state={"text": "x" * 1000}))

        options = ["--envelope", "their_migrations:small", "--serializer", "their_migrations:serializer"]
        done = migrate("same", "--raw", "--state-version", "1", *options)

        assert done.status == 0, done.err
        assert len(blob_of(folder, "a")) < 700

    def test_ctrl_c_and_on(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """Ctrl-C finishes what is in hand, status 130; with a journal the next one goes on, and does no blob twice."""
        for number in range(200):
            folder.set(f"{number:03}", parked(f"{number:03}", status="running"))
        options = ["--raw", "--state-version", "1", "--journal", "job.journal", "--json"]

        stopped = run_command("migrate", url, "--with", "their_migrations:stop", *options)
        first = json.loads(stopped.out)
        (place / "their_migrations.py").write_text(MODULE.replace("os.kill(os.getpid(), signal.SIGINT)", "pass"))
        second = json.loads(migrate("stop", *options).out)

        assert (stopped.status, first["stopped"]) == (130, "interrupted")
        assert 0 < first["changed"] < 200
        assert (second["earlier"], second["changed"], second["stopped"]) == (first["changed"], 200, None)
        assert {header_of(folder, id).state_version for id in folder.list()} == {1}

    def test_progress_is_for_terminals(self, migrate: Migrate, place: Path, folder: FileStore, url: str) -> None:
        """In a terminal stderr shows how far it is; elsewhere it is empty."""
        folder.set("a", parked("a"))

        done = in_terminal("copy", url, f"file:{place}/copy")
        piped = run_command("copy", url, f"file:{place}/copy")

        assert done.status == 0
        assert "1 copied, 0 there already, 0 failed" in done.out
        assert "━" in done.out
        assert piped.err == ""
