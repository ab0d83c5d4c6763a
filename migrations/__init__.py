"""Bring stored checkpoints up to the code that is to load them.

:func:`migrate_checkpoint_state` changes the states in one blob. :class:`Migrations` has the steps from each version of an
application's checkpoints to the next; ``graph.compile(migrations=...)`` takes them at each load, and
:meth:`Migrations.apply` for one blob.
"""

from __future__ import annotations

from .chain import Migrations
from .dropped import Dropped
from .migrated import Migrated
from .nodes import remove_node, rename_node
from .one_blob import migrate_checkpoint_state
from .operations import Operation, add_field, drop_field, map_enum_value, move_type, rename_field, rename_type

__all__ = [
    "Dropped",
    "Migrated",
    "Migrations",
    "Operation",
    "add_field",
    "drop_field",
    "map_enum_value",
    "migrate_checkpoint_state",
    "move_type",
    "remove_node",
    "rename_field",
    "rename_node",
    "rename_type",
]
