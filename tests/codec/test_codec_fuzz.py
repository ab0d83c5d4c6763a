from __future__ import annotations

import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_blobs import FILES, golden, make

from blobcp.codec import MsgpackSerializer, read_header
from blobcp.errors import BlobcpError, CheckpointError

MEBIBYTE = 1 << 20
FRAME = struct.Struct(">4sBIQ")
DIGEST_SIZE = 32
ENCRYPTED, SIGNED = 4, 8
SERIALIZER = MsgpackSerializer(make.registry())

full = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it"),
]
many_rounds = pytest.mark.parametrize("rounds", [2000, pytest.param(20_000, marks=full)], ids=["short", "full"])
every_blob = pytest.mark.parametrize("name", FILES)


def load(name: str, blob: bytes) -> Any:
    """Open a blob with the right keys and decode its body, as the framework does."""
    header, body = make.reader_of(name).open(blob, checkpoint_id=make.ID)
    return None if header.status == "done" else SERIALIZER.loads(body)


def is_refused(name: str, blob: bytes) -> bool:
    """Tell whether a blob is refused, by its header and whole; any error that is not ours passes through."""
    try:
        read_header(blob)
    except CheckpointError:
        header_refused = True
    else:
        header_refused = False
    try:
        load(name, blob)
    except BlobcpError:
        return True
    assert not header_refused, "a blob with a bad header was opened"
    return False


@contextmanager
def little_memory() -> Iterator[None]:
    """Demand that nothing in the block takes 64 MiB at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 64 * MEBIBYTE
    finally:
        tracemalloc.stop()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Change bytes in one to three places: other values, bytes gone, bytes twice, or bytes from elsewhere."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at, length = chance.randrange(len(changed) + 1), chance.randint(1, 8)
        match chance.randrange(6):
            case 0:
                changed[at : at + length] = chance.randbytes(len(changed[at : at + length]))
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                changed[at : at + length] = bytes([chance.choice([0, 0x7F, 0x80, 0xC9, 0xDD, 0xDF, 0xFF])]) * length
            case 4 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case _:
                elsewhere = chance.randrange(len(changed) + 1)
                changed[at : at + length] = changed[elsewhere : elsewhere + length]
    return bytes(changed)


def parts_of(blob: bytes) -> tuple[int, bytes, bytes, bytes]:
    """Return flags, header, body and signature of a good blob."""
    _, flags, header_size, body_size = FRAME.unpack_from(blob)
    middle, end = FRAME.size + header_size, FRAME.size + header_size + body_size
    return flags, blob[FRAME.size : middle], blob[middle:end], blob[end:-DIGEST_SIZE]


def framed(flags: int, header: bytes, body: bytes, signature: bytes) -> bytes:
    """Return a blob with right lengths and a right digest, as anybody can make it."""
    start = FRAME.pack(b"BCP1", flags, len(header), len(body)) + header + body + signature
    return start + blake2b(start, digest_size=DIGEST_SIZE).digest()


@every_blob
class TestEveryPlace:
    def test_no_changed_byte_is_missed(self, name: str) -> None:
        """F19 (5): a blob with a byte changed, in all its bits or in one, is refused by an error of ours."""
        blob = golden(name)

        with little_memory():
            for place in range(len(blob)):
                for mask in (0xFF, 1 << place % 8):
                    changed = blob[:place] + bytes([blob[place] ^ mask]) + blob[place + 1 :]
                    assert is_refused(name, changed), (place, mask)

    def test_no_truncation_is_missed(self, name: str) -> None:
        """F19 (4): so is every prefix, and every suffix."""
        blob = golden(name)

        with little_memory():
            for place in range(len(blob)):
                assert is_refused(name, blob[:place]), place
                assert place == 0 or is_refused(name, blob[place:]), place

    def test_no_length_is_believed(self, name: str) -> None:
        """F19 (6): lengths of any size in the frame are refused at no cost."""
        blob = golden(name)
        sizes = [0, 1, 2**16, 2**20, 2**31, 2**32 - 1]

        tracemalloc.start()
        try:
            for header_size in sizes:
                for body_size in [*sizes, 2**32, 2**63, 2**64 - 1]:
                    assert is_refused(name, FRAME.pack(b"BCP1", blob[4], header_size, body_size) + blob[FRAME.size :])
            assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
        finally:
            tracemalloc.stop()


@many_rounds
def test_random_damage_is_refused(rounds: int) -> None:
    """Whatever becomes of the bytes, an error of ours says so; the bytes that load are those that were written."""
    with little_memory():
        for seed in range(rounds):
            chance = random.Random(seed)
            name = chance.choice(FILES)
            blob = golden(name)
            changed = mutated(blob, chance)
            assert is_refused(name, changed) == (changed != blob), seed


@many_rounds
def test_damage_under_a_right_digest_gives_our_errors(rounds: int) -> None:
    """Who can write the digest too gets errors of ours or a value where blobs are plain, and nothing where they are not."""
    loaded = 0
    with little_memory():
        for seed in range(rounds):
            chance = random.Random(seed)
            name = chance.choice(FILES)
            parts = parts_of(golden(name))
            which = chance.choice([index for index in (1, 2, 3) if parts[index]])
            changed = (*parts[:which], mutated(parts[which], chance), *parts[which + 1 :])
            refused = is_refused(name, framed(*changed))
            loaded += not refused
            if parts[0] & (ENCRYPTED | SIGNED):
                assert refused == (changed != parts), seed

    assert loaded > rounds // 50


@many_rounds
def test_damaged_bodies_in_compressed_blobs_give_our_errors(rounds: int) -> None:
    """A damaged body that decompresses well gives a value or an error of ours."""
    body = bytes(make.reader_of("plain").open(golden("plain"), checkpoint_id=make.ID)[1])
    refused = 0
    with little_memory():
        for seed in range(rounds):
            name = ("zlib", "zstd")[seed % 2]
            refused += is_refused(name, make.ENVELOPES[name].seal(make.HEADER, mutated(body, random.Random(seed))))

    assert refused > rounds // 10


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(("signed", "encrypted"))])
def test_a_seal_can_not_be_taken_off(name: str) -> None:
    """A blob whose flags, signature and word of the seal are gone is not taken for a plain one."""
    _, header, body, _ = parts_of(golden(name))
    fields = msgspec.msgpack.decode(header)
    del fields["seal"]
    downgraded = framed(0, msgspec.msgpack.encode(fields), body, b"")

    with pytest.raises(CheckpointError, match="not allowed"):
        make.reader_of(name).open(downgraded, checkpoint_id=make.ID)


@every_blob
@pytest.mark.parametrize("other", FILES)
def test_parts_of_two_blobs_make_none(name: str, other: str) -> None:
    """Header, body and signature of different sealed blobs do not fit each other."""
    flags, header, body, signature = parts_of(golden(name))
    _, other_header, other_body, other_signature = parts_of(golden(other))
    mixes = {
        framed(flags, other_header, body, signature),
        framed(flags, header, other_body, signature),
        framed(flags, header, body, other_signature),
    }

    for mixed in mixes - {golden(name)}:
        assert is_refused(name, mixed) or not flags & (ENCRYPTED | SIGNED)


def test_golden_blobs_are_not_damaged_themselves(tmp_path: Path) -> None:
    """The blobs that the damage is done to load, so that a refusal means something."""
    assert [name for name in FILES if is_refused(name, golden(name))] == []
