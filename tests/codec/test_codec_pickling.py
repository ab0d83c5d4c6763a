from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

from blobcp import MsgpackSerializer, Registry, register
from blobcp.codec import default_registry


@dataclass
class Parcel:
    """A class of this module, so that pickle finds it."""

    weight: int


def test_a_serializer_can_be_sent_to_another_process() -> None:
    """A copy by pickle knows the names of its registry, and has its options."""
    serializer = MsgpackSerializer(Registry(), max_depth=7, pickle_key=bytes(16))
    register(Parcel, name="tests.Parcel", registry=serializer.registry)

    there = pickle.loads(pickle.dumps(serializer))

    assert there.max_depth == 7
    assert there.loads(serializer.dumps(Parcel(3))) == Parcel(3)
    assert serializer.loads(there.dumps([Parcel(3), len])) == [Parcel(3), len]


def test_the_default_registry_is_that_of_the_process() -> None:
    """The default registry stands for the one of the process that it comes to; it is not copied."""
    assert pickle.loads(pickle.dumps(MsgpackSerializer())).registry is default_registry
    assert copy.deepcopy(default_registry) is default_registry


def test_a_copy_is_one_of_its_own() -> None:
    """What is registered with a copy of a registry is not known to the original."""
    original = Registry()

    copied = copy.deepcopy(original)
    register(Parcel, name="tests.Parcel", registry=copied)

    assert "tests.Parcel" in copied.names()
    assert "tests.Parcel" not in original.names()
