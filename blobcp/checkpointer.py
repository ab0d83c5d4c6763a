"""From a checkpoint to bytes and back: normalise, modify, encode, seal; and the same backwards.

Pure functions over values. Reading and writing the store is the driver's part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, Final

from blobcp.checkpoint import Checkpoint
from blobcp.codec import Envelope, Header, Serializer, digest_of
from blobcp.errors import (
    BlobcpError,
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMismatchError,
    SerializationError,
    text_of,
)
from blobcp.typed_none import is_typed_none

__all__ = ["Checkpointer", "Loaded", "StateModifier"]

StateModifier = Callable[[list[str], Any], Any]
"""``(path, state) -> state``: called for each graph that has a state, a graph before those nested in it.

``path`` holds the node keys on the way to the graph, ``[]`` for the root. What it returns takes the state's place;
``None`` keeps the object it was given, changed in place or not.
"""

_IMMUTABLE: Final = frozenset({NoneType, bool, int, float, complex, str, bytes})


@dataclass(frozen=True, slots=True)
class Loaded:
    """A blob as it was read; ``checkpoint`` is ``None`` for the mark that a finished run leaves."""

    header: Header
    digest: str
    checkpoint: Checkpoint | None


class Checkpointer:
    """Turns checkpoints into blobs with one serializer and one envelope.

    Args:
        serializer: makes bytes of values.
        envelope: the frame round them.
        modifier: changes states on their way in and out.

    Attributes:
        serializer_name: what headers call the serializer; its class where it has no ``name``.
    """

    def __init__(self, serializer: Serializer, envelope: Envelope, modifier: StateModifier | None = None) -> None:
        self.serializer = serializer
        self.serializer_name: str = getattr(serializer, "name", type(serializer).__qualname__)
        self._envelope = envelope
        self._modifier = modifier

    def encode(self, checkpoint: Checkpoint, header: Header) -> bytes:
        """Return the blob of a checkpoint. The modifier gets copies, so that the live run is never changed by it.

        Raises:
            SerializationError: a value can't be encoded; the error has the path to it.
            CheckpointError: the state modifier failed.
        """
        normalise(checkpoint)
        if self._modifier is not None:
            checkpoint = self._give_back(self.dumps(checkpoint))
            self._modify(checkpoint, self._modifier, [])
        return self._envelope.seal(header, self.dumps(checkpoint))

    def mark(self, header: Header) -> bytes:
        """Return the header-only blob of a finished run."""
        return self._envelope.seal(header, b"")

    def decode(self, checkpoint_id: str, blob: bytes) -> Loaded:
        """Return what a blob holds, with the states as the modifier wants them.

        Raises:
            CheckpointCorruptError: the bytes are not a whole blob of ours, or hold something else than a checkpoint.
            CheckpointMismatchError: it was written by another serializer.
            SerializationError: a value can't be brought back.
            CheckpointError: the state modifier failed.
        """
        header, body = self._envelope.open(blob, checkpoint_id=checkpoint_id)
        digest = digest_of(blob)
        if header.status == "done":
            return Loaded(header, digest, None)
        if header.serializer != self.serializer_name:
            raise CheckpointMismatchError(
                f"checkpoint {checkpoint_id!r} was written by serializer {header.serializer!r} and reading it with "
                f"{self.serializer_name!r} is not allowed; compile the graph with the serializer it was written by",
                checkpoint_id=checkpoint_id,
            )
        checkpoint = self._loads(checkpoint_id, bytes(body))
        if self._modifier is not None:
            self._modify(checkpoint, self._modifier, [])
        return Loaded(header, digest, checkpoint)

    def dumps(self, value: Any) -> bytes:
        """Encode one value; a serializer's own exceptions become a `SerializationError`."""
        try:
            data = self.serializer.dumps(value)
        except BlobcpError:
            raise
        except Exception as error:
            raise SerializationError(
                f"serializer {self.serializer_name!r} could not encode: {text_of(error)}"
            ) from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise SerializationError(
                f"serializer {self.serializer_name!r} gave {type(data).__qualname__}; dumps must return bytes"
            )
        return bytes(data)

    def snapshot(self, value: Any) -> Callable[[], Any] | None:
        """Keep a value as it is now; returns what gives it back, or ``None`` where it can't change or can't be kept.

        A value that can't be encoded is not kept: the run may well end without a save, and a save fails on the value
        itself, with the path to it.
        """
        if type(value) in _IMMUTABLE:
            return None
        try:
            data = self.serializer.dumps(value)
        except Exception:
            return None
        return partial(self._give_back, data)

    def _give_back(self, data: bytes) -> Any:
        try:
            return self.serializer.loads(data)
        except BlobcpError:
            raise
        except Exception as error:
            raise SerializationError(
                f"serializer {self.serializer_name!r} could not decode: {text_of(error)}"
            ) from error

    def _loads(self, checkpoint_id: str, body: bytes) -> Checkpoint:
        try:
            checkpoint = self._give_back(body)
        except SerializationError as error:
            error.args = (f"checkpoint {checkpoint_id!r} can't be loaded: {error}; what is stored was not changed",)
            raise
        problem = _problem_of(checkpoint)
        if problem:
            raise CheckpointCorruptError(
                f"checkpoint {checkpoint_id!r} is corrupt: {problem}; "
                "restore it from a backup or start anew with force_new_run",
                checkpoint_id=checkpoint_id,
            )
        restored: Checkpoint = checkpoint
        return restored

    def _modify(self, checkpoint: Checkpoint, modifier: StateModifier, path: list[str]) -> None:
        if checkpoint.state is not None:
            checkpoint.state = _apply(modifier, path, checkpoint.state)
        for key, below in checkpoint.sub_graphs.items():
            self._modify(below, modifier, [*path, key])


def _problem_of(checkpoint: Any) -> str | None:
    """Tell what is wrong with what a body held, where a digest can't: whoever made it could make the digest too."""
    if not isinstance(checkpoint, Checkpoint):
        return f"it holds a {type(checkpoint).__qualname__} where a checkpoint belongs"
    if checkpoint.interrupt_id_to_address.keys() != checkpoint.interrupt_id_to_state.keys():
        return "its interrupts have addresses and states under different ids"
    return None


def normalise(checkpoint: Checkpoint) -> None:
    """Put ``None`` in the place of values that say nothing, where they would be taken for a node's input."""
    _normalise_values(checkpoint.inputs)
    for channel in checkpoint.channels.values():
        _normalise_values(channel.values)
    for below in checkpoint.sub_graphs.values():
        normalise(below)


def _normalise_values(values: dict[str, Any]) -> None:
    for key, value in values.items():
        if is_typed_none(value):
            values[key] = None


def _apply(modifier: StateModifier, path: list[str], state: Any) -> Any:
    where = "/".join(path) or "the root graph"
    try:
        changed = modifier(list(path), state)
    except (Exception, asyncio.CancelledError) as error:
        raise CheckpointError(f"the state modifier failed on the state of {where}: {text_of(error)}") from error
    if changed is None:
        return state
    if not isinstance(changed, type(state)):
        raise CheckpointError(
            f"the state modifier gave {type(changed).__qualname__} for the state of {where}, which is of class "
            f"{type(state).__qualname__}; return a state of that class, or None to keep the object"
        )
    return changed
