"""What a call of an app asks for, checked before anything is read or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from blobcp.cancel import CancelToken
from blobcp.errors import OptionError
from blobcp.graph.answers import Answers
from blobcp.graph.node import is_limit
from blobcp.graph.plan import GraphPlan
from blobcp.store import check_id

__all__ = ["MISSING", "RunOptions", "resume_options", "run_options"]


class Missing:
    """The type of :data:`MISSING`."""

    def __repr__(self) -> str:
        return "<no answer>"


MISSING: Final = Missing()
"""No bare answer was given; any value, ``None`` included, is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one call of an app asks for, checked."""

    read_id: str | None = None
    write_id: str | None = None
    insist: bool = False
    answers: Answers | None = None
    bare: list[Any] = field(default_factory=list)
    max_steps: int | None = None
    concurrency: int | None = None
    cancel: CancelToken | None = None

    @property
    def forks(self) -> bool:
        """Whether the run is to go on under another id."""
        return self.read_id is not None and self.write_id != self.read_id

    @property
    def uses_store(self) -> bool:
        """Whether there is anything to load or save."""
        return self.read_id is not None or self.write_id is not None

    @property
    def needs_checkpoint(self) -> bool:
        """Whether there must be something to go on with."""
        return self.insist or self.forks or bool(self.answers)


def run_options(
    plan: GraphPlan,
    checkpoint_id: str | None,
    write_to: str | None,
    force_new_run: bool,
    answers: Answers | None,
    max_steps: int | None,
    concurrency: int | None,
    cancel: CancelToken | None,
) -> RunOptions:
    """Return the options of `App.invoke`, checked.

    Raises:
        OptionError: they can't be carried out, or contradict each other.
        InvalidCheckpointIdError: an id is none.
    """
    if isinstance(answers, Mapping) and answers and (checkpoint_id is None or force_new_run):
        raise OptionError(
            "answers were given for a run that loads no checkpoint; give its checkpoint_id, without force_new_run"
        )
    if checkpoint_id is not None:
        check_id(checkpoint_id)
    return _checked(
        plan,
        RunOptions(
            read_id=None if force_new_run else checkpoint_id,
            write_id=write_to if write_to is not None else checkpoint_id,
            answers=answers,
            max_steps=max_steps,
            concurrency=concurrency,
            cancel=cancel,
        ),
    )


def resume_options(
    plan: GraphPlan,
    checkpoint_id: str,
    write_to: str | None,
    answers: Answers | None,
    answer: Any,
    max_steps: int | None,
    concurrency: int | None,
    cancel: CancelToken | None,
) -> RunOptions:
    """Return the options of `App.resume`, checked; raises as `run_options` does."""
    if answers is not None and answer is not MISSING:
        raise OptionError("both answers and answer were given; give one of them")
    return _checked(
        plan,
        RunOptions(
            read_id=checkpoint_id,
            write_id=write_to if write_to is not None else checkpoint_id,
            insist=True,
            answers=answers,
            bare=[] if answer is MISSING else [answer],
            max_steps=max_steps,
            concurrency=concurrency,
            cancel=cancel,
        ),
    )


def _checked(plan: GraphPlan, options: RunOptions) -> RunOptions:
    for id in (options.read_id, options.write_id):
        if id is not None or options.insist:
            check_id(id)  # type: ignore[arg-type]  # None is refused there
    if options.answers is not None and not isinstance(options.answers, Mapping):
        raise OptionError(
            f"answers is {type(options.answers).__qualname__}; give a mapping of interrupt ids to data, or answer= for one"
        )
    if options.max_steps is not None and plan.mode == "dag":
        raise OptionError("max_steps is for pregel mode; a dag can't loop, so leave it out")
    for name, limit in (("max_steps", options.max_steps), ("concurrency", options.concurrency)):
        if limit is not None and not is_limit(limit):
            raise OptionError(f"{name}={limit!r} is no limit; give an int of at least 1")
    if options.cancel is not None and not isinstance(options.cancel, CancelToken):
        raise OptionError(f"cancel={options.cancel!r} is no CancelToken; make one for this run")
    return options
