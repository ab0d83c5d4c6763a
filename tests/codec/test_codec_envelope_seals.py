from __future__ import annotations

import copy
import pickle
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from blobcp.codec import Envelope, Header, KeyRing, digest_of, read_header
from blobcp.errors import CheckpointCorruptError, CheckpointError, CheckpointKeyError, OptionError

ID = "orders/7 ☕"
HEADER = Header(checkpoint_id=ID, graph="root", status="interrupted", step=4)
BODY = b"pay 89.90 EUR back? " * 50
OLD, NEW, OTHER = (bytes([number]) * 32 for number in (1, 2, 3))
RING = KeyRing({"2026-10": OLD, "2026-11": NEW}, current="2026-11")
OLD_RING = KeyRing({"2026-10": OLD})
FLAGS_AT = 4

SEALS: dict[str, dict[str, Any]] = {
    "plain": {},
    "zlib": {"compression": "zlib"},
    "zstd": {"compression": "zstd"},
    "signed": {"sign": RING},
    "encrypted": {"keys": RING},
    "zlib-signed": {"compression": "zlib", "sign": RING},
    "zstd-encrypted": {"compression": "zstd", "keys": RING},
    "all": {"compression": "zlib", "keys": RING, "sign": RING},
}
every_seal = pytest.mark.parametrize("options", SEALS.values(), ids=SEALS)


@every_seal
@pytest.mark.parametrize("body", [BODY, b"", b"x", secrets.token_bytes(3_000_000)], ids=["text", "mark", "x", "big"])
def test_what_was_sealed_is_opened(options: dict[str, Any], body: bytes) -> None:
    """Header and body come back the same, however they were sealed; marks without a body too."""
    envelope = Envelope(**options)
    blob = envelope.seal(HEADER, body)

    header, found = envelope.open(blob, checkpoint_id=ID)

    assert header == HEADER
    assert bytes(found) == body
    assert found.readonly
    assert envelope.read_header(blob) == read_header(blob) == HEADER


@pytest.mark.parametrize(
    ("name", "flags"), [("plain", 0), ("zlib", 1), ("zstd", 2), ("encrypted", 4), ("signed", 8), ("all", 13)]
)
def test_the_flags_say_what_was_done(name: str, flags: int) -> None:
    """Each way to seal has its flag."""
    assert Envelope(**SEALS[name]).seal(HEADER, BODY)[FLAGS_AT] == flags


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@every_seal
def test_any_buffer_is_sealed_and_opened(options: dict[str, Any], kind: Callable[[bytes], bytes]) -> None:
    """Serializers and stores may give bytes, bytearray or memoryview."""
    envelope = Envelope(**options)

    assert envelope.open(kind(envelope.seal(HEADER, kind(BODY))), checkpoint_id=ID)[1] == BODY


@pytest.mark.parametrize("name", ["zlib", "zstd"])
class TestCompression:
    def test_it_makes_blobs_smaller(self, name: Any) -> None:
        """A body that repeats itself takes less."""
        assert len(Envelope(compression=name).seal(HEADER, BODY)) < len(Envelope().seal(HEADER, BODY)) - 800

    @pytest.mark.parametrize("body", [b"", b"x", secrets.token_bytes(1000)], ids=["empty", "x", "random"])
    def test_what_gets_no_smaller_is_left_plain(self, name: Any, body: bytes) -> None:
        """A body that compression would make longer is stored as it is, with no flag."""
        assert Envelope(compression=name).seal(HEADER, body) == Envelope().seal(HEADER, body)

    def test_any_envelope_reads_it(self, name: Any) -> None:
        """How a body is compressed is written in its blob; the reader's own choice says nothing of it."""
        blob = Envelope(compression=name).seal(HEADER, BODY)

        for other in (None, "zlib", "zstd"):
            assert Envelope(compression=other).open(blob, checkpoint_id=ID)[1] == BODY  # type: ignore[arg-type]


def test_an_unknown_compression_is_refused() -> None:
    """The error lists those that there are."""
    with pytest.raises(OptionError, match=r"no compression 'brotli'; choose among .*zlib.*zstd"):
        Envelope(compression="brotli")  # type: ignore[arg-type]


def test_bodies_are_not_to_be_read_without_the_key() -> None:
    """An encrypted blob has nothing of the body in it, and no two are the same."""
    blobs = [Envelope(keys=RING).seal(HEADER, BODY) for _ in range(2)]

    assert b"89.90" not in blobs[0]
    assert blobs[0] != blobs[1]


@pytest.mark.parametrize("option", ["keys", "sign"])
class TestKeys:
    def test_new_blobs_use_the_current_key_and_old_ones_are_read(self, option: str) -> None:
        """Rotation: the ring reads what any of its keys sealed."""
        old, new = Envelope(**{option: OLD_RING}), Envelope(**{option: RING})

        assert new.open(old.seal(HEADER, BODY), checkpoint_id=ID)[1] == BODY
        assert b"2026-11" in new.seal(HEADER, BODY)
        assert b"2026-10" in new.reseal(old.seal(HEADER, BODY), checkpoint_id=ID).replace(b"2026-11", b"2026-10")
        with pytest.raises(CheckpointKeyError):
            old.open(new.reseal(old.seal(HEADER, BODY), checkpoint_id=ID), checkpoint_id=ID)

    def test_an_unknown_key_id_is_named(self, option: str) -> None:
        """A key that is not in the ring is a missing key, not a corrupt blob, and the error has its id."""
        blob = Envelope(**{option: RING}).seal(HEADER, BODY)

        for read in (Envelope(**{option: OLD_RING}).open, Envelope(**{option: OLD_RING}).read_header):
            with pytest.raises(CheckpointKeyError, match=r"'2026-11'.*add it to the ring") as caught:
                read(blob, checkpoint_id=ID)

            assert caught.value.key_id == "2026-11"
            assert caught.value.checkpoint_id == ID
            assert ID in str(caught.value)
            assert "corrupt" not in str(caught.value)

    def test_an_envelope_without_keys_says_so(self, option: str) -> None:
        """A blob that needs a key is refused by an envelope that has none, which may read its header."""
        blob = Envelope(**{option: RING}).seal(HEADER, BODY)

        with pytest.raises(CheckpointKeyError, match=rf"the envelope has none; .*Envelope\({option}=") as caught:
            Envelope().open(blob, checkpoint_id=ID)
        assert caught.value.key_id == "2026-11"
        assert Envelope().read_header(blob) == HEADER

    def test_another_key_of_the_same_id_is_told(self, option: str) -> None:
        """Where the id is known and the key is wrong, the error says that it may be that."""
        blob = Envelope(**{option: KeyRing({"a": OLD})}).seal(HEADER, BODY)
        wrong = Envelope(**{option: KeyRing({"a": OTHER})})

        for read in (wrong.open, wrong.read_header):
            with pytest.raises(CheckpointCorruptError, match="or 'a' is another key here"):
                read(blob, checkpoint_id=ID)

    @pytest.mark.parametrize("status", ["interrupted", "done"])
    def test_a_plain_blob_is_no_way_round(self, option: str, status: Any) -> None:
        """Who insists on a seal refuses blobs and done marks without one, and also their headers."""
        blob = Envelope(compression="zlib").seal(msgspec.structs.replace(HEADER, status=status), BODY)
        envelope = Envelope(**{option: RING})

        for read in (envelope.open, envelope.read_header):
            with pytest.raises(CheckpointKeyError, match=r"not allowed .*accept_plain=True") as caught:
                read(blob, checkpoint_id=ID)

            assert caught.value.key_id is None
            assert ID in str(caught.value)

    def test_plain_blobs_are_read_where_it_was_said(self, option: str) -> None:
        """``accept_plain`` is for the time in which old blobs are replaced; what is sealed is checked all the same."""
        envelope = Envelope(**{option: RING}, accept_plain=True)
        sealed = bytearray(envelope.seal(HEADER, BODY))

        assert envelope.open(Envelope().seal(HEADER, BODY), checkpoint_id=ID)[1] == BODY
        assert envelope.open(sealed, checkpoint_id=ID)[1] == BODY
        with pytest.raises(CheckpointCorruptError, match="its digest fits and its"):
            Envelope(**{option: KeyRing({"2026-11": OTHER})}, accept_plain=True).open(sealed, checkpoint_id=ID)

    def test_one_seal_does_not_stand_for_the_other(self, option: str) -> None:
        """With both rings, both are demanded."""
        blob = Envelope(**{option: RING}).seal(HEADER, BODY)

        with pytest.raises(CheckpointKeyError, match="not allowed"):
            Envelope(keys=RING, sign=RING).open(blob, checkpoint_id=ID)

    def test_the_checkpoint_id_is_sealed(self, option: str) -> None:
        """A blob that was copied under another id by hand is noticed."""
        envelope = Envelope(**{option: RING})

        with pytest.raises(CheckpointCorruptError, match="copied by hand from 'orders/7"):
            envelope.open(envelope.seal(HEADER, BODY), checkpoint_id="orders/8")


def test_who_only_signs_may_check_the_headers_of_encrypted_blobs() -> None:
    """A signature needs no decryption, so that an inbox can trust headers without the keys to the bodies."""
    blob = Envelope(keys=RING, sign=RING).seal(HEADER, BODY)

    assert Envelope(sign=RING).read_header(blob) == HEADER
    with pytest.raises(CheckpointKeyError, match="encrypted"):
        Envelope(sign=RING).open(blob, checkpoint_id=ID)
    with pytest.raises(CheckpointKeyError, match="signed"):
        Envelope(keys=RING).open(blob, checkpoint_id=ID)


class TestReseal:
    def test_a_copy_has_another_id(self) -> None:
        """The product's own copy is no copy by hand."""
        envelope = Envelope(compression="zlib", keys=RING, sign=RING)
        blob = envelope.seal(HEADER, BODY)

        header = msgspec.structs.replace(HEADER, checkpoint_id="orders/8")
        copied = envelope.reseal(blob, checkpoint_id=ID, header=header)

        assert envelope.open(copied, checkpoint_id="orders/8") == (header, BODY)

    def test_it_moves_from_one_seal_to_another(self) -> None:
        """A plain blob becomes an encrypted one, by an envelope that accepts plain ones for that time."""
        blob = Envelope(keys=RING, accept_plain=True).reseal(Envelope().seal(HEADER, BODY), checkpoint_id=ID)

        assert Envelope(keys=RING).open(blob, checkpoint_id=ID) == (HEADER, BODY)

    def test_a_plain_blob_stays_the_same(self) -> None:
        """Sealing a plain blob anew changes no byte of it."""
        blob = Envelope().seal(HEADER, BODY)

        assert Envelope().reseal(blob, checkpoint_id=ID) == blob
        assert digest_of(Envelope().reseal(blob, checkpoint_id=ID)) == digest_of(blob)

    def test_what_can_not_be_opened_is_not_sealed(self) -> None:
        """A copy by hand does not become a good blob by it."""
        with pytest.raises(CheckpointCorruptError, match="copied by hand"):
            Envelope().reseal(Envelope().seal(HEADER, BODY), checkpoint_id="orders/8")


class TestKeyRing:
    @pytest.mark.parametrize(
        ("keys", "current", "said"),
        [
            ({}, None, "current="),
            ({"a": OLD, "b": NEW}, None, r"current=.*\['a', 'b'\]"),
            ({"a": OLD}, "b", r"current=.*\['a'\]"),
            ({"a": OLD[:31]}, None, "'a' must be 32 bytes and is 31 bytes"),
            ({"a": "x" * 32}, None, "'a' must be 32 bytes and is str"),
            ({"": OLD}, None, "printable text"),
            ({"a" * 129: OLD}, None, "printable text"),
            ({"\ud800": OLD}, None, "printable text"),
            ({OLD: "a"}, None, "printable text"),
        ],
    )
    def test_what_is_no_ring_is_refused(self, keys: Any, current: Any, said: str) -> None:
        """The error says what is wrong, and shows no key."""
        with pytest.raises(OptionError, match=said) as caught:
            KeyRing(keys, current=current)

        assert repr(OLD)[2:-1] not in str(caught.value)

    def test_keys_are_not_shown(self) -> None:
        """No repr and no message has a key in it; ids are no secret."""
        ring = KeyRing({"a": b"hunter2!" * 4})
        with pytest.raises(CheckpointCorruptError) as caught:
            Envelope(keys=ring).open(Envelope(keys=KeyRing({"a": OLD})).seal(HEADER, BODY), checkpoint_id=ID)

        shown = [repr(ring), str(ring), repr(ring.current), repr(Envelope(keys=ring)), str(caught.value)]
        shown += traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
        assert "hunter2!hunter2!" not in "".join(shown)
        assert repr(ring) == "<KeyRing of 'a' (current)>"

    def test_rings_reach_other_processes(self) -> None:
        """A ring can be copied and pickled, as a job with worker processes does."""
        for ring in (pickle.loads(pickle.dumps(RING)), copy.deepcopy(RING)):
            assert Envelope(keys=ring).open(Envelope(keys=RING).seal(HEADER, BODY), checkpoint_id=ID)[1] == BODY


class TestLibraries:
    @pytest.mark.parametrize(
        ("options", "module", "extra"),
        [
            ({"compression": "zstd"}, "zstandard", "blobcp[zstd]"),
            ({"keys": RING}, "cryptography.hazmat.primitives.ciphers.aead", "blobcp[crypto]"),
        ],
    )
    def test_a_missing_one_is_told_at_once(
        self, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], module: str, extra: str
    ) -> None:
        """The envelope can't be made, and the error names the extra."""
        monkeypatch.setitem(sys.modules, module, None)

        with pytest.raises(OptionError) as caught:
            Envelope(**options)

        assert f"pip install '{extra}'" in str(caught.value)

    def test_a_missing_one_is_told_on_load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A zstd blob where zstandard is not installed is not corrupt; the error names id and extra."""
        blob = Envelope(compression="zstd").seal(HEADER, BODY)
        monkeypatch.setitem(sys.modules, "zstandard", None)

        with pytest.raises(CheckpointError, match=r"blobcp\[zstd\]") as caught:
            Envelope().open(blob, checkpoint_id=ID)

        assert not isinstance(caught.value, CheckpointCorruptError)
        assert caught.value.checkpoint_id == ID
        assert ID in str(caught.value)

    def test_they_are_imported_when_used(self) -> None:
        """Plain, zlib and signed blobs need neither library."""
        script = (
            "import sys; from blobcp import Envelope, Header, KeyRing\n"
            "envelope = Envelope(compression='zlib', sign=KeyRing({'a': bytes(32)}))\n"
            "envelope.open(envelope.seal(Header(checkpoint_id='A'), bytes(99)), checkpoint_id='A')\n"
            "assert not {'zstandard', 'cryptography'} & set(sys.modules)\n"
        )

        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
