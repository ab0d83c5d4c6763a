from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
import pytest
from golden_blobs import FILES, golden, make

from blobcp.codec import Envelope, Header, MsgpackSerializer, digest_of, read_header


def test_every_kind_of_blob_is_there() -> None:
    """Each entry of the script has its file, and each file its entry."""
    assert sorted(make.BLOBS) == FILES


@pytest.mark.parametrize("name", FILES)
class TestForEver:
    def test_the_header_is_read(self, name: str) -> None:
        """The header comes back to the field, without keys and with them."""
        expected: Header = make.BLOBS[name][1]

        assert read_header(golden(name)) == expected
        assert make.reader_of(name).read_header(golden(name), checkpoint_id=make.ID) == expected

    def test_the_body_is_read(self, name: str, difference: Callable[[Any, Any], str]) -> None:
        """The body comes back with exactly the values and the types that were stored."""
        header, body = make.reader_of(name).open(golden(name), checkpoint_id=make.ID)
        if header.status == "done":
            assert body == b""
            return

        found, expected = MsgpackSerializer(make.registry()).loads(body), make.checkpoint()

        assert difference(found.state, expected.state) == ""
        assert [found.state["errors"][index].__dict__ for index in range(3)] == [
            {},
            {},
            {"__notes__": ["seen twice"]},
        ]
        assert found.state["orders"][2].note == "not declared"
        for field in set(expected.__struct_fields__) - {"state"}:
            assert difference(getattr(found, field), getattr(expected, field)) == ""


def test_all_bodies_are_the_same() -> None:
    """What was done to a body is undone to the byte."""
    opened = [make.reader_of(name).open(golden(name), checkpoint_id=make.ID) for name in FILES]

    assert len({bytes(body) for header, body in opened if header.status != "done"}) == 1


@pytest.mark.parametrize("name", ["plain", "plain-done", "signed", "signed-done"])
def test_the_same_bytes_are_written_today(name: str) -> None:
    """A plain or signed blob is the same for ever, so that its digest, which forks name, is too."""
    envelope, header = make.BLOBS[name]
    body = make.reader_of(name).open(golden(name), checkpoint_id=make.ID)[1]

    assert envelope.seal(header, body) == golden(name)


def test_a_plain_blob_is_read_by_hand() -> None:
    """The layout of a plain blob needs no code of blobcp."""
    blob = golden("plain")
    magic, flags, header_size, body_size = struct.unpack_from(">4sBIQ", blob)
    header = msgspec.msgpack.decode(blob[17 : 17 + header_size])
    body = msgspec.msgpack.decode(blob[17 + header_size :][:body_size])

    assert (magic, flags, len(blob)) == (b"BCP1", 0, 17 + header_size + body_size + 32)
    assert list(header) == list(Header.__struct_fields__)
    assert (header["checkpoint_id"], header["status"]) == (make.ID, "interrupted")
    assert body.code == 33
    assert blake2b(blob[:-32], digest_size=32).hexdigest() == digest_of(blob) == blob[-32:].hex()


def test_the_old_key_is_still_read_and_the_new_one_is_written() -> None:
    """Rotation, over blobs that another release wrote."""
    blob = make.reader_of("encrypted").reseal(golden("encrypted-old-key"), checkpoint_id=make.ID)

    assert b"2026-10" in golden("encrypted-old-key")
    assert b"2026-11" in blob
    assert Envelope(keys=make.RING).open(blob, checkpoint_id=make.ID)[0] == make.HEADER
