from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from watched_store import ALL_POWERS, WatchedStore, with_powers

from blobcp import END, START, CheckpointNotFoundError, Graph, Interrupted, interrupt
from blobcp.codec import Envelope, Header
from blobcp.codec.frame import frame_start, join_frame
from blobcp.errors import CheckpointConflictError, StoreError
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointSwapper
from blobcp.stores import FileStore, MapStore
from blobcp.stores.wrappers.expiring import CLAIM, CLAIM_SECONDS, ExpiringStore

START_TIME = datetime(2026, 1, 1, tzinfo=UTC)
TTL = timedelta(days=30)
INSTANT = timedelta(microseconds=1)
LIMIT = 30.0


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now: datetime = START_TIME

    def __call__(self) -> datetime:
        return self.now


def blob_of(created_at: datetime, body: bytes = b"body", **fields: str) -> bytes:
    """Return a blob that was written at this time."""
    return Envelope().seal(Header(checkpoint_id="A", created_at=created_at, **fields), body)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> Clock:
    """The time, as the store under test sees it."""
    return Clock()


@pytest.fixture
def inside() -> WatchedStore:
    """The store inside."""
    return WatchedStore()


@pytest.fixture
def store(inside: WatchedStore, clock: Clock) -> ExpiringStore:
    """A store that keeps blobs for thirty days."""
    return ExpiringStore(inside, TTL, clock=clock)


def test_a_blob_is_gone_when_its_time_is_over(store: ExpiringStore, clock: Clock) -> None:
    """A blob is there until the very moment at which its time is over, and not from then on."""
    blob = blob_of(START_TIME)
    store.set("A", blob)

    clock.now = START_TIME + TTL - INSTANT
    assert store.get("A") == blob
    found = store.get_versioned("A")
    assert found
    assert found[0] == blob
    clock.now = START_TIME + TTL
    assert store.get("A") is None
    assert store.get_versioned("A") is None
    assert [*store.list()] == ["A"]


def test_a_time_without_a_zone_is_utc(store: ExpiringStore, clock: Clock) -> None:
    """A header of somebody else's making that has no zone is read as UTC."""
    header = msgspec.msgpack.encode({"checkpoint_id": "A", "created_at": "2026-01-01T00:00:00"})
    blob = join_frame(frame_start(0, header, 0), (), None)
    store.set("A", blob)

    clock.now = START_TIME + TTL - INSTANT
    found = store.get_versioned("A")
    assert found
    assert found[0] == blob
    assert store.set_if("A", blob, found[1]) != found[1]
    clock.now = START_TIME + TTL
    assert store.get("A") is None


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no blob", id="foreign"),
        pytest.param(blob_of(START_TIME)[:-1], id="truncated"),
        pytest.param(blob_of(START_TIME)[:-40] + b"x" + blob_of(START_TIME)[-39:], id="changed"),
        pytest.param(b"BCP9" + blob_of(START_TIME)[4:], id="newer format"),
        pytest.param(Envelope().seal(Header(checkpoint_id="A"), b"body"), id="no time"),
    ],
)
def test_what_tells_no_time_stays(store: ExpiringStore, clock: Clock, foreign: bytes) -> None:
    """F25: bytes that are no whole blob are given to whoever can say what is wrong with them, for ever."""
    store.set("A", foreign)
    clock.now = START_TIME + 1000 * TTL

    assert store.get("A") == foreign
    found = store.get_versioned("A")
    assert found
    assert found[0] == foreign
    assert store.purge() == 0
    assert store.set_if("A", b"new", found[1])
    with pytest.raises(CheckpointConflictError):
        store.set_if("A", b"newer", None)


def test_an_error_of_the_store_inside_is_not_absence(store: ExpiringStore, inside: WatchedStore) -> None:
    """F25: what the store inside raises comes out."""

    def fail(method: str, checkpoint_id: str) -> None:
        raise StoreError("no network")

    inside.before = fail

    for call in (store.get, store.get_versioned):
        with pytest.raises(StoreError, match="no network"):
            call("A")
    with pytest.raises(StoreError, match="no network"):
        store.purge()


def test_creating_over_an_expired_blob(store: ExpiringStore, clock: Clock) -> None:
    """What is over does not exist for a conditional write, and what is not over does."""
    store.set("A", blob_of(START_TIME))
    with pytest.raises(CheckpointConflictError, match="'A'"):
        store.set_if("A", b"too early", None)
    clock.now = START_TIME + TTL

    new = blob_of(clock.now)
    version = store.set_if("A", new, None)

    assert store.get_versioned("A") == (new, version)
    with pytest.raises(CheckpointConflictError, match="'A'"):
        store.set_if("A", b"too late", None)
    assert store.get("A") == new


def test_one_of_many_creators_wins(clock: Clock) -> None:
    """Of 16 threads that write where something is over, exactly one wins, 20 times."""
    store = ExpiringStore(MapStore(), TTL, clock=clock)
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            store.set("A", blob_of(clock.now))
            clock.now += TTL
            start = threading.Barrier(16)

            def write(name: int, start: threading.Barrier = start) -> bytes | None:
                start.wait(LIMIT)
                blob = blob_of(clock.now, b"%d" % name)
                try:
                    store.set_if("A", blob, None)
                except CheckpointConflictError:
                    return None
                return blob

            won = [blob for blob in pool.map(write, range(16)) if blob is not None]
            assert won == [store.get("A")], number


def test_a_version_that_is_over_conflicts(store: ExpiringStore, inside: WatchedStore, clock: Clock) -> None:
    """Who has seen a blob can't replace it once its time is over, and the store inside is not even asked."""
    first = store.set_if("A", blob_of(START_TIME), None)
    stored = inside.get("A")
    clock.now = START_TIME + TTL
    inside.calls.clear()

    with pytest.raises(CheckpointConflictError, match="'A'"):
        store.set_if("A", blob_of(clock.now), first)

    assert inside.calls == []
    assert inside.get("A") == stored


def test_comparing_costs_nothing_more(store: ExpiringStore, inside: WatchedStore) -> None:
    """A conditional write is one call of the store inside, the first as well as the next."""
    first = store.set_if("A", blob_of(START_TIME), None)
    store.set_if("A", blob_of(START_TIME), first)

    assert inside.calls == [("set_if", "A"), ("set_if", "A")]


@pytest.mark.parametrize("version", ["", "x", "- ", "2026-01-01T00:00:00+00:00 1000", "yesterday 1"])
def test_a_strange_version_conflicts(store: ExpiringStore, version: str) -> None:
    """A version that this store has not given fits nothing."""
    store.set("A", blob_of(START_TIME))

    with pytest.raises(CheckpointConflictError, match="'A'"):
        store.set_if("A", b"new", version)


@pytest.mark.parametrize("powers", [ALL_POWERS, frozenset({CheckPointLister, CheckPointDeleter})], ids=["swaps", "not"])
def test_purge_removes_what_is_over(powers: frozenset[type], clock: Clock) -> None:
    """A purge removes the blobs whose time is over, and says how many."""
    inside = with_powers(powers)
    store = ExpiringStore(inside, TTL, clock=clock)
    for number in range(5):
        store.set(f"old-{number}", blob_of(START_TIME))
        store.set(f"new-{number}", blob_of(START_TIME + INSTANT))
    clock.now = START_TIME + TTL

    assert store.purge() == 5
    assert store.purge() == 0
    assert [*inside.list()] == [f"new-{number}" for number in range(5)]


@pytest.mark.parametrize("lacks", [CheckPointLister, CheckPointDeleter])
def test_purge_needs_to_list_and_to_delete(lacks: type) -> None:
    """Where the store inside can't do what a purge needs, the message says so."""
    store = ExpiringStore(with_powers(ALL_POWERS - {lacks}), TTL)

    with pytest.raises(StoreError, match="can't purge: StoreWrapper can't both list and delete"):
        store.purge()


def test_purge_spares_a_blob_that_is_written_meanwhile(
    store: ExpiringStore, inside: WatchedStore, clock: Clock
) -> None:
    """A blob that takes the old one's place after the purge has read that one stays."""
    store.set("A", blob_of(START_TIME))
    clock.now = START_TIME + TTL
    fresh = blob_of(clock.now)

    def write(method: str, checkpoint_id: str) -> None:
        if method == "set_if":
            inside.quiet.set("A", fresh)

    inside.before = write

    assert store.purge() == 0
    assert store.get("A") == fresh


def test_a_writer_waits_for_a_purge(store: ExpiringStore, inside: WatchedStore, clock: Clock) -> None:
    """Who creates a blob while a purge is about to remove the old one waits for that, and the blob stays."""
    store.set("A", blob_of(START_TIME))
    clock.now = START_TIME + TTL
    fresh = blob_of(clock.now)
    met = threading.Event()

    def hold(method: str, checkpoint_id: str) -> None:
        if threading.current_thread() is purger and method == "delete":
            assert met.wait(LIMIT)
        elif threading.current_thread() is not purger and inside.calls.count(("get_versioned", "A")) > 3:
            met.set()  # the writer has looked twice since the purge did, and goes on waiting

    inside.before = hold
    purger = threading.Thread(target=store.purge)
    purger.start()
    while ("delete", "A") not in inside.calls:
        assert purger.is_alive()
    version = store.set_if("A", fresh, None)
    purger.join(LIMIT)

    assert met.is_set()
    assert store.get_versioned("A") == (fresh, version)


def test_a_purge_that_was_killed_leaves_nothing_in_the_way(store: ExpiringStore, clock: Clock) -> None:
    """The mark of a purge reads as nothing; writers and the next purge take it away once it is old."""
    store.set("A", blob_of(START_TIME, b"", serializer=CLAIM))
    store.set("B", blob_of(START_TIME, b"", serializer=CLAIM))

    assert store.get("A") is None
    assert store.get_versioned("A") is None
    assert store.purge() == 0  # somebody may be at it
    clock.now = START_TIME + timedelta(seconds=CLAIM_SECONDS)
    new = blob_of(clock.now)
    store.set_if("A", new, None)
    assert store.purge() == 1
    assert [*store.list()] == ["A"]
    assert store.get("A") == new


def test_the_first_of_two_times_counts(clock: Clock) -> None:
    """Expiry of the store inside goes on working beside that of the header."""
    store = ExpiringStore(MapStore(), TTL, clock=clock)
    store.set_expiring("A", blob_of(START_TIME), timedelta(microseconds=1))
    store.set_expiring("B", blob_of(START_TIME), 2 * TTL)

    while store.store.get("A") is not None:
        pass
    assert store.get("A") is None
    assert store.get("B") is not None
    clock.now = START_TIME + TTL
    assert store.get("B") is None


def test_reads_the_clock_of_the_machine(tmp_path: Path) -> None:
    """Without a clock of one's own the time is that of the machine, also in a pickled copy."""
    store = pickle.loads(pickle.dumps(ExpiringStore(FileStore(tmp_path, durable=False), timedelta(hours=1))))
    now = datetime.now(UTC)

    store.set("A", blob_of(now))
    store.set("B", blob_of(now - timedelta(hours=1)))

    assert store.get("A") == blob_of(now)
    assert store.get("B") is None
    assert store.purge() == 1


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(-1), 60, None])
def test_refuses_what_is_no_time_to_live(ttl: object) -> None:
    """A time to live is a timedelta above zero."""
    with pytest.raises(StoreError, match="give a timedelta above zero"):
        ExpiringStore(MapStore(), ttl)  # type: ignore[arg-type]


@pytest.mark.parametrize("powers", [ALL_POWERS, ALL_POWERS - {CheckPointSwapper}], ids=["swaps", "not"])
def test_a_run_can_be_resumed_until_its_time_is_over(powers: frozenset[type]) -> None:
    """A run that waits for too long is not there any more, and its id can be used anew."""
    clock = Clock(datetime.now(UTC))
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: text + interrupt("and?"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    app = graph.compile(store=ExpiringStore(with_powers(powers), TTL, clock=clock))
    with pytest.raises(Interrupted):
        app.invoke("well", checkpoint_id="A")

    clock.now += TTL + timedelta(hours=1)
    with pytest.raises(CheckpointNotFoundError):
        app.resume("A", answer=" done")
    clock.now -= TTL
    with pytest.raises(Interrupted):
        app.invoke("new", checkpoint_id="A", force_new_run=True)

    assert app.resume("A", answer=" done") == "new done"
