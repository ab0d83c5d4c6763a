"""``blobcp fork``: a second run from where a first one stands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import msgspec
import typer

from blobcp.codec import Header, Parent, digest_of
from blobcp.errors import CheckpointConflictError, CheckpointDoneError, OptionError
from blobcp.store import CheckPointStore, CheckPointSwapper, check_id

from .keys import Keys, read_keys
from .opening import opened
from .options import KeyFile, Url
from .output import say
from .reading import blob_at
from .texts import shown_id

__all__ = ["fork"]


def fork(
    url: Url,
    source: Annotated[str, typer.Argument(metavar="SRC", help="The id to fork from.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="DST", help="The id of the fork.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace what is stored under DST.")] = False,
    key_file: KeyFile = None,
) -> None:
    """Copy a run under a new id.

    The fork names what it was copied from as its parent and is a run of its own, as if a program had forked it. It is
    sealed as the original is, with the same keys. The original is not changed.
    """
    keys = read_keys(key_file)
    if check_id(target) == source:
        raise OptionError(f"the fork of {shown_id(source)} needs another id")
    with opened(url) as store:
        _put(store, target, _forked(blob_at(store, source), source, target, keys), force=force)
    say(f"forked {shown_id(source)} to {shown_id(target)}")


def _forked(blob: bytes, source: str, target: str, keys: Keys) -> bytes:
    header, _ = keys.envelope.open(blob, checkpoint_id=source)
    if header.status == "done":
        raise CheckpointDoneError(
            f"the run {shown_id(source)} is finished, so there is nothing to go on from; fork a run that waits, or start a new one",
            checkpoint_id=source,
        )
    return keys.envelope_of(blob).reseal(blob, checkpoint_id=source, header=_header_of(header, blob, target))


def _header_of(header: Header, blob: bytes, target: str) -> Header:
    return msgspec.structs.replace(
        header,
        checkpoint_id=target,
        parent=Parent(id=header.checkpoint_id, digest=digest_of(blob)),
        run_id=uuid4().hex,
        created_at=datetime.now(UTC),
    )


def _put(store: CheckPointStore, target: str, blob: bytes, *, force: bool) -> None:
    """Store the fork; where nothing may be replaced, the store itself sees to it if it can compare and set."""
    if force:
        store.set(target, blob)
        return
    taken = OptionError(
        f"something is stored under {shown_id(target)} already; choose another id, or replace it with --force"
    )
    if isinstance(store, CheckPointSwapper):
        try:
            store.set_if(target, blob, None)
        except CheckpointConflictError as conflict:
            raise taken from conflict
    elif store.get(target) is not None:
        raise taken
    else:
        store.set(target, blob)
