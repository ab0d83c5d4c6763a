"""What objects with locks or threads do in the child of a fork, where a lock may be held by nobody and no thread runs."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "watch_forks"]


class Forkable(Protocol):
    """An object that can start over in a child process."""

    def after_fork(self) -> None:
        """Replace locks and whatever belongs to the parent; called in the child, before anything else runs there."""
        ...


def watch_forks(forkable: Forkable) -> None:
    """Call ``after_fork`` of the object in every child process, as long as the object lives."""
    _watched.add(forkable)


_watched: WeakSet[Forkable] = WeakSet()


def _tell_all() -> None:
    for forkable in list(_watched):
        forkable.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_tell_all)
