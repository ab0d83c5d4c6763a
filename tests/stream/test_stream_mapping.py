from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stream_runs import Bumpy, run, times

from blobcp import NO_VALUE, StreamClosedError, StreamError, StreamReader


async def all_of(reader: StreamReader[Any]) -> list[Any]:
    """Read to the end."""
    return [chunk async for chunk in reader]


def named(number: int) -> Any:
    """Name a number; 0 has no name."""
    return f"val_{number}" if number else NO_VALUE


def test_no_value_drops() -> None:
    """B045: 0, 1, 2 with nothing for 0 -> ``"val_1"``, ``"val_2"``; sync and async."""
    assert list(StreamReader([0, 1, 2]).map(named)) == ["val_1", "val_2"]
    assert run(all_of(StreamReader(times([0, 1, 2])).map(named))) == ["val_1", "val_2"]


def test_none_is_a_chunk() -> None:
    """A conversion to ``None`` drops nothing."""
    assert list(StreamReader([1, 2]).map(lambda _: None)) == [None, None]


@pytest.mark.parametrize("nothing", [None, NO_VALUE])
def test_errors_skipped(nothing: Any) -> None:
    """B045: a handler that returns nothing skips errors: 1, err, 2, err, 3 -> ``[1, 2, 3]``, called twice."""
    seen: list[str] = []

    def skip(error: Exception) -> Any:
        seen.append(str(error))
        return nothing

    bumpy = Bumpy(1, ValueError("a"), 2, ValueError("b"), 3)
    assert list(StreamReader(bumpy).map(lambda number: number, on_error=skip)) == [1, 2, 3]
    assert seen == ["a", "b"]


def test_errors_replaced() -> None:
    """A handler may give a chunk instead, or raise another error in its place."""

    def handle(error: Exception) -> str:
        if str(error) == "a":
            return "instead"
        raise KeyError("other") from error

    reader = StreamReader(Bumpy(ValueError("a"), ValueError("b"), 3)).map(str, on_error=handle)
    assert next(reader) == "instead"
    with pytest.raises(KeyError, match="other"):
        next(reader)
    assert list(reader) == ["3"]


def test_errors_of_the_conversion() -> None:
    """An error that the conversion raises is in its place; it is not the handler's, and reading goes on."""
    reader = StreamReader(["1", "x", "3"]).map(int, on_error=lambda error: -1)
    assert next(reader) == 1
    with pytest.raises(ValueError, match="invalid literal"):
        next(reader)
    assert list(reader) == [3]


def test_base_exceptions_are_not_handled() -> None:
    """A stop signal passes the handler."""

    class Stop(BaseException):
        pass

    reader = StreamReader(Bumpy(Stop(), 1)).map(str, on_error=lambda error: "handled")
    with pytest.raises(Stop):
        next(reader)
    assert list(reader) == ["1"]


@pytest.mark.parametrize(("extra", "read"), [("extra", [*"abcd", "extra"]), (None, [*"abcd"]), (NO_VALUE, [*"abcd"])])
def test_one_more_at_the_end(extra: Any, read: list[str]) -> None:
    """B045: ``a, b, c, d`` and a hook that gives ``"extra"``, or nothing; it is called once."""
    calls: list[int] = []

    def at_end() -> Any:
        calls.append(1)
        return extra

    reader = StreamReader(["a", "b", "c", "d"]).map(str, at_end=at_end)

    assert list(reader) == read
    assert list(reader) == []
    assert calls == [1]


def test_error_at_the_end() -> None:
    """B045: an error of the hook comes after all four values and before the end."""

    def at_end() -> str:
        raise ValueError("at end")

    reader = StreamReader(["a", "b", "c", "d"]).map(str, at_end=at_end)
    assert [next(reader) for _ in range(4)] == [*"abcd"]
    with pytest.raises(ValueError, match="at end"):
        next(reader)
    assert list(reader) == []


def test_one_after_the_other() -> None:
    """Conversions stand in a row, and copies of a converted reader convert each chunk once."""
    calls: list[int] = []

    def double(number: int) -> int:
        calls.append(number)
        return number * 2

    one, other = StreamReader([1, 2]).map(double).map(str).copy(2)

    assert (list(one), list(other), calls) == (["2", "4"], ["2", "4"], [1, 2])


def test_taken_over() -> None:
    """The reader that was mapped says what to read instead; closing the new one closes the source."""
    closed: list[str] = []

    async def main() -> None:
        reader = StreamReader(times([1, 2], closed))
        async with reader.map(str) as mapped:
            assert await anext(mapped) == "1"
            with pytest.raises(StreamClosedError, match="the stream was mapped; read what map"):
                await anext(reader)

    run(main())
    assert closed == ["closed"]


def test_async_functions_are_refused() -> None:
    """An ``async def`` as a conversion is an error where it is given."""

    async def convert(number: int) -> int:
        await asyncio.sleep(0)
        return number

    with pytest.raises(StreamError, match="is async; write an async generator"):
        StreamReader([1]).map(convert)
