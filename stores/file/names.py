"""How a checkpoint id becomes a path inside a folder, and how it comes back.

A file system folds case, normalises accents, reserves names, limits lengths and gives dots and slashes a meaning; ids
know none of that. So an id is written in lower-case letters, digits and a few signs, every other byte of its UTF-8 form
as ``%`` and two hex digits. An id that is too long for one name is spread over nested folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from blobcp.errors import InvalidCheckpointIdError
from blobcp.store import check_id

__all__ = ["FOLDER_SUFFIX", "id_of", "parts_of"]

BLOB_SUFFIX = ".blob"
FOLDER_SUFFIX = ".more"  # differs from BLOB_SUFFIX, so that no folder stands where a blob has to go

PIECE_BYTES = 80
"""How much of an id goes into one name: three characters a byte and the suffix stay below 255, what file systems allow."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.@+=")
_QUOTED = [chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in range(256)]

_RESERVED_BY_WINDOWS = {b"con", b"prn", b"aux", b"nul"} | {
    device + digit
    for device in (b"com", b"lpt")
    for digit in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9")
}


def parts_of(checkpoint_id: str) -> list[str]:
    """Return the names of the folders and, last, of the file that an id stands for.

    Different ids give paths that differ even where case and accents don't count, and none of which leads into a
    file of another.

    >>> parts_of("order-17"), parts_of("../Evil"), parts_of("con")
    (['order-17.blob'], ['%2e.%2f%45vil.blob'], ['%63on.blob'])
    """
    data = checkpoint_id.encode()
    pieces = [_quote(data[start : start + PIECE_BYTES]) for start in range(0, len(data), PIECE_BYTES)]
    return [*(piece + FOLDER_SUFFIX for piece in pieces[:-1]), pieces[-1] + BLOB_SUFFIX]


def id_of(parts: Sequence[str]) -> str | None:
    """Return the id whose ``parts_of`` these names are, or ``None`` where they are no id's.

    >>> id_of(["%2e.%2f%45vil.blob"]), id_of(["notes.txt"]), id_of(["Order-17.blob"])
    ('../Evil', None, None)
    """
    *folders, file = parts
    quoted = [*(folder.removesuffix(FOLDER_SUFFIX) for folder in folders), file.removesuffix(BLOB_SUFFIX)]
    try:
        checkpoint_id = check_id(b"".join(map(unquote_to_bytes, quoted)).decode())
    except (UnicodeError, InvalidCheckpointIdError):  # also names that are no UTF-8
        return None
    return checkpoint_id if parts_of(checkpoint_id) == [*parts] else None


def _quote(piece: bytes) -> str:
    quoted = "".join(map(_QUOTED.__getitem__, piece))
    # Quoting the first byte is enough to show a hidden name and to disguise a reserved one, which an extension would not.
    if piece[:1] == b"." or piece.partition(b".")[0] in _RESERVED_BY_WINDOWS:
        return f"%{piece[0]:02x}{quoted[1:]}"
    return quoted
