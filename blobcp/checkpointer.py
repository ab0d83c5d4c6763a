"""From a checkpoint to bytes and back: normalise, modify, encode, seal; and the same backwards.

Pure functions over values. Reading and writing the store is the driver's part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, Final, Protocol

from blobcp.checkpoint import Checkpoint
from blobcp.codec import Envelope, Header, Serializer, digest_of
from blobcp.errors import (
    BlobcpError,
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMismatchError,
    CheckpointVersionError,
    SerializationError,
    text_of,
)
from blobcp.typed_none import is_typed_none

__all__ = ["Checkpointer", "Loaded", "StateMigrations", "StateModifier", "problem_of"]

StateModifier = Callable[[list[str], Any], Any]
"""``(path, state) -> state``: called for each graph that has a state, a graph before those nested in it.

``path`` holds the node keys on the way to the graph, ``[]`` for the root. What it returns takes the state's place;
``None`` keeps the object it was given, changed in place or not.
"""

_IMMUTABLE: Final = frozenset({NoneType, bool, int, float, complex, str, bytes})


class StateMigrations(Protocol):
    """What brings the checkpoints of older programs up, as `blobcp.migrations.Migrations` does."""

    @property
    def version(self) -> int:
        """The version of the state schema of today, which new blobs are stamped with; at least 1."""
        ...

    def check(self, serializer: Serializer | None = None) -> None:
        """Refuse migrations that can't be carried out, or not with this serializer.

        Raises:
            OptionError: they can't.
        """
        ...

    def bring_up(self, header: Header, body: bytes, checkpointer: Checkpointer) -> Checkpoint:
        """Return the checkpoint that a body holds, as the program of today has them.

        Raises:
            CheckpointVersionError: it is newer than this code, or too old for it.
            CheckpointError: it could not be brought up.
            SerializationError: a value can't be brought back.
        """
        ...


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
        migrations: brings up what older programs have stored; ``None``: nothing has a version.

    Attributes:
        serializer_name: what headers call the serializer; its class where it has no ``name``.
        state_version: what new blobs are stamped with; 0 without migrations.
    """

    def __init__(
        self,
        serializer: Serializer,
        envelope: Envelope,
        modifier: StateModifier | None = None,
        migrations: StateMigrations | None = None,
    ) -> None:
        self.serializer = serializer
        self.serializer_name: str = getattr(serializer, "name", type(serializer).__qualname__)
        self.state_version = 0 if migrations is None else migrations.version
        self._envelope = envelope
        self._modifier = modifier
        self._migrations = migrations

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
        return self.seal(header, self.dumps(checkpoint))

    def mark(self, header: Header) -> bytes:
        """Return the header-only blob of a finished run."""
        return self.seal(header, b"")

    def seal(self, header: Header, body: bytes) -> bytes:
        """Return header and body as one blob."""
        return self._envelope.seal(header, body)

    def open(self, checkpoint_id: str, blob: bytes, graph: str | None = None) -> tuple[Header, bytes]:
        """Return header and body of a blob; the mark of a finished run has no body.

        Args:
            checkpoint_id: what it is stored under.
            blob: what the store gave.
            graph: the name of the graph that is to load it; ``None`` for any.

        Raises:
            CheckpointCorruptError: the bytes are not a whole blob of ours.
            CheckpointMismatchError: it was written by another serializer or graph.
        """
        header, body = self._envelope.open(blob, checkpoint_id=checkpoint_id)
        if header.status == "done":
            return header, b""
        if graph is not None and header.graph != graph:
            raise CheckpointMismatchError(
                f"checkpoint {checkpoint_id!r} was written by graph {header.graph!r} and is loaded by "
                f"{graph!r}; compile with name={header.graph!r}, or use another id",
                checkpoint_id=checkpoint_id,
            )
        if header.serializer != self.serializer_name:
            raise CheckpointMismatchError(
                f"checkpoint {checkpoint_id!r} was written by serializer {header.serializer!r} and reading it with "
                f"{self.serializer_name!r} is not allowed; give the serializer that it was written by",
                checkpoint_id=checkpoint_id,
            )
        return header, bytes(body)

    def decode(self, checkpoint_id: str, blob: bytes, graph: str | None = None) -> Loaded:
        """Return what a blob holds, brought up to today, with the states as the modifier wants them.

        Args:
            checkpoint_id: what it is stored under.
            blob: what the store gave.
            graph: the name of the graph that loads it; ``None`` for any.

        Raises:
            CheckpointCorruptError: the bytes are not a whole blob of ours, or hold something else than a checkpoint.
            CheckpointMismatchError: it was written by another serializer or graph.
            CheckpointVersionError: it is of a state version that this code can't bring up.
            SerializationError: a value can't be brought back.
            CheckpointError: a migration or the state modifier failed.
        """
        header, body = self.open(checkpoint_id, blob, graph)
        digest = digest_of(blob)
        if header.status == "done":
            return Loaded(header, digest, None)
        if self._migrations is not None:
            checkpoint = self._migrations.bring_up(header, body, self)
        elif header.state_version:
            raise CheckpointVersionError(
                f"checkpoint {checkpoint_id!r} has state version {header.state_version} and this code declares none "
                "(version 0); give the migrations it was written with, or newer ones, to compile(migrations=...)",
                checkpoint_id=checkpoint_id,
            )
        else:
            checkpoint = self.restore(checkpoint_id, body)
        if self._modifier is not None:
            self._modify(checkpoint, self._modifier, [])
        return Loaded(header, digest, checkpoint)

    def restore(self, checkpoint_id: str, body: bytes, *, raw: bool = False) -> Checkpoint:
        """Return the checkpoint that a body holds.

        Args:
            checkpoint_id: for messages.
            body: the serializer's bytes.
            raw: with a `RawValue` for each value of a user's class; the serializer must have ``loads_raw``.

        Raises:
            CheckpointCorruptError: the body holds something else.
            SerializationError: a value can't be brought back.
        """
        try:
            checkpoint = self._give_back(body, raw=raw)
        except SerializationError as error:
            error.args = (f"checkpoint {checkpoint_id!r} can't be loaded: {error}; what is stored was not changed",)
            raise
        problem = problem_of(checkpoint)
        if problem:
            raise CheckpointCorruptError(
                f"checkpoint {checkpoint_id!r} is corrupt: {problem}; "
                "restore it from a backup or start anew with force_new_run",
                checkpoint_id=checkpoint_id,
            )
        restored: Checkpoint = checkpoint
        return restored

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

    def _give_back(self, data: bytes, *, raw: bool = False) -> Any:
        serializer: Any = self.serializer
        try:
            return serializer.loads_raw(data) if raw else serializer.loads(data)
        except BlobcpError:
            raise
        except Exception as error:
            raise SerializationError(
                f"serializer {self.serializer_name!r} could not decode: {text_of(error)}"
            ) from error

    def _modify(self, checkpoint: Checkpoint, modifier: StateModifier, path: list[str]) -> None:
        if checkpoint.state is not None:
            checkpoint.state = _apply(modifier, path, checkpoint.state)
        for key, below in checkpoint.sub_graphs.items():
            self._modify(below, modifier, [*path, key])


def problem_of(checkpoint: Any) -> str | None:
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
