"""``python -m blobcp.testing MODULE:make_store``: check a store from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from blobcp.by_name import found
from blobcp.errors import BlobcpError, OptionError

from .kit import GROUPS, check_store
from .options import Options

__all__ = ["main"]

ALL_PASSED, SOME_FAILED, MISUSED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the store that the arguments name, print the report and return the exit status.

    Args:
        arguments: those of the command line; its own if not given.
    """
    given = vars(_parser().parse_args(arguments))
    as_json = given.pop("json")
    try:
        report = check_store(_opener(given.pop("make_store")), **given)
    except BlobcpError as error:
        print(f"error: {error}", file=sys.stderr)
        return MISUSED
    print(json.dumps(report.as_dict(), indent=2) if as_json else report)
    return SOME_FAILED if report.failed else ALL_PASSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m blobcp.testing",
        description="Check that a store keeps the promises of blobcp.store. "
        "The exit status is 0 if no check failed, 1 if one did, and 2 if the store can't be opened.",
    )
    parser.add_argument(
        "make_store", metavar="MODULE:NAME", help="what opens the store: a function or class without arguments"
    )
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    names = ", ".join(GROUPS)
    parser.add_argument(
        "--only", action="append", default=[], metavar="CAPABILITY", help=f"check this, or several: {names}"
    )
    for name, (metavar, meaning) in NUMBERS.items():
        default = getattr(Options(), name)
        how = f"{meaning} (%(default)s)"
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, metavar=metavar, help=how
        )
    for name, meaning in SWITCHES.items():
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=meaning)
    return parser


NUMBERS = {
    "writers": ("N", "threads that write at once"),
    "rounds": ("N", "races of each kind"),
    "large": ("BYTES", "size of the large blob"),
    "many": ("N", "ids that are listed at once"),
    "id_bytes": ("BYTES", "longest id that the store takes"),
    "examples": ("N", "random runs that are compared with those of a dict; 0 needs no hypothesis"),
    "steps": ("N", "calls of each of them"),
    "ttl": ("SECONDS", "how long an expiring blob lives"),
    "grace": ("SECONDS", "how much later it may be gone"),
    "timeout": ("SECONDS", "how long one check may take"),
}

SWITCHES = {
    "persistent": "whether what is stored has to be there when the store is opened again; found out if not said",
    "shared": "whether two openings at once have to see each other's writes; found out if not said",
}


def _opener(name: str) -> Callable[[], object]:
    opener = found(name)
    if not callable(opener):
        raise OptionError(f"{name} is {opener!r}; name a function or class that opens the store")
    return opener


if __name__ == "__main__":
    sys.exit(main())
