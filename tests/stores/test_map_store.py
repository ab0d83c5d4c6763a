from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from forked import run_in_child

from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointSwapper
from blobcp.stores import MapStore


def test_keeps_what_it_is_given() -> None:
    """A blob comes back as it went in, the empty one too, and the last one wins."""
    store = MapStore()

    store.set("a", b"1")
    store.set("b", b"")
    store.set("a", b"2")

    assert store.get("a") == b"2"
    assert store.get("b") == b""
    assert store.get("c") is None


def test_says_that_it_does_not_block() -> None:
    """The asyncio driver can tell that no thread is needed."""
    assert MapStore.blocking is False


def test_offers_every_power() -> None:
    """The powers that it has can be found by looking at it."""
    store = MapStore()

    powers = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)

    assert [isinstance(store, power) for power in powers] == [True, True, True, True]


def test_compare_and_set() -> None:
    """A conditional write replaces only what the caller has seen, and otherwise changes nothing."""
    store = MapStore()
    first = store.set_if("a", b"1", None)
    second = store.set_if("a", b"2", first)

    for version in (None, first):
        with pytest.raises(CheckpointConflictError, match=r"conflict.*'a'"):
            store.set_if("a", b"3", version)
    assert store.get_versioned("a") == (b"2", second)
    store.set("a", b"2")
    assert store.get_versioned("a") != (b"2", second)  # equal bytes of another writer are not what was seen
    store.delete("a")
    assert store.get_versioned("a") is None
    assert store.set_if("a", b"4", None) not in (first, second)


def test_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob with a time to live is there until the time is over, then gone for every method."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    store = MapStore()
    store.set_expiring("a", b"1", timedelta(seconds=5))
    [(_, version)] = [store.get_versioned("a") or (b"", "")]

    now[0] = 104.999
    assert store.get("a") == b"1"
    assert [*store.list()] == ["a"]
    now[0] = 105.0
    assert [*store.list()] == []
    assert store.get("a") is None
    with pytest.raises(CheckpointConflictError):
        store.set_if("a", b"2", version)
    assert store.set_if("a", b"2", None) != version


def test_a_plain_write_makes_an_expiring_blob_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``set`` or ``set_if`` over a blob with a time to live has none itself."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    store = MapStore()
    for checkpoint_id in "ab":
        store.set_expiring(checkpoint_id, b"1", timedelta(seconds=5))
    store.set("a", b"2")
    stored = store.get_versioned("b")
    assert stored is not None
    store.set_if("b", b"2", stored[1])

    now[0] = 1e9

    assert (store.get("a"), store.get("b")) == (b"2", b"2")


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_a_time_to_live_is_above_zero(ttl: Any) -> None:
    """What is no time to live is refused and nothing is stored."""
    store = MapStore()

    with pytest.raises(StoreError, match=r"'a' with the time to live"):
        store.set_expiring("a", b"1", ttl)
    assert store.get("a") is None


def test_it_does_not_leave_its_process() -> None:
    """A pickle of it would be another store that looks like this one, so there is none."""
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(MapStore())


def test_a_fork_in_the_middle_of_a_call_blocks_nobody() -> None:
    """In the child of a fork the store is free, also where another thread was inside it."""
    store = MapStore()
    store.set("a", b"1")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(store._lock.acquire).result(30)

        def look() -> None:
            assert store.get("a") == b"1"

        assert run_in_child(look) == 0
        pool.submit(store._lock.release).result(30)


def test_one_of_many_conditional_writers_wins() -> None:
    """Of 16 threads that write what they have read, exactly one wins, 50 times."""
    store = MapStore()
    for number in range(50):
        seen = store.get_versioned("a")
        version = seen[1] if seen else None
        start = threading.Barrier(16)

        def write(name: int, version: str | None = version, start: threading.Barrier = start) -> int | None:
            start.wait(30)
            try:
                store.set_if("a", b"%d" % name, version)
            except CheckpointConflictError:
                return None
            return name

        with ThreadPoolExecutor(16) as pool:
            won = [name for name in pool.map(write, range(16)) if name is not None]
        assert len(won) == 1, number
        assert store.get("a") == b"%d" % won[0]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_later_change_of_the_buffer_does_not_reach_the_store(kind: type[bytearray]) -> None:
    """F11: the store keeps a copy of a buffer that the caller goes on to change."""
    store = MapStore()
    buffer = bytearray(b"blob")

    store.set("Z", kind(buffer))
    buffer[0] ^= 255

    assert store.get("Z") == b"blob"
    assert type(store.get("Z")) is bytes


@pytest.mark.parametrize("value", ["text", 7, None, [1, 2], {"a": 1}])
def test_refuses_what_is_not_bytes(value: object) -> None:
    """A value that is not bytes is refused with its type and what to do, and the old blob stays."""
    store = MapStore()
    store.set("a", b"old")

    with pytest.raises(StoreError) as caught:
        store.set("a", value)  # type: ignore[arg-type]

    kind = type(value).__name__
    assert str(caught.value) == (f"can't store a {kind} under checkpoint id 'a'; a store keeps bytes, encode it first")
    assert store.get("a") == b"old"


def test_deletes() -> None:
    """A deleted blob is gone, and deleting what is not there is no error."""
    store = MapStore()
    store.set("a", b"1")

    store.delete("a")
    store.delete("a")

    assert store.get("a") is None


def test_lists_in_code_point_order() -> None:
    """Listing sorts by code point, filters by prefix, and is not disturbed by writes meanwhile."""
    store = MapStore()
    for checkpoint_id in ("b", "a/2", "a/10", "é", "a", "😀", "\uffff", "Z"):
        store.set(checkpoint_id, b"")

    everything = store.list()
    store.set("later", b"")

    assert [*everything] == ["Z", "a", "a/10", "a/2", "b", "é", "\uffff", "😀"]
    assert [*store.list("a/")] == ["a/10", "a/2"]
    assert [*store.list("none")] == []


@pytest.mark.parametrize("method", ["get", "delete"])
def test_refuses_a_wrong_id(method: str) -> None:
    """Every call refuses what is no id."""
    with pytest.raises(InvalidCheckpointIdError):
        getattr(MapStore(), method)("")


def test_threads_share_it() -> None:
    """Eight threads that write, read, list and delete at once meet no error and see whole blobs only."""
    store = MapStore()
    start = threading.Barrier(8)

    def work(number: int) -> set[bytes | None]:
        start.wait(timeout=30)
        seen = set()
        for turn in range(200):
            store.set("shared", bytes([number]) * 5000)
            store.set(f"own-{number}-{turn}", b"x")
            seen.add(store.get("shared"))
            if turn % 20 == 0:
                assert [*store.list(f"own-{number}-")] != []
            store.delete(f"own-{number}-{turn}")
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(work, range(8)))

    assert seen <= {bytes([number]) * 5000 for number in range(8)}
    assert [*store.list()] == ["shared"]
