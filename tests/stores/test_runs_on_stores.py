"""Stop, resume, fork and restart a run on every store that comes with blobcp, by both drivers."""

from __future__ import annotations

from drivers import Runner
from graphs import Calls, appending, chain
from stored_runs import header_of, paused, refused, sha

from blobcp import CheckpointDoneError, CheckpointNotFoundError, interrupt
from blobcp.stores import open_store


def test_stop_resume_fork_restart(runner: Runner, shared_url: str) -> None:
    """A run stops, is seen and answered by another opening of the store, is forked from its stop, and is started anew."""
    calls = Calls()
    graph = chain("look", "ask", look=appending(".", calls), ask=lambda text: text + interrupt("and?"))
    first = graph.compile(store=open_store(shared_url))
    paused(runner.invoke, first, "a", checkpoint_id="orders/17 ☕")
    store = open_store(shared_url)
    second = graph.compile(store=store, when_done="mark")
    [point] = runner.pending(second, "orders/17 ☕")
    assert point.info == "and?"
    before = sha(store, "orders/17 ☕")

    assert runner.resume(second, "orders/17 ☕", {point.id: "yes"}, write_to_checkpoint_id="yes") == "a.yes"
    assert sha(store, "orders/17 ☕") == before
    assert runner.resume(second, "orders/17 ☕", answer="no") == "a.no"
    refused(CheckpointDoneError, runner.resume, second, "orders/17 ☕", answer="again")
    paused(runner.invoke, second, "b", checkpoint_id="orders/17 ☕", force_new_run=True)
    assert runner.resume(second, "orders/17 ☕", answer="!") == "b.!"

    refused(CheckpointNotFoundError, runner.resume, second, "no such run")
    assert [header_of(store, name).status for name in ("orders/17 ☕", "yes")] == ["done", "done"]
    assert calls["."] == 2
