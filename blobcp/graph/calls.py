"""A node's functions, its handlers and its choices, in the shape that a run wants.

A value run calls all of them with values. So what was written for chunks is wrapped once, when it is added to a graph, and
a run has nothing to decide.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

from blobcp.errors import GraphBuildError
from blobcp.graph.node import Node, NodeBody, Signature, chunk_of, gives_chunks, reads_chunks, signature_of, type_name
from blobcp.graph.node import is_async as is_coroutine
from blobcp.graph.plan import GraphPlan
from blobcp.stream.concat import concat
from blobcp.stream.reader import StreamReader
from blobcp.stream.shapes import Shape, Shapes, is_async

__all__ = ["AsyncParts", "NodeCalls", "aread_all", "read_all", "value_choice", "value_handler"]

_TAKES_CHUNKS = ("collect", "transform")
_GIVES_CHUNKS = ("stream", "transform")


class _Calls(TypedDict, total=False):
    call: Callable[[Any], Any]
    is_async: bool
    acall: Callable[[Any], Awaitable[Any]] | None
    shape: Shape
    chunked: Callable[[Any], Any]
    chunked_is_async: bool
    achunked: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class NodeCalls:
    """What a node is called by.

    Attributes:
        call: value -> value, for value runs.
        acall: what the asyncio driver awaits instead; ``None`` where it calls ``call`` in a thread.
        shape: the shape that a stream run calls the node in.
        chunked: the function of that shape.
        achunked: what the asyncio driver takes instead; ``None`` where it takes that one too.
        signature: the types of the values that it takes and gives.
        stored: the types of others that it may put into a checkpoint.
    """

    call: Callable[[Any], Any]
    acall: Callable[[Any], Awaitable[Any]] | None
    shape: Shape
    chunked: Callable[[Any], Any]
    achunked: Callable[[Any], Any] | None
    signature: Signature
    stored: tuple[Any, ...] = ()

    @classmethod
    def of(cls, key: str, node: Callable[[Any], Any] | Node) -> NodeCalls:
        """Return the calls of a node.

        Raises:
            GraphBuildError: it is no function of one value.
        """
        if isinstance(node, NodeBody):
            stored = tuple(node.annotations())
            return cls(node, node.acall, "stream", node.chunks, node.achunks, signature_of(key, node), stored)
        if isinstance(node, Node):
            written = node.written
            for call in written.values():
                signature_of(key, call)
        else:
            signature_of(key, node)
            written = {_shape_of(node): node}
        shapes = Shapes(**written)
        shape, chunked = shapes.source_of("invoke"), shapes.source_of("transform")
        function, with_chunks = written[shape], written[chunked]
        call = _value_call(function, shape)
        return cls(
            call,
            call if is_async(function) else None,
            chunked,
            with_chunks,
            with_chunks if is_async(with_chunks) else None,
            _value_signature(key, function, shape),
        )

    def plan(self) -> _Calls:
        """Return the fields of a node's plan."""
        return {
            "call": self.call,
            "is_async": self.call is self.acall,
            "acall": self.acall,
            "shape": self.shape,
            "chunked": self.chunked,
            "chunked_is_async": self.chunked is self.achunked,
            "achunked": self.achunked,
        }


@dataclass(frozen=True, slots=True)
class AsyncParts:
    """The names of what only the asyncio driver can run: in value runs, and in stream runs."""

    values: list[str]
    streams: list[str]

    @classmethod
    def of(cls, plan: GraphPlan) -> AsyncParts:
        """Find them."""
        found = cls([], [])
        for path, graph in plan.walk():
            for node in (graph.start, *graph.nodes.values()):
                parts = [node.pre, node.post, *(branch.choose for branch in node.branches)]
                is_needed = any(part is not None and is_coroutine(part) for part in parts)
                if is_needed or node.is_async:
                    found.values.append("/".join([*path, node.key]))
                if is_needed or node.chunked_is_async:
                    found.streams.append("/".join([*path, node.key]))
        return found


def value_handler(
    handler: Callable[[Any, Any], Any],
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any] | None]:
    """Return a handler for value runs, and for stream runs the same one where it takes a reader."""
    if not reads_chunks(handler):
        return handler, None
    if is_async(handler):

        async def ahandle(value: Any, state: Any) -> Any:
            result = handler(StreamReader([value]), state)
            return concat(await aread_all(await result if inspect.isawaitable(result) else result))

        return ahandle, handler
    return lambda value, state: concat(read_all(handler(StreamReader([value]), state))), handler


def value_choice(choose: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the choice of a branch for value runs."""
    if not reads_chunks(choose):
        return choose
    if is_coroutine(choose):

        async def achoose(value: Any) -> Any:
            return await choose(StreamReader([value]))

        return achoose
    return lambda value: choose(StreamReader([value]))


def read_all(result: Any) -> list[Any]:
    """Return all chunks of what a function gave."""
    if inspect.isgenerator(result):
        return list(result)
    with StreamReader(result) as reader:
        return list(reader)


async def aread_all(result: Any) -> list[Any]:
    """Return all chunks of what a function gave, on the running event loop."""
    if inspect.isasyncgen(result):
        return [chunk async for chunk in result]
    async with StreamReader(result) as reader:
        return [chunk async for chunk in reader]


def _shape_of(function: Callable[[Any], Any]) -> Shape:
    if reads_chunks(function):
        return "transform" if gives_chunks(function) else "collect"
    return "stream" if gives_chunks(function) else "invoke"


def _value_call(function: Callable[[Any], Any], shape: Shape) -> Callable[[Any], Any]:
    if shape == "invoke":
        return function
    takes, gives = shape in _TAKES_CHUNKS, shape in _GIVES_CHUNKS
    if is_async(function):

        async def acall(value: Any) -> Any:
            result = function(StreamReader([value]) if takes else value)
            if inspect.isawaitable(result):
                result = await result
            return concat(await aread_all(result)) if gives else result

        return acall

    def call(value: Any) -> Any:
        result = function(StreamReader([value]) if takes else value)
        return concat(read_all(result)) if gives else result

    return call


def _value_signature(key: str, function: Callable[[Any], Any], shape: Shape) -> Signature:
    signature = signature_of(key, function)
    if shape not in _TAKES_CHUNKS and _is_source(signature.takes):
        raise GraphBuildError(
            f"node {key!r} is declared to take {type_name(signature.takes)}, which no value is; annotate the parameter as "
            "StreamReader to take chunks, or as list to take a whole list"
        )
    return Signature(
        chunk_of(signature.takes) if shape in _TAKES_CHUNKS else signature.takes,
        chunk_of(signature.gives) if shape in _GIVES_CHUNKS else signature.gives,
    )


def _is_source(annotation: Any) -> bool:
    """Tell whether an annotation is of what gives its items once: no value that waits in a checkpoint can be that."""
    kind = typing.get_origin(annotation) or annotation
    return (
        isinstance(kind, type) and issubclass(kind, Iterator | AsyncIterable) and kind.__module__ == "collections.abc"
    )
