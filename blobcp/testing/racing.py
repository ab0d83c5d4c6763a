"""A race: many call ``set_if`` at the same moment, and exactly one of them wins."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from blobcp.errors import CheckpointConflictError, text_of
from blobcp.store import CheckPointStore, CheckPointSwapper

from .bench import Bench
from .failing import Failed, expect
from .threads import lingering, together

__all__ = ["race"]


def race(bench: Bench, checkpoint_id: str, version: str | None, stores: Sequence[CheckPointStore]) -> str:
    """Let all writers do the same ``set_if`` at once, each with bytes of its own; return the winner's version.

    Raises:
        Failed: there was not exactly one winner, a loser saw another error than a conflict, or what is stored is not the
            winner's.
    """
    writers = bench.options.writers
    # Other bytes in each race, so that a version made of them moves also where a writer wins twice in a row.
    blobs = [f"of writer {number} in race {secrets.token_hex(8)}".encode() for number in range(writers)]

    def act(number: int) -> str:
        store = stores[number % len(stores)]
        assert isinstance(store, CheckPointSwapper)
        return store.set_if(slow_id, blobs[number], None if version is None else slow_version)

    with lingering(checkpoint_id) as slow_id, lingering(version or "") as slow_version:
        answers = together(writers, act, bench.options.patience)
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, CheckpointConflictError):
            raise Failed(f"one of {writers} that wrote at once saw {text_of(answer)} instead of a conflict") from answer
    winners = {number: answer for number, answer in enumerate(answers) if isinstance(answer, str)}
    if len(winners) != 1:
        raise Failed(f"{len(winners)} of {writers} that wrote at once over one version were told that they had won")
    [(winner, new)] = winners.items()
    expect("get_versioned after a race", bench.swapper.get_versioned(checkpoint_id), (blobs[winner], new))
    return new
