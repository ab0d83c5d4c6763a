"""Checking a store: which checks there are, in which order, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from importlib.util import find_spec

from blobcp.errors import MissingExtraError, OptionError, StoreError
from blobcp.store import CheckPointDeleter

from .bench import Bench, Check, Checks
from .check_blobs import BLOBS
from .check_deleting import DELETING
from .check_expiring import EXPIRING
from .check_ids import IDS
from .check_listing import LISTING
from .check_reopening import REOPENING, SHARING
from .check_swapping import SWAPPING
from .check_writers import WRITERS, all_of
from .failing import NotOffered, expect, shown
from .medium import Again, Medium
from .options import Options
from .report import Report
from .running import run_groups
from .waiting import HangsError, Worker

__all__ = ["check_store"]

MODEL = Checks("a plain dict")
TIDYING = Checks("tidying up")


@MODEL.check("random calls give what a plain dict gives")
def like_a_dict(bench: Bench) -> None:
    if not bench.options.examples:
        raise NotOffered("examples=0 leaves it out")
    from .model import compare_with_dict  # it imports hypothesis

    lasting = bench.options.persistent is not False and bench.medium.again() not in (Again.EMPTY, Again.SAME)
    compare_with_dict(bench, reopening=lasting)


@TIDYING.check("all that the checks stored can be deleted", CheckPointDeleter)
def tidy(bench: Bench) -> None:
    written = sorted(bench.medium.written)
    writers = bench.options.writers

    def remove_some(number: int) -> None:
        for checkpoint_id in written[number::writers]:
            bench.deleter.delete(checkpoint_id)

    all_of(bench, writers, remove_some)
    for checkpoint_id in written[:: len(written) // 100 + 1]:
        expect(f"get({shown(checkpoint_id)}) after all was deleted", bench.get(checkpoint_id), None)


@TIDYING.check("it can be closed")
def close(bench: Bench) -> None:
    if not callable(getattr(bench.store, "close", None)):
        raise NotOffered("the store has no close")
    if bench.medium.again() is Again.SAME:
        raise NotOffered("make_store() returns the same object each time, so it is left open")
    bench.medium.close()


GROUPS: dict[str, list[Check]] = {
    checks.capability: checks
    for checks in (BLOBS, IDS, WRITERS, DELETING, LISTING, SWAPPING, EXPIRING, REOPENING, SHARING, MODEL)
}
"""All checks, by capability; the first ones need the least, so that their failures explain those of the others."""


def check_store(
    make_store: Callable[[], object],
    *,
    writers: int = 16,
    rounds: int = 50,
    large: int = 64 * 1024 * 1024,
    many: int = 1100,
    id_bytes: int = 512,
    examples: int = 30,
    steps: int = 20,
    ttl: float = 1.2,
    grace: float = 10.0,
    timeout: float = 120.0,
    persistent: bool | None = None,
    shared: bool | None = None,
    only: str | Collection[str] = (),
) -> Report:
    """Check that a store keeps the promises of :mod:`blobcp.store`; return what it passed, failed and does not offer.

    Which of the optional powers the store has is found by looking at it. The checks use ids that begin, or end, with
    a random word, and delete them in the end where the store can. A store with async methods runs on an event loop in
    a thread. A store with ``close`` is closed, except where ``make_store`` returns one object each time.

    Args:
        make_store: opens the store; a function, async function or class without arguments. Each call is to open the store on
            the same medium, as another process would. Where it opens an empty one each time, or returns the same
            object, reopening is not offered.
        writers: how many threads write at once, in races and otherwise.
        rounds: how many races there are of each kind.
        large: the size of the large blob, in bytes.
        many: how many ids are listed at once; more than a page of the medium's.
        id_bytes: the longest id that the store takes, in UTF-8 bytes. 512 is what a store should take; one that puts something
            before each id may lack the room.
        examples: how many random runs are compared with those of a dict; 0 leaves it out and needs no hypothesis.
        steps: how many calls each of them makes.
        ttl: how long the expiring blobs that are waited for live, in seconds.
        grace: how many seconds after its time an expiring blob may still be there.
        timeout: how long one check may take, in seconds. After one that hangs the others are not run; they fail.
        persistent: ``True`` makes it a failure if what was stored is not there when the store is opened again, ``False``
            leaves reopening out; ``None`` finds out.
        shared: the same for two openings at once, which are to see each other's writes.
        only: the capability to check, or several, as the report names them; none for all.

    Raises:
        OptionError: an option is too small, or one of ``only`` is no capability.
        StoreError: ``make_store`` can't be called, raised an error, or returned what is no store.
        MissingExtraError: hypothesis is not installed.

    >>> from blobcp.stores import MapStore
    >>> report = check_store(MapStore, large=1_000_000, rounds=5, examples=10, ttl=0.2)
    >>> report.failed
    0
    """
    options = Options(
        writers=writers,
        rounds=rounds,
        large=large,
        many=many,
        id_bytes=id_bytes,
        examples=examples,
        steps=steps,
        ttl=ttl,
        grace=grace,
        timeout=timeout,
        persistent=persistent,
        shared=shared,
    )
    groups = _chosen([only] if isinstance(only, str) else only)
    if examples and MODEL in groups and find_spec("hypothesis") is None:
        raise MissingExtraError(
            "check_store compares a store with a dict by hypothesis, which is not installed; "
            "pip install 'blobcp[testing]', or leave it out with examples=0"
        )
    if not callable(make_store):
        raise StoreError(f"check_store opens the store itself; give it a function that does, not {make_store!r}")
    worker = Worker()
    try:
        medium = worker.call(partial(Medium, make_store, options.patience), options.timeout)
        report = Report(medium.name, run_groups([*groups, TIDYING], medium, options, worker))
        medium.stop()
        return report
    except HangsError as error:
        raise StoreError(f"make_store() did not come back in {options.timeout:g} s") from error
    finally:
        worker.stop()


def _chosen(only: Collection[str]) -> list[list[Check]]:
    unknown = [name for name in only if name not in GROUPS]
    if unknown:
        raise OptionError(f"there is no capability {unknown[0]!r} to check; there are: {', '.join(GROUPS)}")
    return [checks for name, checks in GROUPS.items() if name in only or not only]
