from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

import blobcp.codec.registry
from blobcp.checkpoint import Checkpoint
from blobcp.codec import (
    MsgpackSerializer,
    Registry,
    default_registry,
    register,
    register_annotations,
    register_codec,
    serializable,
)
from blobcp.errors import RegistrationError

T = TypeVar("T")


@dataclass
class Cart:
    n: int = 0


@dataclass
class Basket:
    n: int = 0


class Plain:
    """A class of no special kind."""


def test_a_class_has_the_name_it_was_given(registry: Registry) -> None:
    """A stable name is what the bytes hold; without one it is module and qualified name."""
    register(Cart, name="shop.cart", registry=registry)
    register(Basket, registry=registry)

    assert b"shop.cart" in MsgpackSerializer(registry).dumps(Cart())
    assert f"{__name__}.Basket".encode() in MsgpackSerializer(registry).dumps(Basket())


def test_the_decorator_returns_the_class() -> None:
    """@serializable registers with the default registry and changes nothing."""

    @serializable("test.registry.Decorated", aliases=["test.registry.Older"])
    @dataclass
    class Decorated:
        x: int

    assert default_registry.named("test.registry.Older").cls is Decorated  # type: ignore[union-attr]
    assert MsgpackSerializer().loads(MsgpackSerializer().dumps(Decorated(1))) == Decorated(1)


def test_registering_again_changes_nothing(registry: Registry) -> None:
    """The same class under the same name, or without one, is no second registration."""
    register(Cart, name="cart", registry=registry)
    before = registry.version

    register(Cart, name="cart", registry=registry)
    register(Cart, registry=registry)
    register_annotations(list[Cart], registry)

    assert registry.version == before
    assert registry.of(Cart).name == "cart"  # type: ignore[union-attr]


def test_one_name_for_two_classes_is_an_error(registry: Registry) -> None:
    """B124: the error names the name and both classes, and the first keeps it."""
    register(Cart, name="cart", registry=registry)
    with pytest.raises(RegistrationError) as caught:
        register(Basket, name="cart", registry=registry)

    assert all(text in str(caught.value) for text in ("'cart'", f"{__name__}.Cart", f"{__name__}.Basket"))
    assert registry.named("cart").cls is Cart  # type: ignore[union-attr]


def test_one_class_under_two_names_is_an_error(registry: Registry) -> None:
    """B124: the error names both names and says what aliases are for."""
    register(Cart, name="cart", registry=registry)
    with pytest.raises(RegistrationError) as caught:
        register(Cart, name="basket", registry=registry)

    assert all(text in str(caught.value) for text in ("'cart'", "'basket'", "aliases"))


def test_an_alias_that_is_taken_is_an_error(registry: Registry) -> None:
    """An alias can't be the name of another class, and a refused registration leaves nothing behind."""
    register(Cart, name="cart", registry=registry)
    with pytest.raises(RegistrationError, match="cart"):
        register(Basket, name="basket", aliases=["cart"], registry=registry)

    assert registry.named("basket") is None
    assert registry.of(Basket) is None


@pytest.mark.parametrize("name", ["blobcp.Checkpoint", "blobcp.Address"])
def test_the_names_of_the_framework_are_taken(name: str, registry: Registry) -> None:
    """Nobody can stand in for a checkpoint."""
    with pytest.raises(RegistrationError, match=name):
        register(Cart, name=name, registry=registry)


def test_aliases_lead_to_the_class(registry: Registry) -> None:
    """Bytes written under an older name load."""
    old = Registry()
    register(Cart, name="shop.Cart", registry=old)
    register(Basket, name="shop.Basket", aliases=["shop.Cart"], registry=registry)

    assert MsgpackSerializer(registry).loads(MsgpackSerializer(old).dumps(Cart(3))) == Basket(3)


def test_registries_do_not_know_of_each_other(registry: Registry) -> None:
    """What one registry knows is unknown to the next, except for the framework's own."""
    register(Cart, name="cart", registry=registry)

    assert Registry().of(Cart) is None
    assert Registry().named("blobcp.Checkpoint").cls is Checkpoint  # type: ignore[union-attr]


def define_again(n: int) -> type[Any]:
    """Define a class as a notebook cell does when it runs again."""

    @dataclass
    class Cell:
        x: int = n

    return Cell


def test_a_class_defined_again_replaces_the_older_one(registry: Registry) -> None:
    """A notebook cell or a reload may define a class again: the newest loads, values of older ones are still stored."""
    one, two = define_again(1), define_again(2)
    serializer = MsgpackSerializer(registry)
    register(one, name="cell", aliases=["older"], registry=registry)
    data = serializer.dumps(one(5))

    register(two, name="cell", registry=registry)

    assert type(serializer.loads(data)) is two
    assert type(serializer.loads(serializer.dumps(one(6)))) is two
    assert registry.named("older").cls is two  # type: ignore[union-attr]


def test_a_file_that_runs_under_two_names_is_no_clash(tmp_path: Path) -> None:
    """A file that is run as __main__ and imported too defines each class twice, which is no clash of names."""
    (tmp_path / "shop.py").write_text(
        "from dataclasses import dataclass\nfrom blobcp.codec import *\n"
        "@serializable('cart')\n@dataclass\nclass Cart:\n    n: int\n"
        "if __name__ == '__main__':\n"
        "    import shop\n"
        "    found = MsgpackSerializer().loads(MsgpackSerializer().dumps([Cart(1), shop.Cart(2)]))\n"
        "    assert found == [shop.Cart(1), shop.Cart(2)]\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    subprocess.run([sys.executable, str(tmp_path / "shop.py")], env=env, check=True, timeout=60)


PBox = pydantic.create_model("PBox", __base__=(pydantic.BaseModel, Generic[T]), item=(T, ...))


def class_a(module: str) -> type[Any]:
    """Make a dataclass A as a module of that name would."""
    return in_module(make_dataclass("A", [("x", int)]), module)


def in_module(cls: type[Any], module: str) -> type[Any]:
    """Put a class into a module; from Python 3.12 on, make_dataclass names the caller's."""
    cls.__module__ = module
    return cls


@pytest.mark.parametrize("wrap", [lambda cls: cls, lambda cls: list[cls], lambda cls: dict[str, cls | None]])
def test_specialisations_for_two_classes_of_one_name_are_two(wrap: Callable[[Any], Any], registry: Registry) -> None:
    """PBox[m1.A] and PBox[m2.A] have one name by default, and the second is refused until it is given another."""
    one, two, again = (PBox[wrap(class_a(module))] for module in ("m1", "m2", "m1"))
    register(one, name="box", registry=registry)

    with pytest.raises(
        RegistrationError, match=r"belongs to .*PBox\[.*m1\.A.*\] and .* to .*PBox\[.*m2\.A.*\] as well"
    ):
        register(two, name="box", registry=registry)
    register(two, name="other", registry=registry)
    register(again, name="box", registry=registry)

    assert registry.named("box").cls is again  # type: ignore[union-attr]
    assert registry.named("other").cls is two  # type: ignore[union-attr]


def test_classes_without_a_module_are_one_if_they_declare_the_same(registry: Registry) -> None:
    """make_dataclass knows no module on Python 3.11, so two different rows of one name are refused and not mixed up."""
    fields: list[list[Any]] = [[("x", int)], [("y", int, 5)], [("x", int)]]
    one, two, again = (in_module(make_dataclass("Row", each), "types") for each in fields)
    register(one, registry=registry)

    with pytest.raises(RegistrationError) as caught:
        register(two, registry=registry)
    register(again, registry=registry)

    assert str(caught.value) == (
        "the name 'types.Row' belongs to types.Row(x) and can't be given to types.Row(y) as well; choose another name"
    )
    assert MsgpackSerializer(registry).loads(MsgpackSerializer(registry).dumps(one(3))) == again(3)


def test_annotations_of_a_class_defined_again_replace_it_too(registry: Registry) -> None:
    """The same holds for what annotations register."""
    one, two = define_again(1), define_again(2)
    register_annotations(one, registry)
    register_annotations(list[two], registry)  # type: ignore[valid-type]

    assert type(MsgpackSerializer(registry).loads(MsgpackSerializer(registry).dumps(one(6)))) is two


def test_a_name_given_by_an_annotation_yields(registry: Registry) -> None:
    """The user's name wins over the automatic one, which stays as an alias, in either order."""
    serializer = MsgpackSerializer(registry)
    register_annotations(Cart, registry)
    data = serializer.dumps(Cart(1))

    register(Cart, name="cart", registry=registry)

    assert b"\xa4cart" in serializer.dumps(Cart(1))
    assert serializer.loads(data) == Cart(1)


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (lambda: register(list), "register_codec"),
        (lambda: register(type(threading.Lock())), "register_codec"),
        (lambda: register(type("MyList", (list,), {})), "register_codec"),
        (lambda: register(Cart(1)), "not a class"),  # type: ignore[arg-type]
        (lambda: register(list[Cart]), "not a class"),
        (lambda: register(Cart, name=""), "not a name"),
        (lambda: register(Cart, name="a\nb"), "not a name"),
        (lambda: register(Cart, name=3), "not a name"),  # type: ignore[arg-type]
        (lambda: register(Cart, aliases="old"), "list of names"),
        (lambda: serializable(Cart), "@serializable("),  # type: ignore[arg-type]
    ],
)
def test_what_can_not_be_registered(attempt: Callable[[], object], said: str) -> None:
    """Misuse is told at once, in words."""
    with pytest.raises(RegistrationError) as caught:
        attempt()

    assert said in str(caught.value)


def test_a_codec_makes_any_class_storable(registry: Registry) -> None:
    """Subclasses of built-ins are stored as their codec says."""

    class Stack(list[Any]): ...

    register_codec(Stack, list, Stack, name="stack", registry=registry)
    found = MsgpackSerializer(registry).loads(MsgpackSerializer(registry).dumps({"s": Stack([(1,)])}))["s"]

    assert type(found) is Stack
    assert found == [(1,)]


@pytest.mark.parametrize(
    "cells", [{frozenset({1}): 3}, {(1, 2): "a"}, {(1, (2,)): [3]}, {"a": 1}, {None: 1, 2: True}, {}], ids=str
)
def test_a_codec_may_make_a_dict_with_any_keys(registry: Registry, cells: dict[Any, Any]) -> None:
    """What a codec makes is the user's, so a dict of it keeps its keys, also where all of its values are simple."""

    class Grid:
        def __init__(self, cells: dict[Any, Any]) -> None:
            self.cells = cells

    register_codec(Grid, lambda grid: grid.cells, Grid, name="grid", registry=registry)
    serializer = MsgpackSerializer(registry)
    data = serializer.dumps(Grid(cells))
    found = serializer.loads(data).cells

    assert found == cells
    assert [type(key) for key in found] == [type(key) for key in cells]
    assert serializer.dumps(serializer.loads_raw(data)) == data


class Leaf(Enum):
    ON = 1


class Flat(NamedTuple):
    leaf: Leaf


class Inner(msgspec.Struct):
    again: Optional["Outer"] = None  # noqa: UP037, UP045 - both spellings are read


class Wrapped(msgspec.Struct): ...


class InDict(msgspec.Struct): ...


class InUnion(msgspec.Struct): ...


class InNewType(msgspec.Struct): ...


class InBound(msgspec.Struct): ...


class InBase(msgspec.Struct): ...


class InParent(msgspec.Struct): ...


@dataclass
class Parent:
    parent: InParent | None = None


class Untold(TypedDict):
    held: InDict


Bounded = TypeVar("Bounded", bound=InBound)
Newer = NewType("Newer", InNewType)


@dataclass
class Outer(Parent, Generic[T]):
    flat: Flat | None = None
    inner: Annotated[list[Inner], "why not"] = ()  # type: ignore[assignment]
    bag: dict[str, tuple[Wrapped, ...]] | None = None
    typed: Untold | None = None
    union: InUnion | int | None = None
    newer: Newer | None = None
    missing: "NotThere" = None  # type: ignore[name-defined]  # noqa: F821, UP037
    word: Literal["x"] = "x"
    call: Callable[[Basket], deque[Cart]] | None = None


@dataclass
class Special(Outer[InBase], Generic[Bounded]):
    bound: Bounded | None = None


def test_annotations_register_all_that_they_mention(registry: Registry) -> None:
    """Fields, base classes, generics, unions, Annotated, TypedDict, NewType, bounds: recursively, cycles included."""
    register_annotations(Annotated[list[Special[Any]] | None, 1], registry)

    found = {name.rpartition(".")[2] for name in registry.names() if name.startswith(__name__)}
    assert found == {
        *(
            "Special",
            "Outer",
            "Parent",
            "Flat",
            "Leaf",
            "Inner",
            "Wrapped",
            "InDict",
            "InUnion",
            "InNewType",
            "InBound",
        ),
        *("InBase", "InParent", "Basket", "Cart"),
    }


class Failure(Exception): ...


class Bag(Plain, Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


@dataclass
class Outcome:
    why: Failure | None = None
    plain: Plain | None = None
    bag: Bag[int] | None = None


def test_annotations_register_exceptions_and_plain_classes(registry: Registry) -> None:
    """A field that may hold an exception or an object of the user's own class can be stored when it does."""
    register_annotations(Outcome, registry)
    serializer = MsgpackSerializer(registry)

    found = serializer.loads(serializer.dumps(Outcome(Failure("cold", 3), Plain(), Bag(4))))

    assert (type(found.why), found.why.args) == (Failure, ("cold", 3))
    assert type(found.plain) is Plain
    assert (type(found.bag), found.bag.item) == (Bag, 4)


class Worker(threading.Thread): ...


@pytest.mark.parametrize("annotation", [logging.Logger, threading.Event, Worker, list[Worker | None]])
def test_annotations_register_no_plain_class_of_the_standard_library(annotation: Any, registry: Registry) -> None:
    """Loggers, events and what derives from a thread need not be all in their attributes, so the user decides."""
    before = registry.names()

    register_annotations(annotation, registry)

    assert registry.names() == before


@pytest.mark.parametrize("annotation", [Any, None, int, "text", 3, T, list, Callable[..., Any], ..., [int], object()])
def test_other_annotations_register_nothing(annotation: Any, registry: Registry) -> None:
    """What is no class with fields is left alone, whatever it is."""
    before = registry.names()

    register_annotations(annotation, registry)

    assert registry.names() == before


def test_importing_the_codec_imports_no_other_library() -> None:
    """Kinds of other libraries are recognised without importing them."""
    script = "import sys, blobcp.codec; print([m for m in ('pydantic', 'attr', 'attrs', 'numpy') if m in sys.modules])"
    path = [entry for entry in sys.path if entry]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {script}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert found.stdout.strip() == "[]"


def test_many_threads_register_and_store(registry: Registry) -> None:
    """Registering, saving and loading from several threads at once gives no error and no wrong value."""
    serializer = MsgpackSerializer(registry)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for index in range(30):
                cls = msgspec.defstruct(f"T{number}_{index}", [("x", int)], module=f"threads{number}")
                register(cls, registry=registry)
                assert serializer.loads(serializer.dumps([cls(index), cls(number)])) == [cls(index), cls(number)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(registry.names()) == len(Registry().names()) + 180


def test_all_is_complete() -> None:
    """What the registry module lists is there."""
    assert all(hasattr(blobcp.codec.registry, name) for name in blobcp.codec.registry.__all__)
    assert all(hasattr(blobcp.codec, name) for name in blobcp.codec.__all__)
