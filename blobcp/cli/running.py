"""From arguments to an exit status: whatever stops a command, it leaves one line and a number, and no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from typer.main import get_command

from blobcp.errors import BlobcpError, CheckpointKeyError

from .app import app
from .output import PipeClosed, flush, say

__all__ = ["run"]

MISUSED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141

# typer brings click under one name or another, so the classes of its errors are found and not imported.
_MISUSES: tuple[type[Exception], ...] = tuple(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind is not Exception
)


def run(arguments: Sequence[str] | None) -> int:
    """Run the command and return its exit status: 0, 1 where something was found, 2 where it could not be done.

    Args:
        arguments: those behind the command's name; ``None``: those of this process.
    """
    _open_streams()
    try:
        status = _run(arguments)
        flush()
        return status
    except (PipeClosed, BrokenPipeError):
        # Python would flush once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return INTERRUPTED


def _open_streams() -> None:
    """Give those streams somewhere to go that a shell has closed, as by ``>&-``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it is open to the end


def _run(arguments: Sequence[str] | None) -> int:
    command = get_command(app)
    try:
        status = command.main(
            args=None if arguments is None else list(arguments), prog_name="blobcp", standalone_mode=False
        )
    except BlobcpError as error:
        return _failed(_advised(error))
    except _MISUSES as misuse:
        return _failed(_worded(misuse))
    return status if isinstance(status, int) else 0


def _advised(error: BlobcpError) -> str:
    advice = " (here: --key-file FILE, or BLOBCP_KEYS)" if isinstance(error, CheckpointKeyError) else ""
    return f"{error}{advice}"


def _worded(misuse: BaseException) -> str:
    """Return what typer has against the arguments, and where to read on."""
    text = misuse.format_message() if hasattr(misuse, "format_message") else str(misuse)
    context = getattr(misuse, "ctx", None)
    place = context.command_path if context else "blobcp"
    return f"{text.rstrip('.')}; see {place} --help" if text else f"no command was given; see {place} --help"


def _failed(message: str) -> int:
    flush()
    say(f"error: {' '.join(message.split())}")
    return MISUSED
