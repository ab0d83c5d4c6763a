"""Running checks one after the other, each with a limit, and noting what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from blobcp.errors import text_of

from .bench import Bench, Check, Look
from .failing import STORE_ERRORS, Failed, NotOffered, sentence_of
from .medium import Medium
from .options import Options
from .report import CheckResult, Outcome
from .waiting import HangsError, Worker

__all__ = ["run_groups"]


def run_groups(
    groups: Sequence[Sequence[Check]], medium: Medium, options: Options, worker: Worker
) -> list[CheckResult]:
    """Run all checks; those of a group that have to wait for something wait at the same time.

    Args:
        groups: the checks.
        medium: where the store is.
        options: how much to do.
        worker: the thread that opened the store.
    """
    numbers = count(1)
    results: list[CheckResult] = []
    for group in groups:
        running = [_Running(check, Bench(medium, options, next(numbers))) for check in group]
        for each in running:
            each.go_on(worker, each.begin)
        for each in running:
            if each.look is not None:
                each.go_on(worker, each.look)
        results += [each.result() for each in running]
    return results


@dataclass(slots=True)
class _Running:
    check: Check
    bench: Bench
    look: Look | None = None
    outcome: Outcome = Outcome.PASSED
    sentence: str = ""
    seconds: float = 0.0

    def begin(self) -> None:
        reason = self.check.reason_against(self.bench.store)
        if reason:
            raise NotOffered(reason)
        self.look = self.check.run(self.bench)

    def go_on(self, worker: Worker, call: Callable[[], None]) -> None:
        begun, hung_before = time.monotonic(), worker.hangs
        try:
            worker.call(call, self.bench.options.timeout)
        except NotOffered as reason:
            self.outcome, self.sentence = Outcome.NOT_OFFERED, str(reason)
        except Failed as failure:
            self.outcome, self.sentence = Outcome.FAILED, self._sentence(str(failure))
        except HangsError:
            limit = f"did not come to an end in {self.bench.options.timeout:g} s"
            self.outcome, self.sentence = (
                Outcome.FAILED,
                "was not run, since one before hangs" if hung_before else limit,
            )
        except STORE_ERRORS as error:
            self.outcome, self.sentence = Outcome.FAILED, self._sentence(f"the store raised {text_of(error)}")
        self.seconds += time.monotonic() - begun

    def _sentence(self, text: str) -> str:
        return sentence_of(text, self.bench.medium.root)

    def result(self) -> CheckResult:
        return CheckResult(
            capability=self.check.capability,
            name=self.check.name,
            outcome=self.outcome,
            sentence=self.sentence,
            seconds=self.seconds,
        )
