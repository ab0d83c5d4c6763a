"""Ordinary user code, for type checkers: `mypy --strict` must find nothing wrong with it. It is never run."""

# ruff: noqa: D103 - what these functions do is beside the point

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from blobcp import (
    END,
    NO_DATA,
    START,
    Address,
    App,
    CheckpointSaveError,
    Graph,
    Header,
    Interrupted,
    InterruptPoint,
    InterruptSignal,
    MsgpackSerializer,
    NodeError,
    RawValue,
    Registry,
    Serializer,
    Tool,
    ToolCall,
    ToolsNode,
    UnknownInterruptError,
    UnregisteredTypeError,
    address_segment,
    composite_interrupt,
    current_address,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    is_typed_none,
    read_header,
    register,
    register_codec,
    register_merge,
    register_typed_none,
    serializable,
    use_state,
)
from blobcp.migrations import Dropped, Migrations, add_field, migrate_checkpoint_state, remove_node, rename_field
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointStore
from blobcp.stores import FileStore, MapStore


@serializable("typing.Order")
@dataclass(frozen=True)
class Order:
    number: str
    total: Decimal = Decimal(0)


@dataclass
class Log:
    lines: list[str] = field(default_factory=list)


def registrations() -> None:
    register(Log, name="typing.Log")
    register_codec(Fraction, lambda value: [value.numerator, value.denominator], lambda pair: Fraction(*pair))
    register_merge(Log, lambda logs: Log([line for log in logs for line in log.lines]))
    register_typed_none(Order, lambda order: not order.number)


def look_up(number: str) -> Order:
    return Order(number)


async def approve(order: Order) -> str:
    with use_state(Log) as log:
        log.lines.append(order.number)
    async with use_state(Log) as log:
        log.lines.append(str(current_address()))
    answer: bool = interrupt({"pay": order.total}, state=order)
    return "paid" if answer else "refused"


def several(order: Order) -> dict[str, Any]:
    was_interrupted, has_state, state = get_interrupt_state(dict)
    is_target, has_data, data = get_resume_data(str)
    signals: list[BaseException] = []
    with address_segment("job", "j1", "s") as address:
        try:
            interrupt(str(address))
        except InterruptSignal as signal:
            signals.append(signal)
    if signals:
        raise composite_interrupt("waits", state, signals)
    return {"flags": [was_interrupted, has_state, is_target, has_data], "data": data}


def note(value: Any, log: Log) -> Any:
    log.lines.append(repr(value))
    return value


def give_up(call: ToolCall, error: Exception) -> str:
    return f"{call.name} failed: {error}"


def tools() -> Graph:
    node = ToolsNode([look_up, Tool(approve, name="ask")], max_parallel=4, on_error=give_up, on_unknown="message")
    schemas: list[dict[str, Any]] = node.schemas()
    graph = Graph(dict, list, name=str(len(schemas)))
    graph.add_node("tools", node)
    return graph


def choose(order: Order) -> str:
    return END if is_typed_none(order) else "approve"


def build(store: CheckPointStore) -> App:
    inner = Graph(str, Order)
    inner.add_node("look_up", look_up)
    inner.add_edge(START, "look_up")
    inner.add_edge("look_up", END)
    graph = Graph(str, str, state=Log, name="orders")
    graph.add_node("inner", inner)
    graph.add_node("again", inner.compile())
    graph.add_node("approve", approve, pre=note, post=note, output_key="result")
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "again", data=False)
    graph.add_branch("inner", choose, ["approve", END])
    graph.add_edge("approve", END)
    return graph.compile(
        store=store, mode="dag", eager=False, interrupt_before=["approve"], serializer=MsgpackSerializer(Registry())
    )


def put_back(path: list[str], state: Any) -> Any:
    return Log() if path else None


def run(app: App, store: FileStore | MapStore) -> str:
    try:
        app.check("1042")
        result: str = app.invoke("1042", checkpoint_id="a", state_modifier=put_back, concurrency=2)
    except Interrupted as stop:
        first: InterruptPoint = stop.interrupts[0]
        where: Address = first.parent.address if first.parent else first.address
        print(where, stop.info.rerun_nodes if stop.info else [], stop.checkpoint_id)
        result = app.resume("a", {first.id: True, "other": NO_DATA}, write_to_checkpoint_id="b")
    except CheckpointSaveError as error:
        if error.checkpoint_id is not None and error.blob is not None:
            store.set(error.checkpoint_id, error.blob)
        raise
    except UnregisteredTypeError as error:
        return f"{error.path}: {error.type}"
    except UnknownInterruptError as error:
        return ", ".join(error.unknown + error.pending)
    except NodeError as error:
        return "/".join(error.path)
    return result


async def run_async(app: App) -> list[InterruptPoint]:
    await app.ainvoke("1042", checkpoint_id="a", force_new_run=True)
    await app.aresume("a", answer=None)
    return await app.apending("a")


class Rot13:
    """A serializer of one's own needs no base class."""

    name = "rot13"

    def dumps(self, value: Any) -> bytes:
        return repr(value).encode()

    def loads(self, data: bytes | memoryview) -> Any:
        return bytes(data).decode()


class Remote:
    """Nor does a store, plain or async."""

    async def get(self, checkpoint_id: str) -> bytes | None:
        await asyncio.sleep(0)
        return None

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        await asyncio.sleep(0)


def look_at(store: CheckPointStore) -> list[Header]:
    blobs = [store.get(checkpoint_id) for checkpoint_id in store.list()] if isinstance(store, CheckPointLister) else []
    if isinstance(store, CheckPointDeleter):
        store.delete("a")
    return [read_header(blob) for blob in blobs if blob is not None]


migrations = Migrations(3)
migrations.add(1, 2, rename_field(Order, "no", "number"), add_field("typing.Order", "total", default_factory=Decimal))
migrations.add(1, 2, remove_node("old", path=["inner"], hand_to={"next": START}), graph="shop")


@migrations.step(2, 3, raw=True, state="typing.Log")
def shout(log: RawValue) -> None:
    log.fields["lines"] = [line.upper() for line in log.fields["lines"]]


@migrations.step(2, 3, path=("inner",))
def longer(log: Log) -> Log:
    return Log([*log.lines, "migrated"])


def bring_up(blob: bytes) -> tuple[bytes, list[Dropped]]:
    Graph(str, str).compile(migrations=migrations)
    done = migrations.apply(migrate_checkpoint_state(blob, lambda state: (state, False), state_version=2))
    return done.blob, list(done.dropped)


def main() -> None:
    serializer: Serializer = Rot13()
    app = build(FileStore("checkpoints"))
    print(run(app, MapStore()), asyncio.run(run_async(app)))
    Graph(str, str).compile(store=Remote(), serializer=serializer)
    print([header.status for header in look_at(MapStore())])
