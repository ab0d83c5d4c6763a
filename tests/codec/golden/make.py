"""What the golden blobs hold, and the script that made them: one file a kind of blob, of one format version.

Code changes, the checkpoints that people keep do not. So a golden blob, once committed, is never made anew: the script
writes those that are missing and leaves the others alone. A new kind of blob is a new entry in ``BLOBS``, a new format
version is a new folder. What is below may be added to under new names, and never changed.

    python tests/codec/golden/make.py
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic

from blobcp.checkpoint import Address, Checkpoint, DagChannelState, InterruptState, PregelChannelState
from blobcp.codec import (
    Envelope,
    Header,
    KeyRing,
    MsgpackSerializer,
    Parent,
    PendingInterrupt,
    Registry,
    register,
    register_codec,
)

FOLDER = Path(__file__).parent / "v1"
ID = "orders/7 ☕"
RING = KeyRing({"2026-10": bytes(range(32)), "2026-11": bytes(range(32, 64))}, current="2026-11")
OLD_RING = KeyRing({"2026-10": bytes(range(32))})
MOMENT = datetime(2026, 11, 3, 9, 8, 7, 654321, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = ("blue", 1)


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any = None


@dataclass
class Order:
    number: str
    total: Decimal
    items: list[Any] = field(default_factory=list)
    colour: Colour = Colour.RED


@dataclass
class Express(Order):
    before: time = time(12)


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Message(msgspec.Struct):
    role: str
    content: str | None = None
    calls: list[Any] = []


@attrs.define
class Shelf:
    books: dict[str, int]


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None


class Thing:
    """A class of no special kind."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Thing({vars(self)})"


class Trouble(Exception):
    """An exception with an attribute."""


CLASSES: list[type[Any]] = [
    Colour,
    Level,
    Word,
    Right,
    Pair,
    Order,
    Express,
    Point,
    Message,
    Shelf,
    Person,
    Thing,
    Trouble,
]


def registry() -> Registry:
    """Return a registry that knows the classes above under the names that are in the blobs."""
    made = Registry()
    for cls in CLASSES:
        register(cls, name=f"golden.{cls.__name__}", registry=made)
    register_codec(
        Fraction,
        lambda value: [value.numerator, value.denominator],
        lambda pair: Fraction(*pair),
        name="golden.Fraction",
        registry=made,
    )
    return made


def plain_values() -> dict[str, Any]:
    """Return what MessagePack holds as it is, at the borders of its forms."""
    ints = [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    return {
        "ints": [*ints, *(-number for number in (1, 32, 33, 128, 129, 32768, 32769, 2**31, 2**31 + 1, 2**63))],
        "floats": [0.0, -0.0, 0.1, 1e300, math.inf, -math.inf, math.nan],
        "constants": [None, True, False],
        "texts": ["", "a", "é☕🎉", "x" * 31, "x" * 32, "x" * 256, "\0"],
        "bytes": [b"", b"\0\xff", bytes(range(256))],
        "lists": [[], [[]], list(range(16))],
        "dicts": [{}, {"": {"a": None}}, {1: "int", b"b": "bytes", None: "none", 2.5: "float", False: "bool"}],
    }


def standard_values() -> dict[str, Any]:
    """Return values of every type of the standard library that has a code of its own."""
    return {
        "tuples": [(), (1,), (1, ("a", [2]))],
        "sets": [set(), {1, "a", (2,)}, frozenset({1, frozenset({2})})],
        "pairs": {(1, 2): "tuple", Point(1): "record", frozenset({3}): "set", Colour.RED: "enum"},
        "big": [2**64, -(2**63) - 1, 10**40],
        "surrogates": ["\ud800", "a\udcffb"],
        "bytearray": bytearray(b"abc"),
        "complex": [3j, complex(-0.0, math.inf)],
        "ranges": [range(3), range(5, 0, -2), slice(1, None, 2)],
        "deques": [deque([1, 2], maxlen=2), deque()],
        "counters": [Counter("aab"), OrderedDict(b=1, a=2)],
        "factories": [defaultdict(list, a=[1]), defaultdict(None, b=2), defaultdict(Order)],
        "datetimes": [
            MOMENT,
            datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            datetime(1, 1, 1),  # noqa: DTZ001 - without a zone is a case of its own
        ],
        "dates": [date(2026, 11, 3), time(1, 2, 3, 4), time(2, tzinfo=UTC), timedelta(-1, 2, 3)],
        "zones": [UTC, timezone(timedelta(hours=2), "CEST"), ZoneInfo("Asia/Tokyo")],
        "decimals": [Decimal("1.10"), Decimal("-0"), Decimal("Infinity"), UUID(int=7)],
        "paths": [PurePosixPath("/a/b"), PureWindowsPath("c:\\a")],
        "singletons": [..., NotImplemented, msgspec.UNSET],
    }


def own_values() -> dict[str, Any]:
    """Return values of registered classes, one of every kind at least, inside each other."""
    further = Order("1", Decimal(1))
    further.note = "not declared"  # type: ignore[attr-defined]
    trouble = Trouble("no", 7)
    trouble.add_note("seen twice")
    return {
        "enums": [Colour.RED, Colour.BLUE, Level.LOW, Word.YES, Right.READ | Right.WRITE],
        "pair": Pair(1, Pair("a")),
        "orders": [Order("7", Decimal("89.90"), [Point(1, 2)], Colour.BLUE), Express("8", Decimal(0)), further],
        "messages": [Message("user", "hi"), Message("ai", calls=[{"id": "c1", "args": (1,)}])],
        "shelf": Shelf({"tea": 2}),
        "people": [Person(name="Ada", born=date(1815, 12, 10)), Person(name="Bob")],
        "thing": Thing(a=1, inner=Thing(b=[2])),
        "errors": [ValueError("no"), OSError(2, "gone", "file"), trouble],
        "fraction": Fraction(1, 3),
    }


def checkpoint() -> Checkpoint:
    """Return what the bodies hold."""
    address = Address.of(("runnable", "root"), ("node", "ask"), ("tool", "pay", "c1"))
    return Checkpoint(
        channels={
            "ask": PregelChannelState(values={"start": "text", "loop": None}, triggers=["start"]),
            "join": DagChannelState(
                control={"a": "ready", "b": "waiting", "c": "skipped"}, data={"a": True}, values={"a": (1,)}, taken=True
            ),
        },
        inputs={"ask": Order("7", Decimal("89.90"))},
        state=plain_values() | standard_values() | own_values(),
        skip_pre_handler={"ask": True},
        rerun_nodes=["ask"],
        before_nodes=["join"],
        after_nodes=["start"],
        sub_graphs={"inner": Checkpoint(state=Thing(left=Pair(1)), rerun_nodes=["deep"])},
        interrupt_id_to_address={"i1": address, "i2": Address()},
        interrupt_id_to_state={
            "i1": InterruptState(state={"n": 1}, info="Pay 89.90 EUR back?", created_at=MOMENT),
            "i2": InterruptState(payload=False, status="done", is_root_cause=False, parent="i1", in_order=False),
        },
    )


def tables() -> Checkpoint:
    """Return what is stored by columns: lists of records of one class, with lists and records in them."""
    orders = [Order(str(number), Decimal(number), [Point(number)] * (number % 3)) for number in range(5)]
    calls = [[], [Message("tool", "a")], [Message("tool", "b"), Message("tool", "c")], []]
    return Checkpoint(
        state={
            "orders": orders,
            "messages": [Message("user", f"text {index}", inner) for index, inner in enumerate(calls)],
            "pairs": [Pair(Point(index), (index,)) for index in range(4)],
            "shelves": [Shelf({"tea": index}) for index in range(4)],
            "people": [Person(name=f"p{index}", born=None) for index in range(4)],
        }
    )


HEADER = Header(
    serializer="msgpack",
    state_version=3,
    graph="refunds",
    checkpoint_id=ID,
    parent=Parent("orders/6", "ab" * 32),
    run_id="run-1",
    step=4,
    created_at=MOMENT,
    status="interrupted",
    pending=[PendingInterrupt("i1", "runnable:root;node:ask;tool:pay:c1")],
)
DONE = Header(checkpoint_id=ID, graph="refunds", run_id="run-1", step=9, created_at=MOMENT, status="done")

ENVELOPES: dict[str, Envelope] = {
    "plain": Envelope(),
    "zlib": Envelope(compression="zlib"),
    "zstd": Envelope(compression="zstd"),
    "signed": Envelope(sign=RING),
    "encrypted": Envelope(keys=RING),
    "zlib-encrypted-signed": Envelope(compression="zlib", keys=RING, sign=RING),
}
"""Those that read the blobs, by the beginning of their names."""

BLOBS: dict[str, tuple[Envelope, Header, Callable[[], Checkpoint] | None]] = {
    **{name: (envelope, HEADER, checkpoint) for name, envelope in ENVELOPES.items()},
    **{f"{name}-done": (ENVELOPES[name], DONE, None) for name in ("plain", "signed", "encrypted")},
    "encrypted-old-key": (Envelope(keys=OLD_RING), HEADER, checkpoint),
    "plain-tables": (ENVELOPES["plain"], HEADER, tables),
}
"""By file: who wrote the blob, its header, and what makes the value of its body, where it has one."""


def reader_of(name: str) -> Envelope:
    """Return the envelope that reads a golden blob."""
    return ENVELOPES.get(name) or ENVELOPES[name.partition("-")[0]]


def main() -> None:
    """Write the blobs that are missing."""
    serializer = MsgpackSerializer(registry())
    FOLDER.mkdir(exist_ok=True)
    for name, (envelope, header, value) in BLOBS.items():
        path = FOLDER / f"{name}.blob"
        if not path.exists():
            path.write_bytes(envelope.seal(header, serializer.dumps(value()) if value else b""))
            print(path.name)


if __name__ == "__main__":
    main()
