"""Where words go: data to stdout, for people or for programs; all else to stderr."""

from __future__ import annotations

import json
import sys

__all__ = ["PipeClosed", "flush", "for_people", "put", "put_json", "say"]


class PipeClosed(Exception):
    """Whoever read the output has seen enough. No ``OSError``, which typer would end with a status of its own."""


def for_people() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def put(line: str) -> None:
    """Write a line of data.

    Raises:
        PipeClosed: nobody reads it.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(f"{line.encode(encoding, 'backslashreplace').decode(encoding)}\n")
    except BrokenPipeError:
        raise PipeClosed from None


def put_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON, on one line or as a document.

    Raises:
        PipeClosed: nobody reads it.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    put(text)


def flush() -> None:
    """Let all that was written go out.

    Raises:
        PipeClosed: nobody reads it.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise PipeClosed from None


def say(line: str) -> None:
    """Write a line for whoever sits there."""
    encoding = sys.stderr.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
