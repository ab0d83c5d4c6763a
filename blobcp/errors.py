"""Every error of blobcp, in one tree.

A type says whose fault it is, attributes carry the evidence, and the message says what happened, where (checkpoint
id, node path, value path) and what to do. Nothing of a lower layer (``KeyError``, msgspec, botocore) reaches a user bare::

    BlobcpError
    ├── GraphBuildError            the graph as it was built can't run (also a ValueError)
    ├── OptionError                a run was asked for something that can't be done (also a ValueError)
    │   ├── UnknownInterruptError      an answer names no pending interrupt
    │   └── AmbiguousAnswerError       a bare answer while several interrupts are pending
    ├── OutsideNodeError           interrupt() or use_state() called where no node runs (also a RuntimeError)
    ├── StateError                 the asked-for state is not there or can't be locked (also a LookupError)
    ├── RunError                   the run failed; carries the node path
    │   ├── NodeError                  user code of a node raised
    │   ├── ValueMismatchError         a value is not of the declared type (also a TypeError)
    │   ├── MergeError                 values that meet at one node can't be merged
    │   ├── BranchError                a branch chose an end that it did not declare
    │   ├── MaxStepsError              the step limit was reached
    │   └── NothingToRunError          no node is ready and END was not reached
    ├── CheckpointError            a stored run can't be read, written or used; carries the checkpoint id
    │   ├── InvalidCheckpointIdError   not an id (also a ValueError)
    │   ├── CheckpointNotFoundError    nothing is stored under the id (also a LookupError)
    │   ├── CheckpointDoneError        the run under the id is finished
    │   ├── CheckpointCorruptError     the bytes are not a whole blob of ours
    │   ├── CheckpointKeyError         the blob needs a key that is not here, or lacks the seal that is demanded
    │   ├── CheckpointVersionError     the blob is of a format or a state version that this code can't read
    │   ├── CheckpointMismatchError    the blob does not fit the graph that loads it
    │   ├── CheckpointConflictError    somebody else moved the checkpoint on
    │   ├── CheckpointSaveError        the run stopped and could not be stored; carries what would be lost
    │   └── MigrationError             a checkpoint could not be brought up to today; carries the way to the graph
    ├── SerializationError         a value can't become bytes, or bytes a value; carries the path to the value
    │   ├── UnregisteredTypeError      at save: a class that has no registered name (also a TypeError)
    │   ├── UnknownTypeError           at load: a name that no class is registered under
    │   └── RegistrationError          two classes want one name, or one class two (also a ValueError)
    ├── StreamError                a stream can't be made, read or joined
    │   ├── StreamClosedError          read after close, or sent to a reader that is closed
    │   ├── StreamLoopError            waiting would block an event loop, or needs one that does not run (also a RuntimeError)
    │   ├── StreamTimeoutError         a time limit has passed; carries the position (also a TimeoutError)
    │   ├── StreamFailedError          an error came while a stream was read to its end; carries the position
    │   └── ConcatError                chunks can't become one value; carries the path
    │       └── EmptyStreamError           there are no chunks
    ├── StoreError                 a store failed; the store's own exception is the cause
    │   ├── StoreUrlError              a URL names no store that is here (also a ValueError)
    │   └── MissingExtraError          a store needs a library that is not installed (also an ImportError)
    ├── ToolError                  a tool call can't be carried out or has failed; carries the tool and the call's id
    └── Interrupted                the run stopped on purpose and waits (see :mod:`blobcp.interrupt`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blobcp.checkpoint import Checkpoint
    from blobcp.codec import Header
    from blobcp.points import InterruptInfo, InterruptPoint, Signal

__all__ = [
    "AmbiguousAnswerError",
    "BlobcpError",
    "BranchError",
    "CheckpointConflictError",
    "CheckpointCorruptError",
    "CheckpointDoneError",
    "CheckpointError",
    "CheckpointKeyError",
    "CheckpointMismatchError",
    "CheckpointNotFoundError",
    "CheckpointSaveError",
    "CheckpointVersionError",
    "ConcatError",
    "EmptyStreamError",
    "GraphBuildError",
    "Interrupted",
    "InvalidCheckpointIdError",
    "MaxStepsError",
    "MergeError",
    "MigrationError",
    "MissingExtraError",
    "NodeError",
    "NothingToRunError",
    "OptionError",
    "OutsideNodeError",
    "RegistrationError",
    "RunError",
    "SerializationError",
    "StateError",
    "StoreError",
    "StoreUrlError",
    "StreamClosedError",
    "StreamError",
    "StreamFailedError",
    "StreamLoopError",
    "StreamTimeoutError",
    "ToolError",
    "UnknownInterruptError",
    "UnknownTypeError",
    "UnregisteredTypeError",
    "ValueMismatchError",
]


class BlobcpError(Exception):
    """The root of all errors of blobcp."""


def text_of(error: BaseException) -> str:
    """Return the class and the text of somebody's exception; of the class alone where its ``str`` fails."""
    try:
        text = str(error)
    except Exception:
        text = "it has no text"
    return f"{type(error).__name__}: {text}"


class GraphBuildError(BlobcpError, ValueError):
    """A graph that can't be built or compiled as described; the message names the nodes."""


class OptionError(BlobcpError, ValueError):
    """A run option that can't be carried out; raised before any node runs and before anything is written."""


class UnknownInterruptError(OptionError):
    """An answer names an interrupt that is not pending under the checkpoint.

    Attributes:
        unknown: the ids that were given and are not pending.
        pending: the ids that are.
    """

    def __init__(self, message: str, *, unknown: Sequence[str] = (), pending: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.unknown = list(unknown)
        self.pending = list(pending)


class AmbiguousAnswerError(OptionError):
    """A bare answer was given while several interrupts are pending.

    Attributes:
        pending: the ids it could have meant.
    """

    def __init__(self, message: str, *, pending: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pending = list(pending)


class OutsideNodeError(BlobcpError, RuntimeError):
    """A function that only makes sense inside a running node was called elsewhere."""


class StateError(BlobcpError, LookupError):
    """A state that no graph on the way to the root has, or one that can't be locked here."""


class RunError(BlobcpError):
    """A run that failed.

    Attributes:
        path: the keys from the root graph to the node that failed; empty for the root graph itself.
        stopping: where the run was about to stop, if it failed in the making of a checkpoint; nothing was written then.
    """

    def __init__(self, message: str, *, path: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = list(path)
        self.stopping: InterruptInfo | None = None


class NodeError(RunError):
    """User code of a node (its function, a handler, a branch choice) raised; that exception is the cause."""


class ValueMismatchError(RunError, TypeError):
    """A value that a graph or node was given, or gave, is not of the declared type or lacks its key."""


class MergeError(RunError):
    """Values of several predecessors can't become one input."""


class BranchError(RunError):
    """A branch chose an end that is not among those it declared."""


class MaxStepsError(RunError):
    """The run was not finished after ``max_steps`` super-steps."""


class NothingToRunError(RunError):
    """No node is ready, none is running and END was not reached.

    Attributes:
        last_completed: the nodes that finished last.
    """

    def __init__(self, message: str, *, path: Sequence[str] = (), last_completed: Sequence[str] = ()) -> None:
        super().__init__(message, path=path)
        self.last_completed = list(last_completed)


class CheckpointError(BlobcpError):
    """A checkpoint that can't be read, written or used.

    Attributes:
        checkpoint_id: the id it is about, where one is known.
    """

    def __init__(self, message: str, *, checkpoint_id: str | None = None) -> None:
        super().__init__(message)
        self.checkpoint_id = checkpoint_id


class InvalidCheckpointIdError(CheckpointError, ValueError):
    """Not a checkpoint id: ids are non-empty text of at most 512 UTF-8 bytes without NUL or lone surrogates."""


class CheckpointNotFoundError(CheckpointError, LookupError):
    """Nothing is stored under the id that a run was to continue or fork."""


class CheckpointDoneError(CheckpointError):
    """The run under the id is finished; nothing is pending."""


class CheckpointCorruptError(CheckpointError):
    """The bytes under the id are not a whole blob of ours: foreign, truncated or changed."""


class CheckpointKeyError(CheckpointError):
    """The blob is sealed with a key that is not here, or is not sealed where that is demanded.

    Attributes:
        key_id: the id of the missing key; ``None`` where the blob is not sealed.
    """

    def __init__(self, message: str, *, checkpoint_id: str | None = None, key_id: str | None = None) -> None:
        super().__init__(message, checkpoint_id=checkpoint_id)
        self.key_id = key_id


class CheckpointVersionError(CheckpointError):
    """The blob was written in a format or for a state version that is newer than this code, or too old for it."""


class CheckpointMismatchError(CheckpointError):
    """The blob names a node, channel, graph or state class that the graph which loads it does not have."""


class CheckpointConflictError(CheckpointError):
    """The checkpoint was changed by somebody else since it was read; nothing was written."""


class CheckpointSaveError(CheckpointError):
    """A run stopped and its checkpoint is not in the store; the exception that prevented it is the cause.

    Nothing is lost with it. Where encoding failed, ``checkpoint`` is what was to be encoded. Where the store failed,
    ``blob`` is what was to be stored. ``app.retry_save(error)`` completes the save once the reason is gone.

    Attributes:
        interrupts: the points that the run stopped at.
        info: what :class:`Interrupted` would have said.
        checkpoint: the checkpoint, where it could not be encoded.
        blob: the encoded checkpoint, where it could not be stored.
        header: the header of the blob that was to be stored.
        seen: the version that the run had seen under the id (``None`` for nothing), where the store can compare and set.
        result: what the run returned, where it had finished and only the mark of that could not be stored.
    """

    def __init__(
        self,
        message: str,
        *,
        checkpoint_id: str | None = None,
        interrupts: Sequence[InterruptPoint] = (),
        info: InterruptInfo | None = None,
        checkpoint: Checkpoint | None = None,
        blob: bytes | None = None,
        header: Header | None = None,
        seen: tuple[str | None] | None = None,
        result: Any = None,
    ) -> None:
        super().__init__(message, checkpoint_id=checkpoint_id)
        self.interrupts = list(interrupts)
        self.info = info
        self.checkpoint = checkpoint
        self.blob = blob
        self.header = header
        self.seen = seen
        self.result = result


class MigrationError(CheckpointError):
    """A checkpoint could not be migrated; what is stored was not changed. Where code of yours failed, that is the cause.

    Attributes:
        path: the keys of the nodes on the way to the graph it is about; empty for the root graph.
    """

    def __init__(self, message: str, *, checkpoint_id: str | None = None, path: Sequence[str] = ()) -> None:
        super().__init__(message, checkpoint_id=checkpoint_id)
        self.path = list(path)


class SerializationError(BlobcpError):
    """A value can't be encoded, or bytes can't be decoded.

    Attributes:
        path: the way to the value from the top, for instance ``state.jobs[1].lock``; empty for the top itself.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class UnregisteredTypeError(SerializationError, TypeError):
    """A value's class has no registered name, so it could not be brought back.

    Attributes:
        type: the class.
    """

    def __init__(self, message: str, *, path: str = "", type: type[Any] | None = None) -> None:
        super().__init__(message, path=path)
        self.type = type


class UnknownTypeError(SerializationError):
    """The bytes hold a type name that no class is registered under.

    Attributes:
        name: the name.
    """

    def __init__(self, message: str, *, path: str = "", name: str = "") -> None:
        super().__init__(message, path=path)
        self.name = name


class RegistrationError(SerializationError, ValueError):
    """Two classes were to share one name, or one class was to have two."""


class StreamError(BlobcpError):
    """A stream can't be made, read or joined as it was asked."""


class StreamClosedError(StreamError):
    """A reader that is closed or handed over was read, or a pipe was sent to whose reader or writer is closed."""


class StreamLoopError(StreamError, RuntimeError):
    """Waiting for a stream would block the event loop of this thread, or needs an event loop that does not run."""


class StreamTimeoutError(StreamError, TimeoutError):
    """A stream was not ready within the time limit.

    Attributes:
        position: how many chunks had been read, where a stream was read to its end.
        chunks: those chunks.
    """

    def __init__(self, message: str, *, position: int | None = None, chunks: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.chunks = list(chunks)


class StreamFailedError(StreamError):
    """An error came out of a stream while it was read to its end; that error is the cause.

    Attributes:
        position: how many chunks came before it.
        chunks: those chunks.
    """

    def __init__(self, message: str, *, position: int, chunks: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.chunks = list(chunks)


class ConcatError(StreamError):
    """Chunks that can't become one value. Where a registered function failed, its error is the cause.

    Attributes:
        path: the keys of dicts on the way to the values, such as ``['a']['b']``; empty for the chunks themselves.
        type: the class of the values; the first one's where they differ.
    """

    def __init__(self, message: str, *, path: str = "", type: type[Any] | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.type = type


class EmptyStreamError(ConcatError):
    """There were no chunks, so there is no value."""


class StoreError(BlobcpError):
    """A store could not do what it was asked; its own exception is the cause."""


class StoreUrlError(StoreError, ValueError):
    """A URL that names no store which is installed, or that its store can't take."""


class MissingExtraError(StoreError, ImportError):
    """A library that is needed here is not installed; the message says which extra of blobcp brings it."""


class ToolError(BlobcpError):
    """A call that a model asked for names no tool, has arguments that don't fit, or failed.

    It is the cause of the `NodeError` that the run fails with; what the tool raised is its own cause.

    Attributes:
        tool: the name of the tool.
        call_id: the id that the model gave the call.
    """

    def __init__(self, message: str, *, tool: str, call_id: str) -> None:
        super().__init__(message)
        self.tool = tool
        self.call_id = call_id


class Interrupted(BlobcpError):
    """A run stopped on purpose; where it has a checkpoint id, the checkpoint is already stored.

    Attributes:
        interrupts: the points that wait for an answer, in declaration order.
        info: state, before, after and rerun nodes of the graph, and the same for its nested graphs.
        checkpoint_id: where the run is stored; ``None`` if it was started without a checkpoint id.
        signal: the tree behind ``interrupts``, states included, for a host that passes the stop on.
    """

    def __init__(
        self,
        message: str,
        *,
        interrupts: Sequence[InterruptPoint] = (),
        info: InterruptInfo | None = None,
        checkpoint_id: str | None = None,
        signal: Signal | None = None,
    ) -> None:
        super().__init__(message)
        self.interrupts = list(interrupts)
        self.info = info
        self.checkpoint_id = checkpoint_id
        self.signal = signal
