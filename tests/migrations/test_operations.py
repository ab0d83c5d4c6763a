"""Ready-made steps for values: which values they reach, what of a value they change, and that tables stay tables."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from enum import Enum, Flag
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from stored_runs import refused
from two_programs import body_of, seal

from blobcp import (
    Checkpoint,
    Envelope,
    MigrationError,
    MsgpackSerializer,
    OptionError,
    RawTable,
    RawValue,
    Registry,
    SerializationError,
    read_header,
    register,
    register_codec,
)
from blobcp.checkpoint import Address, DagChannelState, InterruptState, PregelChannelState
from blobcp.migrations import (
    Dropped,
    Migrated,
    Migrations,
    Operation,
    add_field,
    drop_field,
    map_enum_value,
    move_type,
    rename_field,
    rename_type,
)

TOOL = MsgpackSerializer(Registry())
"""A serializer that knows none of the classes."""


@dataclass
class Item:
    qty: Any = 1
    note: Any = ""


@attrs.define
class Attrs:
    qty: Any = 1
    note: Any = ""


class Struct(msgspec.Struct):
    qty: Any = 1
    note: Any = ""


class Model(pydantic.BaseModel):
    qty: Any = 1
    note: Any = ""


class Extra(pydantic.BaseModel, extra="allow"):
    note: Any = ""


class Pair(NamedTuple):
    qty: Any = 1
    note: Any = ""


class Plain:
    def __init__(self, qty: Any = 1, note: Any = "") -> None:
        self.qty = qty
        self.note = note


class Slotted:
    __slots__ = ("note", "qty")

    def __init__(self, qty: Any = 1, note: Any = "") -> None:
        self.qty = qty
        self.note = note


class Failed(Exception):
    def __init__(self, qty: Any = 1, note: Any = "") -> None:
        super().__init__("failed")
        self.qty = qty
        self.note = note


class Money:
    def __init__(self, qty: Any = 1, note: Any = "") -> None:
        self.qty = qty
        self.note = note


class Bag:
    def __init__(self, key: Any) -> None:
        self.key = key


@dataclass(frozen=True)
class Key:
    qty: Any = 1


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Cart:
    items: list[Item] = field(default_factory=list)


KINDS: list[type[Any]] = [Item, Attrs, Struct, Model, Pair, Plain, Slotted, Failed, Money]
OLD = MsgpackSerializer(Registry())
register_codec(Bag, lambda bag: {bag.key: (1,)}, lambda parts: Bag(*parts), name="shop.Bag", registry=OLD.registry)
for cls in (*KINDS, Extra, Key, Colour, Right, Cart):
    if cls is Money:
        register_codec(
            Money,
            lambda money: {"qty": money.qty, "note": money.note},
            lambda parts: Money(**parts),
            name="shop.Money",
            registry=OLD.registry,
        )
    else:
        register(cls, name=f"shop.{cls.__name__}", registry=OLD.registry)


def apply(blob: bytes, *operations: Operation, serializer: Any = TOOL) -> Migrated:
    """Return what a migration 1 -> 2 of these operations makes of a blob."""
    migrations = Migrations(2)
    migrations.add(1, 2, *operations)
    return migrations.apply(blob, serializer=serializer)


def state_after(state: Any, *operations: Operation, serializer: Any = TOOL) -> Any:
    """Return the raw state after a migration."""
    return raw_of(apply(seal(Checkpoint(state=state), OLD), *operations, serializer=serializer).blob).state


def raw_of(blob: bytes) -> Checkpoint:
    """Return the raw checkpoint in a blob."""
    checkpoint = TOOL.loads_raw(Envelope().open(blob, checkpoint_id="A")[1])
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def attributes(raw: RawValue) -> dict[str, Any]:
    """Return all fields and attributes of a raw value."""
    return {name: item for part in raw.parts if type(part) is dict for name, item in part.items()}


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
class TestEveryKind:
    """A field is found whatever the kind of its class: among its fields, or among its further attributes."""

    def test_rename_field(self, cls: type[Any]) -> None:
        """The field has its new name and its old place and value, without the class."""
        raw = state_after(cls(qty=(7,), note="n"), rename_field(f"shop.{cls.__name__}", "qty", "quantity"))

        assert attributes(raw) == {"quantity": (7,), "note": "n"}

    def test_add_field(self, cls: type[Any]) -> None:
        """The field is there with its default, each value with a copy of its own."""
        raw = state_after([cls(), cls()], add_field(f"shop.{cls.__name__}", "tags", ["new"]))

        assert [attributes(each)["tags"] for each in raw] == [["new"], ["new"]]

    def test_add_a_field_that_is_there(self, cls: type[Any]) -> None:
        """A value that has the field keeps it."""
        assert attributes(state_after(cls(qty=7), add_field(f"shop.{cls.__name__}", "qty", 0)))["qty"] == 7

    def test_drop_field(self, cls: type[Any]) -> None:
        """The field is gone, and reported with how many had it."""
        name = f"shop.{cls.__name__}"
        done = apply(seal(Checkpoint(state=[cls(), cls()]), OLD), drop_field(name, "note"))

        assert [attributes(each) for each in raw_of(done.blob).state] == [{"qty": 1}, {"qty": 1}]
        assert done.dropped == [Dropped("field", f"{name}.note", count=2)]
        assert str(done.dropped[0]) == f"field {name}.note of the root graph, 2 times"

    def test_the_new_class_loads_it(self, cls: type[Any]) -> None:
        """What was renamed, added and dropped loads as a class that has these fields, with them set."""
        name = f"shop.{cls.__name__}"
        blob = apply(
            seal(Checkpoint(state=cls(qty=(7,))), OLD),
            *(rename_field(name, "qty", "quantity"), drop_field(name, "note"), add_field(name, "tags", ["new"])),
        ).blob
        new, serializer = _newer(cls), MsgpackSerializer(Registry())
        if cls is Money:
            register_codec(new, vars, lambda parts: new(**parts), name=name, registry=serializer.registry)
        else:
            register(new, name=name, registry=serializer.registry)
        state = body_of(blob, serializer).state

        assert type(state) is new
        assert (state.quantity, state.tags) == ((7,), ["new"])
        assert not hasattr(state, "note")

    def test_rename_type(self, cls: type[Any]) -> None:
        """The value has the new name, and all that it had."""
        raw = state_after(cls(qty=7), rename_type(f"shop.{cls.__name__}", "shop.New"))

        assert (raw.name, attributes(raw)["qty"]) == ("shop.New", 7)

    def test_the_class_stands_for_its_name(self, cls: type[Any]) -> None:
        """Where the class is there, it can be given in place of its name."""
        raw = state_after(cls(qty=7), rename_field(cls, "qty", "quantity"), serializer=OLD)

        assert attributes(raw)["quantity"] == 7


def _newer(cls: type[Any]) -> type[Any]:
    """Return a class of the same kind with the fields quantity and tags."""
    fields = {"quantity": Any, "tags": Any}
    if cls is Item:
        return make_dataclass("NewItem", fields.items())
    if cls is Attrs:
        return attrs.make_class("NewAttrs", list(fields))
    if cls is Struct:
        return msgspec.defstruct("NewStruct", list(fields.items()))
    if cls is Model:
        return pydantic.create_model("NewModel", **fields)
    if cls is Pair:
        return NamedTuple("NewPair", fields.items())  # type: ignore[misc]  # made from a table
    if cls is Slotted:
        return type("NewSlotted", (), {"__slots__": tuple(fields)})

    def init(self: Any, **given: Any) -> None:
        self.__dict__.update(given)

    return type(f"New{cls.__name__}", (Exception,) if cls is Failed else (), {"__init__": init})


PLACES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda item: item,
    "a list": lambda item: [item],
    "a tuple in a dict": lambda item: {"k": ({"deep": (item,)},)},
    "a key": lambda item: {item: 1},
    "a set": lambda item: {item},
    "a frozenset": lambda item: frozenset({item}),
    "a deque": lambda item: deque([1, item], 5),
    "a counter": lambda item: Counter({item: 2}),
    "an ordered dict": lambda item: OrderedDict(a=item),
    "a default dict": lambda item: defaultdict(list, {"a": [item]}),
    "a slice": lambda item: slice(item, None),
    "a field": lambda item: Attrs(item),
    "an attribute": lambda item: Plain(item),
    "an argument of an exception": lambda item: ValueError(item),
    "a note of an exception": lambda item: _noted(item),
    "an extra of a model": lambda item: Extra(more=item),
    "what a codec made": lambda item: Money(item),
    "a key of what a codec made": lambda item: Bag(item),
    "a table": lambda item: [Item(n, item) for n in range(5)],
    "a table in a table": lambda item: [Cart([Item(n, item)]) for n in range(5)],
}


def _noted(item: Any) -> ValueError:
    error = ValueError("x")
    error.item = item  # type: ignore[attr-defined]  # an attribute that it does not declare
    return error


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.replace(" ", "-"))
def test_every_place_in_a_value(place: str) -> None:
    """A value is found in every container, as every part of another value, and as a row of a table."""
    name, make = "shop.Key", PLACES[place]

    raw = state_after(make(Key(7)), rename_type(name, "shop.Lock"), rename_field("shop.Lock", "qty", "n"))

    serializer = MsgpackSerializer(Registry())
    register_codec(
        Bag, lambda bag: {bag.key: (1,)}, lambda parts: Bag(*parts), name="shop.Bag", registry=serializer.registry
    )
    for cls in (*KINDS, Extra, Cart):
        if cls is Money:
            register_codec(Money, vars, lambda parts: Money(**parts), name="shop.Money", registry=serializer.registry)
        else:
            register(cls, name=f"shop.{cls.__name__}", registry=serializer.registry)
    lock = make_dataclass("Lock", [("n", Any)], frozen=True)
    register(lock, name="shop.Lock", registry=serializer.registry)
    assert TOOL.dumps(raw) == serializer.dumps(make(lock(7)))


PLACES_OF_CHECKPOINTS: dict[str, Checkpoint] = {
    "a pregel channel": Checkpoint(channels={"n": PregelChannelState(values={"a": Item(7)})}),
    "a dag channel": Checkpoint(channels={"n": DagChannelState(values={"a": Item(7)}, control={"a": "ready"})}),
    "an input": Checkpoint(inputs={"n": [Item(7)]}),
    "a state": Checkpoint(state=Item(7)),
    "a nested state": Checkpoint(sub_graphs={"g": Checkpoint(sub_graphs={"h": Checkpoint(state=Item(7))})}),
    "a nested input": Checkpoint(sub_graphs={"g": Checkpoint(inputs={"n": Item(7)})}),
    **{
        f"the {part} of an interrupt": Checkpoint(
            interrupt_id_to_address={"i": Address.of(("runnable", "root"))},
            interrupt_id_to_state={"i": InterruptState(**{part: Item(7)})},
        )
        for part in ("state", "info", "payload")
    },
}


@pytest.mark.parametrize("place", PLACES_OF_CHECKPOINTS, ids=lambda place: place.replace(" ", "-"))
def test_every_place_in_a_checkpoint(place: str) -> None:
    """K36: a value is found wherever a checkpoint has values, not in the states alone; the rest stays as it was."""
    blob = seal(PLACES_OF_CHECKPOINTS[place], OLD)

    once = apply(blob, rename_field("shop.Item", "qty", "n"))
    migrations = Migrations(3)
    migrations.add(1, 2, rename_field("shop.Item", "qty", "n"))
    migrations.add(2, 3, rename_field("shop.Item", "n", "qty"))
    back = migrations.apply(blob)

    assert once.blob.count(b"qty") == 0
    assert body_of(back.blob, OLD) == PLACES_OF_CHECKPOINTS[place]
    assert read_header(back.blob).state_version == 3


class TestTables:
    """Lists of records are stored as tables; a migration leaves them tables, in the bytes that the new class would get."""

    @pytest.mark.parametrize(
        ("operations", "make"),
        [
            ([rename_field("shop.Item", "qty", "n")], lambda n: {"n": n, "note": "x"}),
            ([drop_field("shop.Item", "note")], lambda n: {"qty": n}),
            ([add_field("shop.Item", "tags", (1,))], lambda n: {"qty": n, "note": "x", "tags": (1,)}),
            ([rename_type("shop.Item", "shop.Line")], lambda n: {"qty": n, "note": "x"}),
            (
                [
                    *(rename_type("shop.Item", "shop.Line"), rename_field("shop.Line", "note", "text")),
                    *(add_field("shop.Line", "tags", default_factory=list), drop_field("shop.Line", "qty")),
                ],
                lambda n: {"text": "x", "tags": []},
            ),
        ],
        ids=["rename", "drop", "add", "name", "all"],
    )
    @pytest.mark.parametrize(
        "wrap", [lambda rows: rows, lambda rows: [Cart(rows) for _ in range(4)]], ids=["", "inner"]
    )
    def test_rows(self, operations: list[Operation], make: Callable[[int], dict[str, Any]], wrap: Any) -> None:
        """Each operation changes the rows and their layout, also in a table inside a table."""
        name = "shop.Line" if any("Line" in str(vars(each)) for each in operations) else "shop.Item"
        blob = apply(seal(Checkpoint(state=wrap([Item(n, "x") for n in range(9)])), OLD), *operations).blob

        row = make_dataclass("Row", [(key, Any) for key in make(0)])
        serializer = MsgpackSerializer(Registry())
        register(row, name=name, registry=serializer.registry)
        register(Cart, name="shop.Cart", registry=serializer.registry)
        raw = raw_of(blob).state
        assert type(raw) is RawTable
        expected: Any = [row(**make(n)) for n in range(9)]
        if wrap(0) != 0:
            loose = make_dataclass("Cart", [("items", list)])
            serializer = MsgpackSerializer(Registry())
            register(row, name=name, registry=serializer.registry)
            register(loose, name="shop.Cart", registry=serializer.registry)
            expected = [loose(expected) for _ in range(4)]
        assert TOOL.dumps(raw) == serializer.dumps(expected)

    def test_the_last_field_of_rows(self) -> None:
        """A table has a column at least; where its only field is dropped, its rows are written one by one and load."""
        raw = state_after([Key(n) for n in range(9)], drop_field("shop.Key", "qty"))

        assert [(each.name, each.fields) for each in raw] == [("shop.Key", {})] * 9


class TestMembersOfEnums:
    def test_by_name(self) -> None:
        """Members are renamed by their names, whatever their values are; swapped names too; others stay."""
        raw = state_after([Colour.RED, {Colour.BLUE: 1}], map_enum_value("shop.Colour", {"RED": "BLUE", "BLUE": "RED"}))

        assert OLD.loads(TOOL.dumps(raw)) == [Colour.BLUE, {Colour.RED: 1}]
        raw = state_after(Colour.RED, map_enum_value("shop.Colour", {"GREEN": "RED"}))
        assert OLD.loads(TOOL.dumps(raw)) is Colour.RED

    def test_by_members(self) -> None:
        """Members stand for their names, and for their values where they are flags, which are stored by value."""
        raw = state_after(
            [Colour.RED, Right.READ, Right.READ | Right.WRITE],
            *(map_enum_value(Colour, {"RED": Colour.BLUE}), map_enum_value(Right, {Right.READ: Right.WRITE, 3: 1})),
            serializer=OLD,
        )

        assert OLD.loads(TOOL.dumps(raw)) == [Colour.BLUE, Right.WRITE, Right.READ]


class TestNames:
    def test_a_class_under_its_older_names(self) -> None:
        """A class is found under its name and all its aliases; a name is that name alone."""
        new = MsgpackSerializer(Registry())
        register(Item, name="shop.Line", aliases=["shop.Item"], registry=new.registry)

        for target, expected in ((Item, "n"), ("shop.Item", "n"), ("shop.Line", "qty")):
            raw = state_after(Item(7), rename_field(target, "qty", "n"), serializer=new)
            assert list(raw.fields) == [expected, "note"]

    def test_a_name_that_is_registered_later(self) -> None:
        """A class that gets its name after the migrations were defined is found under it."""
        new = MsgpackSerializer(Registry())
        migrations = Migrations(2)
        migrations.add(1, 2, rename_field(Item, "qty", "n"))
        blob = seal(Checkpoint(state=Item(7)), OLD)
        assert raw_of(migrations.apply(blob, serializer=new).blob).state.fields["qty"] == 7

        register(Item, name="shop.Item", registry=new.registry)

        assert raw_of(migrations.apply(blob, serializer=new).blob).state.fields["n"] == 7

    def test_move_type(self) -> None:
        """A class without a name of its own is stored by its module, and is followed to another one."""
        old = MsgpackSerializer(Registry())
        before = make_dataclass("Item", [("qty", Any)], namespace={"__module__": "shop.models"})
        register(before, registry=old.registry)
        now = make_dataclass("Item", [("qty", Any)], namespace={"__module__": "shop.orders"})
        new = MsgpackSerializer(Registry())
        register(now, registry=new.registry)

        blob = apply(seal(Checkpoint(state=before(7)), old), move_type(now, "shop.models"), serializer=new).blob

        assert body_of(blob, new).state == now(7)
        assert raw_of(blob).state.name == "shop.orders.Item"
        blob = apply(seal(Checkpoint(state=before(7)), old), move_type(now, "shop.models")).blob
        assert raw_of(blob).state.name == "shop.orders.Item"

    def test_the_factory_of_a_default_dict(self) -> None:
        """A class that makes the defaults of a dict is stored by its name there too."""
        raw = state_after(defaultdict(Item, a=1), rename_type("shop.Item", "shop.Line"))

        assert raw.parts == [2, "shop.Line", "a", 1]


class TestRefusals:
    def test_both_fields(self) -> None:
        """A field can't take the place of one that is there."""
        tree = Checkpoint(sub_graphs={"g": Checkpoint(state=Item(7))})

        error = refused(MigrationError, apply, seal(tree, OLD), rename_field("shop.Item", "qty", "note"))

        assert "'qty' of a shop.Item, which has a field 'note'" in str(error)
        assert (error.checkpoint_id, error.path) == ("A", ["g"])

    def test_no_place_for_a_field(self) -> None:
        """A member of an enum has no fields that one could be added to."""
        error = refused(
            MigrationError, apply, seal(Checkpoint(state=Colour.RED), OLD), add_field("shop.Colour", "x", 1)
        )

        assert "shop.Colour" in str(error)

    def test_a_factory_that_fails(self) -> None:
        """What a default factory raises is the cause of the error, which names the field."""
        error = refused(
            MigrationError,
            apply,
            seal(Checkpoint(state=Item()), OLD),
            add_field("shop.Item", "x", default_factory=dict.pop),
        )

        assert "'x'" in str(error)
        assert isinstance(error.__cause__, TypeError)

    def test_a_default_that_cannot_be_stored(self) -> None:
        """A default of a class that is not registered is an error, and nothing is stored."""
        error = refused(MigrationError, apply, seal(Checkpoint(state=Item()), OLD), add_field("shop.Item", "x", Item()))

        assert isinstance(error.__cause__, SerializationError)
        assert "Item" in str(error)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: rename_field("", "a", "b"),
            lambda: rename_field(7, "a", "b"),  # type: ignore[arg-type]  # what is refused
            lambda: rename_field("X", "a", ""),
            lambda: rename_field("X", "a", "a"),
            lambda: rename_field("X", None, "b"),  # type: ignore[arg-type]  # likewise
            lambda: add_field("X", "a"),
            lambda: add_field("X", "a", 1, default_factory=int),
            lambda: drop_field("X", ""),
            lambda: rename_type("X", ""),
            lambda: move_type("X", "old"),  # type: ignore[arg-type]  # likewise
            lambda: move_type(Item, ""),
            lambda: map_enum_value("X", {}),
            lambda: map_enum_value("X", [("A", "B")]),  # type: ignore[arg-type]  # likewise
        ],
    )
    def test_what_is_no_operation(self, make: Callable[[], Operation]) -> None:
        """An operation that can't be meant is refused where it is written."""
        refused(OptionError, make)


def test_defaults_are_copies() -> None:
    """A default of a class is stored as a raw value, a new one for each, so that later operations find it."""
    raw = state_after(
        [Item(), Item()],
        *(add_field("shop.Item", "key", Key([1])), rename_field("shop.Key", "qty", "n")),
        serializer=OLD,
    )

    first, second = (each.fields["key"] for each in raw)
    assert first is not second
    assert (first.fields, second.fields) == ({"n": [1]}, {"n": [1]})


def test_a_model_knows_its_new_field() -> None:
    """A field that was added to a model which was not given all its fields counts as given, and a renamed one as before."""
    raw = state_after(Model(qty=3), rename_field("shop.Model", "qty", "n"), add_field("shop.Model", "tags", []))

    assert raw.parts[:2] == [{"n": 3, "note": "", "tags": []}, ["n", "tags"]]


def test_an_unset_attribute() -> None:
    """A declared field that was not set when it was stored is renamed among those that are not set, and can be added."""
    item = Attrs(7)
    del item.note

    raw = state_after(item, rename_field("shop.Attrs", "note", "text"))
    assert raw.parts == [{"qty": 7}, {}, ["text"]]
    raw = state_after(item, add_field("shop.Attrs", "note", "new"))
    assert raw.parts == [{"qty": 7, "note": "new"}, {}, []]
    raw = state_after(item, drop_field("shop.Attrs", "note"))
    assert raw.parts == [{"qty": 7}, {}, []]
