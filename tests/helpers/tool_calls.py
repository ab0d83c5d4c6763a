"""Assistant messages that ask for tools, and graphs of one tools node."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from drivers import Runner
from pausing import solo

from blobcp import App, Graph, NodeError, ToolError, ToolsNode
from blobcp.tools import ToolMessages

__all__ = [
    "KINDS",
    "ORDERS",
    "asking",
    "by_id",
    "call",
    "contents",
    "failure",
    "of_kind",
    "streaming",
    "tools_app",
    "tools_graph",
]

KINDS = pytest.mark.parametrize("kind", ["plain", "awaited"])
"""The kinds of `of_kind` and `streaming`."""

ORDERS = pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "in order"])


def call(id: str | None, name: str, **arguments: Any) -> dict[str, Any]:
    """Return one call in OpenAI's shape."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def asking(*calls: Any) -> dict[str, Any]:
    """Return an assistant message."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def of_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is, or an async one that does the same (``kind`` is "plain" or "awaited")."""
    if kind == "plain":
        return function

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return awaited


def streaming(kind: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
    """Return a generator function as it is, or an async one that gives the same (``kind`` is "plain" or "awaited").

    Closing the async one closes the plain one.
    """
    if kind == "plain":
        return function

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with closing(function(*args, **kwargs)) as chunks:  # type: ignore[type-var]  # all are generators
            for chunk in chunks:
                await asyncio.sleep(0)
                yield chunk

    return awaited


def tools_graph(*tools: Any, **options: Any) -> Graph:
    """Return the graph START -> tools -> END."""
    return solo(ToolsNode(tools, **options), key="tools")


def tools_app(*tools: Any, store: Any = None, **options: Any) -> App:
    """Return its app."""
    return tools_graph(*tools, **options).compile(store=store)


def contents(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return the contents by call id."""
    return {message["tool_call_id"]: message["content"] for message in messages}


def by_id(chunks: list[Any], request: Any) -> dict[str, str]:
    """Return what the chunks of a stream run say, put together by call id, each read at its own place."""
    ids = [each["id"] for each in request["tool_calls"]]
    said = dict.fromkeys(ids, "")
    for chunk in chunks:
        assert type(chunk) is ToolMessages
        assert len(chunk) == len(ids)
        for id, message in zip(ids, chunk, strict=True):
            if message is not None:
                assert (message["role"], message["tool_call_id"]) == ("tool", id)
                said[id] += message["content"]
    return said


def failure(runner: Runner, app: App, message: Any, shape: str = "invoke", **options: Any) -> BaseException:
    """Run an app whose tools node is to fail, and return what it failed with."""
    with pytest.raises(NodeError) as caught:
        getattr(runner, shape)(app, message, **options)
    assert caught.value.path[-1] == "tools"
    error = caught.value.__cause__
    assert error is not None
    if isinstance(error, ToolError):
        assert repr(error.tool) in str(error) or error.tool in str(error)
        assert repr(error.call_id) in str(error)
    return error
