"""Assistant messages that ask for tools, and graphs of one tools node."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from drivers import Runner
from pausing import solo

from blobcp import App, Graph, NodeError, ToolError, ToolsNode

__all__ = ["asking", "call", "contents", "failure", "of_kind", "tools_app", "tools_graph"]


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


def tools_graph(*tools: Any, **options: Any) -> Graph:
    """Return the graph START -> tools -> END."""
    return solo(ToolsNode(tools, **options), key="tools")


def tools_app(*tools: Any, store: Any = None, **options: Any) -> App:
    """Return its app."""
    return tools_graph(*tools, **options).compile(store=store)


def contents(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return the contents by call id."""
    return {message["tool_call_id"]: message["content"] for message in messages}


def failure(runner: Runner, app: App, message: Any, **options: Any) -> BaseException:
    """Run an app whose tools node is to fail, and return what it failed with."""
    with pytest.raises(NodeError) as caught:
        runner.invoke(app, message, **options)
    assert caught.value.path[-1] == "tools"
    error = caught.value.__cause__
    assert error is not None
    if isinstance(error, ToolError):
        assert repr(error.tool) in str(error) or error.tool in str(error)
        assert repr(error.call_id) in str(error)
    return error
