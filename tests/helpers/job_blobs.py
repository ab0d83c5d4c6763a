"""Stored runs by the thousand, in no time, and a migration for them; a module, so that other processes can import it."""

from __future__ import annotations

import threading
from typing import Any

from blobcp import Checkpoint, Envelope, Header, MsgpackSerializer
from blobcp.checkpoint import PregelChannelState
from blobcp.migrations import Migrations, rename_field
from blobcp.store import CheckPointStore

__all__ = ["SERIALIZER", "Barrier", "blob_of_run", "chain", "count_up", "counted", "fill", "reason_for", "state_in"]

SERIALIZER = MsgpackSerializer()

_SEALED = Envelope()


def blob_of_run(id: str, state: Any, **header: Any) -> bytes:
    """Return the blob of a run that waits, with a state of plain values."""
    checkpoint = Checkpoint(
        state=state, channels={"end": PregelChannelState()}, inputs={"ask": "?"}, rerun_nodes=["ask"]
    )
    fields = {"checkpoint_id": id, "status": "interrupted", "graph": "orders", **header}
    return _SEALED.seal(Header(**fields), SERIALIZER.dumps(checkpoint))


def fill(store: CheckPointStore, count: int, prefix: str = "order-") -> list[str]:
    """Store so many runs, each with a number and a counter of its migrations, and return their ids in order."""
    ids = [f"{prefix}{number:06}" for number in range(count)]
    for number, id in enumerate(ids):
        store.set(id, blob_of_run(id, {"qty": number, "entries": 0}))
    return ids


def state_in(store: CheckPointStore, id: str) -> Any:
    """Return the state that is stored under an id."""
    blob = store.get(id)
    assert blob is not None, id
    checkpoint = SERIALIZER.loads(_SEALED.open(blob, checkpoint_id=id)[1])
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint.state


def count_up(state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Migrate in a way that shows how often it was done."""
    state["entries"] += 1
    return state, True


def reason_for(state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Fail for every tenth, and leave every seventh alone."""
    if state["qty"] % 10 == 3:
        raise ValueError(f"no more than {state['qty']}")
    return count_up(state) if state["qty"] % 7 else (state, False)


def counted(store: CheckPointStore, ids: list[str]) -> dict[int, int]:
    """Return how many blobs were migrated how often."""
    found: dict[int, int] = {}
    for id in ids:
        entries = state_in(store, id)["entries"]
        found[entries] = found.get(entries, 0) + 1
    return found


def chain() -> Migrations:
    """Return 1 -> 2 -> 3 by functions of this module, one of which drops something."""
    migrations = Migrations(3)
    migrations.step(1, 2)(_rename)
    migrations.add(2, 3, rename_field("shop.Order", "qty", "quantity"))
    return migrations


def _rename(state: dict[str, Any]) -> None:
    state["quantity"] = state.pop("qty")


class Barrier:
    """Lets a thread go on when another one says so.

    Attributes:
        reached: set once somebody waits.
        opened: lets everybody go on.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        """Say that one is here and wait."""
        self.reached.set()
        assert self.opened.wait(20)
