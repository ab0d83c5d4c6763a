"""Store URLs: taking their parts, refusing what is not understood, and hiding passwords in messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit

from blobcp.errors import StoreUrlError

__all__ = ["boolean", "options_of", "shown", "split"]


_SECRET_WORD = re.compile(r"((?:password|secret|token)\w*\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]*)", re.IGNORECASE)


class Converter(Protocol):
    """Makes a value of the text of an option; raises ``ValueError`` for text that is none."""

    def __call__(self, text: str, /) -> object: ...


def split(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        StoreUrlError: it is none.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looked at for its error
    except ValueError:
        # The error's own text may hold half of the password.
        raise StoreUrlError(
            f"store URL {shown(url)!r} can't be read: its host or port is none; a / ? # or @ in a password has to be "
            "percent-encoded"
        ) from None
    return parts


def options_of(url: str, known: Mapping[str, Converter]) -> dict[str, object]:
    """Return the options behind the ``?`` of a URL, converted.

    Args:
        url: the URL.
        known: what the store takes, each with what makes a value of its text.

    Raises:
        StoreUrlError: an option is unknown, given twice or not of its kind.

    >>> options_of("file:./dir?durable=false", {"durable": boolean})
    {'durable': False}
    >>> options_of("file:./dir?durably=false", {"durable": boolean})
    Traceback (most recent call last):
    blobcp.errors.StoreUrlError: store URL 'file:./dir?durably=false' has the unknown option 'durably'; known are: durable
    """
    found: dict[str, object] = {}
    for name, text in parse_qsl(split(url).query, keep_blank_values=True):
        if name not in known:
            names = ", ".join(known) or "none"
            raise StoreUrlError(f"store URL {shown(url)!r} has the unknown option {name!r}; known are: {names}")
        if name in found:
            raise StoreUrlError(f"store URL {shown(url)!r} has the option {name!r} twice; give it once")
        try:
            found[name] = known[name](text)
        except ValueError as error:
            raise StoreUrlError(f"store URL {shown(url)!r}: {name}={text!r} can't be taken: {error}") from error
    return found


def boolean(text: str) -> bool:
    """Return what ``true`` or ``false`` says.

    >>> boolean("true"), boolean("0")
    (True, False)
    """
    try:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError("say true or false") from None


def shown(url: str) -> str:
    """Return a URL as it may be printed, without its password and without secrets among its options.

    >>> shown("postgresql://me:secret@db/app?password=secret&sslmode=require")
    'postgresql://me:***@db/app?password=***&sslmode=require'
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        # It may be what a library calls a connection string: words like password=secret.
        return _SECRET_WORD.sub(r"\1***", url)
    # Up to the last @ it may be a password, also where that holds a sign which should have been percent-encoded.
    user, at, rest = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    before, mark, options = rest.partition("?")
    hidden = "&".join(map(_without_secret, options.split("&")))
    return f"{scheme}://{name}{colon and ':***'}{at}{before}{mark}{hidden}"


def _without_secret(item: str) -> str:
    name, equals, _ = item.partition("=")
    secret = any(word in name.lower() for word in ("password", "secret", "token"))
    return f"{name}=***" if equals and secret else item
