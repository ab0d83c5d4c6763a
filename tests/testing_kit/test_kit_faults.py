from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from awaited_store import AwaitedGoodStore
from good_store import Disk

from blobcp.errors import OptionError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointStore, CheckPointSwapper
from blobcp.stores import MapStore
from blobcp.testing import FailingStore, ForgetfulStore, SlowStore, TruncatingStore, check_store

HOUR = timedelta(hours=1)

FAULTS: list[Callable[[CheckPointStore], CheckPointStore]] = [
    FailingStore,
    ForgetfulStore,
    lambda store: SlowStore(store, 0.01),
    lambda store: TruncatingStore(store, 3),
]
NAMES = ["failing", "forgetful", "slow", "truncating"]


class PlainStore:
    """Get and set, and nothing else."""

    def get(self, checkpoint_id: str) -> bytes | None:
        return None

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        pass


@pytest.mark.parametrize("make", FAULTS, ids=NAMES)
def test_powers_are_those_inside(make: Callable[[CheckPointStore], CheckPointStore]) -> None:
    """Each shows the optional powers of the store inside, and no others."""
    rich, poor = make(MapStore()), make(PlainStore())

    assert isinstance(rich, CheckPointDeleter)
    assert isinstance(rich, CheckPointExpirer)
    assert not isinstance(poor, CheckPointDeleter)
    assert not isinstance(poor, CheckPointExpirer)


@pytest.mark.parametrize("make", FAULTS, ids=NAMES)
def test_an_awaited_store_is_refused(make: Callable[[CheckPointStore], CheckPointStore]) -> None:
    """They are for stores with plain methods, and say so."""
    with pytest.raises(StoreError, match="its methods have to be awaited"):
        make(AwaitedGoodStore(Disk()))  # type: ignore[arg-type]


def test_slow() -> None:
    """The calls that are meant take longer, and all give what the store gives."""
    store = SlowStore(MapStore(), 0.05, on=2, methods=["get"])
    store.set("a", b"1")
    begun = time.monotonic()
    assert store.get("a") == b"1"
    assert store.get("a") == b"1"

    assert time.monotonic() - begun >= 0.05
    assert store.blocking


def test_slow_keeps_every_promise() -> None:
    """A store that is only slow passes the kit."""
    store = SlowStore(MapStore(), 0.00001)

    report = check_store(lambda: store, large=1000, rounds=2, many=9, examples=2, ttl=0.3)

    assert report.failures == ()


@pytest.mark.parametrize(
    ("on", "failed"), [(1, [1]), ((2, 4), [2, 4]), (range(3, 6), [3, 4, 5]), (None, [1, 2, 3, 4, 5]), ((), [])]
)
def test_failing_by_number(on: int | range | tuple[int, ...] | None, failed: list[int]) -> None:
    """The calls with these numbers fail, counted from 1, and the others do not."""
    store = FailingStore(MapStore(), on=on, methods=["set"])
    said = []
    for number in range(1, 6):
        store.get("a")
        try:
            store.set("a", b"%d" % number)
        except StoreError as error:
            said.append(str(error))

    assert said == [f"set failed on purpose, as call {number}" for number in failed]


def test_failing_before_and_afterwards() -> None:
    """What fails is not done, or done all the same, as when a reply is lost."""
    before, afterwards = MapStore(), MapStore()
    for store in (
        FailingStore(before, methods=["set_if"]),
        FailingStore(afterwards, methods=["set_if"], afterwards=True),
    ):
        assert isinstance(store, CheckPointSwapper)
        with pytest.raises(StoreError):
            store.set_if("a", b"1", None)

    assert (before.get("a"), afterwards.get("a")) == (None, b"1")


def test_failing_in_a_way_of_ones_own() -> None:
    """The error can be any, made anew each time from the method's name."""
    store = FailingStore(MapStore(), on=None, error=lambda method: ConnectionResetError(f"in {method}"))

    for call, said in ((lambda: store.get("a"), "in get"), (lambda: store.delete("a"), "in delete")):
        with pytest.raises(ConnectionResetError, match=said):
            call()
    with pytest.raises(ConnectionResetError, match="in list"):
        store.list()


def test_failing_counts_across_threads() -> None:
    """Of the calls of many threads exactly the meant number fail."""
    store = FailingStore(MapStore(), on=range(1, 51))

    def fails(number: int) -> bool:
        try:
            store.set("a", b"1")
        except StoreError:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(fails, range(400))) == 50


def test_unknown_methods_are_refused() -> None:
    """A misspelt method would be one that never fails."""
    with pytest.raises(OptionError, match="a store has no method 'sett'; it may have: get, set, delete,"):
        FailingStore(MapStore(), methods=["sett"])


def test_truncating() -> None:
    """Whichever way a blob is stored, its end is lost."""
    store = TruncatingStore(MapStore(), 2)
    store.set("a", b"12345")
    store.set_if("b", b"12345", None)
    store.set_expiring("c", b"12345", HOUR)
    store.set("d", b"1")

    assert [store.get(name) for name in "abcd"] == [b"12", b"12", b"12", b"1"]


def test_forgetful() -> None:
    """Whichever way a blob is stored, the meant writes leave no trace, and the others do."""
    store = ForgetfulStore(MapStore(), on=range(2, 5))
    store.set("a", b"kept")
    store.set("a", b"forgotten")
    version = store.set_if("b", b"forgotten", None)
    store.set_expiring("c", b"forgotten", HOUR)
    store.set("d", b"kept")

    assert [store.get(name) for name in "abcd"] == [b"kept", None, None, b"kept"]
    assert isinstance(version, str)


@pytest.mark.parametrize("make", FAULTS[:2] + FAULTS[3:], ids=NAMES[:2] + NAMES[3:])
def test_the_kit_catches_them(make: Callable[[CheckPointStore], CheckPointStore]) -> None:
    """A store that fails, forgets or truncates does not pass."""
    store = make(MapStore())

    report = check_store(lambda: store, only=["get and set"], large=1000)

    assert report.failed > 0
