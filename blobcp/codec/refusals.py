"""From a refusal to the error that the user sees: the path, the class, and what to do."""

from __future__ import annotations

from blobcp.codec.kinds import qualified_name
from blobcp.codec.paths import joined, shown
from blobcp.codec.shape import Refusal
from blobcp.errors import SerializationError, UnregisteredTypeError

__all__ = ["error_of", "foreign", "too_deep"]


def too_deep(max_depth: int) -> Refusal:
    """Refuse a container that is too deep down, or that holds itself."""
    return Refusal(
        f"it is nested too deeply (more than {max_depth} levels of max_depth, or than the stack has room for here); "
        "flatten it, for instance into a dict by id",
        too_deep=True,
    )


def error_of(refusal: Refusal) -> SerializationError:
    """Return the error that names the whole way to what was refused."""
    steps = refusal.steps[::-1]
    if refusal.too_deep:
        repeated = _first_repetition(refusal.holders[::-1])
        if repeated:
            first, again = (joined(steps[:index]) for index in repeated)
            return SerializationError(
                f"{shown(again)}: the value holds itself, since this is the same object as {shown(first)}; store an id in "
                "place of the reference",
                path=again,
            )
    path = joined(steps)
    if refusal.type is None:
        return SerializationError(f"{shown(path)}: {refusal.advice}", path=path)
    message = f"{shown(path)}: a value of class {qualified_name(refusal.type)} can't be stored; {refusal.advice}"
    return UnregisteredTypeError(message, path=path, type=refusal.type)


def _first_repetition(holders: list[object]) -> tuple[int, int] | None:
    seen: dict[int, int] = {}
    for index, holder in enumerate(holders):
        if id(holder) in seen:
            return seen[id(holder)], index
        seen[id(holder)] = index
    return None


def foreign(problem: Exception) -> SerializationError:
    """Return the error for what code of the user's raised meanwhile."""
    return SerializationError(
        f"the value can't be stored: {type(problem).__name__}: {problem}; make sure that nothing changes it meanwhile "
        "and that its attributes can be read"
    )
