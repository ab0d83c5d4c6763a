from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from forked import run_in_child
from taking_turns import KilledError, Turns, all_orders
from watched_store import ALL_POWERS, Hook, WatchedStore, powers_of, with_powers

from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointSwapper
from blobcp.stores import FileStore, MapStore
from blobcp.stores.wrappers.tiered import TieredStore
from blobcp.stores.wrappers.write_behind import WriteBehindStore

LIMIT = 30.0


@pytest.fixture
def fast() -> WatchedStore:
    """The fast tier."""
    return WatchedStore()


@pytest.fixture
def durable() -> WatchedStore:
    """The durable tier."""
    return WatchedStore()


@pytest.fixture
def store(fast: WatchedStore, durable: WatchedStore) -> TieredStore:
    """Both tiers."""
    return TieredStore(fast, durable)


def fail(method: str, checkpoint_id: str) -> None:
    """Fail every call."""
    raise ConnectionError("the cache is away")


def fail_from(number: int) -> Hook:
    """Return a hook that lets so many calls pass before all fail."""
    calls = iter(range(1000))

    def hook(method: str, checkpoint_id: str) -> None:
        if next(calls) >= number:
            fail(method, checkpoint_id)

    return hook


def work(method: str, checkpoint_id: str) -> None:
    """Let every call pass."""


def test_what_was_saved_is_read_from_the_fast_tier(store: TieredStore, durable: WatchedStore) -> None:
    """A save is in the durable tier when it returns, and is read without asking that one."""
    store.set("A", b"1")
    version = store.set_if("B", b"2", None)
    assert (durable.quiet.get("A"), durable.quiet.get("B")) == (b"1", b"2")
    durable.calls.clear()

    assert store.get("A") == b"1"
    assert store.get("B") == b"2"
    assert store.get_versioned("B") == (b"2", version)
    assert durable.calls == []


def test_what_is_not_in_the_fast_tier_gets_there(store: TieredStore, durable: WatchedStore) -> None:
    """A blob that is only in the durable tier is read from there once."""
    durable.quiet.set("A", b"1")
    durable.quiet.set("B", b"2")

    for _ in range(3):
        assert store.get("A") == b"1"
        assert store.get_versioned("B") == durable.quiet.get_versioned("B")

    assert durable.calls == [("get", "A"), ("get_versioned", "B")]


def test_a_version_is_looked_up_where_it_is_unknown(store: TieredStore, durable: WatchedStore) -> None:
    """A blob that came in without its version gets it from the durable tier when somebody wants to compare."""
    store.set("A", b"1")
    durable.calls.clear()

    found = store.get_versioned("A")

    assert found == durable.quiet.get_versioned("A") == store.get_versioned("A")
    assert durable.calls == [("get_versioned", "A")]


def test_the_order_of_a_save(store: TieredStore, fast: WatchedStore, durable: WatchedStore) -> None:
    """First the fast tier forgets the old blob, then the durable one gets the new one, then the fast one."""
    order: list[str] = []
    fast.before = lambda method, checkpoint_id: order.append(f"fast {method}")
    durable.before = lambda method, checkpoint_id: order.append(f"durable {method}")

    store.set("A", b"1")
    store.delete("A")

    assert order == [
        *("fast set", "durable set", "fast get_versioned", "fast set_if"),
        *("fast set", "durable delete", "fast get_versioned", "fast delete"),
    ]


def test_nothing_is_left_of_what_is_absent(store: TieredStore, fast: WatchedStore) -> None:
    """Neither a deleted blob nor the question for one that never was takes room in the fast tier."""
    store.set("A", b"1")
    store.delete("A")
    store.delete("B")

    assert store.get("A") is None
    assert store.get_versioned("C") is None
    assert [*fast.quiet.list()] == []


@pytest.mark.parametrize("call", ["set", "set_if", "delete"])
def test_a_fast_tier_that_can_not_be_told_stops_the_save(
    store: TieredStore, fast: WatchedStore, durable: WatchedStore, call: str
) -> None:
    """A fast tier that would go on giving out the old blob makes the save fail before anything is written."""
    store.set("A", b"old")
    durable.calls.clear()
    fast.before = fail
    calls: dict[str, Callable[[], object]] = {
        "set": lambda: store.set("A", b"new"),
        "set_if": lambda: store.set_if("A", b"new", None),
        "delete": lambda: store.delete("A"),
    }

    with pytest.raises(StoreError, match=r"'A' was not changed: the fast tier failed .*the cache is away") as caught:
        calls[call]()

    assert isinstance(caught.value.__cause__, ConnectionError)
    assert durable.calls == []
    fast.before = work
    assert store.get("A") == b"old"


@pytest.mark.parametrize("works", [1, 2, 3])
def test_a_fast_tier_that_fails_later_does_not_stop_the_save(
    store: TieredStore, fast: WatchedStore, durable: WatchedStore, works: int
) -> None:
    """Once the durable tier has the blob the save has succeeded, and nobody reads the old one, then or later."""
    store.set("A", b"old")
    fast.before = fail_from(works)

    store.set("A", b"new")

    assert durable.quiet.get("A") == b"new"
    assert store.get("A") == b"new"
    assert (store.fast_error is None) == (works == 3 and fast.calls[-1] == ("set_if", "A"))
    fast.before = work
    assert store.get("A") == b"new"
    assert TieredStore(fast, durable).get("A") == b"new"


@pytest.mark.parametrize("took_place", [True, False])
def test_a_durable_tier_that_fails_leaves_the_truth_to_itself(
    store: TieredStore, durable: WatchedStore, took_place: bool
) -> None:
    """After a save that failed, readers find what the durable tier has, whether or not the save took place."""
    store.set("A", b"old")
    if took_place:
        durable.after = lambda method, checkpoint_id: fail(method, checkpoint_id) if method == "set" else None
    else:
        durable.before = lambda method, checkpoint_id: fail(method, checkpoint_id) if method == "set" else None

    with pytest.raises(ConnectionError):
        store.set("A", b"new")

    assert store.get("A") == (b"new" if took_place else b"old")


def test_a_reader_does_without_the_fast_tier(store: TieredStore, fast: WatchedStore) -> None:
    """Where the fast tier fails the durable one answers, which is the one that counts."""
    store.set("A", b"1")
    fast.before = fail

    assert store.get("A") == b"1"
    assert store.get("B") is None
    assert isinstance(store.fast_error, ConnectionError)
    found = store.get_versioned("A")
    assert found
    assert found[0] == b"1"


def test_an_error_of_the_durable_tier_is_not_absence(store: TieredStore, durable: WatchedStore) -> None:
    """F25: what the durable tier raises comes out, and what the fast tier has is read all the same."""
    store.set("A", b"1")
    durable.before = fail

    assert store.get("A") == b"1"
    for call in (store.get, store.get_versioned):
        with pytest.raises(ConnectionError):
            call("B")


WRITES: dict[str, Callable[[TieredStore], object]] = {
    "set": lambda store: store.set("A", b"new"),
    "set_if": lambda store: store.set_if("A", b"new", "1"),
    "conflict": lambda store: store.set_if("A", b"new", None),
    "delete": lambda store: store.delete("A"),
}
READS: dict[str, Callable[[TieredStore], object]] = {
    "get": lambda store: store.get("A"),
    "get_versioned": lambda store: store.get_versioned("A"),
}


def make_tiers(turns: Turns, *, warm: bool) -> tuple[TieredStore, TieredStore]:
    """Return two processes' stores over the same two tiers, which hold an old blob and stop at each of their calls."""
    fast, durable = WatchedStore(), WatchedStore()
    assert durable.quiet.set_if("A", b"old", None) == "1"
    if warm:
        TieredStore(fast, durable).get_versioned("A")
    fast.before = durable.before = turns.step
    return TieredStore(fast, durable), TieredStore(fast, durable)


def check_agreement(store: TieredStore) -> None:
    """Check that what is read now is what the durable tier has, at first sight and later."""
    assert isinstance(store.store, WatchedStore)
    for _ in range(2):
        found = store.store.quiet.get_versioned("A")
        assert store.get("A") == (found and found[0])
        assert store.get_versioned("A") == found


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_reader_brings_an_old_blob_back(
    write: Callable[[TieredStore], object], read: Callable[[TieredStore], object], warm: bool
) -> None:
    """Whatever the order of a writer's and a reader's steps, the fast tier never keeps what the durable one replaced."""
    for order in all_orders(4, 4):
        turns = Turns()
        one, other = make_tiers(turns, warm=warm)

        problems = turns.run(order, lambda one=one: write(one), lambda other=other: read(other))  # type: ignore[misc]

        assert problems[1] is None, order
        assert problems[0] is None or isinstance(problems[0], CheckpointConflictError), order
        check_agreement(one)


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("trouble", ["killed", "cut off"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_failure_brings_an_old_blob_back(write: Callable[[TieredStore], object], trouble: str, warm: bool) -> None:
    """The same where the writer is killed at any step, or both are cut off from a tier at any of their steps."""
    orders = random.Random(f"{trouble}{warm}").sample([*all_orders(4, 4)], 20)
    for order in orders:
        for victim, moment in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]:

            def disturb(task: int, step: int, victim: int = victim, moment: int = moment) -> None:
                if task == victim and step == moment:
                    raise KilledError if trouble == "killed" else ConnectionError("cut off")

            turns = Turns(disturb)
            one, other = make_tiers(turns, warm=warm)

            turns.run(order, lambda one=one: write(one), lambda other=other: other.get("A"))  # type: ignore[misc]

            check_agreement(one)


@pytest.mark.parametrize("second", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("first", WRITES.values(), ids=WRITES)
def test_no_writer_hides_another(
    first: Callable[[TieredStore], object], second: Callable[[TieredStore], object]
) -> None:
    """Whatever the order of two writers' steps, the fast tier keeps nothing else than the durable one in the end."""
    for order in all_orders(4, 4):
        turns = Turns()
        one, other = make_tiers(turns, warm=True)

        turns.run(order, lambda one=one: first(one), lambda other=other: second(other))  # type: ignore[misc]

        check_agreement(one)
        other.set("A", b"last")
        check_agreement(one)


def test_versions_are_those_of_the_durable_tier(store: TieredStore, durable: WatchedStore) -> None:
    """What somebody else writes into the durable tier is found out when comparing, and read from then on."""
    version = store.set_if("A", b"1", None)
    durable.quiet.set("A", b"another's")

    assert store.get("A") == b"1"  # this fast tier does not hear of it
    with pytest.raises(CheckpointConflictError, match="'A'"):
        store.set_if("A", b"2", version)
    durable.calls.clear()
    assert store.get("A") == b"another's"
    assert store.get_versioned("A") == durable.quiet.get_versioned("A") == store.get_versioned("A")
    assert durable.calls == [("get", "A"), ("get_versioned", "A")]


def test_one_of_many_writers_wins() -> None:
    """Of 16 threads that write what they have read, exactly one wins, and all read its blob."""
    store = TieredStore(MapStore(), MapStore())
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            seen = store.get_versioned("A")
            start = threading.Barrier(16)

            def write(
                name: int, version: str | None = seen and seen[1], start: threading.Barrier = start
            ) -> bytes | None:
                start.wait(LIMIT)
                try:
                    store.set_if("A", b"%d" % name, version)
                except CheckpointConflictError:
                    return None
                return b"%d" % name

            won = [blob for blob in pool.map(write, range(16)) if blob is not None]
            assert won == [store.get("A")] == [store.store.get("A")], number


def test_bytes_of_somebody_else_in_the_fast_tier(store: TieredStore, fast: WatchedStore, durable: WatchedStore) -> None:
    """What this store has not put into the fast tier is not given out."""
    durable.quiet.set("A", b"right")
    for strange in (b"", b"strange", b"BCP1", b"\x93\x01\x02\x03"):
        fast.quiet.set("A", strange)

        assert store.get("A") == b"right"


def test_the_fast_tier_is_bounded(fast: WatchedStore, durable: WatchedStore) -> None:
    """What was not used for longest leaves the fast tier, and is read from the durable one."""
    store = TieredStore(fast, durable, cache_limit=2)
    store.set("A", b"1")
    store.set("B", b"2")
    store.get("A")

    store.set("C", b"3")

    assert [*fast.quiet.list()] == ["A", "C"]
    assert store.get("B") == b"2"
    assert [*fast.quiet.list()] == ["B", "C"]
    assert [*store.list()] == ["A", "B", "C"]


def test_write_back_returns_before_the_durable_tier_has_it(fast: WatchedStore, durable: WatchedStore) -> None:
    """A save is in the fast tier at once, and in the durable one at the latest after a flush."""
    opened = threading.Event()
    durable.before = lambda method, checkpoint_id: None if opened.wait(LIMIT) else fail(method, checkpoint_id)
    with TieredStore(fast, durable, write="back") as store:
        store.set("A", b"1")

        assert durable.quiet.get("A") is None
        assert store.get("A") == b"1"
        fast.quiet.delete("A")  # as a cache may do
        assert store.get("A") == b"1"
        opened.set()
        store.flush(LIMIT)
        assert durable.quiet.get("A") == b"1"
        assert store.get("A") == b"1"
        store.delete("A")
        assert store.get("A") is None
        store.set("B", b"2")

    assert [*durable.quiet.list()] == ["B"]
    with pytest.raises(StoreError, match="closed"):
        store.set("A", b"1")


def test_write_back_does_not_read_past_a_failing_fast_tier(fast: WatchedStore, durable: WatchedStore) -> None:
    """F25: what is in the fast tier alone is not absent because that one fails."""
    with TieredStore(fast, durable, write="back") as store:
        fast.before = fail
        for call in (store.get, store.get_versioned):
            with pytest.raises(
                StoreError, match=r"'A' can't be read: the fast tier failed .*the cache is away"
            ) as caught:
                call("A")
            assert isinstance(caught.value.__cause__, ConnectionError)


def test_write_back_says_what_failed(fast: WatchedStore, durable: WatchedStore) -> None:
    """An error of the durable tier comes out later, and the blob is kept; a queue of one's own is used as it is."""
    queued = WriteBehindStore(durable, compare_and_set=False)
    store = TieredStore(fast, queued, write="back")
    durable.before = fail
    store.set("A", b"1")

    with pytest.raises(StoreError, match="could not write checkpoint 'A' behind"):
        store.flush(LIMIT)

    assert store.store is queued
    assert queued.pending == {"A": b"1"}
    durable.before = work
    store.close(LIMIT)
    assert durable.quiet.get("A") == b"1"


def test_write_through_has_nothing_to_flush(fast: WatchedStore, durable: WatchedStore) -> None:
    """What is written through can be left at any time."""
    with TieredStore(fast, durable) as store:
        store.set("A", b"1")
        store.flush()

    assert store.get("A") == b"1"


def test_powers_are_those_of_the_durable_tier() -> None:
    """All powers of the durable tier but expiry, which the fast one could not keep; to delete both have to."""
    no_delete = with_powers(ALL_POWERS - {CheckPointDeleter})

    assert powers_of(TieredStore(MapStore(), MapStore())) == ALL_POWERS - {CheckPointExpirer}
    assert powers_of(TieredStore(no_delete, MapStore())) == ALL_POWERS - {CheckPointExpirer, CheckPointDeleter}
    assert powers_of(TieredStore(MapStore(), with_powers(frozenset()))) == frozenset()


def test_a_fast_tier_without_delete() -> None:
    """A fast tier that can't delete works, and keeps marks."""
    store = TieredStore(with_powers(frozenset({CheckPointSwapper})), MapStore())

    assert store.get("A") is None
    store.set("A", b"1")
    assert store.get("A") == b"1"


def test_a_durable_tier_with_get_and_set_alone() -> None:
    """A durable tier needs no powers."""
    store = TieredStore(MapStore(), with_powers(frozenset()))

    assert store.get("A") is None
    store.set("A", b"1")
    assert store.get("A") == b"1"
    assert store.store.get("A") == b"1"


class Awaited:
    """A store whose methods have to be awaited."""

    async def get(self, checkpoint_id: str) -> bytes | None:
        return None

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        pass

    async def get_versioned(self, checkpoint_id: str) -> None:
        pass

    async def set_if(self, checkpoint_id: str, checkpoint: bytes, version: str | None) -> None:
        pass


@pytest.mark.parametrize(
    ("make_store", "message"),
    [
        (lambda: TieredStore(with_powers(frozenset()), MapStore()), "can't be a fast tier, since it can't compare"),
        (lambda: TieredStore(Awaited(), MapStore()), "methods have to be awaited"),  # type: ignore[arg-type]
        (lambda: TieredStore(MapStore(), Awaited()), "methods have to be awaited"),  # type: ignore[arg-type]
        (lambda: TieredStore(MapStore(), MapStore(), write="around"), "give 'through' or 'back'"),  # type: ignore[arg-type]
        (lambda: TieredStore(MapStore(), MapStore(), cache_limit=0), "at least 1"),
        (
            lambda: TieredStore(with_powers(frozenset({CheckPointSwapper})), MapStore(), cache_limit=9),
            "a fast tier that can delete",
        ),
    ],
    ids=["fast without powers", "awaited fast", "awaited durable", "write", "no limit", "limit without delete"],
)
def test_refuses_what_can_not_work(make_store: Callable[[], TieredStore], message: str) -> None:
    """Tiers that lack something, and strange arguments, are refused at once."""
    with pytest.raises(StoreError, match=message):
        make_store()


@pytest.mark.parametrize("write", ["through", "back"])
@pytest.mark.parametrize(
    "make_copy", [copy.copy, lambda store: pickle.loads(pickle.dumps(store))], ids=["copy", "pickle"]
)
def test_a_copy_is_the_same_store(
    tmp_path: Path, write: Literal["through", "back"], make_copy: Callable[[TieredStore], TieredStore]
) -> None:
    """A copy reads and writes the same tiers, bounded by itself."""
    fast, durable = (FileStore(tmp_path / name, durable=False) for name in ("fast", "durable"))
    store = TieredStore(fast, durable, write=write, cache_limit=1)
    store.set("A", b"1")

    other = make_copy(store)
    other.set("B", b"2")
    other.flush(LIMIT)

    assert (other.get("A"), store.get("B")) == (b"1", b"2")
    assert durable.get("A") == b"1"
    assert powers_of(other) == powers_of(store)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_not_locked_out(tmp_path: Path) -> None:
    """A child uses the store though a thread of its parent was just counting a use."""
    fast, durable = (FileStore(tmp_path / name, durable=False) for name in ("fast", "durable"))
    store = TieredStore(fast, durable, cache_limit=1)
    with store._lock:
        assert run_in_child(lambda: store.set("A", b"child")) == 0

    assert store.get("A") == b"child"
