"""How much a run of the kit does, and what it may take for granted of the store."""

from __future__ import annotations

from dataclasses import dataclass

from blobcp.errors import OptionError

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of ``check_store``; it says what they mean.

    Raises:
        OptionError: one of them can't be carried out.
    """

    writers: int = 16
    rounds: int = 50
    large: int = 64 * 1024 * 1024
    many: int = 1100
    id_bytes: int = 512
    examples: int = 30
    steps: int = 20
    ttl: float = 1.2
    grace: float = 10.0
    timeout: float = 120.0
    persistent: bool | None = None
    shared: bool | None = None

    def __post_init__(self) -> None:
        least = {
            "writers": 2,
            "rounds": 1,
            "large": 1,
            "many": 1,
            "examples": 0,
            "steps": 1,
            "ttl": 0.1,
            "grace": 0,
            "timeout": 1,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if value < bound:
                raise OptionError(f"{name}={value!r} is too little to check a store with; give at least {bound}")

    @property
    def patience(self) -> float:
        """How many seconds a check waits for a part of it, so that it can say which one hangs before it is given up."""
        return self.timeout * 0.8
