from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from watched_store import ALL_POWERS, POWER_SETS, WatchedStore, powers_of, with_powers

from blobcp import END, START, CheckpointNotFoundError, Graph, Interrupted, interrupt
from blobcp.codec import Envelope, Header
from blobcp.errors import CheckpointDoneError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointLister, CheckPointStore, CheckPointSwapper
from blobcp.stores import FileStore, MapStore, PrefixedStore, RetryingStore
from blobcp.stores.wrappers.chunked import ChunkedStore
from blobcp.stores.wrappers.expiring import ExpiringStore
from blobcp.stores.wrappers.tiered import TieredStore
from blobcp.stores.wrappers.write_behind import WriteBehindStore
from blobcp.wrapping import StoreWrapper

DAY = timedelta(days=1)
LIMIT = 30.0

Wrap = Callable[[CheckPointStore], StoreWrapper]

WRAPPERS: dict[str, tuple[Wrap, frozenset[type]]] = {
    "prefixed": (lambda store: PrefixedStore(store, "a/"), frozenset()),
    "expiring": (lambda store: ExpiringStore(store, DAY), frozenset()),
    "chunked": (lambda store: ChunkedStore(store, 1024), frozenset()),
    "retrying": (RetryingStore, frozenset()),
    "write behind": (WriteBehindStore, frozenset()),
    "write behind, not comparing": (
        lambda store: WriteBehindStore(store, compare_and_set=False),
        frozenset({CheckPointSwapper}),
    ),
    "tiered": (lambda store: TieredStore(MapStore(), store), frozenset({CheckPointExpirer})),
    "tiered, write back": (
        lambda store: TieredStore(MapStore(), store, write="back"),
        frozenset({CheckPointExpirer}),
    ),
}
"""Each wrapper, and the powers that it can't keep."""

PILES: dict[str, Wrap] = {
    "tenants in parts that expire": lambda store: PrefixedStore(ExpiringStore(ChunkedStore(store, 1024), DAY), "a/"),
    "parts, tried again": lambda store: ChunkedStore(RetryingStore(store), 1024),
    "expiry behind": lambda store: ExpiringStore(WriteBehindStore(RetryingStore(store)), DAY),
    "expiry of tiers": lambda store: ExpiringStore(TieredStore(MapStore(), ChunkedStore(store, 1024)), DAY),
    "tiers of one file store": lambda store: TieredStore(PrefixedStore(store, "f/"), PrefixedStore(store, "d/")),
    "write back in parts": lambda store: TieredStore(MapStore(), ChunkedStore(store, 1024), write="back"),
    "parts in parts": lambda store: ChunkedStore(ChunkedStore(store, 1024), 4096),
    "tenants of tenants": lambda store: PrefixedStore(PrefixedStore(store, "~part/"), "7/"),
}
"""Piles that make sense."""

piles = pytest.mark.parametrize("wrap", PILES.values(), ids=PILES)


class Awaited:
    """A store whose methods have to be awaited."""

    async def get(self, checkpoint_id: str) -> bytes | None:
        return None

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        pass


def flush(store: object) -> None:
    """Write what is queued anywhere in a pile."""
    while isinstance(store, StoreWrapper):
        if isinstance(store, WriteBehindStore):
            store.flush(LIMIT)
        store = store.store


@pytest.mark.parametrize("powers", POWER_SETS, ids=lambda powers: "+".join(p.__name__[10:] for p in powers) or "none")
@pytest.mark.parametrize(("wrap", "lost"), WRAPPERS.values(), ids=WRAPPERS)
def test_powers_are_those_of_the_store_inside(wrap: Wrap, lost: frozenset[type], powers: frozenset[type]) -> None:
    """Every wrapper shows the powers of what it wraps and only those, also when it is wrapped again or copied."""
    store = wrap(with_powers(powers))

    assert powers_of(store) == powers - lost
    assert powers_of(wrap(store)) == powers - lost
    assert powers_of(StoreWrapper(store)) == powers - lost
    assert powers_of(copy.copy(store)) == powers - lost


@pytest.mark.parametrize(("wrap", "lost"), WRAPPERS.values(), ids=WRAPPERS)
def test_stores_that_have_to_be_awaited_are_refused(wrap: Wrap, lost: frozenset[type]) -> None:
    """A wrapper calls what it wraps, so one that would have to await it is refused when it is made."""
    with pytest.raises(StoreError, match="can't wrap Awaited: its methods have to be awaited"):
        wrap(Awaited())  # type: ignore[arg-type]


@pytest.mark.parametrize(("wrap", "lost"), WRAPPERS.values(), ids=WRAPPERS)
def test_get_and_set_are_enough(wrap: Wrap, lost: frozenset[type]) -> None:
    """Every wrapper works round a store with nothing but the two methods."""
    inside = with_powers(frozenset())
    store = wrap(inside)
    for blob in (b"", b"blob", bytes(5000)):
        store.set("A", blob)
        flush(store)

        assert store.get("A") == blob
        assert wrap(inside).get("A") == blob
    assert store.get("B") is None


@piles
def test_runs_on_a_pile(wrap: Wrap, tmp_path: Path) -> None:
    """A run stops, is forked, is resumed by a copy of the pile, and started anew; its blob takes several parts."""
    store = wrap(FileStore(tmp_path, durable=False))
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: text[:4] + interrupt("and?"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    app = graph.compile(store=store)
    with pytest.raises(Interrupted):
        app.invoke("well" + "." * 5000, checkpoint_id="A")

    with pytest.raises(Interrupted):
        app.invoke(checkpoint_id="A", write_to_checkpoint_id="B")
    assert app.resume("B", answer=" B") == "well B"
    assert graph.compile(store=copy.copy(store)).resume("A", answer=" A") == "well A"
    flush(store)
    assert [*store.list()] == ["A", "B"]
    reopened = graph.compile(store=wrap(FileStore(tmp_path, durable=False)))
    with pytest.raises(CheckpointDoneError):
        reopened.resume("A", answer="again")
    with pytest.raises(CheckpointNotFoundError):
        reopened.resume("C", answer="again")
    with pytest.raises(Interrupted):
        reopened.invoke("anew", checkpoint_id="A", force_new_run=True)
    assert reopened.resume("A", answer="!") == "anew!"


@piles
def test_a_pile_shows_what_all_of_it_can(wrap: Wrap) -> None:
    """A pile has the powers that each of its stores keeps; a bare store at the bottom gives none."""
    pile: object = wrap(MapStore())
    tiered = False
    while isinstance(pile, StoreWrapper):
        tiered, pile = tiered or isinstance(pile, TieredStore), pile.store

    assert powers_of(wrap(MapStore())) == ALL_POWERS - ({CheckPointExpirer} if tiered else set())
    assert powers_of(wrap(with_powers(ALL_POWERS - {CheckPointLister}))) == ALL_POWERS - {CheckPointLister} - (
        {CheckPointExpirer} if tiered else set()
    )


def test_expired_parts_are_removed_as_a_whole() -> None:
    """A purge outside of the parts takes the parts along."""
    inside = MapStore()
    now = datetime.now(UTC)
    store = ExpiringStore(ChunkedStore(inside, 1024), DAY)
    for checkpoint_id, created_at in (("old", now - DAY), ("new", now)):
        store.set(
            checkpoint_id, Envelope().seal(Header(checkpoint_id=checkpoint_id, created_at=created_at), bytes(3000))
        )

    assert store.purge() == 1
    assert [*store.list()] == ["new"]
    assert len([*inside.list()]) == 5  # four parts and the manifest


def test_a_trouble_below_the_queue_is_tried_again_there() -> None:
    """Inside of the queue another attempt reaches the store; its failures are never told."""
    inside = WatchedStore()

    def fail_once(method: str, checkpoint_id: str) -> None:
        if len(inside.calls) == 1:
            raise ConnectionError("the network is away")

    inside.before = fail_once
    store = WriteBehindStore(RetryingStore(inside, delay=timedelta(0)))
    store.set("A", b"blob")

    store.flush(LIMIT)

    assert inside.quiet.get("A") == b"blob"
    assert store.pending == {}


@pytest.mark.parametrize("lacks", [CheckPointDeleter, CheckPointLister])
def test_upkeep_needs_its_powers_through_a_pile(lacks: type) -> None:
    """Purging and sweeping say what is missing, however deep it is missing."""
    pile = RetryingStore(with_powers(ALL_POWERS - {lacks}))

    with pytest.raises(StoreError, match="can't purge"):
        ExpiringStore(pile, DAY).purge()
    with pytest.raises(StoreError, match="can't sweep"):
        ChunkedStore(pile, 1024).sweep()
