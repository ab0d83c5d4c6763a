from __future__ import annotations

from typing import Any

import pytest

from blobcp import END, START, App, CheckpointKeyError, Envelope, Graph, Interrupted, KeyRing, interrupt, read_header
from blobcp.stores import MapStore

RING = KeyRing({"2026-11": bytes(32)})
FLAGS_AT = 4

SEALS: dict[str, tuple[dict[str, Any], int]] = {
    "zlib": ({"compression": "zlib"}, 1),
    "zstd": ({"compression": "zstd"}, 2),
    "encrypted": ({"keys": RING}, 4),
    "signed": ({"sign": RING}, 8),
    "all": ({"compression": "zstd", "keys": RING, "sign": RING}, 14),
}


def app_with(store: MapStore, envelope: Envelope | None) -> App[Any, Any]:
    """Return an app that asks, with long words, and gives back the answer."""
    graph = Graph(str, str)
    graph.add_node("ask", lambda text: interrupt(text * 200))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(store=store, envelope=envelope)


def blob_in(store: MapStore, checkpoint_id: str) -> bytes:
    """Return what is stored."""
    blob = store.get(checkpoint_id)
    assert blob is not None
    return blob


@pytest.mark.parametrize(("options", "flags"), SEALS.values(), ids=SEALS)
def test_a_run_seals_all_that_it_stores(options: dict[str, Any], flags: int) -> None:
    """Stops, forks and marks are sealed by the app's envelope, and are read by another app with the same one."""
    store = MapStore()
    with pytest.raises(Interrupted):
        app_with(store, Envelope(**options)).invoke("why? ", checkpoint_id="A")
    app = app_with(store, Envelope(**options))
    with pytest.raises(Interrupted):
        app.invoke(checkpoint_id="A", write_to_checkpoint_id="B")

    assert app.resume("B", answer="so") == "so"
    assert [blob_in(store, id)[FLAGS_AT] for id in "AB"] == [flags, flags & ~3]
    assert [read_header(blob_in(store, id)).status for id in "AB"] == ["interrupted", "done"]
    assert app.resume("A", answer="thus") == "thus"


@pytest.mark.parametrize("name", ["encrypted", "signed", "all"])
def test_apps_with_other_keys_run_nothing(name: str) -> None:
    """A sealed checkpoint is no new run for an app without the key, nor is a plain one for an app that has keys."""
    store = MapStore()
    sealed, plain = app_with(store, Envelope(**SEALS[name][0])), app_with(store, None)
    for app, id in ((sealed, "sealed"), (plain, "plain")):
        with pytest.raises(Interrupted):
            app.invoke("why? ", checkpoint_id=id)

    for app, id in ((sealed, "plain"), (plain, "sealed")):
        before = store.get(id)
        for use in (lambda: app.invoke(checkpoint_id=id), lambda: app.resume(id), lambda: app.pending(id)):  # noqa: B023
            with pytest.raises(CheckpointKeyError) as caught:
                use()
            assert caught.value.checkpoint_id == id
        assert store.get(id) == before
