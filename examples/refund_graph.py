"""A small ReAct agent that must ask before it pays money back: messages, tools, a scripted model, and the graph.

The model plans, calls a harmless tool, then wants to call a dangerous one, which asks a person first. Nothing here
knows of processes or files; `refund_agent.py` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from blobcp import END, START, App, Graph, interrupt, serializable, use_state
from blobcp.store import CheckPointStore

# A name of one's own for each class keeps blobs readable after the class has moved to another module.


@serializable("refund.Order")
@dataclass(frozen=True)
class Order:
    """What the shop knows of an order."""

    number: str
    placed: date
    total: Decimal


@serializable("refund.ToolCall")
@dataclass(frozen=True)
class ToolCall:
    """A tool that the model wants to use, and the order it is about."""

    tool: str
    order: str


@serializable("refund.UserMessage")
@dataclass(frozen=True)
class UserMessage:
    """What the customer wrote."""

    text: str


@serializable("refund.ModelMessage")
@dataclass(frozen=True)
class ModelMessage:
    """What the model said; with a call, what it wants done next."""

    text: str
    call: ToolCall | None = None


@serializable("refund.ToolMessage")
@dataclass(frozen=True)
class ToolMessage:
    """What a tool came to."""

    tool: str
    text: str
    order: Order | None = None


Message = UserMessage | ModelMessage | ToolMessage


@serializable("refund.Conversation")
@dataclass
class Conversation:
    """The state of the graph: all that was said, in order."""

    messages: list[Message] = field(default_factory=list)


@serializable("refund.ApprovalRequest")
@dataclass(frozen=True)
class ApprovalRequest:
    """The question to a person; it is stored with the run, so that any process can show it."""

    question: str
    order: Order


@serializable("refund.Decision")
@dataclass(frozen=True)
class Decision:
    """The person's answer."""

    approved: bool
    note: str


def remember(message: Message, conversation: Conversation) -> Message:
    """Note what goes into the model and what comes out of it, and show it (a pre- and post-handler)."""
    conversation.messages.append(message)
    print(f"  {type(message).__name__:<13}{message.text}", flush=True)
    return message


def think(message: Message) -> ModelMessage:
    """Decide what to do next. A real agent would send the conversation to a language model here."""
    if isinstance(message, UserMessage):
        return ModelMessage("First I look the order up.", ToolCall("lookup_order", "1042"))
    assert isinstance(message, ToolMessage)
    if message.tool == "lookup_order":
        return ModelMessage("It was delivered broken, so I want to refund it.", ToolCall("refund", "1042"))
    return ModelMessage(f"Dear customer: {message.text}")


def choose_next(message: ModelMessage) -> str:
    """Go to the tool that the model asked for, or to the end of the conversation."""
    return message.call.tool if message.call else "reply"


def lookup_order(message: ModelMessage) -> ToolMessage:
    """Look an order up: harmless, so it just runs."""
    assert message.call is not None
    order = Order(message.call.order, date(2025, 11, 3), Decimal("89.90"))
    return ToolMessage("lookup_order", f"order {order.number} of {order.placed}, {order.total} EUR", order)


def refund(message: ModelMessage) -> ToolMessage:
    """Pay an order back: dangerous, so a person is asked first.

    The run stops at `interrupt`. On resume this function is called again from its top, and `interrupt` returns the
    answer. So whatever must happen once only stands below it.
    """
    order = known_order()
    decision: Decision = interrupt(ApprovalRequest(f"May I pay {order.total} EUR back?", order))
    if not decision.approved:
        return ToolMessage("refund", f"no refund for order {order.number}: {decision.note}")
    return ToolMessage("refund", f"{order.total} EUR for order {order.number} are on their way ({decision.note})")


def known_order() -> Order:
    """Return the order that was looked up last."""
    with use_state(Conversation) as conversation:
        found = [m.order for m in conversation.messages if isinstance(m, ToolMessage) and m.order]
    return found[-1]


def reply(message: ModelMessage) -> str:
    """Take the text out of the model's last message."""
    return message.text


def make_app(store: CheckPointStore) -> App:
    """Build the graph: the model and its tools in a loop, until the model asks for no tool."""
    graph = Graph(UserMessage, str, state=Conversation, name="refunds")
    graph.add_node("model", think, pre=remember, post=remember)
    graph.add_node("lookup_order", lookup_order)
    graph.add_node("refund", refund)
    graph.add_node("reply", reply)
    graph.add_edge(START, "model")
    graph.add_branch("model", choose_next, ["lookup_order", "refund", "reply"])
    graph.add_edge("lookup_order", "model")
    graph.add_edge("refund", "model")
    graph.add_edge("reply", END)
    return graph.compile(store=store)
