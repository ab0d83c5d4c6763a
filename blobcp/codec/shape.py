"""What all stored types have in common: a code, parts, and a way back; and the numbers that stand for them in a blob.

MessagePack holds ``None``, bool, 64-bit int, float, str, bytes, list and dict as they are. Any other value is an
extension: its code says which type it is, its content is a MessagePack array of *parts*, which are stored in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from blobcp.codec.kinds import Kind
from blobcp.codec.paths import step_of_index
from blobcp.codec.tables import Table

__all__ = ["CODES", "PICKLED", "LoadProblem", "Parts", "Refusal", "Shape", "no_step"]

Parts = list[Any]

CODES = {
    Kind.DATACLASS: 32,
    Kind.STRUCT: 33,
    Kind.ATTRS: 34,
    Kind.MODEL: 35,
    Kind.OBJECT: 36,
    Kind.NAMED_TUPLE: 37,
    Kind.ENUM: 38,
    Kind.EXCEPTION: 39,
    Kind.CODEC: 40,
}
"""The codes of registered classes by their kind; the first part of such a value is the name of its class.

Those of the standard library's types are 1 to 24, see :mod:`blobcp.codec.values`; that of a table of records is 41.
"""


PICKLED = 42
"""The code of a single value as a signed pickle. Those of numpy's arrays and scalars are 43 and 44."""


class Shape(NamedTuple):
    """How values of one type are stored.

    Attributes:
        code: the extension code; a code, once given, is never given to another type.
        take: value -> parts, each of which can be stored or is refused with its path.
        build: parts -> value; may raise anything for parts that no value has.
        step: the path step to the part of an index.
        table: how many values are stored at once, for records.
    """

    code: int
    take: Callable[[Any], Parts]
    build: Callable[[Parts], Any]
    step: Callable[[int, Parts], str] = lambda index, _: step_of_index(index)
    table: Table | None = None


def no_step(index: int, parts: Parts) -> str:
    """Return the empty step, for parts that the path does not mention."""
    return ""


class Refusal(Exception):
    """A value can't be stored. It collects the way to the value while the walk is left.

    Attributes:
        steps: path steps, the innermost first.
        holders: the containers on that way, the innermost first; kept to find a cycle.
        advice: what is wrong and what to do, to follow the path.
        type: the class at fault where it has no registered name.
        too_deep: whether the walk went deeper than allowed.
        picklable: whether a pickle would hold the very value, where those are turned on.
    """

    def __init__(
        self, advice: str, *, type: type[Any] | None = None, too_deep: bool = False, picklable: bool = False
    ) -> None:
        super().__init__(advice)
        self.advice = advice
        self.type = type
        self.too_deep = too_deep
        self.picklable = picklable
        self.steps: list[str] = []
        self.holders: list[object] = []

    def within(self, step: str, holder: object) -> Refusal:
        """Add the next outer step and return the refusal."""
        self.steps.append(step)
        self.holders.append(holder)
        return self


class LoadProblem(Exception):
    """Parts are well formed and still can't become a value; the text says why.

    Attributes:
        unknown_name: the name, where no class is registered under it.
    """

    def __init__(self, text: str, *, unknown_name: str | None = None) -> None:
        super().__init__(text)
        self.unknown_name = unknown_name
