"""Compressed bodies: zlib, which Python has, and zstd by the library zstandard, imported when it is used.

Bodies are decompressed in steps, into no more memory than the blob announced and the reader allows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Literal

from blobcp.codec.frame import ZLIB, ZSTD, Blob, Damage, LibraryMissing

__all__ = ["COMPRESSION_FLAGS", "Compression", "compress", "decompress", "need_library"]

Compression = Literal["zlib", "zstd"]

COMPRESSION_FLAGS: dict[Compression, int] = {"zlib": ZLIB, "zstd": ZSTD}

_ZLIB_LEVEL, _ZSTD_LEVEL = 6, 3
_MAX_WINDOW = 1 << 23
"""What zstd may look back, and so what it takes of memory; level 3 uses a quarter of it."""

_STEP_IN, _STEP_OUT = 1 << 16, 1 << 20


def need_library(compression: Compression) -> None:
    """Refuse a compression whose library is not installed.

    Raises:
        LibraryMissing: it is not.
    """
    if compression == "zstd":
        _zstandard()


def compress(compression: Compression, body: Blob) -> bytes:
    """Return a body compressed; a zstd body is one frame."""
    if compression == "zlib":
        return zlib.compress(body, _ZLIB_LEVEL)
    compressed: bytes = _zstandard().ZstdCompressor(level=_ZSTD_LEVEL).compress(body)
    return compressed


def decompress(flags: int, body: memoryview, size: int) -> memoryview:
    """Return a body decompressed.

    Args:
        flags: those of the frame; exactly one of them is a compression.
        body: the compressed bytes.
        size: how many there were before; never more than that, and one step, is kept.

    Raises:
        Damage: it is not such a body, or not of that size.
        LibraryMissing: zstandard is not installed.
    """
    out = bytearray()  # grows as bytes come, since nothing is to be set aside for what a stranger announces
    for piece in _inflate(body) if flags & ZLIB else _unzstd(body):
        out += piece
        if len(out) > size:
            raise Damage(f"its body takes more than the {size} bytes that it announces when it is decompressed")
    if len(out) != size:
        raise Damage(f"its body gives {len(out)} of the {size} bytes that it announces when it is decompressed")
    return memoryview(out).toreadonly()


def _inflate(body: memoryview) -> Iterator[bytes]:
    inflater = zlib.decompressobj()
    start = 0
    try:
        for start in range(0, len(body), _STEP_IN):
            piece = inflater.decompress(body[start : start + _STEP_IN], _STEP_OUT)
            while piece:
                yield piece
                piece = inflater.decompress(inflater.unconsumed_tail, _STEP_OUT)
            if inflater.eof:
                break
    except zlib.error as problem:
        raise Damage(f"its body can't be decompressed ({problem})") from problem
    if not inflater.eof or inflater.unused_data or start + _STEP_IN < len(body):
        raise Damage("its body can't be decompressed (it ends too early or too late)")


def _unzstd(body: memoryview) -> Iterator[bytes]:
    library = _zstandard()
    try:
        with library.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(body) as reader:
            while piece := reader.read(_STEP_OUT):
                yield piece
    except library.ZstdError as problem:
        raise Damage(f"its body can't be decompressed ({problem})") from problem


def _zstandard() -> ModuleType:
    try:
        import zstandard
    except ImportError as problem:
        raise LibraryMissing(
            "compression by zstd, and so the library zstandard: pip install 'blobcp[zstd]'"
        ) from problem
    return zstandard
