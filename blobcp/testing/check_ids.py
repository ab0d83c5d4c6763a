"""Checks of ids: each that is allowed has a blob of its own, and all others are refused."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from blobcp.errors import InvalidCheckpointIdError
from blobcp.store import CheckPointDeleter, CheckPointExpirer, CheckPointSwapper

from .bench import Bench, Checks
from .failing import expect, expect_error, shown
from .odd_ids import KINDS, NO_IDS, WHOLE

__all__ = ["IDS", "keep_apart", "long_tails"]

IDS = Checks("ids")


def _each_kind() -> None:
    for kind, tails in KINDS.items():
        IDS.check(f"{kind} are kept apart")(partial(_keeps_kind_apart, tails))


def _keeps_kind_apart(tails: list[str], bench: Bench) -> None:
    keep_apart(bench, map(bench.id, tails))


_each_kind()


@IDS.check("odd beginnings are kept apart")
def odd_beginnings(bench: Bench) -> None:
    unique = bench.prefix.replace("/", "-")
    keep_apart(bench, (bench.claim(whole.format(unique)) for whole in WHOLE))


@IDS.check("ids that begin other ids are kept apart")
def beginnings(bench: Bench) -> None:
    path = "a/b.c/d e/f" * 3
    keep_apart(bench, (bench.id(path[:length]) for length in range(1, len(path) + 1)))


@IDS.check("long ids are kept apart")
def long_ids(bench: Bench) -> None:
    keep_apart(bench, map(bench.id, long_tails(bench)))


@IDS.check("get and set refuse what is no id with InvalidCheckpointIdError")
def refused(bench: Bench) -> None:
    for what, wrong in NO_IDS.items():
        expect_error(f"get of {what}", partial(bench.store.get, wrong), InvalidCheckpointIdError)
        expect_error(f"set of {what}", partial(bench.store.set, wrong, b""), InvalidCheckpointIdError)


@IDS.check("delete refuses what is no id with InvalidCheckpointIdError", CheckPointDeleter)
def refused_by_delete(bench: Bench) -> None:
    for what, wrong in NO_IDS.items():
        expect_error(f"delete of {what}", partial(bench.deleter.delete, wrong), InvalidCheckpointIdError)


@IDS.check("get_versioned and set_if refuse what is no id with InvalidCheckpointIdError", CheckPointSwapper)
def refused_by_swapping(bench: Bench) -> None:
    for what, wrong in NO_IDS.items():
        expect_error(f"get_versioned of {what}", partial(bench.swapper.get_versioned, wrong), InvalidCheckpointIdError)
        expect_error(f"set_if of {what}", partial(bench.swapper.set_if, wrong, b"", None), InvalidCheckpointIdError)


@IDS.check("set_expiring refuses what is no id with InvalidCheckpointIdError", CheckPointExpirer)
def refused_by_expiring(bench: Bench) -> None:
    for what, wrong in NO_IDS.items():
        call = partial(bench.expirer.set_expiring, wrong, b"", timedelta(hours=1))
        expect_error(f"set_expiring of {what}", call, InvalidCheckpointIdError)


def keep_apart(bench: Bench, checkpoint_ids: Iterable[str]) -> dict[str, bytes]:
    """Store a blob of its own under each id, all before the first is read; return the blobs by their ids."""
    blobs = {checkpoint_id: checkpoint_id.removeprefix(bench.prefix).encode() for checkpoint_id in checkpoint_ids}
    for checkpoint_id, blob in blobs.items():
        expect(f"get({shown(checkpoint_id)}), before it was stored,", bench.get(checkpoint_id), None)
        bench.store.set(checkpoint_id, blob)
    for checkpoint_id, blob in blobs.items():
        expect(f"get({shown(checkpoint_id)}), after others like it were stored,", bench.get(checkpoint_id), blob)
    return blobs


def long_tails(bench: Bench) -> list[str]:
    """Return ends that make the longest ids of all, and such as differ from them only at the end."""
    room = bench.options.id_bytes - len(bench.prefix.encode())
    return [
        *("a" * size for size in (room // 2, room // 2 + 1, room - 2, room - 1, room)),
        "a" * (room - 1) + "b",
        "a/" * (room // 2),
        "%" * room,
        "A" * room,
        "é" * (room // 2),
        "😀" * (room // 4),
    ]
