"""Lists of records are stored as tables: what comes back, what is refused, and what the bytes are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from msgspec.msgpack import Ext, decode, encode

from blobcp.codec import MsgpackSerializer, Registry, register, register_annotations
from blobcp.errors import SerializationError, UnknownTypeError, UnregisteredTypeError

Difference = Callable[[Any, Any], str]

TABLE = 41


@dataclass
class Call:
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Message:
    role: str
    calls: list[Call] = field(default_factory=list)
    more: Any = None


@dataclass(slots=True)
class Slotted:
    x: Any
    y: Any = 1


@dataclass(frozen=True)
class Frozen:
    x: Any


@attrs.define
class Defined:
    x: Any
    y: Any = None


class Struct(msgspec.Struct):
    x: Any
    y: Any = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: Any
    y: Any = None
    _kept: int = pydantic.PrivateAttr(default=0)


class Pair(NamedTuple):
    x: Any
    y: Any = None


class Tree(pydantic.BaseModel):
    x: Any
    y: Any = None


RECORDS = Call | Message | Slotted | Frozen | Defined | Struct | Model | Pair | Tree


@pytest.fixture
def serializer(registry: Registry) -> MsgpackSerializer:
    """A serializer that knows the classes above."""
    register_annotations(RECORDS, registry)
    return MsgpackSerializer(registry)


def is_table(data: bytes) -> bool:
    """Tell whether the value itself is a table."""
    plain = decode(data)
    return type(plain) is Ext and plain.code == TABLE


ROWS: list[Callable[[Any], Any]] = [
    lambda x: Call("a", {"x": x}),
    lambda x: Message("user", [Call("a", {"x": x})] * 2, [x]),
    lambda x: Slotted(x),
    lambda x: Frozen(x),
    lambda x: Defined(x),
    lambda x: Struct(x, (x,)),
    lambda x: Pair(x),
    lambda x: Tree(x=x, y=[x]),
]
ITEMS: list[Any] = [1, "a", None, (1,), {(1, 2): {3}}, [[[]]], 2**70, "\ud800", Pair(1), [Pair(1)] * 5, [Pair(1), 2]]


@pytest.mark.parametrize("make", ROWS, ids=lambda make: type(make(1)).__name__)
@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_rows_come_back(
    make: Callable[[Any], Any], item: Any, serializer: MsgpackSerializer, difference: Difference
) -> None:
    """Records of each kind come back from a table, whatever their fields hold, also several kinds of values."""
    for rows in ([make(item) for _ in range(5)], [make(item), make(1), make(()), make([]), make(2**80)]):
        data = serializer.dumps(rows)
        found = serializer.loads(data)

        assert is_table(data)
        assert difference([vars_of(row) for row in rows], [vars_of(row) for row in found]) == ""
        assert found == rows
        assert serializer.dumps(found) == data


def vars_of(row: Any) -> Any:
    """Return the fields of a row, so that their types are compared too."""
    return [type(row), *(getattr(row, name) for name in type(row).__annotations__ if not name.startswith("_"))]


def irregular() -> dict[str, list[Any]]:
    """Return lists of records of which one holds more, or less, than its fields."""
    more, unset, extra, private, partly = Call("a"), Slotted(1), Model(x=1, y=2, z=3), Model(x=1, y=2), Model(x=1)
    more.note = "x"  # type: ignore[attr-defined]
    del unset.y
    private._kept = 7
    return {
        "a further attribute": [*(Call("b") for _ in range(4)), more],
        "a field that is not set": [*(Slotted(2) for _ in range(4)), unset],
        "an extra field": [*(Model(x=1, y=2) for _ in range(4)), extra],
        "a private attribute": [*(Model(x=1, y=2) for _ in range(4)), private],
        "a field that was not given": [*(Model(x=1, y=2) for _ in range(4)), partly],
        "another class": [*(Call("b") for _ in range(4)), Message("a")],
        "a subclass": [*(Pair(1) for _ in range(4)), None],
    }


@pytest.mark.parametrize("name", irregular())
def test_records_that_are_not_alike_are_no_table(name: str, serializer: MsgpackSerializer) -> None:
    """A record with more or less than its fields keeps that: the list is written record by record."""
    rows = irregular()[name]

    data = serializer.dumps(rows)
    found = serializer.loads(data)

    assert not is_table(data)
    assert [getattr(row, "__dict__", row) for row in found[:4]] == [getattr(row, "__dict__", row) for row in rows[:4]]
    if name == "a further attribute":
        assert found[4].note == "x"
    elif name == "a field that is not set":
        assert not hasattr(found[4], "y")
    elif name.startswith("a"):
        assert found[4] == rows[4]
        assert getattr(found[4], "model_fields_set", None) == getattr(rows[4], "model_fields_set", None)


def test_what_a_table_is(serializer: MsgpackSerializer) -> None:
    """The bytes of a table stay as they are: rows, the layout of a row, and the columns; lists with their lengths."""
    rows = [Message("u", [Call("f", {"n": 1})]), Message("v"), Message("w", [], (1,)), Message("x", [], [2])]

    layout = [32, f"{__name__}.Message", ["role", "calls", "more"], [None, None, None]]
    layout[3][1] = [[32, f"{__name__}.Call", ["name", "args"], [None, None]]]  # type: ignore[index]
    columns = [
        ["u", "v", "w", "x"],
        [[1, 0, 0, 0], [["f"], [{"n": 1}]]],
        [None, None, Ext(1, encode([1])), [2]],
    ]
    assert serializer.dumps(rows) == encode(Ext(TABLE, encode([4, layout, columns])))


def test_a_refusal_names_the_row(serializer: MsgpackSerializer) -> None:
    """A value in a table that can't be stored is refused with the path that it has for the user."""
    rows: list[Any] = [Message("u", [Call("f", {"n": 1})]) for _ in range(9)]
    rows[7].calls[0].args["bad"] = {"deep": [object()]}

    with pytest.raises(UnregisteredTypeError) as caught:
        serializer.dumps({"messages": rows})

    assert caught.value.path == "messages[7].calls[0].args.bad.deep[0]"


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        ([*(Call("a") for _ in range(5)), Call(7)], "[5].name"),  # type: ignore[arg-type]
        ([*(Message("a") for _ in range(5)), Message("b", [Call("a"), "x"])], "[5].calls"),  # type: ignore[list-item]
        ([*(Call("a") for _ in range(5)), Call("b", {1: 2})], "[5].args"),  # type: ignore[dict-item]
    ],
)
def test_fields_are_checked_in_tables(rows: list[Any], path: str, serializer: MsgpackSerializer) -> None:
    """F21: a field that contradicts its annotation is refused in any row, with its path."""
    with pytest.raises(SerializationError, match="could not be used after loading") as caught:
        serializer.dumps(rows)

    assert caught.value.path == path


def test_cycles_through_tables_are_refused(serializer: MsgpackSerializer) -> None:
    """A record that holds itself, once or many times, is refused with the path to where it does, in little time."""
    for times in (4, 40, 2000):
        node = Message("a")
        node.more = [node] * times

        with pytest.raises(SerializationError, match="holds itself"):
            serializer.dumps([node] * 4)


def test_deep_tables(serializer: MsgpackSerializer) -> None:
    """Tables in tables are held to the depth that can be loaded again."""

    def nested(depth: int) -> list[Message]:
        rows = [Message("leaf") for _ in range(4)]
        for _ in range(depth):
            rows = [Message("a", [], rows), *(Message("b") for _ in range(3))]
        return rows

    stored = nested(100)
    assert serializer.loads(serializer.dumps(stored)) == stored
    with pytest.raises(SerializationError, match="nested too deeply"):
        serializer.dumps(nested(130))


def test_a_class_of_a_table_may_change() -> None:
    """Fields that are new, gone or in another order, and an alias: as for a single record, in each row."""

    @dataclass
    class Before:
        a: int
        b: str
        gone: int = 0

    @dataclass
    class After:
        b: str
        a: int
        new: list[int] = field(default_factory=list)

    old, new = MsgpackSerializer(Registry()), MsgpackSerializer(Registry())
    register(Before, name="old.Row", registry=old.registry)
    register(After, name="new.Row", aliases=["old.Row"], registry=new.registry)

    found = new.loads(old.dumps([Before(index, "x") for index in range(5)]))

    assert found == [After("x", index) for index in range(5)]
    assert found[0].new is not found[1].new


def test_a_missing_field_and_an_unknown_class_have_a_path() -> None:
    """F16: a table of a class that is not registered, or that has a new field without a default, is refused."""

    @dataclass
    class Row:
        a: int

    @dataclass
    class Later:
        a: int
        needed: int

    @dataclass
    class Now:
        a: list[int]

    old, new, other = MsgpackSerializer(Registry()), MsgpackSerializer(Registry()), MsgpackSerializer(Registry())
    register(Row, name="shop.Row", registry=old.registry)
    register(Later, name="shop.Row", registry=new.registry)
    data = old.dumps({"cart": [Row(1) for _ in range(5)]})

    with pytest.raises(SerializationError, match=r"cart\[0\]: .*lacks the field 'needed'"):
        new.loads(data)
    with pytest.raises(UnknownTypeError, match=r"cart\[0\]: no class is registered under 'shop.Row'") as caught:
        other.loads(data)
    assert (caught.value.name, caught.value.path) == ("shop.Row", "cart[0]")


def test_a_reloaded_class_is_written_under_its_name(serializer: MsgpackSerializer) -> None:
    """A list of a subclass in a field of its base comes back as the subclass."""

    @dataclass
    class Special(Call):
        kind: str = "s"

    register(Special, registry=serializer.registry)
    rows = [Message("a", [Special("x"), Special("y")]) for _ in range(4)]

    assert [type(call) for row in serializer.loads(serializer.dumps(rows)) for call in row.calls] == [Special] * 8


HUGE = 10**12
LAYOUT = [32, f"{__name__}.Frozen", ["x"], [None]]
HOSTILE: dict[str, Any] = {
    "nothing": [],
    "one part": [1],
    "no layout": [HUGE, None, []],
    "no rows": [HUGE, LAYOUT, [[]]],
    "fewer rows": [3, LAYOUT, [[1, 2]]],
    "rows that are text": [2, LAYOUT, ["ab"]],
    "a dict of rows": [1, LAYOUT, [{"a": 1}]],
    "no fields, and so many": [HUGE, [32, f"{__name__}.Frozen", [], []], []],
    "one field twice": [1, [32, f"{__name__}.Frozen", ["x", "x"], [None, None]], [[1], [2]]],
    "a field too many": [1, [32, f"{__name__}.Frozen", ["x", "y"], [None]], [[1]]],
    "a column too many": [1, LAYOUT, [[1], [2]]],
    "lists of huge lengths": [1, [None], [[HUGE], []]],
    "lists of negative lengths": [2, [None], [[2, -1], [1]]],
    "lengths that are bools": [1, [None], [[True], [1]]],
    "lengths that are text": [2, [None], ["ab", []]],
    "lengths alone": [1, [None], [[1]]],
    "a layout of two": [1, [None, None], [[1], [1]]],
    "a layout of a number": [1, 7, [1]],
    "fields that are lists": [1, [32, f"{__name__}.Frozen", [[1]], [None]], [[1]]],
    "a name that is a list": [1, [32, [], ["x"], [None]], [[1]]],
    "another kind": [1, [33, f"{__name__}.Frozen", ["x"], [None]], [[1]]],
    "a kind that is a text": [1, ["x", f"{__name__}.Frozen", ["x"], [None]], [[1]]],
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_tables_are_refused(parts: Any, serializer: MsgpackSerializer) -> None:
    """F19: whatever stands in a table, loading gives our error and takes no memory."""
    with pytest.raises(SerializationError, match=r"corrupt|not allowed|was stored as"):
        serializer.loads(encode(Ext(TABLE, encode(parts))))


def test_a_layout_nested_without_end_is_refused(serializer: MsgpackSerializer) -> None:
    """F19: a layout of ten thousand levels is our error, and never a RecursionError."""
    layout = b"\x91" * 10_000 + b"\xc0"

    with pytest.raises(SerializationError, match="corrupt"):
        serializer.loads(encode(Ext(TABLE, b"\x93\x01" + layout + b"\x90")))
