"""The envelope round a body: one blob, with a small readable header in front, a digest behind, and a seal where wanted.

The envelope knows nothing of serializers, graphs or stores. It decides in which order a body is sealed and opened, what
is demanded of a blob; ``frame``, ``header``, ``compression`` and ``keys`` do the work, ``problems`` words what is wrong.

Writing: compress, encrypt, sign, digest. Reading goes the other way, so that no byte is trusted before it was looked
at: size and magic, format version, flags, lengths against the real size and the limits, digest, header, keys,
checkpoint id, decompression. ``docs/blob-format.md`` has the format to the byte.
"""

from __future__ import annotations

from blobcp.codec.compression import COMPRESSION_FLAGS, Compression, compress, decompress, need_library
from blobcp.codec.frame import (
    DIGEST_SIZE,
    ENCRYPTED,
    MAGIC,
    SIGNED,
    ZLIB,
    ZSTD,
    Blob,
    Damage,
    Frame,
    LibraryMissing,
    check_start,
    frame_start,
    join_frame,
    split_frame,
    view_of,
)
from blobcp.codec.header import Header, Parent, PendingInterrupt, Seal, Status, decode_header, encode_header, seal_of
from blobcp.codec.keys import ENCRYPTION_OVERHEAD, MAX_ENCRYPTED, Key, KeyRing, need_cryptography
from blobcp.codec.problems import check_limit, name_of, naming
from blobcp.errors import CheckpointCorruptError, CheckpointKeyError, OptionError

__all__ = ["MAGIC", "Envelope", "Header", "Parent", "PendingInterrupt", "Status", "digest_of", "read_header"]


class Envelope:
    """Put a header and a body into one blob, and take them out again.

    What an envelope seals with, it insists on: one with ``keys`` reads encrypted blobs only, one with ``sign`` signed
    ones only, so that nobody can put a plain blob in the place of a sealed one. An envelope without them reads plain
    blobs only. Compressed or not, it reads either.

    >>> envelope = Envelope(compression="zlib", sign=KeyRing({"2026-11": bytes(32)}))
    >>> blob = envelope.seal(Header(checkpoint_id="order-7", status="interrupted"), b"the body")
    >>> header, body = envelope.open(blob, checkpoint_id="order-7")
    >>> header.status, bytes(body)
    ('interrupted', b'the body')
    """

    def __init__(
        self,
        *,
        compression: Compression | None = None,
        keys: KeyRing | None = None,
        sign: KeyRing | None = None,
        accept_plain: bool = False,
        max_header_bytes: int = 1 << 20,
        max_body_bytes: int = 1 << 32,
        max_decompressed_bytes: int = 1 << 30,
    ) -> None:
        """Say how to seal; the limits hold for writing and reading.

        Args:
            compression: ``"zlib"`` or ``"zstd"`` (extra ``zstd``); a body that it does not make smaller is left as it is.
            keys: encrypts bodies with AES-256-GCM (extra ``crypto``), which also vouches for the header.
            sign: signs blobs, header and body, with keyed blake2b.
            accept_plain: whether blobs that are not encrypted or signed are read all the same. For the time in which
                old blobs are being replaced: whoever can write to the store can then write any blob.
            max_header_bytes: the longest header, in bytes.
            max_body_bytes: the longest body as it is stored, in bytes.
            max_decompressed_bytes: the longest body that is compressed or decompressed, in bytes.

        Raises:
            OptionError: there is no such compression, a library is not installed, or a limit is no number of bytes.
        """
        if compression is not None and compression not in COMPRESSION_FLAGS:
            raise OptionError(
                f"there is no compression {compression!r}; choose among {list(COMPRESSION_FLAGS)} and None"
            )
        try:
            if compression:
                need_library(compression)
            if keys:
                need_cryptography()
        except LibraryMissing as missing:
            raise OptionError(f"the envelope needs {missing}") from missing
        self.max_header_bytes = _limit("max_header_bytes", max_header_bytes)
        self.max_body_bytes = _limit("max_body_bytes", max_body_bytes)
        self.max_decompressed_bytes = _limit("max_decompressed_bytes", max_decompressed_bytes)
        self._compression = compression
        self._keys = keys
        self._sign = sign
        self._accept_plain = accept_plain

    def seal(self, header: Header, body: Blob) -> bytes:
        """Return header and body as one blob.

        Args:
            header: what the blob says of itself; a ``created_at`` without a zone is taken as UTC.
            body: the serializer's bytes; empty for a mark that only has a header.

        Raises:
            CheckpointError: the header can't be written, or header or body are over the limit.
        """
        flags, size, stored = self._compressed(header, body)
        key = self._keys.current if self._keys else None
        signer = self._sign.current if self._sign else None
        seal = Seal(size=size, key=key.id if key else "", signer=signer.id if signer else "")
        head = encode_header(header, seal)
        stored_size = len(stored) + (ENCRYPTION_OVERHEAD if key else 0)
        check_limit(header.checkpoint_id, "header", len(head), self.max_header_bytes, "max_header_bytes")
        check_limit(header.checkpoint_id, "body", stored_size, self.max_body_bytes, "max_body_bytes")
        flags |= (ENCRYPTED if key else 0) | (SIGNED if signer else 0)
        start = frame_start(flags, head, stored_size)
        return join_frame(start, _encrypted(header, key, stored, start), signer.sign if signer else None)

    def open(self, blob: Blob, *, checkpoint_id: str) -> tuple[Header, memoryview]:
        """Check a blob and return its header and a view of its body.

        Args:
            blob: what the store gave.
            checkpoint_id: the id that it was asked for under.

        Raises:
            CheckpointCorruptError: the bytes are foreign, truncated, changed, over a limit, or sealed for another id.
            CheckpointKeyError: it is sealed with a key that is not here, or lacks a seal that is demanded.
            CheckpointVersionError: it was written by a newer format.
            CheckpointError: it is compressed by a library that is not installed.
        """
        with naming(checkpoint_id):
            frame = self._split(blob)
            header = decode_header(frame.header)
            seal = seal_of(frame)
            body = self._authenticated(frame, seal, checkpoint_id, to_open=True)
            if header.checkpoint_id != checkpoint_id:
                raise CheckpointCorruptError(
                    f"the checkpoint {checkpoint_id!r} is corrupt: its blob was copied by hand from "
                    f"{header.checkpoint_id!r}; copy or fork it with blobcp, which seals it anew",
                    checkpoint_id=checkpoint_id,
                )
            return header, self._decompressed(frame.flags, body, seal.size)

    def read_header(self, blob: Blob, *, checkpoint_id: str | None = None) -> Header:
        """Check a blob and return its header; the body is not decompressed or decoded.

        An envelope with keys checks and demands what it has keys for, as `open` does. One without checks the digest
        alone: it reads the header of any blob, and can't tell who wrote it.

        Args:
            blob: what the store gave.
            checkpoint_id: for the error message, where it is known.

        Raises:
            CheckpointCorruptError: the bytes are foreign, truncated, changed or over a limit.
            CheckpointKeyError: it is sealed with a key that is not in the ring, or lacks a seal that is demanded.
            CheckpointVersionError: it was written by a newer format.
        """
        with naming(checkpoint_id):
            frame = self._split(blob)
            header = decode_header(frame.header)
            self._authenticated(frame, seal_of(frame), checkpoint_id, to_open=False)
            return header

    def reseal(self, blob: Blob, *, checkpoint_id: str, header: Header | None = None) -> bytes:
        """Open a blob and seal its body anew: under another header for a copy or a fork, or with the current keys.

        Args:
            blob: what the store gave.
            checkpoint_id: the id that it was asked for under.
            header: the new header; that of the blob by default.

        Raises:
            CheckpointError: as by `open` and `seal`.
        """
        found, body = self.open(blob, checkpoint_id=checkpoint_id)
        return self.seal(header or found, body)

    def _split(self, blob: Blob) -> Frame:
        return split_frame(blob, max_header_bytes=self.max_header_bytes, max_body_bytes=self.max_body_bytes)

    def _compressed(self, header: Header, body: Blob) -> tuple[int, int, Blob]:
        """Return the flag of the compression, the size before it, and the body after it."""
        if self._compression is None or not len(body):
            return 0, 0, body
        limit = self.max_decompressed_bytes
        check_limit(header.checkpoint_id, "body before compression", len(body), limit, "max_decompressed_bytes")
        compressed = compress(self._compression, body)
        if len(compressed) >= len(body):
            return 0, 0, body
        return COMPRESSION_FLAGS[self._compression], len(body), compressed

    def _decompressed(self, flags: int, body: memoryview, size: int) -> memoryview:
        if not flags & (ZLIB | ZSTD):
            return body
        if size > self.max_decompressed_bytes:
            raise Damage(
                f"it announces {size} bytes after decompression and the limit is {self.max_decompressed_bytes} (if it is "
                "yours, raise max_decompressed_bytes of the envelope)"
            )
        return decompress(flags, body, size)

    def _authenticated(self, frame: Frame, seal: Seal, checkpoint_id: str | None, *, to_open: bool) -> memoryview:
        """Check signature and encryption, where they are there or demanded; return the body, decrypted.

        Where only the header is read, what there are no keys for is left unchecked.
        """
        body = frame.body
        if self._sign or to_open:
            signer = self._key_for(frame, SIGNED, self._sign, seal.signer, checkpoint_id)
            if signer and not signer.has_signed(frame.signed, frame.signature):
                raise Damage(
                    f"its digest fits and its signature by key {signer.id!r} does not, so either somebody changed it or "
                    f"{signer.id!r} is another key here than where it was written"
                )
        if self._keys or to_open:
            key = self._key_for(frame, ENCRYPTED, self._keys, seal.key, checkpoint_id)
            if key:
                body = memoryview(key.decrypt(body, frame.start))
        return body

    def _key_for(self, frame: Frame, flag: int, ring: KeyRing | None, id: str, checkpoint_id: str | None) -> Key | None:
        """Return the key that a blob is signed or encrypted with; ``None`` if it is not, and need not be."""
        done, option = ("signed", "sign") if flag == SIGNED else ("encrypted", "keys")
        if frame.flags & flag:
            key = ring.get(id) if ring else None
            if key is None:
                lack = f"{ring!r} does not have it" if ring else "the envelope has none"
                raise CheckpointKeyError(
                    f"{name_of(checkpoint_id)} is {done} with key {id!r} and {lack}; add it to the ring that is given "
                    f"as Envelope({option}=...)",
                    checkpoint_id=checkpoint_id,
                    key_id=id,
                )
            return key
        if ring and not self._accept_plain:
            raise CheckpointKeyError(
                f"{name_of(checkpoint_id)} is not {done}, which is not allowed by Envelope({option}=...): anybody who can "
                "write to the store could have written it; if it is from before there were keys, read it with "
                "accept_plain=True and reseal it",
                checkpoint_id=checkpoint_id,
            )
        return None


def _limit(option: str, limit: int) -> int:
    if type(limit) is not int or limit < 0:
        raise OptionError(f"{option} is a number of bytes, found {limit!r}; leave it out for the default")
    return limit


_default = Envelope()


def read_header(blob: Blob, *, checkpoint_id: str | None = None) -> Header:
    """Return the header of a blob after checking frame and digest; needs none of the user's classes and no key.

    Whoever can write to the store can write a header with a right digest. `Envelope.read_header` with the keys tells.

    Args:
        blob: what the store gave.
        checkpoint_id: for the error message, where it is known.

    Raises:
        CheckpointCorruptError: the bytes are foreign, truncated, changed or over the default limits.
        CheckpointVersionError: the blob was written by a newer format.
    """
    return _default.read_header(blob, checkpoint_id=checkpoint_id)


def digest_of(blob: Blob) -> str:
    """Return the digest at a blob's end in hex, which identifies its content; it is not checked here.

    Raises:
        CheckpointCorruptError: the bytes are too few to be a blob.
    """
    with naming(None):
        view = view_of(blob)
        check_start(view)
        return bytes(view[-DIGEST_SIZE:]).hex()


def _encrypted(header: Header, key: Key | None, body: Blob, start: bytes) -> tuple[Blob, ...]:
    """Return the pieces of the body as they are stored."""
    if key is None:
        return (body,)
    check_limit(header.checkpoint_id, "body before encryption", len(body), MAX_ENCRYPTED)
    return key.encrypt(body, start)
