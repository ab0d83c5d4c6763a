"""What stands in a stream, or in an answer to a read, without being a chunk."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

import msgspec

from blobcp.codec import serializable

__all__ = ["END", "NOT_YET", "NO_VALUE", "End", "NoValue", "NotYet", "Sign", "SourceEnd"]


class Sign(Enum):
    """What a feed answers where it has no chunk."""

    END = "END"
    NOT_YET = "NOT_YET"


class NoValue(Enum):
    """The type of :data:`NO_VALUE`."""

    NO_VALUE = "NO_VALUE"

    def __repr__(self) -> str:
        return "NO_VALUE"


END: Final = Sign.END
"""There is no chunk any more."""

NOT_YET: Final = Sign.NOT_YET
"""There is no chunk yet; whoever asked is told when it is worth asking again."""

NO_VALUE: Final = NoValue.NO_VALUE
"""What a conversion of chunks returns to drop one. ``None`` is a chunk like any other."""

End = Literal[Sign.END]
NotYet = Literal[Sign.NOT_YET]


@serializable("blobcp.SourceEnd")
class SourceEnd(msgspec.Struct, frozen=True):
    """Stands in a merged stream where one of its sources has ended. Joining chunks ignores it.

    Attributes:
        source: the name that the source was merged under.
    """

    source: str
