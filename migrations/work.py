"""One checkpoint on its way through the steps: as bytes, raw or typed, whichever the last step has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from blobcp.checkpoint import Checkpoint
from blobcp.checkpointer import Checkpointer
from blobcp.codec import Header, MsgpackSerializer, PendingInterrupt, Registry, default_registry
from blobcp.errors import BlobcpError, MigrationError, text_of

from .dropped import Dropped, where

__all__ = ["Work", "graphs_of"]

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


class Work:
    """A checkpoint under migration.

    It is turned from bytes to a raw or typed checkpoint, or from one of these to the other, only where a step needs it.
    What code of the user's has touched is written to bytes before the next version's steps see it. So a chain gives what
    its steps give one by one, and a value that can't be stored is blamed on the step that made it.

    Args:
        checkpointer: has the serializer.
        header: the header of the blob.
        body: its body.

    Attributes:
        header: the header, with what the steps have changed.
        dropped: what they have dropped.
        label: the step that is under way, for messages.
    """

    def __init__(self, checkpointer: Checkpointer, header: Header, body: bytes) -> None:
        self.header = header
        self.label = ""
        self._checkpointer = checkpointer
        self._body: bytes | None = body
        self._tree: Checkpoint | None = None
        self._raw = False
        self._touched = False
        self._dropped: dict[tuple[str, str, tuple[str, ...], str], int] = {}

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return self.header.checkpoint_id

    @property
    def registry(self) -> Registry:
        """Where the names of classes are known."""
        serializer = self._checkpointer.serializer
        return serializer.registry if isinstance(serializer, MsgpackSerializer) else default_registry

    @property
    def dropped(self) -> list[Dropped]:
        """What was dropped, in order; fields of one name together."""
        return [Dropped(*key, count=count) for key, count in self._dropped.items()]

    def drop(self, what: str, name: str, path: tuple[str, ...] = (), detail: str = "") -> None:
        """Note that something was dropped."""
        key = (what, name, path, detail)
        self._dropped[key] = self._dropped.get(key, 0) + 1

    def tree(self, *, raw: bool | None) -> Checkpoint:
        """Return the checkpoint, to be changed in place.

        Args:
            raw: without the user's classes, or with them; ``None`` for whichever it is.

        Raises:
            MigrationError: the serializer can't read it raw.
            SerializationError: it can't be read.
        """
        if raw is None:
            raw = self._raw if self._tree is not None else self._reads_raw
        if self._tree is None or self._raw is not raw:
            if raw and not self._reads_raw:
                raise self.error(
                    f"is raw, and serializer {self._checkpointer.serializer_name!r} has no loads_raw; use a typed step"
                )
            self._tree = self._checkpointer.restore(self.id, self.body(), raw=raw)
            self._raw = raw
        self._body = None
        return self._tree

    def put(self, tree: Checkpoint) -> None:
        """Put a checkpoint in the place of the one that `tree` gave."""
        self._tree = tree

    def touched(self) -> None:
        """Note that code of the user's had the checkpoint in hand."""
        self._touched = True

    def settle(self) -> None:
        """Write what code of the user's has touched, so that the next step finds it as it would be stored."""
        if self._touched:
            self.body()
            self._tree = None
            self._touched = False

    def body(self) -> bytes:
        """Return the checkpoint as bytes.

        Raises:
            MigrationError: a value in it can't be stored.
        """
        if self._body is None:
            try:
                self._body = self._checkpointer.dumps(self._tree)
            except BlobcpError as error:
                raise self.error(f"made what can't be stored: {text_of(error)}") from error
        return self._body

    def copy(self, value: Any) -> Any:
        """Return a copy of a value, in the form that the checkpoint has now.

        Raises:
            MigrationError: it can't be stored.
        """
        if type(value) in _PLAIN:
            return value
        serializer: Any = self._checkpointer.serializer
        try:
            data = self._checkpointer.dumps(value)
            return serializer.loads_raw(data) if self._raw else serializer.loads(data)
        except BlobcpError as error:
            raise self.error(f"made what can't be stored: {text_of(error)}") from error

    def renew_pending(self, tree: Checkpoint) -> None:
        """Let the header name the points that wait according to the checkpoint."""
        pending = [
            PendingInterrupt(id=id, address=str(tree.interrupt_id_to_address[id]))
            for id, record in tree.interrupt_id_to_state.items()
            if record.is_root_cause and record.status == "pending"
        ]
        self.header = msgspec.structs.replace(self.header, pending=pending)

    def call(self, function: Callable[[Any], Any], value: Any, what: str, path: tuple[str, ...] = ()) -> Any:
        """Call code of the user's.

        Args:
            function: the code.
            value: what it gets.
            what: what that is, for messages.
            path: the graph that it is of.

        Raises:
            MigrationError: it failed; its exception is the cause.
        """
        try:
            return function(value)
        except (Exception, asyncio.CancelledError) as error:
            raise self.error(f"failed on {what} of {where(path)}: {text_of(error)}", path) from error

    def error(self, problem: str, path: tuple[str, ...] = ()) -> MigrationError:
        """Return the error of the step that is under way."""
        return MigrationError(
            f"checkpoint {self.id!r} was not migrated, and what is stored was not changed: {self.label} {problem}",
            checkpoint_id=self.id,
            path=path,
        )

    @property
    def _reads_raw(self) -> bool:
        return callable(getattr(self._checkpointer.serializer, "loads_raw", None))


def graphs_of(checkpoint: Checkpoint, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Checkpoint]]:
    """Yield a graph and those nested in it, each with the node keys on the way; a graph before its nested ones."""
    yield path, checkpoint
    for key, below in checkpoint.sub_graphs.items():
        yield from graphs_of(below, (*path, key))
