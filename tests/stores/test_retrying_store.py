from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Collection, Container, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from blobcp.errors import (
    CheckpointConflictError,
    InvalidCheckpointIdError,
    MissingExtraError,
    StoreError,
    StoreUrlError,
)
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import FileStore, MapStore
from blobcp.stores.wrappers.retrying import RetryingStore
from blobcp.testing import FailingStore

SECOND = timedelta(seconds=1)
EVERY = ("get", "set", "delete", "get_versioned", "set_if", "set_expiring")
CALLS: dict[str, Callable[[RetryingStore], object]] = {
    "get": lambda store: store.get("a"),
    "set": lambda store: store.set("a", b"2"),
    "delete": lambda store: store.delete("a"),
    "list": lambda store: [*store.list()],
    "get_versioned": lambda store: store.get_versioned("a"),
    "set_if": lambda store: store.set_if("b", b"2", None),
    "set_expiring": lambda store: store.set_expiring("a", b"2", SECOND),
}


class Pauses:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def clock(self) -> float:
        return sum(self.slept)


@pytest.fixture
def pauses() -> Pauses:
    """What a store waits."""
    return Pauses()


@pytest.fixture
def inner() -> MapStore:
    """A store with one blob."""
    store = MapStore()
    store.set("a", b"1")
    return store


def retrying(store: FailingStore | BreakingStore, pauses: Pauses, **options: object) -> RetryingStore:
    """Return a store that tries again, without any real waiting."""
    return RetryingStore(store, sleep=pauses.sleep, clock=pauses.clock, **options)  # type: ignore[arg-type]


class BreakingStore(MapStore):
    """A store whose listings break off before the ids with these numbers, each once."""

    def __init__(self, breaks: Collection[int], error: type[Exception] = StoreError) -> None:
        super().__init__()
        self.breaks = [*breaks]
        self.error = error
        self.listings = 0

    def list(self, prefix: str = "") -> Iterator[str]:
        self.listings += 1
        for number, found in enumerate(super().list(prefix)):
            if number in self.breaks:
                self.breaks.remove(number)
                raise self.error("the line went dead")
            yield found


@pytest.mark.parametrize("method", CALLS)
def test_a_call_succeeds_after_failures(method: str, inner: MapStore, pauses: Pauses) -> None:
    """Each call that fails three times and then works gives what the store inside gives."""
    expected = MapStore()
    expected.set("a", b"1")
    store = retrying(FailingStore(inner, on=range(1, 4), methods=[method]), pauses)

    found, wanted = CALLS[method](store), CALLS[method](RetryingStore(expected))

    assert found == wanted
    assert len(pauses.slept) == 3
    assert [(each, inner.get(each)) for each in inner.list()] == [
        (each, expected.get(each)) for each in expected.list()
    ]


@pytest.mark.parametrize("method", CALLS)
def test_gives_up_after_the_last_attempt(method: str, inner: MapStore, pauses: Pauses) -> None:
    """The last error is raised as it is, with the number of attempts as a note."""
    failing = FailingStore(inner, on=None, methods=[method])
    store = retrying(failing, pauses, delay=SECOND, max_delay=SECOND)

    with pytest.raises(StoreError, match="failed on purpose, as call 4") as caught:
        CALLS[method](store)

    assert caught.value.__notes__ == [f"RetryingStore gave up after 4 attempts in {sum(pauses.slept):.1f} seconds"]
    assert inner.get("a") == b"1"


def test_pauses_grow_up_to_a_limit(inner: MapStore, pauses: Pauses) -> None:
    """Each pause is twice the one before, up to the longest, and chance takes away up to half of it."""
    store = retrying(
        FailingStore(inner, on=None, methods=["get"]),
        pauses,
        attempts=8,
        delay=SECOND,
        max_delay=10 * SECOND,
        limit=99 * SECOND,
    )

    for _ in range(20):
        pauses.slept.clear()
        with pytest.raises(StoreError):
            store.get("a")

        assert len(pauses.slept) == 7
        for pause, longest in zip(pauses.slept, [1, 2, 4, 8, 10, 10, 10], strict=True):
            assert longest / 2 <= pause <= longest
    assert len({*pauses.slept}) == 7  # they differ, so that many who failed together do not come back together


def test_no_attempt_begins_after_the_limit(inner: MapStore, pauses: Pauses) -> None:
    """The time that all attempts may take is kept, however many are left."""
    store = retrying(
        FailingStore(inner, on=None, methods=["get"]),
        pauses,
        attempts=1000,
        delay=SECOND,
        max_delay=SECOND,
        limit=10 * SECOND,
    )

    with pytest.raises(StoreError) as caught:
        store.get("a")

    assert 9 < sum(pauses.slept) <= 10
    assert caught.value.__notes__ == [
        f"RetryingStore gave up after {len(pauses.slept) + 1} attempts in {sum(pauses.slept):.1f} seconds"
    ]


def test_one_attempt_is_none_too_few(inner: MapStore, pauses: Pauses) -> None:
    """A store with one attempt never waits."""
    store = retrying(FailingStore(inner, on=1, methods=["get"]), pauses, attempts=1)

    with pytest.raises(StoreError) as caught:
        store.get("a")

    assert caught.value.__notes__ == ["RetryingStore gave up after 1 attempt in 0.0 seconds"]
    assert store.get("a") == b"1"
    assert pauses.slept == []


@pytest.mark.parametrize("error", [StoreError, OSError, ConnectionError, TimeoutError, PermissionError, StoreUrlError])
def test_tries_again_after_errors_that_can_go_away(error: type[Exception], inner: MapStore, pauses: Pauses) -> None:
    """By default what a store or the system says is tried again; what would be said again is not."""
    store = retrying(FailingStore(inner, on=1, methods=["get"], error=error), pauses)

    if error is StoreUrlError:
        with pytest.raises(StoreUrlError):
            store.get("a")
        assert pauses.slept == []
    else:
        assert store.get("a") == b"1"


@pytest.mark.parametrize(
    "error",
    [CheckpointConflictError, InvalidCheckpointIdError, MissingExtraError, StoreUrlError],
    ids=lambda each: each.__name__,
)
@pytest.mark.parametrize("method", CALLS)
def test_never_tries_again_what_lasts(method: str, error: type[Exception], inner: MapStore, pauses: Pauses) -> None:
    """Errors that another attempt can't change are raised at once, whatever the caller wants tried again."""
    store = retrying(FailingStore(inner, on=1, methods=[method], error=error), pauses, retry_on=(Exception,))

    with pytest.raises(error) as caught:
        CALLS[method](store)

    assert pauses.slept == []
    assert not hasattr(caught.value, "__notes__")


def test_tries_again_only_what_it_was_told_to(inner: MapStore, pauses: Pauses) -> None:
    """Errors of other classes are raised at once."""
    for error, tried_again in ((ValueError, True), (StoreError, False)):
        store = retrying(FailingStore(inner, on=1, methods=["get"], error=error), pauses, retry_on=(ValueError,))
        if tried_again:
            assert store.get("a") == b"1"
        else:
            with pytest.raises(error):
                store.get("a")
    assert len(pauses.slept) == 1


def test_wrong_arguments_never_reach_the_store_inside(inner: MapStore, pauses: Pauses) -> None:
    """A wrong id, a value that is not bytes and a wrong time to live are refused without an attempt."""
    failing = FailingStore(inner, on=None, error=lambda method: AssertionError(f"{method} was called"))
    store = retrying(failing, pauses)

    for call in (store.get, store.delete, store.get_versioned):
        with pytest.raises(InvalidCheckpointIdError):
            call("")
    with pytest.raises(InvalidCheckpointIdError):
        store.set("", b"")
    for wrong in (
        lambda: store.set("a", "text"),  # type: ignore[arg-type]
        lambda: store.set_if("a", None, None),  # type: ignore[arg-type]
        lambda: store.set_expiring("a", 7, SECOND),  # type: ignore[arg-type]
        lambda: store.set_expiring("a", b"", timedelta(0)),
    ):
        with pytest.raises(StoreError, match="'a'"):
            wrong()
    assert pauses.slept == []


@pytest.mark.parametrize("seen", [False, True], ids=["create", "replace"])
@pytest.mark.parametrize("lost", [1, range(1, 3)], ids=["once", "twice"])
def test_its_own_write_is_no_conflict(seen: bool, lost: int | Container[int], pauses: Pauses) -> None:
    """F27: a conditional write that was carried out while its answer was lost is a success, with the stored version."""
    inner = MapStore()
    version = inner.set_if("a", b"old", None) if seen else None
    store = retrying(FailingStoreOnceDone(inner, lost), pauses)

    returned = store.set_if("a", b"mine", version)

    assert inner.get_versioned("a") == (b"mine", returned)
    store.set_if("a", b"next", returned)
    assert inner.get("a") == b"next"


class FailingStoreOnceDone(FailingStore):
    """A store that carries out a conditional write and loses its answer, and the answers of the next attempts."""

    def __init__(self, store: MapStore, on: int | Container[int]) -> None:
        super().__init__(store, on=on, methods=["set_if"], afterwards=True)

    def _set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> str:
        try:
            return super()._set_if(checkpoint_id, checkpoint, version)
        except CheckpointConflictError:
            if self._counter.calls in (self._counter.on or ()):
                raise StoreError("this answer is lost, too") from None
            raise


def test_a_rivals_write_is_a_conflict(pauses: Pauses) -> None:
    """F27: where somebody else has written in between, it is a conflict, and their bytes stay."""
    inner = MapStore()
    store = RetryingStore(
        FailingStore(inner, on=1, methods=["set_if"], afterwards=True),
        sleep=lambda seconds: inner.set("a", b"theirs"),
        clock=pauses.clock,
    )

    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"mine", None)

    assert inner.get("a") == b"theirs"


def test_a_blob_that_is_gone_again_is_a_conflict(pauses: Pauses) -> None:
    """Where what was written over has been deleted since, a replacement is a conflict and nothing is stored."""
    inner = MapStore()
    seen = inner.set_if("a", b"old", None)
    store = RetryingStore(
        FailingStore(inner, on=1, methods=["set_if"], afterwards=True),
        sleep=lambda seconds: inner.delete("a"),
        clock=pauses.clock,
    )

    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"mine", seen)

    assert inner.get("a") is None


def test_equal_bytes_at_the_first_attempt_are_a_conflict(inner: MapStore, pauses: Pauses) -> None:
    """Without a failed attempt before, equal bytes are somebody else's."""
    store = retrying(FailingStore(inner, on=None, methods=[]), pauses)

    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"1", None)


def test_reading_back_is_tried_again_too(pauses: Pauses) -> None:
    """F27: where the answer and then the reading back get lost, the write is recognised by the next attempt."""
    inner = MapStore()
    lossy = FailingStore(
        FailingStore(inner, on=1, methods=["set_if"], afterwards=True), on=range(1, 3), methods=["get_versioned"]
    )
    store = retrying(lossy, pauses)

    returned = store.set_if("a", b"mine", None)

    assert inner.get_versioned("a") == (b"mine", returned)
    assert len(pauses.slept) == 3


def test_a_listing_goes_on_where_it_broke_off(pauses: Pauses) -> None:
    """Each id is listed once and in order, however often the listing breaks off, if there is progress in between."""
    store = BreakingStore([0, 0, 3, 3, 3, 7, 8, 9])
    ids = [f"run-{number}" for number in range(10)]
    for checkpoint_id in ids:
        store.set(checkpoint_id, b"")

    assert [*retrying(store, pauses).list("run-")] == ids
    assert store.listings == 9
    assert len(pauses.slept) == 8


def test_a_listing_that_makes_no_progress_gives_up(pauses: Pauses) -> None:
    """Four failures in a row at the same place are raised, after the ids before it were given."""
    store = BreakingStore([2] * 4)
    for checkpoint_id in "abcd":
        store.set(checkpoint_id, b"")
    listing = retrying(store, pauses).list()
    found = [next(listing), next(listing)]

    with pytest.raises(StoreError, match="the line went dead") as caught:
        next(listing)

    assert found == ["a", "b"]
    assert caught.value.__notes__ == [f"RetryingStore gave up after 4 attempts in {sum(pauses.slept):.1f} seconds"]


def test_the_callers_time_between_two_ids_does_not_count(pauses: Pauses) -> None:
    """A listing that is read slowly has all its time for each place where it breaks off."""
    store = BreakingStore([1, 2])
    for checkpoint_id in "abc":
        store.set(checkpoint_id, b"")

    listing = retrying(store, pauses, limit=SECOND).list()
    found = []
    for checkpoint_id in listing:
        found.append(checkpoint_id)
        pauses.slept.append(100.0)

    assert found == ["a", "b", "c"]


def test_shows_the_powers_of_the_store_inside(inner: MapStore) -> None:
    """It can do what the store inside can, and says that it blocks, since it sleeps."""

    class Bare:
        blocking = False
        get, set = inner.get, inner.set

    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert [isinstance(RetryingStore(inner), power) for power in powers] == [True] * 4
    assert [isinstance(RetryingStore(Bare()), power) for power in powers] == [False] * 4
    assert (RetryingStore(inner).blocking, RetryingStore(Bare()).blocking) == (True, True)


def test_really_waits(inner: MapStore) -> None:
    """Without a sleep of a test it sleeps by itself, so that another thread can put things right meanwhile."""
    broken = threading.Event()
    broken.set()

    class Mended(MapStore):
        def get(self, checkpoint_id: str) -> bytes | None:
            if broken.is_set():
                threading.Timer(0.01, broken.clear).start()
                raise StoreError("not yet")
            return super().get(checkpoint_id)

    store = RetryingStore(Mended(), attempts=1000, delay=timedelta(milliseconds=5), max_delay=timedelta(milliseconds=5))

    assert store.get("a") is None


def test_pickles(tmp_path: Path) -> None:
    """A copy has the same options and powers."""
    before = RetryingStore(FileStore(tmp_path), attempts=7, limit=SECOND)
    before.set("a", b"1")
    after = pickle.loads(pickle.dumps(before))

    assert (after.attempts, after.limit, after.get("a"), [*after.list()]) == (7, SECOND, b"1", ["a"])


@pytest.mark.parametrize(
    "options",
    [{"attempts": 0}, {"delay": -SECOND}, {"max_delay": -SECOND}, {"limit": -SECOND}],
    ids=lambda each: next(iter(each)),
)
def test_refuses_options_out_of_range(options: dict[str, object]) -> None:
    """Options that allow no attempt, or times below zero, are refused."""
    with pytest.raises(StoreError, match="give at least one attempt, and times of zero or more"):
        RetryingStore(MapStore(), **options)  # type: ignore[arg-type]
