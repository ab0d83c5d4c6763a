"""Single values as signed pickles inside a MessagePack body, where somebody turned that on."""

from __future__ import annotations

from typing import Any

from blobcp.codec.pickled import SignatureProblem, SignedPickles
from blobcp.codec.shape import PICKLED, LoadProblem, Parts, Refusal, Shape, no_step

__all__ = ["CELL_PURPOSE", "pickled_shape", "refuse_pickle"]

CELL_PURPOSE = b"blobcp-cell"
"""What the signature of such a value is for; that of a whole body is for something else."""


def pickled_shape(pickles: SignedPickles) -> Shape:
    """Return how a value that nothing else can store is stored."""

    def take(value: Any) -> Parts:
        try:
            return [pickles.dumps(value)]
        except Exception as problem:  # __reduce__ and __getstate__ are the user's
            raise Refusal(
                f"a value of class {type(value).__qualname__} can't be pickled either ({type(problem).__name__}: "
                f"{problem}); keep what belongs to the running process outside the state and make it anew in the node"
            ) from problem

    def build(parts: Parts) -> Any:
        (signed,) = parts
        try:
            return pickles.loads(signed)
        except SignatureProblem:
            raise LoadProblem(
                "a pickle is stored here that is not signed with one of the keys, so it is not allowed to load: it is "
                "corrupt, written by somebody else, or with a key that is missing in pickle_key=[newest, older]"
            ) from None

    return Shape(PICKLED, take, build, no_step)


def refuse_pickle(parts: Parts) -> Any:
    """Refuse a pickle where they are not turned on.

    Raises:
        LoadProblem: always.
    """
    raise LoadProblem(
        "a signed pickle is stored here, and pickles are not allowed to load without their key: give it as "
        "MsgpackSerializer(pickle_key=...) if you trust whoever has it"
    )
