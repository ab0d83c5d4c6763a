"""A tool: a function together with what a model is told of it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from blobcp.errors import GraphBuildError
from blobcp.graph.node import function_behind, hints_of_call, is_async, is_text
from blobcp.tools.docstrings import read_docstring
from blobcp.tools.parameters import Parameters

__all__ = ["Tool"]


class Tool:
    """A tool whose name, description or schema are not those of its function.

    Args:
        call: what runs, sync or async; it gets the arguments by name.
        name: what the model calls it; ``None``: the function's name. It is part of addresses; keep it stable.
        description: what the model is told; ``None``: the docstring up to ``Args:``.
        schema: the JSON schema of the arguments; ``None``: from the signature. With one, the function may take
            ``**kwargs``. What its signature names is converted and checked in any case.

    Attributes:
        is_async: whether calling it gives something to await.

    Raises:
        GraphBuildError: it has no name, its parameters have no schema, or it is a generator function.

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
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise GraphBuildError(
                f"tool {self.name!r} is a generator function, and tools that stream are not offered yet; return one value, "
                "such as the text as a whole"
            )
        text, arguments = read_docstring(inspect.getdoc(function) or "")
        self.description = text if description is None else description
        self.is_async = is_async(call)
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
        """Yield the types of its parameters and of its result."""
        yield from self.parameters.annotations
        yield hints_of_call(function_behind(self.call)).get("return", Any)


def _name(call: Callable[..., Any], function: Callable[..., Any]) -> str:
    name = getattr(call, "__name__", None) or getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier() or name == "__call__":
        raise GraphBuildError(f"{call!r} has no name that a model could call it by; give Tool(call, name=...)")
    return name
