from __future__ import annotations

import dataclasses
import datetime
import enum
from types import SimpleNamespace
from typing import Any

import msgspec
import pydantic
import pytest
from drivers import Runner
from graphs import Calls
from langchain_core.messages import AIMessage, HumanMessage
from tool_calls import KINDS, asking, call, contents, failure, of_kind, tools_app, tools_graph

from blobcp import GraphBuildError, Tool, ToolCall, ToolError, ToolsNode, ValueMismatchError


def echo(text: str) -> str:
    """Say it again."""
    return f"echo {text}"


def boom(text: str) -> str:
    """Fail."""
    raise ValueError(text)


@dataclasses.dataclass
class Order:
    """An order."""

    number: int
    placed: datetime.date


class Colour(enum.StrEnum):
    """A colour."""

    RED = "red"


class Model(pydantic.BaseModel):
    """A model of pydantic."""

    number: int


@KINDS
def test_messages_in_call_order(runner: Runner, kind: str, mode: dict[str, Any]) -> None:
    """B098: the messages follow the order of the calls, in OpenAI's shape."""
    graph = tools_graph(of_kind(kind, echo))
    message = asking(call("3", "echo", text="a"), call("1", "echo", text="b"), call("2", "echo", text="c"))

    assert runner.invoke(graph.compile(**mode), message) == [
        {"role": "tool", "tool_call_id": "3", "name": "echo", "content": "echo a"},
        {"role": "tool", "tool_call_id": "1", "name": "echo", "content": "echo b"},
        {"role": "tool", "tool_call_id": "2", "name": "echo", "content": "echo c"},
    ]


OPENAI = call("c1", "echo", text="hi")
LANGCHAIN = {"name": "echo", "args": {"text": "hi"}, "id": "c1", "type": "tool_call"}


@pytest.mark.parametrize(
    "message",
    [
        asking(OPENAI),
        [{"role": "user", "content": "?"}, asking(OPENAI)],
        (asking(OPENAI),),
        SimpleNamespace(
            role="assistant",
            tool_calls=[SimpleNamespace(id="c1", function=SimpleNamespace(name="echo", arguments='{"text": "hi"}'))],
        ),
        {"tool_calls": [LANGCHAIN]},
        AIMessage(content="", tool_calls=[LANGCHAIN]),
        [HumanMessage(content="?"), AIMessage(content="", tool_calls=[LANGCHAIN])],
    ],
    ids=["dict", "list", "tuple", "object", "args", "langchain", "langchain list"],
)
def test_shapes(runner: Runner, message: Any) -> None:
    """A request is read from dicts and objects, of OpenAI's shape and of LangChain's, alone or at the end of a list."""
    assert contents(runner.invoke(tools_app(echo), message)) == {"c1": "echo hi"}


def test_what_langchain_could_not_parse(runner: Runner) -> None:
    """Calls with bad JSON, which LangChain sets apart, are answered as well."""
    wrong = {"name": "echo", "args": "{", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
    message = AIMessage(content="", tool_calls=[LANGCHAIN], invalid_tool_calls=[wrong])
    told = contents(runner.invoke(tools_app(echo), message))

    assert list(told) == ["c1", "c2"]
    assert told["c2"].startswith("Error: the arguments of echo don't fit: they are no JSON: ")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": "hi", "tool_calls": [OPENAI]}, "message of role 'user'"),
        ({"role": "assistant", "content": "hi"}, "dict without tool calls"),
        ({"role": "assistant", "tool_calls": []}, "dict without tool calls"),
        (HumanMessage(content="hi"), "HumanMessage without tool calls"),
        ("hi", "str without tool calls"),
        ([], "list without tool calls"),
        (None, "NoneType without tool calls"),
        (asking({"id": "c1"}), "tool call 1 is"),
        (asking(OPENAI, {"id": 5, "name": "echo", "args": {}}), "tool call 2 is"),
    ],
)
def test_no_request(runner: Runner, message: Any, text: str) -> None:
    """B102: what is no assistant message, or has no calls, fails the run."""
    error = failure(runner, tools_app(echo), message)

    assert isinstance(error, ValueMismatchError)
    assert text in str(error)


@KINDS
def test_an_unknown_tool_fails(runner: Runner, kind: str) -> None:
    """B102: a call that names no tool fails the run, before any other call has run."""
    calls = Calls()
    app = tools_app(Tool(of_kind(kind, lambda: calls.note("ran")), name="ran"))
    error = failure(runner, app, asking(call("c1", "ran"), call("c2", "delete")))

    assert isinstance(error, ToolError)
    assert (error.tool, error.call_id) == ("delete", "c2")
    assert str(error) == (
        "there is no tool 'delete'; the tools are ran (call 'c2'); add it, or choose what the model is told by on_unknown="
    )
    assert calls["ran"] == 0


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("message", "Error: there is no tool 'nope'; the tools are echo"),
        (lambda call: f"no {call.name} for {call.id} with {call.arguments}", "no nope for c2 with {}"),
    ],
    ids=["message", "function"],
)
def test_an_unknown_tool_is_told(runner: Runner, choice: Any, told: str) -> None:
    """B102: with a handler, its text is that call's result; the model may be told instead."""
    message = asking(call("c1", "echo", text="a"), call("c2", "nope"))

    assert contents(runner.invoke(tools_app(echo, on_unknown=choice), message)) == {"c1": "echo a", "c2": told}


def raw(arguments: Any) -> dict[str, Any]:
    """Return a call of echo with arguments as they are."""
    return {"id": "c1", "function": {"name": "echo", "arguments": arguments}}


BAD = [
    ("{", "they are no JSON: Input data was truncated"),
    ("[1]", "they are a JSON list and no object"),
    ("null", "they are a JSON NoneType and no object"),
    (7, "they are a JSON int and no object"),
    ("", "Object missing required field `text`"),
    (None, "Object missing required field `text`"),
    ('{"text": 1}', "Expected `str`, got `int` - at `$.text`"),
    ({"text": "a", "more": 1}, "Object contains unknown field `more`"),
    ("[" * 100_000, "they are no JSON: "),
]


@pytest.mark.parametrize(("arguments", "reason"), BAD)
def test_bad_arguments_are_told(runner: Runner, arguments: Any, reason: str) -> None:
    """Arguments that are no JSON or don't fit are told to the model, which can try again."""
    (message,) = runner.invoke(tools_app(echo), asking(raw(arguments)))

    assert message["content"].startswith(f"Error: the arguments of echo don't fit: {reason}")


@pytest.mark.parametrize(("arguments", "reason"), BAD[:2])
def test_bad_arguments_fail(runner: Runner, arguments: Any, reason: str) -> None:
    """They fail the run where that is asked for, before any call has run."""
    calls = Calls()
    ran = Tool(lambda: calls.note("ran"), name="ran")
    error = failure(runner, tools_app(echo, ran, on_bad_arguments="error"), asking(call("c0", "ran"), raw(arguments)))

    assert isinstance(error, ToolError)
    assert str(error) == f"the arguments of echo don't fit: {reason} (call 'c1')"
    assert calls["ran"] == 0


def test_bad_arguments_as_one_likes(runner: Runner) -> None:
    """A function of the user's says what the model is told; what it raises fails the run."""
    app = tools_app(echo, on_bad_arguments=lambda call, error: {"again": call.name, "why": str(error)})
    (message,) = runner.invoke(app, asking(raw("[]")))

    assert message["content"] == '{"again":"echo","why":"they are a JSON list and no object"}'

    def refuse(call: ToolCall, error: Exception) -> str:
        raise LookupError("no more tries")

    error = failure(runner, tools_app(echo, on_bad_arguments=refuse, on_error="message"), asking(raw("[]")))
    assert isinstance(error, ToolError)
    assert isinstance(error.__cause__, LookupError)


@KINDS
@pytest.mark.parametrize("parallel", [True, False])
def test_an_error_names_tool_and_call(runner: Runner, kind: str, parallel: bool) -> None:
    """B101: a tool that raises fails the run with an error that names the tool and the call."""
    app = tools_app(of_kind(kind, echo), of_kind(kind, boom), parallel=parallel)
    error = failure(runner, app, asking(call("c1", "echo", text="a"), call("c2", "boom", text="bad")))

    assert isinstance(error, ToolError)
    assert (error.tool, error.call_id) == ("boom", "c2")
    assert str(error) == "tool 'boom' (call 'c2') failed: ValueError: bad"
    assert isinstance(error.__cause__, ValueError)


@KINDS
def test_all_errors_of_a_batch(runner: Runner, kind: str) -> None:
    """The first failure in the order of the calls is raised, the others are notes on it; K45: the first is no exception."""
    app = tools_app(of_kind(kind, boom))
    error = failure(runner, app, asking(call("c1", "boom", text="x"), call("c2", "boom", text="y")))

    assert str(error) == "tool 'boom' (call 'c1') failed: ValueError: x"
    assert error.__notes__ == ["tool 'boom' (call 'c2') failed: ValueError: y"]


@KINDS
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("message", "Error: ValueError: bad"),
        (lambda call, error: f"{call.name}/{call.id}: {error}", "boom/c2: bad"),
    ],
    ids=["message", "function"],
)
def test_an_error_is_told(runner: Runner, kind: str, choice: Any, told: str) -> None:
    """Where it is chosen, the model is told of the failure, and the other calls count."""
    app = tools_app(of_kind(kind, echo), of_kind(kind, boom), on_error=choice)
    messages = runner.invoke(app, asking(call("c1", "echo", text="a"), call("c2", "boom", text="bad")))

    assert contents(messages) == {"c1": "echo a", "c2": told}


@KINDS
def test_one_after_the_other_until_one_fails(runner: Runner, kind: str) -> None:
    """K45: in order, an ordinary error stops the batch; side by side, all have run."""
    for parallel, ran in ((False, ["a", "b"]), (True, ["a", "b", "c"])):
        calls = Calls()

        def work(text: str, calls: Calls = calls) -> str:
            calls.note(text)
            return boom(text) if text == "b" else text

        tool = Tool(of_kind(kind, work), name="work", schema={"type": "object"})
        batch = asking(*(call(text, "work", text=text) for text in "abc"))
        failure(runner, tools_app(tool, parallel=parallel), batch)

        assert sorted(calls.order) == ran


def test_a_limit_starts_no_more_after_a_failure(runner: Runner) -> None:
    """With a limit, the calls that are under way end, and those that wait for their turn are left out."""
    calls = Calls()

    def work(text: str) -> str:
        calls.note(text)
        return boom(text)

    batch = asking(*(call(text, "work", text=text) for text in "abcdef"))
    failure(runner, tools_app(work, max_parallel=2), batch)

    assert sorted(calls.order) == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("text", "text"),
        ("", ""),
        (Colour.RED, "red"),
        (None, "null"),
        (True, "true"),
        ({"a": [1, 2.5, "ü"]}, '{"a":[1,2.5,"ü"]}'),
        (Order(7, datetime.date(2025, 1, 2)), '{"number":7,"placed":"2025-01-02"}'),
        ([Model(number=1)], '[{"number":1}]'),
        ((1, 2), "[1,2]"),
        (b"\x00", '"AA=="'),
    ],
)
def test_content(runner: Runner, result: Any, content: str) -> None:
    """Text is told as it is, all else as its JSON."""
    app = tools_app(Tool(lambda: result, name="give"))

    (message,) = runner.invoke(app, asking(call("c1", "give")))
    assert message["content"] == content
    assert type(message["content"]) is str


@pytest.mark.parametrize("on_error", ["raise", "message"])
def test_no_content(runner: Runner, on_error: str) -> None:
    """A result that has no form in JSON is a failure of the tool."""
    app = tools_app(Tool(lambda: object(), name="give"), on_error=on_error)
    text = "TypeError: object has no form in JSON; return text or plain data"
    if on_error == "raise":
        assert str(failure(runner, app, asking(call("c1", "give")))) == f"tool 'give' (call 'c1') failed: {text}"
    else:
        assert contents(runner.invoke(app, asking(call("c1", "give")))) == {"c1": f"Error: {text}"}


def test_messages_of_ones_own(runner: Runner) -> None:
    """`to_message` makes any message of a call and the result itself."""
    app = tools_app(echo, to_message=lambda call, result: (call.key, call.name, call.arguments, result))

    assert runner.invoke(app, asking(call("c1", "echo", text="a"))) == [("c1", "echo", '{"text": "a"}', "echo a")]


def test_arguments_become_what_the_signature_wants(runner: Runner) -> None:
    """Arguments arrive as the classes of the annotations; numbers that models write as text are taken for numbers."""
    got: list[Any] = []

    def take(
        order: Order, model: Model, count: int, colour: Colour | None = None, tags: tuple[str, ...] = ("x",)
    ) -> str:
        got.extend([order, model, count, colour, tags])
        return "ok"

    order = {"number": 1.0, "placed": "2025-01-02"}
    app = tools_app(take)
    runner.invoke(app, asking(call("c1", "take", order=order, model={"number": "4"}, count="5", colour="red")))

    assert got == [Order(1, datetime.date(2025, 1, 2)), Model(number=4), 5, Colour.RED, ("x",)]
    (message,) = runner.invoke(app, asking(call("c1", "take", order=order, model={"number": "x"}, count=1)))
    assert "Input should be a valid integer" in message["content"]
    assert "$.model" in message["content"]


def test_arguments_are_the_tools_own(runner: Runner) -> None:
    """K10: a tool that changes its arguments does not change the message."""

    def change(items: Any) -> str:
        items.append(4)
        return str(items)

    message = {"tool_calls": [{"id": "c1", "name": "change", "args": {"items": [1]}}]}

    assert contents(runner.invoke(tools_app(change), message)) == {"c1": "[1, 4]"}
    assert message == {"tool_calls": [{"id": "c1", "name": "change", "args": {"items": [1]}}]}


def test_a_schema_of_ones_own(runner: Runner) -> None:
    """With a schema, a function of any arguments gets what the model gave; what it names is converted all the same."""
    got: dict[str, Any] = {}

    def anything(*, when: datetime.date, **rest: Any) -> str:
        got.update(rest, when=when)
        return "ok"

    tool = Tool(name="server.any", description="Any.", schema={"type": "object"}, call=anything)
    runner.invoke(tools_app(tool), asking(call("c1", "server.any", when="2025-01-02", b={"c": [1]})))

    assert got == {"when": datetime.date(2025, 1, 2), "b": {"c": [1]}}


def test_a_plain_function_that_gives_a_coroutine(runner: Runner) -> None:
    """A coroutine that a plain function returns is refused with what to do, since nobody awaits it."""

    async def hidden() -> str:
        return "never"

    error = failure(runner, tools_app(Tool(lambda: hidden(), name="give")), asking(call("c1", "give")))

    assert "returned a coroutine although it is no `async def`" in str(error)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ToolsNode(echo), "give a list of tools"),  # type: ignore[arg-type]
        (lambda: ToolsNode([echo, echo]), "two tools are named 'echo'"),
        (lambda: ToolsNode(["echo"]), "'echo' is no tool"),  # type: ignore[list-item]
        (lambda: ToolsNode([echo], max_parallel=0), "max_parallel=0 is no number of calls"),
        (lambda: ToolsNode([echo], max_parallel=2, parallel=False), "asks for calls side by side"),
        (lambda: ToolsNode([echo], on_unknown="raise"), "on_unknown='raise' is not known; give 'error', 'message', or"),
        (lambda: ToolsNode([echo], on_bad_arguments="x"), "on_bad_arguments='x' is not known"),
        (lambda: ToolsNode([echo], on_error="error"), "on_error='error' is not known; give 'raise', 'message', or"),
        (lambda: ToolsNode([echo], to_message="x"), "to_message='x' is not known; give a plain function"),  # type: ignore[arg-type]
        (lambda: ToolsNode([lambda: 1]), "has no name that a model could call it by"),
        (lambda: Tool(echo, name=""), "tool name '' is no name"),
    ],
)
def test_a_node_that_can_not_be(make: Any, text: str) -> None:
    """What can't be carried out is refused when the node is made."""
    with pytest.raises(GraphBuildError) as caught:
        make()

    assert text in str(caught.value)


def test_handlers_are_plain(runner: Runner) -> None:
    """An async handler would not be awaited, so it is refused."""

    async def told(call: ToolCall) -> str:
        return ""

    with pytest.raises(GraphBuildError, match=r"on_unknown=.* give 'error', 'message', or a plain function"):
        ToolsNode([echo], on_unknown=told)


def test_a_struct_of_msgspec_is_told(runner: Runner) -> None:
    """A struct is an object in JSON."""

    class Point(msgspec.Struct):
        x: int

    assert contents(runner.invoke(tools_app(Tool(lambda: Point(1), name="p")), asking(call("1", "p")))) == {
        "1": '{"x":1}'
    }
