"""How ids, sizes, times and durations read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

from blobcp.migrations.texts import printable

__all__ = ["ago", "duration", "printable", "shown_id", "shown_size", "shown_time"]

_UNITS = {"w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_SECONDS = {**_UNITS, "s": timedelta(seconds=1)}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


def duration(text: str) -> timedelta:
    """Return the time that a text names.

    Args:
        text: numbers with a unit each: w, d, h, m or s.

    Raises:
        ValueError: it names none.

    >>> duration("7d"), duration("1h30m")
    (datetime.timedelta(days=7), datetime.timedelta(seconds=5400))
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no time; say 45s, 30m, 12h, 7d, 2w or 1d12h")
    try:
        return sum((float(number) * _SECONDS[unit] for number, unit in parts), timedelta())
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than can be reckoned with") from error


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment is, in its largest unit.

    >>> ago(datetime(2026, 11, 1), datetime(2026, 11, 5, 12))
    '4d'
    """
    passed = now - moment
    for unit, length in _UNITS.items():
        if passed >= length:
            return f"{passed // length}{unit}"
    return f"{max(passed // _SECONDS['s'], 0)}s"


def shown_time(moment: datetime) -> str:
    """Return a moment in UTC, to the second.

    >>> shown_time(datetime(2026, 11, 3, 9, 8, 7, 654, tzinfo=UTC))
    '2026-11-03T09:08:07Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown_size(size: int) -> str:
    """Return a number of bytes for people.

    >>> shown_size(999), shown_size(20_480), shown_size(3_000_000_000)
    ('999 B', '20.5 kB', '3.0 GB')
    """
    if size < 1000:
        return f"{size} B"
    number, units = float(size), ["kB", "MB", "GB"]
    while number >= 999.95 and units:
        number /= 1000
        unit = units.pop(0)
    return f"{number:.1f} {unit}"


def shown_id(checkpoint_id: str) -> str:
    r"""Return an id as one word: as it is, or quoted as JSON quotes, where it would not be seen for what it is.

    >>> print(shown_id("orders/7"), shown_id("two words"), shown_id("☕\n"))
    orders/7 "two words" "☕\n"
    """
    if checkpoint_id.isprintable() and not set(checkpoint_id) & set(" \"'\\"):
        return checkpoint_id
    return printable(json.dumps(checkpoint_id, ensure_ascii=False))
