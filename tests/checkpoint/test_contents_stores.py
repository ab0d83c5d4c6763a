"""Which methods of a store a driver calls, and where."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from drivers import Runner
from graphs import chain
from stored_runs import TwoMethodStore, header_of, paused, refused

from blobcp import CheckpointSaveError, GraphBuildError, Interrupted, OptionError, StoreError


class AsyncStore:
    """A store whose two methods are awaited."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.error: Exception | None = None

    async def get(self, checkpoint_id: str) -> bytes | None:
        await asyncio.sleep(0)
        self.calls.append(("get", checkpoint_id))
        if self.error:
            raise self.error
        return self.blobs.get(checkpoint_id)

    async def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        await asyncio.sleep(0)
        self.calls.append(("set", checkpoint_id))
        if self.error:
            raise self.error
        self.blobs[checkpoint_id] = checkpoint


class Placing(TwoMethodStore):
    """A store that notes the thread that each call comes from."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def get(self, checkpoint_id: str) -> bytes | None:
        self.threads.append(threading.get_ident())
        return super().get(checkpoint_id)

    def set(self, checkpoint_id: str, checkpoint: bytes) -> None:
        self.threads.append(threading.get_ident())
        super().set(checkpoint_id, checkpoint)


class Quick(Placing):
    """A store that says that its calls return at once."""

    blocking = False


def test_an_async_store(mode: dict[str, Any]) -> None:
    """B058: the asyncio driver awaits an async store, with the same traffic as any other."""
    store = AsyncStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], **mode)

    async def story() -> str:
        with pytest.raises(Interrupted) as caught:
            await app.ainvoke("a", checkpoint_id="A")
        points = await app.apending("A")
        assert [point.id for point in points] == [point.id for point in caught.value.interrupts]
        result: str = await app.aresume("A")
        return result

    assert asyncio.run(story()) == "a12"
    assert store.calls == [("get", "A"), ("set", "A"), ("get", "A"), ("get", "A"), ("set", "A")]


def test_an_async_store_that_fails(mode: dict[str, Any]) -> None:
    """F18, F25: its errors are told like those of any other store."""
    store = AsyncStore()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"], **mode)
    store.error = ConnectionError("gone")
    with pytest.raises(StoreError) as caught:
        asyncio.run(app.ainvoke("a", checkpoint_id="A"))
    assert caught.value.__cause__ is store.error
    with pytest.raises(CheckpointSaveError) as unsaved:
        asyncio.run(app.ainvoke("a", write_to_checkpoint_id="A"))
    assert unsaved.value.__cause__ is store.error
    store.error = None
    asyncio.run(app.aretry_save(unsaved.value))

    assert asyncio.run(app.aresume("A")) == "a12"


def test_an_async_store_and_the_threaded_driver(mode: dict[str, Any]) -> None:
    """P6: the threaded driver refuses an async store before anything runs, and says what to call instead."""
    store = AsyncStore()
    app = chain("1").compile(store=store, **mode)

    for call in (lambda: app.invoke("a", checkpoint_id="A"), lambda: app.resume("A"), lambda: app.pending("A")):
        assert "ainvoke" in str(refused(OptionError, call))
    assert store.calls == []


@pytest.mark.parametrize("kind", [Placing, Quick])
def test_where_a_store_is_called(runner: Runner, kind: type[Placing]) -> None:
    """The asyncio driver calls a store in a worker thread, except one that does not block; the threaded one calls it itself."""
    store = kind()
    app = chain("1", "2").compile(store=store, interrupt_before=["2"])
    paused(runner.invoke, app, "a", checkpoint_id="A")
    runner.resume(app, "A")

    here = [thread == threading.get_ident() for thread in store.threads]
    assert here == [runner.name == "sync" or kind is Quick] * 4


@pytest.mark.parametrize("store", [object(), "folder", {}, TwoMethodStore], ids=["object", "text", "dict", "class"])
def test_what_is_no_store(store: Any) -> None:
    """P6: what lacks the two methods, or is a store's class, is refused when compiling."""
    with pytest.raises(GraphBuildError, match="store"):
        chain("1").compile(store=store)


ODD = [
    "../evil",
    "/abs",
    "a/b",
    "a:b",
    "a\\b",
    "a b",
    ".",
    "..",
    "*",
    "a%2fb",
    "A",
    "a",
    "é",
    "e\u0301",
    "CON",
    "☕" * 170,
]


def test_odd_ids(runner: Runner, store: Any) -> None:
    """F20: every id keeps its own run, whatever stands in it, also as what a fork is written to."""
    app = chain("1", "2").compile(store=store, interrupt_before=["2"])
    for number, id in enumerate(ODD):
        paused(runner.invoke, app, str(number), checkpoint_id=id)
    for number, id in enumerate(ODD):
        assert header_of(store, id).checkpoint_id == id
        assert runner.resume(app, id, write_to_checkpoint_id=f"{id}!"[:200]) == f"{number}12"
        assert header_of(store, f"{id}!"[:200]).parent.id == id
    assert len({*store.list()}) == 2 * len(ODD)


@pytest.mark.parametrize("durability", ["sync", "async", "never"])
def test_durability_that_is_not_offered(durability: str) -> None:
    """P6: what is not offered yet, or not known, is refused when compiling and not ignored."""
    with pytest.raises(GraphBuildError, match=durability):
        chain("1").compile(store=TwoMethodStore(), durability=durability)
