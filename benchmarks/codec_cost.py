"""What it costs to turn states into bytes and back: blobcp, raw msgspec, pickle, and LangGraph's JsonPlusSerializer.

Every part gets the same values: chat messages with tool calls as dicts, dataclasses and pydantic models, one large bytes
object, and a deep dict. The parts take turns, round by round, so that a busy machine slows all of them; medians are
printed. Each is checked beforehand to give back what it got; raw msgspec is the floor, since it is told the types of
dataclasses and keeps none of its own accord. A part whose library is missing says so.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import platform
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from typing import Any, NamedTuple

import msgspec

from blobcp import Envelope, Header, MsgpackSerializer, Registry, register

BLOBCP, MSGSPEC, PICKLE, JSON_PLUS, COPY = (
    "blobcp",
    "raw msgspec",
    "pickle",
    "JsonPlusSerializer",
    "memory copy + digest",
)


@dataclass
class Call:
    """A tool call."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass
class Message:
    """A chat message."""

    role: str
    content: str
    id: str
    tool_calls: list[Call]


class Part(NamedTuple):
    """One way to do it.

    Attributes:
        dumps: value -> whatever it is stored as.
        loads: that -> value.
    """

    dumps: Callable[[Any], Any]
    loads: Callable[[Any], Any]


class Case(NamedTuple):
    """One value and the parts that store it."""

    value: Any
    parts: dict[str, Part]


def messages(count: int) -> list[dict[str, Any]]:
    """Return chat messages; every other one calls a tool."""
    return [
        {
            "role": "assistant" if number % 2 else "user",
            "content": f"message {number}: {'all work and no play ' * 4}",
            "id": f"m-{number}",
            "tool_calls": [
                {"id": f"call-{number}-{each}", "name": "search", "args": {"query": f"q {number}", "limit": each}}
                for each in range(number % 2)
            ],
        }
        for number in range(count)
    ]


def as_dataclass(message: dict[str, Any]) -> Message:
    """Return a message as a dataclass."""
    return Message(**{**message, "tool_calls": [Call(**call) for call in message["tool_calls"]]})


def nested(depth: int) -> dict[str, Any]:
    """Return dicts in one another."""
    value: dict[str, Any] = {"n": 0, "leaf": True}
    for level in range(depth):
        value = {"n": level, "child": value, "tags": ["a", "b"]}
    return value


def msgspec_part(type: Any = Any) -> Part:
    """Return raw msgspec, told the type of what it reads."""
    return Part(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(type).decode)


def blobcp_part(*classes: type[Any]) -> Part:
    """Return blobcp's default serializer, which knows some classes."""
    registry = Registry()
    for cls in classes:
        register(cls, registry=registry)
    serializer = MsgpackSerializer(registry)
    return Part(serializer.dumps, serializer.loads)


def json_plus_part(*classes: type[Any]) -> dict[str, Part]:
    """Return LangGraph's serializer if it is installed."""
    try:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    except ImportError:
        return {}
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[(cls.__module__, cls.__name__) for cls in classes])
    return {
        JSON_PLUS: Part(
            lambda value: serializer.dumps_typed(value)[1], lambda data: serializer.loads_typed(("msgpack", data))
        )
    }


PICKLES = {PICKLE: Part(lambda value: pickle.dumps(value, pickle.HIGHEST_PROTOCOL), pickle.loads)}


def model_case(plain: list[dict[str, Any]]) -> dict[str, Case]:
    """Return the messages as pydantic models, if it is installed; msgspec's part is of their dicts, unvalidated."""
    try:
        from pydantic import BaseModel, create_model
    except ImportError:
        return {}
    call = create_model("call", __base__=BaseModel, id=(str, ...), name=(str, ...), args=(dict[str, Any], ...))
    model = create_model(
        "model", __base__=BaseModel, role=(str, ...), content=(str, ...), id=(str, ...), tool_calls=(list[call], ...)
    )
    globals().update(call=call, model=model)  # where pickle and LangGraph look for them
    value = [model.model_validate(message) for message in plain]
    raw = msgspec_part()
    floor = Part(lambda models: raw.dumps([each.model_dump() for each in models]), raw.loads)
    parts = {BLOBCP: blobcp_part(call, model), MSGSPEC: floor, **PICKLES, **json_plus_part(call, model)}
    return {"pydantic models": Case(value, parts)}


def copy_part() -> Part:
    """Return what can't be saved on a large value: to copy it, and to make the digest that finds damage."""
    return Part(lambda value: (bytearray(value["blob"]), blake2b(value["blob"], digest_size=32).digest()), bytes_of)


def bytes_of(stored: tuple[bytearray, bytes]) -> dict[str, bytes]:
    """Copy it back, and make the digest again."""
    assert blake2b(stored[0], digest_size=32).digest() == stored[1]
    return {"blob": bytes(stored[0])}


def with_digest(part: Part) -> Part:
    """Return a part that also makes and checks a digest, as the envelope does."""

    def loads(stored: tuple[Any, bytes]) -> Any:
        assert blake2b(stored[0], digest_size=32).digest() == stored[1]
        return part.loads(stored[0])

    def dumps(value: Any) -> tuple[Any, bytes]:
        data = part.dumps(value)
        return data, blake2b(data, digest_size=32).digest()

    return Part(dumps, loads)


def cases(count: int) -> dict[str, Case]:
    """Return all values with all parts that are there."""
    plain = messages(count)
    common = {BLOBCP: blobcp_part(), MSGSPEC: msgspec_part(), **PICKLES, **json_plus_part()}
    typed = {
        BLOBCP: blobcp_part(Call, Message),
        MSGSPEC: msgspec_part(list[Message]),
        **PICKLES,
        **json_plus_part(Call, Message),
    }
    large = {COPY: copy_part(), **{name: with_digest(part) for name, part in common.items()}}
    return {
        f"{count} messages as dicts": Case(plain, common),
        f"{count} messages as dataclasses": Case([as_dataclass(message) for message in plain], typed),
        **{f"{count} messages as {name}": case for name, case in model_case(plain).items()},
        "1 MB of bytes, with the digest": Case({"blob": bytes(range(256)) * 4096}, large),
        "a dict 150 deep": Case(nested(150), common),
    }


def check(name: str, case: Case) -> None:
    """See that each part does its work, which warms it up too."""
    for part_name, (dumps, loads) in case.parts.items():
        back = loads(dumps(case.value))
        if part_name == MSGSPEC and "pydantic" in name:
            back = [type(each).model_validate(plain) for each, plain in zip(case.value, back, strict=True)]
        assert back == case.value, f"{part_name} did not give back {name}"


Times = dict[str, tuple[list[float], list[float]]]


def measure(case: Case, rounds: int) -> Times:
    """Return the milliseconds of encoding and decoding in each round of each part, the parts taking turns."""
    times: Times = {name: ([], []) for name in case.parts}
    order = list(case.parts.items())
    chance = random.Random(rounds)
    for _ in range(rounds):
        chance.shuffle(order)  # since a part finds the memory as the one before it left it
        for name, (dumps, loads) in order:
            gc.collect()
            began = time.perf_counter()
            stored = dumps(case.value)
            middle = time.perf_counter()
            loads(stored)
            ended = time.perf_counter()
            times[name][0].append((middle - began) * 1e3)
            times[name][1].append((ended - middle) * 1e3)
    return times


def report(name: str, times: Times, floor: str) -> None:
    """Print the medians of a case, and what blobcp costs beside each of the others."""
    medians = {part: [statistics.median(values) for values in pair] for part, pair in times.items()}
    ours = medians[BLOBCP]
    print(f"\n{name}\n{'milliseconds':<24}{'encode':>9}{'decode':>9}{'both':>9}   blobcp / it: encode, decode, both")
    for part in (floor, BLOBCP, *[each for each in (MSGSPEC, PICKLE, JSON_PLUS) if each != floor]):
        if part not in medians:
            print(f"{part:<24}{'not installed':>27}")
            continue
        encode, decode = medians[part]
        ratios = [ours[0] / encode, ours[1] / decode, sum(ours) / (encode + decode)]
        shown = "" if part == BLOBCP else "   " + ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{part:<24}{encode:>9.3f}{decode:>9.3f}{encode + decode:>9.3f}{shown}")


def report_envelope(rounds: int) -> None:
    """Print what the envelope takes of a save of messages of about 1 MB, and what of that is the digest alone."""
    value, dumps, envelope = messages(6000), blobcp_part().dumps, Envelope()
    header = Header(checkpoint_id="a")
    times: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        began = time.perf_counter()
        body = dumps(value)
        encoded = time.perf_counter()
        envelope.seal(header, body)
        sealed = time.perf_counter()
        blake2b(body, digest_size=32).digest()
        times.append((encoded - began, sealed - encoded, time.perf_counter() - sealed))
    encode, seal, digest = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
    share = seal / (encode + seal)
    print(
        f"\nthe envelope of {len(body) / 1e6:.2f} MB of messages as dicts: encode {encode:.3f} ms, seal {seal:.3f} ms"
    )
    print(f"(the digest alone {digest:.3f} ms), which is {share:.0%} of both")


def version(distribution: str) -> str:
    """Return the installed version of a distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1000, help="how many messages (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=25, help="how many rounds to measure (default: %(default)s)")
    options = parser.parse_args()
    libraries = ("blobcp", "msgspec", "pydantic", "langgraph-checkpoint")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{each} {version(each)}" for each in libraries))
    for name, case in cases(options.messages).items():
        check(name, case)
        report(name, measure(case, options.rounds), COPY if COPY in case.parts else MSGSPEC)
    report_envelope(options.rounds)


if __name__ == "__main__":
    main()
