from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any

import msgspec
import pytest

from blobcp.codec import Envelope, Header, Parent, PendingInterrupt, digest_of, read_header
from blobcp.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError

ID = "orders/7 ☕"
HEADER = Header(
    serializer="msgpack",
    state_version=3,
    graph="root",
    checkpoint_id=ID,
    parent=Parent("orders/6", "ab" * 32),
    run_id="run-1",
    step=4,
    created_at=datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
    status="interrupted",
    pending=[PendingInterrupt("i1", "runnable:root;node:ask")],
)
BODY = bytes(range(256))
BLOB = Envelope().seal(HEADER, BODY)
FRAME_SIZE, DIGEST_SIZE = 17, 32


def framed(head: bytes, body: bytes = b"", *, magic: bytes = b"BCP1", flags: int = 0) -> bytes:
    """Build a blob by hand, with a right digest."""
    start = struct.pack(">4sBIQ", magic, flags, len(head), len(body)) + head + body
    return start + blake2b(start, digest_size=DIGEST_SIZE).digest()


def test_header_and_body_come_back() -> None:
    """What was sealed is what is opened."""
    header, body = Envelope().open(BLOB, checkpoint_id=ID)

    assert header == HEADER
    assert bytes(body) == BODY
    assert read_header(BLOB) == HEADER


def test_the_frame_is_as_documented() -> None:
    """The layout is magic, flags, two lengths, header, body, digest of all before it."""
    head_size = struct.unpack_from(">I", BLOB, 5)[0]

    assert BLOB[:5] == b"BCP1\0"
    assert struct.unpack_from(">Q", BLOB, 9)[0] == 256
    assert msgspec.msgpack.decode(BLOB[FRAME_SIZE : FRAME_SIZE + head_size])["checkpoint_id"] == ID
    assert BLOB[FRAME_SIZE + head_size : -DIGEST_SIZE] == BODY
    assert BLOB[-DIGEST_SIZE:] == blake2b(BLOB[:-DIGEST_SIZE], digest_size=32).digest()
    assert digest_of(BLOB) == BLOB[-DIGEST_SIZE:].hex()
    assert framed(BLOB[FRAME_SIZE : FRAME_SIZE + head_size], BODY) == BLOB


def test_a_done_mark_has_no_body() -> None:
    """A finished run is a header-only blob."""
    header, body = Envelope().open(Envelope().seal(Header(checkpoint_id=ID, status="done"), b""), checkpoint_id=ID)

    assert header.status == "done"
    assert bytes(body) == b""


@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=2))])
def test_created_at_is_stored_in_utc(zone: timezone | None) -> None:
    """Whatever zone the time of writing has, it is read as UTC."""
    moment = datetime(2024, 5, 6, 12, tzinfo=zone)
    blob = Envelope().seal(Header(checkpoint_id=ID, created_at=moment), b"")

    found = read_header(blob).created_at

    assert found == datetime(2024, 5, 6, 10 if zone else 12, tzinfo=UTC)
    assert found.tzinfo is UTC


def test_unknown_header_fields_are_ignored() -> None:
    """A later release may add fields to the header."""
    head = msgspec.msgpack.encode({"checkpoint_id": ID, "status": "done", "colour": "red"})

    assert Envelope().open(framed(head), checkpoint_id=ID)[0] == Header(checkpoint_id=ID, status="done")


@pytest.mark.parametrize("size", range(len(BLOB)))
def test_no_prefix_is_a_blob(size: int) -> None:
    """F19 (4): every truncation is corrupt, and says so with the id."""
    with pytest.raises(CheckpointCorruptError, match="corrupt") as caught:
        Envelope().open(BLOB[:size], checkpoint_id=ID)

    assert caught.value.checkpoint_id == ID
    assert ID in str(caught.value)
    with pytest.raises(CheckpointCorruptError, match="corrupt"):
        read_header(BLOB[:size])


def test_no_flipped_bit_goes_unnoticed() -> None:
    """F19 (5): each bit of a blob, flipped, is an error of ours that says what is wrong."""
    for place in range(len(BLOB)):
        for bit in range(8):
            changed = bytearray(BLOB)
            changed[place] ^= 1 << bit

            with pytest.raises((CheckpointCorruptError, CheckpointVersionError)) as caught:
                Envelope().open(bytes(changed), checkpoint_id=ID)

            assert caught.value.checkpoint_id == ID
            assert "corrupt" in str(caught.value) or "version" in str(caught.value)


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (b"", "empty"),
        (b"B", "truncated"),
        (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.", "does not begin"),
        (b"BCPX" + BLOB[4:], "does not begin"),
        (BLOB + b"\0", "1 bytes follow"),
        (BLOB + BLOB, "bytes follow"),
        (BLOB[:5] + b"\x7f\xff\xff\xff" + BLOB[9:], "announces a header of 2147483647"),
        (BLOB[:9] + b"\x7f" + b"\xff" * 7 + BLOB[17:], "announces a body of 9223372036854775807"),
        (BLOB[:9] + struct.pack(">Q", 100_000_000) + BLOB[17:50], "truncated to 50 of"),
        (BLOB[:-1] + bytes([BLOB[-1] ^ 1]), "digest"),
        (framed(b""), "header can't be read"),
        (framed(b"\xc1"), "header can't be read"),
        (framed(b"\x91" * 100_000), "header can't be read"),
        (framed(b"\xdd\xff\xff\xff\xff"), "header can't be read"),
        (framed(msgspec.msgpack.encode({"status": "done"})), "checkpoint_id"),
        (framed(msgspec.msgpack.encode({"checkpoint_id": ID, "status": "asleep"})), "asleep"),
        (framed(msgspec.msgpack.encode({"checkpoint_id": ID, "step": "one"})), "step"),
    ],
)
def test_foreign_and_damaged_bytes_are_corrupt(blob: bytes, said: str) -> None:
    """F19: foreign bytes, wrong lengths and broken headers are refused in words, at no cost of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointCorruptError) as caught:
            Envelope().open(blob, checkpoint_id=ID)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "corrupt" in str(caught.value)
    assert said in str(caught.value)
    assert "restore the blob from a backup" in str(caught.value)
    assert caught.value.checkpoint_id == ID
    assert peak < 4_000_000


def test_a_newer_format_is_refused_before_anything_else() -> None:
    """A newer version names both versions, though its layout may differ from ours."""
    with pytest.raises(CheckpointVersionError) as caught:
        Envelope().open(b"BCP2" + b"?" * 60, checkpoint_id=ID)

    assert "version 2" in str(caught.value)
    assert "version 1" in str(caught.value)
    assert ID in str(caught.value)


@pytest.mark.parametrize("flag", [16, 32, 64, 128, 255])
def test_unknown_flags_are_of_a_newer_release(flag: int) -> None:
    """A flag that we do not know means that the body can't be read as it is."""
    with pytest.raises(CheckpointVersionError, match="flags"):
        read_header(framed(msgspec.msgpack.encode({"checkpoint_id": ID}), flags=flag))


def test_a_copied_blob_is_noticed() -> None:
    """A blob that was copied under another id by hand names the id that it was made for."""
    with pytest.raises(CheckpointCorruptError) as caught:
        Envelope().open(BLOB, checkpoint_id="orders/8")

    assert "corrupt" in str(caught.value)
    assert f"copied by hand from {ID!r}" in str(caught.value)
    assert caught.value.checkpoint_id == "orders/8"
    assert read_header(BLOB).checkpoint_id == ID


@pytest.mark.parametrize(
    ("limits", "said"), [({"max_header_bytes": 10}, "max_header_bytes"), ({"max_body_bytes": 255}, "max_body_bytes")]
)
def test_limits_hold_both_ways(limits: dict[str, int], said: str) -> None:
    """Too much is neither written nor read."""
    with pytest.raises(CheckpointError, match=said):
        Envelope(**limits).seal(HEADER, BODY)
    with pytest.raises(CheckpointCorruptError, match="limit"):
        Envelope(**limits).open(BLOB, checkpoint_id=ID)


def test_a_header_that_can_not_be_written_is_our_error() -> None:
    """A lone surrogate, an absurd step or a time that UTC lacks is told, and not raised by a lower layer."""
    before_time = datetime.min.replace(tzinfo=timezone(timedelta(hours=2)))
    headers: list[dict[str, Any]] = [
        {"graph": "\ud800"},
        {"step": 2**70},
        {"created_at": before_time},
        {"created_at": 7},
    ]
    for header in (Header(checkpoint_id=ID, **fields) for fields in headers):
        with pytest.raises(CheckpointError, match="can't be written"):
            Envelope().seal(header, b"")


@pytest.mark.parametrize("blob", [b"", b"BCP1", b"nothing of ours" * 9])
def test_digest_of_needs_a_blob(blob: bytes) -> None:
    """Foreign or short bytes have no digest."""
    with pytest.raises(CheckpointCorruptError, match="corrupt"):
        digest_of(blob)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: Callable[[bytes], bytes]) -> None:
    """Stores may give bytes, bytearray or memoryview."""
    header, body = Envelope().open(kind(BLOB), checkpoint_id=ID)

    assert header == HEADER
    assert body == BODY
