from __future__ import annotations

import datetime
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from blobcp import ConcatError, EmptyStreamError, RegistrationError, SourceEnd, concat, register_concat
from blobcp.stream.by_class import ClassFunctions


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The package's attribute of that name is the function.
    monkeypatch.setattr(sys.modules["blobcp.stream.concat"], "_functions", ClassFunctions("joins", own="__concat__"))


@dataclass
class Custom:
    """A class that joins by a function, where one is registered."""

    text: str = ""


@dataclass
class Record:
    """A class that does not."""

    A: str = ""
    tags: list[str] = field(default_factory=list)


DAY = datetime.date(2024, 5, 1)


class TestBuiltIn:
    def test_text(self) -> None:
        """B046: ``"0"`` to ``"9"`` -> ``"0123456789"``."""
        assert concat([str(number) for number in range(10)]) == "0123456789"

    @pytest.mark.parametrize(
        ("chunks", "value"),
        [
            ([1, 5, 3], 3),
            ([True, False], False),
            ([1.5, 0.0], 0.0),
            ([Decimal("1.0"), Decimal("1.00")], Decimal("1.00")),
            ([DAY, DAY.replace(day=2)], DAY.replace(day=2)),
            ([datetime.timedelta(1), datetime.timedelta(0)], datetime.timedelta(0)),
            (
                [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 2,
                datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
            ),
        ],
        ids=["int", "bool", "float", "Decimal", "date", "timedelta", "datetime"],
    )
    def test_the_last_counts(self, chunks: list[Any], value: Any) -> None:
        """B046: numbers, bools and times keep the last: 1, 5, 3 -> 3, and so for values that are false."""
        joined = concat(chunks)

        assert (joined, type(joined)) == (value, type(value))
        assert joined is chunks[-1]

    def test_bytes_and_lists(self) -> None:
        """Bytes and lists are put together; the chunks stay as they were."""
        first = [1]
        assert concat([b"a", b"", b"b"]) == b"ab"
        assert concat([first, [2, 3], []]) == [1, 2, 3]
        assert first == [1]

    def test_one_chunk(self) -> None:
        """B046: a single chunk is returned as it is, whatever it is."""
        thing = object()
        assert concat([thing]) is thing
        assert concat([None]) is None

    def test_none(self) -> None:
        """K42: ``None`` is ignored where another chunk has a value, wherever it stands."""
        assert [concat([None, "a", "b"]), concat(["a", None, "b"]), concat(["a", None]), concat([None, None])] == [
            "ab",
            "ab",
            "a",
            None,
        ]

    def test_end_markers(self) -> None:
        """B046: end markers of named sources are ignored."""
        assert concat(["a", SourceEnd("s1"), "b", SourceEnd("s2")]) == "ab"


class TestRegistered:
    def test_dicts_key_by_key(self) -> None:
        """B047: ten chunks of s, c and n -> ``"0123456789"``, ``"9876543210"``, 45."""
        register_concat(Custom, lambda parts: Custom("".join(part.text for part in parts)))
        register_concat(int, sum)

        joined = concat([{"s": str(n), "c": Custom(str(9 - n)), "n": n} for n in range(10)])

        assert joined == {"s": "0123456789", "c": Custom("9876543210"), "n": 45}

    def test_subclass(self) -> None:
        """A subclass joins by its base's function, or by one of its own; chunks of both by the base's."""

        class Below(Custom):
            pass

        class Own(Custom):
            pass

        register_concat(Custom, lambda parts: "base")
        register_concat(Own, lambda parts: "own")

        assert [concat([Below(), Below()]), concat([Own(), Own()]), concat([Own(), Below()])] == ["base", "own", "base"]

    def test_carried(self) -> None:
        """A class may carry its function as a static or class method, and its subclasses inherit it."""

        class Carries:
            @staticmethod
            def __concat__(chunks: list[Any]) -> str:
                return f"{len(chunks)} joined"

        class Inherits(Carries):
            pass

        class ByClass:
            @classmethod
            def __concat__(cls, chunks: list[Any]) -> str:
                return f"{len(chunks)} of {cls.__name__}"

        class Below(ByClass):
            pass

        found = [concat([cls(), cls()]) for cls in (Carries, Inherits, ByClass, Below)]
        assert found == ["2 joined", "2 joined", "2 of ByClass", "2 of Below"]

    def test_registered_goes_first(self) -> None:
        """A function that is registered for a class goes before the one that it carries, and before what is built in."""

        class Carries:
            @staticmethod
            def __concat__(chunks: list[Any]) -> str:
                return "carried"

        register_concat(Carries, lambda parts: "registered")
        register_concat(str, "-".join)

        assert (concat([Carries(), Carries()]), concat(["a", "b"])) == ("registered", "a-b")

    def test_twice(self) -> None:
        """The same function may be registered again, another one not."""

        def join(parts: list[Custom]) -> Custom:
            return parts[0]

        register_concat(Custom, join)
        register_concat(Custom, join)
        with pytest.raises(RegistrationError, match=r"Custom already joins by .*register one function"):
            register_concat(Custom, lambda parts: parts[0])


class TestDicts:
    def test_nested(self) -> None:
        """B047: ``{"a": {"b": {"c1": None}}}`` and ``{"a": {"b": {"c2": "c2"}}}`` join recursively."""
        assert concat([{"a": {"b": {"c1": None}}}, {"a": {"b": {"c2": "c2"}}}]) == {
            "a": {"b": {"c1": None, "c2": "c2"}}
        }

    def test_none_under_a_key(self) -> None:
        """K42: ``None`` first among the chunks of one key is ignored; only ``None`` stays ``None``."""
        assert concat([{"a": None, "b": None}, {"a": "x", "b": None}, {"a": "y"}]) == {"a": "xy", "b": None}

    def test_order_of_keys(self) -> None:
        """Keys come in the order in which they were first seen."""
        assert list(concat([{"b": 1}, {"a": 1, "b": 2}])) == ["b", "a"]

    def test_subclass_of_dict(self) -> None:
        """A class of dicts is not a dict: it needs a function."""
        with pytest.raises(ConcatError, match="2 chunks of class OrderedDict meet"):
            concat([OrderedDict(a=1), OrderedDict(b=1)])


class TestErrors:
    def test_no_chunks(self) -> None:
        """B049: joining no chunks is an error; end markers are none."""
        for chunks in ([], [SourceEnd("a")]):
            with pytest.raises(EmptyStreamError, match="the stream is empty"):
                concat(chunks)

    def test_different_types_under_a_key(self) -> None:
        """B048: the message names the way to the values and their classes; so do the attributes."""
        with pytest.raises(ConcatError) as caught:
            concat([{"a": {"b": "x"}}, {"a": {"b": 1}}])

        assert str(caught.value) == (
            "type mismatch: chunks of different classes meet at ['a']['b'] (str, int); they can't become one value"
        )
        assert (caught.value.path, caught.value.type) == ("['a']['b']", str)

    def test_true_is_no_number(self) -> None:
        """A bool and an int are different, and so are an int and a float."""
        for chunks in ([1, True], [1, 1.5]):
            with pytest.raises(ConcatError, match="type mismatch"):
                concat(chunks)

    def test_no_function(self) -> None:
        """B048: two chunks of a class that say something and no function: the class is named, and what to do."""
        with pytest.raises(ConcatError) as caught:
            concat([{"r": Record(A="1")}, {"r": Record(A="2")}])

        assert str(caught.value) == (
            "2 chunks of class Record meet at ['r'] and nothing says how they join; call register_concat, or give the class "
            "a static method __concat__(chunks)"
        )
        assert (caught.value.path, caught.value.type) == ("['r']", Record)

    def test_empty_ones_are_ignored(self) -> None:
        """B048: ``[{}, {A: "123"}, {}]`` -> A is ``"123"``; all empty -> empty."""
        assert concat([Record(), Record(A="123"), Record()]) == Record(A="123")
        assert concat([Record(), Record()]) == Record()

    def test_false_ones_are_empty(self) -> None:
        """A class without a function whose value is false counts as empty."""
        assert concat([(), (1, 2), ()]) == (1, 2)

    def test_class_that_can_not_be_made(self) -> None:
        """A class that needs arguments has no empty value."""

        class Needs:
            def __init__(self, what: str) -> None:
                self.what = what

        with pytest.raises(ConcatError, match=r"2 chunks of class .*Needs meet"):
            concat([Needs("a"), Needs("b")])

    def test_function_that_fails(self) -> None:
        """B048: a registered function's own error is the cause."""

        def fail(parts: list[Custom]) -> Custom:
            raise KeyError("inside")

        register_concat(Custom, fail)
        with pytest.raises(
            ConcatError, match=r"concat function of Custom failed at \['c'\]: KeyError: 'inside'"
        ) as caught:
            concat([{"c": Custom()}, {"c": Custom()}])
        assert isinstance(caught.value.__cause__, KeyError)
