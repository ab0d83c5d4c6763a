from __future__ import annotations

import re
import struct
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_blobs import FILES, golden, make

from blobcp.codec import Envelope, Header, MsgpackSerializer, Registry, digest_of, read_header
from blobcp.codec.header import Seal
from blobcp.codec.plans import Plans

PAGE = (Path(__file__).parents[2] / "docs" / "blob-format.md").read_text(encoding="utf-8")


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
        """The body comes back with exactly the values and the types that were stored; a done mark has none."""
        value = make.BLOBS[name][2]
        _, body = make.reader_of(name).open(golden(name), checkpoint_id=make.ID)
        if value is None:
            assert body == b""
            return

        found, expected = MsgpackSerializer(make.registry()).loads(body), value()

        for field in expected.__struct_fields__:
            assert difference(getattr(found, field), getattr(expected, field)) == ""


def test_what_equality_does_not_see_comes_back_too() -> None:
    """Attributes that a class does not declare, and the notes of exceptions, are in the blob."""
    _, body = make.reader_of("plain").open(golden("plain"), checkpoint_id=make.ID)
    state = MsgpackSerializer(make.registry()).loads(body).state

    assert [vars(error) for error in state["errors"]] == [{}, {}, {"__notes__": ["seen twice"]}]
    assert state["orders"][2].note == "not declared"


def test_all_bodies_are_the_same() -> None:
    """What was done to a body is undone to the byte."""
    alike = [name for name in FILES if make.BLOBS[name][2] is make.checkpoint]
    bodies = {bytes(make.reader_of(name).open(golden(name), checkpoint_id=make.ID)[1]) for name in alike}

    assert len(alike) == 7
    assert len(bodies) == 1


@pytest.mark.parametrize("name", ["plain", "plain-done", "plain-tables", "signed", "signed-done"])
def test_the_same_bytes_are_written_today(name: str) -> None:
    """A plain or signed blob is the same for ever, so that its digest, which forks name, is too."""
    envelope, header, _ = make.BLOBS[name]
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


class TestPage:
    """docs/blob-format.md leaves nothing out; that its examples are true is tested with the other pages."""

    def test_every_code_is_documented(self) -> None:
        """Each extension code that a body can have is in the table."""
        documented = {int(code) for code in re.findall(r"^\| (\d+) \| [a-zA-Z]", PAGE, re.MULTILINE)}

        assert set(Plans(Registry()).by_code) - documented == set()

    def test_every_field_of_the_header_is_documented(self) -> None:
        """Each field of the header, and of the seal in it, is in a table."""
        fields = [*Header.__struct_fields__, "seal"]

        assert [name for name in fields if f"| `{name}` |" not in PAGE] == []
        assert [name for name in Seal.__struct_fields__ if f"`{name}`" not in PAGE] == []
