"""A tool: a function together with what a model is told of it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from blobcp.errors import GraphBuildError
from blobcp.graph.node import chunk_of, function_behind, gives_chunks, hints_of_call, is_text
from blobcp.stream.shapes import is_async
from blobcp.tools.docstrings import read_docstring
from blobcp.tools.parameters import Parameters

__all__ = ["Tool"]


class Tool:
    """A tool whose name, description or schema are not those of its function.

    Args:
        call: what runs, sync or async; it gets the arguments by name. A generator function, or one that returns a
            `StreamReader`, streams its result.
        name: what the model calls it; ``None``: the function's name. It is part of addresses; keep it stable.
        description: what the model is told; ``None``: the docstring up to ``Args:``.
        schema: the JSON schema of the arguments; ``None``: from the signature. With one, the function may take
            ``**kwargs``. What its signature names is converted and checked in any case.

    Attributes:
        is_async: whether it needs an event loop.
        streams: whether its function says that it gives chunks; any may return a stream.

    Raises:
        GraphBuildError: it has no name, or its parameters have no schema.

    >>> def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> Tool(add, name="plus").as_schema()["function"]["parameters"]["required"]
    ['a']
    """

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(call):
            raise GraphBuildError(f"{call!r} is no tool; give a function, or a Tool")
        function = function_behind(call)
        self.call = call
        self.name = _name(call, function) if name is None else name
        if not is_text(self.name):
            raise GraphBuildError(f"tool name {self.name!r} is no name; give non-empty text, without lone surrogates")
        text, arguments = read_docstring(inspect.getdoc(function) or "")
        self.description = text if description is None else description
        self.is_async = is_async(call)
        self.streams = gives_chunks(call)
        self.parameters = Parameters(self.name, call, schema, arguments)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return copy.deepcopy(self.parameters.schema)

    def as_schema(self) -> dict[str, Any]:
        """Return what the ``tools=`` of OpenAI's API takes."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def annotations(self) -> Iterator[Any]:
        """Yield the types of its parameters and of its result, or of the chunks of that."""
        yield from self.parameters.annotations
        result = hints_of_call(function_behind(self.call)).get("return", Any)
        yield chunk_of(result) if self.streams else result


def _name(call: Callable[..., Any], function: Callable[..., Any]) -> str:
    name = getattr(call, "__name__", None) or getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier() or name == "__call__":
        raise GraphBuildError(f"{call!r} has no name that a model could call it by; give Tool(call, name=...)")
    return name
