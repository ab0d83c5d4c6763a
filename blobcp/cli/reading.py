"""Looking at many blobs: in the order of their ids, several at a time, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from blobcp.codec import Envelope, Header
from blobcp.errors import (
    BlobcpError,
    CheckpointCorruptError,
    CheckpointKeyError,
    CheckpointNotFoundError,
    CheckpointVersionError,
)
from blobcp.store import CheckPointStore

from .texts import shown_id

__all__ = ["Seen", "blob_at", "each", "look", "word_for"]

_Result = TypeVar("_Result")

_WORDS: dict[type[BlobcpError], str] = {
    CheckpointCorruptError: "corrupt",
    CheckpointKeyError: "no key",
    CheckpointVersionError: "too new",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a blob without its body: its header, or why that can't be read."""

    id: str
    size: int
    header: Header | None = None
    problem: BlobcpError | None = None


def look(store: CheckPointStore, id: str, envelope: Envelope) -> Seen | None:
    """Return what can be known of a blob by its header; ``None`` where there is none any more."""
    try:
        blob = store.get(id)
    except BlobcpError as problem:
        return Seen(id, 0, problem=problem)
    if blob is None:
        return None
    try:
        return Seen(id, len(blob), envelope.read_header(blob, checkpoint_id=id))
    except BlobcpError as problem:
        return Seen(id, len(blob), problem=problem)


def word_for(problem: BlobcpError) -> str:
    """Return in a word or two what is wrong with a blob."""
    return next((word for kind, word in _WORDS.items() if isinstance(problem, kind)), "unreadable")


def blob_at(store: CheckPointStore, id: str) -> bytes:
    """Return a blob that has to be there.

    Raises:
        CheckpointNotFoundError: it is not.
    """
    blob = store.get(id)
    if blob is None:
        raise CheckpointNotFoundError(f"nothing is stored under {shown_id(id)}", checkpoint_id=id)
    return blob


def each(work: Callable[[str], _Result], ids: Iterable[str], workers: int) -> Generator[_Result]:
    """Yield what the work gives for each id, in their order.

    Args:
        work: what is done, in threads.
        ids: read lazily.
        workers: how many are worked on at once.

    The generator has to be closed where it is not read to its end, so that no thread works on.
    """
    if workers == 1:
        yield from map(work, ids)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[_Result]] = deque()
        try:
            for id in ids:
                waiting.append(pool.submit(work, id))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
