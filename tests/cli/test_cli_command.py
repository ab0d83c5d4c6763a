from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COMMAND, Command, in_terminal, run_command
from parked_runs import ODD_IDS, parked

from blobcp.cli import main
from blobcp.cli.app import app
from blobcp.stores import FileStore

NAMES = ["ls", "show", "verify", "diff", "fork", "rm", "copy", "migrate", "restore", "check"]
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def many(folder: FileStore) -> FileStore:
    """A store of so many blobs that a list of them does not fit into a pipe."""
    for number in range(3000):
        folder.set(f"{number:04}{'-' * 100}", parked("a", status="done"))
    return folder


def test_help_has_examples(command: Command) -> None:
    """Every command says what it does in one sentence, and shows examples that stand as they were written."""
    listed = command("--help")

    assert [info.callback.__name__ for info in app.registered_commands if info.callback] == NAMES
    assert listed.status == 0
    assert [name for name in NAMES if not re.search(rf"^  {name} +[A-Z].*\.$", listed.out, re.MULTILINE)] == []
    for name in NAMES:
        done = command(name, "--help")
        assert (done.status, done.err) == (0, "")
        assert f"\n  Examples:\n    blobcp {name} " in done.out


def test_version(command: Command) -> None:
    """--version prints the version that is installed."""
    assert command("--version") == (0, "blobcp 0.1.0\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing command; see blobcp --help"),
        (["no"], "No such command 'no'; see blobcp --help"),
        (["ls"], "Missing argument 'URL'; see blobcp ls --help"),
        (["ls", "map:", "--no"], "No such option: --no"),
        (["ls", "map:", "--status", "lost"], "Invalid value for '--status': "),
        (["ls", "map:", "--older", "7x"], "Invalid value for '--older': '7x' is no time; say 45s, 30m, 12h, 7d, 2w or"),
        (["ls", "map:", "--older", "9" * 20 + "w"], "Invalid value for '--older': "),
        (["ls", "floppy:a"], "no store has the scheme of 'floppy:a'; known are: file, map, "),
        (["ls", "s3://bucket?no=1"], "store URL 's3://bucket?no=1' has the unknown option 'no'"),
        (["ls", "postgresql://me:secret@127.0.0.1:1/db"], ""),
        (["ls", "file:./none"], "there is no folder './none', so no store is there"),
        (["ls", "file://host/none"], "store URL 'file://host/none' names a host"),
        (["ls", "sqlite:///none.db"], "there is no file 'none.db', so no store is there"),
        (["show", "map:", "a"], "nothing is stored under a"),
        (["migrate", "map:", "--with", "a"], "'a' names nothing; say MODULE:NAME"),
        (["migrate", "map:", "--with", "no_such_module:a"], "can't import 'no_such_module': ModuleNotFoundError"),
        (["migrate", "map:", "--with", "json:no"], "module 'json' has no 'no'"),
        (["migrate", "map:", "--with", "json:__name__"], "json:__name__ is a str; name Migrations, or a function"),
        (
            ["migrate", "map:", "--with", "json:loads", "--envelope", "json:loads"],
            "json:loads is a function; name an Env",
        ),
        (
            ["migrate", "map:", "--with", "json:loads", "--backup", "a", "--backup-store", "map:"],
            "originals are kept in",
        ),
        (
            ["migrate", "map:", "--with", "json:loads", "--backup-store", "map:"],
            "--backup-store is the store itself; name",
        ),
        (["restore", "map:", "--backup-store", "map:"], "--backup-store is the store itself; name another one"),
        (["restore", "map:"], "say where the originals are: --backup SUFFIX or --backup-store URL"),
        (["copy", "map:", "floppy:a"], "no store has the scheme of 'floppy:a'"),
    ],
)
def test_misuse_is_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Whatever is wrong with the arguments: nothing on stdout, one line on stderr, status 2, nothing is made."""
    monkeypatch.chdir(tmp_path)

    done = command(*arguments)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"error: {said}")
    assert done.err.count("\n") == 1
    assert "secret" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "said"), [(["typer"], "typer"), (["rich"], "rich"), (["typer", "rich"], "typer and rich")]
)
def test_without_the_extra(
    missing: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a library is missing, the command says in one line what to install."""
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)

    assert main(["ls", "map:"]) == 2
    assert capsys.readouterr() == ("", f"error: the command line needs {said}; pip install 'blobcp[cli]'\n")


def test_importing_it_needs_no_extra() -> None:
    """Both libraries are imported only when the command runs."""
    code = "import sys, blobcp.cli; print({'typer', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "set()\n"


def test_the_command_is_installed() -> None:
    """``blobcp`` and ``python -m blobcp.cli`` are the same."""
    script = Path(sys.executable).with_name("blobcp")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == run_command("--version").out == "blobcp 0.1.0\n"


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["verify"]])
def test_a_closed_pipe_ends_quietly(many: FileStore, url: str, arguments: list[str]) -> None:
    """Where the reader has seen enough, the command ends without a word, as others do."""
    name, *options = arguments
    with subprocess.Popen([*COMMAND, name, url, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        status = process.wait(timeout=60)

    assert first.startswith((b"0000-", b'{"id": "0000-'))
    assert (status, said) == (141, b"")


def test_a_few_lines_into_a_closed_pipe(folder: FileStore, url: str) -> None:
    """So it does where all fits into a buffer and only the last flush fails."""
    folder.set("a", parked("a"))
    line = f"{sys.executable} -m blobcp.cli ls '{url}' | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout in {"0\n", "141\n"}, done.stderr) == (True, "")


def test_ctrl_c(many: FileStore, url: str) -> None:
    """Ctrl-C ends it with status 130 and no traceback."""
    with subprocess.Popen([*COMMAND, "ls", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the pipe is full soon, since nobody reads on
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert b"Traceback" not in said
    assert rest.count(b"\n") < 3000


def test_a_full_disk(folder: FileStore, url: str) -> None:
    """Output that can't be written is an error, not success."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    folder.set("a", parked("a"))
    with full.open("w") as target:
        done = subprocess.run(
            [*COMMAND, "ls", url], stdout=target, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )

    assert done.returncode == 2
    assert done.stderr.startswith("error: the output can't be written: ")
    assert "Traceback" not in done.stderr


def test_a_closed_stdout(folder: FileStore, url: str) -> None:
    """Where a shell has closed stdout, nothing is written and the status says the same."""
    folder.set("a", b"bad")
    line = f"{sys.executable} -m blobcp.cli verify '{url}' >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "0 verified, 1 failed\n")


def test_another_encoding(folder: FileStore, url: str) -> None:
    """A terminal without Unicode gets escapes; JSON stays exact."""
    folder.set("Ünï ☕🎉", parked("Ünï ☕🎉"))
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    plain = run_command("ls", url, environment=environment)
    as_json = run_command("ls", url, "--json", environment=environment)

    assert plain.out.startswith('"\\xdcn\\xef \\u2615\\U0001f389"\t')
    assert json.loads(as_json.out)["id"] == "Ünï ☕🎉"


def test_a_table_in_a_terminal(folder: FileStore, url: str) -> None:
    """On a terminal there is a coloured table with a header, and each id, whatever is in it, has one row."""
    for id in ODD_IDS:
        folder.set(id, parked(id))
    folder.set("bad", b"bad")

    done = in_terminal("ls", url, columns=120)

    lines = STYLE.sub("", done.out).splitlines()
    assert "\x1b[" in done.out
    assert lines[0].split() == [
        "ID",
        "GRAPH",
        "STATUS",
        "STEP",
        "VERSION",
        "PENDING",
        "CREATED",
        "(UTC)",
        "AGE",
        "SIZE",
    ]
    assert len(lines) == 1 + len(ODD_IDS) + 1 + 1
    assert "[red]a[/red]" in done.out
    assert lines[-1] == "1 corrupt; blobcp verify says more"


def test_a_narrow_terminal(folder: FileStore, url: str) -> None:
    """In a narrow terminal the time is left out, and a long id goes on in the next line, so that all of it is there."""
    long = "".join(chr(ord("a") + number % 26) for number in range(60))
    folder.set(long, parked(long))

    lines = STYLE.sub("", in_terminal("ls", url, columns=80).out).splitlines()

    assert "CREATED" not in lines[0]
    assert max(map(len, lines)) <= 80
    assert "".join(line.split(" ")[0] for line in lines[1:]) == long


def test_no_color(folder: FileStore, url: str) -> None:
    """NO_COLOR leaves the colours out."""
    folder.set("a", parked("a"))

    coloured = [in_terminal("ls", url, environment=variables).out for variables in ({}, {"NO_COLOR": "1"})]

    assert ["\x1b[33m" in out for out in coloured] == [True, False]


def test_a_tree_in_a_terminal(folder: FileStore, url: str) -> None:
    """On a terminal a blob is a tree."""
    folder.set("a", parked("a"))

    done = in_terminal("show", url, "a", environment={"NO_COLOR": "1"})

    lines = STYLE.sub("", done.out)
    assert done.status == 0
    assert '├── state shop.Cart (2)\n│   ├── items list (1)\n│   │   └── [0] "tea"\n│   └── paid False\n' in lines


@pytest.mark.parametrize(("typed", "status", "left"), [("y\n", 0, []), ("n\n", 2, ["a"]), ("\n", 2, ["a"])])
def test_it_asks(folder: FileStore, url: str, typed: str, status: int, left: list[str]) -> None:
    """On a terminal rm asks; only yes is yes."""
    folder.set("a", parked("a"))

    done = in_terminal("rm", url, "a", typed=typed)

    assert "remove 1 (a)? [y/N]" in done.out
    assert (done.status, list(folder.list())) == (status, left)
