"""Bodies read without the classes in them: walked, changed, and written back to the byte."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, Flag, auto
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext, encode

from blobcp.checkpoint import Address, Checkpoint, InterruptState, PregelChannelState
from blobcp.codec import MsgpackSerializer, RawTable, RawValue, Registry, register, register_annotations, register_codec
from blobcp.errors import SerializationError


@dataclass
class Item:
    sku: Any
    amount: Any = 1


@dataclass
class Cart:
    items: list[Item] = field(default_factory=list)
    owner: Any = None


@attrs.define
class Attrs:
    x: Any


class Struct(msgspec.Struct):
    x: Any


class Model(pydantic.BaseModel):
    x: Any = 1


class Pair(NamedTuple):
    x: Any


class Colour(Enum):
    RED = 1


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Failed(Exception):
    """An error of a user's."""


class Money:
    """A class with a codec."""

    def __init__(self, cents: int) -> None:
        self.cents = cents


@dataclass(frozen=True)
class Key:
    x: Any


known = Registry()
register_annotations(Item | Cart | Attrs | Struct | Model | Pair | Colour | Right | Key, known)
register(Failed, registry=known)
register_codec(Money, lambda money: money.cents, Money, registry=known)
WRITER = MsgpackSerializer(known, pickle_key=b"k" * 32)
TOOL = MsgpackSerializer(Registry())
"""A serializer that knows none of the classes above."""

VALUES: list[Any] = [
    *(Item("a"), [Item(1), Item(2), Item(3), Item(4)], Cart([Item(n) for n in range(9)])),
    *([Cart([Item(n)]) for n in range(5)], [Cart(owner=[Item(1)] * 7) for _ in range(5)]),
    *(Attrs((1,)), Struct(2**70), Model(), Model(x="\ud800"), Pair({1}), Colour.RED, Right.READ | Right.WRITE),
    *(Failed("no", (1,)), ValueError("x"), Money(7), len, {Key((1,)): {Key(2)}, "a": frozenset({Key(3)})}),
    *({"z", "a", "m", "k", "b"}, {(1, 2): [None]}, {Colour.RED: 1}, Counter("aab"), OrderedDict(a=Item(1))),
    *(defaultdict(list, a=[1]), defaultdict(Cart, a=1), deque([Item(1)], 3), slice(Item(1), 2)),
    *(datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.50"), 2**70, "\ud800", {"\ud800": 1}, 1 + 2j, range(3), ...),
    *(np.arange(3), np.float32(1.5), [np.int8(1)] * 5, bytearray(b"x"), b"x" * 70_000),
    Checkpoint(
        channels={"n": PregelChannelState(values={"a": Item(1)})},
        state=Cart([Item(n) for n in range(9)], Key({1: (2,)})),
        sub_graphs={"g": Checkpoint(state=Item(1))},
        interrupt_id_to_address={"i": Address.of(("a", "b"))},
        interrupt_id_to_state={"i": InterruptState(info=Item(3), created_at=datetime(2024, 1, 1, tzinfo=UTC))},
    ),
    [InterruptState(info=Item(n)) for n in range(5)],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{value!a}"[:50])
def test_an_unchanged_tree_is_the_same_bytes(value: Any) -> None:
    """Whatever was stored, reading it without classes and writing it again gives the same bytes, at any depth."""
    for wrapped in (value, [value], {"k": (value,)}, [value] * 5, [Cart([], value) for _ in range(5)]):
        data = WRITER.dumps(wrapped)

        assert TOOL.dumps(TOOL.loads_raw(data)) == data


def _values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.decimals(allow_nan=False)),
        st.sampled_from([Colour.RED, Right.READ, Money(3), ValueError("x"), datetime(2024, 1, 1, tzinfo=UTC)]),
    )
    hashable = st.one_of(st.text(), st.integers(), st.builds(Key, st.integers()), st.tuples(st.text()))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            *(st.lists(inner, max_size=6), st.lists(st.builds(Item, inner, inner), min_size=3, max_size=6)),
            *(st.dictionaries(hashable, inner, max_size=4), st.lists(inner, max_size=3).map(tuple)),
            *(st.sets(hashable, max_size=5), st.builds(Cart, st.lists(st.builds(Item, inner), max_size=5), inner)),
            *(st.builds(kind, x=inner) for kind in (Attrs, Struct, Model, Pair)),
            st.lists(st.builds(Cart, st.lists(st.builds(Item, inner), max_size=3), inner), min_size=4, max_size=6),
        ),
        max_leaves=12,
    )


@given(value=st.deferred(_values))
def test_any_unchanged_tree_is_the_same_bytes(value: Any) -> None:
    """Reading without classes and writing again is the identity on all that can be stored."""
    data = WRITER.dumps(value)

    assert TOOL.dumps(TOOL.loads_raw(data)) == data


def test_a_tree_can_be_walked() -> None:
    """Fields are found by name, items of containers as ever, and the checkpoint is a checkpoint."""
    data = WRITER.dumps(Checkpoint(state=Cart([Item(n) for n in range(5)], {"who": (Key(1), Colour.RED)})))

    checkpoint = TOOL.loads_raw(data)
    cart = checkpoint.state

    assert type(checkpoint) is Checkpoint
    assert (cart.name, cart.kind) == (f"{__name__}.Cart", "dataclass")
    assert isinstance(cart.fields["items"], RawTable)
    assert [item.fields["sku"] for item in cart.fields["items"]] == [0, 1, 2, 3, 4]
    key, colour = cart.fields["owner"]["who"]
    assert key.fields == {"x": 1}
    assert (colour.kind, colour.parts, colour.fields) == ("enum", ["RED"], {})


def test_sets_keep_their_order() -> None:
    """A set is its members in stored order, since they may be values without a class."""
    raw = TOOL.loads_raw(encode(Ext(2, encode(["b", "a"]))))

    assert (raw.kind, raw.parts) == ("set", ["b", "a"])
    assert WRITER.loads(TOOL.dumps(raw)) == {"a", "b"}


def test_a_tree_can_be_changed() -> None:
    """Rename a class, rename, add and drop fields, in tables too: what is written loads as the new classes."""

    @dataclass
    class Line:
        article: Any
        note: str

    @dataclass
    class Basket:
        lines: list[Line]

    new = MsgpackSerializer(Registry())
    register(Line, name="shop.Line", registry=new.registry)
    register(Basket, name="shop.Basket", registry=new.registry)
    raw = TOOL.loads_raw(WRITER.dumps(Cart([Item(n) for n in range(5)])))

    for item in raw.fields["items"]:
        item.name = "shop.Line"
        item.fields["article"] = item.fields.pop("sku")
        item.fields["note"] = "migrated"
        del item.fields["amount"]
    raw.name = "shop.Basket"
    raw.fields["lines"] = raw.fields.pop("items")
    raw.fields["lines"].append(RawValue("shop.Line", {"article": 9, "note": "new"}))
    del raw.fields["owner"]

    assert new.loads(TOOL.dumps(raw)) == Basket([*(Line(n, "migrated") for n in range(5)), Line(9, "new")])


@pytest.mark.parametrize("change", ["a field", "a name", "an item", "a value", "fewer", "other fields"])
def test_a_changed_table_is_written(change: str) -> None:
    """Whatever is changed in a list that was a table, what is written is what the list is now."""
    raw = TOOL.loads_raw(WRITER.dumps([Item(n) for n in range(5)]))
    expected: list[Any] = [Item(n) for n in range(5)]
    if change == "a field":
        raw[1].fields["sku"] = expected[1].sku = (7,)
    elif change == "a name":
        raw[1] = RawValue(f"{__name__}.Key", {"x": 1})
        expected[1] = Key(1)
    elif change == "an item":
        raw[1] = expected[1] = None
    elif change == "a value":
        raw.append(1)
        expected.append(1)
    elif change == "fewer":
        del raw[1:], expected[1:]
    else:
        raw[1].fields["more"] = 1

    assert WRITER.loads(TOOL.dumps(raw)) == expected


def test_a_refusal_in_a_raw_tree_has_a_path() -> None:
    """A value that was put into a tree and can't be stored is refused where it stands."""
    raw = TOOL.loads_raw(WRITER.dumps({"cart": Cart([Item(n) for n in range(5)])}))
    raw["cart"].fields["items"][3].fields["sku"] = object()

    with pytest.raises(SerializationError) as caught:
        TOOL.dumps(raw)

    assert caught.value.path == "cart.items[3].sku"


def test_values_are_themselves() -> None:
    """A value without a class is equal to itself alone, has a readable text, and needs a known kind."""
    one, other = RawValue("a.B", {"x": 1}), RawValue("a.B", {"x": 1})

    assert one != other
    assert len({one, other}) == 2
    assert repr(one) == "RawValue('a.B', {'x': 1})"
    assert repr(RawValue("a.C", "RED", kind="enum")) == "RawValue('a.C', 'RED', kind='enum')"
    with pytest.raises(ValueError, match="no kind of value"):
        RawValue("a.B", kind="nonsense")


def test_damaged_bytes_are_our_error() -> None:
    """Bytes that hold no such values are refused as ever, with paths; a pickle in them is not unpickled."""
    for data in (b"", b"\xc1", encode(Ext(99, b"")), encode(Ext(32, encode([1, {}]))), encode(Ext(41, encode([1])))):
        with pytest.raises(SerializationError, match="corrupt"):
            TOOL.loads_raw(data)
    cell = TOOL.loads_raw(encode(Ext(42, encode([b"anything"]))))
    assert (cell.kind, cell.parts) == ("pickle", [b"anything"])


def test_no_class_is_imported() -> None:
    """A body loads in a process that has none of its classes, and registers nothing."""
    script = (
        "import sys; from blobcp.codec import MsgpackSerializer, default_registry\n"
        "names = default_registry.names(); serializer = MsgpackSerializer()\n"
        "data = bytes.fromhex(sys.argv[1])\n"
        "assert serializer.dumps(serializer.loads_raw(data)) == data\n"
        "assert default_registry.names() == names\n"
        "assert 'pydantic' not in sys.modules and 'attr' not in sys.modules\n"
    )
    data = WRITER.dumps([Cart([Item(1)] * 5), Model(x=Attrs(1)), Pair(2)])

    subprocess.run([sys.executable, "-c", script, data.hex()], check=True, timeout=60)
