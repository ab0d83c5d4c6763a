"""Channels alone: when a node is ready, when it is passed over, what a checkpoint keeps of that."""

from __future__ import annotations

import pytest

from blobcp.checkpoint import DagChannelState, PregelChannelState
from blobcp.graph.channel import ChannelMisfit, DagChannel, PregelChannel, make_channel


def test_kinds() -> None:
    """Each mode has its kind of channel."""
    assert isinstance(make_channel("pregel", ["a"], ["a"]), PregelChannel)
    assert isinstance(make_channel("dag", ["a"], ["a"]), DagChannel)


def test_pregel_any_predecessor_opens_it() -> None:
    """A pregel channel is ready as soon as one control predecessor has fired, with the values that are there."""
    channel = PregelChannel(["a", "b"], ["a", "b"])
    assert not channel.ready()

    channel.put("b", 2)
    assert not channel.ready()
    channel.fire("b")

    assert channel.ready()
    assert channel.take() == {"b": 2}
    assert not channel.ready()
    assert channel.values == {}


def test_pregel_keeps_the_latest_value_of_a_source() -> None:
    """A source that writes twice before the node runs leaves its latest value."""
    channel = PregelChannel(["a"], ["a"])
    for value in (1, 2):
        channel.put("a", value)
        channel.fire("a")

    assert channel.take() == {"a": 2}


def test_pregel_knows_no_skips() -> None:
    """A pregel channel is never passed over."""
    channel = PregelChannel(["a"], ["a"])

    assert channel.skip("a", control=True, data=True) is False
    channel.fire("a")
    assert channel.ready()


def test_dag_waits_for_all() -> None:
    """A dag channel is ready once each control predecessor has fired and each data predecessor has delivered; once."""
    channel = DagChannel(["a", "b"], ["a", "d"])
    channel.put("a", 1)
    channel.fire("a")
    assert not channel.ready()
    channel.fire("b")
    assert not channel.ready()
    channel.put("d", None)
    assert channel.ready()

    assert channel.take() == {"a": 1, "d": None}
    assert not channel.ready()


@pytest.mark.parametrize("first", ["fired", "skipped"])
def test_dag_one_live_predecessor_is_enough(first: str) -> None:
    """A dag channel opens when the rest of its predecessors were passed over, before or after the live one."""
    channel = DagChannel(["a", "b"], ["a", "b"])
    for step in ("fired", "skipped") if first == "fired" else ("skipped", "fired"):
        if step == "fired":
            channel.put("a", 1)
            channel.fire("a")
        else:
            assert channel.skip("b", control=True, data=True) is False

    assert channel.ready()
    assert channel.take() == {"a": 1}


def test_dag_is_passed_over_once() -> None:
    """A dag channel that all control predecessors passed over tells so at the last of them, and only then."""
    channel = DagChannel(["a", "b"], ["a", "b", "d"])
    channel.put("d", 1)

    told = [channel.skip(source, control=True, data=True) for source in ("a", "b", "b")]

    assert told == [False, True, False]
    assert not channel.ready()
    assert channel.dump().skipped


def test_dag_without_control() -> None:
    """K40: without control predecessors a dag channel opens with its data, and is passed over with all of it only."""
    channel = DagChannel([], ["a", "b"])
    assert channel.skip("a", control=True, data=True) is False
    channel.put("b", 2)
    assert channel.ready()
    assert channel.take() == {"b": 2}

    channel = DagChannel([], ["a", "b"])
    assert channel.skip("a", control=True, data=True) is False
    assert channel.skip("b", control=True, data=True) is True
    assert not channel.ready()


def test_dag_data_that_never_comes() -> None:
    """A data predecessor that was passed over is not waited for."""
    channel = DagChannel(["a"], ["a", "d"])
    channel.fire("a")
    channel.put("a", 1)
    assert not channel.ready()

    assert channel.skip("d", control=False, data=True) is False

    assert channel.ready()


def test_pregel_stored_and_loaded() -> None:
    """What a pregel channel stores brings it back; values and triggers are in declared order."""
    channel = PregelChannel(["b", "a"], ["b", "a"])
    for source in ("a", "b"):
        channel.put(source, source.upper())
        channel.fire(source)

    stored = channel.dump()

    assert list(stored.values.items()) == [("b", "B"), ("a", "A")]
    assert stored.triggers == ["b", "a"]
    again = PregelChannel(["b", "a"], ["b", "a"])
    again.load(stored)
    assert again.ready()
    assert again.take() == {"b": "B", "a": "A"}


def test_dag_stored_and_loaded() -> None:
    """What a dag channel stores brings it back at every stage."""
    channel = DagChannel(["a", "b"], ["a", "b"])
    stages = [
        lambda: channel.put("a", 1),
        lambda: channel.fire("a"),
        lambda: channel.skip("b", control=True, data=True),
        channel.take,
    ]
    for stage in stages:
        stage()
        again = DagChannel(["a", "b"], ["a", "b"])
        again.load(channel.dump())
        assert again.dump() == channel.dump()
        assert again.ready() == channel.ready()

    assert channel.dump() == DagChannelState(
        control={"a": "ready", "b": "skipped"}, data={"a": True, "b": True}, values={}, skipped=False, taken=True
    )


def test_a_dump_is_a_copy() -> None:
    """What was stored is not changed by what happens later, in either direction."""
    for channel in (PregelChannel(["a"], ["a"]), DagChannel(["a"], ["a"])):
        channel.put("a", 1)
        stored = channel.dump()
        channel.put("a", 2)
        assert stored.values == {"a": 1}

        again = make_channel("dag" if isinstance(channel, DagChannel) else "pregel", ["a"], ["a"])
        again.load(stored)
        again.put("a", 3)
        assert stored.values == {"a": 1}


@pytest.mark.parametrize(
    ("mode", "stored", "message"),
    [
        ("dag", PregelChannelState(), "was written in pregel mode and is loaded in dag mode"),
        ("pregel", DagChannelState(), "was written in dag mode and is loaded in pregel mode"),
        ("dag", DagChannelState(values={"gone": 1}), "holds a value from gone, which is no predecessor"),
        ("pregel", PregelChannelState(values={"gone": 1}), "holds a value from gone, which is no predecessor"),
    ],
)
def test_misfits(mode: str, stored: DagChannelState | PregelChannelState, message: str) -> None:
    """K08: a channel of the other mode, or with a value of a source that is gone, is refused."""
    with pytest.raises(ChannelMisfit, match=message):
        make_channel(mode, ["a"], ["a"]).load(stored)


def test_a_graph_that_has_grown() -> None:
    """K08: a predecessor that was added since is waited for; the status of the others is kept."""
    old = DagChannel(["a"], ["a"])
    old.put("a", 1)
    old.fire("a")
    new = DagChannel(["a", "b"], ["a", "b"])

    new.load(old.dump())

    assert not new.ready()
    new.put("b", 2)
    new.fire("b")
    assert new.take() == {"a": 1, "b": 2}
