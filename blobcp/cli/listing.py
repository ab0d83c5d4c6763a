"""``blobcp ls``: what is in a store, by the headers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .keys import read_keys
from .opening import lister, opened
from .options import AsJson, Graphs, KeyFile, Newer, Older, Prefix, Statuses, Url, Workers
from .output import flush, for_people, put, put_json, say
from .reading import Seen, each, look, word_for
from .selection import Selection
from .texts import ago, shown_id, shown_size, shown_time

__all__ = ["ls"]

_PAGE = 500
"""Rows of a table on a terminal; what comes next is a table of its own, so that the first rows need not wait."""

_WIDE = 110
_STYLES = {"interrupted": "yellow", "failed": "red", "done": "green", "running": "cyan"}


def ls(
    url: Url,
    prefix: Prefix = "",
    status: Statuses = None,
    graph: Graphs = None,
    older: Older = None,
    newer: Newer = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="At most so many.")] = None,
    json: AsJson = False,
    workers: Workers = 8,
    key_file: KeyFile = None,
) -> None:
    """List what is in a store.

    Only headers are read: no content is decoded, and no key is needed. A table on a terminal; else a line for each
    blob, its columns apart by tabs: id, graph, status, step, state version, pending interrupts, time, size in bytes.
    With --json an object on each line. A blob that can't be read has a row that says so.
    """
    selection = Selection(status=status or (), graph=graph or (), older=older, newer=newer)
    envelope = read_keys(key_file).envelope
    unreadable: Counter[str] = Counter()
    with opened(url) as store:
        ids = lister(store).list(prefix)
        with closing(each(lambda id: look(store, id, envelope), ids, workers)) as looks:
            rows = islice(_chosen(looks, selection, unreadable), limit)
            _put_table(rows) if for_people() and not json else _put_lines(rows, json)
    flush()
    for word, count in unreadable.items():
        say(f"{count} {word}; blobcp verify says more")


def _chosen(looks: Iterable[Seen | None], selection: Selection, unreadable: Counter[str]) -> Iterator[Seen]:
    now = datetime.now(UTC)
    for seen in looks:
        if seen is None:  # gone since it was listed
            continue
        if seen.problem is not None:
            unreadable[word_for(seen.problem)] += 1
        if selection.takes(seen.header, now):
            yield seen


def _put_lines(rows: Iterable[Seen], as_json: bool) -> None:
    for seen in rows:
        if as_json:
            put_json(_as_dict(seen))
        else:
            put("\t".join(_columns(seen)))


def _as_dict(seen: Seen) -> dict[str, Any]:
    found: dict[str, Any] = {"id": seen.id, "size": seen.size}
    if seen.header is not None:
        header: dict[str, Any] = msgspec.to_builtins(seen.header)
        del header["checkpoint_id"]
        return found | header
    return found | {"problem": str(seen.problem), "error": type(seen.problem).__name__}


def _columns(seen: Seen) -> tuple[str, ...]:
    header = seen.header
    if header is None:
        word = word_for(seen.problem) if seen.problem else ""
        return shown_id(seen.id), "-", word, "-", "-", "-", "-", str(seen.size)
    return (
        shown_id(seen.id),
        shown_id(header.graph),
        header.status,
        str(header.step),
        str(header.state_version),
        str(len(header.pending)),
        shown_time(header.created_at),
        str(seen.size),
    )


def _put_table(rows: Iterator[Seen]) -> None:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    now = datetime.now(UTC)
    for first in rows:
        table = _table(console.width >= _WIDE)
        for seen in chain([first], islice(rows, _PAGE - 1)):
            table.add_row(*_cells(seen, now, console.width >= _WIDE))
        console.print(table)


def _table(wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("ID", overflow="fold", min_width=12)
    table.add_column("GRAPH", overflow="ellipsis", no_wrap=True)
    table.add_column("STATUS", no_wrap=True, min_width=11)
    for name in ("STEP", "VERSION", "PENDING"):
        table.add_column(name, no_wrap=True, justify="right", min_width=len(name))
    if wide:
        table.add_column("CREATED (UTC)", no_wrap=True)
    table.add_column("AGE", no_wrap=True, justify="right", min_width=4)
    table.add_column("SIZE", no_wrap=True, justify="right", min_width=8)
    return table


def _cells(seen: Seen, now: datetime, wide: bool) -> list[Text]:
    id, graph, status, *numbers, created, _ = _columns(seen)
    moment = seen.header.created_at if seen.header else None
    texts = [Text(id), Text(graph), Text(status, style=_STYLES.get(status, "bold red")), *map(Text, numbers)]
    if wide:
        texts.append(Text(created.rstrip("Z").replace("T", " ")))
    return [*texts, Text(ago(moment, now) if moment else "-"), Text(shown_size(seen.size))]
