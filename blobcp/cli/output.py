"""Where words go: data to stdout, for people or for programs; all else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from blobcp.errors import OptionError

from .texts import printable

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
        OptionError: it can't be written, as on a full disk.
    """
    encoding = sys.stdout.encoding or "utf-8"
    with _writing():
        sys.stdout.write(f"{line.encode(encoding, 'backslashreplace').decode(encoding)}\n")


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
    put("\n".join(map(printable, text.split("\n"))))


def flush() -> None:
    """Let all that was written go out.

    Raises:
        PipeClosed: nobody reads it.
    """
    with _writing():
        sys.stdout.flush()


def say(line: str) -> None:
    """Write a line for whoever sits there."""
    encoding = sys.stderr.encoding or "utf-8"
    print(printable(line).encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise PipeClosed from None
    except OSError as error:
        raise OptionError(f"the output can't be written: {error}") from error
