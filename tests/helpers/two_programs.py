"""An application in an older and a newer release: same names in blobs, other classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from stored_runs import blob_of, header_of

from blobcp import END, START, Checkpoint, Envelope, Graph, Header, MsgpackSerializer, Registry, interrupt, register
from blobcp.migrations import Migrations, rename_field

__all__ = ["NEW", "OLD", "New", "Old", "body_of", "nested", "quantities", "seal", "single", "stamp"]


@dataclass
class Old:
    """The state of the older release."""

    qty: int = 0


@dataclass
class New:
    """The state of the newer one, stored under the same name."""

    quantity: int = -1


OLD, NEW = MsgpackSerializer(Registry()), MsgpackSerializer(Registry())
register(Old, name="shop.Order", registry=OLD.registry)
register(New, name="shop.Order", registry=NEW.registry)


def quantities() -> Migrations:
    """Return the migration 1 -> 2, which renames ``qty`` to ``quantity``."""
    migrations = Migrations(2)
    migrations.add(1, 2, rename_field("shop.Order", "qty", "quantity"))
    return migrations


def single(release: type[Any], ask: str = "ask") -> Graph:
    """Return START -> fill -> ask -> END; it gives the answer and the number that `fill` put into the state."""

    def fill(text: str, order: Any) -> str:
        setattr(order, _field(release), len(text))
        return text

    def told(text: str, order: Any) -> str:
        return f"{text}{getattr(order, _field(release))}"

    graph = Graph(str, str, state=release)
    graph.add_node("fill", lambda text: text, pre=fill)
    graph.add_node(ask, lambda text: str(interrupt("q")), post=told)
    graph.add_edge(START, "fill")
    graph.add_edge("fill", ask)
    graph.add_edge(ask, END)
    return graph


def nested(release: type[Any]) -> Graph:
    """Return START -> fill -> inner -> END, where inner is `single`, and which adds its own number at the end."""

    def fill(text: str, order: Any) -> str:
        setattr(order, _field(release), 10 * len(text))
        return text

    def told(text: str, order: Any) -> str:
        return f"{text}/{getattr(order, _field(release))}"

    graph = Graph(str, str, state=release)
    graph.add_node("fill", lambda text: text, pre=fill)
    graph.add_node("inner", single(release), post=told)
    graph.add_edge(START, "fill")
    graph.add_edge("fill", "inner")
    graph.add_edge("inner", END)
    return graph


def _field(release: type[Any]) -> str:
    return "qty" if release is Old else "quantity"


def seal(checkpoint: Checkpoint, by: Any, /, **header: Any) -> bytes:
    """Return a checkpoint as a blob with the id A, written by a serializer."""
    name = getattr(by, "name", type(by).__name__)
    fields = {"serializer": name, "checkpoint_id": "A", "status": "interrupted", "graph": "root", **header}
    return Envelope().seal(Header(**fields), by.dumps(checkpoint))


def body_of(blob: bytes, serializer: Any, checkpoint_id: str = "A") -> Checkpoint:
    """Return the checkpoint in a blob."""
    _, body = Envelope().open(blob, checkpoint_id=checkpoint_id)
    checkpoint = serializer.loads(body)
    assert isinstance(checkpoint, Checkpoint)
    return checkpoint


def stamp(store: Any, checkpoint_id: str, version: int) -> None:
    """Change the state version in the header of what is stored."""
    header = msgspec.structs.replace(header_of(store, checkpoint_id), state_version=version)
    store.blobs[checkpoint_id] = Envelope().reseal(
        blob_of(store, checkpoint_id), checkpoint_id=checkpoint_id, header=header
    )
