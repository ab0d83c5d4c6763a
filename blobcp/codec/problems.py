"""Which error of blobcp a problem with a blob is, and which blob it is about.

What looks at bytes knows no ids; it raises the plain exceptions of ``frame``, and what it raises is turned here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blobcp.codec.frame import Damage, LibraryMissing, TooNew
from blobcp.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError

__all__ = ["check_limit", "name_of", "naming"]

_ADVICE = "restore the blob from a backup, or start a new run under this id"


def check_limit(checkpoint_id: str, part: str, size: int, limit: int, option: str | None = None) -> None:
    """Refuse to write a part that is over a limit, which is an option of the envelope or fixed.

    Raises:
        CheckpointError: it is.
    """
    if size > limit:
        advice = f", or raise {option} of the envelope" if option else ""
        raise CheckpointError(
            f"the checkpoint {checkpoint_id!r} can't be stored: its {part} takes {size} bytes and the limit is {limit}; "
            f"store less{advice}",
            checkpoint_id=checkpoint_id,
        )


@contextmanager
def naming(checkpoint_id: str | None) -> Iterator[None]:
    """Turn problems of a blob into errors that say which blob it is, and what to do."""
    name = name_of(checkpoint_id)
    try:
        yield
    except Damage as damage:
        raise CheckpointCorruptError(
            f"{name} is corrupt: {damage}; {_ADVICE}", checkpoint_id=checkpoint_id
        ) from damage.__cause__
    except TooNew as problem:
        raise CheckpointVersionError(f"{name} {problem}", checkpoint_id=checkpoint_id) from None
    except LibraryMissing as missing:
        raise CheckpointError(f"reading {name} needs {missing}", checkpoint_id=checkpoint_id) from missing.__cause__


def name_of(checkpoint_id: str | None) -> str:
    """Return what a message calls a blob."""
    return "the blob" if checkpoint_id is None else f"the checkpoint {checkpoint_id!r}"
