"""The contract of a serializer, and the one that is used by default.

**Identity.** Two references to one object are written twice and come back as two equal objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from blobcp.codec.cells import CELL_PURPOSE
from blobcp.codec.limits import MOST_LEVELS, Limits
from blobcp.codec.pickled import SignedPickles
from blobcp.codec.plans import Plans
from blobcp.codec.raw import RawPlans
from blobcp.codec.reader import Reader
from blobcp.codec.registry import Registry, default_registry
from blobcp.codec.storable import check_annotation
from blobcp.codec.writer import Writer

__all__ = ["DEFAULT_MAX_DEPTH", "MsgpackSerializer", "Serializer"]

DEFAULT_MAX_DEPTH = 500
"""How deep values may be nested: half of Python's own stack, so that what was stored can be loaded from most places."""


@runtime_checkable
class Serializer(Protocol):
    """What turns a checkpoint into bytes and back.

    ``loads(dumps(value))`` is equal to ``value`` with equal types at every level, or ``dumps`` raises. A value that
    can't be stored raises :class:`~blobcp.errors.SerializationError`, and so do bytes that can't be read.

    Attributes:
        name: written into each blob; blobs are read by the serializer of that name.
    """

    @property
    def name(self) -> str:
        """The name that is written into each blob."""
        ...

    def dumps(self, value: Any) -> bytes:
        """Return the value as bytes."""
        ...

    def loads(self, data: bytes | memoryview) -> Any:
        """Return the value that the bytes hold."""
        ...


class MsgpackSerializer:
    """MessagePack, with every value coming back as exactly the type that went in; loading runs no code of a blob.

    Values of registered classes are restored attribute by attribute: ``__init__`` and ``__post_init__`` do not run,
    what a ``cached_property`` computed is left to be computed again, and a generic class forgets its arguments
    (``Box[int](1)`` comes back as a ``Box``). Exceptions come back without traceback, cause and context.

    >>> serializer = MsgpackSerializer()
    >>> serializer.loads(serializer.dumps({"at": (1, 2), 3: {4}}))
    {'at': (1, 2), 3: {4}}
    """

    name = "msgpack"

    def __init__(
        self,
        registry: Registry | None = None,
        *,
        max_depth: int = DEFAULT_MAX_DEPTH,
        max_elements: int | None = None,
        pickle_key: bytes | Sequence[bytes] | None = None,
    ) -> None:
        """Prepare.

        Args:
            registry: the classes that may be stored and loaded; by default those of the module functions.
            max_depth: how deep a stored value may be nested, counted in what loading takes of the stack: a list or dict
                takes one level, another container two, a value of a registered class three; at most 10,000. Bytes
                nested more than three times as deeply are refused at load, wherever Python's recursion limit would not
                soon stop there.
            max_elements: refuse to load bytes with more values than this, or nested more than three times ``max_depth``,
                before any of them is made. They are counted in Python, which costs more than loading them; without it
                hostile bytes may take some hundred times their size in memory, as a byte may be a whole dict or record.
            pickle_key: store single values that can't be stored otherwise (functions, values of classes that nobody
                registered) as signed pickles, and load those. Who has the key can make this process run code. 16 to
                64 bytes, or a list of them, the newest first.

        Raises:
            OptionError: a key is of a wrong type or length.
        """
        self.registry = registry or default_registry
        self.max_depth = min(max_depth, MOST_LEVELS)
        self._limits = Limits(max_elements, 3 * self.max_depth)
        self._pickles = None if pickle_key is None else SignedPickles(pickle_key, CELL_PURPOSE)
        self._engine = _Engine(self.registry, self.max_depth, self._pickles)

    def dumps(self, value: Any) -> bytes:
        """Return the value as bytes.

        Raises:
            UnregisteredTypeError: a class in it is not registered; the message names the path and what to do.
            SerializationError: it holds itself, is nested too deeply, or a field contradicts its annotation.
        """
        engine = self._current()
        try:
            return engine.writer.write(value)
        except (OverflowError, UnicodeEncodeError):  # rare, so nobody pays for looking at each int and str before
            return engine.careful_writer.write(value)

    def loads(self, data: bytes | bytearray | memoryview) -> Any:
        """Return the value that the bytes hold.

        Raises:
            UnknownTypeError: a name in them is not registered; the message holds it and the path.
            SerializationError: they are not such bytes, or a class has changed so that it can't take them.
        """
        self._limits.check(data)
        return self._current().reader.read(data)

    def loads_raw(self, data: bytes | bytearray | memoryview) -> Any:
        """Return the value with a :class:`RawValue` for each one of a class of yours; no name has to be registered.

        Change it, and :meth:`dumps` writes it again; what was not changed is written as the same bytes. A checkpoint
        itself is a ``Checkpoint``, a list of records may be a :class:`RawTable`, which is a list.

        Raises:
            SerializationError: they are not such bytes.
        """
        self._limits.check(data)
        return _raw_reader.read(data)

    def check(self, annotation: Any, path: str = "") -> None:
        """Refuse a declared type whose values surely can't be stored, before there are any.

        Args:
            annotation: the type; what is not understood is accepted.
            path: where its values will be, for the message.

        Raises:
            UnregisteredTypeError: a field is, say, a lock; the message names the path to it.
        """
        check_annotation(annotation, path, self.registry, code_too=self._pickles is not None)

    def _current(self) -> _Engine:
        engine = self._engine
        if engine.version != self.registry.version:
            engine = self._engine = _Engine(self.registry, self.max_depth, self._pickles)
        return engine

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._engine = _Engine(self.registry, self.max_depth, self._pickles)


class _Engine:
    """A reader and two writers for one version of the registry."""

    def __init__(self, registry: Registry, max_depth: int, pickles: SignedPickles | None) -> None:
        plans = Plans(registry, pickles)
        self.version = plans.version
        self.writer = Writer(plans, max_depth)
        self.careful_writer = Writer(plans, max_depth, careful=True)
        self.reader = Reader(plans)


_raw_reader = Reader(RawPlans())
