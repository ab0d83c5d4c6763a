"""Which folder a ``file:`` URL names."""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import unquote_to_bytes

from blobcp.errors import StoreUrlError

from ..urls import shown, split

__all__ = ["folder_of"]


def folder_of(url: str) -> str:
    """Return the path of the folder.

    Raises:
        StoreUrlError: it names none, or one of another machine.

    >>> folder_of("file:./some%20dir?durable=false"), folder_of("file:///var/lib/runs")
    ('./some dir', '/var/lib/runs')
    >>> folder_of("file://runs")
    Traceback (most recent call last):
    blobcp.errors.StoreUrlError: store URL 'file://runs' names a host, 'runs'; for a folder say file:./dir or file:///dir
    """
    parts = split(url)
    if parts.netloc:
        raise StoreUrlError(
            f"store URL {shown(url)!r} names a host, {parts.netloc!r}; for a folder say file:./dir or file:///dir"
        )
    if parts.fragment or url.endswith("#"):
        raise StoreUrlError(f"store URL {shown(url)!r} has a '#', which begins no part of a path; write it as %23")
    folder = os.fsdecode(unquote_to_bytes(parts.path))
    if not folder or "\0" in folder:
        raise StoreUrlError(f"store URL {shown(url)!r} names no folder; say file:./dir or file:///dir")
    if sys.platform == "win32":
        folder = re.sub(r"^/+(?=[A-Za-z]:)", "", folder)  # file:///C:/dir
    return folder
