"""What every store says when a conditional write comes too late."""

from __future__ import annotations

from blobcp.errors import CheckpointConflictError

__all__ = ["conflict"]


def conflict(checkpoint_id: str) -> CheckpointConflictError:
    """Return the error for a write whose caller has not seen what is stored by now."""
    return CheckpointConflictError(
        f"conflict: checkpoint {checkpoint_id!r} was written by somebody else since it was read; "
        "nothing was changed, read it again",
        checkpoint_id=checkpoint_id,
    )
