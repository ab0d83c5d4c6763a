"""Opening the store that a URL names, and what a command may ask of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from blobcp.errors import OptionError
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointStore
from blobcp.stores import open_store
from blobcp.stores.file.url import folder_of
from blobcp.stores.urls import shown, split

__all__ = ["deleter", "lister", "opened"]


@contextmanager
def opened(url: str, *, make: bool = False) -> Iterator[CheckPointStore]:
    """Open a store, and close it in the end where it can be closed.

    Args:
        url: its URL.
        make: whether a folder or file that is not there is made; otherwise a mistyped path would be an empty store.

    Raises:
        StoreError: it can't be opened.
        OptionError: there is none, or it is one for asyncio.
    """
    if not make:
        _check_place(url)
    store = open_store(url)
    try:
        if inspect.iscoroutinefunction(store.get):
            raise OptionError(f"the store {shown(url)!r} is one for asyncio; the command line needs plain methods")
        yield store
    finally:
        close = getattr(store, "close", None)
        if close is not None and not inspect.iscoroutinefunction(close):
            close()


def lister(store: CheckPointStore) -> CheckPointLister:
    """Return the store as one that can list.

    Raises:
        OptionError: it can't.
    """
    if not isinstance(store, CheckPointLister):
        raise OptionError(f"a {type(store).__name__} can't list what it holds, so it has to be told ids")
    return store


def deleter(store: CheckPointStore) -> CheckPointDeleter:
    """Return the store as one that can delete.

    Raises:
        OptionError: it can't.
    """
    if not isinstance(store, CheckPointDeleter):
        raise OptionError(f"a {type(store).__name__} can't delete what it holds")
    return store


def _check_place(url: str) -> None:
    scheme = url.partition(":")[0].lower()
    if scheme == "file" and not Path(folder_of(url)).is_dir():
        raise OptionError(f"there is no folder {folder_of(url)!r}, so no store is there")
    if scheme == "sqlite":
        path = unquote(split(url).path.removeprefix("/"))
        if path and not Path(path).exists():
            raise OptionError(f"there is no file {path!r}, so no store is there")
