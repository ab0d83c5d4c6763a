"""How a checkpoint id becomes the key of an S3 object, and how it comes back.

A key is the store's prefix and the id, as it is wherever that is safe. Quoted is what XML can't carry (control
characters, U+FFFE, U+FFFF), what is trimmed or decoded twice on the way (spaces), and what clients, proxies and servers
take for a path and tidy up: empty segments, and dots at the start of one. S3 lists keys by their UTF-8 bytes, so every
quoted character is written in a form that sorts where the character itself does; a listing is in order as it arrives.
"""

from __future__ import annotations

import re

from blobcp.errors import InvalidCheckpointIdError, StoreError
from blobcp.store import check_id

__all__ = ["MAX_KEY_BYTES", "id_of", "key_of", "keys_start_of"]

MAX_KEY_BYTES = 1024
"""The longest key that S3 takes, in UTF-8 bytes."""

# Each group of neighbours in the order of bytes is written with the last or first of the group in front, so that nothing
# outside of the group comes to lie between them: control characters, space and "!" behind "!", "." and "/" behind ".".
_LOW, _HIGH, _DOT = "!", "\ufffd", "."
_UNSAFE = re.compile("[\x01-!]|[\ufffd-\uffff]|(?<![^/])[./]")
_QUOTES = {chr(code): _LOW + chr(code + 0x40) for code in range(1, 0x22)}  # as terminals show them: ^A is "!A"
_QUOTES |= {"\ufffd": _HIGH + "1", "\ufffe": _HIGH + "2", "\uffff": _HIGH + "3", ".": _DOT + "1", "/": _DOT + "2"}
_CHARACTERS = {quote: character for character, quote in _QUOTES.items()}

_AFTER_SLASH = _LOW  # a key does not end with a slash; this alone sorts before all that could follow one
_QUOTED = re.compile("![A-a]|!\\Z|\ufffd[123]|(?<![^/])(?:(?:\\.2)+(?:\\.1)?|\\.1)")


def key_of(prefix: str, checkpoint_id: str) -> str:
    """Return the key of an id below a prefix.

    Raises:
        InvalidCheckpointIdError: it is no id.
        StoreError: the key would be longer than S3 takes.

    >>> key_of("runs/", "order-17/v1.2"), key_of("runs/", "../a b//c/"), key_of("", "/etc")
    ('runs/order-17/v1.2', 'runs/.1./a!`b/.2c/!', '.2etc')
    """
    key = prefix + _quote(check_id(checkpoint_id)) + (_AFTER_SLASH if checkpoint_id.endswith("/") else "")
    size = len(key.encode())
    if size > MAX_KEY_BYTES:
        raise StoreError(
            f"checkpoint id {checkpoint_id[:80]!r} makes a key of {size} bytes, with the store's prefix and what has to be "
            f"quoted; S3 takes {MAX_KEY_BYTES}, shorten the prefix or the id"
        )
    return key


def id_of(prefix: str, key: str) -> str | None:
    """Return the id whose key this is, or ``None`` where it is no id's.

    >>> id_of("runs/", "runs/.1./a!`b/.2c/!"), id_of("runs/", "runs/"), id_of("runs/", "runs/a b")
    ('../a b//c/', None, None)
    """
    checkpoint_id = _QUOTED.sub(_unquote, key.removeprefix(prefix))
    try:
        return checkpoint_id if key_of(prefix, checkpoint_id) == key else None
    except (InvalidCheckpointIdError, StoreError):
        return None


def keys_start_of(prefix: str, ids_start: str) -> str | None:
    r"""Return what the keys of all ids that start so start with, or ``None`` where no id starts so.

    >>> keys_start_of("runs/", "../"), keys_start_of("runs/", "a\0")
    ('runs/.1./', None)
    """
    try:
        return prefix + _quote(check_id(ids_start)) if ids_start else prefix
    except InvalidCheckpointIdError:
        return None


def _quote(text: str) -> str:
    return _UNSAFE.sub(lambda found: _QUOTES[found[0]], text)


def _unquote(found: re.Match[str]) -> str:
    quotes = re.findall(r"..", found[0], re.DOTALL)  # none in a lone "!", which stands for the end
    return "".join(_CHARACTERS[quote] for quote in quotes)
