"""Keys for blobs that are encrypted or signed: from a file or the environment, never from the command line."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from threading import local

from blobcp.codec import Envelope, Header, KeyRing
from blobcp.codec.compression import Compression
from blobcp.codec.frame import ENCRYPTED, SIGNED, ZLIB, ZSTD, Blob, split_frame
from blobcp.codec.header import seal_of
from blobcp.errors import OptionError

__all__ = ["VARIABLE", "Keys", "SealedAsFound", "read_keys"]

VARIABLE = "BLOBCP_KEYS"
_ANY_SIZE = 1 << 62
_COMPRESSIONS: dict[int, Compression] = {ZLIB: "zlib", ZSTD: "zstd"}


class Keys:
    """The keys that were given, or none.

    Args:
        secrets: 32 bytes by id.

    Raises:
        OptionError: a key is not of that form.
    """

    def __init__(self, secrets: dict[str, bytes]) -> None:
        self._secrets = secrets
        # A key that is good for signing needs no library for encryption.
        self._can_encrypt = find_spec("cryptography") is not None
        self.envelope = self._envelope(next(iter(secrets), None), next(iter(secrets), None), accept_plain=True)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def envelope_of(self, blob: Blob) -> Envelope:
        """Return the envelope that seals as a whole blob is sealed: with its keys and its compression."""
        frame = split_frame(blob, max_header_bytes=_ANY_SIZE, max_body_bytes=_ANY_SIZE)
        seal = seal_of(frame)
        return self._envelope(
            seal.key if frame.flags & ENCRYPTED else None,
            seal.signer if frame.flags & SIGNED else None,
            _COMPRESSIONS.get(frame.flags & (ZLIB | ZSTD)),
        )

    def _envelope(
        self,
        encrypts: str | None,
        signs: str | None,
        compression: Compression | None = None,
        *,
        accept_plain: bool = False,
    ) -> Envelope:
        return Envelope(
            compression=compression,
            keys=KeyRing(self._secrets, current=encrypts) if encrypts is not None and self._can_encrypt else None,
            sign=KeyRing(self._secrets, current=signs) if signs is not None else None,
            accept_plain=accept_plain,
        )


class SealedAsFound(Envelope):
    """Opens blobs of any kind, and seals each one as the one that the same thread has opened under its id.

    For work that opens a blob, changes it and seals it, one after the other, whichever way the store's programs seal.

    Args:
        keys: the keys.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._given = keys
        self._opened = local()

    def open(self, blob: Blob, *, checkpoint_id: str) -> tuple[Header, memoryview]:
        """Open a blob, and remember how it is sealed."""
        header, body = self._given.envelope.open(blob, checkpoint_id=checkpoint_id)
        self._opened.last = checkpoint_id, self._given.envelope_of(blob)
        return header, body

    def seal(self, header: Header, body: Blob) -> bytes:
        """Seal a body as the blob was sealed that it comes from."""
        checkpoint_id, envelope = self._opened.last
        if checkpoint_id != header.checkpoint_id:
            raise OptionError(f"{header.checkpoint_id!r} was not opened before, so how it is to be sealed is not known")
        sealed: bytes = envelope.seal(header, body)
        return sealed

    def read_header(self, blob: Blob, *, checkpoint_id: str | None = None) -> Header:
        """Return the header of a blob."""
        return self._given.envelope.read_header(blob, checkpoint_id=checkpoint_id)


def read_keys(path: Path | None) -> Keys:
    """Return the keys of a file or, without one, of the environment.

    Args:
        path: the file. A line is ``id=`` and 64 hex digits, empty, or begins with ``#``.

    Raises:
        OptionError: the file can't be read, or a line is none of these.
    """
    if path is None:
        return Keys(_parsed(os.environ.get(VARIABLE, ""), VARIABLE))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the key file {str(path)!r} can't be read: {error}") from error
    return Keys(_parsed(text, f"the key file {str(path)!r}"))


def _parsed(text: str, source: str) -> dict[str, bytes]:
    secrets: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        id, equals, digits = line.strip().rpartition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            secret = bytes.fromhex(digits)
        except ValueError:
            secret = b""
        if not equals or not secret or id in secrets:
            # The line may hold a secret, so it is not shown.
            raise OptionError(
                f"line {number} of {source} is no key, or one that is there twice; write id=64 hex digits"
            )
        secrets[id] = secret
    return secrets
