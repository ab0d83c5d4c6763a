"""What became of one blob of a job: small, so that it travels between processes and is a line of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from blobcp.errors import BlobcpError, text_of

from .differences import Sample
from .dropped import Dropped

__all__ = ["Became", "Intent", "Outcome", "failure_of"]

Became = Literal["changed", "unchanged", "failed", "skipped", "missing"]


class Outcome(msgspec.Struct, kw_only=True, omit_defaults=True, tag="outcome"):
    """What became of one blob.

    Attributes:
        id: its id.
        became: ``changed`` (or copied, or put back), ``unchanged``, ``failed`` (and as it was), ``skipped`` (not selected) or
            ``missing`` (there is none).
        read: the bytes that were read of it.
        written: the bytes that were written in its place.
        conflicts: how often somebody else had written it since it was read.
        dropped: what the migration has dropped of it.
        reason: why it failed.
        path: where in it.
        error: the class of the exception.
        sample: its differences, where they were asked for.
    """

    id: str
    became: Became
    read: int = 0
    written: int = 0
    conflicts: int = 0
    dropped: Sequence[Dropped] = ()
    reason: str = ""
    path: str = ""
    error: str = ""
    sample: Sample | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a later run of the job need not look again; what failed or was not there, it tries again."""
        return self.became not in ("failed", "missing")


class Intent(msgspec.Struct, kw_only=True, frozen=True, tag="intent"):
    """A write that is about to be made. Found without an outcome later, it says how to tell whether it was made.

    Attributes:
        id: the id.
        digest: of the bytes that are to be written.
        outcome: what has become of the blob once they are.
    """

    id: str
    digest: str
    outcome: Outcome


def failure_of(id: str, error: BaseException, conflicts: int = 0) -> Outcome:
    """Return the outcome for a blob that an error has kept as it was."""
    path = getattr(error, "path", "")
    return Outcome(
        id=id.encode("utf-8", "backslashreplace").decode(),  # what is no id may be no text either
        became="failed",
        conflicts=conflicts,
        reason=str(error) if isinstance(error, BlobcpError) else text_of(error),
        path=path if isinstance(path, str) else "/".join(map(str, path)),
        error=type(error).__name__,
    )
