"""Keys and what is done with them: AES-256-GCM by the library cryptography, and signatures by keyed blake2b.

The secrets stay in here. Nothing that holds one shows it in its repr, and no message has one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING

from blobcp.codec.frame import DIGEST_SIZE, Blob, Damage, LibraryMissing
from blobcp.errors import OptionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["ENCRYPTION_OVERHEAD", "KEY_SIZE", "MAX_ENCRYPTED", "Key", "KeyRing", "need_cryptography"]

KEY_SIZE = 32

_NONCE_SIZE, _TAG_SIZE = 12, 16
ENCRYPTION_OVERHEAD = _NONCE_SIZE + _TAG_SIZE

MAX_ENCRYPTED = 2**31 - 1 - ENCRYPTION_OVERHEAD
"""The longest body that the library encrypts, in bytes."""

_MAX_ID = 128
_PURPOSE = b"blobcp signature"


class Key:
    """One key. Its methods see the secret; its callers do not."""

    __slots__ = ("_secret", "id")

    def __init__(self, id: str, secret: bytes) -> None:
        self.id = id
        self._secret = secret

    def __repr__(self) -> str:
        return f"<Key {self.id!r}>"

    def sign(self, digest: bytes) -> bytes:
        """Return the signature of a digest."""
        return blake2b(digest, digest_size=DIGEST_SIZE, key=self._secret, person=_PURPOSE).digest()

    def has_signed(self, digest: bytes, signature: Blob) -> bool:
        """Tell whether a signature is this key's, in a time that says nothing of where it is wrong."""
        return compare_digest(self.sign(digest), signature)

    def encrypt(self, body: Blob, start: bytes) -> tuple[bytes, bytes]:
        """Return a new nonce, and the encrypted body with the tag that vouches for it and for the start."""
        nonce = os.urandom(_NONCE_SIZE)
        return nonce, self._cipher().encrypt(nonce, body, start)

    def decrypt(self, body: memoryview, start: memoryview) -> bytes:
        """Return the body that `encrypt` was given.

        Raises:
            Damage: the tag is not of this key, this body and this start.
        """
        from cryptography.exceptions import InvalidTag

        if not ENCRYPTION_OVERHEAD <= len(body) <= MAX_ENCRYPTED + ENCRYPTION_OVERHEAD:
            raise Damage(f"its body of {len(body)} bytes is shorter or longer than encrypted bodies are")
        try:
            return self._cipher().decrypt(body[:_NONCE_SIZE], body[_NONCE_SIZE:], start)
        except InvalidTag as problem:
            raise Damage(
                f"its digest fits and its encryption by key {self.id!r} does not, so either somebody changed it or "
                f"{self.id!r} is another key here than where it was written"
            ) from problem

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._secret)


class KeyRing:
    """Keys by their ids. Blobs are written with the current key and read with the one that they name.

    To rotate, add a key and make it the current one; take the old one away when no blob names it any more. The ids
    stand in the blobs for all to read; the keys are secrets of 32 bytes, from ``secrets.token_bytes(32)``.

    >>> KeyRing({"2026-10": bytes(32), "2026-11": bytes(range(32))}, current="2026-11")
    <KeyRing of '2026-10', '2026-11' (current)>
    """

    __slots__ = ("_keys", "current")

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        """Take the keys.

        Args:
            keys: 32 bytes by id; an id is a printable text of at most 128 characters.
            current: the id of the key that is written with; may be left out where there is one key.

        Raises:
            OptionError: there is no key, a key or an id is not of that form, or the current one is not among them.
        """
        self._keys = {id: _key_of(id, secret) for id, secret in keys.items()}
        if current is None and len(keys) == 1:
            [current] = keys
        if current is None or current not in self._keys:
            raise OptionError(f"a key ring needs current= to name one of its keys; it has {list(self._keys)}")
        self.current = self._keys[current]

    def __repr__(self) -> str:
        ids = (f"{id!r} (current)" if key is self.current else repr(id) for id, key in self._keys.items())
        return f"<KeyRing of {', '.join(ids)}>"

    def get(self, id: str) -> Key | None:
        """Return the key of an id, or ``None``."""
        return self._keys.get(id)


def _key_of(id: str, secret: bytes) -> Key:
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID or not id.isprintable():
        # What stands in the wrong place may be the secret, so it is not shown.
        raise OptionError(f"a key's id must be a printable text of 1 to {_MAX_ID} characters; give {{id: 32 bytes}}")
    if not isinstance(secret, bytes) or len(secret) != KEY_SIZE:
        found = f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
        raise OptionError(f"key {id!r} must be {KEY_SIZE} bytes and is {found}; make one with secrets.token_bytes(32)")
    return Key(id, secret)


def need_cryptography() -> None:
    """Refuse encryption where its library is not installed.

    Raises:
        LibraryMissing: it is not.
    """
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401 - to see whether it is there
    except ImportError as problem:
        raise LibraryMissing("encryption, and so the library cryptography: pip install 'blobcp[crypto]'") from problem
