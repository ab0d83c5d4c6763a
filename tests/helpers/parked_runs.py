"""Blobs of parked runs, made without running a graph: what the command line is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from blobcp import Address, Checkpoint, Envelope, Header, MsgpackSerializer, RawValue
from blobcp.checkpoint import InterruptState, PregelChannelState
from blobcp.codec import PendingInterrupt
from blobcp.codec.envelope import Status

__all__ = ["ODD_IDS", "parked"]

ODD_IDS = [
    "../x",
    "-dash",
    "[red]a[/red]",
    "\u202eright",
    "a b",
    "tab\there",
    "two\nlines",
    "Ünï ☕🎉",
    "'quoted'",
    '"',
    "\\",
]
"""Ids that would spoil a table, a line or a terminal if they were printed as they are."""

WRITTEN = datetime(2026, 11, 3, 9, 8, 7, 654321, tzinfo=UTC)


def parked(
    id: str,
    *,
    status: Status = "interrupted",
    graph: str = "shop",
    age: timedelta | None = None,
    state: Any = None,
    envelope: Envelope | None = None,
    **fields: Any,
) -> bytes:
    """Return the blob of a run that waits for an answer, or is done.

    Args:
        id: its id.
        status: what became of it.
        graph: the name of its graph.
        age: how long ago it was written; by default at `WRITTEN`.
        state: its state; by default a cart of a class that is nowhere registered.
        envelope: seals it.
        fields: others of its header.
    """
    header = Header(
        checkpoint_id=id,
        status=status,
        graph=graph,
        step=2,
        run_id="run-1",
        created_at=WRITTEN if age is None else datetime.now(UTC) - age,
        pending=[] if status == "done" else [PendingInterrupt(id="i1", address="runnable:shop;node:ask")],
        **fields,
    )
    seal = (envelope or Envelope()).seal
    if status == "done":
        return seal(header, b"")
    checkpoint = Checkpoint(
        channels={"ask": PregelChannelState(values={"start": "tea"})},
        state=RawValue("shop.Cart", {"items": ["tea"], "paid": False}) if state is None else state,
        interrupt_id_to_address={"i1": Address.of(("runnable", "shop"), ("node", "ask"))},
        interrupt_id_to_state={"i1": InterruptState(info=("pay?", 3), created_at=WRITTEN)},
    )
    return seal(header, MsgpackSerializer().dumps(checkpoint))
