"""How a job is done, whatever it does to the blobs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

from blobcp.errors import OptionError

from .journal import FileJournal, Journal
from .report import JobReport

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a job is done; see `MigrationJob` for each.

    Raises:
        OptionError: one of them can't be carried out.
    """

    workers: int = 1
    executor: Executor | None = None
    batch_size: int = 32
    journal: str | os.PathLike[str] | Journal | None = None
    on_error: Literal["skip", "stop"] = "skip"
    rate: float | None = None
    tries: int = 5
    progress: bool | Literal["auto"] = False
    total: int | None = None
    on_progress: Callable[[JobReport], None] | None = None
    samples: int = 0

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("batch_size", 1), ("tries", 1), ("samples", 0)):
            number = getattr(self, name)
            if type(number) is not int or number < least:
                raise OptionError(f"{name}={number!r} can't be; give an int of at least {least}")
        if self.on_error not in ("skip", "stop"):
            raise OptionError(f'on_error={self.on_error!r} is not known; give "skip" or "stop"')
        if self.rate is not None and not (isinstance(self.rate, int | float) and 0 < self.rate < math.inf):
            raise OptionError(f"rate={self.rate!r} is no number of blobs a second; give one above zero")
        if self.progress not in (True, False, "auto"):
            raise OptionError(f'progress={self.progress!r} is not known; give True, False or "auto"')
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise OptionError(
                f"{self.executor!r} is no executor; give one of concurrent.futures, or one that is like them"
            )
        if not (self.journal is None or isinstance(self.journal, str | os.PathLike) or hasattr(self.journal, "begin")):
            raise OptionError(f"{self.journal!r} is no journal; give the path of a file, or StoreJournal(store, key)")

    @property
    def size(self) -> int:
        """How many blobs are in a batch: so few that a limited rate is kept from one second to the next."""
        return self.batch_size if self.rate is None else max(1, min(self.batch_size, int(self.rate)))

    def journal_of(self) -> Journal | None:
        """Return the journal, if there is to be one."""
        return FileJournal(self.journal) if isinstance(self.journal, str | os.PathLike) else self.journal
