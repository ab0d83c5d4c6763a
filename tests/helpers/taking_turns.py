"""Runs a few calls at once in an order that a test says, one step each time: what a race does, without luck."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

__all__ = ["KilledError", "Turns", "all_orders"]

LIMIT = 30.0


class KilledError(BaseException):
    """Ends a task in the middle, as the end of its process would."""


class Turns:
    """Tasks that stop at each call of `step` until it is their turn.

    Attributes:
        step: a hook for watched stores; calls from other threads pass.
        trouble: called before each step with the number of the task and of its step; what it raises comes out of the step.
    """

    def __init__(self, trouble: Callable[[int, int], None] = lambda task, step: None) -> None:
        self.trouble = trouble
        self._turns: dict[int, threading.Semaphore] = {}
        self._steps: dict[int, int] = {}
        self._stopped = threading.Semaphore(0)
        self._running = threading.local()

    def run(self, order: Iterable[int], *tasks: Callable[[], object]) -> list[BaseException | None]:
        """Run the tasks, each step by the task whose number is next in the order, then what is left one by one.

        Returns:
            What each task raised.
        """
        problems: list[BaseException | None] = [None] * len(tasks)
        threads = []
        for number, task in enumerate(tasks):
            self._turns[number], self._steps[number] = threading.Semaphore(0), 0
            threads.append(threading.Thread(target=self._run, args=(number, task, problems)))
            threads[-1].start()
        left = [number for number in range(len(tasks)) for _ in range(100)]
        for number in [*order, *left]:
            if threads[number].is_alive() and self._steps[number] >= 0:
                self._turns[number].release()
                assert self._stopped.acquire(timeout=LIMIT)
        for thread in threads:
            thread.join(LIMIT)
        return problems

    def step(self, method: str, checkpoint_id: str) -> None:
        number = getattr(self._running, "number", None)
        if number is None:
            return
        step = self._steps[number]
        self._steps[number] += 1
        if step:
            self._stopped.release()
            assert self._turns[number].acquire(timeout=LIMIT)
        self.trouble(number, step)

    def _run(self, number: int, task: Callable[[], object], problems: list[BaseException | None]) -> None:
        assert self._turns[number].acquire(timeout=LIMIT)
        self._running.number = number
        try:
            task()
        except BaseException as error:
            problems[number] = error
        finally:
            self._steps[number] = -1
            self._stopped.release()


def all_orders(first: int, second: int) -> Iterator[list[int]]:
    """Yield every way to order that many steps of task 0 and of task 1."""
    for places in combinations(range(first + second), first):
        yield [0 if place in places else 1 for place in range(first + second)]
