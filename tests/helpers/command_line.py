"""Running the command ``blobcp`` as a user does: in a process of its own, in a pipe or in a terminal."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple

__all__ = ["Command", "Done", "in_terminal", "run_command"]

COMMAND = [sys.executable, "-m", "blobcp.cli"]
NOTHING: Mapping[str, str] = {}


class Done(NamedTuple):
    """What came of a command."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]
"""Runs ``blobcp`` with arguments in this process."""


def run_command(*arguments: str, cwd: Path | None = None, environment: Mapping[str, str] = NOTHING) -> Done:
    """Run the command with its output in pipes, and nobody to ask; ``environment`` has further variables."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=_with(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def in_terminal(*arguments: str, columns: int = 80, typed: str = "", environment: Mapping[str, str] = NOTHING) -> Done:
    """Run the command in a terminal; what it writes is all in ``out``.

    Args:
        arguments: those of the command.
        columns: how wide the terminal is.
        typed: what somebody types.
        environment: further variables.
    """
    outer, inner = pty.openpty()
    ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        env=_with({"TERM": "xterm", "COLUMNS": "", "LINES": "", **environment}),
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        os.write(outer, typed.encode())
        written = b"".join(iter(lambda: _read(outer), b""))
        return Done(process.wait(timeout=60), written.decode().replace("\r\n", "\n"), "")
    finally:
        process.kill()
        process.wait()
        os.close(outer)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the process has ended, and with it the terminal
        return b""


def _with(environment: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "BLOBCP_KEYS"}}
    return inherited | dict(environment)
