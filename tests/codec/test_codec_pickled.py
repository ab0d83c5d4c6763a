"""Signed pickles: as a serializer, and as single values inside MessagePack."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest
from msgspec.msgpack import Ext, decode, encode

from blobcp.checkpoint import Address, Checkpoint
from blobcp.codec import MsgpackSerializer, PickleSerializer, Registry, Serializer
from blobcp.errors import OptionError, SerializationError, UnregisteredTypeError

KEY, OLD, OTHER = b"k" * 32, b"o" * 32, b"x" * 32
CELL = 42


class Opens:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


class Unknown:
    """A class that nobody registered."""

    def __init__(self, x: Any) -> None:
        self.x = x


@dataclass
class Handler:
    name: str
    call: Callable[[int], int]


def counter(step: int) -> Callable[[int], int]:
    """Return a closure."""
    return lambda number: number + step


class TestSerializer:
    def test_code_comes_back(self) -> None:
        """Lambdas, closures and classes inside functions come back, in a checkpoint too; shared objects stay shared."""
        serializer = PickleSerializer(key=KEY)
        shared: list[int] = []
        value = Checkpoint(state={"call": counter(3), "a": shared, "b": shared}, inputs={"n": Address.of(("a", "b"))})

        found = serializer.loads(serializer.dumps(value))

        assert found.state["call"](4) == 7
        assert found.state["a"] is found.state["b"]
        assert found.inputs == {"n": Address.of(("a", "b"))}
        assert isinstance(serializer, Serializer)
        assert serializer.name == "pickle"

    def test_classes_of_main_load_in_another_process(self, tmp_path: Path) -> None:
        """A class of ``__main__`` and a lambda load in a process that has neither."""
        save = (
            "import sys; from blobcp.codec import PickleSerializer\n"
            "class Cart:\n    def __init__(self, n): self.n = n\n    def twice(self): return self.n * factor\n"
            "factor = 2\n"
            "data = PickleSerializer(key=b'k' * 32).dumps([Cart(21), lambda x: x + factor])\n"
            "open(sys.argv[1], 'wb').write(data)\n"
        )
        load = (
            "import sys; from blobcp.codec import PickleSerializer\n"
            "cart, add = PickleSerializer(key=b'k' * 32).loads(open(sys.argv[1], 'rb').read())\n"
            "assert (cart.twice(), add(1), type(cart).__name__) == (42, 3, 'Cart')\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for script in (save, load):
            subprocess.run([sys.executable, "-c", script, str(tmp_path / "blob")], env=env, check=True, timeout=60)

    @pytest.mark.parametrize("sign", ["nothing", "another key", "a cell", "a flipped byte", "less", "empty"])
    def test_without_a_right_signature_nothing_is_unpickled(self, sign: str, tmp_path: Path) -> None:
        """F19 (1), (2): an unsigned or wrongly signed pickle is refused before a byte of it is looked at."""
        marker = tmp_path / "marker"
        bad = Opens(marker)
        signed = PickleSerializer(key=KEY).dumps(bad)
        data = {
            "nothing": pickle.dumps(bad),
            "another key": PickleSerializer(key=OTHER).dumps(bad),
            "a cell": decode(decode(MsgpackSerializer(Registry(), pickle_key=KEY).dumps(bad)).data)[0],
            "a flipped byte": bytes([signed[0] ^ 1]) + signed[1:],
            "less": signed[:-1],
            "empty": b"",
        }[sign]

        with pytest.raises(SerializationError, match="not allowed"):
            PickleSerializer(key=KEY).loads(data)

        assert not marker.exists()

    def test_keys_are_rotated(self) -> None:
        """The first key signs, each is accepted; a key that was taken away is not."""
        old, both, new = PickleSerializer(key=OLD), PickleSerializer(key=[KEY, OLD]), PickleSerializer(key=KEY)

        assert both.loads(memoryview(old.dumps(1))) == 1
        assert new.loads(both.dumps(2)) == 2
        with pytest.raises(SerializationError, match="not allowed"):
            new.loads(old.dumps(3))

    @pytest.mark.parametrize(
        "key", [b"", b"short", b"x" * 65, "text" * 8, [], ["text" * 8], [KEY, b""], (KEY, None), 5, object]
    )
    def test_a_key_is_needed(self, key: Any) -> None:
        """A key that is missing, of another type or of a wrong length is refused, wherever it stands in the list."""
        with pytest.raises(OptionError, match="key"):
            PickleSerializer(key=key)
        with pytest.raises(OptionError, match="key"):
            MsgpackSerializer(pickle_key=key)

    def test_none_is_no_key(self) -> None:
        """``None`` leaves a hybrid without pickles, and is refused where there is nothing but them."""
        with pytest.raises(OptionError, match="pickles need a key to sign them"):
            PickleSerializer(key=None)  # type: ignore[arg-type]  # as from a variable that is not set

    def test_what_fails_is_our_error(self) -> None:
        """A value that can't be pickled, and a pickle that can't be loaded here, are errors of our tree."""
        serializer = PickleSerializer(key=KEY)
        data = serializer.dumps(ModuleNotFoundError)

        with pytest.raises(SerializationError, match=r"can't be pickled .*lock") as caught:
            serializer.dumps([threading.Lock()])
        assert isinstance(caught.value.__cause__, TypeError)
        assert serializer.loads(data) is ModuleNotFoundError
        with pytest.raises(SerializationError, match="can't be loaded"):
            serializer.loads(serializer.dumps(Failing()))


def fail() -> None:
    """Fail, as a class may when it is unpickled."""
    raise KeyError("gone")


class Failing:
    """Can be pickled and not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (fail, ())


class TestHybrid:
    def test_single_values_are_pickled(self) -> None:
        """What MessagePack can't hold is a signed pickle; the rest is as ever, also in tables and as keys."""
        serializer = MsgpackSerializer(Registry(), pickle_key=KEY)
        serializer.registry.add(Handler)
        value = {"calls": [Handler("a", counter(n)) for n in range(6)], "t": (1, {2}), len: 3, "big": 2**70}

        data = serializer.dumps(value)
        found = serializer.loads(data)

        assert [handler.call(10) for handler in found["calls"]] == [10, 11, 12, 13, 14, 15]
        assert (found["t"], found[len], found["big"]) == ((1, {2}), 3, 2**70)
        assert b"calls" in data
        assert serializer.loads(serializer.dumps(Unknown((1, 2)))).x == (1, 2)

    def test_it_is_only_done_where_it_was_turned_on(self) -> None:
        """Without the key the same value is refused at save, and such a blob at load, with the path."""
        with_key, without = MsgpackSerializer(Registry(), pickle_key=KEY), MsgpackSerializer(Registry())

        with pytest.raises(UnregisteredTypeError, match="it is code"):
            without.dumps({"jobs": [len]})
        with pytest.raises(SerializationError, match=r"jobs\[0\]: .*not allowed.*pickle_key") as caught:
            without.loads(with_key.dumps({"jobs": [len]}))
        assert caught.value.path == "jobs[0]"

    def test_a_wrong_signature_is_refused(self, tmp_path: Path) -> None:
        """F19: a pickle in a body with another key's signature, or one of a whole body, is not unpickled."""
        marker = tmp_path / "marker"
        serializer = MsgpackSerializer(Registry(), pickle_key=KEY)
        cells = [
            *(PickleSerializer(key=KEY).dumps(Opens(marker)), pickle.dumps(Opens(marker)), b"", "text", None, [1]),
            decode(decode(MsgpackSerializer(Registry(), pickle_key=OTHER).dumps(Opens(marker))).data)[0],
        ]

        for cell in cells:
            with pytest.raises(SerializationError, match="not allowed"):
                serializer.loads(encode({"a": Ext(CELL, encode([cell]))}))

        assert not marker.exists()

    def test_keys_of_cells_are_rotated(self) -> None:
        """The first key signs, each is accepted."""
        both = MsgpackSerializer(Registry(), pickle_key=[KEY, OLD])

        assert both.loads(MsgpackSerializer(Registry(), pickle_key=OLD).dumps([len])) == [len]
        assert MsgpackSerializer(Registry(), pickle_key=KEY).loads(both.dumps([len])) == [len]

    def test_what_can_not_be_pickled_has_a_path(self) -> None:
        """F17: a lock is refused with its path here too."""
        with pytest.raises(SerializationError, match=r"state.jobs\[0\].*can't be pickled either") as caught:
            MsgpackSerializer(Registry(), pickle_key=KEY).dumps({"state": {"jobs": [threading.Lock()]}})

        assert caught.value.path == "state.jobs[0]"

    def test_the_check_accepts_functions(self) -> None:
        """A field declared as a function is refused by the early check only where it could not be stored."""
        MsgpackSerializer(Registry(), pickle_key=KEY).check(Handler)

        with pytest.raises(UnregisteredTypeError, match="call"):
            MsgpackSerializer(Registry()).check(Handler)


def hybrids() -> list[MsgpackSerializer]:
    """Return serializers that pickle what they can't store otherwise."""
    return [MsgpackSerializer(Registry(), pickle_key=key) for key in (KEY, [KEY, OLD])]


@pytest.mark.parametrize("serializer", hybrids(), ids=["one key", "two keys"])
def test_values_that_their_own_form_can_not_take_are_pickled(serializer: MsgpackSerializer) -> None:
    """A defaultdict with a lambda and an array of objects have a form of their own that can't take them; a pickle can."""
    counts = defaultdict(lambda: 7, a=1)
    array, scalar = np.array([None, "x"], dtype=object), np.zeros(1, [("a", "O")])[0]

    back, items, row = serializer.loads(serializer.dumps([counts, array, scalar]))

    assert (back["a"], back["new"]) == (1, 7)
    assert (items.dtype, items.tolist()) == (np.dtype(object), [None, "x"])
    assert (row.dtype, row.item()) == (scalar.dtype, scalar.item())


def test_a_value_that_a_pickle_would_change_is_refused() -> None:
    """Half of a network share is another path after pickling too, so it is refused with a key as without one."""
    path = PureWindowsPath("//host/")
    hybrid = hybrids()[0]
    if str(PureWindowsPath(str(path))) == str(path):  # from Python 3.12 on
        assert hybrid.loads(hybrid.dumps({"at": path})) == {"at": path}
        return
    with pytest.raises(SerializationError, match=r"at: the path .* is another one when it is read again"):
        hybrid.dumps({"at": path})


def test_a_factory_that_nothing_can_hold_is_refused() -> None:
    """Where the pickle fails as well, the error says so and where."""
    lock = threading.Lock()

    with pytest.raises(SerializationError, match=r"jobs\[0\]: a value of class defaultdict can't be pickled either"):
        hybrids()[0].dumps({"jobs": [defaultdict(lambda: lock)]})
