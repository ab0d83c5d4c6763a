from __future__ import annotations

import dataclasses
import errno
from collections import namedtuple
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attr
import attrs
import msgspec
import pydantic
import pytest

from blobcp.codec import MsgpackSerializer, Registry, register, register_annotations, register_codec
from blobcp.errors import SerializationError

T = TypeVar("T")


def there_and_back(value: Any, *classes: type[Any]) -> Any:
    """Return the value after a round trip, with the classes registered."""
    registry = Registry()
    for cls in classes or (type(value),):
        register(cls, registry=registry)
    serializer = MsgpackSerializer(registry)
    found = serializer.loads(serializer.dumps(value))
    assert type(found) is type(value)
    return found


@dataclass
class Counted:
    """A dataclass whose construction has effects."""

    made: ClassVar[list[str]] = []
    name: str
    scale: InitVar[int] = 1
    tags: list[str] = field(default_factory=list)
    size: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.made.append(self.name)
        self.size = len(self.name) * scale


def test_a_dataclass_is_restored_and_not_made_again() -> None:
    """State is put back field by field: no __init__, no __post_init__, init=False fields and InitVar included."""
    value = Counted("abc", scale=7)
    value.tags.append("x")
    Counted.made.clear()

    found = there_and_back(value)

    assert found == value
    assert found.size == 21
    assert Counted.made == []


@dataclass(slots=True)
class Slotted:
    x: int
    y: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Frozen:
    x: int
    y: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class FrozenSlotted:
    x: Any


@dataclass
class Empty: ...


@dataclass
class Base:
    a: int = 1


@dataclass
class Derived(Base):
    b: Any = None


@dataclass
class Holder:
    held: Base
    many: list[Base] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    item: T


@pytest.mark.parametrize(
    "value",
    [Slotted(1, (2,)), Frozen(x=1, y=frozenset({2})), FrozenSlotted((1, {2: 3})), Empty(), Box([1]), Derived(1, {2})],
)
def test_dataclasses_of_all_sorts(value: Any) -> None:
    """Slots, frozen, keyword-only, empty, generic and derived dataclasses come back equal."""
    assert there_and_back(value) == value


def test_a_frozen_value_keeps_its_hash() -> None:
    """Restored frozen values are found in sets and dicts."""
    assert there_and_back({FrozenSlotted(1): {Frozen(x=1)}}, FrozenSlotted, Frozen) == {FrozenSlotted(1): {Frozen(x=1)}}


def test_a_subclass_in_a_field_of_its_base_stays_itself() -> None:
    """Inheritance: what is held is stored as what it is, not as what was declared."""
    found = there_and_back(Holder(Derived(1, "b"), [Base(2), Derived(3)]), Holder, Base, Derived)

    assert found == Holder(Derived(1, "b"), [Base(2), Derived(3)])
    assert [type(each) for each in (found.held, *found.many)] == [Derived, Base, Derived]


def test_a_generic_forgets_its_arguments_only() -> None:
    """Box[int](1) comes back as a Box; the argument is not part of its state."""
    found = there_and_back(Box[int](1), Box)

    assert found == Box(1)
    assert not hasattr(found, "__orig_class__")


def test_attributes_that_are_no_fields_come_back_too() -> None:
    """What was set on a value beyond its fields is not lost; an unset field stays unset."""
    value = Base(5)
    value.note = ("x", 1)  # type: ignore[attr-defined]
    unset = Slotted(1)
    del unset.y

    assert vars(there_and_back(value)) == {"a": 5, "note": ("x", 1)}
    assert not hasattr(there_and_back(unset), "y")


class Plain:
    """A class without any declaration."""

    __slots__ = ("__dict__", "__hidden", "shown")

    def __init__(self, secret: int) -> None:
        self.__hidden = secret
        self.shown = [secret]
        self.more = {"k": (secret,)}

    @cached_property
    def computed(self) -> int:
        """What is computed once."""
        return self.__hidden * 2


def test_a_plain_class_is_stored_by_its_attributes() -> None:
    """Any registered Python class works, private slots included; cached properties are computed again."""
    value = Plain(4)
    assert value.computed == 8

    found = there_and_back(value)

    assert (found.shown, found.more) == ([4], {"k": (4,)})
    assert "computed" not in vars(found)
    assert found.computed == 8


class Struct(msgspec.Struct, rename="camel", tag="s", omit_defaults=True):
    first_name: str
    others: list[Any] = []


class ArrayStruct(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    x: Any = 1
    y: Any


class WithPostInit(msgspec.Struct, frozen=True, weakref=True):
    made: ClassVar[list[int]] = []
    b: int
    a: Any = None

    def __post_init__(self) -> None:
        self.made.append(self.b)


class DerivedStruct(Struct, kw_only=True):
    made: ClassVar[list[str]] = []
    last_name: str = ""

    def __post_init__(self) -> None:
        self.made.append(self.first_name)


class GenericStruct(msgspec.Struct, Generic[T], dict=True):
    item: T

    def __post_init__(self) -> None:
        self.seen = True


@pytest.mark.parametrize(
    "value",
    [
        Struct("a", [(1,)]),
        ArrayStruct(y={1}),
        WithPostInit(1, (2,)),
        DerivedStruct("a", last_name="b"),
        GenericStruct([1]),
    ],
)
def test_structs_of_all_sorts(value: Any) -> None:
    """Rename, tag, omit_defaults, array_like, frozen, derived and generic structs come back equal."""
    assert there_and_back(value) == value


def test_post_init_of_a_struct_does_not_run_again() -> None:
    """A struct's own __post_init__ runs when it is made and not when it is restored."""
    values = [WithPostInit(1, [2]), DerivedStruct("a")]
    WithPostInit.made.clear()
    DerivedStruct.made.clear()

    found = there_and_back(values, WithPostInit, DerivedStruct)

    assert found == values
    assert (WithPostInit.made, DerivedStruct.made) == ([], [])
    assert hash(there_and_back(WithPostInit(1))) == hash(WithPostInit(1))


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)

    name: str = pydantic.Field(alias="fullName", min_length=2)
    tags: set[str] = pydantic.Field(default_factory=set)
    _secret: Any = pydantic.PrivateAttr(default=1)

    @pydantic.field_validator("name")
    @classmethod
    def shout(cls, value: str) -> str:
        """Change what is validated, so that validating twice is noticed."""
        return value + "!"


class Strict(pydantic.BaseModel, frozen=True):
    x: int
    inner: Model | None = None


class Root(pydantic.RootModel[list[int]]): ...


def test_a_model_comes_back_without_being_validated_again() -> None:
    """Private attributes, extras, aliases and the set of given fields are kept; validators do not run."""
    value = Model(fullName="ab", colour=("red",))
    value._secret = (1, {2})

    found = there_and_back(value)

    assert found == value
    assert found.name == "ab!"
    assert found.colour == ("red",)
    assert found._secret == (1, {2})
    assert found.model_fields_set == {"name", "colour"}
    assert found.model_dump(exclude_unset=True, by_alias=True) == {"fullName": "ab!", "colour": ("red",)}


@pytest.mark.parametrize(
    "value", [Strict(x=1), Strict(x=1, inner=Model(name="ab")), Root([1, 2]), Model(name="xy", tags={"a"})]
)
def test_models_of_all_sorts(value: pydantic.BaseModel) -> None:
    """Frozen, nested and root models come back equal, with the same fields set."""
    found = there_and_back(value, Strict, Model, Root)

    assert found == value
    assert found.model_fields_set == value.model_fields_set
    assert found.__pydantic_private__ == value.__pydantic_private__


@attrs.define
class Attrs:
    x: int
    _private: list[Any] = attrs.field(factory=list, alias="hidden")


@attrs.frozen(cache_hash=True)
class FrozenAttrs:
    x: Any = attrs.field(validator=attrs.validators.instance_of(object))


@attrs.define(slots=False)
class OpenAttrs(Attrs):
    y: Any = None


@pytest.mark.parametrize("value", [Attrs(1, hidden=[(2,)]), FrozenAttrs((1,)), OpenAttrs(1, y={2})])
def test_attrs_classes_of_all_sorts(value: Any) -> None:
    """Slotted, frozen, private and derived attrs classes come back equal."""
    assert there_and_back(value) == value


@attrs.define
class Costly:
    size: int
    runs: ClassVar[list[int]] = []

    @cached_property
    def doubled(self) -> int:
        """Compute, and tell that it ran."""
        self.runs.append(self.size)
        return self.size * 2


@attrs.define
class CostlyToo(Costly):
    name: str = ""


@pytest.mark.parametrize("make", [Costly, CostlyToo])
@pytest.mark.parametrize("count", [1, 5])
def test_cached_properties_of_attrs_classes_are_left_to_be_computed_again(
    make: Callable[[int], Any], count: int
) -> None:
    """The slots that attrs keeps them in are not read: storing computes none, and one that was computed is not stored either."""
    Costly.runs.clear()
    values = [make(each) for each in range(count)]
    assert values[0].doubled == 0

    found = there_and_back(values, make)

    assert found == values
    assert Costly.runs == [0]
    assert [each.doubled for each in found] == [each * 2 for each in range(count)]
    assert Costly.runs == [0, *range(count)]


class Lazy:
    """A class with slots that makes up what was not set."""

    __slots__ = ("kept", "unset")

    def __getattr__(self, name: str) -> str:
        return f"made up {name}"


class LazyError(Exception):
    """An exception likewise."""

    __slots__ = ("kept", "unset")

    def __getattr__(self, name: str) -> str:
        return f"made up {name}"


@pytest.mark.parametrize("make", [Lazy, LazyError])
def test_what_getattr_makes_up_is_not_stored(make: Callable[[], Any]) -> None:
    """Only what a slot holds is stored."""
    value = make()
    value.kept = 1

    found = there_and_back(value)

    assert found.kept == 1
    assert found.unset == "made up unset"
    with pytest.raises(AttributeError):
        object.__getattribute__(found, "unset")


def test_a_cached_hash_is_not_carried_to_another_process() -> None:
    """A stored hash would be wrong where strings hash otherwise."""
    value = FrozenAttrs("x")
    hash(value)

    assert str(hash(value)).encode() not in MsgpackSerializer(_with(FrozenAttrs)).dumps(value)
    assert there_and_back(value)._attrs_cached_hash is None
    assert hash(there_and_back(value)) == hash(value)


def _with(*classes: type[Any]) -> Registry:
    registry = Registry()
    for cls in classes:
        register(cls, registry=registry)
    return registry


class Pair(NamedTuple):
    left: int
    right: list[int] | None = None


class Named(Pair):
    """A named tuple with room for attributes."""


def test_named_tuples_keep_class_and_attributes() -> None:
    """A subclass of a named tuple is itself, with what was set on it."""
    value = Named(1, [2])
    value.note = "x"  # type: ignore[attr-defined]

    found = there_and_back(value)

    assert found == (1, [2])
    assert found.note == "x"
    assert there_and_back(Pair(1)) == Pair(1)
    assert there_and_back(namedtuple("Odd", ["def", "x"], rename=True)(1, 2)) == (1, 2)


class ShopError(Exception):
    """An exception whose constructor takes other arguments than it passes on."""

    def __init__(self, order: int, *, reason: str) -> None:
        super().__init__(f"order {order}: {reason}")
        self.order = order
        self.reason = reason


class DiskError(OSError):
    """A class below a built-in one that computes its attributes."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x", (1, {2})),
        KeyError("k"),
        StopIteration(3),
        SystemExit(2),
        OSError(errno.ENOENT, "no", "a.txt"),
        OSError(errno.EXDEV, "no", "a.txt", None, "b.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ImportError("no", name="mod", path="/x"),
        AttributeError("no", name="attr"),
        ExceptionGroup("several", [ValueError(1), ExceptionGroup("more", [KeyError(2)])]),
        ShopError(3, reason="late"),
        DiskError(errno.ENOSPC, "full", "c.txt"),
    ],
    ids=repr,
)
def test_exceptions_come_back(error: BaseException) -> None:
    """Class, arguments, attributes and notes are kept; user classes are restored without their __init__."""
    error.add_note("first")
    error.add_note("second")
    registry = _with(ShopError, DiskError)
    serializer = MsgpackSerializer(registry)

    found = serializer.loads(serializer.dumps([error]))[0]

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert repr(found) == repr(error)
    assert vars(found) == vars(error)
    assert found.__notes__ == ["first", "second"]
    for name in ("args", "errno", "filename", "filename2", "value", "code", "name", "path", "object", "reason"):
        if not isinstance(error, BaseExceptionGroup):
            assert getattr(found, name, None) == getattr(error, name, None)


def test_traceback_cause_and_context_are_left_out() -> None:
    """An exception is stored as data, without the frames and errors that led to it."""
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as caught:
        error = caught

    found = MsgpackSerializer(Registry()).loads(MsgpackSerializer(Registry()).dumps(error))

    assert (found.__traceback__, found.__cause__, found.__context__) == (None, None, None)


class Money:
    """A foreign class, with hooks of its own."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return hash(self.cents)


def test_a_codec_decides_how_a_class_is_stored() -> None:
    """B125: a class with hooks of its own is stored through them, also as a key and inside other values."""
    registry = Registry()
    register_codec(
        Money,
        lambda m: {"parts": divmod(m.cents, 100)},
        lambda p: Money(p["parts"][0] * 100 + p["parts"][1]),
        registry=registry,
    )
    register_codec(Empty, lambda e: "FieldA", lambda text: Empty(), registry=registry)
    serializer = MsgpackSerializer(registry)
    value = {"price": Money(1999), Money(1): [Empty()]}

    assert serializer.loads(serializer.dumps(value)) == value


def test_a_codec_that_gives_the_value_back_does_not_hang() -> None:
    """A codec that encodes a value as itself is told, as too deep."""
    registry = Registry()
    register_codec(Money, lambda money: [money], lambda plain: plain[0], registry=registry)

    with pytest.raises(SerializationError, match="holds itself"):
        MsgpackSerializer(registry).dumps(Money(1))


@pytest.mark.parametrize(
    "make", [lambda: Counted("a"), lambda: Struct("a"), lambda: Attrs(1), lambda: Model(name="ab")]
)
def test_values_restored_twice_do_not_share(make: Callable[[], Any]) -> None:
    """Two loads of the same bytes give two independent values."""
    registry = _with(Counted, Struct, Attrs, Model)
    serializer = MsgpackSerializer(registry)
    data = serializer.dumps([make(), make()])

    one, two = serializer.loads(data)
    three = serializer.loads(data)[0]

    assert one == two == three
    assert len({id(one), id(two), id(three)}) == 3
    assert dataclasses.asdict(one) if dataclasses.is_dataclass(one) else True


def test_annotations_register_models_and_attrs_classes() -> None:
    """Kinds of other libraries are registered by annotations like our own."""
    registry = Registry()
    register_annotations(dict[str, Strict | Attrs | list[Root]], registry)

    assert {"Strict", "Model", "Attrs", "Root"} <= {name.rpartition(".")[2] for name in registry.names()}


@dataclass
class Tea:
    name: str


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class TeaPage(Page[Tea]):
    pass


class Tagged(pydantic.BaseModel, Generic[T]):
    _hidden: Any = None


@attr.s
class Typed:
    tea = attr.ib(type=Tea)


@pytest.mark.parametrize("annotation", [Page[Tea], TeaPage, list[Page[Tea]] | None, Tagged[Tea], Typed])
def test_annotations_register_what_the_library_knows(annotation: Any, registry: Registry) -> None:
    """The argument of a generic model, and a type that attrs was told without an annotation, are registered too."""
    register_annotations(annotation, registry)

    assert registry.of(Tea).name == f"{__name__}.Tea"  # type: ignore[union-attr]


def test_an_item_of_a_generic_model_comes_back() -> None:
    """What the annotation Page[Tea] registers is enough to store one."""
    registry = Registry()
    register_annotations(Page[Tea], registry)
    serializer = MsgpackSerializer(registry)

    assert serializer.loads(serializer.dumps(Page[Tea](items=[Tea("oolong")]))) == Page[Tea](items=[Tea("oolong")])
