from __future__ import annotations

import io
import re
import socket
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from blobcp.checkpoint import Checkpoint, InterruptState, PregelChannelState
from blobcp.codec import MsgpackSerializer, Registry, register, register_codec, serializable
from blobcp.errors import SerializationError, UnregisteredTypeError


class MyList(list[Any]): ...


class MyStr(str): ...


class MyInt(int): ...


class MyDict(dict[str, Any]): ...


class Unknown: ...


@dataclass
class Job:
    name: str = ""
    payload: Any = None


class Mode(Enum):
    ON = 1


class Pair(NamedTuple):
    left: Any
    right: Any


def generator() -> Iterator[int]:
    """Yield once."""
    yield 1


def refused(value: Any, registry: Registry) -> UnregisteredTypeError:
    """Return the refusal of a value."""
    with pytest.raises(UnregisteredTypeError) as caught:
        MsgpackSerializer(registry).dumps(value)
    return caught.value


def test_the_path_leads_to_the_lock(registry: Registry) -> None:
    """F17: the error names the way from the checkpoint to the culprit and the class of the leaf."""
    error = refused(Checkpoint(state={"jobs": [{"ok": 1}, {"lock": threading.Lock()}]}), registry)

    assert error.path == "state.jobs[1].lock"
    assert error.type is type(threading.Lock())
    assert str(error) == (
        "state.jobs[1].lock: a value of class _thread.lock can't be stored; it belongs to the running process: keep it "
        "outside the state and make it anew in the node"
    )


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [
        (Checkpoint(inputs={"a b": Unknown()}), "inputs['a b']"),
        (Checkpoint(channels={"n": PregelChannelState(values={"x": [Unknown()]})}), "channels.n.values.x[0]"),
        (Checkpoint(interrupt_id_to_state={"7f": InterruptState(info=Unknown())}), "interrupt_id_to_state['7f'].info"),
        (Checkpoint(sub_graphs={"g": Checkpoint(state=Unknown())}), "sub_graphs.g.state"),
    ],
)
def test_every_part_of_a_checkpoint_has_its_path(checkpoint: Checkpoint, path: str, registry: Registry) -> None:
    """F17: inputs, channels, interrupts and nested graphs are named like the state."""
    assert refused(checkpoint, registry).path == path


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Unknown(), ""),
        ([[Unknown()]], "[0][0]"),
        ((1, Unknown()), "[1]"),
        ({"a": {"odd key": {3: {None: Unknown()}}}}, "a['odd key'][3][None]"),
        ({(1, "x"): Unknown()}, "[(1, 'x')]"),
        ({Pair(1, 2): Unknown()}, "[<Pair>]"),
        ({Unknown(): 1}, "{Unknown}"),
        ({"tags": {Unknown()}}, "tags{Unknown}"),
        (frozenset({(Unknown(),)}), "{tuple}[0]"),
        (deque([1, Unknown()]), "[1]"),
        (OrderedDict(a=1, b=Unknown()), "b"),
        (Counter({"a": Unknown()}), "a"),  # type: ignore[dict-item]
        (defaultdict(list, {"a": [Unknown()]}), "a[0]"),
        (defaultdict(lambda: 1), "default_factory"),
        (Job(payload={"deep": [Unknown()]}), "payload.deep[0]"),
        (Pair(1, [Unknown()]), "right[0]"),
        ([ValueError("x", Unknown())], "[0].args[1]"),
        (slice(Unknown()), "[1]"),
        ({"n": 2**70, "\ud800": Unknown()}, "['\\ud800']"),
    ],
    ids=lambda value: f"{value}"[:30] if isinstance(value, str) else "",
)
def test_a_path_can_be_followed(value: Any, path: str, registry: Registry) -> None:
    """Attributes, indices, keys and members are told apart in a path."""
    register(Job, registry=registry)
    register(Pair, registry=registry)
    with pytest.raises(SerializationError) as caught:
        MsgpackSerializer(registry).dumps(value)

    assert caught.value.path == path
    assert str(caught.value).startswith(path or "the value itself")


@pytest.mark.parametrize(
    ("value", "name", "advice"),
    [
        (lambda: 1, "builtins.function", "it is code"),
        (print, "builtins.builtin_function_or_method", "it is code"),
        (re.compile("x"), "re.Pattern", "register_codec(Pattern"),
        (types, "builtins.module", "running process"),
        (generator(), "builtins.generator", "running process"),
        (io.StringIO(), "_io.StringIO", "running process"),
        (threading.RLock(), "_thread.RLock", "running process"),
        (threading.Event(), "threading.Event", "running process"),
        (memoryview(b"x"), "builtins.memoryview", "running process"),
        (int, "builtins.type", "it is a class"),
        (object(), "builtins.object", "register_codec(object"),
        (MyList([1]), f"{__name__}.MyList", "register_codec(MyList"),
        (MyStr("x"), f"{__name__}.MyStr", "register_codec(MyStr"),
        (MyInt(1), f"{__name__}.MyInt", "register_codec(MyInt"),
        (MyDict(a=1), f"{__name__}.MyDict", "register_codec(MyDict"),
        (Job(), f"{__name__}.Job", '@serializable("a.stable.name")'),
        (Mode.ON, f"{__name__}.Mode", "register(Mode)"),
        (Pair(1, 2), f"{__name__}.Pair", "register(Pair)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_not_be_stored_is_refused_with_advice(value: Any, name: str, advice: str, registry: Registry) -> None:
    """F15, F17, B124: code, live things, unregistered classes and subclasses of built-ins are never flattened."""
    error = refused({"it": [value]}, registry)

    assert error.path == "it[0]"
    assert error.type is type(value)
    assert f"a value of class {name} can't be stored" in str(error)
    assert advice in str(error)


def test_sockets_and_files_are_refused(registry: Registry) -> None:
    """F17: open sockets and files stay outside."""
    with socket.socket() as live, Path(__file__).open("rb") as file:
        assert "socket.socket" in str(refused([live], registry))
        assert "_io.BufferedReader" in str(refused([file], registry))


def test_keys_and_members_are_not_flattened_either(registry: Registry) -> None:
    """A str subclass as a key is another type than str."""
    assert refused({MyStr("a"): 1}, registry).path == "{MyStr}"
    assert refused({1: {MyInt(3)}}, registry).path == "[1]{MyInt}"


def test_a_list_of_a_registered_class_just_works(registry: Registry) -> None:
    """F17: registering the class is enough for lists, dicts and tuples of it."""
    register(Job, registry=registry)
    serializer = MsgpackSerializer(registry)
    value = {"jobs": [Job("a")], "by": {"a": (Job("b"),)}}

    assert serializer.loads(serializer.dumps(value)) == value


def test_a_class_registered_later_is_seen(registry: Registry) -> None:
    """A serializer that has refused a class takes it once it is registered."""
    serializer = MsgpackSerializer(registry)
    refused(Job(), registry)
    with pytest.raises(UnregisteredTypeError):
        serializer.dumps(Job())

    register(Job, registry=registry)

    assert serializer.loads(serializer.dumps(Job("a"))) == Job("a")


def test_an_older_definition_is_told(registry: Registry) -> None:
    """@dataclass(slots=True) above @serializable makes a second class; the advice says so."""

    @dataclass(slots=True)
    @serializable("test.Slotted", registry=registry)
    class Slotted:
        x: int = 1

    register(
        type("Slotted", (), {"__module__": Slotted.__module__, "__qualname__": Slotted.__qualname__, "a": 1}),
        registry=registry,
    )

    assert "older class of the same name" in str(refused(Slotted(), registry))


def cyclic_list() -> Any:
    """Return a list that holds itself."""
    value: list[Any] = [1]
    value.append(value)
    return value


def cyclic_dict() -> Any:
    """Return a dict in which a later part refers to an earlier one."""
    value: dict[str, Any] = {"a": {"list": []}}
    value["a"]["list"].append(value["a"])
    return value


def cyclic_job() -> Any:
    """Return a dataclass that holds itself in a tuple."""
    job = Job("a")
    job.payload = (1, job)
    return {"job": job}


@pytest.mark.parametrize(
    ("make", "path", "same"),
    [
        (cyclic_list, "[1]", "the value itself"),
        (cyclic_dict, "a.list[0]", "a"),
        (cyclic_job, "job.payload[1]", "job"),
    ],
)
def test_a_cycle_is_told(make: Callable[[], Any], path: str, same: str, registry: Registry) -> None:
    """A value that holds itself is refused; the message names both places."""
    register(Job, registry=registry)
    with pytest.raises(SerializationError) as caught:
        MsgpackSerializer(registry).dumps(make())

    assert caught.value.path == path
    assert f"the value holds itself, since this is the same object as {same};" in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: {1: x}, Job])
@pytest.mark.parametrize("depth", [501, 100_000])
def test_too_deep_is_told(wrap: Callable[[Any], Any], depth: int, registry: Registry) -> None:
    """Excessive depth is our error, never a RecursionError."""
    register(Job, registry=registry)
    value: Any = 1
    for _ in range(depth):
        value = wrap(value) if wrap is not Job else Job("", value)
    with pytest.raises(SerializationError, match="nested too deeply") as caught:
        MsgpackSerializer(registry).dumps(value)
    while value != 1:  # taken apart from the top, since deep values overflow the stack when they are freed
        value = (
            value.payload
            if isinstance(value, Job)
            else next(iter(value.values() if isinstance(value, dict) else value))
        )

    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("wrap", "at_least"),
    [
        (lambda x: [x], 490),
        (lambda x: {"a": x}, 490),
        (lambda x: (x,), 240),
        (lambda x: {(): x}, 240),
        (lambda x: Job("", x), 160),
        (lambda x: Job("", {"a": [x]}), 95),
        (lambda x: Pair((x,), 1), 95),
        (lambda x: ValueError(x), 160),
    ],
)
def test_what_is_saved_can_be_loaded(wrap: Callable[[Any], Any], at_least: int, registry: Registry) -> None:
    """Whatever depth is accepted at save can be loaded from the same place."""
    register(Job, registry=registry)
    register(Pair, registry=registry)
    serializer = MsgpackSerializer(registry)
    value: Any = "end"
    for depth in range(600):
        try:
            data = serializer.dumps(value)
        except SerializationError:
            assert depth >= at_least
            return
        if depth % 20 == 0 or depth > at_least:
            assert serializer.dumps(serializer.loads(data)) == data
        value = wrap(value)
    pytest.fail("no depth was refused")


def test_max_depth_can_be_set(registry: Registry) -> None:
    """A smaller limit holds."""
    serializer = MsgpackSerializer(registry, max_depth=2)

    serializer.dumps([[1]])
    with pytest.raises(SerializationError, match="more than 2 levels"):
        serializer.dumps([[[[1]]]])


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)
    total: float = 0
    owner: str | None = None


class Line(msgspec.Struct):
    sizes: dict[str, tuple[int, ...]] = {}


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        (Cart(items=None), "state.items", "expected list[str], found None"),  # type: ignore[arg-type]
        (Cart(items=[1]), "state.items", "expected list[str], found list[int]"),  # type: ignore[list-item]
        (Cart(items=["a", None]), "state.items", "found list[None | str]"),  # type: ignore[list-item]
        (Cart(total="1"), "state.total", "expected float, found str"),  # type: ignore[arg-type]
        (Cart(owner=3), "state.owner", "expected str | None, found int"),  # type: ignore[arg-type]
        ([Cart(), Cart(owner=b"")], "state[1].owner", "found bytes"),  # type: ignore[arg-type]
        (Line({"a": (1, "b")}), "state.sizes", "expected dict[str, tuple[int, ...]]"),  # type: ignore[dict-item]
    ],
)
def test_a_value_that_contradicts_its_annotation_is_not_stored(
    value: Any, path: str, said: str, registry: Registry
) -> None:
    """F21: what could not be used after loading does not get into a blob."""
    register(Cart, registry=registry)
    register(Line, registry=registry)
    for _ in range(2):  # the second time through what was remembered of the first
        with pytest.raises(SerializationError) as caught:
            MsgpackSerializer(registry).dumps(Checkpoint(state=value))

        assert caught.value.path == path
        assert said in str(caught.value)


def test_the_same_types_with_other_values_are_looked_at_again(registry: Registry) -> None:
    """F21: a good list does not vouch for the next one."""
    register(Cart, registry=registry)
    serializer = MsgpackSerializer(registry)
    serializer.dumps(Cart(items=["a"]))

    with pytest.raises(SerializationError, match="items"):
        serializer.dumps(Cart(items=[1]))  # type: ignore[list-item]
    assert serializer.loads(serializer.dumps(Cart(total=3))) == Cart(total=3)


def test_failing_codecs_and_properties_are_our_errors(registry: Registry) -> None:
    """An exception of the user's own code becomes an error with the path, its cause kept."""

    def fail(value: object) -> Any:
        raise KeyError("inner")

    register_codec(Unknown, fail, fail, registry=registry)
    with pytest.raises(SerializationError, match="its encode") as caught:
        MsgpackSerializer(registry).dumps({"a": [Unknown()]})

    assert caught.value.path == "a[0]"
    assert "KeyError: 'inner'" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


class Order(msgspec.Struct):
    item: str
    amount: int = 1


class Bill(pydantic.BaseModel):
    item: str
    amount: int = 1


def without(value: Any, name: str) -> Any:
    """Return the value after the field was deleted."""
    delattr(value, name)
    return value


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (without(Order("tea"), "item"), "item"),
        (without(Order("tea", 2), "amount"), "amount"),
        (Bill.model_construct(amount=2), "item"),
        (without(Bill(item="tea", amount=2), "amount"), "amount"),
    ],
)
@pytest.mark.parametrize("count", [1, 5])
def test_a_record_that_lacks_a_field_is_not_stored(value: Any, field: str, count: int, registry: Registry) -> None:
    """A struct or model with an unset field could not be loaded, or only with another value, and so is refused."""
    register(type(value), registry=registry)

    with pytest.raises(SerializationError) as caught:
        MsgpackSerializer(registry).dumps([value] * count)

    assert caught.value.path == f"[0].{field}"
    assert str(caught.value) == (
        f"[0].{field}: it is not set, and a {__name__}.{type(value).__name__} can't be restored without it; "
        "set it before the value is stored"
    )


@pytest.mark.parametrize(
    ("key", "path"),
    [(10**5000, "[<int>]"), (-(10**5000), "[<int>]"), ((1, 10**5000), "[(1, <int>)]"), (2**70, f"[{2**70}]")],
    ids=["long", "negative", "in a tuple", "short"],
)
def test_a_path_leads_past_very_long_ints(key: Any, path: str, registry: Registry) -> None:
    """A key that Python makes no text of is shown by its class, in the error of saving and of loading."""
    assert refused({key: threading.Lock()}, registry).path == path

    register(Job, name="a.job", registry=registry)
    data = MsgpackSerializer(registry).dumps({key: Job("a")})
    with pytest.raises(SerializationError) as caught:
        MsgpackSerializer(Registry()).loads(data)
    assert caught.value.path == path


@dataclass
class Implicit:
    note: str = None  # type: ignore[assignment]
    size: int = "auto"  # type: ignore[assignment]


class ImplicitStruct(msgspec.Struct):
    note: str = None  # type: ignore[assignment]
    size: int = "auto"  # type: ignore[assignment]


class ImplicitTuple(NamedTuple):
    note: str = None  # type: ignore[assignment]
    size: int = "auto"  # type: ignore[assignment]


@pytest.mark.parametrize("cls", [Implicit, ImplicitStruct, ImplicitTuple])
@pytest.mark.parametrize("count", [1, 5])
def test_a_field_may_hold_its_own_default(cls: Any, count: int, registry: Registry) -> None:
    """An implicit optional is stored at its default, again after loading, and refused for any other wrong value."""
    register(cls, registry=registry)
    serializer = MsgpackSerializer(registry)
    values = [cls()] * count + [cls("x", 1)]

    assert serializer.loads(serializer.dumps(serializer.loads(serializer.dumps(values)))) == values
    with pytest.raises(SerializationError, match=r"\[0\]\.size: expected int, found str"):
        serializer.dumps([cls(size="other")] * count)
