"""What surely can't be stored, known before any value is there; and what to do about it."""

from __future__ import annotations

import collections.abc
import threading
import types
import typing
from typing import IO, Any, BinaryIO, Literal, TextIO

from blobcp.codec.hints import alias_value, is_alias, is_union, unwrapped
from blobcp.codec.kinds import Kind, fields_of, kind_of, qualified_name
from blobcp.codec.paths import joined, shown
from blobcp.codec.registry import Registry
from blobcp.errors import UnregisteredTypeError

__all__ = ["advice_for", "check_annotation"]

_LIVE = frozenset(
    {
        *("_thread.lock", "_thread.RLock", "_thread._local", "_threading_local.local", "_contextvars.ContextVar"),
        *("threading.Condition", "threading.Event", "threading.Semaphore", "threading.Thread", "threading.Barrier"),
        *("builtins.generator", "builtins.coroutine", "builtins.async_generator", "builtins.frame"),
        *("builtins.module", "builtins.traceback", "builtins.memoryview", "_io._IOBase", "_socket.socket"),
        *("socket.socket", "subprocess.Popen", "queue.Queue", "_queue.SimpleQueue", "sqlite3.Connection"),
        *("asyncio.locks.Lock", "asyncio.locks.Event", "asyncio.locks.Condition", "asyncio.locks.Semaphore"),
        *("asyncio.events.AbstractEventLoop", "asyncio.queues.Queue", "_asyncio.Future", "_asyncio.Task"),
        *("concurrent.futures._base.Future", "concurrent.futures._base.Executor", "logging.Logger"),
        *("tempfile._TemporaryFileWrapper", "mmap.mmap", "ssl.SSLContext", "weakref.ReferenceType"),
    }
)
"""Classes whose values live in one process; by name, so that none of their modules is imported for this."""

_FUNCTIONS = frozenset(
    {
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
        *(types.MethodDescriptorType, types.WrapperDescriptorType, collections.abc.Callable),
    }
)
_LIVE_ABSTRACT = frozenset({collections.abc.Generator, collections.abc.AsyncGenerator, collections.abc.Coroutine})
_FACTORIES: dict[object, type[Any]] = {
    threading.Lock: type(threading.Lock()),
    threading.RLock: type(threading.RLock()),
}
"""What is called like a class and is, in some releases of Python, a function that makes one."""


def advice_for(cls: type[Any], registry: Registry) -> str:
    """Say what to do about a value of a class that is not registered."""
    name = cls.__qualname__
    if cls in _FUNCTIONS:
        return "it is code and not data: store a name and look it up in the node"
    if _is_live(cls):
        return "it belongs to the running process: keep it outside the state and make it anew in the node"
    if issubclass(cls, type):
        return "it is a class and not a value: store a name and look it up in the node"
    if registry.named(qualified_name(cls)) is not None:
        return (
            "an older class of the same name is registered: register this one as well (with @dataclass(slots=True), "
            "put @serializable above it)"
        )
    if kind_of(cls) is not None:
        return f'register it: put @serializable("a.stable.name") above the class, or call register({name})'
    return f"say how it is stored: register_codec({name}, encode, decode)"


def _is_live(cls: type[Any]) -> bool:
    return cls in _LIVE_ABSTRACT or any(qualified_name(base) in _LIVE for base in cls.__mro__)


def check_annotation(annotation: Any, path: str, registry: Registry, *, code_too: bool = False) -> None:
    """Refuse a type annotation whose values surely can't be stored.

    Args:
        annotation: the type; its fields and what its containers hold are looked at too.
        path: where its values will be, for the message.
        registry: a class with a codec in it can be stored.
        code_too: whether functions can be stored.

    Raises:
        UnregisteredTypeError: the message names the path to the first such field.
    """
    found = _Search(registry, code_too).first(annotation)
    if found is None:
        return
    steps, cls = found
    full = joined([path, *steps] if path else steps)
    raise UnregisteredTypeError(
        f"{shown(full)} is declared as {qualified_name(cls)}, which can't be stored; {advice_for(cls, registry)}",
        path=full,
        type=cls,
    )


Found = tuple[list[str], type[Any]] | None


class _Search:
    """Looks for the first part of an annotation that can't be stored; classes that were looked at are skipped."""

    def __init__(self, registry: Registry, code_too: bool) -> None:
        self._registry = registry
        self._refused = frozenset() if code_too else _FUNCTIONS
        self._seen: set[type[Any]] = set()

    def first(self, annotation: Any) -> Found:
        """Return the steps to it and its class, or ``None``."""
        annotation = unwrapped(annotation)
        try:
            annotation = _FACTORIES.get(annotation, annotation)
        except TypeError:  # not hashable, so none of these
            return None
        if is_alias(annotation):
            return None if annotation in self._seen else self._once(annotation, alias_value(annotation))
        if is_union(annotation):
            return self._first_of_union(annotation.__args__)
        origin = typing.get_origin(annotation)
        cls = origin or annotation
        if cls in (IO, TextIO, BinaryIO):
            return [], cls
        if origin is Literal or not isinstance(cls, type):
            return None
        if cls in self._refused or _is_live(cls):
            entry = self._registry.of(cls)
            return None if entry else ([], cls)
        return self._first_in_fields(cls) or self._first_in_items(cls, typing.get_args(annotation))

    def _once(self, alias: Any, value: Any) -> Found:
        self._seen.add(alias)
        return self.first(value)

    def _first_of_union(self, members: tuple[Any, ...]) -> Found:
        """A union is refused only if none of its members can be stored."""
        found = [self.first(member) for member in members]
        return found[0] if all(found) else None

    def _first_in_fields(self, cls: type[Any]) -> Found:
        entry = self._registry.of(cls)
        kind = kind_of(cls)
        if cls in self._seen or kind is None or (entry and entry.encode):
            return None
        self._seen.add(cls)
        for spec in fields_of(cls, Kind(kind)):
            found = self.first(spec.annotation)
            if found:
                steps, culprit = found
                return [f".{spec.name}", *steps], culprit
        return None

    def _first_in_items(self, cls: type[Any], arguments: tuple[Any, ...]) -> Found:
        if not issubclass(cls, collections.abc.Collection):
            return None
        for argument in arguments:
            found = None if argument is Ellipsis else self.first(argument)
            if found:
                steps, culprit = found
                return ["[]", *steps], culprit
        return None
