"""``blobcp show``: one blob, its header and what it holds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from blobcp.codec import Envelope, Header, digest_of
from blobcp.errors import OptionError

from .as_json import as_json
from .content import Content, content_of
from .keys import read_keys
from .opening import opened
from .options import AsJson, Id, KeyFile, Url
from .output import for_people, put, put_json, say
from .reading import blob_at
from .texts import printable, shown_id, shown_size, shown_time
from .tree import Line, lines_of

__all__ = ["show"]


def show(
    url: Url,
    id: Id,
    header_only: Annotated[bool, typer.Option("--header", help="Only the header, which needs no key.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show long texts and lists to their end.")] = False,
    json: AsJson = False,
    key_file: KeyFile = None,
) -> None:
    """Show one blob.

    That is its header, what waits for an answer, and what it holds, without the classes of its program. Nothing is ever
    unpickled. With --json one document, with nothing left out.
    """
    envelope = read_keys(key_file).envelope
    with opened(url) as store:
        blob = blob_at(store, id)
    content = _header_only(blob, id, envelope) if header_only else content_of(blob, id, envelope)
    try:
        if json:
            put_json(_as_dict(content, blob, header_only=header_only), indent=2)
        else:
            _put_lines(_lines(content, blob, full=full, header_only=header_only))
    except RecursionError:
        raise OptionError(f"the content of {shown_id(id)} is nested too deeply for --json; show it without") from None


def _header_only(blob: bytes, id: str, envelope: Envelope) -> Content:
    header = envelope.read_header(blob, checkpoint_id=id)
    if header.checkpoint_id != id:
        say(f"it was sealed for {shown_id(header.checkpoint_id)} and copied by hand, so no program will load it")
    return Content(header)


def _as_dict(content: Content, blob: bytes, *, header_only: bool) -> dict[str, Any]:
    header = {**msgspec.to_builtins(content.header), "digest": digest_of(blob), "size": len(blob)}
    if header_only:
        return header
    return {
        "header": header,
        "pending": [
            {"id": point.id, "address": point.address, "info": as_json(point.info)} for point in content.pending()
        ],
        "content": as_json(content.checkpoint),
        "unopened": content.unopened or None,
    }


def _lines(content: Content, blob: bytes, *, full: bool, header_only: bool) -> Iterator[Line]:
    yield from _header_lines(content.header, blob)
    if header_only:
        yield from (_point_line("pending", f"{point.id} at {point.address}") for point in content.header.pending)
        return
    points = list(content.pending())
    if points:
        yield Line(0, "pending", str(len(points)))
    for point in points:
        yield _point_line(point.id, f"at {point.address}")
        yield from lines_of("info", point.info, full=full, depth=2)
    if content.unopened:
        yield Line(0, "content", content.unopened)
    else:
        yield from lines_of("content", content.checkpoint, full=full)


def _header_lines(header: Header, blob: bytes) -> Iterator[Line]:
    parent = f"{shown_id(header.parent.id)} with digest {header.parent.digest}" if header.parent else ""
    rows = {
        "status": header.status,
        "graph": shown_id(header.graph),
        "step": str(header.step),
        "state version": str(header.state_version),
        "written": shown_time(header.created_at),
        "run": header.run_id,
        "parent": parent,
        "serializer": header.serializer,
        "size": shown_size(len(blob)),
        "digest": digest_of(blob),
    }
    yield Line(0, "header", shown_id(header.checkpoint_id))
    yield from (Line(1, name, printable(text)) for name, text in rows.items() if text)


def _point_line(name: str, text: str) -> Line:
    return Line(1, printable(name), printable(text))


def _put_lines(lines: Iterable[Line]) -> None:
    if not for_people():
        for line in lines:
            put(f"{'  ' * line.depth}{line.name}{': ' if line.name else ''}{line.text}")
        return
    console = Console(file=sys.stdout, highlight=False)
    open_trees: list[Tree] = []
    for line in lines:
        if line.depth == 0 and open_trees:
            console.print(open_trees[0])
            open_trees.clear()
        tree = Tree(_styled(line), guide_style="dim")
        del open_trees[line.depth :]
        if open_trees:
            open_trees[-1].children.append(tree)
        open_trees.append(tree)
    console.print(*open_trees[:1])


def _styled(line: Line) -> Text:
    return Text.assemble((line.name, "bold" if line.depth == 0 else "cyan"), " " if line.name else "", line.text)
