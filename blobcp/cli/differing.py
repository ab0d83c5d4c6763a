"""``blobcp diff``: what two blobs differ in, path by path, without the classes of their program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from blobcp.errors import OptionError

from .as_json import as_json
from .content import Content, content_of
from .keys import read_keys
from .opening import opened
from .options import AsJson, KeyFile, Url
from .output import for_people, put, put_json
from .raw import compact, take
from .reading import blob_at
from .texts import printable
from .tree import shortened

__all__ = ["diff"]

_ABSENT = object()
_OF_ANY_BLOB = {"header.checkpoint_id"}


class _Difference(NamedTuple):
    """A path, and what each side has there; ``_ABSENT`` for nothing."""

    path: str
    old: Any
    new: Any


def diff(
    url: Url,
    old: Annotated[str, typer.Argument(metavar="A", help="The id of the one.", show_default=False)],
    new: Annotated[
        str | None, typer.Argument(metavar="B", help="The id of the other; with --other, A if not given.")
    ] = None,
    other: Annotated[str | None, typer.Option("--other", metavar="URL", help="The store that B is in.")] = None,
    content_only: Annotated[
        bool, typer.Option("--content", help="Compare what they hold and not their headers.")
    ] = False,
    json: AsJson = False,
    key_file: KeyFile = None,
) -> None:
    """Compare two blobs.

    A line that begins with - is what A has, one with + what B has. With --json one document. The exit status is 1 if
    they differ in more than their ids.
    """
    if new is None and other is None:
        raise OptionError("say what it is compared with: another id, or another store by --other")
    other_id = old if new is None else new
    envelope = read_keys(key_file).envelope
    with opened(url) as store:
        before = content_of(blob_at(store, old), old, envelope)
    with opened(other or url) as store:
        after = content_of(blob_at(store, other_id), other_id, envelope)
    try:
        found = list(_found(before, after, content_only=content_only))
        _put_document(found) if json else _put_lines(found)
    except RecursionError:
        raise OptionError("a key or a value that differs is nested too deeply to be shown") from None
    if found:
        raise typer.Exit(1)


def _found(old: Content, new: Content, *, content_only: bool) -> Iterator[_Difference]:
    if not content_only:
        found = _differences("header", *(msgspec.to_builtins(side.header) for side in (old, new)))
        yield from (difference for difference in found if difference.path not in _OF_ANY_BLOB)
    yield from _differences("", old.checkpoint or old.unopened, new.checkpoint or new.unopened)


def _differences(path: str, old: Any, new: Any) -> Iterator[_Difference]:
    """Yield the outermost places where two values differ. Any depth will do."""
    waiting = [_Difference(path, old, new)]
    while waiting:
        place = waiting.pop()
        if place.old is _ABSENT or place.new is _ABSENT:
            yield place
            continue
        one, two = take(place.old), take(place.new)
        if one.text != two.text or (one.inside is None) is not (two.inside is None):
            yield place
            continue
        here, there = dict(one.inside or ()), dict(two.inside or ())
        steps = list(dict.fromkeys([*here, *there]))
        waiting += [
            _Difference(f"{place.path}{step}".removeprefix("."), here.get(step, _ABSENT), there.get(step, _ABSENT))
            for step in reversed(steps)
        ]


def _put_document(found: list[_Difference]) -> None:
    put_json(
        {
            "equal": not found,
            "differences": [
                {"path": path or "content"}
                | ({} if old is _ABSENT else {"old": as_json(old)})
                | ({} if new is _ABSENT else {"new": as_json(new)})
                for path, old, new in found
            ],
        },
        indent=2,
    )


def _put_lines(found: list[_Difference]) -> None:
    console = Console(highlight=False) if for_people() else None
    for path, *sides in found:
        for sign, style, value in zip("-+", ("red", "green"), sides, strict=True):
            if value is _ABSENT:
                continue
            line = printable(f"{sign} {path or 'content'}: {shortened(compact(value))}")
            put(line) if console is None else console.print(Text(line, style=style))
