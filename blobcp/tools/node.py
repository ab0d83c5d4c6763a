"""ToolsNode: a node that runs the tool calls of a model's message and gives the tool messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from contextvars import copy_context
from typing import Any

from blobcp.errors import GraphBuildError, OptionError
from blobcp.graph.node import NodeBody, is_limit
from blobcp.scope import current_scope
from blobcp.stream.reader import StreamReader
from blobcp.stream.waiting import runs_loop
from blobcp.tools.batch import Batch
from blobcp.tools.chunks import ToolMessages
from blobcp.tools.messages import tool_message
from blobcp.tools.policy import Choice, MakeMessage, Policy
from blobcp.tools.running import run_in_threads, run_on_loop
from blobcp.tools.streaming import stream_in_threads, stream_on_loop
from blobcp.tools.tool import Tool

__all__ = ["ToolsNode"]


class ToolsNode(NodeBody):
    """A node that takes an assistant message with tool calls, or a list that ends with one, and gives the tool messages.

    Where a call stops to ask somebody, the others still run to their ends. What is finished is kept in the checkpoint
    and never runs again; each waiting call has an address, ``tool:name:call_id`` below that of the node, and an answer
    of its own. In a stream run the messages come bit by bit, as `ToolMessages`.

    Args:
        tools: functions, generator functions among them, and `Tool` objects, sync or async.
        parallel: whether the calls run side by side; ``False``: one after the other, in order, until one fails.
        max_parallel: how many run at once; ``None``: all of a message.
        on_unknown: a call that names no tool: ``"error"`` fails the run, ``"message"`` tells the model, and a function
            ``(call) -> result`` gives what the model is told.
        on_bad_arguments: arguments that are no JSON or don't fit the signature: likewise, with ``(call, error) -> result``.
        on_error: a tool that raises: ``"raise"`` fails the run, ``"message"`` tells the model, and a function
            ``(call, error) -> result`` gives what the model is told, or raises. A stop is no failure.
        to_message: ``(call, result) -> message``; ``None``: a dict with ``role``, ``tool_call_id``, ``name`` and
            ``content``, which is the result if it is text, else its JSON. Messages of other classes must be registered.

    Raises:
        GraphBuildError: something is no tool, two have one name, or an option is not known.

    >>> from blobcp import END, START, Graph
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> graph = Graph()
    >>> graph.add_node("tools", ToolsNode([double]))
    >>> graph.add_edge(START, "tools")
    >>> graph.add_edge("tools", END)
    >>> call = {"id": "c1", "function": {"name": "double", "arguments": '{"number": 4}'}}
    >>> graph.compile().invoke({"role": "assistant", "tool_calls": [call]})
    [{'role': 'tool', 'tool_call_id': 'c1', 'name': 'double', 'content': '8'}]
    """

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | Tool],
        *,
        parallel: bool = True,
        max_parallel: int | None = None,
        on_unknown: Choice = "error",
        on_bad_arguments: Choice = "message",
        on_error: Choice = "raise",
        to_message: MakeMessage | None = None,
    ) -> None:
        self._tools = _by_name(tools)
        self._limit = _limit(parallel, max_parallel)
        self._policy = Policy(
            on_unknown=on_unknown,
            on_bad_arguments=on_bad_arguments,
            on_error=on_error,
            to_message=tool_message if to_message is None else to_message,
        )

    def schemas(self) -> list[dict[str, Any]]:
        """Return what the ``tools=`` of OpenAI's API takes, one item a tool."""
        return [tool.as_schema() for tool in self._tools.values()]

    def __call__(self, message: Any) -> list[Any]:
        """Run the calls in threads. If one of them is async, all run on an event loop of this visit alone.

        Raises:
            OptionError: that loop can't be had, since one runs in this thread already.
        """
        batch = self._batch(message)
        if _needs_loop(batch):
            asyncio.run(run_on_loop(batch))
        else:
            run_in_threads(batch)
        return batch.result()

    async def acall(self, message: Any) -> list[Any]:
        """Run the calls on the running event loop; plain tools run in threads."""
        batch = self._batch(message)
        await run_on_loop(batch)
        return batch.result()

    def chunks(self, message: Any) -> Iterator[ToolMessages]:
        """Do what calling it does, and yield what is said of the calls as it comes; an event loop has its own thread."""
        batch = self._batch(message)
        needs_loop = _needs_loop(batch)
        yield from batch.first_chunks()
        if needs_loop:
            with StreamReader(stream_on_loop(batch), context=copy_context()) as chunks:
                yield from chunks
        else:
            yield from stream_in_threads(batch)
        yield from batch.last_chunks()

    async def achunks(self, message: Any) -> AsyncIterator[ToolMessages]:
        """Do what `acall` does, and yield what is said of the calls as it comes."""
        batch = self._batch(message)
        for chunk in batch.first_chunks():
            yield chunk
        async with aclosing(stream_on_loop(batch)) as chunks:
            async for chunk in chunks:
                yield chunk
        for chunk in batch.last_chunks():
            yield chunk

    def annotations(self) -> Iterator[Any]:
        """Yield the types of the tools' parameters and results, which a tool may ask about."""
        for tool in self._tools.values():
            yield from tool.annotations()

    def _batch(self, message: Any) -> Batch:
        return Batch(self._tools, self._policy, self._limit, current_scope("ToolsNode"), message)


def _by_name(tools: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    if not isinstance(tools, Iterable):
        raise GraphBuildError(f"ToolsNode was given {tools!r}; give a list of tools")
    found: dict[str, Tool] = {}
    for each in tools:
        tool = each if isinstance(each, Tool) else Tool(each)
        if tool.name in found:
            raise GraphBuildError(f"two tools are named {tool.name!r}; give one another name by Tool(call, name=...)")
        found[tool.name] = tool
    return found


def _limit(parallel: bool, max_parallel: int | None) -> int | None:
    if max_parallel is not None and not is_limit(max_parallel):
        raise GraphBuildError(f"max_parallel={max_parallel!r} is no number of calls; give an int of at least 1")
    if not parallel and max_parallel not in (None, 1):
        raise GraphBuildError(f"max_parallel={max_parallel} asks for calls side by side and parallel=False for none")
    return max_parallel if parallel else 1


def _needs_loop(batch: Batch) -> bool:
    """Tell whether a call needs an event loop of its own, and refuse it where one runs in this thread already."""
    waits = [job.call.name for job in batch.jobs if job.is_async]
    if waits and runs_loop():
        raise OptionError(
            f"tool {waits[0]!r} is async and an event loop runs in this thread already, which a call that blocks it would "
            "never give back; await app.ainvoke (in a node of your own: await tools_node.acall), or call app.invoke in a thread"
        )
    return bool(waits)
