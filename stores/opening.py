"""Opening a store by its URL, also one that another distribution brings."""

from __future__ import annotations

from importlib.metadata import entry_points

from blobcp.errors import StoreUrlError
from blobcp.store import CheckPointStore

from .urls import shown

__all__ = ["open_store"]

GROUP = "blobcp.stores"
"""The entry point group: the name is a URL scheme, the object takes the URL and returns the store."""


def open_store(url: str) -> CheckPointStore:
    """Return the store that a URL names.

    The part before the first colon says which: ``map:``, ``file:./dir``, ``sqlite:///file.db``, ``s3://bucket/prefix``,
    ``postgresql://…``, ``redis://…``, and whatever installed distributions add as entry points of the group
    ``blobcp.stores`` (name: the scheme; object: a callable that takes the URL and returns a store). Options stand behind
    a ``?``; each store's page lists its own.

    Args:
        url: the URL.

    Raises:
        StoreUrlError: no installed store has the scheme, or the store can't take the URL.
        MissingExtraError: the store needs a library that is not installed; the message says how to install it.
        StoreError: the store can't be opened.

    >>> type(open_store("map:")).__name__
    'MapStore'
    >>> open_store("floppy:a")
    Traceback (most recent call last):
    blobcp.errors.StoreUrlError: no store has the scheme of 'floppy:a'; known are: file, map, postgres, postgresql, redis, ...
    """
    scheme, colon, _ = url.partition(":")
    found = entry_points(group=GROUP)
    openers = {entry.value: entry for entry in found.select(name=scheme.lower())} if colon else {}
    if not openers:
        known = ", ".join(sorted({entry.name for entry in found})) or (
            "none, since the metadata of blobcp is not installed; pip install it"
        )
        raise StoreUrlError(f"no store has the scheme of {shown(url)!r}; known are: {known}")
    if len(openers) > 1:
        named = ", ".join(sorted(openers))
        raise StoreUrlError(
            f"several installed stores have the scheme of {shown(url)!r}: {named}; uninstall all but one"
        )
    [entry] = openers.values()
    try:
        opener = entry.load()
    except (ImportError, AttributeError) as error:
        raise StoreUrlError(
            f"the store of {shown(url)!r} can't be loaded from {entry.value}: {error}; see the distribution that brings it"
        ) from error
    store: CheckPointStore = opener(url)
    return store
