from __future__ import annotations

import collections.abc
import io
import socket
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import IO, Annotated, Any, Generic, TextIO, TypeVar

import attr
import attrs
import msgspec
import pydantic
import pytest

from blobcp.codec import MsgpackSerializer, Registry, register_codec
from blobcp.errors import UnregisteredTypeError

T = TypeVar("T")


@dataclass
class State:
    ok: int
    lock: threading.Lock = field(default_factory=threading.Lock)


class Nested(msgspec.Struct):
    states: dict[str, list[State]]


@attrs.define
class WithSocket:
    socket: socket.socket


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    stream: io.StringIO


@dataclass
class Tree:
    children: list[Tree]
    label: Any = None
    lock: threading.Lock | None = None
    call: Callable[[], int] | None = None


@dataclass
class Box(Generic[T]):
    item: T


class Page(pydantic.BaseModel, Generic[T]):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    items: list[T]


@attr.s
class Typed:
    event = attr.ib(type=threading.Event)


@pytest.mark.parametrize(
    ("annotation", "path", "name"),
    [
        (Page[io.StringIO], "state.items[]", "_io.StringIO"),
        (Typed, "state.event", "threading.Event"),
        (State, "state.lock", "_thread.lock"),
        (list[State], "state[].lock", "_thread.lock"),
        (Annotated[State | WithSocket, 1], "state.lock", "_thread.lock"),
        (Nested, "state.states[][].lock", "_thread.lock"),
        (WithSocket, "state.socket", "socket.socket"),
        (Model, "state.stream", "_io.StringIO"),
        (threading.Lock, "state", "_thread.lock"),
        (threading.RLock, "state", "_thread.RLock"),
        (threading.Event, "state", "threading.Event"),
        (Generator[int, None, None], "state", "collections.abc.Generator"),
        (AsyncGenerator[int, None], "state", "collections.abc.AsyncGenerator"),
        (Callable[[int], str], "state", "collections.abc.Callable"),
        (collections.abc.Callable, "state", "collections.abc.Callable"),
        (dict[str, Callable[..., Any]], "state[]", "collections.abc.Callable"),
        (types.ModuleType, "state", "builtins.module"),
        (types.FunctionType, "state", "builtins.function"),
        (IO[str], "state", "typing.IO"),
        (TextIO, "state", "typing.TextIO"),
    ],
)
def test_what_can_not_be_stored_is_told_early(annotation: Any, path: str, name: str) -> None:
    """F17: a declared field that surely can't be stored is refused before any value is there."""
    with pytest.raises(UnregisteredTypeError) as caught:
        MsgpackSerializer(Registry()).check(annotation, "state")

    assert caught.value.path == path
    assert f"{path} is declared as {name}, which can't be stored;" in str(caught.value)


@pytest.mark.parametrize(
    "annotation",
    [
        *(int, None, Any, T, "Missing", object, dict[str, Any], list[int] | None, Tree, Box[int], Iterator[int], ...),
        *(threading.Lock | None if isinstance(threading.Lock, type) else None, type("Unknown", (), {}), [1], 3),
    ],
)
def test_what_may_be_storable_is_accepted(annotation: Any) -> None:
    """Anything unknown, and a union with one storable member, is left to the save."""
    MsgpackSerializer(Registry()).check(annotation, "state")


def test_without_a_path_the_field_stands_first() -> None:
    """The path begins at what was checked."""
    with pytest.raises(UnregisteredTypeError, match=r"^lock is declared as _thread\.lock"):
        MsgpackSerializer(Registry()).check(State)


def test_a_class_with_a_codec_can_be_stored(registry: Registry) -> None:
    """Who says how sockets are stored may declare them."""
    register_codec(socket.socket, lambda live: None, lambda plain: socket.socket(), registry=registry)

    MsgpackSerializer(registry).check(WithSocket, "state")
