"""What a job notes, so that a later run of it goes on where it was stopped.

A journal begins with what the job is, and a journal of another job is refused. Then come lines: what became of each blob,
and before each write that it is about to be made. A line that a crash has cut off is left out: its blob is looked at again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from blobcp.errors import OptionError, StoreError

from .outcome import Intent, Outcome

__all__ = ["FileJournal", "Journal", "Line", "Note", "encoded", "first_line", "lines_in", "same_job"]

FORMAT: Final = 1
_FLUSHED_EVERY: Final = 1.0

Line = Outcome | Intent

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)


class Note(Protocol):
    """The part of a journal that workers have; it can be sent to other processes."""

    @property
    def portion(self) -> int:
        """How many writes a worker may hold back, to note them together."""
        ...

    def for_batch(self, number: int) -> Callable[[Sequence[Intent]], None]:
        """Return what notes writes of a batch that are about to be made.

        What is noted outlives the process, if not a power failure. It raises `StoreError` where it can't be noted.
        """
        ...


class Journal(Protocol):
    """Where a job keeps what it has done."""

    @property
    def note(self) -> Note:
        """The part for workers."""
        ...

    def begin(self, job: dict[str, str]) -> Iterator[Line]:
        """Begin, or go on; yield what earlier runs have noted.

        Raises:
            OptionError: it is the journal of another job.
            StoreError: it can't be read or written.
        """
        ...

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Note what became of blobs.

        Raises:
            StoreError: it can't be noted.
        """
        ...

    def owns(self, store: object, checkpoint_id: str) -> bool:
        """Tell whether what a store has under an id is part of the journal."""
        ...

    def close(self) -> None:
        """Note all there is to note."""
        ...


def encoded(lines: Iterable[Line]) -> bytes:
    """Return lines as they are stored."""
    return b"".join(_encoder.encode(line) + b"\n" for line in lines)


def lines_in(data: Iterable[bytes]) -> Iterator[Line]:
    """Yield the lines that are whole."""
    for text in data:
        try:
            yield _decoder.decode(text)
        except msgspec.MsgspecError:  # cut off by a crash, and so of no more use than no line
            continue


def first_line(job: dict[str, str]) -> bytes:
    """Return what a journal begins with."""
    return _encoder.encode({"blobcp": "journal", "format": FORMAT, "job": job}) + b"\n"


def same_job(where: str, found: bytes, job: dict[str, str]) -> None:
    """Check what a journal begins with.

    Raises:
        OptionError: it is no journal, or that of another job.
    """
    advice = f"give another place, or remove it to begin anew ({where})"
    try:
        begun: Any = msgspec.json.decode(found)
        known, format = begun["job"], begun["format"]
        if begun["blobcp"] != "journal" or not isinstance(known, dict):
            raise ValueError
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        raise OptionError(f"what is there is no journal of a job; {advice}") from error
    if format != FORMAT:
        raise OptionError(f"the journal is of format {format!r} and this code writes {FORMAT}; {advice}")
    other = [
        f"{key}: {known.get(key)!r} there, {job.get(key)!r} here"
        for key in sorted({*job, *known})
        if known.get(key) != job.get(key)
    ]
    if other:
        raise OptionError(f"the journal belongs to another job ({'; '.join(other)}); {advice}")


class _FileNote:
    """Appends to the journal's file, from whichever process of the machine it is in."""

    portion = 1  # an append costs so little that no write need wait for others

    def __init__(self, path: Path) -> None:
        self._path = path

    def for_batch(self, number: int) -> Callable[[Sequence[Intent]], None]:
        return self._intend

    def _intend(self, intents: Sequence[Intent]) -> None:
        with _explained("write", self._path):
            # Not made where it is missing: a process of another machine would note what nobody reads.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                _append(descriptor, encoded(intents))
            finally:
                os.close(descriptor)


class FileJournal:
    """A file that is only appended to, flushed to the disk about once a second.

    All processes that do the work must be able to open it under the same path.

    Args:
        path: where it is, or is to be made.
        clock: what time it is, in seconds.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path).absolute()
        self.note = _FileNote(self.path)
        self._clock = clock
        self._flushed = clock()
        self._descriptor: int | None = None

    def begin(self, job: dict[str, str]) -> Iterator[Line]:
        """Begin, or go on; yield what earlier runs have noted. Raises as `Journal.begin` does."""
        with _explained("open", self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with self.path.open("rb") as file:
                found = file.readline()
                start = first_line(job)
                if not found.endswith(b"\n") and start.startswith(
                    found
                ):  # new, or cut off before there was anything in it
                    os.ftruncate(self._descriptor, 0)
                    _append(self._descriptor, start)
                    self._flush()
                    return
                same_job(str(self.path), found, job)
                yield from lines_in(file)
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    _append(self._descriptor, b"\n")

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Note what became of blobs. Raises as `Journal.add` does."""
        assert self._descriptor is not None
        with _explained("write", self.path):
            _append(self._descriptor, encoded(outcomes))
            if self._clock() - self._flushed >= _FLUSHED_EVERY:
                self._flush()

    def owns(self, store: object, checkpoint_id: str) -> bool:
        """Tell whether what a store has under an id is part of the journal: a file is in no store."""
        return False

    def close(self) -> None:
        """Flush the file to the disk and close it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with _explained("write", self.path):
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _flush(self) -> None:
        assert self._descriptor is not None
        os.fsync(self._descriptor)
        self._flushed = self._clock()


def _append(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class _explained:  # noqa: N801 - reads as the function that it stands for
    """Turns an error of the operating system into a `StoreError`; a class, since a generator is slow where each blob counts."""

    def __init__(self, what: str, path: Path) -> None:
        self._what = what
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StoreError(
                f"could not {self._what} the journal {self._path}: {error.strerror or error}; give a path that all "
                "processes of the job can write to, or a StoreJournal"
            ) from error
