"""Running something in the child of a fork, within a limit."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

__all__ = ["run_in_child"]

LIMIT = 30


def run_in_child(task: Callable[[], object]) -> int:
    """Run a task in a forked child; return the child's exit code: 0, or 1 where the task raised something."""
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)  # ends the child where it hangs
        code = 1
        try:
            task()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
