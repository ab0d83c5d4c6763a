"""A program that saves blobs through a FileStore until it is killed, for the tests that kill it.

``python saver.py numbered FOLDER``: blobs with a number and a checksum, counting on from the stored one; each number is
written to standard output once its blob is stored. ``python saver.py alternating FOLDER``: 20 MB of A and of B in turn,
a byte of output after each. ``python saver.py many FOLDER LETTER``: waits for a line of input, then saves 200 times.
"""

from __future__ import annotations

import hashlib
import sys
from itertools import count, cycle
from pathlib import Path

from blobcp.stores import FileStore

NUMBER_BYTES = 8
BIG = 20_000_000


def make_numbered(number: int) -> bytes:
    """Return a blob of 8 bytes of number, up to 200 KB that depend on it, and a digest of all that."""
    size = number * 7919 % 200_000
    data = number.to_bytes(NUMBER_BYTES, "big") + bytes([number % 251]) * size
    return data + hashlib.sha256(data).digest()


def read_numbered(blob: bytes) -> int:
    """Return the number of a whole blob; a broken one fails."""
    number = int.from_bytes(blob[:NUMBER_BYTES], "big")
    assert blob == make_numbered(number), f"{len(blob)} bytes that begin like blob {number}"
    return number


def main(mode: str, folder: str, *rest: str) -> None:
    """Save until killed, or as often as the mode says."""
    store = FileStore(folder)
    if mode == "numbered":
        stored = store.get("K")
        for number in count(read_numbered(stored) + 1 if stored else 1):
            store.set("K", make_numbered(number))
            acknowledge(number.to_bytes(NUMBER_BYTES, "big"))
    elif mode == "alternating":
        for letter in cycle([b"A", b"B"]):
            store.set("K", letter * BIG)
            acknowledge(letter)
    else:
        acknowledge(b"!")
        sys.stdin.readline()
        for _ in range(200):
            store.set("K", rest[0].encode() * 5000)


def acknowledge(data: bytes) -> None:
    """Tell whoever started this program."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])


SCRIPT = Path(__file__)
