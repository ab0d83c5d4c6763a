"""Libraries that only some stores need: imported when such a store is first used, missed with a word of advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blobcp.errors import MissingExtraError

__all__ = ["extra"]


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Import what an extra installs inside this.

    Args:
        name: the extra of blobcp, for instance ``s3``.
        user: what needs it, for the message.

    Raises:
        MissingExtraError: the library is not installed.

    >>> with extra("teleport", "TeleportStore"):
    ...     import no_such_library
    Traceback (most recent call last):
    blobcp.errors.MissingExtraError: TeleportStore needs no_such_library, which is not installed; pip install 'blobcp[teleport]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "a library").partition(".")[0]
        raise MissingExtraError(f"{user} needs {library}, which is not installed; {_advice(name)}") from error
    except ImportError as error:
        raise MissingExtraError(f"{user} needs a library that can't be imported: {error}; {_advice(name)}") from error


def _advice(name: str) -> str:
    return f"pip install 'blobcp[{name}]'"
