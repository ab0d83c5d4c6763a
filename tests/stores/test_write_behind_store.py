from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from forked import run_in_child
from saving_behind import SAVES, SCRIPT
from watched_store import ALL_POWERS, WatchedStore, powers_of

from blobcp import END, START, Graph, Interrupted, interrupt
from blobcp.errors import CheckpointConflictError, InvalidCheckpointIdError, StoreError
from blobcp.store import CheckPointSwapper
from blobcp.stores import FileStore, MapStore
from blobcp.stores.blobs import Blob
from blobcp.stores.wrappers.write_behind import WriteBehindStore

LIMIT = 30.0


class Gate:
    """Holds the writes of a store inside until it is opened; other calls pass."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()

    def __call__(self, method: str, checkpoint_id: str) -> None:
        if method in ("set", "delete", "set_expiring"):
            self.reached.set()
            assert self.opened.wait(LIMIT)


class Trouble:
    """Fails the writes of a store inside until it is over."""

    def __init__(self) -> None:
        self.over = False

    def __call__(self, method: str, checkpoint_id: str) -> None:
        if method in ("set", "delete", "set_expiring") and not self.over:
            raise ConnectionError("the network is away")


@pytest.fixture
def inside() -> WatchedStore:
    """The store inside."""
    return WatchedStore()


@pytest.fixture
def store(inside: WatchedStore) -> Iterator[WriteBehindStore]:
    """A store that writes behind, with one thread."""
    store = WriteBehindStore(inside, workers=1)
    yield store
    inside.before = lambda method, checkpoint_id: None
    with suppress(StoreError):  # of the test's own making
        store.flush(LIMIT)


@pytest.fixture
def gate(inside: WatchedStore) -> Iterator[Gate]:
    """What holds the store inside."""
    gate = Gate()
    inside.before = gate
    yield gate
    gate.opened.set()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, which needs no call of anybody."""
    for _ in range(int(LIMIT / 0.001)):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("it did not come about")


def fail_a_save(
    store: WriteBehindStore, inside: WatchedStore, checkpoint_id: str = "A", blob: bytes = b"blob"
) -> Trouble:
    """Save while the store inside is in trouble, and wait until the writing has failed."""
    inside.before = trouble = Trouble()
    store.set(checkpoint_id, blob)
    wait_until(lambda: checkpoint_id in store._queue._failed)
    return trouble


def test_a_save_does_not_wait_for_the_store_inside(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """Saves return while the store inside is busy, and get there in their order."""
    store.set("A", b"1")
    store.set("B", b"2")
    store.delete("C")

    assert inside.quiet.get("A") is None
    assert store.pending == {"A": b"1", "B": b"2", "C": None}
    gate.opened.set()
    store.flush(LIMIT)
    assert inside.calls == [("set", "A"), ("set", "B"), ("delete", "C")]
    assert [*inside.quiet.list()] == ["A", "B"]
    assert store.pending == {}


def test_reads_see_what_is_queued(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """What this object has saved or deleted it reads and lists so, wherever it is by now."""
    for checkpoint_id in ("a", "b", "é"):
        inside.quiet.set(checkpoint_id, b"old")
    store.set("c", b"new")
    assert gate.reached.wait(LIMIT)  # it is being written
    store.set("a", b"new")
    store.delete("b")
    store.set("c/1", b"new")
    store.set("😀", b"new")
    store.delete("never")

    assert [store.get(each) for each in ("a", "b", "c", "c/1", "é")] == [b"new", None, b"new", b"new", b"old"]
    assert [*store.list()] == ["a", "c", "c/1", "é", "😀"]
    assert [*store.list("c")] == ["c", "c/1"]
    gate.opened.set()
    store.flush(LIMIT)
    assert [*store.list()] == [*inside.quiet.list()] == ["a", "c", "c/1", "é", "😀"]


def test_the_newest_of_those_that_wait_is_written(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """Of several changes of one id that wait only the last is carried out, at the place of the first."""
    store.set("A", b"0")
    assert gate.reached.wait(LIMIT)
    for number in range(1, 6):
        store.set("A", b"%d" % number)
        store.set("B", b"%d" % number)
    store.delete("A")
    store.set("A", b"last")

    gate.opened.set()
    store.flush(LIMIT)

    assert inside.calls == [("set", "A"), ("set", "A"), ("set", "B")]
    assert (inside.quiet.get("A"), inside.quiet.get("B")) == (b"last", b"5")


def test_changes_of_one_id_are_never_at_once() -> None:
    """Eight threads that save and eight that write: one id is with one thread at a time, and gets newer and newer."""
    running: dict[str, int] = {}
    written: dict[str, list[int]] = {}

    class Checking(MapStore):
        def set(self, checkpoint_id: str, checkpoint: Blob) -> None:
            assert running.setdefault(checkpoint_id, 0) == 0
            running[checkpoint_id] += 1
            threading.Event().wait(0.0001)
            written.setdefault(checkpoint_id, []).append(int(bytes(checkpoint)))
            super().set(checkpoint_id, checkpoint)
            running[checkpoint_id] -= 1

    store = WriteBehindStore(Checking(), workers=8, max_pending=20)

    def save(number: int) -> None:
        for turn in range(100):
            store.set(f"{number}", b"%d" % turn)
            assert store.get(f"{number}") == b"%d" % turn

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(save, number) for number in range(8)]:
            done.result(LIMIT)
    store.flush(LIMIT)

    assert all(turns == sorted(turns) for turns in written.values())
    assert {turns[-1] for turns in written.values()} == {99}
    assert len(written) == 8


def test_the_queue_is_bounded(inside: WatchedStore, gate: Gate) -> None:
    """A save into a full queue waits for room, and fails after its time; one that replaces another needs none."""
    store = WriteBehindStore(inside, max_pending=2, workers=1, timeout=0)
    store.set("A", b"1")
    assert gate.reached.wait(LIMIT)
    store.set("B", b"1")
    store.set("B", b"2")

    with pytest.raises(StoreError, match="'C' was not queued: 2 changes wait to be written, 0 of them after a failure"):
        store.set("C", b"1")
    assert store.pending == {"A": b"1", "B": b"2"}
    store.timeout = LIMIT
    waiting = threading.Thread(target=store.set, args=("C", b"1"))
    waiting.start()
    gate.opened.set()
    waiting.join(LIMIT)
    store.flush(LIMIT)
    assert [*inside.quiet.list()] == ["A", "B", "C"]


def test_failures_fill_the_queue(inside: WatchedStore) -> None:
    """What could not be written takes room, and a save does not wait for what will not come."""
    store = WriteBehindStore(inside, max_pending=1, timeout=1000)
    trouble = fail_a_save(store, inside)
    with pytest.raises(StoreError, match="could not write checkpoint 'A'"):
        store.set("B", b"blob")

    with pytest.raises(StoreError, match="'B' was not queued: 1 changes wait to be written, 1 of them after a failure"):
        store.set("B", b"blob")

    trouble.over = True
    store.flush(LIMIT)
    store.set("B", b"blob")
    store.flush(LIMIT)
    assert [*inside.quiet.list()] == ["A", "B"]


CALLS: dict[str, Callable[[WriteBehindStore], object]] = {
    "get": lambda store: store.get("B"),
    "set": lambda store: store.set("B", b"blob"),
    "delete": lambda store: store.delete("B"),
    "list": lambda store: store.list(),
    "get_versioned": lambda store: store.get_versioned("B"),
    "set_if": lambda store: store.set_if("B", b"blob", None),
    "set_expiring": lambda store: store.set_expiring("B", b"blob", timedelta(days=1)),
    "flush": lambda store: store.flush(LIMIT),
    "close": lambda store: store.close(LIMIT),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_the_next_call_says_what_failed(
    store: WriteBehindStore, inside: WatchedStore, call: Callable[[WriteBehindStore], object]
) -> None:
    """Whatever is called next raises what became of the save, with its cause, and does nothing else; nothing is lost."""
    trouble = fail_a_save(store, inside)

    with pytest.raises(
        StoreError, match="could not write checkpoint 'A' behind: ConnectionError: the network is away"
    ) as caught:
        call(store)

    assert isinstance(caught.value.__cause__, ConnectionError)
    assert store.pending == {"A": b"blob"}
    assert store.get("A") == b"blob"
    assert [*store.list()] == ["A"]
    trouble.over = True
    store.flush(LIMIT)
    assert store.pending == {}
    assert inside.quiet.get("A") == b"blob"
    call(store)


def test_a_flush_that_helps_says_nothing(store: WriteBehindStore, inside: WatchedStore) -> None:
    """A failure that a flush makes good is none any more."""
    fail_a_save(store, inside).over = True

    store.flush(LIMIT)

    assert store.get("A") == inside.quiet.get("A") == b"blob"


def test_a_newer_save_takes_the_place_of_a_failed_one(store: WriteBehindStore, inside: WatchedStore) -> None:
    """What failed is not written over what came later."""
    trouble = fail_a_save(store, inside, blob=b"1")
    with pytest.raises(StoreError):
        store.set("A", b"2")
    trouble.over = True

    store.set("A", b"2")
    store.flush(LIMIT)

    assert inside.calls == [("set", "A"), ("set", "A")]
    assert inside.quiet.get("A") == b"2"


def test_an_old_failure_is_not_tried_after_a_newer_save(store: WriteBehindStore, inside: WatchedStore) -> None:
    """What fails while a newer save waits is not kept, and never comes back over that one."""
    gate = Gate()

    def fail_once(method: str, checkpoint_id: str) -> None:
        gate(method, checkpoint_id)
        if len(inside.calls) == 1:
            raise ConnectionError("the network is away")

    inside.before = fail_once
    store.set("A", b"1")
    assert gate.reached.wait(LIMIT)
    store.set("A", b"2")
    gate.opened.set()
    wait_until(lambda: inside.quiet.get("A") == b"2")

    with pytest.raises(StoreError, match="could not write checkpoint 'A'"):
        store.flush(LIMIT)
    assert store.pending == {}
    store.flush(LIMIT)
    assert inside.quiet.get("A") == b"2"


def test_ids_are_written_beside_each_other(inside: WatchedStore) -> None:
    """As many ids are being written at once as there may be threads."""
    together = threading.Barrier(3)

    def meet(method: str, checkpoint_id: str) -> None:
        together.wait(LIMIT)

    inside.before = meet
    store = WriteBehindStore(inside, workers=3)
    for checkpoint_id in ("A", "B", "C"):
        store.set(checkpoint_id, b"blob")

    store.flush(LIMIT)

    assert [*inside.quiet.list()] == ["A", "B", "C"]


def test_a_failure_under_a_newer_save_is_told_too(store: WriteBehindStore, inside: WatchedStore) -> None:
    """A store that always fails is not silent because somebody always saves anew."""
    gate, trouble = Gate(), Trouble()

    def both(method: str, checkpoint_id: str) -> None:
        gate(method, checkpoint_id)
        trouble(method, checkpoint_id)

    inside.before = both
    store.set("A", b"1")
    assert gate.reached.wait(LIMIT)
    store.set("A", b"2")
    gate.opened.set()
    wait_until(lambda: "A" in store._queue._failed)

    with pytest.raises(StoreError, match="could not write checkpoint 'A'"):
        store.get("B")
    assert store.pending == {"A": b"2"}


def test_even_an_exit_inside_is_told(store: WriteBehindStore, inside: WatchedStore) -> None:
    """A store inside that ends its thread leaves nobody waiting."""

    def leave(method: str, checkpoint_id: str) -> None:
        if method == "set":
            sys.exit(3)

    inside.before = leave
    store.set("A", b"blob")

    with pytest.raises(StoreError, match="could not write checkpoint 'A' behind: SystemExit: 3"):
        store.flush(LIMIT)
    assert store.pending == {"A": b"blob"}


def test_a_flush_has_a_limit(store: WriteBehindStore, gate: Gate) -> None:
    """A flush that takes too long says how much is left."""
    store.set("A", b"1")
    store.set("B", b"1")

    with pytest.raises(StoreError, match="2 changes are not written after 0 seconds"):
        store.flush(0)


def test_comparing_waits_for_the_queue(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """A conditional write sees what was saved before, goes straight through, and does not wait for other ids."""
    store.set("A", b"1")
    assert gate.reached.wait(LIMIT)
    store.set("Z", b"1")
    store.set("B", b"1")

    def open_gate() -> None:
        wait_until(lambda: next(iter(store._queue._waiting)) == "B")
        gate.opened.set()

    opener = threading.Thread(target=open_gate)
    opener.start()
    found = store.get_versioned("B")
    opener.join(LIMIT)

    assert found
    assert found[0] == b"1"
    assert inside.calls[:2] == [("set", "A"), ("set", "B")]
    version = store.set_if("B", b"2", found[1])
    assert inside.quiet.get("B") == b"2"
    store.set("B", b"3")
    with pytest.raises(CheckpointConflictError):
        store.set_if("B", b"4", version)
    store.delete("B")
    assert store.get_versioned("B") is None
    assert store.set_if("B", b"5", None)


def test_comparing_has_a_limit(inside: WatchedStore, gate: Gate) -> None:
    """A conditional call whose id is not written in time is an error, and writes nothing."""
    store = WriteBehindStore(inside, timeout=0)
    store.set("A", b"1")

    for call in (lambda: store.get_versioned("A"), lambda: store.set_if("A", b"2", None)):
        with pytest.raises(StoreError, match="the earlier save of checkpoint 'A' is not written after 0 seconds"):
            call()
    assert {method for method, _ in inside.calls} == {"set"}


def test_comparing_tries_again_what_failed(store: WriteBehindStore, inside: WatchedStore) -> None:
    """A failed save of the id is tried again first; where that fails too, nothing is compared."""
    trouble = fail_a_save(store, inside)
    with pytest.raises(StoreError, match="could not write checkpoint 'A'"):
        store.get("B")

    with pytest.raises(StoreError, match="could not write checkpoint 'A'"):
        store.get_versioned("A")
    trouble.over = True
    found = store.get_versioned("A")

    assert found
    assert found[0] == b"blob"
    assert inside.quiet.get("A") == b"blob"


def test_comparing_can_be_left_out(inside: WatchedStore) -> None:
    """Without compare-and-set, which sends saves straight through, a run saves behind."""
    gate = Gate()
    inside.before = gate
    store = WriteBehindStore(inside, compare_and_set=False)
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: text + interrupt("and?"))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    app = graph.compile(store=store)

    with pytest.raises(Interrupted):
        app.invoke("well", checkpoint_id="A")
    assert inside.quiet.get("A") is None
    assert app.resume("A", answer=" done") == "well done"

    gate.opened.set()
    store.flush(LIMIT)
    assert inside.quiet.get("A") is not None
    assert powers_of(store) == ALL_POWERS - {CheckPointSwapper}


def test_expiry_counts_from_the_save(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """What expires in the queue is not there any more, and replaces what was there before all the same."""
    inside.quiet.set("A", b"old")
    inside.quiet.set("B", b"old")
    store.set_expiring("A", b"new", timedelta(milliseconds=1))
    store.set_expiring("B", b"new", timedelta.max)

    wait_until(lambda: store.get("A") is None)
    assert store.get("B") == b"new"
    assert [*store.list()] == ["B"]
    gate.opened.set()
    store.flush(LIMIT)
    wait_until(lambda: inside.quiet.get("A") is None)
    assert inside.quiet.get("B") == b"new"
    assert [*store.list()] == ["B"]


def test_the_time_in_the_queue_counts() -> None:
    """The store inside gets what is left of the time to live."""
    given: list[timedelta] = []

    class Noting(MapStore):
        def set_expiring(self, checkpoint_id: str, checkpoint: Blob, ttl: timedelta) -> None:
            given.append(ttl)

    store = WriteBehindStore(Noting())
    store.set_expiring("A", b"blob", timedelta(hours=1))
    store.flush(LIMIT)

    assert len(given) == 1
    assert timedelta(hours=1) - timedelta(seconds=LIMIT) < given[0] < timedelta(hours=1)


def test_a_closed_store_takes_no_saves(inside: WatchedStore) -> None:
    """A store that is left is written out; it goes on reading, and the store inside stays open."""
    with WriteBehindStore(inside) as store:
        store.set("A", b"blob")

    assert inside.quiet.get("A") == b"blob"
    assert store.get("A") == b"blob"
    for call in ("set", "delete", "set_if"):
        with pytest.raises(StoreError, match="closed and takes no more changes"):
            CALLS[call](store)
    assert [*inside.list()] == ["A"]


def test_a_store_that_could_not_be_closed_is_open(store: WriteBehindStore, inside: WatchedStore) -> None:
    """Where leaving fails nothing is lost, and it can be tried again."""
    trouble = fail_a_save(store, inside)
    with pytest.raises(StoreError, match="could not write"), store:
        pass

    assert store.pending == {"A": b"blob"}
    trouble.over = True
    store.close()
    assert inside.quiet.get("A") == b"blob"


def test_a_store_that_nobody_holds_is_written_out(inside: WatchedStore, gate: Gate) -> None:
    """What was saved is written though the store itself is gone."""
    WriteBehindStore(inside).set("A", b"blob")
    gate.opened.set()

    wait_until(lambda: inside.quiet.get("A") == b"blob")


def test_the_caller_may_go_on_with_its_buffer(store: WriteBehindStore, inside: WatchedStore, gate: Gate) -> None:
    """F11: later changes of the caller's buffer do not reach the queue."""
    buffer = bytearray(b"blob")
    store.set("A", buffer)
    buffer[0] = 0

    assert store.get("A") == b"blob"
    for wrong in ("text", None):
        with pytest.raises(StoreError, match="a store keeps bytes"):
            store.set("A", wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidCheckpointIdError):
        store.set("", b"blob")


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copy_has_a_queue_of_its_own(
    tmp_path: Path, make_copy: Callable[[WriteBehindStore], WriteBehindStore]
) -> None:
    """Before a store is copied its queue is written, so that the copy finds everything."""
    store = WriteBehindStore(FileStore(tmp_path, durable=False), workers=2, max_pending=7)
    for number in range(5):
        store.set(f"{number}", b"blob")

    other = make_copy(store)

    assert [*FileStore(tmp_path).list()] == [*other.list()] == [f"{number}" for number in range(5)]
    other.set("other", b"blob")
    other.flush(LIMIT)
    assert store.get("other") == b"blob"
    assert (other.workers, other.max_pending, powers_of(other)) == (2, 7, powers_of(store))


def run_to_the_end(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program that saves behind."""
    command = [sys.executable, str(SCRIPT), how, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("how", ["plain", "late", "raising", "daemon", "endless", "interrupted"])
def test_nothing_is_lost_at_the_end_of_a_program(tmp_path: Path, how: str) -> None:
    """The interpreter ends when all is written, what an exit handler and daemons save included, and it does end."""
    done = run_to_the_end(how, tmp_path / "store")

    store = FileStore(tmp_path / "store")
    assert done.returncode == (how == "raising"), done.stderr
    assert {each: store.get(each) for each in store.list() if not each.startswith("endless")} == {
        **{f"{number}": b"%d" % number for number in range(SAVES)},
        **({"late": b"late"} if how == "late" else {}),
    }


def test_a_last_try_at_the_end_of_a_program(tmp_path: Path) -> None:
    """What has failed is tried once more before the interpreter ends."""
    done = run_to_the_end("recovering", tmp_path / "store")

    assert (done.returncode, done.stderr) == (0, "")
    assert FileStore(tmp_path / "store").get("A") == b"blob"


def test_the_end_of_a_program_says_what_is_lost(tmp_path: Path) -> None:
    """Where the last try fails, too, the id stands on standard error."""
    done = run_to_the_end("failing", tmp_path / "store")

    assert "checkpoints are lost with the end of the interpreter" in done.stderr
    assert "could not write checkpoint 'A' behind: StoreError: the network is away" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_leaves_the_queue_to_the_parent(tmp_path: Path) -> None:
    """A child refuses what was queued in its parent, and has a queue and threads of its own for everything else."""
    inside = WatchedStore(FileStore(tmp_path, durable=False))
    inside.before = gate = Gate()
    store = WriteBehindStore(inside)
    store.set("A", b"parent")
    assert gate.reached.wait(LIMIT)
    store.set("A", b"parent, too")

    def use() -> None:
        inside.before = lambda method, checkpoint_id: None
        for call in (lambda: store.get("A"), lambda: store.set("A", b"child"), lambda: store.list()):
            with pytest.raises(StoreError, match="'A' was still queued in the parent"):
                call()
        store.set("B", b"child")
        assert store.get("B") == b"child"
        store.flush(LIMIT)

    assert run_in_child(use) == 0

    gate.opened.set()
    store.flush(LIMIT)
    assert (store.get("A"), store.get("B")) == (b"parent, too", b"child")


@pytest.mark.parametrize("wrong", [{"max_pending": 0}, {"workers": 0}, {"timeout": -1}])
def test_refuses_arguments_that_can_not_work(wrong: dict[str, int]) -> None:
    """Numbers that would let nothing through are refused."""
    with pytest.raises(StoreError, match="WriteBehindStore can't work with"):
        WriteBehindStore(MapStore(), **wrong)  # type: ignore[arg-type]
