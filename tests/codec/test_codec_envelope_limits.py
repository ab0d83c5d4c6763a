from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import msgspec
import pytest
import zstandard

from blobcp.codec import Envelope, Header, KeyRing, digest_of, read_header
from blobcp.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError, OptionError

ID = "A"
MEBIBYTE = 1 << 20
KEY = bytes(range(32))
SIGNATURE_SIZE = DIGEST_SIZE = 32


def by_hand(flags: int, body: bytes, seal: object = None, signature: bytes = b"") -> bytes:
    """Build a blob with a right digest, as somebody who can write to the store does."""
    fields = {"checkpoint_id": ID} | ({"seal": seal} if seal is not None else {})
    head = msgspec.msgpack.encode(fields)
    start = struct.pack(">4sBIQ", b"BCP1", flags, len(head), len(body)) + head + body + signature
    return start + blake2b(start, digest_size=DIGEST_SIZE).digest()


@contextmanager
def at_most(limit: int) -> Iterator[None]:
    """Demand that a block takes no more memory than that at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def zlib_bomb() -> bytes:
    """About 1 kB of zlib that becomes 1 MiB."""
    return zlib.compress(bytes(MEBIBYTE), 9)


def zstd_bomb() -> bytes:
    """About 1 kB of zstd that becomes 32 MiB."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(32 * MEBIBYTE))


BOMBS: dict[str, tuple[int, Callable[[], bytes], int]] = {
    "zlib": (1, zlib_bomb, MEBIBYTE),
    "zstd": (2, zstd_bomb, 32 * MEBIBYTE),
}


@pytest.mark.parametrize(("flag", "make", "size"), BOMBS.values(), ids=BOMBS)
class TestBombs:
    def test_one_that_tells_its_size_is_not_begun(self, flag: int, make: Callable[[], bytes], size: int) -> None:
        """What is announced over the limit is refused at no cost, with the option that sets the limit."""
        blob = by_hand(flag, make(), {"size": size})

        with (
            at_most(MEBIBYTE // 2),
            pytest.raises(CheckpointCorruptError, match=f"announces {size} .*raise max_decompressed_bytes"),
        ):
            Envelope(max_decompressed_bytes=size - 1).open(blob, checkpoint_id=ID)

    def test_one_that_lies_is_left_early(self, flag: int, make: Callable[[], bytes], size: int) -> None:
        """What becomes more than announced is given up after one step."""
        blob = by_hand(flag, make(), {"size": 1000})

        with at_most(4 * MEBIBYTE), pytest.raises(CheckpointCorruptError, match="more than the 1000 bytes"):
            Envelope().open(blob, checkpoint_id=ID)

    def test_one_that_promises_too_much_sets_nothing_aside(
        self, flag: int, make: Callable[[], bytes], size: int
    ) -> None:
        """What becomes less than announced is refused, and took what it became."""
        blob = by_hand(flag, make(), {"size": 2**29})

        with at_most(3 * size + 4 * MEBIBYTE), pytest.raises(CheckpointCorruptError, match=f"gives {size} of"):
            Envelope().open(blob, checkpoint_id=ID)

    def test_an_honest_one_within_the_limit_is_a_body(self, flag: int, make: Callable[[], bytes], size: int) -> None:
        """A body of zeros is no crime."""
        body = Envelope().open(by_hand(flag, make(), {"size": size}), checkpoint_id=ID)[1]

        assert len(body) == size


def test_a_zstd_window_is_bounded() -> None:
    """A frame that wants to look back further than 8 MiB is refused before it gets the memory."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(os.urandom(100) * 200_000)

    with at_most(4 * MEBIBYTE), pytest.raises(CheckpointCorruptError, match="can't be decompressed"):
        Envelope().open(by_hand(2, frame, {"size": 20_000_000}), checkpoint_id=ID)


@pytest.mark.parametrize(
    ("flags", "body", "seal", "said"),
    [
        (1, b"no zlib", {"size": 5}, "can't be decompressed"),
        (1, b"", {"size": 5}, "can't be decompressed"),
        (1, zlib.compress(b"hello") + b"x", {"size": 5}, "too late"),
        (1, zlib.compress(b"hello") + bytes(200_000), {"size": 5}, "too late"),
        (1, zlib.compress(b"hello")[:-1], {"size": 5}, "too early"),
        (1, zlib.compress(b"hello"), {"size": -5}, "more than the -5"),
        (1, zlib.compress(b"hello"), {"size": 0}, "does not fit its flags"),
        (1, zlib.compress(b"hello"), {"size": 2**64 - 1}, "announces 18446744073709551615 bytes"),
        (1, zlib.compress(b"hello"), {}, "does not fit its flags"),
        (1, zlib.compress(b"hello"), None, "header can't be read"),
        (1, zlib.compress(b"hello"), {"size": 5, "key": "a"}, "does not fit its flags"),
        (3, zlib.compress(b"hello"), {"size": 5}, "does not fit its flags"),
        (2, b"no zstd", {"size": 5}, "can't be decompressed"),
        (2, b"", {"size": 5}, "gives 0 of the 5"),
        (2, zstandard.compress(b"hello")[:-1], {"size": 5}, "gives 4 of the 5"),
        (4, b"x" * 27, {"key": "a"}, "shorter or longer"),
        (4, b"x" * 28, {"key": "a"}, "encryption by key 'a' does not"),
        (4, b"x" * 28, {"signer": "a"}, "does not fit its flags"),
        (8, b"x", {"signer": ""}, "does not fit its flags"),
        (8, b"x", {"signer": 5}, "header can't be read"),
        (8, b"x", {"signer": "a"}, "signature by key 'a' does not"),
    ],
)
def test_sealed_bodies_made_by_hand_are_corrupt(flags: int, body: bytes, seal: Any, said: str) -> None:
    """Flags, header and body that don't fit each other are refused in words, though the digest fits."""
    ring = KeyRing({"a": KEY})
    options: dict[str, Any] = {"keys": ring} if flags & 4 else {"sign": ring} if flags & 8 else {}
    blob = by_hand(flags, body, seal, bytes(SIGNATURE_SIZE) if flags & 8 else b"")

    with at_most(4 * MEBIBYTE), pytest.raises(CheckpointCorruptError, match=said) as caught:
        Envelope(**options).open(blob, checkpoint_id=ID)

    assert "corrupt" in str(caught.value)
    assert caught.value.checkpoint_id == ID


def test_a_missing_signature_is_a_truncation() -> None:
    """The place of the signature counts for the length."""
    with pytest.raises(CheckpointCorruptError, match="truncated"):
        Envelope().open(by_hand(8, b"", {"signer": "a"}), checkpoint_id=ID)


@pytest.mark.parametrize(
    ("option", "limit", "options", "said"),
    [
        ("max_body_bytes", 127, {"keys": KeyRing({"a": KEY})}, "body takes 128 bytes"),
        ("max_body_bytes", 50, {}, "body takes 100 bytes"),
        ("max_decompressed_bytes", 99, {"compression": "zlib"}, "body before compression takes 100 bytes"),
        ("max_header_bytes", 20, {}, "header takes"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    option: str, limit: int, options: dict[str, Any], said: str
) -> None:
    """The limits hold for writing too; the error says which option to raise."""
    with pytest.raises(CheckpointError, match=f"{said}.*raise {option}") as caught:
        Envelope(**{option: limit}, **options).seal(Header(checkpoint_id=ID), bytes(100))

    assert caught.value.checkpoint_id == ID


def test_a_body_that_the_library_can_not_encrypt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own limit, 2 GiB, is an error of ours."""
    monkeypatch.setattr("blobcp.codec.envelope.MAX_ENCRYPTED", 99)

    with pytest.raises(CheckpointError, match="body before encryption takes 100 bytes"):
        Envelope(keys=KeyRing({"a": KEY})).seal(Header(checkpoint_id=ID), bytes(100))


def test_opening_a_plain_blob_copies_nothing() -> None:
    """The body is a view of the blob; sealing copies it once."""
    body = bytes(8 * MEBIBYTE)
    with at_most(8 * MEBIBYTE + 100_000):
        blob = Envelope().seal(Header(checkpoint_id=ID), body)

    with at_most(100_000):
        assert len(Envelope().open(blob, checkpoint_id=ID)[1]) == len(body)


@pytest.mark.parametrize("flag", [16, 128])
def test_flags_of_a_newer_release_beside_known_ones(flag: int) -> None:
    """A flag that is not known yet is told before anything is undone."""
    with pytest.raises(CheckpointVersionError, match="upgrade blobcp"):
        Envelope().open(by_hand(1 | flag, b"", {"size": 5}), checkpoint_id=ID)


@pytest.mark.parametrize("blob", [None, "text", 5, ["BCP1"]], ids=["none", "text", "number", "list"])
@pytest.mark.parametrize(
    "read",
    [lambda it: Envelope().open(it, checkpoint_id=ID), Envelope().read_header, read_header, digest_of],
    ids=["open", "read_header of an envelope", "read_header", "digest_of"],
)
def test_what_is_no_bytes_is_no_blob(blob: Any, read: Callable[[Any], object]) -> None:
    """What a store gives in place of bytes is told by its class, as any other corrupt blob is."""
    with pytest.raises(CheckpointCorruptError, match=f"is corrupt: it is a {type(blob).__name__} and not bytes"):
        read(blob)


@pytest.mark.parametrize("option", ["max_header_bytes", "max_body_bytes", "max_decompressed_bytes"])
@pytest.mark.parametrize("limit", [-1, "x", None, 1.5, True], ids=repr)
def test_limits_are_numbers_of_bytes(option: str, limit: Any) -> None:
    """A limit that is no number is refused when the envelope is made."""
    with pytest.raises(OptionError) as caught:
        Envelope(**{option: limit})

    assert str(caught.value) == f"{option} is a number of bytes, found {limit!r}; leave it out for the default"
