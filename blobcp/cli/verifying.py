"""``blobcp verify``: whether the blobs of a store are whole; ``blobcp check``: whether a store keeps its promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer

from blobcp.by_name import found
from blobcp.codec import Envelope
from blobcp.errors import BlobcpError, CheckpointCorruptError, CheckpointKeyError, OptionError
from blobcp.store import CheckPointStore
from blobcp.testing import check_store

from .content import content_of
from .keys import Keys, read_keys
from .opening import lister, opened
from .options import AsJson, KeyFile, Prefix, Url, Workers
from .output import flush, put, put_json, say
from .reading import each
from .texts import printable, shown_id

__all__ = ["check", "verify"]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What came of one blob: nothing wrong, something that was not opened, or a problem."""

    id: str
    unopened: str = ""
    problem: BlobcpError | None = None


def verify(
    url: Url,
    prefix: Prefix = "",
    json: AsJson = False,
    workers: Workers = 8,
    key_file: KeyFile = None,
) -> None:
    """Verify every blob of a store.

    The digest, the header, the id, and that the content can be decoded. Those that fail are printed. Content that is
    pickled, or sealed with keys that were not given, is counted as not opened. With --json an object on each line. The
    exit status is 1 if a blob failed.
    """
    keys = read_keys(key_file)
    counts = Counter[str]()
    with opened(url) as store:
        ids = lister(store).list(prefix)
        with closing(each(lambda id: _verdict(store, id, keys), ids, workers)) as verdicts:
            for verdict in verdicts:
                if verdict is not None:
                    _note(verdict, counts, as_json=json)
    unopened = f", {counts['unopened']} of them without opening the content" if counts["unopened"] else ""
    flush()
    say(f"{counts['whole']} verified{unopened}, {counts['failed']} failed")
    if counts["failed"]:
        raise typer.Exit(1)


def _verdict(store: CheckPointStore, id: str, keys: Keys) -> _Verdict | None:
    try:
        blob = store.get(id)
        return None if blob is None else _Verdict(id, _opened(blob, id, keys))
    except BlobcpError as problem:
        return _Verdict(id, problem=problem)
    except RecursionError:
        return _Verdict(id, "its content is nested too deeply to be looked at here")


def _opened(blob: bytes, id: str, keys: Keys) -> str:
    """Return what could not be looked at."""
    try:
        content = content_of(blob, id, keys.envelope)
    except CheckpointKeyError as lack:
        if keys:
            raise
        _check_id(blob, id, keys.envelope)
        return f"it is sealed with key {lack.key_id}"
    return "" if content.header.status == "done" else content.unopened


def _check_id(blob: bytes, id: str, envelope: Envelope) -> None:
    header = envelope.read_header(blob, checkpoint_id=id)
    if header.checkpoint_id != id:
        raise CheckpointCorruptError(
            f"the checkpoint {id!r} is corrupt: its blob was copied by hand from {header.checkpoint_id!r}; copy or fork it "
            "with blobcp, which seals it anew",
            checkpoint_id=id,
        )


def _note(verdict: _Verdict, counts: Counter[str], *, as_json: bool) -> None:
    problem = verdict.problem
    if problem is None:
        counts["whole"] += 1
        counts["unopened"] += bool(verdict.unopened)
        return
    counts["failed"] += 1
    if as_json:
        put_json({"id": verdict.id, "error": type(problem).__name__, "problem": str(problem)})
    else:
        put(f"{shown_id(verdict.id)}\t{printable(' '.join(str(problem).split()))}")


def check(
    make_store: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A function or class without arguments that opens the store.")
    ],
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CAPABILITY", help="Check this only; repeatable.")
    ] = None,
    writers: Annotated[int, typer.Option(metavar="N", help="Threads that write at once.")] = 16,
    rounds: Annotated[int, typer.Option(metavar="N", help="Races of each kind.")] = 50,
    large: Annotated[int, typer.Option(metavar="BYTES", help="Size of the large blob.")] = 64 << 20,
    many: Annotated[int, typer.Option(metavar="N", help="Ids that are listed at once.")] = 1100,
    run_examples: Annotated[
        int, typer.Option("--examples", metavar="N", help="Random runs that are compared with a dict's.")
    ] = 30,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long one check may take.")] = 120.0,
    json: AsJson = False,
) -> None:
    """Check a store of your own.

    This is the conformance kit, which all stores of blobcp pass. python -m blobcp.testing is the same with more
    options. The exit status is 1 if a check failed.
    """
    opens = found(make_store)
    if not callable(opens):
        raise OptionError(f"{make_store} is {opens!r}; name a function or class that opens the store")
    make: Callable[[], object] = opens
    report = check_store(
        make,
        only=only or (),
        writers=writers,
        rounds=rounds,
        large=large,
        many=many,
        examples=run_examples,
        timeout=timeout,
    )
    put_json(report.as_dict(), indent=2) if json else put(str(report))
    if report.failed:
        raise typer.Exit(1)
