"""Which file a ``sqlite:`` URL names."""

from __future__ import annotations

import os
from urllib.parse import unquote_to_bytes

from blobcp.errors import StoreUrlError

from ..urls import shown, split

__all__ = ["path_of"]


def path_of(url: str) -> str:
    """Return the path of the file: relative after three slashes, absolute after four.

    Raises:
        StoreUrlError: it names none.

    >>> path_of("sqlite:///runs.db?timeout=5"), path_of("sqlite:////var/lib/my%20runs.db")
    ('runs.db', '/var/lib/my runs.db')
    """
    parts = split(url)
    path = os.fsdecode(unquote_to_bytes(parts.path.removeprefix("/")))
    has_more = parts.netloc or parts.fragment or url.endswith("#")
    if has_more or not parts.path.startswith("/") or not path or "\0" in path:
        raise StoreUrlError(
            f"store URL {shown(url)!r} names no file; say sqlite:///relative.db or sqlite:////absolute/file.db, and quote "
            "'?' as %3F and '#' as %23"
        )
    return path
