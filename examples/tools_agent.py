"""An agent that calls tools side by side and must ask before one of them; the answer comes from another process.

``python examples/tools_agent.py`` plays it, each part in a process of its own: ``start``, then ``approve``. The model is
scripted, so that nothing needs a network; a real one would be handed the messages and `TOOLS.schemas()`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blobcp import END, START, App, Graph, Interrupted, ToolsNode, interrupt, serializable, use_state
from blobcp.stores import FileStore

FOLDER = Path("tools-checkpoints")
TICKET = "ticket-7"
SECONDS = 60.0
"""The longest that one process may take."""

Message = dict[str, Any]


@serializable("tools_agent.Conversation")
@dataclass
class Conversation:
    """The state of the graph: all that was said, in order."""

    messages: list[Message] = field(default_factory=list)


def look_up(order: str) -> dict[str, Any]:
    """Look an order up.

    Args:
        order: its number.
    """
    print(f"  look_up runs       {order}", flush=True)
    return {"order": order, "euros": 89.9, "state": "delivered"}


def refund(order: str, euros: float) -> str:
    """Pay an order back; a person must approve.

    Args:
        order: its number.
        euros: how much to pay.
    """
    # On resume this runs again from its top, so what must happen once stands below the question.
    if not interrupt({"ask": "refund?", "order": order, "euros": euros}):
        return f"refund of {order} was refused"
    print(f"  refund runs        {order}", flush=True)
    return f"paid {euros} EUR for {order}"


TOOLS = ToolsNode([look_up, refund])


def think(messages: list[Message]) -> Message:
    """Answer the messages, which the last visit added to. A real agent would send the conversation to a model here."""
    with use_state(Conversation) as conversation:
        conversation.messages.extend(messages)
        reply = scripted(conversation.messages)
        conversation.messages.append(reply)
    return reply


def scripted(messages: list[Message]) -> Message:
    """Return what a model would say."""
    if messages[-1]["role"] == "user":
        calls = [("call_1", "look_up", {"order": "1042"}), ("call_2", "refund", {"order": "1041", "euros": 12.5})]
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for id, name, arguments in calls
            ],
        }
    results = [message["content"] for message in messages if message["role"] == "tool"]
    return {"role": "assistant", "content": "; ".join(results)}


def choose_next(message: Message) -> str:
    """Go to the tools as long as the model asks for some."""
    return "tools" if message.get("tool_calls") else "reply"


def reply(message: Message) -> str:
    """Take the text out of the model's last message."""
    return str(message["content"])


def make_app() -> App:
    """Build the loop of model and tools."""
    graph = Graph(list, str, state=Conversation, name="agent")
    graph.add_node("model", think)
    graph.add_node("tools", TOOLS)
    graph.add_node("reply", reply)
    graph.add_edge(START, "model")
    graph.add_branch("model", choose_next, ["tools", "reply"])
    graph.add_edge("tools", "model")
    graph.add_edge("reply", END)
    return graph.compile(store=FileStore(FOLDER))


def start() -> None:
    """Start the run; it stops where the second call asks."""
    request = [{"role": "user", "content": "Where is order 1042? And I want my money back for 1041."}]
    try:
        make_app().invoke(request, checkpoint_id=TICKET, force_new_run=True)
    except Interrupted as stop:
        for point in stop.interrupts:
            print(f"  stopped at         {point.address}")
            print(f"  it asks            {point.info}")


def approve() -> None:
    """See what waits, approve it, and let the run finish."""
    app = make_app()
    (point,) = app.pending(TICKET)
    assert point.parent is not None
    print(f"  done already       {point.parent.info['executed']}")
    print(f"  finished           {app.resume(TICKET, {point.id: True})}")


def main() -> None:
    """Play the part that the command line names, or both, each in a process that exits."""
    parts = {"start": start, "approve": approve}
    if len(sys.argv) > 1:
        parts[sys.argv[1]]()
        return
    for part in parts:
        print(f"{part}:", flush=True)
        subprocess.run([sys.executable, __file__, part], check=True, timeout=SECONDS)


if __name__ == "__main__":
    main()
