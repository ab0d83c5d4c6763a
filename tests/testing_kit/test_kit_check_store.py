from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from awaited_store import AwaitedGoodStore
from broken_blobs import FoldsCase, ForgetsEmpty
from broken_swaps import ChecksThenWrites
from good_store import Disk, GoodStore

from blobcp.errors import CheckpointConflictError, MissingExtraError, OptionError, StoreError
from blobcp.store import check_id
from blobcp.stores import MapStore, PrefixedStore
from blobcp.testing import Outcome, Report, check_store

QUICK: dict[str, Any] = {"large": 1000, "rounds": 3, "many": 20, "examples": 3, "ttl": 0.2}

OPTIONAL = {"delete", "list", "compare and set", "expiry"}


class PlainStore:
    """Get and set, and nothing else."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def get(self, checkpoint_id: str) -> bytes | None:
        return self.blobs.get(check_id(checkpoint_id))

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        if not isinstance(checkpoint, bytes):
            raise StoreError("not bytes")
        self.blobs[check_id(checkpoint_id)] = checkpoint


class HalfSwapper(PlainStore):
    """One method of a pair."""

    def get_versioned(self, checkpoint_id: str) -> tuple[bytes, str] | None:
        return None


def outcomes(report: Report, capability: str) -> set[Outcome]:
    """Return what became of the checks of a capability."""
    return {result.outcome for result in report.results if result.capability == capability}


def reasons(report: Report, capability: str) -> set[str]:
    """Return what is said about the checks of a capability."""
    return {result.sentence for result in report.results if result.capability == capability}


def test_capabilities_are_found() -> None:
    """A store with two methods is checked for these; the rest is not offered, each time with the reason."""
    store = PlainStore()

    report = check_store(lambda: store, **QUICK)

    assert report.failed == 0
    assert outcomes(report, "get and set") == outcomes(report, "a plain dict") == {Outcome.PASSED}
    assert {*map(frozenset, (outcomes(report, name) for name in OPTIONAL))} == {frozenset({Outcome.NOT_OFFERED})}
    assert reasons(report, "delete") == {"the store has no delete"}
    assert reasons(report, "compare and set") == {"the store has no get_versioned and set_if"}
    assert report.passed + report.not_offered == len(report.results)


def test_half_a_power_is_named() -> None:
    """One method of a pair is not the power, and the report says which is lacking."""
    report = check_store(HalfSwapper, **QUICK)

    assert reasons(report, "compare and set") == {"the store has no set_if, though it has get_versioned"}


def test_an_awaited_store_is_checked() -> None:
    """A store with async methods is checked in all its capabilities, on one loop, and closed."""
    disk = Disk()
    opened: list[AwaitedGoodStore] = []

    async def make_store() -> AwaitedGoodStore:
        opened.append(AwaitedGoodStore(disk))
        return opened[-1]

    report = check_store(make_store, **QUICK)

    assert report.store == "AwaitedGoodStore"
    assert (report.failures, report.not_offered) == ((), 0)
    assert {store.closed for store in opened} == {1}


def test_an_awaited_store_that_is_broken_is_caught() -> None:
    """Two steps with an await between them are no compare-and-set."""

    class Broken(AwaitedGoodStore):
        async def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
            found = self.store.get_versioned(checkpoint_id)
            if (found[1] if found else None) != version:
                raise CheckpointConflictError("moved", checkpoint_id=checkpoint_id)
            await self.breathe()
            self.store.set(checkpoint_id, checkpoint)
            return self.store.disk.entries[checkpoint_id][1]

    disk = Disk()

    report = check_store(lambda: Broken(disk), only=["compare and set"], **QUICK)

    assert "of several who create one id at once exactly one wins, in each round" in {f.name for f in report.failures}


def test_a_version_may_be_made_of_the_bytes() -> None:
    """A store whose versions are digests, as an ETag is, passes, also where a writer wins one race after the other."""

    class Digests(GoodStore):
        def version(self, key: str, blob: bytes) -> str:
            return sha256(blob).hexdigest()

    disk = Disk()

    report = check_store(lambda: Digests(disk), only=["compare and set", "two at once"], **{**QUICK, "rounds": 50})

    assert report.failures == ()


def test_less_room_for_ids() -> None:
    """A store that puts something before each id lacks the room for the longest ones; ``id_bytes`` says how much it has."""
    store = PrefixedStore(MapStore(), "tenant/")

    full = check_store(lambda: store, only="ids", **QUICK)
    less = check_store(lambda: store, id_bytes=505, **QUICK)

    assert {failure.name for failure in full.failures} >= {"long ids are kept apart"}
    assert less.failures == ()


def test_other_blobs_are_left_alone() -> None:
    """Blobs of others on the same medium disturb nothing and are there afterwards; all others are removed."""
    disk = Disk()
    others = {"a": b"1", "zz/😀": b"2", "\x01": b"3"}
    for checkpoint_id, blob in others.items():
        GoodStore(disk).set(checkpoint_id, blob)

    report = check_store(lambda: GoodStore(disk), **QUICK)

    assert report.failed == 0
    assert {key: entry[0] for key, entry in disk.entries.items()} == others


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ForgetsEmpty, "gave None instead of b''"),
        (FoldsCase, "('A') gave "),
    ],
)
def test_random_calls_find_a_short_way(kind: type[GoodStore], said: str) -> None:
    """A store that differs from a dict is found by random calls alone; the sentence has few steps."""
    failure, *_ = check_store(lambda: kind(Disk()), only=["a plain dict"]).failures

    assert said in failure.sentence
    assert failure.sentence.count(";") <= 1


def test_random_calls_bear_what_fails_now_and_then() -> None:
    """A store whose answers are left to chance gets a sentence, not an error of the library that draws the calls."""

    class Moody(GoodStore):
        calls = 0

        def get(self, checkpoint_id: str) -> bytes | None:
            Moody.calls += 1
            return b"moody" if Moody.calls % 7 == 0 else super().get(checkpoint_id)

    failure, *_ = check_store(lambda: Moody(Disk()), only=["a plain dict"]).failures

    assert "gave b'moody' instead of" in failure.sentence


def test_a_call_that_hangs_ends_the_run() -> None:
    """A check that does not come to an end fails in time, and those after it are not run."""
    never = threading.Event()

    class Hanging(GoodStore):
        def delete(self, checkpoint_id: str) -> None:
            never.wait(60)

    disk = Disk()

    report = check_store(lambda: Hanging(disk), only=["delete", "list"], timeout=1)
    never.set()

    first, *rest = report.failures
    assert first.sentence == "did not come to an end in 1 s"
    assert {failure.sentence for failure in rest} == {"was not run, since one before hangs"}
    assert report.passed == 0


@pytest.mark.parametrize("raised", [SystemExit(0), GeneratorExit(), asyncio.CancelledError()], ids=type)
def test_what_would_end_a_program_is_a_failure(raised: BaseException) -> None:
    """A store that exits, as a client library for commands may, fails its check and does not end the run as if all was well."""

    class Exiting(GoodStore):
        def delete(self, checkpoint_id: str) -> None:
            raise raised

    report = check_store(lambda: Exiting(Disk()), only=["ids", "delete"], **QUICK)

    assert f"the store raised {type(raised).__name__}: {raised}".rstrip() in reasons(report, "delete")
    assert (report.passed, outcomes(report, "delete")) == (16, {Outcome.FAILED})


def test_what_would_end_an_event_loop_is_a_failure() -> None:
    """The same of an awaited store; later calls find the loop running."""

    class Exiting(AwaitedGoodStore):
        async def delete(self, checkpoint_id: str) -> None:
            raise SystemExit(3)

    report = check_store(lambda: Exiting(Disk()), only=["delete", "list"], timeout=2, **QUICK)

    assert reasons(report, "delete") == {"the store raised SystemExit: 3"}
    assert report.passed > 5


def test_an_awaited_call_that_hangs_fails() -> None:
    """An awaited call that does not come back is a failure of its check; the others are run."""

    class Hanging(AwaitedGoodStore):
        calls = 0

        async def delete(self, checkpoint_id: str) -> None:
            Hanging.calls += 1
            await asyncio.sleep(60 if Hanging.calls == 1 else 0)
            await super().delete(checkpoint_id)

    disk = Disk()

    [failure] = check_store(lambda: Hanging(disk), only=["delete"], timeout=1).failures

    assert failure.name == "what is deleted is None"
    assert failure.sentence == "a call of the store that was awaited did not come back in 0.8 s"


@pytest.mark.parametrize(
    ("make_store", "said"),
    [
        (MapStore(), "give it a function that does, not <blobcp.stores.map.MapStore"),
        (lambda: None, "make_store() returned None, which is no store: it lacks get and set"),
        (lambda: MapStore, "which is no store: it lacks an instance"),
        (dict, "returned {}, which is no store: it lacks set"),
        (lambda: 1 / 0, "make_store() could not open the store: ZeroDivisionError: division by zero"),
        (lambda: sys.exit("no"), "make_store() could not open the store: SystemExit: no"),
    ],
    ids=["a store", "None", "a class", "a dict", "an error", "an exit"],
)
def test_what_is_no_store_is_refused(make_store: Callable[[], object], said: str) -> None:
    """What can't be checked at all is an error of its own, not a report of failures."""
    with pytest.raises(StoreError) as caught:
        check_store(make_store)

    assert said in str(caught.value)


def test_a_store_that_never_opens() -> None:
    """Opening has a limit, too."""
    never = threading.Event()

    with pytest.raises(StoreError, match=r"make_store\(\) did not come back in 1 s"):
        check_store(lambda: never.wait(60), timeout=1)
    never.set()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds=0 is too little to check a store with; give at least 1"),
        ({"writers": 1}, "writers=1 is too little"),
        ({"ttl": 0.0}, "ttl=0.0 is too little"),
        ({"only": ["listing"]}, "there is no capability 'listing' to check; there are: get and set, ids,"),
    ],
)
def test_options_are_checked(options: dict[str, Any], said: str) -> None:
    """An option that can't be meant is refused before the store is opened."""
    with pytest.raises(OptionError) as caught:
        check_store(lambda: pytest.fail("opened"), **options)

    assert said in str(caught.value)


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hypothesis is not installed the error says how to install it, and how to do without."""
    monkeypatch.setattr("blobcp.testing.kit.find_spec", lambda name: None)

    with pytest.raises(MissingExtraError, match=r"pip install 'blobcp\[testing\]', or leave it out with examples=0"):
        check_store(MapStore)
    report = check_store(MapStore, **{**QUICK, "examples": 0})

    assert report.failed == 0
    assert reasons(report, "a plain dict") == {"examples=0 leaves it out"}


def test_few_rounds_catch_a_race() -> None:
    """Three rounds are enough for a store in memory that compares and sets in two steps without a lock."""
    disk = Disk()

    report = check_store(lambda: ChecksThenWrites(disk), only=["compare and set"], large=1000, rounds=3)

    assert "of several who replace what they saw at once exactly one wins, in each round" in {
        failure.name for failure in report.failures
    }
