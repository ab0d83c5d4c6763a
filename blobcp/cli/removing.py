"""``blobcp rm``: forgetting runs, by id or by what their headers say."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated

import typer

from blobcp.codec import Envelope
from blobcp.errors import OptionError
from blobcp.store import CheckPointStore

from .keys import read_keys
from .opening import deleter, lister, opened
from .options import AsJson, DryRun, Graphs, KeyFile, Newer, Older, OnlyPrefix, Statuses, Url, Workers
from .output import put, put_json, say
from .reading import blob_at, each, look
from .selection import Selection
from .texts import shown_id

__all__ = ["rm"]

_FEW = 5


def rm(
    url: Url,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="What is removed.", show_default=False)
    ] = None,
    prefix: OnlyPrefix = "",
    status: Statuses = None,
    graph: Graphs = None,
    older: Older = None,
    newer: Newer = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: AsJson = False,
    workers: Workers = 8,
    key_file: KeyFile = None,
) -> None:
    """Remove blobs from a store.

    Those of the ids given, or those that all the options select. It asks before, and prints the ids. A run that moves
    on after it was selected by its header is looked at again, and stays where it is not among them any more.
    """
    selection = Selection(status=status or (), graph=graph or (), older=older, newer=newer)
    if bool(ids) == bool(prefix or selection):
        raise OptionError(
            "say what is to be removed: either ids, or a selection by --prefix, --status, --graph, --older, --newer"
        )
    envelope = read_keys(key_file).envelope
    with opened(url) as store:
        delete = deleter(store).delete
        chosen = _given(store, ids) if ids else list(_selected(store, prefix, selection, envelope, workers))
        if not chosen:
            say("nothing is selected")
            return
        if dry_run:
            say(f"{len(chosen)} would be removed")
        elif not yes:
            _ask(chosen)
        for id in chosen:
            if not dry_run:
                if not _is_still(store, id, selection, envelope):
                    say(f"{shown_id(id)} has moved on since it was selected, and stays")
                    continue
                delete(id)
            put_json({"id": id, "removed": not dry_run}) if json else put(shown_id(id))


def _given(store: CheckPointStore, ids: Sequence[str]) -> list[str]:
    """Return the ids, each of which must be there, so that a mistyped one stops all before anything is removed."""
    for id in ids:
        blob_at(store, id)
    return list(dict.fromkeys(ids))


def _selected(
    store: CheckPointStore, prefix: str, selection: Selection, envelope: Envelope, workers: int
) -> Iterator[str]:
    ids = lister(store).list(prefix)
    if not selection:
        yield from ids
        return
    with closing(each(lambda id: look(store, id, envelope), ids, workers)) as looks:
        yield from (seen.id for seen in looks if seen is not None and selection.takes(seen.header))


def _is_still(store: CheckPointStore, id: str, selection: Selection, envelope: Envelope) -> bool:
    if not selection:
        return True
    seen = look(store, id, envelope)
    return seen is not None and selection.takes(seen.header)


def _ask(ids: Sequence[str]) -> None:
    """Ask on a terminal.

    Raises:
        OptionError: there is nobody to ask, or the answer is no.
    """
    named = ", ".join(map(shown_id, ids[:_FEW])) + (f" and {len(ids) - _FEW} more" if len(ids) > _FEW else "")
    if not sys.stdin.isatty():
        raise OptionError(f"{len(ids)} would be removed ({named}), and there is nobody to ask; say --yes")
    say(f"remove {len(ids)} ({named})? [y/N]")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise OptionError("nothing was removed")
