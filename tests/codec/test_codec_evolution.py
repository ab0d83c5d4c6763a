from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from blobcp.checkpoint import Checkpoint
from blobcp.codec import MsgpackSerializer, Registry, register, register_codec
from blobcp.errors import SerializationError, UnknownTypeError

SHOP = {
    "first": "@dataclass\nclass Cart:\n    n: int\n",
    "renamed": "@dataclass\nclass Basket:\n    n: int\nregister(Basket)\n",
    "aliased": "@dataclass\nclass Basket:\n    n: int\nregister(Basket, aliases=['shop.models.Cart'])\n",
    "grown": "@dataclass\nclass Cart:\n    n: int\n    currency: str\nregister(Cart)\n",
}


def run_with_shop(folder: Path, source: str | None, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process in which shop.models is as given."""
    package = folder / "shop"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    models = package / "models.py"
    models.unlink(missing_ok=True)
    if source is not None:
        models.write_text(f"from dataclasses import dataclass\nfrom blobcp.codec import register\n{source}")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    start = "from blobcp.codec import *\nfrom blobcp.checkpoint import Checkpoint\nfrom pathlib import Path\n"
    return subprocess.run(
        [sys.executable, "-c", start + script, str(folder / "blob")],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SAVE = (
    "import sys, shop.models\nregister(shop.models.Cart)\n"
    "Path(sys.argv[1]).write_bytes(MsgpackSerializer().dumps(Checkpoint(state={'cart': shop.models.Cart(3)})))"
)
LOAD = "import sys\n{imports}\nprint(MsgpackSerializer().loads(Path(sys.argv[1]).read_bytes()).state)"


@pytest.mark.parametrize("now", ["renamed", None, "grown"])
def test_an_unknown_or_changed_class_is_refused(now: str | None, tmp_path: Path) -> None:
    """F16: a class that was renamed, is gone, or needs a new field is refused with its name and the path."""
    assert run_with_shop(tmp_path, SHOP["first"], SAVE).returncode == 0
    before = (tmp_path / "blob").read_bytes()

    found = run_with_shop(
        tmp_path, SHOP[now] if now else None, LOAD.format(imports="import shop.models" if now else "")
    )

    assert found.returncode != 0
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("blobcp.errors.")
    assert "shop.models.Cart" in last
    assert "state.cart" in last
    assert ("currency" in last) is (now == "grown")
    assert (tmp_path / "blob").read_bytes() == before


def test_an_alias_lets_the_renamed_class_load(tmp_path: Path) -> None:
    """F16: with an alias the first case loads."""
    assert run_with_shop(tmp_path, SHOP["first"], SAVE).returncode == 0

    found = run_with_shop(tmp_path, SHOP["aliased"], LOAD.format(imports="import shop.models"))

    assert found.stdout.strip() == "{'cart': Basket(n=3)}", found.stderr


def stored_as(old: type[Any], value: Any) -> bytes:
    """Store a value of an old class under the name "it"."""
    registry = Registry()
    register(old, name="it", registry=registry)
    return MsgpackSerializer(registry).dumps(Checkpoint(state={"a": [value]}))


def loaded_as(new: type[Any], data: bytes) -> Any:
    """Load it where "it" is another class."""
    registry = Registry()
    register(new, name="it", registry=registry)
    return MsgpackSerializer(registry).loads(data).state["a"][0]


def dataclass_with(**defaults: Any) -> type[Any]:
    """Make a dataclass; ``...`` stands for a required field."""
    return make_dataclass(
        "Made", [(name, Any) if it is ... else (name, Any, it) for name, it in defaults.items()], kw_only=True
    )


def struct_with(**defaults: Any) -> type[Any]:
    """Make a msgspec struct likewise."""
    return msgspec.defstruct(
        "Made", [(name, Any) if it is ... else (name, Any, it) for name, it in defaults.items()], kw_only=True
    )


def attrs_with(**defaults: Any) -> type[Any]:
    """Make an attrs class likewise."""
    fields = {
        name: attrs.field(kw_only=True) if it is ... else attrs.field(default=it, kw_only=True)
        for name, it in defaults.items()
    }
    return attrs.make_class("Made", fields, slots=True)


def model_with(**defaults: Any) -> type[Any]:
    """Make a pydantic model likewise."""
    return pydantic.create_model("Made", **{name: (Any, it) for name, it in defaults.items()})


def named_tuple_with(**defaults: Any) -> type[Any]:
    """Make a named tuple likewise."""
    return namedtuple("Made", defaults, defaults=[it for it in defaults.values() if it is not ...])  # type: ignore[misc]


KINDS = [dataclass_with, struct_with, attrs_with, model_with, named_tuple_with]


@pytest.mark.parametrize("make", KINDS)
def test_fields_come_and_go(make: Callable[..., type[Any]]) -> None:
    """A removed field is dropped, a new one takes its default, the order does not matter."""
    old = make(gone=..., a=..., b=...)
    data = stored_as(old, old(gone=0, a=(1,), b=2))

    found = loaded_as(make(b=..., a=..., new="default"), data)

    assert (found.a, found.b, found.new) == ((1,), 2, "default")
    assert not hasattr(found, "gone")


@pytest.mark.parametrize("make", KINDS)
def test_a_missing_field_without_default_is_told(make: Callable[..., type[Any]]) -> None:
    """A new field without a default is an error that names path, class and field."""
    old = make(a=...)
    data = stored_as(old, old(a=1))

    with pytest.raises(SerializationError) as caught:
        loaded_as(make(a=..., needed=...), data)

    assert caught.value.path == "state.a[0]"
    assert "'needed'" in str(caught.value)
    assert "Made" in str(caught.value)
    assert str(caught.value).startswith("state.a[0]: a stored it lacks")


def test_default_factories_make_a_fresh_value_each_time() -> None:
    """A default factory runs for each value that lacks the field, also one that looks at the object."""

    @dataclass
    class New:
        a: int
        tags: list[str] = field(default_factory=list)

    @attrs.define
    class NewAttrs:
        a: int
        doubled: int = attrs.Factory(lambda self: self.a * 2, takes_self=True)

    old, old_attrs = dataclass_with(a=...), attrs_with(a=...)
    data = stored_as(old, old(a=1))

    assert loaded_as(New, data).tags == []
    assert loaded_as(New, data).tags is not loaded_as(New, data).tags
    assert loaded_as(NewAttrs, stored_as(old_attrs, old_attrs(a=4))).doubled == 8


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    a: int = 0


class Plain:
    """A class of no special kind."""


class Oops(Exception):
    """An exception."""


def test_a_class_of_another_kind_is_told() -> None:
    """A name that leads to another kind of class than it was stored as is an error, both kinds named."""
    values: list[Any] = [dataclass_with(a=1)(), struct_with(a=1)(), model_with(a=1)(), attrs_with(a=1)()]
    values += [Colour.RED, Point(), Plain(), Oops()]
    for value in values:
        data = stored_as(type(value), value)
        for other in values:
            if other is not value:
                with pytest.raises(
                    SerializationError, match=r"^state\.a\[0\]: it was stored as a .* is registered as a"
                ):
                    loaded_as(type(other), data)


def test_a_codec_is_a_kind_of_its_own() -> None:
    """Giving a class a codec later does not reinterpret what was stored by its fields."""
    old = dataclass_with(a=1)
    registry = Registry()
    register_codec(old, lambda value: 1, lambda plain: old(), name="it", registry=registry)

    with pytest.raises(SerializationError, match="stored as a dataclass and is registered as a class with a codec"):
        MsgpackSerializer(registry).loads(stored_as(old, old()))


def test_a_removed_enum_member_is_told_and_an_alias_helps() -> None:
    """A member is stored by its name; a renamed one needs the old name as an alias."""
    data = stored_as(Colour, Colour.RED)
    renamed = Enum("Colour", {"CRIMSON": 1})
    aliased = Enum("Colour", {"CRIMSON": 1, "RED": 1})

    with pytest.raises(SerializationError, match="no member 'RED'"):
        loaded_as(renamed, data)
    assert loaded_as(aliased, data) is aliased["CRIMSON"]


@dataclass
class Tree:
    left: Any = None
    right: Any = None


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda it: it, ""),
        (lambda it: [0, it], "[1]"),
        (lambda it: (0, it), "[1]"),
        (lambda it: {"a b": it}, "['a b']"),
        (lambda it: {(1,): it}, "[(1,)]"),
        (lambda it: Tree(right=[it]), "right[0]"),
        (lambda it: Checkpoint(sub_graphs={"g": Checkpoint(state=it)}), "sub_graphs.g.state"),
        (lambda it: ValueError(it), "args[0]"),
    ],
)
def test_an_unknown_name_is_told_with_its_path(wrap: Callable[[Any], Any], path: str) -> None:
    """F16: the path to a value that can't be loaded is that of the save-time errors."""
    writing, reading = Registry(), Registry()
    register(Point, name="shop.Point", registry=writing)
    for registry in (writing, reading):
        register(Tree, registry=registry)
    data = MsgpackSerializer(writing).dumps(wrap(Point(1)))

    with pytest.raises(UnknownTypeError) as caught:
        MsgpackSerializer(reading).loads(data)

    assert caught.value.name == "shop.Point"
    assert caught.value.path == path
    assert "shop.Point" in str(caught.value)
    assert path in str(caught.value)
    assert "aliases=['shop.Point']" in str(caught.value)


def test_a_failing_decode_is_our_error_with_the_path() -> None:
    """An exception of a codec's decode has the path and stays the cause."""
    registry = Registry()
    register_codec(Plain, lambda value: {"n": 1}, lambda plain: plain["missing"], registry=registry)
    serializer = MsgpackSerializer(registry)

    with pytest.raises(SerializationError) as caught:
        serializer.loads(serializer.dumps({"a": [Plain()]}))

    assert caught.value.path == "a[0]"
    assert "KeyError: 'missing'" in str(caught.value)


def typed_dataclass(name: str, annotation: Any) -> type[Any]:
    """Make a dataclass with a typed field a."""
    return make_dataclass(name, [("a", annotation), ("b", int, 0)])


def typed_slots(name: str, annotation: Any) -> type[Any]:
    """Make a dataclass with slots likewise."""
    return make_dataclass(name, [("a", annotation), ("b", int, 0)], slots=True)


def typed_struct(name: str, annotation: Any) -> type[Any]:
    """Make a msgspec struct likewise."""
    return msgspec.defstruct(name, [("a", annotation), ("b", int, 0)])


def typed_attrs(name: str, annotation: Any) -> type[Any]:
    """Make an attrs class likewise."""
    return attrs.make_class(name, {"a": attrs.field(type=annotation), "b": attrs.field(type=int, default=0)})


def typed_tuple(name: str, annotation: Any) -> type[Any]:
    """Make a named tuple likewise."""
    made: type[Any] = NamedTuple(name, [("a", annotation), ("b", int)])  # type: ignore[misc]
    made.__new__.__defaults__ = (0,)  # type: ignore[attr-defined]
    return made


TYPED = [typed_dataclass, typed_slots, typed_struct, typed_attrs, typed_tuple]


@pytest.mark.parametrize("make", TYPED)
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(
    ("was", "value", "now", "text"),
    [
        (int, 1, str, "str, found int"),
        (list[int], [1], list[str], "list[str], found list[int]"),
        (Any, None, int, "int"),
    ],
)
def test_a_stored_value_of_another_type_is_told(
    make: Callable[..., type[Any]], count: int, was: Any, value: Any, now: Any, text: str
) -> None:
    """B125: a field whose stored value contradicts its annotation of today is an error and no half right record."""
    old = make("Old", was)
    registry, today = Registry(), Registry()
    register(old, name="it", registry=registry)
    register(make("New", now), name="it", registry=today)
    data = MsgpackSerializer(registry).dumps([old(value)] * count)

    with pytest.raises(SerializationError) as caught:
        MsgpackSerializer(today).loads(data)

    wanted, _, found = text.partition(", found ")
    assert caught.value.path == "[0]"
    assert str(caught.value).startswith(f"[0]: a stored it holds {found or 'None'} in the field 'a', which ")
    assert f".New declares as {wanted}; accept what is stored too or migrate the" in str(caught.value)


@pytest.mark.parametrize("make", TYPED)
@pytest.mark.parametrize("count", [1, 5])
def test_a_stored_value_that_fits_the_new_type_loads(make: Callable[..., type[Any]], count: int) -> None:
    """A wider annotation takes what is stored, an int for a float too."""
    old, new = make("Old", int), make("New", float | str | None)
    registry, today = Registry(), Registry()
    register(old, name="it", registry=registry)
    register(new, name="it", registry=today)

    found = MsgpackSerializer(today).loads(MsgpackSerializer(registry).dumps([old(3)] * count))

    assert found == [new(3)] * count
    assert [type(each) for each in found] == [new] * count


def test_models_are_not_checked_on_load() -> None:
    """The exception: what a validator made need not be what a model annotates, so its fields load as they were."""

    class Old(pydantic.BaseModel):
        a: int

    class New(pydantic.BaseModel):
        a: str

    assert loaded_as(New, stored_as(Old, Old(a=1))).a == 1
