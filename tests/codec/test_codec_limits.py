"""Limits on what bytes may hold: counted before anything is made of them."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext, encode

from blobcp.codec import MsgpackSerializer, Registry
from blobcp.errors import SerializationError

HOSTILE = {
    "a million empty dicts": b"\xdd\x00\x0f\x42\x40" + b"\x80" * 1_000_000,
    "a million dicts in one another": b"\x81\x01" * 1_000_000 + b"\x01",
    "a million lists in one another": b"\x91" * 1_000_000,
    "four billion values": b"\xdd\xff\xff\xff\xff" + b"\x01" * 2_000_000,
    "two billion pairs": b"\xdf\x7f\xff\xff\xff" + b"\x01" * 2_000_000,
    "many extensions": b"\xdd\x00\x0f\x42\x40" + b"\xd4\x01\x90" * 1_000_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("raw", [False, True], ids=["loads", "loads_raw"])
def test_hostile_counts_cost_nothing(data: bytes, raw: bool) -> None:
    """F19: bytes with more values, or deeper ones, than allowed are refused at once and without memory."""
    serializer = MsgpackSerializer(Registry(), max_elements=100_000)
    load = serializer.loads_raw if raw else serializer.loads
    started = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError, match="not allowed to load"):
            load(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000
    assert time.perf_counter() - started < 5


def test_the_limit_is_exact() -> None:
    """Keys, values and containers each count as one, bytes as one however long they are."""
    value = {"a": [1, 2.5, None, True], "b": (1, "x" * 70_000), "c": b"y" * 70_000, "d": {-1: 2**40, "e" * 40: 1}}
    data = MsgpackSerializer(Registry()).dumps(value)
    count = 1 + 4 + (1 + 4) + (1 + 1 + 2) + 1 + (1 + 4)

    assert MsgpackSerializer(Registry(), max_elements=count).loads(data) == value
    with pytest.raises(SerializationError, match=f"more values than the {count - 1} that max_elements"):
        MsgpackSerializer(Registry(), max_elements=count - 1).loads(data)


def test_depth_is_limited_at_load() -> None:
    """With a limit, bytes nested deeper than three times max_depth are refused before they are read."""
    serializer = MsgpackSerializer(Registry(), max_depth=10, max_elements=1000)

    assert serializer.loads(b"\x91" * 30 + b"\x01") is not None
    with pytest.raises(SerializationError, match="more levels than the 30 that max_depth"):
        serializer.loads(b"\x91" * 31 + b"\x01")


@given(
    data=st.one_of(
        st.binary(),
        st.lists(st.integers(-9, 2**40), max_size=9).map(encode),
        st.binary().map(lambda it: encode(Ext(3, it))),
    )
)
def test_counting_never_fails(data: bytes) -> None:
    """Whatever the bytes are, counting them gives the reader's value or the reader's error."""
    plain, limited = MsgpackSerializer(Registry()), MsgpackSerializer(Registry(), max_elements=10**6, max_depth=1)

    def outcome(serializer: MsgpackSerializer) -> str:
        try:
            return repr(serializer.loads(data))
        except SerializationError as error:
            return "levels" if "levels" in str(error) else "refused"

    assert outcome(limited) in (outcome(plain), "levels")


IN_A_FRESH_PROCESS = """
import sys
from blobcp.codec import MsgpackSerializer, read_header
from blobcp.errors import BlobcpError
from hashlib import blake2b

def blob_of(header):
    start = b"BCP1\\0" + len(header).to_bytes(4, "big") + bytes(8) + header
    return start + blake2b(start, digest_size=32).digest()

sys.setrecursionlimit(1_000_000)
serializer = MsgpackSerializer()
deep = b"\\x91" * 900_000 + b"\\xc0"
hidden = b"\\x92\\xd6\\x01\\xc6\\x7f\\xff\\xff" + deep
tuples = b"\\x90"
for _ in range(9_000):
    tuples = b"\\xc9" + (len(tuples) + 1).to_bytes(4, "big") + b"\\x01\\x91" + tuples
for load, data in [
    (serializer.loads, deep),
    (serializer.loads_raw, deep),
    (serializer.loads, b"\\x81\\x01" * 900_000),
    (serializer.loads, hidden),
    (serializer.loads, tuples),
    (MsgpackSerializer(max_depth=1_000_000).loads, deep),
    (MsgpackSerializer(max_depth=1_000_000).loads, tuples),
    (read_header, blob_of(b"\\x82\\xadcheckpoint_id\\xa1a\\xa1x" + deep)),
]:
    try:
        load(data)
    except BlobcpError as error:
        print(str(error).partition(" that max_depth")[0].partition(";")[0])
"""


def test_no_nesting_ends_the_process() -> None:
    """Where Python's recursion limit was raised, bytes nested too deeply are our error all the same, and no crash."""
    done = subprocess.run([sys.executable, "-c", IN_A_FRESH_PROCESS], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "the bytes hold more levels than the 1500",
        "the bytes hold more levels than the 1500",
        "the bytes hold more levels than the 1500",
        "the bytes are corrupt (an extension and the value in it differ in length)",
        "the bytes hold more levels than the 1500",
        "the bytes hold more levels than the 10000",
        "the bytes hold more levels than the 10000",
        "the blob is corrupt: its header can't be read (it is nested too deeply)",
    ]


@pytest.mark.parametrize("raw", [False, True], ids=["loads", "loads_raw"])
def test_a_small_max_depth_holds_at_load(raw: bool) -> None:
    """A max_depth far below Python's recursion limit is applied to bytes without any other limit."""
    serializer = MsgpackSerializer(Registry(), max_depth=10)
    load = serializer.loads_raw if raw else serializer.loads

    assert load(b"\x91" * 30 + b"\x01") is not None
    with pytest.raises(SerializationError, match="more levels than the 30 that max_depth"):
        load(b"\x91" * 31 + b"\x01")
