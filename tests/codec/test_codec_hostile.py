from __future__ import annotations

import pickle
import random
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from msgspec.msgpack import Ext, encode

from blobcp.checkpoint import Checkpoint
from blobcp.codec import Envelope, Header, MsgpackSerializer, Registry, register
from blobcp.errors import BlobcpError, SerializationError, UnknownTypeError


def deep(start: bytes, times: int) -> bytes:
    """Repeat an opening byte sequence."""
    return start * times


def nested_extensions(code: int, times: int) -> bytes:
    """Nest extensions inside arrays of one, as a tuple of a tuple of a tuple."""
    data = b"\x90"
    for _ in range(times):
        content = b"\x91" + data if len(data) > 1 else data
        data = b"\xc9" + len(content).to_bytes(4, "big") + bytes([code]) + content
    return data


HOSTILE = {
    "nothing": b"",
    "unused byte": b"\xc1",
    "truncated": b"\xa5ab",
    "two values": b"\x01\x02",
    "pickle": pickle.dumps({"a": 1}),
    "100,000 arrays": deep(b"\x91", 100_000),
    "100,000 maps": deep(b"\x81\xa1a", 100_000),
    "10,000 tuples": nested_extensions(1, 10_000),
    "huge array": b"\xdd\x05\xf5\xe1\x00" + b"\x01" * 45,
    "huge map": b"\xdf\xff\xff\xff\xff" + b"\x01" * 45,
    "huge bytes": b"\xc6\xff\xff\xff\xff" + b"\x01" * 45,
    "huge extension": b"\xc9\xff\xff\xff\xff\x01" + b"\x01" * 45,
    "huge arrays in arrays": b"\xdd\x05\xf5\xe1\x00" * 100,
    "unknown extension": encode(Ext(99, b"")),
    "negative extension": encode(Ext(-7, b"")),
    "extension that is no array": encode(Ext(1, encode(7))),
    "extension without content": encode(Ext(1, b"")),
    "extension with garbage": encode(Ext(1, b"\xc1")),
    "set of lists": encode(Ext(2, encode([[1]]))),
    "pairs without a value": encode(Ext(4, encode([1, 2, 3]))),
    "no big int": encode(Ext(5, encode(["x"]))),
    "huge bytearray": encode(Ext(7, encode([10**12]))),
    "no date": encode(Ext(15, encode(["yesterday", 0, None]))),
    "no zone": encode(Ext(15, encode(["2024-01-01", 0, "UTC"]))),
    "zone outside its folder": encode(Ext(20, encode(["../../etc/passwd"]))),
    "no decimal": encode(Ext(21, encode(["1.2.3"]))),
    "no path": encode(Ext(23, encode(["Popen", "x"]))),
    "no singleton": encode(Ext(24, encode(["exit"]))),
    "no factory": encode(Ext(14, encode([1, "exec"]))),
    "class name is a number": encode(Ext(32, encode([1, {}]))),
    "class name is a list": encode(Ext(32, encode([[1], {}]))),
    "class without fields": encode(Ext(33, encode(["blobcp.Checkpoint"]))),
    "fields are a list": encode(Ext(33, encode(["blobcp.Checkpoint", [1]]))),
    "channels are a list": encode(Ext(33, encode(["blobcp.Checkpoint", {"channels": [1]}]))),
    "a channel is a number": encode(Ext(33, encode(["blobcp.Checkpoint", {"channels": {"a": 1}}]))),
    "address of a text": encode(Ext(40, encode(["blobcp.Address", ["ab", "cd"]]))),
    "address is a number": encode(Ext(40, encode(["blobcp.Address", 3]))),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused(data: bytes) -> None:
    """F19 (6): any malformed body is our error, within a second and little memory."""
    serializer = MsgpackSerializer(Registry())
    started = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError, match=r"corrupt|not allowed"):
            serializer.loads(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64_000_000
    assert time.perf_counter() - started < 5


MANY = 100_000
UNKNOWN = Ext(32, encode(["shop.Cart", {}]))
LONG_SEARCHES = {
    "a tuple": (encode(Ext(1, encode([*range(MANY), UNKNOWN]))), f"[{MANY}]"),
    "a dict": (encode(Ext(4, encode([*range(MANY), 7, UNKNOWN]))), "[7]"),
    "a dict with a factory": (encode(Ext(14, encode([0, "", *range(MANY), 7, UNKNOWN]))), "[7]"),
}


@pytest.mark.parametrize(("data", "path"), LONG_SEARCHES.values(), ids=LONG_SEARCHES.keys())
def test_the_path_is_found_in_linear_time(data: bytes, path: str) -> None:
    """What can't be loaded is named by its path without a copy of all before it for each value."""
    started = time.perf_counter()

    with pytest.raises(UnknownTypeError) as caught:
        MsgpackSerializer(Registry()).loads(data)

    assert caught.value.path == path
    assert time.perf_counter() - started < 1.5


@pytest.mark.parametrize("name", ["os.system", "poc_mod.mark", "builtins.exec", "builtins.list", "subprocess.Popen"])
@pytest.mark.parametrize("code", range(32, 41))
def test_a_name_never_leads_to_code(name: str, code: int) -> None:
    """F19 (3): a name that the program did not register is refused, whatever kind it claims to be."""
    data = encode({"state": [Ext(code, encode([name, {"x": 1}]))]})

    with pytest.raises(UnknownTypeError, match="not allowed") as caught:
        MsgpackSerializer(Registry()).loads(data)

    assert caught.value.name == name
    assert caught.value.path == "state[0]"
    assert name in str(caught.value)


def test_nothing_is_imported_by_a_blob(tmp_path: Path) -> None:
    """F19 (3): the module that a name mentions is not imported, though it could be."""
    marker = tmp_path / "marker"
    (tmp_path / "poc_mod.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass mark: pass\n")
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from msgspec.msgpack import Ext, encode\n"
        "from blobcp.codec import MsgpackSerializer\n"
        "from blobcp.errors import UnknownTypeError\n"
        "for code in range(128):\n"
        "    try: MsgpackSerializer().loads(encode(Ext(code, encode(['poc_mod.mark', {}]))))\n"
        "    except Exception as error: assert type(error).__module__ == 'blobcp.errors', error\n"
        "assert 'poc_mod' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", script, str(tmp_path), *filter(None, sys.path)], check=True, timeout=60)

    assert not marker.exists()


@pytest.fixture(scope="module")
def sealed() -> tuple[bytes, Checkpoint]:
    """A blob with a value of many types, and the value."""
    value = Checkpoint(state={"a": (1, {2}), "b": {3: 2**70}, "c": ["x" * 40, None, 1.5]}, rerun_nodes=["n"])
    body = MsgpackSerializer(Registry()).dumps(value)
    return Envelope().seal(Header(checkpoint_id="A", status="interrupted"), body), value


def load(blob: bytes) -> Any:
    """Open and decode, as the framework does."""
    _, body = Envelope().open(blob, checkpoint_id="A")
    return MsgpackSerializer(Registry()).loads(body)


def test_each_flipped_byte_and_each_prefix_is_refused(sealed: tuple[bytes, Checkpoint]) -> None:
    """F19 (4), (5): a changed or truncated blob is refused; it never loads as another value."""
    blob, value = sealed

    assert load(blob) == value
    for place in range(len(blob)):
        flipped = blob[:place] + bytes([blob[place] ^ 0xFF]) + blob[place + 1 :]
        for damaged in (flipped, blob[:place]):
            with pytest.raises(BlobcpError):
                load(damaged)


def test_changed_bodies_under_a_right_digest_give_our_errors(sealed: tuple[bytes, Checkpoint]) -> None:
    """F19: somebody who can write the digest too gets a value or an error of ours, never another exception."""
    header, body = Envelope().open(sealed[0], checkpoint_id="A")
    serializer = MsgpackSerializer(Registry())
    chance = random.Random(7)
    refused = 0
    for _ in range(3000):
        changed = bytearray(body)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            serializer.loads(bytes(changed))
        except SerializationError:
            refused += 1

    assert header.status == "interrupted"
    assert refused > 300


def test_a_plain_body_of_another_tool_loads_as_plain_values() -> None:
    """Ordinary MessagePack is what it says; there is nothing to refuse."""
    value = {"a": [1, None, b"x"], "b": {"c": 1.5}}

    assert MsgpackSerializer(Registry()).loads(msgspec.msgpack.encode(value)) == value


class WithSetter:
    """A property whose setter must not see what stands in a blob."""

    ran: ClassVar[list[Any]] = []

    @property
    def status(self) -> Any:
        """Return a constant."""
        return "ours"

    @status.setter
    def status(self, value: Any) -> None:
        self.ran.append(value)


@dataclass
class DataWithSetter(WithSetter):
    x: int = 0


class StructWithSetter(msgspec.Struct, dict=True):
    x: int = 0
    status = WithSetter.status


class TupleWithSetter(NamedTuple("Base", [("x", int)])):
    status = WithSetter.status
    ran = WithSetter.ran


class ErrorWithSetter(Exception):
    status = WithSetter.status
    ran = WithSetter.ran


@dataclass(slots=True)
class SlottedWithSetter:
    x: int = 0
    status = WithSetter.status
    ran = WithSetter.ran


MORE = {"status": "hostile"}


@pytest.mark.parametrize(
    ("cls", "code", "parts"),
    [
        (DataWithSetter, 32, [{"x": 1}, MORE]),
        (StructWithSetter, 33, [{"x": 1}, MORE]),
        (WithSetter, 36, [{}, MORE]),
        (TupleWithSetter, 37, [{"x": 1}, MORE]),
        (ErrorWithSetter, 39, [[], MORE]),
    ],
)
def test_no_setter_runs_at_load(cls: type[Any], code: int, parts: list[Any]) -> None:
    """An attribute in a blob goes to the __dict__, past a property of the same name."""
    registry = Registry()
    register(cls, name="job", registry=registry)

    value = MsgpackSerializer(registry).loads(encode(Ext(code, encode(["job", *parts]))))

    assert (type(value), value.status, vars(value)["status"]) == (cls, "ours", "hostile")
    assert WithSetter.ran == []


def test_an_attribute_without_a_place_is_refused() -> None:
    """A class with slots only takes no attribute that is none of them, be it a property."""
    registry = Registry()
    register(SlottedWithSetter, name="job", registry=registry)

    with pytest.raises(SerializationError, match="a SlottedWithSetter has no place for an attribute 'status'"):
        MsgpackSerializer(registry).loads(encode(Ext(32, encode(["job", {"x": 1}, MORE]))))

    assert WithSetter.ran == []


def test_an_attribute_under_the_name_of_a_property_comes_back() -> None:
    """What a property keeps in the __dict__ under its own name is stored and restored there."""
    registry = Registry()
    register(DataWithSetter, name="job", registry=registry)
    value = DataWithSetter(3)
    value.__dict__["status"] = "kept"

    back = MsgpackSerializer(registry).loads(MsgpackSerializer(registry).dumps(value))

    assert vars(back) == {"x": 3, "status": "kept"}
    assert WithSetter.ran == []
