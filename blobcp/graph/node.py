"""What a node's function says of itself: whether it is async, and what it takes and gives."""

from __future__ import annotations

import functools
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from blobcp.errors import GraphBuildError
from blobcp.stream.reader import StreamReader

__all__ = [
    "Node",
    "NodeBody",
    "Signature",
    "check_call",
    "chunk_of",
    "function_behind",
    "gives_chunks",
    "hints_of_call",
    "is_async",
    "is_limit",
    "is_text",
    "reads_chunks",
    "signature_of",
    "type_name",
    "zero_of",
]

_ZEROS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}


@dataclass(frozen=True, slots=True)
class Signature:
    """The annotations of a node's one parameter and of its result; ``Any`` where there is none that can be resolved."""

    takes: Any = Any
    gives: Any = Any


class Node:
    """A node in several shapes; those that are missing are made from those that are given.

    Args:
        invoke: value -> value; sync or async, like the others.
        stream: value -> chunks: a generator function, or one that returns an iterable, sync or async.
        collect: `StreamReader` -> value.
        transform: `StreamReader` -> chunks.

    Raises:
        GraphBuildError: none is given.

    >>> def spell(word):
    ...     yield from word
    >>> Node(stream=spell)
    Node(stream=spell)
    """

    def __init__(
        self,
        *,
        invoke: Callable[[Any], Any] | None = None,
        stream: Callable[[Any], Any] | None = None,
        collect: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        shapes = {"invoke": invoke, "stream": stream, "collect": collect, "transform": transform}
        self.written = {shape: call for shape, call in shapes.items() if call is not None}
        if not self.written:
            raise GraphBuildError("a Node has none of its four shapes; give invoke, stream, collect or transform")

    def __repr__(self) -> str:
        shapes = (f"{shape}={getattr(call, '__name__', call)}" for shape, call in self.written.items())
        return f"Node({', '.join(shapes)})"


class NodeBody(ABC):
    """A node that is more than a function: for values and for streams it has a plain and an async form.

    Each driver takes its own. The chunks join to the value that the node gives in a value run.
    """

    @abstractmethod
    def __call__(self, value: Any) -> Any:
        """Run the node in this thread."""

    @abstractmethod
    async def acall(self, value: Any) -> Any:
        """Run the node on the running event loop."""

    @abstractmethod
    def chunks(self, value: Any) -> Iterator[Any]:
        """Run the node in this thread; yields what it gives as it comes."""

    @abstractmethod
    def achunks(self, value: Any) -> AsyncIterator[Any]:
        """Run the node on the running event loop; yields what it gives as it comes."""

    def annotations(self) -> Iterable[Any]:
        """Return the types whose values the node may put into a checkpoint."""
        return ()


def is_async(call: Callable[..., Any]) -> bool:
    """Tell whether calling this gives something to await."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def is_limit(value: object) -> bool:
    """Tell whether this is a count of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_text(key: object) -> bool:
    """Tell whether this can name something in a checkpoint: non-empty text that UTF-8 can hold."""
    if not isinstance(key, str) or not key:
        return False
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def signature_of(key: str, call: Callable[..., Any]) -> Signature:
    """Read a node function's annotations.

    Args:
        key: the node's key, for messages.
        call: the function.

    Raises:
        GraphBuildError: it can't be called with one value.
    """
    if not callable(call):
        raise GraphBuildError(f"node {key!r} is {call!r}; give a function that takes one value, or a Graph")
    function = function_behind(call)
    parameters = check_call(f"node {key!r}", call, "one value", 1)
    if parameters is None:
        return Signature()
    hints = hints_of_call(function)
    first = next(iter(parameters.parameters), "")
    return Signature(takes=hints.get(first, Any), gives=hints.get("return", Any))


def check_call(what: str, call: Callable[..., Any], wanted: str, count: int) -> inspect.Signature | None:
    """Return the signature of a function, or ``None`` for a builtin that does not tell.

    Raises:
        GraphBuildError: it is no function, or can't be called with that many arguments.
    """
    if not callable(call):
        raise GraphBuildError(f"{what} is {call!r}; give a function that takes {wanted}")
    try:
        signature = inspect.signature(call)
    except ValueError:
        return None
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise GraphBuildError(f"{what} can't be called with {wanted} ({error}); its signature is {signature}") from None
    return signature


def zero_of(annotation: Any) -> Any:
    """Return what a node of this input type is handed where nothing was sent: ``""``, 0, 0.0, ``False`` or ``None``."""
    return _ZEROS.get(annotation)


def type_name(annotation: Any) -> str:
    """Return an annotation as a person would write it."""
    return (
        annotation.__qualname__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)
    )


def function_behind(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, method or class that a partial or a callable object calls in the end."""
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.isroutine(call) or inspect.isclass(call):
        return call
    return type(call).__call__


def reads_chunks(call: Callable[..., Any]) -> bool:
    """Tell whether a function's first parameter is annotated as a `StreamReader`."""
    function = function_behind(call)
    try:
        parameters = inspect.signature(call).parameters
    except ValueError:
        return False
    return _is_reader(hints_of_call(function).get(next(iter(parameters), "")))


def gives_chunks(call: Callable[..., Any]) -> bool:
    """Tell whether a function is a generator, or is annotated to return a `StreamReader`."""
    function = function_behind(call)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return True
    return not inspect.isclass(function) and _is_reader(hints_of_call(function).get("return"))


def chunk_of(annotation: Any) -> Any:
    """Return the type of the chunks of what is annotated as a stream; ``Any`` where it does not say."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    is_stream = isinstance(origin, type) and issubclass(origin, AsyncIterable | Iterable)
    return arguments[0] if is_stream and arguments else Any


def _is_reader(annotation: Any) -> bool:
    return (typing.get_origin(annotation) or annotation) is StreamReader


def hints_of_call(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolve annotations; text that says nothing here (names of an enclosing function, say) stands for ``Any``."""
    if inspect.isclass(function):
        return {"return": function}
    try:
        return typing.get_type_hints(function)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return {}
