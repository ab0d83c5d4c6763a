"""F26: two processes answer one stop at the same moment, on every store that processes can share."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import rival_program
from stored_runs import header_of, paused, refused

from blobcp import UnknownInterruptError
from blobcp.stores import open_store

LIMIT = 60.0
"""Seconds after which a process that says nothing is stuck."""

ROUNDS = 20


class Rival:
    """One of the two processes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.expect("ready")

    def tell(self, checkpoint_id: str, answer: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([checkpoint_id, answer]) + "\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], LIMIT)[0], "the process is stuck"
        return self.process.stdout.readline().strip()

    def expect(self, line: str) -> None:
        assert self.said() == line


@contextmanager
def rivals(url: str, driver: str, folder: Path) -> Iterator[list[Rival]]:
    """Start the two processes; each ends when its input does."""
    with ExitStack() as stack:
        started = []
        for name in rival_program.RIVALS:
            command = [sys.executable, rival_program.__file__, url, driver, name, str(folder)]
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
            stack.callback(process.kill)
            started.append(Rival(process))
        yield started
        for rival in started:
            assert rival.process.stdin is not None
            rival.process.stdin.close()
            assert rival.process.wait(LIMIT) == 0


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("equal", [False, True], ids=["unequal", "equal"])
def test_one_of_two_answers_wins(shared_url: str, driver: str, equal: bool, tmp_path: Path) -> None:
    """F26: in every round one process gets on and the other is told of the conflict; what is stored is the winner's."""
    app = rival_program.build(shared_url, "judge", tmp_path)
    store = open_store(shared_url)
    with rivals(shared_url, driver, tmp_path) as both:
        for number in range(ROUNDS):
            checkpoint_id = f"round/{number}"
            ending = "!" if number % 2 else ""
            answers = ["same" + ending] * 2 if equal else ["ann" + ending, "bob" + ending]
            paused(app.invoke, f"job{number}", checkpoint_id=checkpoint_id)

            for rival, answer in zip(both, answers, strict=True):
                rival.tell(checkpoint_id, answer)
            outcomes = [tuple(json.loads(rival.said())) for rival in both]

            won = [text for kind, text in outcomes if kind != "conflict"]
            assert ("conflict", checkpoint_id) in outcomes, (number, outcomes)
            assert len(won) == 1, (number, outcomes)
            assert won[0] == f"job{number} done by {answers[outcomes[0][0] == 'conflict']}"
            waiting = [point.info for point in app.pending(checkpoint_id)]
            assert waiting == (won if ending else [])
            assert header_of(store, checkpoint_id).status == ("interrupted" if ending else "done")


def test_the_one_who_comes_late_is_told_before_anything_runs(shared_url: str, tmp_path: Path) -> None:
    """Whoever answers after the other has finished is refused without a side effect."""
    first = rival_program.build(shared_url, "first", tmp_path)
    late = rival_program.build(shared_url, "late", tmp_path)
    stop = paused(first.invoke, "job", checkpoint_id="A")
    paused(first.resume, "A", answer="first!")

    refused(UnknownInterruptError, late.resume, "A", {stop.interrupts[0].id: "late"})

    assert [path.name for path in tmp_path.glob("job-*")] == ["job-first"]
