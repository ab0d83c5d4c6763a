"""StoreWrapper: a store round another one has the powers of the one inside, and only those."""

from __future__ import annotations

import copy
import itertools
import pickle
from datetime import timedelta
from typing import Any

import pytest

from blobcp.errors import StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper
from blobcp.stores import FileStore, MapStore
from blobcp.wrapping import POWERS, StoreWrapper

PROTOCOLS = (CheckPointDeleter, CheckPointLister, CheckPointSwapper, CheckPointExpirer)


class Passing(StoreWrapper):
    """A wrapper that changes nothing; at module level, so that it can be pickled."""


def store_with(*powers: type) -> CheckPointStore:
    """Return a store with these powers and no other."""
    inner = MapStore()
    methods = ("get", "set", *(method for power in powers for method in POWERS[power]))
    made: CheckPointStore = type("Partial", (), {name: staticmethod(getattr(inner, name)) for name in methods})()
    return made


def powers_of(store: object) -> set[type]:
    """Return the optional powers that a store shows."""
    return {power for power in PROTOCOLS if isinstance(store, power)}


@pytest.mark.parametrize(
    "powers", [some for size in range(5) for some in itertools.combinations(PROTOCOLS, size)], ids=len
)
def test_shows_the_powers_of_the_store_inside(powers: tuple[type, ...]) -> None:
    """For every set of powers: the wrapper has exactly those, also twice wrapped and also copied."""
    wrapper = Passing(store_with(*powers))

    assert powers_of(wrapper) == set(powers)
    assert powers_of(Passing(wrapper)) == set(powers)
    assert powers_of(copy.copy(wrapper)) == set(powers)


def test_passes_every_call_on() -> None:
    """What is not overridden reaches the store inside."""
    inner = MapStore()
    wrapper = Passing(inner)

    wrapper.set("a", b"1")
    wrapper.set_expiring("b", b"2", timedelta(hours=1))
    version = wrapper.set_if("c", b"3", None)

    assert [inner.get(name) for name in "abc"] == [b"1", b"2", b"3"]
    assert wrapper.get("b") == b"2"
    assert wrapper.get_versioned("c") == (b"3", version)
    assert [*wrapper.list("b")] == ["b"]
    wrapper.delete("a")
    assert [*inner.list()] == ["b", "c"]


def test_a_power_can_be_hidden() -> None:
    """A wrapper that can't keep a power does not show it, whatever the store inside has."""
    assert powers_of(StoreWrapper(MapStore(), hides=(CheckPointSwapper,))) == set(PROTOCOLS) - {CheckPointSwapper}


def test_a_method_under_its_public_name_counts() -> None:
    """A subclass that writes ``delete`` itself is not overridden by what passes the call on."""

    class Keeping(StoreWrapper):
        def delete(self, checkpoint_id: str) -> None:
            """Keep it."""

    store = Keeping(MapStore())
    store.set("a", b"1")
    store.delete("a")

    assert store.get("a") == b"1"


def test_a_copy_is_a_wrapper_of_its_own(tmp_path: Any) -> None:
    """Methods of a copy or pickle belong to the copy: a change of the first one's store does not reach it."""
    first = Passing(FileStore(tmp_path / "first"))
    first.set("a", b"1")
    copies = [copy.copy(first), pickle.loads(pickle.dumps(first))]
    first.store = FileStore(tmp_path / "second")

    for each in copies:
        assert [*each.list()] == ["a"]
    assert [*first.list()] == []


def test_says_whether_it_blocks() -> None:
    """The asyncio driver is told what the store inside tells."""
    assert StoreWrapper(MapStore()).blocking is False
    assert StoreWrapper(store_with()).blocking is True


def test_refuses_a_store_that_has_to_be_awaited() -> None:
    """Calls that are not awaited would do nothing, so a wrapper round such a store is refused."""

    class Async:
        async def get(self, checkpoint_id: str) -> bytes | None:
            return None

        async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
            return None

    inner: Any = Async()
    with pytest.raises(StoreError, match=r"Passing can't wrap Async: its methods have to be awaited"):
        Passing(inner)
