"""A stopped run under test, and all the calls that must refuse what is put in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from drivers import Runner
from graphs import Calls, chain
from stored_runs import TwoMethodStore, paused, refused

from blobcp import App, BlobcpError, interrupt

__all__ = ["Bench", "Text", "resealed"]


@dataclass
class Text:
    """A graph's state."""

    a: str = ""


class Bench:
    """An app with one stopped run under A, of which every entry and every write is counted."""

    def __init__(self, runner: Runner, mode: dict[str, Any]) -> None:
        self.runner = runner
        self.store = TwoMethodStore()
        self.calls = Calls()
        self.app = self.build(self.store, mode)
        self.stop = paused(runner.invoke, self.app, "a", checkpoint_id="A")
        self.blob = self.store.blobs["A"]
        self.mode = mode

    def build(self, store: Any, mode: dict[str, Any], **options: Any) -> App:
        """Return START -> 1 -> ask -> END."""

        def ask(text: str) -> str:
            self.calls.note("ask", text)
            return text + str(interrupt("q"))

        return chain("1", "ask", calls=self.calls, state=Text, ask=ask).compile(store=store, **mode, **options)

    def refuses(
        self, kind: type[BlobcpError], blob: bytes, *, id: str = "A", app: App | None = None, pending: bool = True
    ) -> Any:
        """Put a blob under an id, try all that reads it (``pending`` included), return the last error."""
        app = app or self.app
        self.store.blobs[id] = blob
        entered, writes = list(self.calls.order), len(self.store.versions)
        error: Any = None
        for call, arguments, options in (
            (self.runner.resume, (id,), {}),
            (self.runner.resume, (id, {self.stop.interrupts[0].id: "!"}), {}),
            (self.runner.resume, (id,), {"answer": "!", "write_to_checkpoint_id": "B"}),
            (self.runner.invoke, ("a",), {"checkpoint_id": id}),
            (self.runner.invoke, ("a",), {"checkpoint_id": id, "write_to_checkpoint_id": "B"}),
            *([(self.runner.pending, (id,), {})] if pending else []),
        ):
            error = refused(kind, call, app, *arguments, **options)
            told = str(error) + "".join(getattr(error, "__notes__", ()))
            assert repr(id) in told, told
        assert self.calls.order == entered
        assert len(self.store.versions) == writes
        assert self.store.blobs[id] == blob
        assert "B" not in self.store.blobs
        return error


def resealed(blob: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Return a blob with changed bytes and a digest that fits them."""
    body = bytearray(blob[:-32])
    change(body)
    return bytes(body) + blake2b(body, digest_size=32).digest()
