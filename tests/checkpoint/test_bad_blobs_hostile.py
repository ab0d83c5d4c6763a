"""Bytes that somebody made to do harm: nothing is run, imported or believed for them."""

from __future__ import annotations

import pickle
import random
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bad_blobs import Bench, Text, resealed
from drivers import Runner
from stored_runs import checkpoint_of, header_of

from blobcp import (
    BlobcpError,
    CheckpointCorruptError,
    CheckpointMismatchError,
    CheckpointVersionError,
    Envelope,
    Header,
    MsgpackSerializer,
    Registry,
    SerializationError,
    UnknownTypeError,
)

PREFIX = 17
"""Bytes in front of the header: magic, flags and two lengths."""

STEP = {"sync": 1, "async": 5}
"""Every how many bytes one is changed; both drivers read blobs by the same code, and an event loop takes its time."""


@dataclass
class Innocent:
    """A class that a test writes under a name which is not its own."""

    command: str = "true"


@pytest.fixture
def bench(runner: Runner, mode: dict[str, Any]) -> Bench:
    """A stopped run, in every way to run it."""
    return Bench(runner, mode)


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_flipped_bytes(runner: Runner, mask: int) -> None:
    """F19 (5): a blob with any one byte changed is refused before any node runs, never read as something else."""
    bench = Bench(runner, {"mode": "pregel"})
    for at in range(0, len(bench.blob), STEP[runner.name]):
        flipped = bytearray(bench.blob)
        flipped[at] ^= mask
        bench.store.blobs["A"] = bytes(flipped)
        with pytest.raises((CheckpointCorruptError, CheckpointVersionError)) as caught:
            runner.resume(bench.app, "A", answer="!")
        assert caught.value.checkpoint_id == "A"
    assert bench.calls.order == ["1", "ask"]
    assert len(bench.store.versions) == 1


def test_flipped_bytes_under_a_digest_that_fits(runner: Runner) -> None:
    """F19 (5): even where the digest was made anew, any changed byte gives an error of ours or a run, nothing bare."""
    bench = Bench(runner, {"mode": "pregel"})
    chance = random.Random(19)
    for at in range(PREFIX, len(bench.blob) - 32, STEP[runner.name]):

        def change(body: bytearray, at: int = at) -> None:
            body[at] ^= 1 << chance.randrange(8)

        bench.store.blobs["A"] = resealed(bench.blob, change)
        try:
            runner.pending(bench.app, "A")
            runner.resume(bench.app, "A", {bench.stop.interrupts[0].id: "!"})
        except BlobcpError:
            pass


def test_a_length_that_is_a_lie(bench: Bench) -> None:
    """F19 (6): lengths that the blob does not have are refused before anything is made of that size."""
    for head, body in ((100_000_000, 1), (1, 100_000_000), (2**32 - 1, 2**64 - 1), (0, 0)):
        lie = b"BCP1\0" + struct.pack(">IQ", head, body) + bytes(50)
        bench.refuses(CheckpointCorruptError, lie)


def test_deep_nesting(bench: Bench) -> None:
    """F19 (6): a body nested a hundred thousand deep is refused, and no RecursionError comes out."""
    bench.refuses(SerializationError, Envelope().seal(header_of(bench.store, "A"), b"\x91" * 100_000 + b"\xc0"))
    sealed = Envelope().seal(Header(checkpoint_id="A", status="interrupted", graph="root"), b"\x81\xa1a" * 100_000)
    bench.refuses(SerializationError, sealed)


class Bomb:
    """A value whose pickle makes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (self.path, "w"))


def test_pickles_are_not_loaded(bench: Bench, tmp_path: Path) -> None:
    """F19 (1), (2): a pickle, bare or in a valid frame, under any serializer's name, is refused and not run."""
    marker = tmp_path / "marker"
    bomb = pickle.dumps(Bomb(str(marker)))
    header = header_of(bench.store, "A")
    bench.refuses(CheckpointCorruptError, bomb)
    for name in ("pickle", "cloudpickle", "Pickle", "", "os.system"):
        changed = Header(checkpoint_id="A", graph="root", status="interrupted", serializer=name, pending=header.pending)
        error = bench.refuses(CheckpointMismatchError, Envelope().seal(changed, bomb))
        assert "not allowed" in str(error)
        assert repr(name) in str(error)
    bench.refuses(SerializationError, Envelope().seal(header, bomb))

    assert not marker.exists()


@pytest.mark.parametrize("place", ["state", "input", "interrupt"])
@pytest.mark.parametrize("name", ["os.system", "poc_mod.mark", "builtins.eval", "poc_mod"])
def test_names_are_not_imported(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    """F19 (3): a type name that is not registered is refused wherever it stands; nothing is imported or called for it."""
    (tmp_path / "poc_mod.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\ndef mark(*args): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    registry.add(Innocent, name=name)
    registry.add(Text, name=f"{Text.__module__}.{Text.__qualname__}")
    stored = checkpoint_of(bench.store, "A")
    if place == "state":
        stored.state = Innocent()
    elif place == "input":
        stored.inputs["ask"] = [Innocent()]
    else:
        stored.interrupt_id_to_state[bench.stop.interrupts[0].id].state = {"a": Innocent()}
    body = MsgpackSerializer(registry).dumps(stored)
    error = bench.refuses(UnknownTypeError, Envelope().seal(header_of(bench.store, "A"), body))

    assert error.name == name
    assert "not allowed" in str(error)
    assert place in error.path
    assert "poc_mod" not in sys.modules
    assert not (tmp_path / "marker").exists()
