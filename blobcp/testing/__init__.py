"""For those who write a store: proof that it keeps its promises, and stores that break theirs on purpose."""

from __future__ import annotations

from .faults import FailingStore, ForgetfulStore, SlowStore, TruncatingStore
from .kit import check_store
from .report import CheckResult, FailedChecksError, Outcome, Report

__all__ = [
    "CheckResult",
    "FailedChecksError",
    "FailingStore",
    "ForgetfulStore",
    "Outcome",
    "Report",
    "SlowStore",
    "TruncatingStore",
    "check_store",
]
