"""A run that is cut at every stop, and taken through bytes each time, against the same run uncut.

Each stop is answered in part or in full, in any order, sometimes forked, sometimes just run again; every step is made by a
freshly built app, as a new process would. The uncut run, which knows all answers beforehand, is the oracle: same output,
same states, every node body finished exactly once; streaming nodes in steps at least once.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from drivers import AsyncRunner, Runner
from graphs import Calls
from random_graphs import Builder, GraphSpec

from blobcp import NO_DATA, Interrupted, InterruptPoint, concat, interrupt
from blobcp.stores import MapStore

__all__ = ["compare", "known"]

INPUT = {"in": "put"}


def known(question: str) -> str:
    """Return the answer to a question."""
    return f"<{question}>"


@dataclass
class Branch:
    """A run and what has become of it."""

    checkpoint_id: str
    calls: Calls
    points: list[InterruptPoint]
    plain_runs: int = 0


class CutRun:
    """Takes one graph from stop to stop, on all branches that forks make."""

    def __init__(self, runner: Runner, spec: GraphSpec, rounds: int, seed: int, kinds: str) -> None:
        self.kinds = kinds
        self.runner = runner
        self.spec = spec
        self.rounds = rounds
        # Which nodes of an eager dag run before it halts may differ from run to run, so hypothesis can't be asked here.
        self.random = Random(seed)
        self.store = MapStore()
        self.branches: list[Branch] = []
        self.forks = 0

    def all_results(self) -> list[tuple[Any, Calls]]:
        """Return the result and the calls of each branch."""
        results: list[tuple[Any, Calls]] = []
        calls = Calls()
        self.branches.append(Branch("0", calls, []))
        result = self._step(self.branches[0], "invoke", INPUT, checkpoint_id="0")
        while self.branches:
            branch = self.branches[-1]
            for _ in range(300):
                if not branch.points:
                    break
                result = self._go_on(branch)
            assert not branch.points, "the run does not come to an end"
            results.append((result, branch.calls))
            self.branches.remove(branch)
        return results

    def _go_on(self, branch: Branch) -> Any:
        if branch.plain_runs < 2 and self.random.random() < 0.2:
            branch.plain_runs += 1
            return self._plain_run(branch)
        points = self.random.sample(branch.points, self.random.randint(1, len(branch.points)))
        answers = {point.id: self._answer(point) for point in points}
        source = branch.checkpoint_id
        options: dict[str, Any] = {}
        if self.forks < 2 and self.random.random() < 0.2:
            self.forks += 1
            self.branches.insert(0, Branch(source, copy.deepcopy(branch.calls), branch.points, branch.plain_runs))
            branch.checkpoint_id = options["write_to_checkpoint_id"] = f"{source}.{self.forks}"
        before, blob = copy.deepcopy(branch), self.store.get(source)
        result = self._step(branch, "resume", source, answers, **options)
        if options:
            assert self.store.get(source) == blob, "a fork changed its source"
        self._check_the_rest(before, branch, answers)
        return result

    def _answer(self, point: InterruptPoint) -> Any:
        """Answer a question; to a graph's own point, give its state back, or nothing."""
        if isinstance(point.info, str):
            return known(point.info)
        give_state = point.info is not None and self.random.random() < 0.5
        return copy.deepcopy(point.info) if give_state else NO_DATA

    def _plain_run(self, branch: Branch) -> Any:
        before = {point.id for point in branch.points if isinstance(point.info, str)}
        result = self._step(branch, "invoke", None, checkpoint_id=branch.checkpoint_id)
        assert before <= {point.id for point in branch.points}, "a question that was asked again has another id"
        return result

    def _check_the_rest(self, before: Branch, after: Branch, answers: dict[str, Any]) -> None:
        """See that what was not answered still waits under its id, and that its node was not entered."""
        rest = [point for point in before.points if point.id not in answers]
        open_since = {(point.id, point.created_at) for point in after.points}
        assert {(point.id, point.created_at) for point in rest} <= open_since, "an open point is gone"
        assert not answers.keys() & {point.id for point in after.points if isinstance(point.info, str)}
        named = {_owner(point) for point in before.points if point.id in answers}
        for owner in {_owner(point) for point in rest} - named:
            assert before.calls[owner] == after.calls[owner], f"{owner} was entered without an answer"

    def _step(self, branch: Branch, how: str, *arguments: Any, **options: Any) -> Any:
        builder = Builder(interrupt, branch.calls, isinstance(self.runner, AsyncRunner), stops=True)
        app = builder.app(self.spec, self.store, self.rounds)
        branch.points = []
        try:
            if self.random.choice(self.kinds) == "s":
                if how == "resume":
                    options.update(checkpoint_id=arguments[0], answers=arguments[1])
                    arguments = ()
                return concat(self.runner.stream(app, *arguments, **options))
            return getattr(self.runner, how)(app, *arguments, **options)
        except Interrupted as stop:
            branch.points = stop.interrupts
        stored = self.runner.pending(app, branch.checkpoint_id)
        assert [(point.id, point.info) for point in stored] == [(point.id, point.info) for point in branch.points]
        assert len({point.id for point in stored}) == len(stored)
        return None


def _owner(point: InterruptPoint) -> str:
    return point.info.partition("#")[0] if isinstance(point.info, str) else ""


def compare(runner: Runner, spec: GraphSpec, seed: int, rounds: int = 0, kinds: str = "v") -> None:
    """Run a graph, or a loop over it, uncut and cut, and compare.

    Args:
        runner: the driver.
        spec: the graph.
        seed: decides on what is answered when.
        rounds: how often a loop goes round it; 0 for no loop.
        kinds: of which kinds the cut run's steps are: ``v`` for value runs, ``s`` for stream runs, ``vs`` for both.
    """
    uncut = Calls()
    builder = Builder(known, uncut, isinstance(runner, AsyncRunner), stops=False)
    expected = runner.invoke(builder.app(spec, rounds=rounds), INPUT)
    finished, made = _counts(uncut, "done "), _counts(uncut, "made ")

    assert rounds or {*finished.values(), *made.values()} == {1}
    for result, calls in CutRun(runner, spec, rounds, seed, kinds).all_results():
        assert result == expected
        assert _counts(calls, "done ") == finished
        again = _counts(calls, "made ")
        assert again.keys() == made.keys()
        assert all(again[key] >= made[key] for key in made)


def _counts(calls: Calls, kind: str) -> dict[str, int]:
    return {key: count for key, count in calls.count.items() if key.startswith(kind)}
