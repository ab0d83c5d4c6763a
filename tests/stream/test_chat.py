from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blobcp import (
    ChatChunk,
    ConcatError,
    EmptyStreamError,
    MsgpackSerializer,
    SourceEnd,
    StreamReader,
    concat,
    concat_chat,
    concat_stream,
)


def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    """Return a delta with a piece of one tool call."""
    name = more.pop("name", None)
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def document(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk document with one choice."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "gpt-x",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        **more,
    }


def test_text() -> None:
    """Pieces of content and of a refusal are put together; the role counts once, the reason to finish last."""
    joined = concat_chat(
        [
            {"role": "assistant", "content": "", "refusal": None, "finish_reason": None},
            {"role": "assistant", "content": "Hel"},
            {"content": None},
            {"content": "lo"},
            {"finish_reason": "stop", "usage": {"total_tokens": 3}},
            {"usage": {"total_tokens": 7}},
        ]
    )

    assert joined == {
        "role": "assistant",
        "content": "Hello",
        "refusal": None,
        "finish_reason": "stop",
        "usage": {"total_tokens": 7},
    }
    assert concat_chat([{"refusal": "I "}, {"refusal": "can't"}]) == {"refusal": "I can't"}


def test_tool_calls_by_index() -> None:
    """Pieces of arguments are joined by index, however the calls are interleaved; the index goes."""
    joined = concat_chat(
        [
            {"role": "assistant", "content": None},
            call(1, "", id="call_b", type="function", name="ask"),
            call(0, '{"ci', id="call_a", type="function", name="look_up"),
            call(1, '{"who"'),
            call(0, 'ty": "Paris"}'),
            call(1, ': "Ann"}'),
        ]
    )

    assert joined == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Paris"}'}},
            {"id": "call_b", "type": "function", "function": {"name": "ask", "arguments": '{"who": "Ann"}'}},
        ],
    }


def test_servers_that_differ() -> None:
    """A name that comes with each piece counts once, one in pieces is put together; empty ids say nothing."""
    repeated = [call(0, "{", id="c", name="ask"), call(0, "}", id="", name="ask")]
    pieces = [call(0, "", id="c", name="look_"), call(0, "", name="up")]
    without_index = [
        {"tool_calls": [{"id": "a", "function": {"arguments": "1"}}]},
        {"tool_calls": [{"id": "b", "function": {"arguments": "2"}}]},
        {"tool_calls": [{"id": "a", "function": {"arguments": "3"}}]},
    ]

    assert concat_chat(repeated)["tool_calls"] == [{"function": {"name": "ask", "arguments": "{}"}, "id": "c"}]
    assert concat_chat(pieces)["tool_calls"][0]["function"]["name"] == "look_up"
    assert [each["function"]["arguments"] for each in concat_chat(without_index)["tool_calls"]] == ["13", "2"]


def test_documents() -> None:
    """Chunk documents become one completion document; the usage comes in one without choices."""
    joined = concat_chat(
        [
            document({"role": "assistant", "content": ""}),
            document({"content": "Hi"}),
            document({"content": "!"}),
            document({}, finish="stop"),
            document({}, usage={"total_tokens": 9}) | {"choices": []},
        ]
    )

    assert joined == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-x",
        "usage": {"total_tokens": 9},
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi!"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
    }


def test_several_choices() -> None:
    """Choices are joined by their index, tool calls and probabilities within each."""

    def choice(index: int, text: str, token: str) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}, "logprobs": {"content": [{"token": token}]}}]}

    joined = concat_chat([choice(1, "b", "t1"), choice(0, "a", "t2"), choice(1, "B", "t3")])

    assert joined["choices"] == [
        {"index": 0, "message": {"content": "a"}, "logprobs": {"content": [{"token": "t2"}]}},
        {"index": 1, "message": {"content": "bB"}, "logprobs": {"content": [{"token": "t1"}, {"token": "t3"}]}},
    ]


def test_joined_documents_join_on() -> None:
    """A part that was joined before joins with what comes after it."""
    chunks = [document({"role": "assistant", "content": "a"}), document({"content": "b"}), document({}, finish="stop")]

    assert concat_chat([concat_chat(chunks[:2]), chunks[2]]) == concat_chat(chunks)


def test_objects_of_a_client_library() -> None:
    """What has ``model_dump`` counts as what it gives; end markers do not count."""

    class Delta:
        def __init__(self, content: str) -> None:
            self.content = content

        def model_dump(self) -> dict[str, Any]:
            return {"content": self.content}

    assert concat_chat([Delta("a"), SourceEnd("s"), Delta("b")]) == {"content": "ab"}


def test_as_the_concat_of_a_class() -> None:
    """Chunks of class ChatChunk join by themselves, also under a key; a plain reader becomes one of them by ``map``."""
    deltas = [{"role": "assistant", "content": "a"}, {"content": "b"}]
    joined = concat_stream(StreamReader(deltas).map(ChatChunk))

    assert (joined, type(joined)) == ({"role": "assistant", "content": "ab"}, ChatChunk)
    assert concat([{"m": ChatChunk(content="a")}, {"m": ChatChunk(content="b")}]) == {"m": {"content": "ab"}}


def test_stored() -> None:
    """A ChatChunk comes back from a checkpoint as one."""
    serializer = MsgpackSerializer()
    back: Any = serializer.loads(serializer.dumps([ChatChunk(role="assistant", content="a")]))

    assert (back, type(back[0])) == ([{"role": "assistant", "content": "a"}], ChatChunk)


def test_errors() -> None:
    """No chunks, chunks of another kind, and values that don't fit are errors that say what and where."""
    with pytest.raises(EmptyStreamError, match="no chat chunks"):
        concat_chat([])
    with pytest.raises(ConcatError, match="a chat chunk is a str; give dicts in the OpenAI shape"):
        concat_chat(["text"])
    with pytest.raises(ConcatError, match=r"meet at \['content'\] of chat chunks \(str, list\)"):
        concat_chat([{"content": "a"}, {"content": []}])
    with pytest.raises(ConcatError, match=r"a str stands at \['tool_calls'\] of chat chunks; give dicts"):
        concat_chat([{"tool_calls": ["ask"]}])


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=20))
def test_any_order_of_the_pieces_of_calls(pieces: list[tuple[int, str]]) -> None:
    """Each call gets its own pieces, in order, whatever the order of the calls."""
    first = {"tool_calls": [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": ""}} for i in range(3)]}
    joined = concat_chat([first, *(call(index, text) for index, text in pieces)])

    assert [each["function"]["arguments"] for each in joined["tool_calls"]] == [
        "".join(text for index, text in pieces if index == each) for each in range(3)
    ]
