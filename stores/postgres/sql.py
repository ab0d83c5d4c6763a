"""The table of the Postgres stores: its layout, and the text of every statement.

Ids are compared by their UTF-8 bytes (``COLLATE "C"``), which is code-point order. A version is a random UUID drawn by
the writer: none ever comes back, not after a delete either, and a writer knows its own again. That lets each statement
be sent a second time without harm: the conditional ones also hold where the stored version is the one they write.

``LAYOUT`` is noted in the table's comment. A later layout that this release must not touch has to rename a column, so
that the statements here fail instead of doing half of what is right; nothing has to be asked beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

from blobcp.errors import StoreError

__all__ = ["LAYOUT", "PAGE", "Statements", "first_after", "statements"]

LAYOUT = 1
"""The layout of the table that this release reads and writes."""

PAGE = 1000
"""How many ids one listing statement returns, and how many rows one purge statement removes."""

MAX_TABLE_NAME = 48  # bytes; Postgres cuts names at 63, and the index is named after the table

CREATION_LOCK = 0x626C6F626370  # any number that every blobcp uses; the lock is one of a database

_LIVE = "(expires_at IS NULL OR expires_at > clock_timestamp())"


@dataclass(frozen=True)
class Statements:
    """The SQL for one table; ``%s`` and ``%b`` stand for what is in the comment beside each."""

    table: str  # as SQL names it
    setup: str
    look: str  # table
    verify: str
    get: str  # id
    get_versioned: str  # id
    set: str  # id, blob, new version, time to live or NULL
    set_new: str  # id, blob, new version
    set_if: str  # blob, new version, id, old version, new version
    delete: str  # id
    page: str  # lower bound, last id before the page
    page_below: str  # the same, and upper bound
    purge: str


def statements(table: str, schema: str | None) -> Statements:
    """Return the SQL for a table.

    Args:
        table: its name, which is quoted: capitals count.
        schema: where it is; ``None``: wherever the connection's ``search_path`` says.

    Raises:
        StoreError: a name is none for Postgres.
    """
    index = _quoted(f"{_checked('table', table)}_expires_at")
    name = _quoted(table) if schema is None else f"{_quoted(_checked('schema', schema))}.{_quoted(table)}"
    held = name.replace("%", "%%")  # in statements with parameters a percent sign is doubled
    insert = f"INSERT INTO {held} AS stored (id, blob, version, expires_at) VALUES (%s, %b, %b, "
    replace = " ON CONFLICT (id) DO UPDATE SET blob = excluded.blob, version = excluded.version, expires_at = excluded.expires_at"
    page = f"SELECT id FROM {held} WHERE id >= %s AND id > %s AND {_LIVE}"
    expired = "expires_at <= clock_timestamp()"
    return Statements(
        table=name,
        setup=_setup(name, index),
        look="SELECT to_regclass(%s) IS NOT NULL, obj_description(to_regclass(%s), 'pg_class')",
        verify=f"SELECT id, blob, version, expires_at FROM {name} LIMIT 0",
        get=f"SELECT blob FROM {held} WHERE id = %s AND {_LIVE}",
        get_versioned=f"SELECT blob, version FROM {held} WHERE id = %s AND {_LIVE}",
        set=f"{insert}clock_timestamp() + %s::interval){replace}",
        set_new=f"{insert}NULL){replace} WHERE stored.{expired} OR stored.version = excluded.version",
        set_if=f"UPDATE {held} SET blob = %b, version = %b, expires_at = NULL "
        f"WHERE id = %s AND (version = %b AND {_LIVE} OR version = %b)",
        delete=f"DELETE FROM {held} WHERE id = %s",
        page=f"{page} ORDER BY id LIMIT {PAGE}",
        page_below=f"{page} AND id < %s ORDER BY id LIMIT {PAGE}",
        # Rows that somebody is just writing are left for the next purge; a plain DELETE would wait for them.
        purge=f"DELETE FROM {name} WHERE {expired} AND id IN "
        f"(SELECT id FROM {name} WHERE {expired} ORDER BY expires_at LIMIT {PAGE} FOR UPDATE SKIP LOCKED)",
    )


def first_after(prefix: str) -> str | None:
    r"""Return the first text, in code-point order, after all that start with ``prefix``; ``None`` where there is none.

    >>> first_after("order-"), first_after("a\U0010ffff"), first_after("")
    ('order.', 'b', None)
    """
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates are no characters; U+E000 comes next after U+D7FF.
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def _setup(name: str, index: str) -> str:
    # CREATE ... IF NOT EXISTS fails where two run it at the same moment, so they queue up for a lock.
    return f"""\
BEGIN;
SELECT pg_advisory_xact_lock({CREATION_LOCK});
CREATE TABLE IF NOT EXISTS {name} (
    id text COLLATE "C" PRIMARY KEY,
    blob bytea NOT NULL,
    version uuid NOT NULL,
    expires_at timestamptz
);
CREATE INDEX IF NOT EXISTS {index} ON {name} (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON TABLE {name} IS 'blobcp checkpoints, layout {LAYOUT}';
COMMIT;
"""


def _checked(kind: str, name: str) -> str:
    if not 0 < len(name.encode(errors="replace")) <= MAX_TABLE_NAME or not name.isprintable():
        raise StoreError(
            f"{name!r} can't be a {kind} of checkpoints; give a name of 1 to {MAX_TABLE_NAME} bytes without control characters"
        )
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
