"""What is under an id and can't be used: refused before any node runs, with the id, and left as it is."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from bad_blobs import Bench, Text, resealed
from drivers import Runner
from graphs import chain
from stored_runs import TwoMethodStore, header_of, refused

from blobcp import (
    CheckpointCorruptError,
    CheckpointMismatchError,
    CheckpointVersionError,
    Envelope,
    MsgpackSerializer,
    SerializationError,
    StoreError,
)


@pytest.fixture
def bench(runner: Runner, mode: dict[str, Any]) -> Bench:
    """A stopped run, in every way to run it."""
    return Bench(runner, mode)


FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "one byte": b"B",
    "the magic alone": b"BCP1",
    "text": b"hello " * 100,
    "json": b'{"channels": {}, "inputs": {}}',
    "msgpack": b"\x82\xa8channels\x80\xa6inputs\x80",
    "zeros": bytes(4096),
    "a pickle": pickle.dumps({"a": 1}),
    "another magic": b"PK\x03\x04" + bytes(200),
}


@pytest.mark.parametrize("what", list(FOREIGN))
def test_foreign_bytes(bench: Bench, what: str) -> None:
    """Bytes that are no blob of ours, an empty file among them, are corrupt, not absent."""
    error = bench.refuses(CheckpointCorruptError, FOREIGN[what])

    assert "corrupt" in str(error)
    assert error.checkpoint_id == "A"


def test_truncated_blobs(bench: Bench) -> None:
    """F19 (4): every prefix of a blob is corrupt."""
    for size in {*range(64), *range(64, len(bench.blob), 97), len(bench.blob) - 1}:
        bench.refuses(CheckpointCorruptError, bench.blob[:size])
    bench.refuses(CheckpointCorruptError, bench.blob + b"\0")


def test_a_blob_copied_by_hand(bench: Bench) -> None:
    """A blob under another id than the one it was sealed for is refused with both ids."""
    error = bench.refuses(CheckpointCorruptError, bench.blob, id="copy")

    assert "'A'" in str(error)
    assert error.checkpoint_id == "copy"


def test_a_newer_format(bench: Bench) -> None:
    """A blob of a newer format is refused with both versions, and so are flags that are not known."""

    def newer(body: bytearray) -> None:
        body[3:4] = b"2"

    def flagged(body: bytearray) -> None:
        body[4] |= 0x40

    error = bench.refuses(CheckpointVersionError, resealed(bench.blob, newer))
    assert ("version 2" in str(error), "version 1" in str(error)) == (True, True)
    bench.refuses(CheckpointVersionError, resealed(bench.blob, flagged))


@pytest.mark.parametrize("value", [None, [], {"channels": {}}, "text", 7])
def test_a_body_that_is_no_checkpoint(bench: Bench, value: Any) -> None:
    """A whole blob whose body is some other value is corrupt."""
    sealed = Envelope().seal(header_of(bench.store, "A"), MsgpackSerializer().dumps(value))

    assert "corrupt" in str(bench.refuses(CheckpointCorruptError, sealed))


def test_an_empty_body(bench: Bench) -> None:
    """A header without a body that does not say "done" is no done mark, and not absent either."""
    bench.store.blobs["A"] = Envelope().seal(header_of(bench.store, "A"), b"")
    with pytest.raises((CheckpointCorruptError, SerializationError)):
        bench.runner.invoke(bench.app, "a", checkpoint_id="A")
    assert bench.calls.order == ["1", "ask"]
    assert len(bench.store.versions) == 1


def test_another_graph(bench: Bench) -> None:
    """A blob of a graph of another name is refused with both names."""
    other = bench.build(bench.store, bench.mode, name="invoices")
    error = bench.refuses(CheckpointMismatchError, bench.blob, app=other)

    assert ("'root'" in str(error), "'invoices'" in str(error)) == (True, True)


@pytest.mark.parametrize("keys", [("1",), ("ask",), ("2", "3")], ids=" ".join)
def test_a_graph_that_lacks_a_node(bench: Bench, keys: tuple[str, ...]) -> None:
    """A blob that names a node or channel which the graph lacks is refused with that name."""
    smaller = chain(*keys, calls=bench.calls, state=Text).compile(store=bench.store, **bench.mode)
    error = bench.refuses(CheckpointMismatchError, bench.blob, app=smaller, pending=False)

    assert ("'ask'" in str(error)) or ("'1'" in str(error))
    assert str(list(keys)) in str(error)


def test_the_other_mode(bench: Bench) -> None:
    """A blob written in one mode is refused by the other, with the channel."""
    other = bench.build(bench.store, {"mode": "dag" if bench.mode["mode"] == "pregel" else "pregel"})

    assert "channel '1'" in str(bench.refuses(CheckpointMismatchError, bench.blob, app=other, pending=False))


@pytest.mark.parametrize("error", [ConnectionError("gone"), PermissionError("no"), TimeoutError("slow"), KeyError("A")])
def test_a_store_that_can_not_read(runner: Runner, mode: dict[str, Any], error: Exception) -> None:
    """F25: "could not read" is never "nothing there": the cause is kept, nothing runs, nothing is written."""
    bench = Bench(runner, mode)

    class Failing(TwoMethodStore):
        def get(self, checkpoint_id: str) -> bytes | None:
            self.calls.append(("get", checkpoint_id))
            raise error

    failing = Failing()
    app = bench.build(failing, mode)
    for call, arguments, options in (
        (runner.invoke, ("a",), {"checkpoint_id": "A"}),
        (runner.invoke, ("a",), {"checkpoint_id": "A", "write_to_checkpoint_id": "B"}),
        (runner.resume, ("A",), {}),
        (runner.pending, ("A",), {}),
    ):
        raised = refused(StoreError, call, app, *arguments, **options)
        assert (type(raised.__cause__), raised.__cause__.args) == (type(error), error.args)
        assert "'A'" in str(raised)
    assert failing.calls == [("get", "A")] * 4
    assert bench.calls.order == ["1", "ask"]


@pytest.mark.parametrize("value", ["text", 0, False, [], {"a": 1}, object()], ids=repr)
def test_a_store_that_gives_something_else(runner: Runner, mode: dict[str, Any], value: Any) -> None:
    """F25: what is neither bytes nor ``None`` is an error of the store's, not "nothing there"."""
    bench = Bench(runner, mode)
    app = bench.build(Giving(value), mode)

    for call, arguments, options in (
        (runner.invoke, ("a",), {"checkpoint_id": "A"}),
        (runner.resume, ("A",), {}),
        (runner.pending, ("A",), {}),
    ):
        error = refused(StoreError, call, app, *arguments, **options)
        assert type(value).__name__ in str(error)
        assert "'A'" in str(error)
    assert bench.calls.order == ["1", "ask"]


class Giving:
    """A store that has one value under every id."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self, checkpoint_id: str) -> Any:
        return self.value

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        raise AssertionError("nothing is to be written")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_store_that_gives_another_kind_of_bytes(runner: Runner, mode: dict[str, Any], kind: Any) -> None:
    """F11: bytes-like values are read, and changing the buffer afterwards reaches nothing that was handed out."""
    bench = Bench(runner, mode)
    buffer = bytearray(bench.blob)
    app = bench.build(Giving(buffer if kind is bytearray else kind(bytes(buffer))), mode)
    points = runner.pending(app, "A")
    buffer[:] = bytes(len(buffer))

    assert [point.info for point in points] == ["q"]
