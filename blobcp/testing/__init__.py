"""For those who write a store: proof that it keeps its promises, and stores that break on purpose."""

from __future__ import annotations

from .kit import check_store
from .report import CheckResult, FailedChecksError, Outcome, Report

__all__ = ["CheckResult", "FailedChecksError", "Outcome", "Report", "check_store"]
