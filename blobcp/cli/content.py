"""What a blob holds, without the user's classes; or why that is not opened here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blobcp.checkpoint import Checkpoint
from blobcp.checkpointer import Checkpointer
from blobcp.codec import Envelope, Header, MsgpackSerializer

from .raw import shown_bytes

__all__ = ["Content", "Pending", "content_of"]

_SERIALIZER = MsgpackSerializer()


@dataclass(frozen=True, slots=True)
class Pending:
    """An interrupt point that waits for an answer, and what it asks."""

    id: str
    address: str
    info: object


@dataclass(frozen=True, slots=True)
class Content:
    """A blob, opened.

    Attributes:
        header: its header.
        checkpoint: what its body holds, with a `RawValue` for each value of a user's class.
        unopened: why there is none; empty where there is one.
    """

    header: Header
    checkpoint: Checkpoint | None = None
    unopened: str = ""

    def pending(self) -> Iterator[Pending]:
        """Yield what waits for an answer; without the body what is asked is not known."""
        if self.checkpoint is None:
            yield from (Pending(point.id, point.address, None) for point in self.header.pending)
            return
        for id, record in self.checkpoint.interrupt_id_to_state.items():
            if record.is_root_cause and record.status == "pending":
                yield Pending(id, str(self.checkpoint.interrupt_id_to_address[id]), record.info)


def content_of(blob: bytes, checkpoint_id: str, envelope: Envelope) -> Content:
    """Open a blob. Nothing is unpickled, and no code of a user's runs.

    Args:
        blob: what the store gave.
        checkpoint_id: the id that it was asked for under.
        envelope: has the keys.

    Raises:
        CheckpointError: it can't be opened.
        SerializationError: its body can't be read.
    """
    header, body = envelope.open(blob, checkpoint_id=checkpoint_id)
    if header.status == "done":
        return Content(header, unopened="the run is finished, and only its header is kept")
    if header.serializer != _SERIALIZER.name:
        kind = "a pickle" if header.serializer == "pickle" else f"of the serializer {header.serializer!r}"
        return Content(header, unopened=f"the content is {kind}, {shown_bytes(bytes(body))}, and is not opened here")
    checkpoint = Checkpointer(_SERIALIZER, envelope).restore(checkpoint_id, bytes(body), raw=True)
    return Content(header, checkpoint)
