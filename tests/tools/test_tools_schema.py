from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from blobcp import GraphBuildError, Tool, ToolsNode

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Line:
    """One line of an order."""

    article: str
    count: int = 1


@dataclass
class Order:
    """An order."""

    number: int
    lines: list[Line] = field(default_factory=list)


class Part(pydantic.BaseModel):
    """A part."""

    name: str


class Whole(pydantic.BaseModel):
    """A whole."""

    parts: list[Part]


class Options(TypedDict):
    """Options."""

    fast: bool


def parameters(function: Any) -> dict[str, Any]:
    """Return the schema of a function's arguments."""
    schema: dict[str, Any] = Tool(function).as_schema()["function"]["parameters"]
    return schema


def test_a_whole_schema() -> None:
    """Name, description and arguments come from the function, in the shape that OpenAI's API takes."""

    def search(query: str, limit: int = 10, *, kind: Literal["web", "news"] = "web") -> list[str]:
        """Search the shop.

        Gives the best hits first.

        Args:
            query: what to look for,
                in plain words.
            limit (int): how many hits.
            kind: where.

        Returns:
            The hits.
        """
        return []

    assert ToolsNode([search]).schemas() == [
        {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search the shop.\n\nGives the best hits first.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "what to look for, in plain words."},
                        "limit": {"type": "integer", "description": "how many hits.", "default": 10},
                        "kind": {"enum": ["news", "web"], "default": "web", "description": "where."},
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
            },
        }
    ]


def test_types() -> None:
    """Optional, lists, dicts, unions, dates and unannotated parameters have their schemas."""

    def take(a: int | None, b: list[str], c: dict[str, float], d: int | str, e: date, f: bool = False, g=None) -> None:  # type: ignore[no-untyped-def]
        pass

    assert parameters(take)["properties"] == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "b": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "object", "additionalProperties": {"type": "number"}},
        "d": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "e": {"type": "string", "format": "date"},
        "f": {"type": "boolean", "default": False},
        "g": {"default": None},
    }
    assert parameters(take)["required"] == ["a", "b", "c", "d", "e"]


def test_classes() -> None:
    """Dataclasses, typed dicts and pydantic models stand under ``$defs``, those inside them too, and are referred to."""

    def take(order: Order, whole: Whole | None, options: Options) -> None:
        pass

    schema = parameters(take)
    assert schema["properties"]["order"] == {"$ref": "#/$defs/Order"}
    assert sorted(schema["$defs"]) == ["Line", "Options", "Order", "Part"]
    assert schema["$defs"]["Order"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    model, nothing = schema["properties"]["whole"]["anyOf"]
    assert model["properties"]["parts"]["items"] == {"$ref": "#/$defs/Part"}
    assert nothing == {"type": "null"}


def test_a_default_of_a_class() -> None:
    """A default is shown as JSON where it has such a form, and left out elsewhere; the function has it in any case."""

    def take(line: Line = Line("a", 2), part: Part = Part(name="p"), other: Any = object()) -> None:  # noqa: B008
        pass

    properties = parameters(take)["properties"]
    assert properties["line"]["default"] == {"article": "a", "count": 2}
    assert properties["part"]["default"] == {"name": "p"}
    assert "default" not in properties["other"]


def test_descriptions_in_annotations() -> None:
    """A text in ``Annotated`` describes a parameter, so does the description of msgspec's or pydantic's notes."""

    def take(
        a: Annotated[int, "plain"],
        b: Annotated[int, msgspec.Meta(description="meta", ge=1)],
        c: Annotated[int, pydantic.Field(description="field")],
        d: Annotated[int, 5],
    ) -> None:
        pass

    assert parameters(take)["properties"] == {
        "a": {"type": "integer", "description": "plain"},
        "b": {"type": "integer", "description": "meta", "minimum": 1},
        "c": {"type": "integer", "description": "field"},
        "d": {"type": "integer"},
    }


def test_what_is_bound_is_not_shown() -> None:
    """What ``functools.partial`` binds is not the model's to give; the name and the text are those of the function."""

    def pay(database: object, order: str, currency: str = "EUR") -> str:
        """Pay."""
        return order

    tool = Tool(functools.partial(pay, database=object(), currency="USD"))
    assert (tool.name, tool.description, list(tool.schema["properties"])) == ("pay", "Pay.", ["order"])


def test_methods_and_objects() -> None:
    """A method is a tool without its ``self``; an object that can be called needs a name."""

    class Shop:
        def find(self, article: str) -> str:
            """Find it."""
            return article

        def __call__(self, article: str) -> str:
            """Buy it."""
            return article

    assert list(Tool(Shop().find).schema["properties"]) == ["article"]
    tool = Tool(Shop(), name="buy")
    assert (tool.description, list(tool.schema["properties"])) == ("Buy it.", ["article"])
    with pytest.raises(GraphBuildError, match="has no name that a model could call it by"):
        Tool(Shop())


def test_what_is_said_explicitly() -> None:
    """Name, description and schema may be said; they are given out as copies."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = Tool(name="n", description="d", schema=schema, call=lambda **arguments: arguments)
    shown = tool.as_schema()
    shown["function"]["parameters"]["properties"].clear()

    assert tool.as_schema() == {"type": "function", "function": {"name": "n", "description": "d", "parameters": schema}}


def test_a_wrapped_function() -> None:
    """A decorator that uses ``functools.wraps`` leaves all of it as it was."""

    def take(order: Order) -> str:
        """Take it."""
        return ""

    @functools.wraps(take)
    def wrapped(*args: Any, **kwargs: Any) -> str:
        return take(*args, **kwargs)

    assert Tool(wrapped).as_schema() == Tool(take).as_schema()


def test_a_result_that_can_not_be_resolved() -> None:
    """The annotation of the result is of no interest to a model, and may name what is only there for type checkers."""

    def price(article: str) -> Decimal:
        """Tell a price."""
        raise NotImplementedError

    assert list(parameters(price)["properties"]) == ["article"]


def unresolved(price: Decimal) -> str:
    """Take what only type checkers know."""
    return ""


def live(connection: Tool) -> str:
    """Take what no JSON can carry."""
    return ""


def union(one: Part | Whole) -> str:
    """Take what msgspec can't tell apart."""
    return ""


def positional(one: str, /) -> str:
    """Take an argument without a name."""
    return ""


def anything(**rest: Any) -> str:
    """Take anything."""
    return ""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (unresolved, "annotations of tool 'unresolved' can't be resolved (name 'Decimal' is not defined)"),
        (live, "parameters of tool 'live' have no JSON schema: type <class 'blobcp.tools.tool.Tool'> is not supported"),
        (
            union,
            "msgspec can't read the parameters of tool 'union': Type unions may not contain more than one custom type",
        ),
        (positional, "'positional' has positional-only parameters"),
        (anything, "'anything' takes *args or **kwargs, which have no JSON schema"),
    ],
)
def test_what_can_not_be_a_tool(function: Any, text: str) -> None:
    """What has no schema, or can't be called by name, is refused when the tool is made, with what to do."""
    with pytest.raises(GraphBuildError) as caught:
        Tool(function)

    assert text in str(caught.value)


def test_two_classes_of_one_name() -> None:
    """Two classes of one name would have one schema, so they are refused."""
    other = pydantic.create_model("Part", size=(int, ...))
    another = pydantic.create_model("Another", part=(other, ...))

    def take(whole: Any, more: Any) -> str:
        return ""

    take.__annotations__.update(whole=Whole, more=another)
    with pytest.raises(GraphBuildError, match="two classes are named Part"):
        Tool(take)
