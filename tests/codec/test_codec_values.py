from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext, encode

from blobcp.checkpoint import Address, Checkpoint, DagChannelState, InterruptState, PregelChannelState
from blobcp.codec import MsgpackSerializer, Registry, register_annotations

Difference = Callable[[Any, Any], str]

BERLIN = ZoneInfo("Europe/Berlin")


class Phase:
    """A class that has an enum inside."""

    class Step(Enum):
        """An enum inside a class."""

        READY = "ready"
        DONE = ("done", 1)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    ONE = 1
    TWO = 2


class Mixed(float, Enum):
    HALF = 0.5


class Pair(NamedTuple):
    left: Any
    right: Any = None


Plain = namedtuple("Plain", "x y")


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


REGISTERED = Phase.Step | Colour | Level | Right | Bits | Mixed | Pair | Plain | Point

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**63 - 1, 2**64 - 1, 2**64, 2**70, -(2**63), -(2**63) - 1, -(2**70)),
    *(0.0, -0.0, 1.0, 1e308, 5e-324, math.inf, -math.inf, math.nan),
    *("", "a", "é☕", "\ud800", "a\udfffb", "a\x00b", b"", b"\x00\xff", bytearray(b"x"), bytearray()),
    *([], [[]], (), (1, 2), ((),), set(), {1, 2}, frozenset(), frozenset({1}), {frozenset({(1,)})}),
    *({}, {"a": 1}, {1: "a", (2, 3): "b", None: "c"}, {True: 1, 0: 2, 2.5: 3, b"k": 4, "s": 5}),
    *({"\ud800": 1}, {2**70: 1}, {"a b": {"": None}}, {Level.LOW: 1}, {Colour.RED: "red"}, {Point(1): Point(2)}),
    *({"type": "tuple", "__type__": "x", "$ext": [1]}, ["Ext", 1, b"x"]),
    *(deque([1, 2], maxlen=2), deque(), deque([(1,)]), Counter("aab"), Counter(), OrderedDict([("b", 1), ("a", (2,))])),
    *(defaultdict(list, {"a": [1]}), defaultdict(None, {(1,): 2}), defaultdict(dict), defaultdict(Counter)),
    *(datetime(2024, 2, 29, 1, 2, 3, 4), datetime(1, 1, 1), datetime.max),  # noqa: DTZ001, DTZ901 - naive is the point
    datetime(2024, 2, 29, tzinfo=UTC),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(seconds=-61), "odd")),
    *(datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)),
    *(date(2024, 2, 29), time(1, 2, 3, 4), time(1, tzinfo=UTC), time(2, fold=1), time(3, tzinfo=BERLIN)),
    *(timedelta(days=-1, microseconds=1), timedelta.max, UTC, timezone(timedelta(hours=1)), timezone.max, BERLIN),
    *(Decimal("1.50"), Decimal("-0"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), Decimal("1E+1000")),
    *(
        UUID(int=0),
        UUID(int=2**128 - 1),
        1 + 2j,
        complex(-0.0, math.nan),
        range(1, 10, 2),
        range(0),
        slice(1, None, (2,)),
    ),
    *(Path("/a/b"), Path(), Path("a\udcffb"), PurePosixPath("x"), PureWindowsPath("C:\\x")),
    *(..., NotImplemented, msgspec.UNSET),
    *(Phase.Step.READY, Phase.Step.DONE, Colour.RED, Level.LOW, Mixed.HALF),
    *(Right.READ, Right.READ | Right.WRITE, Right(0), Bits.ONE | Bits.TWO, Bits(8)),
    *(Pair(1), Pair((1,), {2}), Plain(1, [2]), Point(1), Point((1,), [Point({1: 2})])),
]


@pytest.fixture
def serializer(registry: Registry) -> MsgpackSerializer:
    """A serializer that knows the classes above."""
    register_annotations(REGISTERED, registry)
    return MsgpackSerializer(registry)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{value!a}"[:60])
def test_a_value_comes_back_as_it_was(value: Any, serializer: MsgpackSerializer, difference: Difference) -> None:
    """F15, B123: every value keeps type and value, alone and at any depth."""
    for wrapped in (value, [value], {"k": value}, (value, [value]), {1: [value]}, Checkpoint(state={"a": [value]})):
        found = serializer.loads(serializer.dumps(wrapped))

        assert difference(_opened(wrapped), _opened(found)) == ""


def _opened(value: Any) -> Any:
    return msgspec.structs.asdict(value) if isinstance(value, Checkpoint) else value


def test_state_of_f15_loads_in_a_new_process(tmp_path: Path) -> None:
    """F15: what one process stores, another one loads with the same types."""
    module = tmp_path / "phases.py"
    module.write_text(
        "import enum, collections, datetime\n"
        "from blobcp.codec import *\n"
        "class Job:\n    class Phase(enum.Enum):\n        READY = 'ready'\n"
        "register(Job.Phase)\n"
        "state = {'phase': Job.Phase.READY, 'd': collections.defaultdict(list, a=[1]), 't': (1, 2),\n"
        "         'q': collections.deque([1, 2], maxlen=2), 'big': 2**70, 'c': collections.Counter('aab')}\n"
    )
    script = (
        "import sys, phases\n"
        "found = phases.MsgpackSerializer().loads(open(sys.argv[1], 'rb').read())\n"
        "assert found == phases.state\n"
        "assert found['phase'] is phases.Job.Phase.READY and found['d']['new'] == []\n"
        "assert [type(x) for x in found.values()] == [type(x) for x in phases.state.values()]\n"
        "assert found['q'].maxlen == 2 and found['c'].most_common(1) == [('a', 2)]\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    blob = tmp_path / "blob"
    save = "import sys, phases; open(sys.argv[1], 'wb').write(phases.MsgpackSerializer().dumps(phases.state))"
    for step in (save, script):
        subprocess.run([sys.executable, "-c", step, str(blob)], env=env, check=True, timeout=60)


def test_default_dict_gives_its_default(serializer: MsgpackSerializer) -> None:
    """F15: a missing key of a defaultdict gives what it gave before, also with a registered class as factory."""
    found = serializer.loads(serializer.dumps([defaultdict(list, {"a": [1]}), defaultdict(Pair)]))

    assert found[0]["missing"] == []
    assert found[1].default_factory is Pair


def test_dicts_keep_their_order(serializer: MsgpackSerializer) -> None:
    """Dicts of any kind keep insertion order."""
    for kind in (dict, OrderedDict, Counter):
        value = (
            kind({"b": 2, "a": (1,), "\ud800": 3}) if kind is not Counter else Counter({"b": 2, "\ud800": 3, "a": 1})
        )

        assert list(serializer.loads(serializer.dumps(value))) == list(value)


def test_a_shared_object_comes_back_equal(serializer: MsgpackSerializer) -> None:
    """F15: one list under two keys comes back as two equal lists, as the serializer's docstring says."""
    shared = [1, (2,)]

    found = serializer.loads(serializer.dumps({"a": shared, "b": shared}))

    assert found == {"a": [1, (2,)], "b": [1, (2,)]}
    assert found["a"] is not found["b"]


def test_dumps_does_not_change_the_value(serializer: MsgpackSerializer) -> None:
    """The value that is stored is left alone, with the same objects in it."""
    inner = [1, (2, 3)]
    value = {"a": inner, "b": Point(inner, {1: (2,)})}

    serializer.dumps(value)

    assert value == {"a": [1, (2, 3)], "b": Point([1, (2, 3)], {1: (2,)})}
    assert value["a"] is inner
    assert value["b"].x is inner  # type: ignore[attr-defined]


def test_a_checkpoint_comes_back_whole() -> None:
    """The framework's own structs are known to every registry, and so are the addresses in them."""
    serializer = MsgpackSerializer(Registry())
    checkpoint = Checkpoint(
        channels={
            "a": PregelChannelState(values={"start": (1, 2)}, triggers=["start"]),
            "b": DagChannelState(control={"a": "ready"}, data={"a": True}, values={"a": {3}}, skipped=True),
        },
        inputs={"a": None},
        state={"n": 1},
        skip_pre_handler={"g": True},
        rerun_nodes=["a"],
        sub_graphs={"g": Checkpoint(state=2**70)},
        interrupt_id_to_address={"i": Address.of(("runnable", "root"), ("tool", "ask", "c1"))},
        interrupt_id_to_state={"i": InterruptState(info="sure?", created_at=datetime(2024, 1, 1, tzinfo=UTC))},
    )

    found = serializer.loads(serializer.dumps(checkpoint))

    assert found == checkpoint
    assert type(found.interrupt_id_to_address["i"]) is Address
    assert str(found.interrupt_id_to_address["i"]) == "runnable:root;tool:ask:c1"
    assert found.interrupt_id_to_address["i"][1].sub_id == "c1"


def test_own_structs_have_short_names() -> None:
    """The names of the framework's structs do not tell in which module they live."""
    data = MsgpackSerializer(Registry()).dumps(Checkpoint(channels={"a": PregelChannelState()}))

    assert b"blobcp.Checkpoint" in data
    assert b"blobcp.PregelChannelState" in data
    assert b"blobcp.checkpoint" not in data


def test_same_value_gives_the_same_bytes(serializer: MsgpackSerializer) -> None:
    """Equal values in the same order are the same bytes, so that digests can be compared."""

    def make() -> object:
        return {"a": Point((1, 2)), "b": [Colour.RED, 2**70]}

    assert serializer.dumps(make()) == serializer.dumps(make())


STORED: list[tuple[Any, int, list[Any]]] = [
    ((1, "a"), 1, [1, "a"]),
    ({1}, 2, [1]),
    (frozenset({1}), 3, [1]),
    ({(): 1}, 4, [Ext(1, b"\x90"), 1]),
    (2**64, 5, [b"\0" * 8 + b"\1"]),
    ("\ud800", 6, [b"\xed\xa0\x80"]),
    (bytearray(b"x"), 7, [b"x"]),
    (1 + 2j, 8, [1.0, 2.0]),
    (range(3), 9, [0, 3, 1]),
    (slice(3), 10, [None, 3, None]),
    (deque([1], 2), 11, [2, 1]),
    (Counter("a"), 12, ["a", 1]),
    (OrderedDict(a=1), 13, ["a", 1]),
    (defaultdict(list, a=1), 14, [1, "list", "a", 1]),
    (datetime(2024, 1, 2), 15, ["2024-01-02T00:00:00", 0, None]),  # noqa: DTZ001 - naive is the point
    (date(2024, 1, 2), 16, ["2024-01-02"]),
    (time(1, 2, 3), 17, ["01:02:03", 0, None]),
    (timedelta(1, 2, 3), 18, [1, 2, 3]),
    (UTC, 19, [Ext(18, encode([0, 0, 0])), None]),
    (BERLIN, 20, ["Europe/Berlin"]),
    (Decimal("1.50"), 21, ["1.50"]),
    (UUID(int=1), 22, [b"\0" * 15 + b"\1"]),
    (PurePosixPath("a/b"), 23, ["PurePosixPath", "a/b"]),
    (..., 24, ["Ellipsis"]),
    (Point(1), 32, [f"{__name__}.Point", {"x": 1, "y": 0}]),
    (Pair(1), 37, [f"{__name__}.Pair", {"left": 1, "right": None}]),
    (Colour.RED, 38, [f"{__name__}.Colour", "RED"]),
    (Right.READ, 38, [f"{__name__}.Right", 1]),
    (ValueError("x"), 39, ["builtins.ValueError", ["x"], {}]),
    (Address.of("ab"), 40, ["blobcp.Address", [["a", "b", ""]]]),
]


@pytest.mark.parametrize(("value", "code", "parts"), STORED, ids=lambda it: f"{type(it).__name__}" if it else "")
def test_what_is_stored_never_changes(value: Any, code: int, parts: list[Any], serializer: MsgpackSerializer) -> None:
    """The bytes of each type stay as they are for ever, since users keep them for years."""
    assert serializer.dumps(value) == encode(Ext(code, encode(parts)))


def _hashables() -> st.SearchStrategy[Any]:
    zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30)), BERLIN])
    leaves = st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.integers(-(2**80), 2**80), st.floats(), st.text(), st.binary()),
        st.text(st.characters(codec=None), max_size=5),
        *(st.datetimes(timezones=zones), st.dates(), st.times(), st.timedeltas(), st.uuids()),
        st.decimals(allow_nan=False),
        st.complex_numbers(),
        st.sampled_from([Phase.Step.READY, Colour.RED, Level.LOW, Right.READ | Right.WRITE, Bits(3), ..., UTC, BERLIN]),
        st.builds(PurePosixPath, st.text("ab/", max_size=4)),
        st.builds(range, st.integers(-9, 9), st.integers(-9, 9)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(tuple),
            st.frozensets(inner, max_size=3),
            st.builds(Pair, inner, inner),
            st.builds(Point, inner, inner),
        ),
        max_leaves=4,
    )


def _values() -> st.SearchStrategy[Any]:
    keys = st.deferred(_hashables)  # a deferred strategy has a short repr
    leaves = st.one_of(keys, st.builds(bytearray, st.binary()), st.builds(slice, st.integers()))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            *(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
            *(
                st.dictionaries(keys, inner, max_size=3),
                st.lists(inner, max_size=3).map(tuple),
                st.sets(keys, max_size=3),
            ),
            st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 3])),
            st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
            st.dictionaries(keys, inner, max_size=3).map(lambda items: defaultdict(list, items)),
            st.dictionaries(keys, st.integers(), max_size=3).map(Counter),
            *(st.builds(Pair, inner, inner), st.builds(Point, inner, inner)),
        ),
        max_leaves=12,
    )


_EXAMPLES = 5000 if os.environ.get("BLOBCP_FULL") else 300
_known = Registry()
register_annotations(REGISTERED, _known)
_serializer = MsgpackSerializer(_known)


@settings(max_examples=_EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(value=st.deferred(_values))
def test_any_value_comes_back(value: Any, difference: Difference) -> None:
    """F15: loads(dumps(value)) is the value, with equal types at every level."""
    assert difference(value, _serializer.loads(_serializer.dumps(value))) == ""
