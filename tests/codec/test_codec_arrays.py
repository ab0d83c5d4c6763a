"""numpy's arrays and scalars, and LangChain's messages: values of libraries that blobcp does not import."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from msgspec.msgpack import Ext, encode

from blobcp.codec import MsgpackSerializer, Registry, register
from blobcp.errors import SerializationError

STRUCTURED = np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "U3")])])
ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)

ARRAYS: dict[str, Any] = {
    "ints": np.arange(6).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big endian": np.arange(3, dtype=">i4"),
    "strided": np.arange(10)[::3],
    "transposed": np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
    "of no dimension": np.array(1.5),
    "empty": np.zeros((0, 3), "f4"),
    "of no bytes": np.zeros(3, "V0"),
    "bools": np.array([True, False]),
    "complex": np.array([1j, complex("nan")]),
    "texts": np.array(["a", "☕☕"]),
    "bytes": np.array([b"a", b"\x00b"]),
    "times": np.array(["2024-01-01", "NaT"], "M8[ns]"),
    "spans": np.array([1, 2], "m8[3D]"),
    "structured": np.zeros(2, STRUCTURED),
    "aligned": np.ones(2, ALIGNED),
    "long longs": np.array([1], "q"),
    "halves": np.array([1.5], "f2"),
    "long doubles": np.array([1.5], "g"),
}
SCALARS: list[Any] = [
    *(np.int8(-1), np.uint64(2**64 - 1), np.float16(0.1), np.float64("nan"), np.float32(-0.0), np.complex64(1j)),
    *(np.bool_(True), np.str_("a\x00"), np.bytes_(b"a\x00"), np.longlong(3), np.longdouble(1.5)),
    *(np.datetime64("2024-01-01T01:02", "m"), np.timedelta64(3, "D"), np.datetime64("NaT", "s")),
    *(np.zeros(1, STRUCTURED)[0], np.void(b"abc")),
]


@pytest.fixture
def serializer(registry: Registry) -> MsgpackSerializer:
    """A serializer that knows no class."""
    return MsgpackSerializer(registry)


def assert_same(one: Any, other: Any) -> None:
    """Compare class, dtype, shape, order and bytes."""
    assert type(one) is type(other)
    assert (one.dtype, one.shape, one.dtype.char) == (other.dtype, other.shape, other.dtype.char)
    assert one.tobytes() == other.tobytes() or (one == other).all()  # what lies between aligned fields is nobody's


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(name: str, serializer: MsgpackSerializer) -> None:
    """An array keeps dtype, shape, order and values, at any depth, and can be written to."""
    array = ARRAYS[name]

    for wrapped in ([array], {"a": (array,)}, [[array]] * 5):
        found: Any = serializer.loads(serializer.dumps(wrapped))
        while not isinstance(found, np.ndarray):
            found = found["a"] if isinstance(found, dict) else found[0]

        assert_same(array, found)
        if array.flags.forc:
            assert (found.flags.c_contiguous, found.flags.f_contiguous) == (
                array.flags.c_contiguous,
                array.flags.f_contiguous,
            )
        assert found.flags.writeable
        assert found.flags.owndata


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: f"{type(scalar).__name__}-{scalar!r}"[:40])
def test_scalars_come_back(scalar: Any, serializer: MsgpackSerializer) -> None:
    """A scalar comes back as one of the same class, and never as Python's number or text."""
    found = serializer.loads(serializer.dumps({"a": scalar}))["a"]

    assert_same(scalar, found)
    assert str(found) == str(scalar)


@given(
    array=npst.arrays(
        st.one_of(npst.scalar_dtypes(), npst.array_dtypes()), npst.array_shapes(min_dims=0, min_side=0, max_dims=3)
    )
)
def test_any_array_comes_back(array: Any) -> None:
    """Whatever the dtype, an array comes back the same."""
    serializer = MsgpackSerializer(Registry())

    assert_same(array, serializer.loads(serializer.dumps(array)))


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.array([{}, 1], object), np.zeros(1, [("a", "O")]), np.zeros(1, [("a", "O")])[0]]
)
def test_arrays_of_objects_are_refused(value: Any, serializer: MsgpackSerializer) -> None:
    """An array of Python objects is refused at save with its path and what to do."""
    with pytest.raises(SerializationError, match=r"^state.a: .*Python objects.*tolist") as caught:
        serializer.dumps({"state": {"a": value}})

    assert caught.value.path == "state.a"


def test_subclasses_of_arrays_are_refused(serializer: MsgpackSerializer) -> None:
    """A masked array is no array that could come back as it was."""
    with pytest.raises(SerializationError, match="register_codec"):
        serializer.dumps(np.ma.masked_array([1], [True]))


HOSTILE: dict[str, list[Any]] = {
    "nothing": [],
    "objects": ["|O", "", [1], "C", b"\x00" * 8],
    "objects inside": [[["a", "|O"]], "", [1], "C", b"\x00" * 8],
    "a huge shape": ["<i4", "", [10**12], "C", b""],
    "a huge shape of nothing": ["|V0", "", [10**18, 10**18], "C", b""],
    "a negative shape": ["<i4", "", [-1], "C", b""],
    "a shape of text": ["<i4", "", "ab", "C", b""],
    "too few bytes": ["<i4", "", [2], "C", b"\x00" * 7],
    "another order": ["<i4", "", [1], "A", b"\x00" * 4],
    "bytes that are text": ["<i4", "", [1], "C", "abcd"],
    "no dtype": ["nonsense", "", [1], "C", b""],
    "a module as dtype": ["os.system", "", [1], "C", b""],
    "a dtype of a number": [7, "", [1], "C", b""],
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_arrays_are_refused(parts: list[Any], serializer: MsgpackSerializer) -> None:
    """F19: what is no array gives our error, takes no memory and makes no object."""
    for code in (43, 44):
        with pytest.raises(SerializationError, match=r"corrupt|not allowed"):
            serializer.loads(encode(Ext(code, encode(parts))))


INNER = np.dtype([("a", "i1"), ("b", "f8")], align=True)
PADDED = {
    "flat": INNER,
    "nested": np.dtype([("x", "i1"), ("inner", INNER, (2,)), ("y", "i2")], align=True),
}


@pytest.mark.parametrize("dtype", PADDED.values(), ids=PADDED.keys())
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_memory_between_fields_is_stored(dtype: np.dtype[Any], order: Any, serializer: MsgpackSerializer) -> None:
    """The bytes between the fields of records are stored as zeros, and offsets come back."""
    ones, zeros = (np.ndarray((2, 3), dtype, bytes([fill]) * (6 * dtype.itemsize), order=order) for fill in (255, 0))
    ones, zeros = ones.copy(order), zeros.copy(order)
    for array in (ones, zeros):
        _set_all(array, 1)

    assert ones.tobytes() != zeros.tobytes()
    assert serializer.dumps(ones) == serializer.dumps(zeros)
    assert serializer.dumps(ones[0, 0]) == serializer.dumps(zeros[0, 0])
    back = serializer.loads(serializer.dumps(ones))
    assert (back.dtype.fields, back.strides) == (dtype.fields, ones.strides)
    assert (back["inner"]["b"] if "inner" in back.dtype.fields else back["b"]).flat[0] == 1.0
    assert serializer.dumps(back) == serializer.dumps(ones)


def _set_all(array: Any, value: int) -> None:
    for name in array.dtype.names:
        if array[name].dtype.names:
            _set_all(array[name], value)
        else:
            array[name] = value


def test_a_shape_of_many_sizes_costs_nothing(serializer: MsgpackSerializer) -> None:
    """More dimensions than numpy has are refused before their sizes are multiplied."""
    data = encode(Ext(43, encode(["<f8", "", [2**63 - 1] * 50_000, "C", b""])))
    started = time.perf_counter()

    with pytest.raises(SerializationError, match="the shape of an array is corrupt"):
        serializer.loads(data)

    assert time.perf_counter() - started < 1.5


def test_numpy_is_not_imported_for_it() -> None:
    """Storing and loading values without arrays imports neither numpy nor pydantic nor cloudpickle."""
    script = (
        "import sys; from blobcp.codec import MsgpackSerializer, Registry\n"
        "serializer = MsgpackSerializer(Registry())\n"
        "serializer.loads(serializer.dumps({'a': [(1, 2), {3}, 2**70]}))\n"
        "try: serializer.dumps(object())\n"
        "except TypeError: pass\n"
        "assert not {'numpy', 'pydantic', 'cloudpickle'} & set(sys.modules)\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_messages_of_langchain(serializer: MsgpackSerializer) -> None:
    """Messages of LangChain are pydantic models and come back as the classes they were, alone and in lists."""
    messages = pytest.importorskip("langchain_core.messages", reason="langchain_core is not installed")
    for cls in (messages.HumanMessage, messages.AIMessage, messages.ToolMessage):
        register(cls, registry=serializer.registry)
    call = {"name": "search", "args": {"q": [1]}, "id": "c1", "type": "tool_call"}
    value = [
        messages.HumanMessage("hi", id="1"),
        messages.AIMessage("", tool_calls=[call], additional_kwargs={"x": (1,)}),
        messages.ToolMessage("found", tool_call_id="c1", artifact={"raw": b"x"}),
    ]

    found = serializer.loads(serializer.dumps({"messages": value, "many": [value[0]] * 5}))

    assert found == {"messages": value, "many": [value[0]] * 5}
    assert [type(each) for each in found["messages"]] == [type(each) for each in value]
    assert found["messages"][1].additional_kwargs == {"x": (1,)}
