"""What two blobs differ in, as text, without the classes of what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from blobcp.codec import Envelope, RawValue, Serializer

from .blobs import checkpointer_of, open_blob
from .texts import printable

__all__ = ["Change", "Sample", "differences", "sample_of"]

MAX_TEXT: Final = 80
MAX_CHANGES: Final = 20


class _Absent:
    """Stands for what one of two values does not have."""


_ABSENT: Final = _Absent()


class Change(msgspec.Struct, frozen=True):
    """One difference.

    Attributes:
        path: where it is, for instance ``state.jobs[1].quantity``.
        before: the older value as text, cut short; ``None`` where there was none.
        after: the newer one.
    """

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return printable(f"+ {self.path} = {self.after}")
        if self.after is None:
            return printable(f"- {self.path} = {self.before}")
        return printable(f"~ {self.path}: {self.before} -> {self.after}")


class Sample(msgspec.Struct, frozen=True):
    """The differences that a job makes to one blob.

    Attributes:
        id: the id of the blob.
        changes: the first of them.
        more: how many others there are.
    """

    id: str
    changes: list[Change]
    more: int = 0

    def __str__(self) -> str:
        more = [f"  and {self.more} more"] if self.more else []
        return "\n".join([printable(self.id), *(f"  {change}" for change in self.changes), *more])


def differences(
    before: bytes, after: bytes, *, serializer: Serializer | None = None, envelope: Envelope | None = None
) -> list[Change]:
    """Return what two blobs differ in: the fields of their headers, and what they hold.

    Args:
        before: the older blob.
        after: the newer one.
        serializer: the one that both were written by; ``None``: a `MsgpackSerializer`. One without ``loads_raw`` needs the
            classes of what they hold.
        envelope: the one that both were sealed by; ``None``: an `Envelope` with its defaults.

    Raises:
        CheckpointError: one is no blob that can be opened.
        SerializationError: one can't be read.

    >>> from blobcp import Checkpoint, Envelope, Header, MsgpackSerializer
    >>> def blob(state):
    ...     header = Header(checkpoint_id="order-17")
    ...     return Envelope().seal(header, MsgpackSerializer().dumps(Checkpoint(state=state)))
    >>> for change in differences(blob({"qty": 3, "id": 1}), blob({"quantity": 3, "id": 2})):
    ...     print(change)
    - state['qty'] = 3
    ~ state['id']: 1 -> 2
    + state['quantity'] = 3
    """
    return list(_differences(before, after, serializer, envelope))


def sample_of(id: str, before: bytes, after: bytes, serializer: Serializer, envelope: Envelope) -> Sample:
    """Return the first differences of two blobs and how many others there are."""
    changes: list[Change] = []
    more = 0
    for change in _differences(before, after, serializer, envelope):
        if len(changes) < MAX_CHANGES:
            changes.append(change)
        else:
            more += 1
    return Sample(id, changes, more)


def _differences(
    before: bytes, after: bytes, serializer: Serializer | None, envelope: Envelope | None
) -> Iterator[Change]:
    checkpointer = checkpointer_of(serializer, envelope)
    raw = callable(getattr(checkpointer.serializer, "loads_raw", None))
    sides = []
    for blob in (before, after):
        header, body = open_blob(checkpointer, blob, None)
        checkpoint = checkpointer.restore(header.checkpoint_id, body, raw=raw) if body else None
        sides.append((header, checkpoint))
    (old_header, old), (new_header, new) = sides
    yield from _compared("header", old_header, new_header)
    yield from _compared("", old, new)


def _compared(path: str, before: Any, after: Any) -> Iterator[Change]:
    stack = [(path, before, after)]  # not by recursion: values may be nested as deeply as Python's own stack allows
    while stack:
        path, before, after = stack.pop()
        if before is after:
            continue
        old, new = _parts(before), _parts(after)
        if type(before) is not type(after) or old is None or new is None:
            if not _same(before, after):
                yield Change(path.lstrip("."), _shown(before), _shown(after))
            continue
        if isinstance(before, RawValue) and (before.name, before.kind) != (after.name, after.kind):
            yield Change(f"{path.lstrip('.')} (its class)", before.name, after.name)
        steps = [*old, *(step for step in new if step not in old)]
        stack.extend((path + step, old.get(step, _ABSENT), new.get(step, _ABSENT)) for step in reversed(steps))


def _parts(value: Any) -> dict[str, Any] | None:
    """Return what a value consists of by the steps that lead there; ``None`` where it is one whole."""
    if isinstance(value, RawValue):
        return _raw_parts(value)
    if isinstance(value, msgspec.Struct):
        return {f".{name}": getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {f"[{_shown(key)}]": item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return {f"[{index}]": item for index, item in enumerate(value)}
    return None


def _raw_parts(value: RawValue) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for index, part in enumerate(value.parts):
        if isinstance(part, dict) and value.name:
            parts.update((f".{name}", item) for name, item in part.items())
        else:
            parts[f".parts[{index}]"] = part
    return parts


def _same(before: Any, after: Any) -> bool:
    if type(before) is not type(after):
        return False
    try:
        return bool(before == after) or repr(before) == repr(after)  # NaN is equal to nothing
    except Exception:  # an array's == is an array
        return repr(before) == repr(after)


def _shown(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python writes, in it or itself
        text = hex(value) if type(value) is int else object.__repr__(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
