"""What becomes of calls that can't be carried out or fail: a message to the model, an error, or what the user says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from blobcp.errors import CheckpointError, GraphBuildError, OptionError, ToolError, text_of
from blobcp.graph.node import is_async
from blobcp.tools.messages import tool_message
from blobcp.tools.request import ToolCall

__all__ = ["Choice", "MakeMessage", "Policy"]

Choice = str | Callable[..., Any]
"""A word, or a function that says what the model is told."""

MakeMessage = Callable[[ToolCall, Any], Any]
"""Makes a message of a call and its result."""

_OF_THE_RUN = (OptionError, CheckpointError)
"""Failures that concern the run or a checkpoint and not the tool; a model can't do anything about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The choices that a `ToolsNode` was made with; see there.

    Raises:
        GraphBuildError: one of them is none.
    """

    on_unknown: Choice = "error"
    on_bad_arguments: Choice = "message"
    on_error: Choice = "raise"
    to_message: MakeMessage = tool_message

    def __post_init__(self) -> None:
        _check("on_unknown", self.on_unknown, ("error", "message"))
        _check("on_bad_arguments", self.on_bad_arguments, ("error", "message"))
        _check("on_error", self.on_error, ("raise", "message"))
        _check("to_message", self.to_message, ())

    def unknown(self, call: ToolCall, names: Sequence[str]) -> Callable[[], Any]:
        """Return what gives the result of a call that names no tool.

        Raises:
            ToolError: it is to be an error.
        """
        text = f"there is no tool {call.name!r}; the tools are {', '.join(names) or 'none'}"
        if self.on_unknown == "error":
            raise ToolError(
                f"{text} (call {call.id!r}); add it, or choose what the model is told by on_unknown=",
                tool=call.name,
                call_id=call.id,
            )
        return _told(self.on_unknown, f"Error: {text}", call)

    def bad_arguments(self, call: ToolCall, error: Exception) -> Callable[[], Any]:
        """Return what gives the result of a call whose arguments don't fit.

        Raises:
            ToolError: it is to be an error.
        """
        text = f"the arguments of {call.name} don't fit: {text_of(error).partition(': ')[2]}"
        if self.on_bad_arguments == "error":
            raise ToolError(f"{text} (call {call.id!r})", tool=call.name, call_id=call.id) from error
        return _told(self.on_bad_arguments, f"Error: {text}", call, error)

    def failed(self, call: ToolCall, error: BaseException) -> Any:
        """Return the result of a call whose tool failed, or raise the error again."""
        if self.on_error == "raise" or isinstance(error, _OF_THE_RUN):
            raise error
        return _told(self.on_error, f"Error: {text_of(error)}", call, error)()


def _told(choice: Choice, text: str, *arguments: object) -> Callable[[], Any]:
    if isinstance(choice, str):
        return lambda: text
    return lambda: choice(*arguments)


def _check(option: str, choice: Any, words: tuple[str, ...]) -> None:
    if choice in words or (callable(choice) and not is_async(choice)):
        return
    offered = "".join(f"{word!r}, " for word in words)
    raise GraphBuildError(f"{option}={choice!r} is not known; give {offered}{'or ' if words else ''}a plain function")
