"""Pickles under a signature: the serializer for closures and for classes that nobody registered.

Loading a pickle runs whatever code its writer chose. So there is no way to make this serializer without a key, and not a
byte is unpickled before the signature over all of it was checked: only who has the key can have written it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

from blobcp.errors import OptionError, SerializationError

__all__ = ["PickleSerializer", "SignedPickles", "SignatureProblem"]

_SIGNATURE_SIZE = 32
_KEY_SIZES = range(16, 65)  # 64 bytes is the most that blake2b takes

Keys = bytes | Sequence[bytes]
Blob = bytes | bytearray | memoryview


class SignatureProblem(Exception):
    """Bytes that carry none of the signatures that the keys make."""


class SignedPickles:
    """Values as cloudpickle's bytes behind a keyed digest of them."""

    def __init__(self, keys: Keys, purpose: bytes) -> None:
        """Prepare.

        Args:
            keys: one key, or the newest and older ones; the first signs, each is accepted.
            purpose: what the signature is for; one made for another purpose is not accepted.

        Raises:
            OptionError: there is no key, or one is not 16 to 64 bytes.
        """
        self._keys = [keys] if isinstance(keys, bytes) else list(keys) if isinstance(keys, Iterable) else []
        self._purpose = purpose
        if isinstance(keys, str) or not self._keys:
            raise OptionError("pickles need a key to sign them: give 32 bytes, as secrets.token_bytes(32) makes them")
        for key in self._keys:
            if not isinstance(key, bytes) or len(key) not in _KEY_SIZES:
                found = f"{len(key)} bytes" if isinstance(key, bytes) else f"a {type(key).__name__}"
                raise OptionError(f"a key has to be 16 to 64 bytes, found {found}; secrets.token_bytes(32) makes one")

    def dumps(self, value: Any) -> bytes:
        """Return signature and pickle; may raise anything that pickling raises."""
        from cloudpickle import dumps  # type: ignore[import-untyped]  # it has no types; here, since few need it

        data: bytes = dumps(value)
        return self._signature(self._keys[0], data) + data

    def loads(self, signed: Blob) -> Any:
        """Check the signature and return the value; may raise anything that unpickling raises.

        Raises:
            SignatureProblem: the signature is none of ours; nothing was unpickled.
        """
        view = memoryview(signed)
        signature, data = bytes(view[:_SIGNATURE_SIZE]), view[_SIGNATURE_SIZE:]
        accepted = [compare_digest(self._signature(key, data), signature) for key in self._keys]
        if not any(accepted):
            raise SignatureProblem
        return pickle.loads(data)

    def _signature(self, key: bytes, data: Blob) -> bytes:
        return blake2b(data, digest_size=_SIGNATURE_SIZE, key=key, person=self._purpose).digest()


class PickleSerializer:
    """cloudpickle under a signature: stores lambdas, closures and classes of ``__main__``, and keeps shared references.

    Loading runs code of whoever has the key; keep it as you keep the password of a production database.

    >>> serializer = PickleSerializer(key=b"0123456789abcdef0123456789abcdef")
    >>> serializer.loads(serializer.dumps(lambda number: number + 1))(1)
    2
    """

    name = "pickle"

    def __init__(self, *, key: Keys) -> None:
        """Prepare.

        Args:
            key: 16 to 64 secret bytes; or a list of them, of which the first signs and each is accepted, so that a new
                key can be put in front while older blobs still load.

        Raises:
            OptionError: there is no key, or one is of a wrong type or length.
        """
        self._pickles = SignedPickles(key, b"blobcp-pickle")

    def dumps(self, value: Any) -> bytes:
        """Return the value as bytes.

        Raises:
            SerializationError: it can't be pickled, as a lock or an open file.
        """
        try:
            return self._pickles.dumps(value)
        except Exception as problem:  # __reduce__ and __getstate__ are the user's
            raise SerializationError(
                f"the value can't be pickled ({type(problem).__name__}: {problem}); keep what belongs to the running "
                "process out of it"
            ) from problem

    def loads(self, data: Blob) -> Any:
        """Return the value that the bytes hold, after their signature was checked.

        Raises:
            SerializationError: they are not signed with one of the keys, and nothing was unpickled; or they were, and
                unpickling failed, as where a module is missing.
        """
        try:
            return self._pickles.loads(data)
        except SignatureProblem:
            raise SerializationError(
                "the pickle is not signed with one of the keys, so it is not allowed to load: it is corrupt, written by "
                "somebody else, or with a key that is missing in PickleSerializer(key=[newest, older])"
            ) from None
        except Exception as problem:  # unpickling runs the user's code
            raise SerializationError(
                f"the pickle can't be loaded ({type(problem).__name__}: {problem}); make the modules that it needs "
                "importable here"
            ) from problem
