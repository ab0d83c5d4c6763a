"""A random run of calls, judged against a plain dict; it needs hypothesis, the extra ``testing``.

The dict is the judge: nothing here goes through the code that a store may be made of.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hypothesis import HealthCheck, Phase, Verbosity, reject, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from blobcp.errors import CheckpointConflictError
from blobcp.store import CheckPointDeleter, CheckPointLister, CheckPointSwapper

from .bench import Bench
from .failing import Failed, doing, expect, expect_error, shown

__all__ = ["compare_with_dict"]

TAILS = st.sampled_from(["a", "a/b", "A", "a ", "é", "e\u0301", "%61", "..", "😀", "\uffee", "a*"]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6
)
BLOBS = st.sampled_from([b"", b"blob", b"BLOB", b"\x00" * 100]) | st.binary(max_size=40)
STARTS = st.sampled_from(["", "a", "a/", "A", "%", "é", "e", "..", "*"])

SHRINK_SECONDS = 5.0
"""How long a shorter way to a disagreement is looked for."""

MAX_REOPENINGS = 20
"""How often a run opens the store again; that can take long."""


def compare_with_dict(bench: Bench, *, reopening: bool) -> None:
    """Make random calls of a store and of a dict, as many as the options say, and compare what they give.

    Args:
        bench: the store.
        reopening: whether to open it again now and then.

    Raises:
        Failed: they disagree; the sentence has the shortest way there that was found.
    """
    found = _Found()
    how = settings(
        max_examples=bench.options.examples,
        stateful_step_count=bench.options.steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )
    try:
        # Whatever makes a machine is taken, says its documentation.
        run_state_machine_as_test(lambda: _Calls(bench, found, reopening=reopening), settings=how)  # type: ignore[arg-type]
    except Exception as error:
        # With a store that fails only now and then hypothesis ends in other ways than with the disagreement.
        if not found.sentence:
            raise
        raise Failed(f"{found.sentence}{', after ' if found.steps else ''}{'; '.join(found.steps)}") from error


class _Found:
    """The shortest way to a disagreement that was found so far."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.sentence = ""
        self.first: float | None = None
        self.examples = 0
        self.reopenings = 0

    def add(self, steps: list[str], sentence: str) -> None:
        if self.first is None:
            self.first = time.monotonic()
        if not self.sentence or (len(steps), len(sentence)) < (len(self.steps), len(self.sentence)):
            self.steps, self.sentence = steps, sentence

    def enough(self) -> bool:
        return self.first is not None and time.monotonic() - self.first > SHRINK_SECONDS


class _Calls(RuleBasedStateMachine):
    """One run of calls; ``model`` is what the store should hold."""

    def __init__(self, bench: Bench, found: _Found, *, reopening: bool) -> None:
        super().__init__()
        if found.enough():
            reject()
        self.bench = bench
        self.found = found
        self.reopening = reopening
        self.model: dict[str, bytes] = {}
        self.versions: dict[str, dict[str, bytes]] = {}
        self.steps: list[str] = []
        self.failed = False
        found.examples += 1
        self.root = f"{found.examples}/"

    @rule(tail=TAILS, blob=BLOBS)
    def set(self, tail: str, blob: bytes) -> None:
        with self._step(f"set({tail!r}, {shown(blob)})"):
            self.bench.store.set(self._id(tail), blob)
            self.model[self._id(tail)] = blob

    @rule(tail=TAILS)
    def get(self, tail: str) -> None:
        with self._step(f"get({tail!r})"):
            expect(f"get({tail!r})", self.bench.get(self._id(tail)), self.model.get(self._id(tail)))

    @precondition(lambda self: self.bench.has(CheckPointDeleter))
    @rule(tail=TAILS)
    def delete(self, tail: str) -> None:
        with self._step(f"delete({tail!r})"):
            self.bench.deleter.delete(self._id(tail))
            self.model.pop(self._id(tail), None)

    @precondition(lambda self: self.bench.has(CheckPointLister))
    @rule(start=STARTS)
    def list(self, start: str) -> None:
        with self._step(f"list({start!r})"):
            found = [*self.bench.lister.list(self._id(start))]
            expect(f"list({start!r})", found, sorted(each for each in self.model if each.startswith(self._id(start))))

    @precondition(lambda self: self.bench.has(CheckPointSwapper))
    @rule(tail=TAILS, blob=BLOBS)
    def set_if_seen(self, tail: str, blob: bytes) -> None:
        with self._step(f"set_if({tail!r}, {shown(blob)}, its version)"):
            version = self._seen(tail)
            new = self.bench.swapper.set_if(self._id(tail), blob, version)
            self.model[self._id(tail)] = blob
            expect(f"set_if({tail!r}, ...)", new, self._seen(tail))

    @precondition(lambda self: self.bench.has(CheckPointSwapper))
    @rule(tail=TAILS, blob=BLOBS, which=st.integers(0, 5))
    def set_if_stale(self, tail: str, blob: bytes, which: int) -> None:
        checkpoint_id = self._id(tail)
        now = self.model.get(checkpoint_id)
        # Where a version is made of the bytes, that of equal bytes is as good as the present one.
        stale = [version for version, old in self.versions.get(checkpoint_id, {}).items() if old != now]
        refused: builtins.list[str | None] = [*stale, None] if now is not None else [*stale, "no version"]
        version = refused[which % len(refused)]
        with self._step(f"set_if({tail!r}, {shown(blob)}, {version!r})"):
            call = partial(self.bench.swapper.set_if, checkpoint_id, blob, version)
            expect_error(f"set_if({tail!r}) with a version that is not the present one", call, CheckpointConflictError)
            expect(f"get({tail!r})", self.bench.get(checkpoint_id), now)

    @precondition(lambda self: self.reopening)
    @rule()
    def reopen(self) -> None:
        with self._step("opening it again"):
            if self.found.reopenings < MAX_REOPENINGS:
                self.found.reopenings += 1
                self.bench.medium.reopen()
            self._compare_all()

    def teardown(self) -> None:
        with self._step("looking at all"):
            if not self.failed:
                self._compare_all()
            if self.bench.has(CheckPointDeleter):
                for checkpoint_id in self.model:
                    self.bench.deleter.delete(checkpoint_id)

    def _compare_all(self) -> None:
        for checkpoint_id, blob in self.model.items():
            tail = checkpoint_id.removeprefix(self._id(""))
            expect(f"get({tail!r})", self.bench.get(checkpoint_id), blob)

    def _id(self, tail: str) -> str:
        return self.bench.id(self.root + tail)

    def _seen(self, tail: str) -> str | None:
        checkpoint_id = self._id(tail)
        found = self.bench.swapper.get_versioned(checkpoint_id)
        blob = self.model.get(checkpoint_id)
        if found is None or blob is None:
            expect(f"get_versioned({tail!r})", found, blob)
            return None
        expect(f"get_versioned({tail!r})", found, (blob, found[1]))
        self.versions.setdefault(checkpoint_id, {})[found[1]] = blob
        return found[1]

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        self.steps.append(what)
        try:
            with doing(what):
                yield
        except Failed as error:
            self.failed = True
            self.found.add(self.steps[:-1], str(error).replace(self.bench.prefix + self.root, ""))
            raise
