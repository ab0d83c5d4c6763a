"""How a check says what it found, in one plain sentence."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from blobcp.errors import BlobcpError, text_of

__all__ = ["STORE_ERRORS", "Failed", "NotOffered", "doing", "expect", "expect_error", "sentence_of", "shown"]

STORE_ERRORS: Final = (Exception, SystemExit, GeneratorExit, CancelledError)
"""What a store's own code may raise. A Ctrl-C, and that by which a test runner skips a test, are for whoever runs the kit."""

LONG = 40
"""Bytes and more of them are not shown one by one."""


class Failed(Exception):
    """A store did not do what the check asks for; the text is the sentence."""


class NotOffered(Exception):
    """A store does not offer what the check is about; the text is the reason."""


def expect(what: str, found: object, wanted: object) -> None:
    """Fail unless a value is the wanted one, and of its very type.

    >>> expect("get('a')", b"1", b"1")
    >>> expect("get('a')", bytearray(b"1"), b"1")
    Traceback (most recent call last):
    blobcp.testing.failing.Failed: get('a') gave bytearray(b'1') instead of b'1'
    >>> expect("get('a')", b"x" * 99, b"x" * 100)
    Traceback (most recent call last):
    blobcp.testing.failing.Failed: get('a') gave 99 bytes instead of 100; they differ from byte 99 on
    """
    if type(found) is type(wanted) and found == wanted:
        return
    if isinstance(found, bytes) and isinstance(wanted, bytes) and min(len(found), len(wanted)) > LONG:
        shorter = min(len(found), len(wanted))
        same = next((place for place in range(shorter) if found[place] != wanted[place]), shorter)
        raise Failed(f"{what} gave {len(found)} bytes instead of {len(wanted)}; they differ from byte {same} on")
    raise Failed(f"{what} gave {shown(found)} instead of {shown(wanted)}")


def expect_error(what: str, call: Callable[[], object], wanted: type[BlobcpError]) -> BlobcpError:
    """Fail unless a call raises an error of this class; return the error.

    >>> expect_error("get('')", lambda: None, BlobcpError)
    Traceback (most recent call last):
    blobcp.testing.failing.Failed: get('') gave None instead of raising BlobcpError
    """
    try:
        found = call()
    except wanted as error:
        return error
    except Exception as error:
        raise Failed(f"{what} raised {text_of(error)} instead of {wanted.__name__}") from error
    raise Failed(f"{what} gave {shown(found)} instead of raising {wanted.__name__}")


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Turn whatever is raised inside into a failure that says what was done."""
    try:
        yield
    except (Failed, NotOffered):
        raise
    except Exception as error:
        raise Failed(f"{what} raised {text_of(error)}") from error


def shown(value: object) -> str:
    """Return a value as a sentence shows it: long bytes and texts by their beginning and length.

    >>> shown(b"12"), shown(b"x" * 5000), shown("é" * 500)
    ("b'12'", "b'xxxxxxxxxxxx'... (5000 bytes)", "'éééééééééééééééééééééééé'... (500 characters)")
    """
    if isinstance(value, bytes) and len(value) > LONG:
        return f"{value[:12]!r}... ({len(value)} bytes)"
    if isinstance(value, bytearray) and len(value) > LONG:
        return f"a bytearray of {len(value)} bytes"
    if isinstance(value, str) and len(value) > 120:
        return f"{value[:24]!r}... ({len(value)} characters)"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def sentence_of(text: str, root: str) -> str:
    r"""Return the text of a failure as one line of a table, with the root of the ids of this run left out.

    >>> sentence_of("get('x7/a')\nfailed", "x7")
    "get('.../a') failed"
    """
    text = " ".join(text.replace(root, "...").split())
    return text if len(text) <= 600 else f"{text[:600]}..."
